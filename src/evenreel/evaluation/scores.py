"""Scores of any system, read from files and checked against a corpus."""

from __future__ import annotations

import gzip
import logging
import re
import zipfile
import zlib
from collections.abc import Callable
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.config import as_path, check_corpus
from evenreel.corpus.array_files import ArrayArchive
from evenreel.corpus.tables import INDEX
from evenreel.errors import ScoresError
from evenreel.evaluation.fitted import ITEM_NAMES, QUERY_NAMES, Notice, by_ids, from_table, in_order, tell_of_gaps
from evenreel.evaluation.listed import ListedScores
from evenreel.evaluation.parts import cut_to
from evenreel.evaluation.predictions import read_predictions
from evenreel.evaluation.settings import Direction
from evenreel.evaluation.trec import read_run
from evenreel.parquet_files import read_table
from evenreel.types import Corpus, ScoreNotes, Scores

_Reader = Callable[..., Scores | ListedScores | NDArray[Any]]

_logger = logging.getLogger(__name__)
_ARRAYS = ("values", "caption_ids", "video_ids")
_UNREADABLE = (OSError, ValueError)
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?inf|nan", re.IGNORECASE)
_SEPARATORS = re.compile(r"\s*[,;\s]\s*")
_PICKLES = {".pt", ".pth", ".pkl", ".pickle", ".bin", ".joblib"}


def load_scores(
    path: str | PathLike[str],
    corpus: Corpus,
    *,
    partial: bool = False,
    queries: Direction | None = None,
    whole: Corpus | None = None,
    notice: Notice | None = None,
) -> Scores | ListedScores:
    """Load the scores of any system from a file, and check their ids against a corpus.

    - `.npy`: (Q, V), which names no ids, so its rows and columns must be all captions and clips in the corpus's order.
      It is mapped, not read, so it may be larger than memory.
    - `.npz`: `values` (Q, V), `caption_ids`, `video_ids` and perhaps `uses`, as `save_scores` writes them; or one
      matrix (Q, V) without ids.
    - `.parquet`, `.csv`, `.tsv`: a row a pair (`caption_id`, `clip_id`, `score`), or a row a caption (`caption_id`,
      then a column named after each clip); written by pandas, the index may be the `caption_id`.
    - numbers in text (`.csv`, `.tsv`, `.txt`): (Q, V), as `.npy`.
    - `.json`: predictions of MTEB (`TASK_predictions.json`) of one split and subset.
    - anything else is read as a TREC run, see `read_run`; `.gz` is fine.

    Rows and columns go by their ids, in whatever order they are. Lists (a run, or a row a pair) may leave pairs out,
    which then score minus infinity: they are never retrieved, and earn nothing.

    Args:
        path: path of the file.
        corpus: captions and clips to load scores of, such as those of one split.
        partial: leave out queries that a run has no list for.
        queries: whether captions (`t2v`) or videos (`v2t`) have the lists of a run whose ids fit both ways, or of a
            Parquet table with a row a pair (by default captions).
        whole: the corpus that `corpus` is a part of. What the file has of other parts is then left out, with a notice;
            None: such a file is refused.
        notice: called with sentences about the file for the user; None to log them.

    Raises:
        ScoresError: the file cannot be read, or does not fit the corpus.
        UsageError: an argument is of the wrong kind.
    """
    path = as_path(path, "path")
    check_corpus(corpus)
    notice = notice or (lambda sentence: _logger.warning("%s: %s", path, sentence))
    found = read_scores(path, whole or corpus, partial=partial, queries=queries)
    if isinstance(found, Scores):
        found = by_ids(str(path), found, whole or corpus, notice)
    elif not isinstance(found, ListedScores):
        found = in_order(str(path), found, corpus, whole or corpus, notice)
    if whole is not None:
        found = cut_to(corpus, found, whole, path, notice)
    if isinstance(found, ListedScores):
        tell_of_gaps(found, notice)
    return found


