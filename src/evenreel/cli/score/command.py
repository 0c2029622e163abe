"""`evenreel score`: a matcher and the features of a corpus in, scores for `evenreel evaluate` and `audit` out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.evaluate.files import check_place
from evenreel.cli.options import JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.score.levels import SourceLevelling
from evenreel.cli.score.library import asks_library, score_library
from evenreel.cli.score.probes import Probe
from evenreel.cli.score.reading import CaptionReading
from evenreel.cli.score.show import Scored, check_name, check_table, show_scored
from evenreel.cli.score.word_probe import WordProbe
from evenreel.cli.score.words import WordOptions, asks_words, score_words
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.types import Corpus

CHECKPOINT_HELP = (
    "A matcher: a folder, a hub id, or mean_pool, which needs no training (zero-shot); what compares words with those "
    "on screen and needs no training: bm25, by letters, or windows, by their features; or a folder of a library, whose "
    "whole search is scored."
)
OUT_HELP = (
    "Where the scores go: .npz with their ids, or .npy, which `evenreel evaluate` need not read whole, for a table "
    "larger than memory."
)
PROBES = "Probes: what a preference is due to"


@dataclass(frozen=True)
class ScoredClips:
    """Captions and clips that are scored, and the features by which a matcher sees them.

    Attributes:
        corpus: folder of the corpus.
        features: folder of the corpus's features, by the encoder that the matcher was trained with; a library has its
            own.
        split: part of the corpus to score, such as test.
        pretrained_features: folder of features by the matcher's towers before their training, for one that selects
            scene elements.
        device: where the model runs: auto, cpu, cuda, cuda:1, mps.
    """

    corpus: Annotated[Path, typer.Argument(metavar="CORPUS")]
    features: Path | None = None
    split: str | None = None
    pretrained_features: Path | None = None
    device: str = "auto"

    def needed_features(self) -> Path:
        """Return the folder of the features.

        Raises:
            UsageError: none is named.
        """
        if self.features is None:
            raise UsageError("A matcher, and what compares words, reads features; name their folder with --features.")
        return self.features

    def check_library(self) -> None:
        """Check that nothing is named that the search of a library has no use for.

        Raises:
            UsageError: features are named.
        """
        if self.features or self.pretrained_features:
            raise UsageError("A library has its own vectors; leave --features and --pretrained-features out.")


@dataclass(frozen=True)
class ScoreChanges:
    """What is changed before clips are scored, or of the scores; nothing unless an option says so.

    Attributes:
        frames: changes of the frames of clips.
        words: changes of the words on screen.
        reading: parts that captions are encoded by.
        levels: what is taken off scores of generated clips.
    """

    frames: Probe
    words: WordProbe
    reading: CaptionReading
    levels: SourceLevelling

    def check_library(self) -> None:
        """Check that nothing is to be changed of the search of a library.

        Raises:
            UsageError: an option would change frames, words, captions or levels.
        """
        if self != ScoreChanges(Probe(), WordProbe(), CaptionReading(), SourceLevelling()):
            raise UsageError("The search of a library is scored as it is; leave options that change what is seen out.")

    def check(self, checkpoint: str, out: Path) -> None:
        """Check, before anything is loaded, that a matcher, or words, can be scored so.

        Raises:
            UsageError: options do not go together, or the file for the scores cannot say what was done.
        """
        if not asks_words(checkpoint):
            self.frames.check(out)
            self.reading.check(out)
            self.levels.check(out)
        elif self.reading != CaptionReading() or self.levels != SourceLevelling():
            raise UsageError(
                f"{checkpoint} reads the words of captions as they are; leave --reading, --alpha, --draws, "
                "--level-sources and --recognise-sources out."
            )


def score(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT_HELP)],
    out: Annotated[Path, typer.Option(help=OUT_HELP)],
    source: ScoredClips = from_settings(ScoredClips),
    options: WordOptions = from_settings(WordOptions, leave_out=("rule", "probe")),
    changes: ScoreChanges = from_settings(
        ScoreChanges,
        frames=from_settings(Probe, panel=PROBES),
        words=from_settings(WordProbe, panel=PROBES),
        reading=from_settings(CaptionReading, panel=PROBES),
        levels=from_settings(SourceLevelling),
    ),
    as_json: JsonOption = False,
) -> None:
    """Score every caption with every clip by a matcher, words, or a search. Exit status 3: clips had been skipped."""
    from evenreel.corpus import load_corpus, select

    check_name(out)
    of_library = asks_library(checkpoint)
    if of_library:
        source.check_library()
        changes.check_library()
    else:
        source.needed_features()
    options = replace(options, rule=changes.frames.rule, probe=changes.words)
    options.check(checkpoint, changes.frames, source.pretrained_features, source.device)
    changes.check(checkpoint, out)
    check_place(out)
    whole = load_corpus(source.corpus)
    part = whole if source.split is None else select(whole, split=source.split)
    if of_library:
        scored = score_library(checkpoint, part, out, source.device)
    elif asks_words(checkpoint):
        scored = score_words(checkpoint, part, source.needed_features(), out, options)
    else:
        scored = _score_by_matcher(checkpoint, source, whole, part, out, changes)
    splits = [] if source.split is not None else whole.clips["split"].drop_nulls().unique().sort().to_list()
    if len(splits) > 1:
        together = f"the splits {', '.join(splits)} are scored as one gallery; --split scores one alone"
        scored = replace(scored, notices=(*scored.notices, together))
    show_scored(out, scored, as_json)
    if scored.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _score_by_matcher(
    checkpoint: str, source: ScoredClips, whole: Corpus, part: Corpus, out: Path, changes: ScoreChanges
) -> Scored:
    """Load a matcher and write its scores of a part of the corpus, which say what they use."""
    from evenreel.checkpoint import named_matcher
    from evenreel.evaluation import save_scores
    from evenreel.matchers.scoring import matcher_scores
    from evenreel.types import ScoreNotes

    frames, reading, features = changes.frames, changes.reading, source.needed_features()
    pretrained = named_matcher(checkpoint, features, device=source.device)
    trained_with = pretrained.about.uses
    if out.suffix == ".npy" and trained_with:
        raise UsageError(
            f"The matcher was trained with {' and '.join(trained_with)}, which an .npy cannot say; give --out a name "
            "that ends in .npz."
        )
    load = partial(
        frames.load,
        changes.words.asking(pretrained, out),
        features,
        pretrained_features=source.pretrained_features,
    )
    with share_bar("reading the captions") as progress:
        loaded = load(part, progress)
    uses = (*trained_with, *frames.uses, *reading.uses, *loaded.uses)
    read = (f"scored with {use}" for use in reading.uses)
    notices = (*loaded.notices, *changes.words.notices(pretrained), *read)
    scored = Scored(len(loaded.texts.ids), len(loaded.videos.ids), loaded.set_aside, notices, trained_with)
    with reading.read(pretrained):
        check_table(out, scored)
        scores = matcher_scores(pretrained.matcher, loaded.texts, loaded.videos, about=ScoreNotes(uses=uses))
        again = partial(load, progress=lambda share: None)
        with share_bar("scoring") as progress:
            levelled = changes.levels.apply(scores, loaded.videos, corpus=whole, pretrained=pretrained, load=again)
            save_scores(levelled, out, progress)
    return scored
