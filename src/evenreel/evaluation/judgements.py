"""Judgements of pairs of caption and clip, read from TREC files (`query 0 item grade`), and what was never judged.

Pooled judgements are of the first items of the systems that took part, so another system may rank items first that
nobody judged; they count as not relevant. `unjudged@k` says how many these are (Buckley and Voorhees 2004; the
complement of `Judged@k` in ir_measures).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from evenreel.arguments import as_path, check_ids
from evenreel.arrays import Column
from evenreel.corpus.relevance import Relevance, RelevantPairs
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.bands import query_by_query, score_pieces
from evenreel.evaluation.blocks import Items, Search
from evenreel.evaluation.metrics import UNJUDGED, Metric
from evenreel.evaluation.ordered import binary_preference
from evenreel.evaluation.places import find_places
from evenreel.evaluation.settings import EvaluationSettings, Ties
from evenreel.evaluation.trec import trec_lines

_LINE = r"^\s*(?<query>\S+)\s+\S+\s+(?<item>\S+)\s+(?<grade>[-+]?[0-9]+)\s*$"


_BPREF = "Bpref"


@dataclass(frozen=True, eq=False)
class Judgements:
    """Degrees of relevance of Q captions and V videos of which some pairs were judged; implements `Relevance`.

    Attributes:
        degrees: (Q, V) sparse degrees of relevance, 0 to 1.
        judged: (Q, V) pairs that were judged, relevant or not.
        notices: sentences on what was left out, and on what counts.
    """

    degrees: sparse.csr_array
    judged: RelevantPairs
    notices: tuple[str, ...] = ()

    @property
    def known_pairs(self) -> Judgements:
        """All judged pairs: of degree 1 where fully relevant, of one half where less or not."""
        full = (self.degrees == 1).astype(np.float64)
        return Judgements(sparse.csr_array(0.5 * self.judged.matrix.astype(np.float64) + 0.5 * full), self.judged)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of captions and videos, (Q, V)."""
        return self.judged.shape

    def block(self, captions: slice, videos: slice) -> NDArray[np.float64]:
        """Return the relevance (rows, columns) of some captions and videos; both slices have a start and a stop."""
        return np.asarray(self.degrees[captions][:, videos].toarray(), dtype=np.float64)


def read_qrels(path: str | PathLike[str], caption_ids: Sequence[str], video_ids: Sequence[str]) -> Judgements:
    """Read TREC judgements, also compressed as `.gz`, with captions as queries.

    A grade above 0 is relevant, by its share of the highest grade; 0 and below were judged and are not relevant.

    Args:
        path: file with a line `query 0 item grade` a pair.
        caption_ids: Q captions, in the order of the scores.
        video_ids: V clips, in the order of the scores.

    Returns:
        Judgements of these captions and clips; those of others are left out, with a notice.

    Raises:
        ScoresError: the file cannot be read, a line is none of judgements, a pair has two grades, or nothing relevant
            is among these captions and clips.
    """
    path = as_path(path, "path")
    for ids, name in ((caption_ids, "caption_ids"), (video_ids, "video_ids")):
        check_ids(ids, name)
    if not path.is_file():
        raise ScoresError(f"There is no file {path}.")
    rows = _rows(path)
    captions, videos = ({one: place for place, one in enumerate(ids)} for ids in (caption_ids, video_ids))
    places = rows.with_columns(
        pl.col("query").replace_strict(captions, default=None, return_dtype=pl.Int64),
        pl.col("item").replace_strict(videos, default=None, return_dtype=pl.Int64),
    )
    known = places.drop_nulls()
    highest = known["grade"].max() if known.height else 0
    if not isinstance(highest, int) or highest <= 0:
        raise ScoresError(
            f"None of the {rows.height:,} judgements of {path} calls a clip of the scores relevant to one of their "
            f"captions (its first line is of {rows['query'][0]!r} and {rows['item'][0]!r}); give the judgements of "
            "these captions, with a caption as the query of each line."
        )
    pairs = known["query"].to_numpy(), known["item"].to_numpy()
    shape = len(caption_ids), len(video_ids)
    degrees = sparse.csr_array((np.maximum(known["grade"].to_numpy(), 0) / highest, pairs), shape=shape)
    degrees.eliminate_zeros()
    judged = RelevantPairs(sparse.csr_array((np.ones(known.height, np.bool_), pairs), shape=shape))
    return Judgements(degrees, judged, _notices(path, rows, known, highest))


