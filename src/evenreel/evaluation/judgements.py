"""Judgements of pairs of caption and clip, read from TREC files (`query 0 item grade`), and what was never judged.

Pooled judgements are of the first items of the systems that took part, so another system may rank items first that
nobody judged; they count as not relevant. `unjudged@k` says how many these are (Buckley and Voorhees 2004; the
complement of `Judged@k` in ir_measures).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from evenreel.arrays import Column
from evenreel.corpus.relevance import RelevantPairs
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.bands import query_by_query, score_pieces
from evenreel.evaluation.blocks import Items, Search
from evenreel.evaluation.metrics import UNJUDGED, Metric
from evenreel.evaluation.places import find_places

_LINE = r"^\s*(?<query>\S+)\s+\S+\s+(?<item>\S+)\s+(?<grade>[-+]?[0-9]+)\s*$"


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
    def shape(self) -> tuple[int, int]:
        """Numbers of captions and videos, (Q, V)."""
        return self.judged.shape

    def block(self, captions: slice, videos: slice) -> NDArray[np.float64]:
        """Return the relevance (rows, columns) of some captions and videos; both slices have a start and a stop."""
        return np.asarray(self.degrees[captions][:, videos].toarray(), dtype=np.float64)


def read_qrels(path: Path, caption_ids: Sequence[str], video_ids: Sequence[str]) -> Judgements:
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
    try:
        lines = pl.read_lines(path, row_index_name="number", row_index_offset=1)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ScoresError(f"{path} cannot be read as judgements ({error}); give a TREC file of them.") from error
    lines = lines.with_columns(pl.col("line").str.strip_prefix("\ufeff"))
    lines = lines.filter(pl.col("line").str.strip_chars() != "")
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


def unjudged_columns(search: Search, metrics: Sequence[Metric], band_bytes: int) -> dict[str, Column]:
    """Compute the share (n,) of the first k retrieved items of each query that nobody judged, in percent.

    Equal scores are in random order, and the share is the mean over all orders. A query with fewer than k retrieved
    items has the share of these; one with none has 0.

    Args:
        search: queries, gallery and judgements.
        metrics: metrics, of which only `unjudged@k` are computed; scores are not read where there is none.
        band_bytes: about how many bytes of scores are read at once.

    Raises:
        UsageError: such a metric is asked for, and the relevance is not from judgements.
    """
    asked = [metric for metric in metrics if metric.name == UNJUDGED]
    if not asked:
        return {}
    if not isinstance(search.relevance, Judgements):
        raise UsageError(f"{asked[0]} needs to know which pairs were judged; give a file of judgements (--judgements).")
    of_judged = Search(search.scores, search.relevance.judged, search.turned)
    parts = [
        [_share(query_by_query(scores), items, int(metric.cutoff or 0)) for metric in asked]
        for scores, items in score_pieces(of_judged, band_bytes)
    ]
    return {str(metric): np.concatenate(part) for metric, part in zip(asked, zip(*parts, strict=True), strict=True)}


def _share(scores: NDArray[Any], judged: Items, k: int) -> Column:
    """Scores (b, gallery) and judged items of b queries -> (b,) share of the first k that are not judged."""
    places = find_places(scores, judged)
    reached = np.minimum(places.above + places.size, k) - np.minimum(places.above, k)
    held = places.retrieved * places.strict / places.size * reached
    among = np.bincount(places.query, held, minlength=len(scores))
    depth = np.minimum((scores > -np.inf).sum(axis=1), k)
    return np.asarray(100 * np.divide(depth - among, depth, out=np.zeros(len(scores)), where=depth > 0))
