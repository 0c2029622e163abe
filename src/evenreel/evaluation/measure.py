"""Evaluation of scores on a corpus: checks, relevance, protocols, figures and notices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from evenreel.config import check_progress, check_settings_kind, described, whole
from evenreel.corpus.folder import CorpusLike, as_corpus
from evenreel.corpus.relevance import Relevance
from evenreel.corpus.tables import splits_of
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.accepted import ScoresLike, as_scores, own_scores
from evenreel.evaluation.answers import DIAGONAL, QRELS, RelevanceLike, judgements_of, relevance_of, truth_of
from evenreel.evaluation.bands import Ranked, RankingPlan, rank_all
from evenreel.evaluation.blocks import (
    CaptionGroups,
    CheckedScores,
    GroupedScores,
    Search,
    group_relevance,
)
from evenreel.evaluation.by_column import check_columns, with_groups
from evenreel.evaluation.clusters import Clusters, clusters_of
from evenreel.evaluation.fitted import served
from evenreel.evaluation.intervals import effective, figure_intervals
from evenreel.evaluation.metrics import Metric
from evenreel.evaluation.ordered import DiscountTables
from evenreel.evaluation.results import DirectionResult, Evaluation
from evenreel.evaluation.settings import Direction, EvaluationSettings
from evenreel.evaluation.weighted import mean_of
from evenreel.progress import Progress, part_of
from evenreel.types import Corpus

FEWEST = 20
"""Over fewer clips, or videos, than this intervals cover less than they say (`benchmarks/coverage.py`)."""


def evaluate(
    scores: ScoresLike,
    corpus: CorpusLike | None = None,
    settings: EvaluationSettings | None = None,
    *,
    relevance: RelevanceLike = "clip",
    captions_per_clip: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate the scores of captions and videos: rank in both directions, and compute metrics with intervals.

    `evaluate(matrix)` takes the diagonal of a square matrix for the truth, and says so: row i is a caption of clip i.

    Nothing of the size Q x V is made: scores are read in bands of `settings.band_bytes`, each score once a direction,
    from the calling thread.

    Args:
        scores: scores of Q captions and V videos: `Scores` or any `ScoreBlocks`, a path, an array, a tensor, a
            DataFrame or a dictionary; see `ScoresLike`.
        corpus: corpus of these captions and clips, of which the split is selected first; its path, or a table of
            captions; see `CorpusLike`. None: the relevance says what answers what.
        settings: metrics, protocols, ties, intervals; see `EvaluationSettings`. None: lists that leave pairs out are
            measured in their own direction alone.
        relevance: a name of `RELEVANCE`, or degrees from 0 to 1, (Q, V) in the order of the scores' ids, as an array or
            a `Relevance`, or as a DataFrame with these ids; or judgements (qrels), whose path may be given, see
            `RelevanceLike`. Without a corpus it is judgements or the diagonal of a matrix.
        captions_per_clip: without a corpus, how many rows that follow each other are captions of one clip.
        progress: called repeatedly with the share that is done, 0 to 1.

    Returns:
        Per-query columns and figures of each direction. Every query counts exactly once; one without anything relevant
        is listed, not counted.

    Raises:
        ScoresError: the scores do not fit the corpus, hold NaN, or leave nothing to compute a metric from.
        CorpusError: the relevance needs classes, and the corpus has none.
        UsageError: an argument is of the wrong kind; the relevance is not known, has another shape, or degrees outside
            0 to 1, or needs a corpus.

    >>> import polars as pl
    >>> from evenreel.corpus import make_corpus
    >>> from evenreel.types import Scores
    >>> corpus = make_corpus(
    ...     pl.DataFrame({"clip_id": ["a", "b"]}),
    ...     pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "b"], "text": ["a ball", "a box"]}),
    ... )
    >>> found = evaluate(Scores(np.array([[0.9, 0.1], [0.5, 0.5]]), ["0", "1"], ["a", "b"]), corpus)
    >>> found.directions["t2v"].per_query["R@1"].tolist()  # the tie is right half of the time
    [100.0, 50.0]
    >>> evaluate([[0.9, 0.1], [0.5, 0.5]]).directions["t2v"].summary["R@1"].value
    75.0
    """
    check_settings_kind(settings, EvaluationSettings)
    check_progress(progress)
    given, settings = settings, settings or EvaluationSettings()
    notices: list[str] = []
    if not (allowed := whole(1)).holds(captions_per_clip):
        raise UsageError(f"captions_per_clip is {described(captions_per_clip)}; it must be {allowed.words}.")
    if corpus is None:
        where = str(scores) if isinstance(scores, (str, PathLike)) else "scores"
        own = own_scores(scores)
        truth = truth_of({where: own}, relevance, captions_per_clip)
        scores = truth.fitted(own, where, notices.append, partial=settings.partial)
        corpus, relevance, what = truth.corpus, truth.relevance, truth.name
    else:
        if captions_per_clip != 1 or (isinstance(relevance, str) and relevance == DIAGONAL):
            raise UsageError("The corpus says what belongs together; leave it out, or the diagonal and its captions.")
        corpus = as_corpus(corpus, notice=notices.append)
        scores = as_scores(scores, corpus, partial=settings.partial, notice=notices.append)
        if (judged := judgements_of(relevance)) is not None:
            relevance, what = judged, QRELS
        else:
            what = relevance if isinstance(relevance, str) else "given"
    checked = CheckedScores(scores)
    notices += _misfits(checked, corpus, settings)
    check_columns(corpus, settings.by)
    clusters = clusters_of(corpus, settings.cluster)
    notices += [clusters.notice] if clusters.chosen and clusters.notice and settings.resamples else []
    clip_of = dict(corpus.captions.select("caption_id", "clip_id").iter_rows())
    clips = [clip_of[caption] for caption in checked.caption_ids]
    case = _Case(checked, relevance_of(relevance, corpus, checked), clips, clusters, settings)
    directions: dict[Direction, DirectionResult] = {}
    wanted = settings.directions if given else served(scores, notices.append)
    for number, direction in enumerate(wanted):
        part = part_of(progress, number, len(wanted))
        result = _t2v(case, part) if direction == "t2v" else _v2t(case, part)
        notices += _left_out(result)
        directions[direction] = with_groups(_summarised(result, settings), corpus, settings)
        notices += too_few(directions[direction]) if settings.resamples else []
        notices += beyond_gallery(directions[direction], settings.metrics)
    notices += infinite_scores(checked)
    return Evaluation(
        directions,
        settings.metrics,
        settings.ties,
        what,
        settings.confidence,
        scores.about.uses,
        tuple(notices),
    )