def read_scores(
    path: Path, corpus: Corpus | None = None, *, partial: bool = False, queries: Direction | None = None
) -> Scores | ListedScores | NDArray[Any]:
    """Read a file of scores as `load_scores` does, but without fitting a matrix to the corpus.

    Returns:
        Scores with the ids of the file, or the numbers alone of a matrix that names none.
    """
    kind = path.suffix.lower()
    if kind in _PICKLES:
        raise ScoresError(
            f"{path} may be a pickle, which can run code when it is read; save the scores as .npy or .npz: "
            "numpy.save('scores.npy', scores.cpu())."
        )
    check_file(path)
    if kind == ".npy":
        return read_matrix(path)
    if kind == ".npz":
        arrays = read_arrays(path)
        if len(arrays) != 1 or (values := next(iter(arrays.values()))).ndim != 2:
            return read_npz(path)
        check_matrix(path, values)
        return values
    readers: dict[str, _Reader] = {".parquet": _from_parquet, ".json": read_predictions}
    reader: _Reader = readers.get(kind, _from_text)
    return reader(path, corpus, partial=partial, queries=queries)


def _from_text(
    path: Path, corpus: Corpus | None, *, partial: bool, queries: Direction | None
) -> Scores | ListedScores | NDArray[Any]:
    """A run, a matrix of numbers or a table with a head, as the first line says."""
    first = _first_line(path)
    words = first.split()
    table = path.suffix.lower() in (".csv", ".tsv", ".txt")
    is_run = len(words) == 6 and (words[1] == "Q0" or not table)
    cells = re.split(_SEPARATORS, first.strip())
    if not is_run and cells[0] and all(map(_NUMBER.fullmatch, cells)):
        return _numbers(path, first)
    if is_run or path.suffix.lower() not in (".csv", ".tsv"):
        return read_run(path, corpus, partial=partial, queries=queries)
    separator = next((one for one in "\t;" if one in first), ",")
    try:
        frame = pl.read_csv(path, separator=separator, infer_schema=False, comment_prefix="#")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ScoresError(f"{path} cannot be read as a table ({_reason(error)}).") from error
    frame = frame.rename({"": INDEX}) if "" in frame.columns else frame  # the index of pandas
    ids = {*QUERY_NAMES, *ITEM_NAMES, INDEX}
    numbers = {name: frame[name].cast(pl.Float64, strict=False) for name in frame.columns if name not in ids}
    frame = frame.with_columns(one for name, one in numbers.items() if one.null_count() == frame[name].null_count())
    return from_table(str(path), frame, corpus, partial=partial, queries=queries)


