"""Is re-ranking a shortlist as good as scoring every clip, and how long must the shortlist be?

A matcher that needs the pair is too expensive for a large library, so a cheap score chooses which clips it sees. What
it never sees it cannot find: how much that costs hangs on the cheap score, the corpus and the length of the shortlist.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenreel.audits.exchange import hits_interval, share_interval
from evenreel.audits.settings import AuditSettings
from evenreel.config import RERANK_DEPTH
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import DirectionResult, EvaluationSettings, Interval, evaluate, parse_metrics
from evenreel.evaluation.fusion import TwoStage, shortlists
from evenreel.evaluation.ranking import aligned
from evenreel.matchers import build_matcher
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.mean_pool import MeanPool
from evenreel.matchers.scoring import coarse_scorer, encode_texts, encode_videos, matcher_scores, score_shortlists
from evenreel.papers.engine import but_few, effect_of, few_clips, finding, shown
from evenreel.papers.study import StudySettings, paragraph
from evenreel.papers.workspace import Model, Workspace
from evenreel.progress import Progress, each_part
from evenreel.report.figures import Line, Panel, sweep
from evenreel.report.result import AuditFigure, AuditResult, AuditTable
from evenreel.similarity.tiles import Encoded, MatcherScores, take_rows
from evenreel.types import Corpus, ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

DEPTHS = (5, 10, 20, 50, 100, 200)
METRICS = parse_metrics(["R@1", "R@5", "R@10"])
OWN, ZERO_SHOT = "its own cheap score", "mean_pool"
TIMED = 20
"""Captions whose shortlists are scored to see how long one takes."""


class Stage(NamedTuple):
    """The names of a matcher and of the cheap score that chooses its shortlists."""

    model: str
    cheap: str

    def __str__(self) -> str:
        return f"{self.model} after {self.cheap}"


class AtDepth(NamedTuple):
    """Recall, loss and time with shortlists of one length."""

    figures: Mapping[str, Interval]  # R@1, R@5 and R@10
    inside: Interval  # share of captions whose clip is on the shortlist, percent
    loss: Interval  # R@1 less that of scoring every clip, points
    milliseconds: float | None  # that the matcher takes for a caption; None where it scores nothing


Depths = dict[int, AtDepth]
"""By the length of the shortlist, from 0, the cheap score alone, to the whole gallery."""


def rerank_depth(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Measure recall over the length of the shortlist, for each matcher behind each cheap score."""
    found: dict[Stage, Depths] = {}
    models = material.encoders()
    for model, _ in each_part(models, progress):
        found |= _of_model(model, material.scores, settings.audit)
    stage, depths = next(iter(found.items()))
    gallery = max(depths)
    usual = max(depth for depth in depths if depth <= RERANK_DEPTH and depth < gallery)
    loss, groups = depths[usual].loss, models[0].part.corpus.captions["clip_id"].n_unique()
    result = finding(
        told(stage, depths, settings.margin),
        effect_of(loss, f"R@1 of re-ranking {usual:,} clips less that of scoring all {gallery:,}, points: {stage}"),
        [_table(stage, depths) for stage, depths in found.items()],
        (AuditFigure("Recall over the length of the shortlist", partial(_drawn, found)),),
        (),
        (paragraph("rerank", "Shortlists"), paragraph("rerank", "Times", timed=TIMED)),
    )
    return but_few(few_clips(groups), result)