@dataclass(frozen=True, eq=False)
class _Case:
    """What both directions share; `clips` is the clip of each scored caption."""

    scores: CheckedScores
    relevance: Relevance
    clips: list[str]
    clusters: Clusters
    settings: EvaluationSettings

    def drawn_together(self, result: DirectionResult, clips: Sequence[str]) -> DirectionResult:
        """The result with groups of queries whose `clips` (n,) are of one cluster."""
        return replace(result, groups=self.clusters.of(clips), drawn_by=self.clusters.word)


def _t2v(case: _Case, progress: Progress) -> DirectionResult:
    search = Search(case.scores, case.relevance, turned=False)
    ranked = _rank(search, case.settings, progress)
    number: dict[str, int] = {}
    groups = np.array([number.setdefault(clip, len(number)) for clip in case.clips], dtype=np.int64)
    result = _result("t2v", case.settings.t2v_protocol, search, ranked, groups)
    clips = list(number)
    if result.protocol == "video-mean":
        result = _video_means(result, clips)
    return case.drawn_together(result, [clips[group] for group in result.groups])


def _v2t(case: _Case, progress: Progress) -> DirectionResult:
    search = Search(case.scores, case.relevance, turned=True)
    if case.settings.v2t_protocol == "caption-group":
        groups = CaptionGroups.of(case.clips)
        search = Search(GroupedScores(case.scores, groups), group_relevance(case.relevance, groups), turned=True)
    ranked = _rank(search, case.settings, progress, every=case.settings.v2t_protocol == "every-caption")
    result = _result("v2t", case.settings.v2t_protocol, search, ranked, np.arange(len(search.query_ids)))
    return case.drawn_together(result, result.query_ids)


def _rank(search: Search, settings: EvaluationSettings, progress: Progress, *, every: bool = False) -> Ranked:
    plan = RankingPlan(settings.metrics, settings.ties, every, DiscountTables.of(search.gallery_size))
    return rank_all(search, plan, settings, progress)


def _result(
    direction: Direction, protocol: str, search: Search, ranked: Ranked, groups: NDArray[np.int64]
) -> DirectionResult:
    """The queries that have something to find, still without figures."""
    ids, found = search.query_ids, ranked.found
    return DirectionResult(
        direction,
        protocol,
        list(compress(ids, found)),
        groups[found],
        {name: values[found] for name, values in ranked.columns.items()},
        {},
        search.gallery_size,
        search.gallery_digest,
        ranked.hits.renumbered(np.cumsum(found) - 1),
        tuple(compress(ids, ~found)),
    )


def _video_means(result: DirectionResult, clips: Sequence[str]) -> DirectionResult:
    """A row a clip, with the mean over its captions; `clips` are the ids behind the groups."""
    groups, place = np.unique(result.groups, return_inverse=True)
    columns = {name: mean_of(place, values, len(groups)) for name, values in result.per_query.items()}
    ids = [clips[group] for group in groups]
    return replace(result, query_ids=ids, groups=groups, per_query=columns, hits=result.hits.renumbered(place))


