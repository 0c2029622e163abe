"""Biases in rendered videos of which the rules of admission alone are measured.

The built-in encoder has neither the visual nor the textual bias, and knows the scenes: who trains nothing finds as much
as the oracle, or more. So what a training loses there is not what the bias costs, and no method is measured on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.evidence.rendered.worlds import (
    RenderedWorld,
    Trainings,
    admission_models,
    admission_rows,
    draw,
    measured_rows,
)
from benchmarks.evidence.rows import METRICS, Evidence, Place, Size
from benchmarks.over_seeds import Figures
from benchmarks.planted import Split
from evenreel.corpus import own_clip
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.planted import BiasName
from evenreel.planted.harder import Harder
from evenreel.types import ScoreBlocks, Scores

SIZE = Size(1_500, 0, 500)


def rendered(bias: BiasName, harder: Harder | None = None) -> Evidence:
    """A bias in videos as they are, or in harder ones."""
    drawn, measure = partial(draw, bias, harder=harder), partial(measured_rows, admission_models(bias))
    world, settings = ("rendered", {}) if harder is None else ("harder", harder.changed)
    return Evidence(world, bias, admission_rows(bias), drawn, measure, SIZE, settings=settings)


def source_rows(world: RenderedWorld, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """The rows of generated videos, by what real clips' captions find."""
    trainings = Trainings(world, place, admission_models("source"), found_real)
    for name in rows:
        yield name, trainings.figures(name)


def found_real(scores: ScoreBlocks, part: Split) -> Figures:
    """Metrics in percent of the captions of real clips, whose own clip is the answer among real and generated ones."""
    captions, videos = list(scores.caption_ids), list(scores.video_ids)
    real = [row for row, name in enumerate(captions) if "_generator" not in name]
    values = scores.block(slice(0, len(captions)), slice(0, len(videos)))[real]
    captions = [captions[row] for row in real]
    relevance = own_clip(part.corpus, captions, videos).block(slice(0, len(captions)), slice(0, len(videos)))
    settings = EvaluationSettings(parse_metrics(list(METRICS)), ("t2v",), resamples=0, partial=True)
    found = evaluate(Scores(values, captions, videos), part.corpus, settings, relevance=relevance)
    return {name: found.directions["t2v"].summary[name].value for name in METRICS}


VISUAL, HARDER_VISUAL = rendered("visual"), rendered("visual", Harder(difficulty=1.0))
TEXTUAL, HARDER_TEXTUAL = rendered("textual"), rendered("textual", Harder(new_annotators=True))
SOURCE = Evidence("rendered", "source", admission_rows("source"), partial(draw, "source"), source_rows, SIZE)