def _of_model(model: Model, others: Mapping[str, ScoreBlocks], settings: AuditSettings) -> dict[Stage, Depths]:
    texts, videos = encode_texts(model.matcher, model.part.texts), encode_videos(model.matcher, model.part.videos)
    expensive = MatcherScores(model.matcher, texts, videos)
    cheap = {**_cheap(model, texts, videos), **others}
    if not cheap:
        raise UsageError(
            f"Nothing can choose shortlists for {model.name}: it has no cheap score, and the mean of frames is none "
            "beside it; name scores with --scores NAME=FILE."
        )
    gallery = len(videos.ids)
    if gallery <= DEPTHS[0]:
        raise CorpusError(
            f"The split has {gallery} clips, and the shortest shortlist has {DEPTHS[0]}; take a larger one."
        )
    lengths = [*(depth for depth in DEPTHS if depth < gallery), gallery]
    whole = _evaluated(expensive, model.part.corpus, settings)
    found = {}
    for name, scores in cheap.items():
        first = aligned(scores, expensive)
        times = _times(model.matcher, texts, videos, first, lengths)
        ceiling = _evaluated(first, model.part.corpus, settings)
        depths = {0: AtDepth(ceiling.summary, Interval(0.0), _loss(ceiling, whole, settings), None)}
        for length in lengths:
            there = _evaluated(TwoStage(first, expensive, length, settings.seed), model.part.corpus, settings)
            inside = share_interval(ceiling.hit_chance(length), ceiling.groups, settings)
            loss = _loss(there, whole, settings)
            if length == gallery:  # whatever is asked, these are all clips in the order of the matcher itself
                inside, loss = Interval(100.0, 100.0, 100.0), Interval(0.0, 0.0, 0.0)
            depths[length] = AtDepth(there.summary, inside, loss, times[length])
        found[Stage(model.name, name)] = depths
    return found


def _cheap(model: Model, texts: Encoded, videos: Encoded) -> dict[str, ScoreBlocks]:
    """The matcher's own cheap score; where it has none, cosines with the mean frame, if these are another thing."""
    own = coarse_scorer(model.matcher)
    if own is not None:
        return {OWN: MatcherScores(own, texts, videos)}
    part = model.part
    dimension = part.videos.frames.shape[-1]
    if isinstance(model.matcher, MeanPool) or part.texts.sentence.shape[-1] != dimension:
        return {}
    return {ZERO_SHOT: matcher_scores(build_matcher("mean_pool", dimension), part.texts, part.videos)}


def _evaluated(scores: ScoreBlocks, corpus: Corpus, settings: AuditSettings) -> DirectionResult:
    wanted = EvaluationSettings(
        metrics=METRICS, directions=("t2v",), resamples=settings.resamples, seed=settings.seed,
        confidence=settings.confidence, band_bytes=settings.band_bytes,
    )  # fmt: skip
    return evaluate(scores, corpus, wanted).directions["t2v"]


def _loss(there: DirectionResult, whole: DirectionResult, settings: AuditSettings) -> Interval:
    return hits_interval(there.per_query["R@1"] - whole.per_query["R@1"], whole.groups, settings)


def _times(
    matcher: Matcher, texts: Encoded, videos: Encoded, cheap: ScoreBlocks, lengths: list[int]
) -> dict[int, float]:
    """Median milliseconds of a caption, by the length of its shortlist."""
    count = min(TIMED, len(texts.ids))
    places = shortlists(np.array(cheap.block(slice(0, count), slice(0, len(videos.ids)))), lengths[-1])
    some = [Encoded(texts.ids[row : row + 1], take_rows(texts.state, slice(row, row + 1))) for row in range(count)]

    def seconds(row: int, length: int) -> float:
        began = time.perf_counter()
        if length < len(videos.ids):
            score_shortlists(matcher, some[row], videos, places[row : row + 1, :length])
        else:  # a shortlist of all would copy all
            MatcherScores(matcher, some[row], videos).score_all()
        return time.perf_counter() - began

    seconds(0, lengths[0])  # the first time costs more
    # All lengths of a caption before the next one: what else the machine does meanwhile slows all of them.
    taken = np.array([[seconds(row, length) for length in lengths] for row in range(count)])
    return dict(zip(lengths, (1000 * np.median(taken, axis=0)).tolist(), strict=True))


