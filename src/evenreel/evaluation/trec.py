"""TREC files of runs and relevance judgements, as trec_eval, ir_measures, ranx and other tools read them.

A run has a line `query Q0 item rank score tag` for each listed pair, a file of judgements `query 0 item grade`. Lines
that begin with # are comments.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import IO, Any, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import SCORE_BYTES, slices
from evenreel.config import as_path, check_scores, check_word
from evenreel.corpus.relevance import Relevance, RelevantPairs
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.listed import ListedScores, make_listed
from evenreel.evaluation.matrices import unmasked
from evenreel.evaluation.settings import Direction
from evenreel.files import output_file
from evenreel.types import Corpus, ScoreBlocks

GRADES = 100
"""Degrees of relevance, 0 to 1, become whole grades, 0 to this."""

_LINE = r"^\s*(?<query>\S+)\s+\S+\s+(?<item>\S+)\s+\S+\s+(?<score>\S+)\s+(?<tag>\S+)\s*$"
JUDGED = r"^\s*(?<query>\S+)\s+\S+\s+(?<item>\S+)\s+(?<grade>[-+]?\d+(?:\.\d*)?)\s*$"
_TAG = "evenreel"
READABLE = "Scores are read from .npz, .npy, .parquet, .csv, .tsv, .txt and TREC runs."
_BAND_BYTES = 32 * 2**20

Names = Sequence[str] | pl.Series


def read_run(
    path: Path, corpus: Corpus | None, *, partial: bool = False, queries: Direction | None = None
) -> ListedScores:
    """Read the scores of a TREC run, also compressed as `.gz`; its ranks are ignored, the scores make the order.

    What the scores use is taken from tags that `write_run` has written.
    """
    wanted = f"six words of a run, which are query, Q0, item, rank, score and tag. {READABLE}"
    listing = words_of(path, _LINE, "a run", wanted)
    listing = listing.with_columns(pl.col("score").cast(pl.Float64, strict=False))
    found = make_listed(listing, corpus, lambda number: f"Line {number} of {path}", partial=partial, queries=queries)
    return replace(found, uses=_uses_of(listing["tag"].unique(maintain_order=True)))


def words_of(path: Path, form: str, what: str, wanted: str) -> pl.DataFrame:
    """Read the lines of a file but for comments, each with its number, in the parts of a regular expression."""
    try:
        lines = pl.read_lines(path, row_index_name="number", row_index_offset=1)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ScoresError(f"{path} cannot be read as {what} ({error}). {READABLE}") from error
    lines = lines.with_columns(pl.col("line").str.strip_prefix("\ufeff"))
    lines = lines.filter(~pl.col("line").str.contains(r"^\s*(#|$)"))
    if lines.height == 0:
        raise ScoresError(f"{path} has no line; {what} has one for each pair.")
    found = lines.select("number", pl.col("line").str.extract_groups(form)).unnest("line")
    for row in found["query"].is_null().arg_true():
        raise ScoresError(f"Line {found['number'][row]} of {path} has not the {wanted}")
    return found


def write_run(
    scores: ScoreBlocks, path: str | PathLike[str], *, depth: int = 1000, direction: Direction = "t2v"
) -> None:
    """Write the best items of each query as a TREC run, compressed where the name ends in `.gz`.

    Equal scores are written in the order of the gallery, but readers break ties by rules of their own. A score of minus
    infinity is not listed. The tag says what the scores use beside caption and video.
    """
    check_scores(scores)
    path = as_path(path, "path")
    check_word(direction, get_args(Direction), "direction")
    if depth < 1:
        raise UsageError(f"The depth is {depth}; a run lists at least 1 item a query.")
    queries, gallery = _sides(scores.caption_ids, scores.video_ids, direction)
    tag = _tag_of(scores.about.uses)
    with output_file(path) as part, _open_run(part, path) as file:
        for start, band in query_bands(scores.block, (len(queries), len(gallery)), direction):
            check_numbers(band, start, queries, gallery)
            _table(_best(band, depth), start, queries, gallery, tag).write_csv(
                file, include_header=False, separator=" ", quote_style="never"
            )


def write_qrels(
    relevance: Relevance,
    caption_ids: Sequence[str],
    video_ids: Sequence[str],
    path: Path,
    *,
    direction: Direction = "t2v",
) -> int:
    """Write the relevant items as TREC judgements, compressed where the name ends in `.gz`.

    TREC's grades are whole numbers. Plain relevance gets grade 1; degrees are multiplied by `GRADES` and rounded, but
    never down to 0. Gains that are proportional leave nDCG as it is; for measures of plain relevance tell the reader
    which grade begins to count (`-l 100` of trec_eval for full relevance).

    Returns:
        The grade that stands for full relevance: 1 or `GRADES`.
    """
    if relevance.shape != (len(caption_ids), len(video_ids)):
        raise ScoresError(
            f"There are {len(caption_ids)} caption ids and {len(video_ids)} video ids for a relevance of "
            f"{relevance.shape[0]} x {relevance.shape[1]}; give one for each row and column."
        )
    full = 1 if isinstance(relevance, RelevantPairs) else GRADES
    queries, gallery = _sides(caption_ids, video_ids, direction)
    with output_file(path) as part, _open_run(part, path) as file:
        for start, band in query_bands(relevance.block, (len(queries), len(gallery)), direction):
            rows, columns = np.nonzero(band > 0)
            grades = np.maximum(np.rint(band[rows, columns] * full), 1).astype(np.int64)
            table = {"query": queries.gather(start + rows), "zero": 0, "item": gallery.gather(columns), "grade": grades}
            pl.DataFrame(table).write_csv(file, include_header=False, separator=" ", quote_style="never")
    return full


def _tag_of(uses: Sequence[str]) -> str:
    """One word.

    >>> _tag_of(["other queries", "a bank"]), _uses_of(["evenreel-other-queries+a-bank", "t"])
    ('evenreel-other-queries+a-bank', ('other queries', 'a bank'))
    """
    return f"{_TAG}-{'+'.join(uses)}".replace(" ", "-") if uses else _TAG


def _uses_of(tags: Iterable[str]) -> tuple[str, ...]:
    """What the tags that `_tag_of` made say, each once; a hyphen within a word comes back as a space."""
    written = [tag.removeprefix(f"{_TAG}-") for tag in tags if tag.startswith(f"{_TAG}-")]
    return tuple(dict.fromkeys(one.replace("-", " ") for words in written for one in words.split("+")))


def _sides(caption_ids: Sequence[str], video_ids: Sequence[str], direction: Direction) -> tuple[pl.Series, pl.Series]:
    """Ids of the queries and of the gallery."""
    sides = [pl.Series(list(ids), dtype=pl.String) for ids in (caption_ids, video_ids)]
    for ids in sides:
        for name in ids.filter(ids.str.contains(r"\s") | (ids == "")):
            raise UsageError(f"The id {name!r} is empty or has a space in it, which TREC's files cannot hold.")
    queries, gallery = sides if direction == "t2v" else sides[::-1]
    for name in queries.filter(queries.str.starts_with("#")):
        raise UsageError(f"The id {name!r} begins with #, and TREC's readers pass over such lines; rename that query.")
    return queries, gallery


def _open_run(part: Path, path: Path) -> IO[bytes]:
    return gzip.open(part, "wb", compresslevel=6) if path.suffix == ".gz" else part.open("wb")  # type: ignore[return-value]


def query_bands(
    block: Callable[[slice, slice], NDArray[Any]], shape: tuple[int, int], direction: Direction = "t2v"
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield scores or relevance in bands of queries: the index of a band's first query, and values (b, gallery)."""
    queries, items = shape
    whole = slice(0, items)
    for band in slices(queries, _BAND_BYTES // (SCORE_BYTES * max(items, 1))):
        yield band.start, unmasked(block(band, whole) if direction == "t2v" else block(whole, band).T, "The scores")


def check_numbers(band: NDArray[Any], start: int, queries: Names, gallery: Names) -> None:
    """Check that the scores (b, gallery) of a band of queries hold no NaN."""
    wrong = np.argwhere(np.isnan(band))
    if len(wrong):
        row, column = (int(place) for place in wrong[0])
        raise ScoresError(f"The score of {queries[start + row]!r} and {gallery[column]!r} is NaN; nothing can rank it.")


def _best(band: NDArray[Any], depth: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(b, V) -> row, column, rank from 1 and score of each listed pair, in the order of the file."""
    values = np.asarray(band, dtype=np.float64)
    columns = np.argsort(-values, axis=1, kind="stable")[:, :depth]
    best = np.take_along_axis(values, columns, axis=1)
    rows, ranks = np.nonzero(best > -np.inf)
    return rows, columns[rows, ranks], ranks + 1, best[rows, ranks]


def _table(
    best: tuple[NDArray[Any], ...], start: int, queries: pl.Series, gallery: pl.Series, tag: str
) -> pl.DataFrame:
    rows, columns, ranks, values = best
    named = {"query": queries.gather(start + rows), "q0": "Q0", "item": gallery.gather(columns)}
    return pl.DataFrame(named | {"rank": ranks, "score": values, "tag": tag})
