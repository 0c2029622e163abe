"""Scores written to `.npz`, `.npy`, and TREC files of runs and judgements, as trec_eval and ir_measures read them."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable, Iterator, Sequence
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
from evenreel.evaluation.metrics import Direction
from evenreel.evaluation.ranking import as_blocks, unmasked
from evenreel.evaluation.scores import TAG, ScoresLike, as_scores
from evenreel.files import output_file
from evenreel.progress import Progress
from evenreel.types import ScoreBlocks

GRADES = 100
"""Degrees of relevance, 0 to 1, become whole grades, 0 to this."""
_BAND_BYTES = 32 * 2**20

Names = Sequence[str] | pl.Series


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

    >>> _tag_of(["other queries", "a bank"])
    'evenreel-other-queries+a-bank'
    """
    return f"{TAG}-{'+'.join(uses)}".replace(" ", "-") if uses else TAG


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


def save_scores(scores: ScoresLike, path: str | PathLike[str], progress: Progress = lambda share: None) -> None:
    """Save scores to an `.npz`, with ids and what the scores use, or the values alone to an `.npy`.

    Scores are read and written a band of captions at a time, so the table may be larger than memory. An existing file
    is replaced whole.

    Args:
        scores: scores to write, with their ids; see `ScoresLike`.
        path: path of the file.
        progress: called repeatedly with the share that is done, 0 to 1.

    Raises:
        ScoresError: a score is NaN.
        OutputError: the file cannot be written.
        UsageError: an argument is of the wrong kind; the name ends neither in `.npz` nor in `.npy`, or in `.npy` though
            the scores use something.
    """
    path = as_path(path, "path")
    scores = as_blocks(as_scores(scores))
    if path.suffix not in (".npz", ".npy"):
        raise UsageError(f"{path} ends neither in .npz nor in .npy, which is what scores are saved as.")
    uses = scores.about.uses
    if uses and path.suffix == ".npy":
        raise UsageError(
            f"The scores use {' and '.join(uses)}, which an .npy cannot say; save them as .npz, not {path}."
        )
    with output_file(path) as part, part.open("wb") as file:
        if path.suffix == ".npy":
            _write_values(file, scores, progress)
        else:
            _write_arrays(file, scores, progress)


def _write_arrays(file: IO[bytes], scores: ScoreBlocks, progress: Progress) -> None:
    """What `np.savez` writes, which would need all values at once."""
    words = (scores.caption_ids, scores.video_ids, scores.about.uses)
    with zipfile.ZipFile(file, "w") as archive:
        with archive.open("values.npy", "w", force_zip64=True) as member:
            _write_values(member, scores, progress)
        for name, row in zip(("caption_ids", "video_ids", "uses"), words, strict=True):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.array(row, dtype=np.str_), allow_pickle=False)


def _write_values(file: IO[bytes], scores: ScoreBlocks, progress: Progress) -> None:
    queries, items = scores.caption_ids, scores.video_ids
    kind = scores.block(slice(0, 0), slice(0, len(items))).dtype
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (len(queries), len(items))}
    np.lib.format.write_array_header_1_0(file, header)
    for start, band in query_bands(scores.block, (len(queries), len(items))):
        check_numbers(band, start, queries, items)
        file.write(np.ascontiguousarray(band).data)
        progress((start + len(band)) / len(queries))
