"""Captions that name signs and belong to mirrors: words fused with frames, sources levelled, and both in either order.

The baseline sees frames alone; the oracle is told the word that a caption names, and its training captions belong to
real clips and mirrors alike. As in `scene_text`, so much of the gap is a task and no bias.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from benchmarks.admission_rules import HALF, NO_ADAPTER, TWICE, variant
from benchmarks.evidence.rows import AGAIN, BASELINE, REFERENCE, SEARCH_S, TRAINING_S, Evidence, Place, Row, Size
from benchmarks.evidence.scene_text import MODELS, ORACLE, recipe_of
from benchmarks.evidence.source import mean_frames
from benchmarks.evidence.trainings import (
    as_scores,
    clips_of,
    cosines,
    found_by,
    fused_by_validation,
    learned,
    values_of,
)
from benchmarks.worlds.signs import with_named_words
from benchmarks.worlds.sources import captioned
from benchmarks.worlds.together import draw_signs_and_mirrors, mirrored_captions
from evenreel.corpus import own_clip
from evenreel.corpus.counterparts import sources_of
from evenreel.debias.source.level import levelled, recognised_sources, source_levels
from evenreel.evaluation.fusion import FusedScores
from evenreel.matchers.matcher import Matcher
from evenreel.papers.cells import Figures
from evenreel.planted.worlds.drawing import FeatureWorld
from evenreel.similarity.windows import window_scores
from evenreel.types import ScoreBlocks

VALIDATION_CLIPS = 1_000
"""One in twenty is real, and levels need twenty of them."""
UNTRAINED, LONGER = "untrained", "twice the steps, uncorrected"
FUSED, LEVELLED, FUSED_FIRST, LEVELLED_FIRST = (
    "words, fused", "levelled", "words fused, then levelled", "levelled, then words fused",
)  # fmt: skip
TOLD, SOURCES = "the words that captions name, clips of both sources alike", "sources of training and validation clips"
ROWS: Mapping[str, Row] = {
    UNTRAINED: Row("untrained", "cosine of sentence and mean frame", steps=0),
    BASELINE: Row("baseline", "mean_pool on frames alone"),
    ORACLE: Row("admission", "mean_pool, told", uses=TOLD, unavailable=True),
    REFERENCE: Row("admission", "the oracle from another start", uses=TOLD, unavailable=True),
    AGAIN: Row("admission", "the baseline from another start"),
    **{
        (variant(ORACLE, change) if told else change): Row(
            "admission", f"the {ORACLE if told else BASELINE}, {change}", steps, uses=TOLD if told else "",
            unavailable=told,
        )
        for told in (False, True)
        for change, steps in ((HALF, 0.5), (TWICE, 2.0), (NO_ADAPTER, 1.0))
    },
    LONGER: Row("control", "the baseline, trained longer", steps=2),
    FUSED: Row("ours", "the baseline and the best pair of word and window, weights from validation"),
    LEVELLED: Row("ours", "the baseline less the levels of recognised sources", uses=SOURCES),
    LEVELLED_FIRST: Row("ours", "the baseline levelled, then fused with words", uses=SOURCES),
    FUSED_FIRST: Row("ours", "the fused scores levelled", uses=SOURCES, chosen=True),
}  # fmt: skip


class Drawn(NamedTuple):
    """A world with both; clips of val are those that captions belong to."""

    train: FeatureWorld
    val: FeatureWorld
    test: FeatureWorld
    told_train: FeatureWorld
    told_val: FeatureWorld
    told_test: FeatureWorld


def draw(place: Place) -> Drawn:
    """Groups of clips that differ in a sign, and their mirrors, to which most training captions belong."""
    clips = clips_of(place, VALIDATION_CLIPS)
    world = draw_signs_and_mirrors(clips, place.strength, place.seed)
    told = mirrored_captions(world, 0.0, place.seed)
    parts = [captioned(world.split("train")), captioned(world.split("val")), world.split("test")]
    of_told = [captioned(told.split("train")), captioned(told.split("val")), world.split("test")]
    return Drawn(*parts, *(with_named_words(part, place.seed) for part in of_told))


def measured_rows(drawn: Drawn, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Train what rows need, and test them."""
    cell = Cell(drawn, place)
    for name in rows:
        yield name, cell.figures(name)


