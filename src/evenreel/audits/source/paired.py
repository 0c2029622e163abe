"""Measures of source bias in pairs: real clips and the generated ones that mirror them, in the same ranking.

Generative Ghost, section 2.4: figures in separate and mixed galleries; Relative, Location and Normalized
deltas. Not in the paper are the win rate of the real clip over its mirror, with a sign test, and intervals that are
valid where there are hubs (`evenreel.audits.exchange`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.exchange import (
    DELTA_METRICS,
    LOCATION_METRICS,
    MIX_R,
    Drawn,
    Figures,
    Flips,
    drawn_flips,
    exchange_test,
    groups_won,
    inverted_interval,
    location_figure,
    mix_r,
    relative_delta,
    share_interval,
    sign_test,
    swapped_alone,
    swapped_figures,
)
from evenreel.audits.inputs import PairedScores, as_inputs, pair_scores
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source.ranks import Block, rank_captions, rank_videos
from evenreel.config import check_kind
from evenreel.corpus.accepted import CorpusLike
from evenreel.errors import UsageError
from evenreel.evaluation.accepted import ScoresLike
from evenreel.evaluation.first_hit import hit_columns
from evenreel.evaluation.intervals import figure_intervals
from evenreel.evaluation.metrics import FIRST_RANK, PerQuery
from evenreel.evaluation.results import Interval
from evenreel.evaluation.settings import EvaluationSettings
from evenreel.types import Shown

LocationMode = Literal["expected", "random"]

_FURTHEST = {"relative": 200.0, "location": 200.0, "normalized": 400.0}
"""How far from 0 a delta can be."""


@dataclass(frozen=True, eq=False)
class SourceMeasures(Shown):
    """Measures of how one group of generated clips and the real clips that they mirror are ranked.

    Shares are in percent. Intervals of deltas and of the AUC are over captions and clips, those of figures and win
    rates over captions; all captions of a pair are resampled together, and all pairs of a video where the settings say
    so.

    Attributes:
        group: name of the generator and its setting.
        pairs: number n of pairs in the galleries.
        asked_for: number of pairs that have a caption; the others only fill the galleries.
        captions: number Q of their captions.
        drawn: number of independent pairs with a caption: those of one video count once.
        figures: figures by row (`real`, `generated`, `mixed real`, `mixed generated`), then by metric.
        deltas: deltas in percent by kind (`relative`, `location`, `normalized`), then by metric and `MixR`; above 0
            favours real clips.
        swapped: (1 + B,) Normalized delta MixR as measured, and with the clips of some pairs exchanged.
        p_value: two-sided p value of a delta of 0, by these samples; None without samples.
        win_rate: share of captions that rank the real clip above its mirror, ties half; 50 is neutral.
        sign_p: two-sided p value of the sign test, by which real clips and mirrors win as many pairs.
        clips_won, clips_lost: number of pairs in which most captions rank the real clip, or the mirror, above the
            other; those resampled together count as one.
        auc: chance, in percent, that the score of a caption and its real clip is above that of another with its mirror;
            50 is neutral.
        even_win_rate: the win rate over captions for which both clips have the same rank in the galleries of their own
            kind, so that relevance cannot explain it; None where there are none.
        even_captions: number of the captions that `even_win_rate` is over.
        video_figures: figures of clips as queries for the captions of their pair, by row (`real`, `generated`), then
            metric.
        video_deltas: Relative deltas of these, by metric.
        rank_gaps: (Q,) rank of the real clip less that of its mirror in the mixed gallery.
        location: whether the Location deltas are the mean of both orders or of orders drawn at random.
        notices: sentences on what was left out.
    """

    group: str
    pairs: int
    asked_for: int
    captions: int
    drawn: int
    figures: dict[str, dict[str, Interval]]
    deltas: dict[str, dict[str, Interval]]
    swapped: Figures
    p_value: float | None
    win_rate: Interval
    sign_p: float
    clips_won: int
    clips_lost: int
    auc: Interval
    even_win_rate: Interval | None
    even_captions: int
    video_figures: dict[str, dict[str, Interval]]
    video_deltas: dict[str, Interval]
    rank_gaps: NDArray[np.float64]
    location: LocationMode = "expected"
    notices: tuple[str, ...] = ()


def measure_source(
    scores: ScoresLike,
    corpus: CorpusLike,
    group: str,
    settings: AuditSettings | None = None,
    *,
    location: LocationMode = "expected",
) -> SourceMeasures:
    """Measure how one group of generated clips and the real clips that they mirror are ranked.

    Queries are the captions of real clips that have a mirror of the group; each ranks the n real clips, the n mirrors,
    and all 2n, in which its clip and the mirror are relevant. Equal scores count with their mean over all orders.

    Args:
        scores: scores of captions and clips, which may include others than those of the pairs.
        corpus: corpus with the pairs of real clips and mirrors.
        group: group of mirrors: generator and setting.
        settings: samples, seed, confidence, and how much is read at once.
        location: `expected`, the mean of both orders of a clip and its mirror, which reproduces the paper's tables; or
            `random`, an order drawn for each caption with the seed, as the paper's text says.

    Raises:
        CorpusError: no pair of the group can be measured.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
        UsageError: the location is not known.
    """
    if location not in ("expected", "random"):
        raise UsageError(f"{location!r} is no way to place the Location deltas; there are: expected, random.")
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    check_kind(group, str, "group", "give the name of one, one text")
    paired = pair_scores(scores, corpus, group, settings.cluster)
    ranks = rank_captions(paired, settings.band_bytes)
    columns = {row: hit_columns(hits, LOCATION_METRICS) for row, hits in ranks.hits.items()}
    galleries = {row: (1 + row.startswith("mixed")) * len(paired.real) for row in columns}
    found = rank_videos(paired, ranks, settings.band_bytes)
    of_videos = {row: hit_columns(hits, LOCATION_METRICS) for row, hits in found.items()}
    flips, asked = drawn_flips(int(paired.cluster.max()) + 1, settings), np.unique(paired.pair)
    deltas = _deltas(paired, columns, flips, settings, _ahead(paired, settings.seed) if location == "random" else None)
    videos = swapped_figures(of_videos["real"], of_videos["generated"], paired.cluster[asked], flips)
    rank = {row: columns[row][FIRST_RANK] for row in columns}
    even = rank["real"] == rank["generated"]
    evenly = np.where(even, 100 * ranks.wins, np.nan)
    won, lost = groups_won(ranks.wins, paired.drawn_with)
    swapped = deltas["normalized"][MIX_R]
    return SourceMeasures(
        group,
        len(paired.real),
        len(asked),
        len(paired.pair),
        len(np.unique(paired.cluster[asked])),
        figures={row: _figures(one, paired.drawn_with, settings, galleries[row]) for row, one in columns.items()},
        deltas={kind: _delta_intervals(drawn, settings, _FURTHEST[kind]) for kind, drawn in deltas.items()},
        swapped=swapped,
        p_value=exchange_test(swapped),
        win_rate=share_interval(100 * ranks.wins, paired.drawn_with, settings),
        sign_p=sign_test(won, lost),
        clips_won=won,
        clips_lost=lost,
        auc=inverted_interval(
            swapped_auc(ranks.real, ranks.generated, paired.drawn_with, flips), settings, 50.0, (0.0, 100.0)
        ),
        even_win_rate=share_interval(evenly, paired.drawn_with, settings) if even.any() else None,
        even_captions=int(even.sum()),
        video_figures={
            row: _figures(one, paired.cluster[asked], settings, len(paired.pair)) for row, one in of_videos.items()
        },
        video_deltas=_delta_intervals(_relative(*videos), settings, _FURTHEST["relative"]),
        rank_gaps=rank["mixed real"] - rank["mixed generated"],
        location=location,
        notices=paired.notices,
    )


def swapped_auc(first: Block, second: Block, cluster: NDArray[np.int64], flips: Flips) -> Figures:
    """Compute the AUC in percent (1 + B,): the chance that one of the first scores (Q,) is above one of the second.

    It is returned as measured, and for B samples in which clusters are exchanged. Ties count half. Every score keeps
    its rank among all 2Q, and Mann and Whitney's sum of ranks is linear in the exchanges.
    """
    both = np.concatenate([first, second])
    _, place, times = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2)[place]
    count = len(first)
    gains = np.bincount(cluster, ranks[count:] - ranks[:count], flips.shape[1])
    beaten = ranks[:count].sum() - count * (count + 1) / 2 + flips @ gains
    return np.asarray(100 * beaten / count**2)


def _ahead(paired: PairedScores, seed: int) -> NDArray[np.int64]:
    """(Q,) whether the real clip (1) or its mirror (0) is put first in the mixed gallery, drawn caption by caption."""
    return np.asarray(np.random.default_rng(seed).integers(0, 2, paired.drawn.max() + 1)[paired.drawn])


def _deltas(
    paired: PairedScores,
    columns: Mapping[str, PerQuery],
    flips: Flips,
    settings: AuditSettings,
    ahead: NDArray[np.int64] | None,
) -> dict[str, Drawn]:
    """Compute deltas by kind, then metric, (1 + B,) as measured and where pairs have changed places."""
    mixed = swapped_figures(columns["mixed real"], columns["mixed generated"], paired.drawn_with, flips)
    alone = swapped_alone(paired, flips, settings.band_bytes, ahead)
    relative = _relative(*mixed)
    location = _relative(*(map(_located_figures, alone) if ahead is None else alone))
    return {
        "relative": relative,
        "location": location,
        "normalized": {word: relative[word] - location[word] for word in relative},
    }


def _located_figures(drawn: Drawn) -> Drawn:
    return {str(metric): location_figure(metric, drawn) for metric in DELTA_METRICS}


def _relative(real: Drawn, generated: Drawn) -> Drawn:
    """The Relative delta of each metric, and their MixR."""
    deltas = {
        str(metric): relative_delta(metric, real[str(metric)], generated[str(metric)]) for metric in DELTA_METRICS
    }
    return deltas | {MIX_R: mix_r(deltas)}


def _delta_intervals(drawn: Drawn, settings: AuditSettings, most: float) -> dict[str, Interval]:
    """Deltas that the paper's tables show, with their intervals."""
    words = (*map(str, DELTA_METRICS), MIX_R)
    return {word: inverted_interval(drawn[word], settings, ends=(-most, most)) for word in words}


def _figures(
    columns: PerQuery, groups: NDArray[np.int64], settings: AuditSettings, gallery: int
) -> dict[str, Interval]:
    """Figures that the paper's tables show, with intervals over captions."""
    wanted = EvaluationSettings(
        DELTA_METRICS, resamples=settings.resamples, seed=settings.seed, confidence=settings.confidence
    )
    return figure_intervals(columns, groups, wanted, gallery)
