"""The textual bias in drawn worlds: who writes about a clip goes with what it shows, and habits of wording with who.

BiMa's elements are no part of it: they are of the frames, in which nothing is planted here. Its textual half, captions
split into content and bias, is trained with a decoder of one block. The mean frame and the sentence are compared in all
other rows but `wti`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.admission_rules import TWICE
from benchmarks.evidence.rows import BASELINE, PLAIN_ROWS, REFERENCE, Evidence, Place, Row, Size
from benchmarks.evidence.trainings import (
    as_scores,
    clips_of,
    cosines,
    found_by,
    learned,
    measured_row,
    plain_recipe,
    recipe,
    values_of,
)
from benchmarks.worlds.annotators import draw_annotators
from evenreel.debias.habits import habit_directions, without_directions
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.registry import build_matcher
from evenreel.papers.cells import Figures
from evenreel.planted.worlds.drawing import FeatureWorld, numbers_of
from evenreel.training.recipe import Recipe

CONTROL_TWICE = "twice the steps, uncorrected"
CLEARED, BY_NAME = "habits taken out", "annotators' means taken out"
TEXT_HALF: dict[str, Any] = {
    "use_entities": False, "use_activities": False, "captioning": False, "decoder_layers": 1,
}  # fmt: skip
PRINTED = {"reduction": "sum", "kl_on": "z"}
"""What the paper prints and recipes do otherwise: losses as sums, the divergence of z."""

ROWS: Mapping[str, Row] = {
    "untrained, mean frame": Row("untrained", "the mean frame against the sentence."),
    "untrained, tokens": Row("untrained", "words against frames, weighed alike."),
    BASELINE: Row("baseline", "plain training of `mean_pool`."),
    REFERENCE: Row("admission", "the same captions without habits."),
    **PLAIN_ROWS,
    CONTROL_TWICE: Row("control", "the baseline trained for twice the steps.", steps=2.0),
    "wti": Row("control", "weighted token interaction, which is BiMa with all its parts off."),
    "wti, mlp": Row("control", "the same behind maps with a hidden layer, as BiMa's content has."),
    "bima, textual half, printed": Row("published", "captions split as printed: sums, the divergence of z."),
    "bima, textual half": Row("published", "captions split as in the recipes: means, the divergence of the bias."),
    BY_NAME: Row(
        "ours", "the leading directions of annotators' mean captions taken out of all captions.", uses="annotators"
    ),
    CLEARED: Row(
        "ours",
        "the directions in which captions of one clip differ most taken out of all captions, as by `without_habits`.",
        uses="several captions of a clip",
        chosen=True,
    ),
}
BIMA: Mapping[str, dict[str, Any]] = {
    "bima, textual half, printed": TEXT_HALF | PRINTED,
    "bima, textual half": TEXT_HALF,
}


class AnnotatorParts(NamedTuple):
    """A world of annotators, and the same captions without habits."""

    train: FeatureWorld
    val: FeatureWorld
    test: FeatureWorld
    plain: FeatureWorld


def draw(place: Place) -> AnnotatorParts:
    """The world, with and without habits."""
    clips = clips_of(place)
    world = draw_annotators(clips, place.strength, place.seed)
    plain = draw_annotators(clips, place.strength, place.seed, habits=False)
    train, val, test = (world.split(name) for name in ("train", "val", "test"))
    return AnnotatorParts(train, val, test, plain)


def measured_rows(drawn: AnnotatorParts, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """The rows, each trained or read once."""
    twice: Figures = {}
    for name in rows:
        if name == CONTROL_TWICE and twice:
            yield name, twice
            continue
        found = figures(name, drawn, place)
        twice = found if name == TWICE else twice
        yield name, found


def figures(name: str, drawn: AnnotatorParts, place: Place) -> Figures:
    """What a row finds in the test split, and what it costs."""
    test = drawn.test
    if name == "untrained, mean frame":
        return found_by(as_scores(cosines(test.texts, test.videos), test), test)
    if name == "untrained, tokens":
        tokens = build_matcher("wti", test.videos.frames.shape[-1], {})
        return found_by(as_scores(values_of(tokens, test), test), test)
    parts = parts_of(name, drawn)
    matcher, seconds = learned(recipe_of(name, place), parts[0], parts[1])
    return measured_row(matcher, parts[2], seconds)


def parts_of(name: str, drawn: AnnotatorParts) -> list[FeatureWorld]:
    """Train, val and test, as the row has their captions."""
    plain = [drawn.train, drawn.val, drawn.test]
    if name == REFERENCE:
        return [drawn.plain.split(split) for split in ("train", "val", "test")]
    if name not in (CLEARED, BY_NAME):
        return plain
    sentences, captions = drawn.train.texts.sentence, drawn.train.corpus.captions
    clips = numbers_of(captions["clip_id"])
    found = habit_directions(sentences, clips)
    if name == BY_NAME:
        found = leading_directions(sentences, captions["annotator"].to_numpy(), len(found))
    return [cleared(part, found) for part in plain]


def leading_directions(sentences: NDArray[Any], annotators: NDArray[Any], count: int) -> NDArray[Any]:
    """(count, D) principal directions of the mean captions of annotators."""
    numbers = np.unique(annotators, return_inverse=True)[1]
    sums = np.zeros((int(numbers.max()) + 1, sentences.shape[1]))
    np.add.at(sums, numbers, sentences)
    means = sums / np.bincount(numbers)[:, None]
    directions: NDArray[Any] = np.linalg.svd(means - means.mean(0), full_matrices=False)[2][:count]
    return directions


def cleared(part: FeatureWorld, directions: NDArray[Any]) -> FeatureWorld:
    """The split with captions that have nothing in some directions."""
    words = without_directions(part.texts.words.astype(np.float32), directions.astype(np.float32))
    sentence = without_directions(part.texts.sentence, directions.astype(np.float32))
    return replace(part, texts=replace(part.texts, words=words.astype(np.float16), sentence=sentence))


def recipe_of(name: str, place: Place) -> Recipe:
    """The recipe of a row."""
    seed, steps = place.seed, place.size.steps
    if name in BIMA:
        return recipe(seed, steps, "bima", BIMA[name])
    if name in ("wti", "wti, mlp"):
        words = recipe(seed, steps, "wti")
        return words if name == "wti" else replace(words, adapter=AdapterSettings(kind="mlp"))
    return plain_recipe(TWICE if name == CONTROL_TWICE else name, place)


EVIDENCE = Evidence("drawn", "textual", ROWS, draw, measured_rows, Size(steps=200))
