"""`evenreel score bm25` and `windows`: scores by what is written on screen, without training."""

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
    from evenreel.features.on_screen import Signs
    from evenreel.features.settings import Words
    from evenreel.features.word_changes import WordChanges
    from evenreel.language.bm25 import Bm25Scores, By
    from evenreel.types import Corpus, Scores

BM25, WINDOWS = "bm25", "windows"
_BY = ("words", "trigrams")


@dataclass(frozen=True)
class WordOptions:
    """Options of `evenreel score` that are about words.

    Attributes:
        words: words on screen that bm25 and windows look for: corpus or ocr; None for those of the last run.
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

    def check(self, checkpoint: str, change: Probe, pretrained_features: Path | None, device: str) -> None:
        """Refuse options of words for a matcher, and those of frames and models for words.

        Raises:
            UsageError: an option of the other kind is given.
        """
        if not asks_words(checkpoint):
            if self.words or self.by:
                raise UsageError(
                    "--words is for bm25 and windows, --by for bm25; a matcher reads what it was trained on."
                )
        elif pretrained_features or replace(change, rule=None, seed=0) != Probe():
            raise UsageError(
                f"{checkpoint} reads the words on screen and no frame; leave the options about frames out."
            )
        elif change.seed:
            raise UsageError(
                f"--seed draws frames, and {checkpoint} reads none; --words-seed says which words are kept or misread."
            )
        elif device != "auto":
            raise UsageError(f"{checkpoint} has no model that could run on a device; leave --device out.")
        elif checkpoint == WINDOWS and self.by:
            raise UsageError("--by says what bm25 compares; windows compares features of words, so leave it out.")
        elif checkpoint == BM25 and self.probe.words_unit == "window":
            raise UsageError(
                "bm25 reads the words of whole clips and knows no windows; let --words-unit be word or clip."
            )


def asks_words(checkpoint: str) -> bool:
    """Check whether the name of a checkpoint means bm25 or windows, and no folder is called so."""
    return checkpoint in (BM25, WINDOWS) and not Path(checkpoint).exists()


def score_words(name: str, corpus: Corpus, features: Path, out: Path, options: WordOptions) -> Scored:
    """Score captions by what is written in clips, and write the scores.

    Args:
        name: `bm25`, or `windows`: the word of a caption and the window of a clip that are most alike.
        corpus: captions and clips to score.
        features: folder of their features.
        out: file for the scores.
        options: words that are looked for, and how they are compared.

    Raises:
        FeaturesError: nobody read what is written in the clips; a clip has no features; a file is damaged.
        OutputError: the file cannot be written.
        UsageError: the file cannot say what the scores use, or which clips it is about; no clip has text.
    """
    from evenreel.evaluation import save_scores
    from evenreel.features.word_changes import WordChanges

    if out.suffix == ".npy":
        use = "word counts" if name == BM25 else "scores of other clips"
        raise UsageError(f"{name} uses {use} of the gallery, which an .npy cannot say; let --out end in .npz.")
    changes = options.probe.changes(None) or WordChanges()
    score = _by_bm25 if name == BM25 else _by_windows
    scores, scored = score(corpus, features, options, changes)
    check_table(out, scored)
    with share_bar("scoring") as progress:
        save_scores(replace(scores, about=scores.about.using(*changes.uses)), out, progress)
    return scored


def _by_bm25(corpus: Corpus, features: Path, options: WordOptions, changes: WordChanges) -> tuple[Bm25Scores, Scored]:
    from evenreel.features import find_clips
    from evenreel.features.on_screen import sign_texts
    from evenreel.language.bm25 import bm25_scores

    clips = find_clips(features, corpus, rule=options.rule, words=cast("Words | None", options.words))
    signs, aside = sign_texts(clips, changes)
    captions = dict(corpus.captions.select("caption_id", "text").iter_rows())
    scores = bm25_scores(captions, signs, by=cast("By", options.by or "words"))
    notices, uses = tuple(_notices(scores, signs, changes)), scores.about.uses
    return scores, Scored(len(captions), len(signs), aside, notices, uses, "words are weighed by")


def _by_windows(corpus: Corpus, features: Path, options: WordOptions, changes: WordChanges) -> tuple[Scores, Scored]:
    from evenreel.checkpoint.corpus_features import changed_words
    from evenreel.features import find_clips, load_text_features
    from evenreel.features.windows import window_scores

    clips = find_clips(features, corpus, rule=options.rule, words=cast("Words | None", options.words), windows=True)
    videos, aside = clips.load()
    with share_bar("reading the windows") as progress:
        videos = changed_words(clips, videos, changes, progress)
    scores = window_scores(load_text_features(features, corpus), videos)
    notices = [f"scored with {use}" for use in changes.uses]
    bare = 0 if videos.on_screen is None else int((~videos.on_screen.mask.any(1)).sum())
    if bare:
        notices.append(f"nothing is written in {bare:,} of {count(len(videos.ids), 'clip')}")
    use = "clips without text are given the"
    return scores, Scored(len(scores.caption_ids), len(videos.ids), aside, tuple(notices), scores.about.uses, use)


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
