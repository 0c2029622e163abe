"""Words on signs in a drawn world: frames alone, the true words, TCD and its parts, and others that read the windows.

The baseline sees frames alone, and the oracle is told the word that a caption names; all other rows that read have the
windows as they were read. Batches are of 42 captions, as in the paper. TCD's clues have two heads, of 32 numbers each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from torch import Tensor

from benchmarks.admission_rules import HALF, NO_ADAPTER, TWICE, variant
from benchmarks.evidence.rows import AGAIN, BASELINE, REFERENCE, SEARCH_S, TRAINING_S, Evidence, Place, Row, Size
from benchmarks.evidence.trainings import (
    LINEAR,
    OTHER,
    SplitName,
    as_scores,
    clips_of,
    cosines,
    found_by,
    fused_by_validation,
    learned,
    recipe,
    values_of,
)
from benchmarks.worlds.signs import draw_signs_world, with_named_words
from evenreel.checkpoint.architecture import module
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.registry import build_matcher
from evenreel.matchers.tcd.settings import PRINTED
from evenreel.papers.cells import Figures
from evenreel.planted.worlds.drawing import FeatureWorld
from evenreel.similarity.windows import window_scores
from evenreel.training.recipe import Recipe
from evenreel.types import ScoreBlocks

BATCH, LEARNING_RATE, TEMPERATURE = 42, 8e-3, 0.03
VALIDATION_CLIPS, EVALUATIONS = 200, 5
ORACLE, WORDS, TCD, WEIGHED = "oracle", "words alone", "tcd", "weights by the caption"
BARE = AdapterSettings(kind="none", windows=True)


class Parts(NamedTuple):
    """A world of signs with windows as they were read, or as who knows what captions name would read them."""

    train: FeatureWorld
    val: FeatureWorld
    test: FeatureWorld


class Drawn(NamedTuple):
    """A world of signs, and the same told."""

    train: FeatureWorld
    val: FeatureWorld
    test: FeatureWorld
    told: Parts


@dataclass(frozen=True)
class Model:
    """How a row is trained.

    Attributes:
        matcher: its name.
        settings: of the matcher.
        windows: whether windows stand among the frames; tcd reads them itself.
        told: whether they say what captions name.
        steps: in times of the baseline's.
        other: whether it begins from other random numbers.
        adapter: whether linear maps learn.
        after: row whose weights it begins with, as far as there are any; none where empty.
    """

    matcher: str = "mean_pool"
    settings: Mapping[str, Any] = field(default_factory=dict)
    windows: bool = False
    told: bool = False
    steps: float = 1.0
    other: bool = False
    adapter: bool = True
    after: str = ""


def tcd(steps: float = 1.0, after: str = "", **settings: Any) -> Model:
    """TCD with some of its settings."""
    return Model(TCD, {"heads": 2, **settings}, steps=steps, after=after)


READER = Model(windows=True, told=True)
APART: dict[str, Any] = {"matches": ("video", "ocr"), "co_attention": False, "lambda_hsc": 0.0, "confidence": True}
MODELS: dict[str, Model] = {
    BASELINE: Model(),
    ORACLE: READER,
    REFERENCE: replace(READER, other=True),
    AGAIN: Model(other=True),
    HALF: Model(steps=0.5),
    TWICE: Model(steps=2),
    NO_ADAPTER: Model(adapter=False),
    variant(ORACLE, HALF): replace(READER, steps=0.5),
    variant(ORACLE, TWICE): replace(READER, steps=2),
    variant(ORACLE, NO_ADAPTER): replace(READER, adapter=False),
    "frames, three times the steps": Model(steps=3),
    "mean_pool, windows": Model(windows=True),
    "wti, frames": Model("wti"),
    "wti, windows": Model("wti", windows=True),
    "tcd, as printed": tcd(**PRINTED),
    TCD: tcd(),
    "tcd, residual": tcd(co_residual=True),
    "tcd, no clues": tcd(matches=("video", "ocr")),
    "tcd, no co-attention": tcd(co_attention=False),
    "tcd, no calibration": tcd(lambda_hsc=0.0),
    "tcd, no types of places": tcd(types="shared"),
    "tcd, three times the steps": tcd(steps=3),
    "tcd, warm start": tcd(after=WEIGHED),
    WEIGHED: Model(TCD, APART),
    "best window": Model(TCD, {**APART, "tau": 0.01}),
}
FUSED: dict[str, tuple[str, str]] = {
    "two of frames, fused": (BASELINE, AGAIN),
    "words, fused": (BASELINE, WORDS),
    "wti, windows, fused": (BASELINE, "wti, windows"),
    f"{WEIGHED}, fused": (BASELINE, WEIGHED),
}
ALIKE = {"words, fused alike": (BASELINE, WORDS)}
"""Fused with equal weights, so that nothing but scales is taken from the validation split."""
CLIPS_TOLD = "the words that captions name"
ROWS: dict[str, Row] = {
    "untrained": Row("untrained", "cosine of sentence and mean frame", steps=0),
    "untrained, windows": Row("untrained", "word by word, windows among the frames", steps=0),
    "untrained, told": Row("untrained", "the same with the words that captions name", steps=0, uses=CLIPS_TOLD),
    BASELINE: Row("baseline", "mean_pool on frames alone"),
    ORACLE: Row("admission", "mean_pool, told", uses=CLIPS_TOLD, unavailable=True),
    REFERENCE: Row("admission", "the oracle from another start", uses=CLIPS_TOLD, unavailable=True),
    AGAIN: Row("admission", "the baseline from another start"),
    HALF: Row("admission", "the baseline, half the steps", steps=0.5),
    TWICE: Row("admission", "the baseline, twice the steps", steps=2),
    NO_ADAPTER: Row("admission", "the baseline without linear maps"),
    **{
        variant(ORACLE, change): Row("admission", f"the oracle, {change}", steps, uses=CLIPS_TOLD, unavailable=True)
        for change, steps in ((HALF, 0.5), (TWICE, 2.0), (NO_ADAPTER, 1.0))
    },
    "frames, three times the steps": Row("control", "the baseline, trained longer", steps=3),
    "two of frames, fused": Row("control", "two baselines from other starts, fused as below", steps=2, models=2),
    "mean_pool, windows": Row("control", "windows among the frames"),
    "wti, frames": Row("control", "frames alone, weighed and compared word by word"),
    "wti, windows": Row("control", "windows among the frames, weighed and compared word by word"),
    "tcd, as printed": Row("published", "every equation as the paper prints it"),
    TCD: Row("published", "this package's reading of what the formulas are meant to do"),
    "tcd, residual": Row("published", "co-attention added to its queries, as the paper's tables suggest"),
    "tcd, no clues": Row("published", "matched by frames and windows alone, which have attended to each other"),
    "tcd, no co-attention": Row("published", "clues of frames and windows as they are"),
    "tcd, no calibration": Row("published", "L_hsc left out"),
    "tcd, no types of places": Row("published", "one type embedding for all frames, one for all windows"),
    "tcd, three times the steps": Row("published", "`tcd`, trained longer", steps=3),
    "tcd, warm start": Row("published", f"begins with the weights of `{WEIGHED}`", steps=2),
    WEIGHED: Row(
        "ours", "the caption weighs frames and windows, windows also by their confidence; nothing else of TCD"
    ),
    "best window": Row("ours", "the same, nearly all of the weight on one frame and one window"),
    f"{WEIGHED}, fused": Row("ours", "that and the baseline, weights from validation", steps=2, models=2),
    "wti, windows, fused": Row("ours", "`wti, windows` and the baseline, weights from validation", steps=2, models=2),
    "words, fused alike": Row("ours", "the baseline and the best pair of word and window, untrained, equal weights"),
    "words, fused": Row(
        "ours", "the baseline and the best pair of word and window, untrained, weights from validation", chosen=True
    ),
}  # fmt: skip


def draw(place: Place) -> Drawn:
    """Groups of clips that differ in nothing but a sign, in all splits."""
    clips = clips_of(place, VALIDATION_CLIPS)
    world = draw_signs_world(clips, place.strength, place.seed)
    parts = Parts(*(world.split(name) for name in Parts._fields))
    return Drawn(*parts, Parts(*(with_named_words(part, place.seed) for part in parts)))


def measured_rows(drawn: Drawn, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Train what rows need, each model once, and test them."""
    cell = Cell(drawn, place)
    for name in rows:
        yield name, cell.untrained(name) if ROWS[name].kind == "untrained" else cell.figures(name)


