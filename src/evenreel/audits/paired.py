"""Source bias measured in pairs: real clips and the generated ones that mirror them, in the same ranking.

Generative Ghost, section 2.4: figures in separate and mixed galleries; Relative, Location and Normalized
deltas. Beside them what the paper does not have: how often the real clip stands above its mirror, with a sign test, and
intervals from samples of pairs (Efron 1979), all figures on the same samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.deltas import DELTA_METRICS, LOCATION_METRICS, MIX_R, location_figure, mix_r, relative_delta
from evenreel.audits.pairs import PairedScores, pair_scores
from evenreel.audits.ranks import ROWS, rank_captions, rank_videos
from evenreel.audits.result import AuditSettings, checked_settings
from evenreel.audits.samples import (
    Drawn,
    auc_interval,
    drawn_figures,
    groups_won,
    interval_of,
    mean_interval,
    sign_test,
)
from evenreel.errors import UsageError
from evenreel.evaluation.first_hit import Hits, hit_columns
from evenreel.evaluation.metrics import FIRST_RANK, PerQuery
from evenreel.evaluation.results import Interval
from evenreel.types import Corpus, ScoreBlocks

LocationMode = Literal["expected", "random"]

_PLACED = ("placed real", "placed generated")
"""Rows of what the Location deltas of random orders are calculated from."""


@dataclass(frozen=True, eq=False)
class SourceMeasures:
    """How one group of generated clips and the real clips that they mirror are ranked.

    Shares are in percent. Every interval is of samples of pairs, in which all captions of a pair count together.

    Attributes:
        group: generator and setting.
        pairs: n, how many pairs the galleries hold.
        asked_for: how many of the pairs have a caption; the others only fill the galleries.
        captions: Q, how many look for them.
        figures: by row (`real`, `generated`, `mixed real`, `mixed generated`), then by metric.
        deltas: by kind (`relative`, `location`, `normalized`), then by metric and `MixR`; above 0 favours real clips.
        win_rate: captions whose real clip stands above its mirror, ties half; 50 is neutral.
        sign_p: two-sided, of the sign test that as many pairs are won by the real clip as by its mirror.
        clips_won, clips_lost: pairs in which most captions put the real clip, or the mirror, above the other.
        auc: chance that the score of a caption and its real clip is above that of another with its mirror; 50 is
            neutral.
        even_win_rate: the win rate over captions for which both clips have the same rank in the galleries of their own
            kind, so that relevance cannot explain it; None where there are none.
        even_captions: how many these are.
        video_figures: of clips that look for the captions of their pair, by row (`real`, `generated`), then metric.
        video_deltas: the Relative deltas of these.
        rank_gaps: (Q,) rank of the real clip less that of its mirror in the mixed gallery.
        location: whether the Location deltas are the mean of both orders or of orders drawn at random.
        notices: sentences on what was left out.
    """

    group: str
    pairs: int
    asked_for: int
    captions: int
    figures: dict[str, dict[str, Interval]]
    deltas: dict[str, dict[str, Interval]]
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
    scores: ScoreBlocks,
    corpus: Corpus,
    group: str,
    settings: AuditSettings | None = None,
    *,
    location: LocationMode = "expected",
) -> SourceMeasures:
    """Measure one group of generated clips against the real clips that they mirror.

    Queries are the captions of real clips that have a mirror of the group; each looks among the n real clips, the n
    mirrors and all 2n for its clip and for the mirror. Equal scores count with their mean over all orders.

    Args:
        scores: of captions and clips; others than those of the pairs may be among them.
        corpus: which says who mirrors whom.
        group: a generator and its setting, see `evenreel.corpus.counterparts`.
        settings: samples, seed, confidence, and how much is read at once.
        location: `expected`, the mean of both orders of a clip and its mirror, which reproduces the paper's tables; or
            `random`, an order drawn for each caption with the seed, as the paper puts it.

    Raises:
        CorpusError: no pair of the group can be measured.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
        UsageError: the location is not known.
    """
    if location not in ("expected", "random"):
        raise UsageError(f"{location!r} is no way to place the Location deltas; there are: expected, random.")
    settings = checked_settings(scores, corpus, settings)
    paired = pair_scores(scores, corpus, group)
    ranks = rank_captions(paired, settings.band_bytes)
    columns = {row: hit_columns(hits, LOCATION_METRICS) for row, hits in ranks.hits.items()}
    placed = {} if location == "expected" else _random_places(paired, ranks.hits, columns, settings.seed)
    drawn = drawn_figures(columns | placed, paired.pair, settings)
    found = rank_videos(paired, ranks, settings.band_bytes)
    of_videos = {row: hit_columns(hits, LOCATION_METRICS) for row, hits in found.items()}
    drawn_videos = drawn_figures(of_videos, np.unique(paired.pair), settings)
    rank = {row: columns[row][FIRST_RANK] for row in columns}
    even = rank["real"] == rank["generated"]
    evenly = np.where(even, 100 * ranks.wins, np.nan)
    won, lost = groups_won(ranks.wins, paired.pair)
    return SourceMeasures(
        group,
        len(paired.real),
        len(np.unique(paired.pair)),
        len(paired.pair),
        figures={row: _shown(drawn[row], settings) for row in columns},
        deltas={kind: _shown(deltas, settings) for kind, deltas in _deltas(drawn).items()},
        win_rate=mean_interval(100 * ranks.wins, paired.pair, settings),
        sign_p=sign_test(won, lost),
        clips_won=won,
        clips_lost=lost,
        auc=auc_interval(ranks.real, ranks.generated, paired.pair, settings),
        even_win_rate=mean_interval(evenly, paired.pair, settings) if even.any() else None,
        even_captions=int(even.sum()),
        video_figures={row: _shown(drawn_videos[row], settings) for row in of_videos},
        video_deltas=_shown(_relative(drawn_videos["real"], drawn_videos["generated"]), settings),
        rank_gaps=rank["mixed real"] - rank["mixed generated"],
        location=location,
        notices=paired.notices,
    )


def _random_places(
    paired: PairedScores, hits: Mapping[str, Hits], columns: Mapping[str, PerQuery], seed: int
) -> dict[str, PerQuery]:
    """Columns of both kinds where, caption by caption, the real clip (c = 1) or its mirror (c = 0) is put first.

    A clip of rank r then has the rank 2r - c, its mirror 2r - (1 - c).
    """
    drawn = np.random.default_rng(seed).integers(0, 2, paired.drawn.max() + 1)[paired.drawn]
    return {
        _PLACED[0]: _placed(hits["real"], columns["real"], drawn),
        _PLACED[1]: _placed(hits["generated"], columns["generated"], 1 - drawn),
    }


def _placed(hits: Hits, columns: PerQuery, ahead: NDArray[np.int64]) -> PerQuery:
    """Columns of clips of rank r that have the rank 2r - `ahead` (0 or 1) in the mixed gallery."""
    placed = {FIRST_RANK: 2 * columns[FIRST_RANK] - ahead}
    for metric in LOCATION_METRICS:
        if isinstance(metric.cutoff, int):
            later, sooner = hits.chance(metric.cutoff // 2), hits.chance((metric.cutoff + 1) // 2)
            placed[str(metric)] = 100 * np.where(ahead, sooner, later)
    return placed


def _deltas(drawn: Mapping[str, Drawn]) -> dict[str, Drawn]:
    """By kind, then metric."""
    kinds = [drawn[row] for row in _PLACED] if _PLACED[0] in drawn else [_located(drawn[row]) for row in ROWS[:2]]
    relative, location = _relative(drawn["mixed real"], drawn["mixed generated"]), _relative(*kinds)
    return {
        "relative": relative,
        "location": location,
        "normalized": {word: relative[word] - location[word] for word in relative},
    }


def _located(drawn: Drawn) -> Drawn:
    return {str(metric): location_figure(metric, drawn) for metric in DELTA_METRICS}


def _relative(real: Drawn, generated: Drawn) -> Drawn:
    """The Relative delta of each metric, and their MixR."""
    deltas = {
        str(metric): relative_delta(metric, real[str(metric)], generated[str(metric)]) for metric in DELTA_METRICS
    }
    return deltas | {MIX_R: mix_r(deltas)}


def _shown(drawn: Drawn, settings: AuditSettings) -> dict[str, Interval]:
    """Intervals of what the paper's tables show."""
    words = [*map(str, DELTA_METRICS), MIX_R]
    return {word: interval_of(drawn[word], settings) for word in words if word in drawn}
