"""Annotators who go with what is shown, in another domain: habits out, captions turned, clips drawn by likeness.

Habits are taken out in training and in search, a rotation comes after training; so there is one order of both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.admission_rules import TWICE
from benchmarks.evidence.adapted import ALIKE, ALIKE_ROW, LOG
from benchmarks.evidence.domain import QUERIES
from benchmarks.evidence.rows import AGAIN, BASELINE, PLAIN_ROWS, REFERENCE, Evidence, Place, Row, Size
from benchmarks.evidence.textual import cleared
from benchmarks.evidence.trainings import (
    as_scores,
    clips_of,
    cosines,
    found_by,
    learned,
    learned_by_likeness,
    measured_row,
    plain_recipe,
)
from benchmarks.worlds.annotators import draw_annotators
from benchmarks.worlds.together import draw_annotators_and_domains
from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.prepared import resources_of
from evenreel.adaptation.run import adapt
from evenreel.adaptation.stream import QueryStream
from evenreel.adaptation.titan import load_settings
from evenreel.debias.habits import HabitRemoval, habit_directions
from evenreel.matchers.matcher import Matcher
from evenreel.papers.cells import Figures
from evenreel.planted.worlds.drawing import FeatureWorld, numbers_of

UNTRAINED, LONGER = "untrained, mean frame", "twice the steps, uncorrected"
CLEARED, TURNED, BOTH = "habits taken out", "rotation", "both"
ALIKE_CLEARED = "drawn by likeness, habits taken out"
CAPTIONS = "several captions of a clip"
ROWS: Mapping[str, Row] = {
    UNTRAINED: Row("untrained", "the mean frame against the sentence", steps=0),
    BASELINE: Row("baseline", "plain training of `mean_pool`"),
    REFERENCE: Row(
        "admission", "the same clips in the look and wording of the target, without habits", uses="both causes",
        unavailable=True,
    ),
    **PLAIN_ROWS,
    LONGER: Row("control", "the baseline, trained longer", steps=2),
    CLEARED: Row("ours", "the directions in which captions of one clip differ taken out of captions", uses=CAPTIONS),
    TURNED: Row("ours", "captions turned towards clips by transport from groups of like queries", uses=LOG),
    BOTH: Row("ours", "both", uses=f"{CAPTIONS}, {LOG}"),
    ALIKE: ALIKE_ROW,
    ALIKE_CLEARED: Row(
        "ours", "drawn so, and the habits of captions so drawn taken out (`without_habits`)",
        uses=f"{CAPTIONS}, {ALIKE_ROW.uses}", chosen=True,
    ),
}  # fmt: skip


class Drawn(NamedTuple):
    """A world with both biases, the same clips and captions without their causes, and what is asked of the target."""

    train: FeatureWorld
    val: FeatureWorld
    test: FeatureWorld
    told: FeatureWorld
    log: FeatureWorld


def draw(place: Place) -> Drawn:
    """Clips of a source, described by the annotators of their noun."""
    clips = clips_of(place)
    world = draw_annotators_and_domains(clips, place.strength, place.seed)
    told = draw_annotators(clips, place.strength, place.seed, habits=False)
    train, val, test = (world.split(name) for name in ("train", "val", "test"))
    return Drawn(train, val, test, told, log_of(clips, place.seed))


def log_of(clips: pl.DataFrame, seed: int) -> FeatureWorld:
    """Queries to the test clips by people whom nobody has read before; the r-th most wanted has a demand of 1 / r."""
    test, rng = clips.filter(pl.col("split") == "test"), np.random.default_rng([seed, QUERIES])
    demand = 1 / (1.0 + rng.permutation(test.height))
    rows = rng.choice(test.height, QUERIES, p=demand / demand.sum())
    asked = test[rows].with_columns(clip_id=pl.format("query {}", pl.Series(range(1, QUERIES + 1))))
    # captions of the training clips come first, so that these words have noise that no test caption has
    drawn = draw_annotators(pl.concat([clips.filter(pl.col("split") == "train"), test, asked]), 0.0, seed)
    known = set(test["clip_id"])
    captions = drawn.corpus.captions.filter(
        pl.col("clip_id").str.starts_with("query ") & ~pl.col("clip_id").is_in(known)
    )
    return drawn.among(replace(drawn.corpus, captions=captions))


def measured_rows(drawn: Drawn, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """The rows; models that two of them need are trained once."""
    made: dict[str, tuple[Matcher, float]] = {}

    def model(name: str) -> tuple[Matcher, float]:
        if name not in made:
            made[name] = trained(name, drawn, place)
        return made[name]

    directions = directions_of(drawn.train)
    for name in rows:
        if name == UNTRAINED:
            yield name, found_by(as_scores(cosines(drawn.test.texts, drawn.test.videos), drawn.test), drawn.test)
            continue
        clear = name in (CLEARED, BOTH)
        test = (
            drawn.told.split("test") if name == REFERENCE else cleared(drawn.test, directions) if clear else drawn.test
        )
        matcher, seconds = model({TURNED: BASELINE, BOTH: CLEARED, LONGER: TWICE}.get(name, name))
        if name in (TURNED, BOTH):
            log = cleared(drawn.log, directions) if clear else drawn.log
            matcher, more_s = turned(matcher, log, test, place.seed)
            seconds += more_s
        yield name, measured_row(matcher, test, seconds)


def trained(name: str, drawn: Drawn, place: Place) -> tuple[Matcher, float]:
    """A trained matcher of a row and the seconds that it took."""
    asked = plain_recipe(name, place)
    if name == REFERENCE:
        asked = plain_recipe(AGAIN, place)
        return learned(asked, drawn.told.split("train"), drawn.told.split("val"))
    if name == CLEARED:
        directions = directions_of(drawn.train)
        return learned(asked, cleared(drawn.train, directions), cleared(drawn.val, directions))
    if name in (ALIKE, ALIKE_CLEARED):
        asked = replace(asked, without_habits=HabitRemoval() if name == ALIKE_CLEARED else None)
        return learned_by_likeness(asked, drawn.train, drawn.val, drawn.test.videos)
    return learned(asked, drawn.train, drawn.val)


def directions_of(part: FeatureWorld) -> NDArray[Any]:
    """The directions in which captions of one clip differ."""
    return habit_directions(part.texts.sentence, numbers_of(part.corpus.captions["clip_id"]))


def turned(matcher: Matcher, log: FeatureWorld, test: FeatureWorld, seed: int) -> tuple[Matcher, float]:
    """The matcher with captions turned towards the test clips by a log of queries, and seconds of processor time."""
    begun_s = time.process_time()
    settings = replace(load_settings("rotation"), seed=seed)
    stream = QueryStream(log.texts, tuple(log.corpus.captions["text"]), test.videos)
    resources = resources_of(None, test.videos, settings, None, None)
    done = adapt(TestTimeMatcher(matcher, test.videos, settings, resources), stream, keep=False)
    return done.matcher, time.process_time() - begun_s


EVIDENCE = Evidence("drawn", "textual+domain", ROWS, draw, measured_rows, Size())
