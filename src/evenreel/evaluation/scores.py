"""Scores of any system: read from files, checked against a corpus, and written to files."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arguments import as_path, check_corpus
from evenreel.array_files import ArrayArchive
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.blocks import as_blocks
from evenreel.evaluation.listed import WHAT_WAS_SCORED, ListedScores, make_listed
from evenreel.evaluation.parts import cut_to
from evenreel.evaluation.predictions import read_predictions
from evenreel.evaluation.settings import Direction
from evenreel.evaluation.trec import check_numbers, query_bands, read_run
from evenreel.files import output_file
from evenreel.parquet_files import read_table
from evenreel.progress import Progress
from evenreel.types import Corpus, ScoreBlocks, ScoreNotes, Scores

Notice = Callable[[str], object]
_Reader = Callable[..., Scores | ListedScores]

_logger = logging.getLogger(__name__)
_ARRAYS = ("values", "caption_ids", "video_ids")
_UNREADABLE = (OSError, ValueError)
_PICKLES = {".pt", ".pth", ".pkl", ".pickle", ".bin", ".joblib"}


def load_scores(
    path: str | Path,
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
    - `.npz`: `values` (Q, V), `caption_ids`, `video_ids` and perhaps `uses`, as `save_scores` writes them.
    - `.parquet`: a row a pair (`caption_id`, `clip_id`, `score`), or a row a caption (`caption_id`, then a column named
      after each clip).
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
    kind = path.suffix.lower()
    if kind in _PICKLES:
        raise ScoresError(f"{path} may be a pickle, which can run code when it is read; save the scores as .npz.")
    check_file(path)
    found: Scores | ListedScores
    if kind == ".npy":
        found = _from_npy(path, corpus, whole or corpus, notice)
    elif kind == ".npz":
        found = read_npz(path)
    else:
        readers: dict[str, _Reader] = {".parquet": _from_parquet, ".json": read_predictions}
        read = readers.get(kind, read_run)
        found = read(path, whole or corpus, partial=partial, queries=queries)
    if isinstance(found, Scores) and kind != ".npy":
        found = _by_ids(path, found, whole or corpus, notice)
    if whole is not None:
        found = cut_to(corpus, found, whole, path, notice)
    if isinstance(found, ListedScores):
        _tell_of_gaps(found, notice)
    return found


def save_scores(scores: ScoreBlocks, path: str | Path, progress: Progress = lambda share: None) -> None:
    """Save scores to an `.npz`, with ids and what the scores use, or the values alone to an `.npy`.

    Scores are read and written a band of captions at a time, so the table may be larger than memory. An existing file
    is replaced whole.

    Args:
        scores: scores to write.
        path: path of the file.
        progress: called repeatedly with the share that is done, 0 to 1.

    Raises:
        ScoresError: a score is NaN.
        OutputError: the file cannot be written.
        UsageError: an argument is of the wrong kind; the name ends neither in `.npz` nor in `.npy`, or in `.npy` though
            the scores use something.
    """
    path = as_path(path, "path")
    scores = as_blocks(scores)
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
        for name, row in zip((*_ARRAYS[1:], "uses"), words, strict=True):
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


def _from_npy(path: Path, corpus: Corpus, whole: Corpus, notice: Notice) -> Scores:
    """The scores of a part of a corpus, or of the whole one where they are as many."""
    values = read_matrix(path)
    if values.shape == (whole.captions.height, whole.clips.height):
        corpus = whole
    captions, clips = corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list()
    if values.shape != (len(captions), len(clips)):
        turned = values.shape == (len(clips), len(captions))
        raise ScoresError(
            f"{path} is {_size(*values.shape)}, but the corpus has {len(captions):,} captions and {len(clips):,} clips "
            + (
                "(a caption a row, a clip a column): it lies the other way round, so save its transpose."
                if turned
                else "(a caption a row, a clip a column); choose its split, or save it with its ids as .npz."
            )
        )
    notice("The file names no ids: its rows and columns are taken for the corpus's captions and clips in their order.")
    return Scores(values, captions, clips)


def read_npz(path: Path) -> Scores:
    """Read the scores of an `.npz` as `save_scores` writes it; its ids are not compared with those of a corpus.

    Raises:
        ScoresError: it cannot be read, or lacks an array.
    """
    arrays = read_arrays(path)
    if missing := [name for name in _ARRAYS if name not in arrays]:
        raise ScoresError(
            f"{path} has no array {missing[0]!r} (it has: {', '.join(arrays) or 'none'}); scores are values, "
            "caption_ids and video_ids."
        )
    values, *ids = (arrays[name] for name in _ARRAYS)
    check_matrix(path, values)
    captions, videos = (row_of_text(path, name, array) for name, array in zip(_ARRAYS[1:], ids, strict=True))
    uses = row_of_text(path, "uses", arrays["uses"]) if "uses" in arrays else []
    if values.shape != (len(captions), len(videos)):
        raise ScoresError(
            f"The values of {path} are {_size(*values.shape)} for {len(captions):,} captions and {len(videos):,} "
            "videos; save one row a caption and one column a video."
        )
    return Scores(values, captions, videos, ScoreNotes(tuple(uses)))


def check_file(path: Path) -> None:
    """Check that a path of scores is a file.

    Raises:
        ScoresError: nothing is there, or a folder.
    """
    if path.is_dir():
        raise ScoresError(f"{path} is a folder; name a file of scores (npz, npy, parquet or a run).")
    if not path.is_file():
        raise ScoresError(f"There is no file {path}.")


def read_matrix(path: Path) -> NDArray[Any]:
    """Memory-map a matrix of numbers from a `.npy` file; the numbers are not checked.

    Raises:
        ScoresError: it cannot be read, or is no matrix of numbers.
    """
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
    """Read the arrays of a `.npz` file by their names.

    Raises:
        ScoresError: it cannot be read, or holds pickles.
    """
    if not zipfile.is_zipfile(path):
        raise ScoresError(f"{path} cannot be read as .npz (it is no zip file).")
    try:
        with ArrayArchive(path) as arrays:
            return arrays.read_all()
    except _UNREADABLE as error:
        way = "; save the ids with .astype(str)" if "Python objects" in str(error) else ""
        raise ScoresError(f"{path} cannot be read as .npz ({_reason(error)}){way}.") from error


def row_of_text(path: Path, name: str, array: NDArray[Any]) -> list[str]:
    """Convert a one-dimensional array of ids or labels to a list of texts; whole numbers become their digits.

    Raises:
        ScoresError: the array is of another kind, or has not one axis.
    """
    if array.ndim != 1 or (array.dtype.kind not in "Uiu" and array.size):
        way = ": save it with .astype(str)" if array.dtype.kind == "S" else ""
        raise ScoresError(f"The array {name} of {path} is {array.dtype} {array.shape}; it must be a row of text{way}.")
    words: list[str] = array.astype(np.str_).tolist()
    return words


def _from_parquet(path: Path, corpus: Corpus, *, partial: bool, queries: Direction | None) -> Scores | ListedScores:
    try:
        table = read_table(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ScoresError(f"{path} cannot be read as Parquet ({error}).") from error
    if "caption_id" not in table.columns:
        raise ScoresError(f"{path} has no column caption_id; it has: {', '.join(table.columns[:10]) or 'none'}.")
    clip = next((name for name in ("clip_id", "video_id") if name in table.columns), None)
    if clip is None or "score" not in table.columns:
        return _from_wide(path, table)
    if table["score"].dtype.is_nested():
        raise ScoresError(f"Column 'score' of {path} holds {table['score'].dtype}; it must hold numbers.")
    queries = queries or "t2v"
    query, item = ("caption_id", clip) if queries == "t2v" else (clip, "caption_id")
    listing = pl.DataFrame(
        {
            "query": _text_column(path, table, query),
            "item": _text_column(path, table, item),
            "score": table["score"].cast(pl.Float64, strict=False),
        }
    ).with_row_index("number", offset=1)
    return make_listed(listing, corpus, lambda number: f"Row {number} of {path}", partial=partial, queries=queries)


def _text_column(path: Path, table: pl.DataFrame, name: str) -> pl.Series:
    """A column of ids as text; every row has one."""
    column = table[name]
    if column.dtype.is_nested():
        raise ScoresError(f"Column {name!r} of {path} holds {column.dtype}; it must hold one id a row.")
    if column.null_count():
        raise ScoresError(f"Row {int(column.is_null().arg_true()[0]) + 1} of {path} has no {name}; every row has one.")
    try:
        return column.cast(pl.String)
    except pl.exceptions.PolarsError as error:
        raise ScoresError(f"Column {name!r} of {path} holds {column.dtype}, which is no text.") from error


def _from_wide(path: Path, table: pl.DataFrame) -> Scores:
    values = table.drop("caption_id")
    for column in values:
        if not (column.dtype.is_numeric() or column.dtype == pl.Boolean) or column.null_count():
            raise ScoresError(
                f"Column {column.name!r} of {path} is not full of numbers; a table of scores is caption_id and then a "
                "column of numbers for each clip."
            )
    return Scores(values.to_numpy(), _text_column(path, table, "caption_id").to_list(), values.columns)


def check_matrix(path: Path, values: NDArray[Any]) -> None:
    """Check that an array is a matrix of numbers, as scores are.

    Raises:
        ScoresError: it does not hold numbers, or has not two axes.
    """
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ScoresError(
            f"{path} is an array of {values.dtype} with the shape {values.shape}; scores are numbers with two axes."
        )


def _by_ids(path: Path, scores: Scores, corpus: Corpus, notice: Notice) -> Scores:
    """The scores, turned where the ids say that a video is a row; each id known and there once."""
    captions, clips = set(corpus.captions["caption_id"]), set(corpus.clips["clip_id"])
    rows, columns = set(scores.caption_ids), set(scores.video_ids)
    ahead, back = rows <= captions and columns <= clips, rows <= clips and columns <= captions
    if ahead and back:
        notice(
            "The ids are those of captions and of clips alike, so the file's names are taken at their word: a caption "
            "a row, a clip a column."
        )
    elif back:
        notice("The file has a video a row, as its ids say; it is turned.")
        scores = Scores(scores.values.T, scores.video_ids, scores.caption_ids, scores.about)
    for ids, known, what in ((scores.caption_ids, captions, "caption"), (scores.video_ids, clips, "clip")):
        seen: set[str] = set()
        for one in ids:
            if one not in known:
                raise ScoresError(f"{path} names {one!r}, which is no {what} of the corpus; {WHAT_WAS_SCORED}.")
            if one in seen:
                raise ScoresError(f"{path} names the {what} {one!r} twice; every id is there once.")
            seen.add(one)
    return scores


def _tell_of_gaps(lists: ListedScores, notice: Notice) -> None:
    """Say how much is not listed: it is not retrieved, and its rank is the mean of the places that are left."""
    if lists.about.complete:
        return
    places, ids, what = (
        (lists.rows, lists.caption_ids, "captions")
        if lists.queries == "t2v"
        else (lists.columns, lists.video_ids, "videos")
    )
    without = len(ids) - len(np.unique(places))
    share = len(lists.values) / max(1, len(lists.caption_ids) * len(lists.video_ids))
    notice(
        f"The file lists {share:.1%} of all pairs; the others were not retrieved: no hit and no gain, and a rank "
        "behind what is listed."
        + (f" {without:,} of {len(ids):,} {what} have no list and count as having found nothing." if without else "")
    )


def _size(rows: int, columns: int) -> str:
    return f"{rows:,} x {columns:,}"


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