class Cell:
    """The trainings on one world.

    Args:
        drawn: the world.
        place: with the seed and the steps of the baseline.
    """

    def __init__(self, drawn: Drawn, place: Place) -> None:
        self._drawn, self._place = drawn, place
        self._models: dict[str, tuple[Matcher, float]] = {}

    def untrained(self, name: str) -> Figures:
        """What a reading without training finds."""
        test = self._drawn.told.test if "told" in name else self._drawn.test
        if name == "untrained":
            return found_by(as_scores(cosines(test.texts, test.videos), test), test)
        size = test.videos.frames.shape[-1]
        matcher = Adapted(build_matcher("wti", size, {"kind": "ti"}), size, BARE).eval()
        return found_by(as_scores(values_of(matcher, test), test), test)

    def figures(self, name: str) -> Figures:
        """What a row finds in the test split, and what it costs; fused rows score the validation split in search."""
        channels = FUSED.get(name) or ALIKE.get(name) or (name,)
        seconds = sum(self.model(one)[1] for one in channels if one != WORDS)
        begun_s = time.process_time()
        scores = self._fused(channels, alike=name in ALIKE)
        searched_s = time.process_time() - begun_s
        return found_by(scores, self._drawn.test) | {TRAINING_S: seconds, SEARCH_S: searched_s}

    def model(self, name: str) -> tuple[Matcher, float]:
        """A trained matcher and the seconds of all that was trained for it."""
        if name not in self._models:
            model = MODELS[name]
            before_s, start = 0.0, None
            if model.after:
                other, before_s = self.model(model.after)
                start = begun(model, other, self._drawn.train.videos.frames.shape[-1])
            parts = self._drawn.told if model.told else self._drawn
            matcher, seconds = learned(recipe_of(model, self._place), parts.train, parts.val, start)
            self._models[name] = matcher, before_s + seconds
        return self._models[name]

    def _fused(self, channels: Sequence[str], *, alike: bool) -> ScoreBlocks:
        if len(channels) == 1:
            return self._scores(channels[0], "test")
        return fused_by_validation(self._scores, channels, self._drawn.val, alike=alike)

    def _scores(self, name: str, split: SplitName) -> ScoreBlocks:
        told = name != WORDS and MODELS[name].told
        part: FeatureWorld = getattr(self._drawn.told if told else self._drawn, split)
        if name == WORDS:
            return window_scores(part.texts, part.videos)
        return as_scores(values_of(self.model(name)[0], part), part)


def recipe_of(model: Model, place: Place) -> Recipe:
    """The recipe of a row."""
    steps = round(model.steps * place.size.steps)
    plain = recipe(place.seed + OTHER * model.other, steps, model.matcher, model.settings, LEARNING_RATE)
    adapter = replace(LINEAR, windows=model.windows) if model.adapter else BARE if model.windows else None
    return replace(
        plain,
        adapter=adapter,
        loop=replace(plain.loop, batch_size=BATCH),
        selection=replace(plain.selection, every_steps=-(-steps // EVALUATIONS)),
    )


def begun(model: Model, other: Matcher, size: int) -> dict[str, Tensor]:
    """Fresh weights of a model, but those that another one has too."""
    fresh = module(Adapted(build_matcher(model.matcher, size, dict(model.settings)), size, LINEAR)).state_dict()
    return fresh | {name: weights for name, weights in module(other).state_dict().items() if name in fresh}


EVIDENCE = Evidence(
    "drawn", "scene_text", ROWS, draw, measured_rows, Size(clips=20_000, test_clips=500, steps=200), ORACLE
)
