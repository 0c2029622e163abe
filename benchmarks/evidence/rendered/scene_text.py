"""Words on signs in rendered videos, a task: captions name one of them.

The baseline is `wti` on frames alone. In the plain world windows hold the true words, so that the oracle is `wti` with
windows among the frames, which anyone has. In the harder one each twelfth of a clip is misread for itself, frames show
a trace of their sign, and the oracle is told the true words. Methods have the windows as they are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.evidence.rendered.worlds import (
    ORACLE,
    Model,
    RenderedWorld,
    Trainings,
    admission_models,
    admission_rows,
    draw,
)
from benchmarks.evidence.rows import BASELINE, SEARCH_S, TRAINING_S, Evidence, Place, Row, Size
from benchmarks.evidence.trainings import SplitName, fused_by_validation
from benchmarks.planted import Split
from evenreel.features.windows import window_scores
from evenreel.language.bm25 import bm25_scores
from evenreel.matchers.tcd import PRINTED
from evenreel.papers.cells import Figures
from evenreel.planted import PlantedClip
from evenreel.planted.harder import Harder
from evenreel.planted.readings import words_read
from evenreel.types import ScoreBlocks

HARDER = Harder(misread=0.3, traced_signs=True)
SIZE = Size(1_500, 0, 500)
WORDS, LETTERS, TCD, WEIGHED = "words alone", "letters alone", "tcd", "weights by the caption"
APART: dict[str, Any] = {"matches": ("video", "ocr"), "co_attention": False, "lambda_hsc": 0.0, "confidence": True}
MODELS = admission_models("scene_text") | {
    "frames, twice the steps": Model(steps=2),
    "wti, windows": Model(windows=True),
    "mean_pool, windows": Model("mean_pool", windows=True),
    "tcd, as printed": Model(TCD, PRINTED),
    TCD: Model(TCD),
    "tcd, no calibration": Model(TCD, {"lambda_hsc": 0.0}),
    "tcd, no clues": Model(TCD, {"matches": ("video", "ocr")}),
    WEIGHED: Model(TCD, APART),
}
FUSED: dict[str, tuple[str, str]] = {
    "words, fused": (BASELINE, WORDS),
    "letters, fused": (BASELINE, LETTERS),
}
ROWS = admission_rows("scene_text") | {
    "letters, fused": Row(
        "ours", "the baseline and BM25 over the trigrams that are read, weights from validation", chosen=True
    ),
    "words, fused": Row(
        "ours", "the baseline and the best pair of word and window, untrained, weights from validation"
    ),
    "frames, twice the steps": Row("control", "the baseline, trained longer", steps=2),
    "wti, windows": Row("control", "windows among the frames"),
    "mean_pool, windows": Row("control", "windows among the frames of another matcher"),
    "tcd, as printed": Row("published", "every equation as the paper prints it"),
    TCD: Row("published", "this package's reading of what the formulas are meant to do"),
    WEIGHED: Row(
        "ours", "the caption weighs frames and windows, windows also by their confidence; nothing else of TCD"
    ),
    "tcd, no calibration": Row("published", "L_hsc left out"),
    "tcd, no clues": Row("published", "matched by frames and windows alone, which have attended to each other"),
}  # fmt: skip


def measured_rows(world: RenderedWorld, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Train what rows need, each model once, and test them."""
    trainings = Trainings(world, place, MODELS)
    for name in rows:
        yield name, fused_figures(trainings, FUSED[name]) if name in FUSED else trainings.figures(name)


def fused_figures(trainings: Trainings, channels: Sequence[str]) -> Figures:
    """What fused channels find, and what they cost; the validation split is scored in search."""
    seconds = sum(trainings.model(one)[1] for one in channels if one in MODELS)
    begun_s = time.process_time()
    found = trainings.found_by(fused_by_validation(partial(channel_scores, trainings), channels, trainings.world.val))
    return found | {TRAINING_S: seconds, SEARCH_S: time.process_time() - begun_s}


def channel_scores(trainings: Trainings, name: str, split: SplitName) -> ScoreBlocks:
    """Scores of a split by a trained model, or by words or letters without one."""
    part: Split = getattr(trainings.world, split)
    if name == WORDS:
        return window_scores(part.texts, part.videos)
    if name == LETTERS:
        return letter_scores(part, trainings.world.plan.split(split))
    return trainings.scores(trainings.model(name)[0], split)


def letter_scores(part: Split, clips: Sequence[PlantedClip]) -> ScoreBlocks:
    """BM25 of all captions over what is read in the windows of clips, each reading once."""
    times = (row[real] for row, real in zip(part.videos.times_s, part.videos.frame_mask, strict=True))
    signs = {
        clip.clip_id: list(dict.fromkeys(word for time_s in own for word in words_read(clip, float(time_s))))
        for clip, own in zip(clips, times, strict=True)
    }
    captions = dict(part.corpus.captions.select("caption_id", "text").iter_rows())
    return bm25_scores({one: captions[one] for one in part.texts.ids}, signs, by="trigrams")


def evidence(world: str, drawn: Callable[[Place], RenderedWorld], harder: Harder) -> Evidence:
    """The task in one world."""
    return Evidence(world, "scene_text", ROWS, drawn, measured_rows, SIZE, ORACLE, settings=harder.changed)


EVIDENCE = evidence("rendered", partial(draw, "scene_text"), Harder())
HARDER_EVIDENCE = evidence("harder", partial(draw, "scene_text", harder=HARDER), HARDER)
