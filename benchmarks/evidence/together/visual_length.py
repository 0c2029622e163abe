"""Backgrounds and lengths that both stand in for nouns: frames without length, backgrounds exchanged, and both.

Where both are made, backgrounds are estimated beyond what lengths explain: else the background of another clip brings
its length along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from benchmarks.admission_rules import TWICE
from benchmarks.evidence.length import without_lengths
from benchmarks.evidence.rows import BASELINE, PLAIN_ROWS, REFERENCE, Evidence, Place, Row, Size
from benchmarks.evidence.trainings import (
    OTHER,
    as_scores,
    clips_of,
    cosines,
    examples_of,
    found_by,
    learned,
    measured_row,
    plain_recipe,
    recipe,
)
from benchmarks.evidence.visual import EXCHANGE
from benchmarks.worlds.together import draw_backgrounds_and_lengths
from evenreel.debias.without_length import LengthRemoval
from evenreel.papers.cells import Figures
from evenreel.planted.worlds.drawing import FeatureWorld
from evenreel.training.material import with_backgrounds

UNTRAINED, LONGER = "untrained, mean frame", "twice the steps, uncorrected"
EXCHANGED, REMOVED, BOTH = "backgrounds exchanged", "frames without length", "both"
ROWS: Mapping[str, Row] = {
    UNTRAINED: Row("untrained", "the mean frame against the sentence", steps=0),
    BASELINE: Row("baseline", "plain training of `mean_pool`"),
    REFERENCE: Row(
        "admission",
        "before backgrounds that were drawn anew, frames without the directions that lengths move them in",
        uses="both causes",
        unavailable=True,
    ),
    **PLAIN_ROWS,
    LONGER: Row("control", "the baseline, trained longer", steps=2),
    EXCHANGED: Row("ours", "clips before the backgrounds of others (`backgrounds`)"),
    REMOVED: Row("ours", "what lengths explain of frames is taken off them (`without_length`)", uses="lengths"),
    BOTH: Row("ours", "both", uses="lengths", chosen=True),
}


class Drawn(NamedTuple):
    """A world with both biases, and the same clips with backgrounds that were drawn anew."""

    train: FeatureWorld
    val: FeatureWorld
    test: FeatureWorld
    redrawn: FeatureWorld


def draw(place: Place) -> Drawn:
    """Nouns whose clips keep to a background and to a stratum of length."""
    clips = clips_of(place)
    world = draw_backgrounds_and_lengths(clips, place.strength, place.seed)
    redrawn = draw_backgrounds_and_lengths(clips, 0.0, place.seed, draw=1)
    train, val, test = (world.split(name) for name in ("train", "val", "test"))
    return Drawn(train, val, test, redrawn)


def measured_rows(drawn: Drawn, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """The rows, each trained or read once."""
    twice: Figures | None = None
    for name in rows:
        if name in (TWICE, LONGER):
            twice = twice or figures_of(TWICE, drawn, place)
            yield name, twice
        else:
            yield name, figures_of(name, drawn, place)


def figures_of(name: str, drawn: Drawn, place: Place) -> Figures:
    """What a row finds in the test split, and what it costs."""
    test = drawn.test
    if name == UNTRAINED:
        return found_by(as_scores(cosines(test.texts, test.videos), test), test)
    if name == REFERENCE:
        train, val = (without_lengths(drawn.redrawn.split(part), place.seed) for part in ("train", "val"))
        matcher, seconds = learned(recipe(place.seed + OTHER, place.size.steps), train, val)
        return measured_row(matcher, without_lengths(test, place.seed), seconds)
    asked = plain_recipe(name, place)
    if name in (REMOVED, BOTH):
        asked = replace(asked, without_length=LengthRemoval())
    examples = None
    if name in (EXCHANGED, BOTH):
        terms = LengthRemoval().terms if name == BOTH else 0
        examples = with_backgrounds(examples_of(drawn.train), EXCHANGE, place.seed, terms)
    matcher, seconds = learned(asked, drawn.train, drawn.val, examples=examples)
    return measured_row(matcher, test, seconds)


EVIDENCE = Evidence("drawn", "visual+length", ROWS, draw, measured_rows, Size())