def _rows(path: Path) -> pl.DataFrame:
    """Query, item and grade of each pair, once."""
    lines = trec_lines(path, "judgements", "Give a TREC file of them.")
    rows = lines.select("number", pl.col("line").str.extract_groups(_LINE)).unnest("line")
    rows = rows.with_columns(pl.col("grade").cast(pl.Int64, strict=False))
    if rows.height == 0 or len(wrong := rows["grade"].is_null().arg_true()):
        where = f"Line {rows['number'][wrong[0]]} of {path}" if rows.height else f"{path}, which is empty,"
        raise ScoresError(f"{where} has not the four words of a judgement, which are query, 0, item and a whole grade.")
    rows = rows.select("query", "item", "grade").unique(maintain_order=True)
    if len(twice := rows.select("query", "item").is_duplicated().arg_true()):
        query, item, _ = rows.row(twice[0])
        raise ScoresError(f"{path} gives the pair of {query!r} and {item!r} two grades; leave one of them.")
    return rows


def _notices(path: Path, rows: pl.DataFrame, known: pl.DataFrame, highest: int) -> tuple[str, ...]:
    told = []
    if left := rows.height - known.height:
        told.append(
            f"{left:,} of {rows.height:,} judgements of {path} are of captions or clips without scores, and are "
            "left out."
        )
    if known.filter((pl.col("grade") > 0) & (pl.col("grade") < highest)).height:
        told.append(
            f"The judgements have grades up to {highest}: lower ones are degrees for nDCG, and R@k, mAP and ranks "
            f"count {highest} alone."
        )
    return tuple(told)


def check_judged(relevance: Relevance, settings: EvaluationSettings) -> None:
    """Check that metrics of what was judged can be computed.

    Raises:
        UsageError: `unjudged@k` is asked for and the relevance is not from judgements, or Bpref of grouped captions.
    """
    asked = [str(metric) for metric in settings.metrics if metric.name == UNJUDGED]
    if asked and not isinstance(relevance, Judgements):
        raise UsageError(f"{asked[0]} needs to know which pairs were judged; give a file of judgements (--judgements).")
    grouped = settings.v2t_protocol != "best-caption" and "v2t" in settings.directions
    if grouped and isinstance(relevance, Judgements) and any(metric.name == _BPREF for metric in settings.metrics):
        raise UsageError(f"{_BPREF} is of judged single captions; use the protocol best-caption, or t2v alone.")


def judged_columns(search: Search, settings: EvaluationSettings) -> dict[str, Column]:
    """Compute the columns (n,) in percent of metrics that know what was judged: `unjudged@k`, and Bpref of judgements.

    `unjudged@k` is the share of the first k retrieved items of each query that nobody judged. Equal scores are in
    random order, and the share is the mean over all orders. A query with fewer than k retrieved items has the share of
    these; one with none has 0. Bpref is that of the ranking without what nobody judged.

    Args:
        search: queries, gallery and relevance; scores are not read where no such metric is asked for.
        settings: metrics, the rule for ties, and about how many bytes of scores are read at once.
    """
    asked = [metric for metric in settings.metrics if metric.name in (UNJUDGED, _BPREF)]
    if not asked or not isinstance(search.relevance, Judgements):
        return {}
    of_judged = Search(search.scores, search.relevance.known_pairs, search.turned)
    parts = [
        [_column(metric, query_by_query(scores), items, settings.ties) for metric in asked]
        for scores, items in score_pieces(of_judged, settings.band_bytes)
    ]
    return {str(metric): np.concatenate(part) for metric, part in zip(asked, zip(*parts, strict=True), strict=True)}


def _column(metric: Metric, scores: NDArray[Any], judged: Items, ties: Ties) -> Column:
    """Scores (b, gallery) and judged items of b queries, those of full relevance with degree 1 -> (b,), in percent."""
    if metric.name == UNJUDGED:
        alike = replace(judged, degree=np.ones(len(judged.item)))
        return _share(scores, alike, int(metric.cutoff or 0))
    alone = np.full(scores.shape, -np.inf)
    alone[judged.query, judged.item] = scores[judged.query, judged.item]
    relevant = judged.where(judged.degree == 1)
    counts = np.bincount(judged.query, minlength=len(scores))
    return 100 * binary_preference(find_places(alone, relevant, ties), counts)


def _share(scores: NDArray[Any], judged: Items, k: int) -> Column:
    """Scores (b, gallery) and judged items of b queries -> (b,) share of the first k that are not judged."""
    places = find_places(scores, judged)
    reached = np.minimum(places.above + places.size, k) - np.minimum(places.above, k)
    held = places.retrieved * places.strict / places.size * reached
    among = np.bincount(places.query, held, minlength=len(scores))
    depth = np.minimum((scores > -np.inf).sum(axis=1), k)
    return np.asarray(100 * np.divide(depth - among, depth, out=np.zeros(len(scores)), where=depth > 0))
