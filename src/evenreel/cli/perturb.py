"""`evenreel perturb`: a corpus with edited captions under the same ids, for the audits textual and composition."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from operator import ne
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli.options import CorpusClips, JsonOption, from_settings
from evenreel.cli.show_library import console, print_json, safe
from evenreel.config import OptionForm
from evenreel.errors import CorpusError, UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.language.taggers import TaggerName
    from evenreel.types import Corpus

CONTROL, PARAPHRASED = "control", "paraphrased"
KEEP_HELP = "Also write captions in which nothing is to be changed, for which an audit would see no movement."
EXAMPLES = 3


@dataclass(frozen=True)
class CaptionEdit:
    """One edit of captions, and what it needs.

    Attributes:
        edit: `style-removed`, `style-swapped`, `content-removed`, `content-swapped`, `paraphrased` or `control`; for
            the audit composition `role-swapped`, `attribute-swapped`, `relation-swapped`, `negated`, `affirmed`, and
            for its questions of four answers `true-affirmation`, `true-negation`, `true-hybrid` and the same, `false-`.
        patterns: for paraphrased: words around {caption}, such as 'in this video, {caption}'; again for another
            pattern.
        paraphrases: for paraphrased: csv, parquet or the like with the columns caption_id and paraphrase.
        tagger: `auto`, `pattern` or `spacy`; `auto` is spaCy where a model is installed.
        seed: seed of what is drawn: lenders, patterns.
    """

    edit: str
    patterns: Annotated[tuple[str, ...], OptionForm("--pattern")] = ()
    paraphrases: Path | None = None
    tagger: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        from evenreel.language.composition import EDITS as COMPOSED
        from evenreel.language.wording import EDITS

        known = (*EDITS, *COMPOSED, PARAPHRASED, CONTROL)
        if self.edit not in known:
            raise UsageError(f"{self.edit!r} is no edit of captions; there are: {', '.join(known)}.")
        if self.edit == PARAPHRASED and (not self.patterns) == (self.paraphrases is None):
            raise UsageError("--edit paraphrased goes with either --pattern or --paraphrases; give one of the two.")
        if self.edit != PARAPHRASED and (self.patterns or self.paraphrases):
            raise UsageError("--pattern and --paraphrases go with --edit paraphrased; leave them out.")

    def texts(self, corpus: Corpus) -> list[str]:
        """Edit the captions of a corpus, in their order."""
        from evenreel.language import load_tagger
        from evenreel.language.composition import EDITS as COMPOSED
        from evenreel.language.composition import recomposed
        from evenreel.language.wording import paraphrased, restyled, toggle_marks

        texts = corpus.captions["text"].to_list()
        if self.edit == CONTROL:
            return [*map(toggle_marks, texts)]
        if self.paraphrases is not None:
            from evenreel.corpus.formats.plain_tables import read_paraphrases

            given = read_paraphrases(self.paraphrases, corpus)
            return [
                given.get(caption, text) for caption, text in zip(corpus.captions["caption_id"], texts, strict=True)
            ]
        if self.edit == PARAPHRASED:
            return paraphrased(texts, self.patterns, self.seed)
        tagger = load_tagger(cast("TaggerName", self.tagger))
        edited = recomposed if self.edit in COMPOSED else restyled
        return edited(self.edit, texts, corpus.captions["clip_id"].to_list(), tagger, self.seed)


def perturb(
    out: Annotated[Path, typer.Option(help="Folder of the corpus with the edited captions.")],
    clips: CorpusClips = from_settings(CorpusClips, leave_out=("videos",)),
    edit: CaptionEdit = from_settings(CaptionEdit),
    keep_unchanged: Annotated[bool, typer.Option("--keep-unchanged", help=KEEP_HELP)] = False,
    as_json: JsonOption = False,
) -> None:
    """Edit the captions of a corpus, in style, content or who acts; ids and clips stay, so that scores compare.

    Captions in which nothing is to be changed, or no more than capital and full stop, are left out.
    """
    import polars as pl

    from evenreel.corpus import make_corpus, save_corpus
    from evenreel.corpus.tables import copy_class_names
    from evenreel.language.wording import differ_in_words

    folder = clips.folder
    if any((out / name).exists() for name in ("clips.parquet", "captions.parquet")):
        what = "is the corpus itself" if out.resolve() == folder.resolve() else "holds a corpus already"
        raise CorpusError(f"{out} {what}; give --out another folder.")
    corpus = clips.load()
    texts = edit.texts(corpus)
    differ = ne if edit.edit == CONTROL else differ_in_words  # what changes no more than the control does is no edit
    changed = [*map(differ, corpus.captions["text"], texts)]
    if not any(changed):
        raise CorpusError(
            f"In none of the {len(texts):,} captions of {folder} is anything to be changed by {edit.edit!r}."
        )
    edited = corpus.captions.with_columns(pl.Series("text", texts, dtype=pl.String))
    save_corpus(make_corpus(corpus.clips, edited if keep_unchanged else edited.filter(pl.Series(changed))), out)
    copy_class_names(folder, out)
    pairs = list(compress(zip(corpus.captions["text"], texts, strict=True), changed))
    captions, still = len(texts), len(texts) - len(pairs)
    written = captions if keep_unchanged else len(pairs)
    if as_json:
        print_json({"corpus": out, "captions": written, "changed": len(pairs), "left_out": captions - written})
        return
    terminal = console()
    terminal.print(f"Wrote {safe(out)}: {count(written, 'caption')}, {len(pairs):,} of them changed.")
    for old, new in pairs[:EXAMPLES]:
        terminal.print(f"  {safe(old)}\n  [dim]became[/] {safe(new)}")
    if still:
        left = "kept" if keep_unchanged else "left out, as an audit would count them as captions that do not move"
        terminal.print(
            f"  In {count(still, 'caption')} nothing is to be changed beyond capital and full stop, or no paraphrase "
            f"is given: {left}."
        )
    terminal.print(
        f"Its videos are those of {safe(folder)}: evenreel features {safe(out)} --videos {safe(folder)} --out "
        "FEATURES, where FEATURES are those of the latter, adds the new captions and reads no video again."
    )