def smallest(depths: Depths, margin: float) -> int:
    """Return the shortest shortlist, of those measured, that surely loses less than `margin` points of R@1.

    Surely: by the lower end of the loss's interval, or by the loss itself where there is none.

    >>> def at(loss): return AtDepth({}, Interval(0.0), loss, None)
    >>> smallest({0: at(Interval(-30.0)), 5: at(Interval(-0.5, -1.2, 0.1)), 9: at(Interval(0.0, 0.0, 0.0))}, 1.0)
    9
    """
    enough = (depth for depth, there in depths.items() if _least(there.loss) > -margin)
    return min(enough, default=max(depths))


def _least(loss: Interval) -> float:
    return loss.value if loss.low is None else loss.low


def told(stage: Stage, depths: Depths, margin: float) -> str:
    """Say in two sentences how long a shortlist has to be that loses less than `margin` points of R@1."""
    gallery, chosen = max(depths), smallest(depths, margin)
    whole, alone = (depths[length].figures["R@1"].value for length in (gallery, 0))
    there = depths[chosen]
    surely = "" if there.loss.low is None else "surely "
    enough = f"{surely}loses less than {margin:g} {'point' if margin == 1 else 'points'} of R@1"
    if chosen == gallery:
        before = max(length for length in depths if length < gallery)
        said = (
            f"no shortlist {enough}, not even the first {before:,} of {gallery:,} clips ({shown(depths[before].loss)})"
        )
    elif chosen == 0:
        said = _by_the_cheap_score(there.loss, enough)
    else:
        said = (
            f"re-ranking the first {chosen:,} of {gallery:,} clips {enough} ({shown(there.loss)}) beside scoring all "
            f"of them, and the clip is among these for {there.inside.value:.1f} % of the captions"
        )
    return f"{stage}: {said}. R@1 is {whole:.1f} % with all scored and {alone:.1f} % by the cheap score alone."


def _by_the_cheap_score(loss: Interval, enough: str) -> str:
    """What is to be said where the cheap score alone does: its R@1 less that of re-ranking all is the loss.

    >>> _by_the_cheap_score(Interval(4.4, 0.2, 8.5), "surely loses less than 1 point of R@1")
    're-ranking does harm: the cheap score alone has +4.4 (+0.2 to +8.5) points of R@1 beside it'
    """
    if _least(loss) > 0:
        harms = "seems to do" if loss.low is None else "does"
        return f"re-ranking {harms} harm: the cheap score alone has {shown(loss)} points of R@1 beside it"
    if loss.value >= 0:
        return f"re-ranking gains nothing: the cheap score alone has {shown(loss)} points of R@1 beside it"
    return f"the cheap score alone {enough} ({shown(loss)})"


def _table(stage: Stage, depths: Depths) -> AuditTable:
    gallery = max(depths)
    named = {0: "none: the cheap score alone", gallery: f"all {gallery:,}"}
    rows = (
        {
            "clips re-ranked": named.get(length, str(length)),
            "clip among them, %": there.inside.value,
            **{f"{metric}, %": there.figures[str(metric)] for metric in METRICS},
            "R@1 less that of all, points": there.loss,
            "ms a query": there.milliseconds,
        }
        for length, there in depths.items()
    )
    return AuditTable.of(str(stage), rows)


def _drawn(found: Mapping[Stage, Depths]) -> go.Figure:
    """Recall over the length of the shortlist, on a logarithmic axis; the cheap score alone is a level line."""

    def lines(metric: str) -> dict[str, Line]:
        drawn: dict[str, Line] = {}
        for stage, depths in found.items():
            drawn[str(stage)] = [(float(length), there.figures[metric]) for length, there in depths.items() if length]
            ends = [min(length for length in depths if length), max(depths)]
            level = Interval(depths[0].figures[metric].value)
            drawn[f"{stage.model}: {stage.cheap} alone"] = [(float(length), level) for length in ends]
        return drawn

    parts = [Panel(f"{metric} over the shortlist", f"{metric}, %", lines(str(metric))) for metric in METRICS]
    figure = sweep(parts, "clips re-ranked for a caption")
    figure.update_xaxes(type="log")
    return figure