class Cell:
    """The trainings on one world."""

    def __init__(self, drawn: Drawn, place: Place) -> None:
        self._drawn, self._place = drawn, place

    def figures(self, name: str) -> Figures:
        """What a row finds among real clips and mirrors, and what it costs."""
        test, found = self._drawn.test, own_clip(self._drawn.test.corpus, *self._ids)
        relevance = found.block(slice(0, found.shape[0]), slice(0, found.shape[1]))
        if name == UNTRAINED:
            return found_by(as_scores(cosines(test.texts, test.videos), test), test, relevance)
        if name not in self._corrections:
            scores, seconds, searched_s = self._trained(name)
        else:
            seconds, begun_s = self._baseline[1], time.process_time()
            scores = self._corrections[name]()
            searched_s = time.process_time() - begun_s
        return found_by(scores, test, relevance) | {TRAINING_S: seconds, SEARCH_S: searched_s}

    @property
    def _ids(self) -> tuple[Sequence[str], Sequence[str]]:
        return self._drawn.test.texts.ids, self._drawn.test.videos.ids

    @property
    def _corrections(self) -> Mapping[str, Callable[[], ScoreBlocks]]:
        return {
            FUSED: lambda: self._fused(self._seen("test"), self._seen("val")),
            LEVELLED: lambda: self._levelled(self._seen("test"), self._seen("val")),
            FUSED_FIRST: self._fused_first,
            LEVELLED_FIRST: self._levelled_first,
        }

    def _fused_first(self) -> ScoreBlocks:
        held_out = self._seen("val")
        fused = self._fused(self._seen("test"), held_out)
        return self._levelled(fused, FusedScores((held_out, self._words("val")), fused.fusion))

    def _levelled_first(self) -> ScoreBlocks:
        held_out = self._seen("val")
        return self._fused(self._levelled(self._seen("test"), held_out), self._levelled(held_out, held_out))

    def _trained(self, name: str) -> tuple[ScoreBlocks, float, float]:
        """Scores of a model of `scene_text`, trained on this world."""
        own = MODELS[TWICE if name == LONGER else name]
        drawn = self._drawn
        parts = (
            (drawn.told_train, drawn.told_val, drawn.told_test) if own.told else (drawn.train, drawn.val, drawn.test)
        )
        matcher, seconds = learned(recipe_of(own, self._place), parts[0], parts[1])
        begun_s = time.process_time()
        scores = as_scores(values_of(matcher, parts[2]), parts[2])
        return scores, seconds, time.process_time() - begun_s

    @cached_property
    def _baseline(self) -> tuple[Matcher, float]:
        return learned(recipe_of(MODELS[BASELINE], self._place), self._drawn.train, self._drawn.val)

    def _part(self, split: str) -> FeatureWorld:
        return self._drawn.test if split == "test" else self._drawn.val

    def _seen(self, split: str) -> ScoreBlocks:
        part = self._part(split)
        return as_scores(values_of(self._baseline[0], part), part)

    def _words(self, split: str) -> ScoreBlocks:
        part = self._part(split)
        return window_scores(part.texts, part.videos)

    def _fused(self, seen: ScoreBlocks, held_out: ScoreBlocks) -> FusedScores:
        """Scores of frames and of words, with weights from validation."""
        given = {"test": seen, "val": held_out}
        return fused_by_validation(
            lambda name, split: given[split] if name == "frames" else self._words(split),
            ("frames", "words"),
            self._drawn.val,
        )

    def _levelled(self, scores: ScoreBlocks, held_out: ScoreBlocks) -> ScoreBlocks:
        """Scores less the levels of recognised sources."""
        drawn = self._drawn
        levels = source_levels(held_out, drawn.val.corpus, sources_of(drawn.val.corpus))
        return levelled(scores, levels, self._sources(scores.video_ids))

    def _sources(self, ids: Sequence[str]) -> dict[str, str]:
        """The source of test clips as recognised, of validation clips as known."""
        known = sources_of(self._drawn.val.corpus)
        return known if all(name in known for name in ids) else self._recognised

    @cached_property
    def _recognised(self) -> dict[str, str]:
        train, test = self._drawn.train, self._drawn.test
        source_of = sources_of(train.corpus)
        sources = [source_of[name] for name in train.videos.ids]
        found = recognised_sources(mean_frames(train), sources, mean_frames(test))
        return dict(zip(test.videos.ids, found, strict=True))


EVIDENCE = Evidence("drawn", "source+scene_text", ROWS, draw, measured_rows, Size(test_clips=500, steps=200), ORACLE)