def _first_line(path: Path) -> str:
    """The first line that is no comment, as far as it is text."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="replace") as file:
            return next((line for line in file if not re.match(r"\s*(#|$)", line)), "")
    except (OSError, EOFError, zlib.error):
        return ""  # the reader of runs says why


def _numbers(path: Path, first: str) -> NDArray[Any]:
    separator = next((one for one in ",;" if one in first), None)
    try:
        values: NDArray[Any] = np.loadtxt(path, delimiter=separator, ndmin=2, encoding="utf-8-sig")
    except _UNREADABLE as error:
        raise ScoresError(
            f"{path} is no matrix of numbers ({_reason(error)}); a row has a number for each clip."
        ) from error
    named = len(values) > 1 and (values[0] == np.arange(values.shape[1])).all()  # pandas writes the numbers of columns
    return values[1:] if named else values


def read_npz(path: Path) -> Scores:
    """Read the scores of an `.npz` as `save_scores` writes it; its ids are not compared with those of a corpus."""
    arrays = read_arrays(path)
    if missing := [name for name in _ARRAYS if name not in arrays]:
        raise ScoresError(
            f"{path} has no array {missing[0]!r} (it has: {', '.join(arrays) or 'none'}); scores are values, "
            "caption_ids and video_ids, or one matrix alone: numpy.savez('scores.npz', values=matrix)."
        )
    values, *ids = (arrays[name] for name in _ARRAYS)
    check_matrix(path, values)
    captions, videos = (row_of_text(path, name, array) for name, array in zip(_ARRAYS[1:], ids, strict=True))
    uses = row_of_text(path, "uses", arrays["uses"]) if "uses" in arrays else []
    if values.shape != (len(captions), len(videos)):
        raise ScoresError(
            f"The values of {path} are {values.shape} for {len(captions):,} captions and {len(videos):,} "
            "videos; save one row a caption and one column a video."
        )
    return Scores(values, captions, videos, ScoreNotes(tuple(uses)))


def check_file(path: Path) -> None:
    """Check that a path of scores is a file."""
    if path.is_dir():
        raise ScoresError(f"{path} is a folder; name a file of scores (npz, npy, parquet, csv or a run).")
    if not path.is_file():
        raise ScoresError(f"There is no file {path}.")


def read_matrix(path: Path) -> NDArray[Any]:
    """Memory-map a matrix of numbers from a `.npy` file; the numbers are not checked."""
    try:
        values = np.lib.format.open_memmap(path, mode="r")
    except _UNREADABLE as error:
        raise ScoresError(_why_no_npy(path, error)) from error
    check_matrix(path, values)
    return np.asanyarray(values)


def _why_no_npy(path: Path, error: Exception) -> str:
    """What keeps numpy from reading a `.npy` file, whose own words tell to unpickle it."""
    with path.open("rb") as file:
        first = file.read(8)
    if not first:
        return f"{path} is empty; write it again."
    if first.startswith(b"PK"):
        return f"{path} is a zip file, as .npz files are; name it .npz."
    if not np.lib.format.MAGIC_PREFIX.startswith(first[:6]):
        shown = first.decode() if first.isascii() else first
        return f"{path} is no .npy file, whatever its name: it begins with {shown!r}; save the matrix with numpy.save."
    return _why_broken_npy(path, error)


def _why_broken_npy(path: Path, error: Exception) -> str:
    """What is wrong with a file that begins as a `.npy` file does."""
    header = np.lib.format
    with path.open("rb") as file:
        try:
            read = header.read_array_header_1_0 if header.read_magic(file) == (1, 0) else header.read_array_header_2_0
            shape, _, kind = read(file)
        except ValueError:
            return f"{path} is cut short or damaged in its header; write it again."
        needed, there = file.tell() + prod(shape) * kind.itemsize, path.stat().st_size
    if kind.hasobject:
        return f"{path} holds Python objects, which are never read; save numbers, values.astype(float), for example."
    if there < needed:
        return (
            f"{path} is cut short: {' x '.join(f'{one:,}' for one in shape)} numbers of {kind} and their header take "
            f"{needed:,} bytes, and it has {there:,}; write it again."
        )
    return f"{path} cannot be read as .npy ({_reason(error)})."


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a `.npz` file by their names."""
    if not zipfile.is_zipfile(path):
        raise ScoresError(f"{path} cannot be read as .npz (it is no zip file).")
    try:
        with ArrayArchive(path) as arrays:
            return arrays.read_all()
    except _UNREADABLE as error:
        way = "; save the ids with .astype(str)" if "Python objects" in str(error) else ""
        raise ScoresError(f"{path} cannot be read as .npz ({_reason(error)}){way}.") from error


def row_of_text(path: Path, name: str, array: NDArray[Any]) -> list[str]:
    """Convert a one-dimensional array of ids or labels to a list of texts; whole numbers become their digits."""
    if array.ndim != 1 or (array.dtype.kind not in "Uiu" and array.size):
        way = ": save it with .astype(str)" if array.dtype.kind == "S" else ""
        raise ScoresError(f"The array {name} of {path} is {array.dtype} {array.shape}; it must be a row of text{way}.")
    words: list[str] = array.astype(np.str_).tolist()
    return words


def _from_parquet(
    path: Path, corpus: Corpus | None, *, partial: bool, queries: Direction | None
) -> Scores | ListedScores | NDArray[Any]:
    try:
        table = read_table(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ScoresError(f"{path} cannot be read as Parquet ({error}).") from error
    return from_table(str(path), table, corpus, partial=partial, queries=queries)


def check_matrix(path: Path, values: NDArray[Any]) -> None:
    """Check that an array is a matrix of numbers, as scores are."""
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ScoresError(
            f"{path} is an array of {values.dtype} with the shape {values.shape}; scores are numbers with two axes."
        )


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
