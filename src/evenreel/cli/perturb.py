"""`evenreel perturb`: a corpus with edited captions under the same ids, for `evenreel audit textual`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import ne
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli.options import MOST_SEED, CorpusArgument, JsonOption, TaggerOption
from evenreel.cli.show_library import console, print_json, safe
from evenreel.errors import CorpusError, UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.language.taggers import TaggerName
    from evenreel.types import Corpus

CONTROL, PARAPHRASED = "control", "paraphrased"
EDIT_HELP = "style-removed, style-swapped, content-removed, content-swapped, paraphrased or control."
PATTERN_HELP = "For paraphrased: words around {caption}, such as 'in this video, {caption}'; again for another pattern."
TABLE_HELP = "For paraphrased: csv, parquet or the like with the columns caption_id and paraphrase."
KEEP_HELP = "Also write captions in which nothing is to be changed, for which an audit would see no movement."
EXAMPLES = 3


def perturb(
    folder: CorpusArgument,
    edit: Annotated[str, typer.Option(help=EDIT_HELP)],
    out: Annotated[Path, typer.Option(help="Folder of the corpus with the edited captions.")],
    split: Annotated[str | None, typer.Option(help="Only this part of the corpus, such as test.")] = None,
    pattern: Annotated[list[str] | None, typer.Option(help=PATTERN_HELP)] = None,
    paraphrases: Annotated[Path | None, typer.Option(help=TABLE_HELP)] = None,
    tagger: TaggerOption = "auto",
    keep_unchanged: Annotated[bool, typer.Option("--keep-unchanged", help=KEEP_HELP)] = False,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of what is drawn: lenders, patterns.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Edit the captions of a corpus, style or content; ids and clips stay, so scores before and after compare.

    Captions in which nothing is to be changed, or no more than capital and full stop, are left out.
    """
    import polars as pl

    from evenreel.corpus import load_corpus, make_corpus, save_corpus, select
    from evenreel.corpus.annotation import copy_class_names
    from evenreel.language.style import differ_in_words

    _check(edit, pattern, paraphrases)
    if any((out / name).exists() for name in ("clips.parquet", "captions.parquet")):
        what = "is the corpus itself" if out.resolve() == folder.resolve() else "holds a corpus already"
        raise CorpusError(f"{out} {what}; give --out another folder.")
    whole = load_corpus(folder)
    corpus = whole if split is None else select(whole, split=split)
    if edit == PARAPHRASED:
        texts = _paraphrased(corpus, pattern, paraphrases, seed)
    else:
        texts = _edited(corpus, edit, tagger, seed)
    differ = ne if edit == CONTROL else differ_in_words  # what changes no more than the control does is no edit
    changed = [*map(differ, corpus.captions["text"], texts)]
    if not any(changed):
        raise CorpusError(f"In none of the {len(texts):,} captions of {folder} is anything to be changed by {edit!r}.")
    edited = corpus.captions.with_columns(pl.Series("text", texts, dtype=pl.String))
    save_corpus(make_corpus(corpus.clips, edited if keep_unchanged else edited.filter(pl.Series(changed))), out)
    copy_class_names(folder, out)
    pairs = list(compress(zip(corpus.captions["text"], texts, strict=True), changed))
    _show(folder, pairs, len(texts), out, kept=keep_unchanged, as_json=as_json)


def _check(edit: str, pattern: Sequence[str] | None, paraphrases: Path | None) -> None:
    from evenreel.language.style import EDITS

    known = (*EDITS, PARAPHRASED, CONTROL)
    if edit not in known:
        raise UsageError(f"{edit!r} is no edit of captions; there are: {', '.join(known)}.")
    if edit == PARAPHRASED and (not pattern) == (paraphrases is None):
        raise UsageError("--edit paraphrased goes with either --pattern or --paraphrases; give one of the two.")
    if edit != PARAPHRASED and (pattern or paraphrases):
        raise UsageError("--pattern and --paraphrases go with --edit paraphrased; leave them out.")


def _edited(corpus: Corpus, edit: str, tagger: str, seed: int) -> list[str]:
    from evenreel.language import load_tagger
    from evenreel.language.style import restyled, turned_marks

    texts = corpus.captions["text"].to_list()
    if edit == CONTROL:
        return [*map(turned_marks, texts)]
    chosen = load_tagger(cast("TaggerName", tagger))
    return restyled(edit, texts, corpus.captions["clip_id"].to_list(), chosen, seed)


def _paraphrased(corpus: Corpus, pattern: Sequence[str] | None, paraphrases: Path | None, seed: int) -> list[str]:
    from evenreel.corpus.paraphrases import read_paraphrases
    from evenreel.language.style import paraphrased

    if paraphrases is None:
        return paraphrased(corpus.captions["text"].to_list(), pattern or [], seed)
    given = read_paraphrases(paraphrases, corpus)
    return [given.get(caption, text) for caption, text in corpus.captions.select("caption_id", "text").iter_rows()]


def _show(
    folder: Path, changed: Sequence[tuple[str, str]], captions: int, out: Path, *, kept: bool, as_json: bool
) -> None:
    written, still = captions if kept else len(changed), captions - len(changed)
    if as_json:
        print_json({"corpus": out, "captions": written, "changed": len(changed), "left_out": captions - written})
        return
    terminal = console()
    terminal.print(f"Wrote {safe(out)}: {count(written, 'caption')}, {len(changed):,} of them changed.")
    for old, new in changed[:EXAMPLES]:
        terminal.print(f"  {safe(old)}\n  [dim]became[/] {safe(new)}")
    if still:
        terminal.print(
            f"  In {count(still, 'caption')} nothing is to be changed beyond capital and full stop, or no paraphrase "
            f"is given: {'kept' if kept else 'left out, as an audit would count them as captions that do not move'}."
        )
    terminal.print(
        f"Its videos are those of {safe(folder)}: evenreel features {safe(out)} --videos {safe(folder)} --out "
        "FEATURES, where FEATURES are those of the latter, adds the new captions and reads no video again."
    )
