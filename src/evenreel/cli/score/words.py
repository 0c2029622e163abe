"""`evenreel score bm25`: scores by the words that are written on screen, without a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from evenreel.cli.progress import share_bar
from evenreel.cli.score.probes import Probe
from evenreel.cli.score.show import Scored, check_table
from evenreel.cli.score.word_probe import WordProbe
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.features.settings import Words
    from evenreel.features.signs import Signs
    from evenreel.features.word_changes import WordChanges
    from evenreel.language.bm25 import Bm25Scores, By
    from evenreel.types import Corpus

BM25 = "bm25"
_BY = ("words", "trigrams")


@dataclass(frozen=True)
class WordOptions:
    """Options of `evenreel score` that are about words.

    Attributes:
        words: words on screen that bm25 looks for: corpus or ocr; None for those of the last run.
        by: what bm25 compares: words, or trigrams, which survive misread letters and are the way for scripts without
            spaces, such as Chinese; None for words.
        rule: sampling rule of the features, as `evenreel features --rule` has it; None for the last run's.
        probe: changes of the words.
    """

    words: str | None = None
    by: str | None = None
    rule: str | None = None
    probe: WordProbe = field(default_factory=WordProbe)

    def __post_init__(self) -> None:
        for option, word, known in (("--words", self.words, ("corpus", "ocr")), ("--by", self.by, _BY)):
            if word not in (None, *known):
                raise UsageError(f"{option} is {word!r}; it must be {' or '.join(known)}.")

    def check(self, checkpoint: str, change: Probe, seen: Path | None, device: str) -> None:
        """Refuse options of words for a matcher, and those of frames and models for words.

        Raises:
            UsageError: an option of the other kind is given.
        """
        if not asks_bm25(checkpoint):
            if self.words or self.by:
                raise UsageError("--words and --by are for bm25; a matcher reads what it was trained on.")
        elif seen or replace(change, rule=None, seed=0) != Probe():
            raise UsageError("bm25 reads the words on screen and no frame; leave the options about frames out.")
        elif change.seed:
            raise UsageError(
                "--seed draws frames, and bm25 reads none; --words-seed says which words are kept or misread."
            )
        elif device != "auto":
            raise UsageError("bm25 has no model that could run on a device; leave --device out.")
        elif self.probe.words_unit == "window":
            raise UsageError(
                "bm25 reads the words of whole clips and knows no windows; let --words-unit be word or clip."
            )


def asks_bm25(checkpoint: str) -> bool:
    """Check whether bm25 is meant, and not a folder of this name."""
    return checkpoint == BM25 and not Path(checkpoint).exists()


def score_words(corpus: Corpus, features: Path, out: Path, options: WordOptions) -> Scored:
    """Score captions by BM25 with what is written in clips, and write the scores.

    Args:
        corpus: captions and clips to score.
        features: folder of their features.
        out: file for the scores.
        options: words that are looked for, and how they are compared.

    Raises:
        FeaturesError: nobody read what is written in the clips; a clip has no features; a file is damaged.
        OutputError: the file cannot be written.
        UsageError: the file cannot say what the scores use, or which clips it is about.
    """
    from evenreel.evaluation import save_scores
    from evenreel.features import find_clips
    from evenreel.features.signs import sign_texts
    from evenreel.features.word_changes import WordChanges
    from evenreel.language.bm25 import bm25_scores

    if out.suffix == ".npy":
        raise UsageError("BM25 uses word counts of the gallery, which an .npy cannot say; let --out end in .npz.")
    clips = find_clips(features, corpus, rule=options.rule, words=cast("Words | None", options.words))
    changes = options.probe.changes(None) or WordChanges()
    signs, aside = sign_texts(clips, changes)
    captions = dict(corpus.captions.select("caption_id", "text").iter_rows())
    scores = bm25_scores(captions, signs, by=cast("By", options.by or "words"))
    notices, uses = tuple(_notices(scores, signs, changes)), scores.about.uses
    scored = Scored(len(captions), len(signs), aside, notices, uses, "words are weighed by")
    check_table(out, scored)
    with share_bar("scoring") as progress:
        save_scores(replace(scores, about=scores.about.using(*changes.uses)), out, progress)
    return scored


def _notices(scores: Bm25Scores, signs: Signs, changes: WordChanges) -> list[str]:
    notices = [f"scored with {use}" for use in changes.uses]
    if bare := sum(not any(texts) for texts in signs.values()):
        notices.append(f"nothing is written in {bare:,} of {count(len(signs), 'clip')}")
    if silent := scores.silent:
        notices.append(
            f"{silent:,} of {count(len(scores.caption_ids), 'caption')} share nothing with any screen: they score 0 "
            "with all clips, whose order is left open"
        )
    return notices