def _summarised(result: DirectionResult, settings: EvaluationSettings) -> DirectionResult:
    """Return the result with the figure of each metric."""
    what, items = ("caption", "clip") if result.direction == "t2v" else ("clip", "caption")
    if not result.query_ids:
        raise ScoresError(
            f"No {what} of the scores has a relevant {items} among them, so {result.direction} has no figure; check "
            "that captions and clips are of one split, or use another relevance."
        )
    for metric in settings.metrics:
        if any(np.isnan(result.per_query[column]).all() for column in metric.columns):
            raise ScoresError(
                f"No {what} has a {items} of relevance 1, only of lower degrees, so {metric} has no value in "
                f"{result.direction}; ask for nDCG, which needs none, or use another relevance."
            )
    figures = figure_intervals(result.per_query, result.groups, settings, result.gallery_size)
    return replace(result, summary=figures)


def _left_out(result: DirectionResult) -> list[str]:
    """What has to be said of the queries that do not count, or not in every column."""
    what = "captions" if result.direction == "t2v" else "clips"
    notices = []
    if missing := result.without_relevant:
        notices.append(
            f"{result.direction}: {len(missing):,} {what} have nothing relevant among the scores and are in no figure, "
            f"the first {missing[0]!r}."
        )
    if unknown := int(np.isnan(result.first_rank).sum()):
        notices.append(
            f"{result.direction}: {unknown:,} of {len(result.query_ids):,} queries have nothing of relevance 1, only "
            "lower degrees; they count in nDCG alone."
        )
    return notices


def beyond_gallery(result: DirectionResult, metrics: Sequence[Metric]) -> list[str]:
    """Return a sentence on recalls whose k is at least the size of the gallery, so that no order could change them.

    Returns:
        One sentence, or none where no recall is such.
    """
    size = result.gallery_size
    found = [
        str(metric)
        for metric in metrics
        for column in metric.columns
        if column.startswith("R@") and int(column.removeprefix("R@")) >= size
    ]
    if not found:
        return []
    words = ", ".join(dict.fromkeys(found))
    return [
        f"{result.direction}: the gallery has {size:,} items, so {words} would count all of them in any order; choose "
        "a k below that."
    ]


def too_few(result: DirectionResult) -> list[str]:
    """Return a sentence where there are fewer clips (or videos) than intervals were measured to be valid for.

    Returns:
        One sentence, or none from `FEWEST` on; clusters of unequal size count as `intervals.effective` says.
    """
    told = f"{result.direction}: the {result.drawn_by} that the queries are of"
    rule = f"intervals hold from about {FEWEST} on, so do not rely on these."
    if result.drawn < FEWEST:
        return [f"{told} are too few ({result.drawn}); {rule}"]
    as_many = effective(np.unique(result.groups, return_counts=True)[1].astype(np.float64))
    if as_many >= FEWEST:
        return []
    return [f"{told} differ so much in size that the {result.drawn:,} are as sure as {as_many:.1f} of one size; {rule}"]


def infinite_scores(scores: CheckedScores) -> list[str]:
    """Return a sentence that names the first score of plus infinity that was read; no sentence where there is none."""
    if scores.infinite is None:
        return []
    caption, video = scores.infinite
    return [
        f"The score of caption {caption!r} and video {video!r} is plus infinity, and others may be: they tie ahead of "
        "all finite ones, in whatever order. Half precision overflows to it; check what calculates the scores."
    ]


def _misfits(scores: CheckedScores, corpus: Corpus, settings: EvaluationSettings) -> list[str]:
    """Notices about what the scores leave out; unknown and repeated ids, and gaps unless `partial`, are errors."""
    notices = []
    for ids, known, what, searched in (
        (scores.caption_ids, corpus.captions["caption_id"].to_list(), "caption", "v2t"),
        (scores.video_ids, corpus.clips["clip_id"].to_list(), "clip", "t2v"),
    ):
        scored, there = set(ids), set(known)
        if strangers := [one for one in ids if one not in there]:
            raise ScoresError(
                f"The scores are of {what} {strangers[0]!r}, which the corpus does not have ({len(strangers):,} such "
                f"{what}s in all); give the corpus, or the split, that they were made for."
            )
        if missing := [one for one in known if one not in scored]:
            sentence = (
                f"{len(missing):,} of {len(known):,} {what}s of the corpus have no scores, the first {missing[0]!r}"
            )
            if not settings.partial:
                scored_parts = ", ".join(map(repr, splits_of(corpus, scores.video_ids)))
                which = f" ({scored_parts})" if scored_parts else ""
                raise ScoresError(
                    f"{sentence}; score them, select the split that was scored{which}, or ask for a partial evaluation."
                )
            smaller = searched in settings.directions
            notices.append(
                f"{sentence}{f'; a smaller gallery makes every figure of {searched} look better' if smaller else ''}."
            )
    return notices
