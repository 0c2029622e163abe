"""What is taken for scores, from files and from memory: read, fitted to a corpus by ids or by place, cut to its parts.

A TREC run has a line `query Q0 item rank score tag` for each listed pair, a file of judgements `query 0 item grade`;
lines that begin with # are comments.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from evenreel.arrays import Indices
from evenreel.config import as_path, check_corpus, check_scores, described
from evenreel.corpus.array_files import ArrayArchive
from evenreel.corpus.tables import INDEX, ArrowTable, as_dataframe, as_ids, is_dataframe, splits_of
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.metrics import Direction
from evenreel.evaluation.ranking import as_table
from evenreel.parquet_files import read_table
from evenreel.types import Corpus, ScoreBlocks, ScoreNotes, Scores, Shown
from evenreel.wording import count

ScoresLike: TypeAlias = (
    "ScoreBlocks | str | os.PathLike[str] | ArrayLike | pl.DataFrame | pl.LazyFrame | ArrowTable"
    " | Mapping[str, Mapping[str, float]] | Mapping[str, Any]"
)
"""What is taken for scores: `Scores` or any `ScoreBlocks`; the path of a file that `load_scores` reads; an array, a
tensor or a list of lists (Q, V), a caption a row and a video a column, in the order of the corpus; a table of polars,
pandas or another `ArrowTable`, with a row a caption and a column a clip, or with a row a pair; scores of pairs as
{caption: {clip: score}}; or the arrays of an `.npz` by name."""

OwnScores: TypeAlias = "ScoreBlocks | NDArray[Any]"
"""Scores as they are without a corpus: with the ids that they name, or the numbers of a matrix that names none."""

Notice = Callable[[str], object]

QUERY_NAMES = ("caption_id", "query_id", "query", "qid", "query-id")
"""Names that a column of captions' ids may have, the first that is there counts."""
ITEM_NAMES = ("clip_id", "video_id", "item_id", "item", "doc_id", "docno", "corpus-id")
"""Names that a column of clips' ids may have."""
SCORE = "score"

JUDGED = r"^\s*(?<query>\S+)\s+\S+\s+(?<item>\S+)\s+(?<grade>[-+]?\d+(?:\.\d*)?)\s*$"
TAG = "evenreel"
READABLE = "Scores are read from .npz, .npy, .parquet, .csv, .tsv, .txt and TREC runs."
WHAT_WAS_SCORED = "give the corpus that was scored (in Python, of a part of it also the whole one: whole=corpus)"
"""What to do about ids that a corpus does not have."""

_WHAT = "The scores"
_HOW = (
    "give Scores(values, caption_ids, video_ids), the path of a file, or numbers as an array or a DataFrame, a caption "
    "a row and a video a column"
)
_MATRIX = "give an array of numbers with two axes"
_ARRAYS = ("values", "caption_ids", "video_ids")
_RUN = r"^\s*(?<query>\S+)\s+\S+\s+(?<item>\S+)\s+\S+\s+(?<score>\S+)\s+(?<tag>\S+)\s*$"
_UNREADABLE = (OSError, ValueError)
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?inf|nan", re.IGNORECASE)
_PICKLES = {".pt", ".pth", ".pkl", ".pickle", ".bin", ".joblib"}
_MTEB_HEAD = "mteb_model_meta"

_logger = logging.getLogger(__name__)


# What is given


def as_scores(
    given: ScoresLike,
    corpus: Corpus | None = None,
    name: str = "scores",
    *,
    partial: bool = False,
    notice: Notice | None = None,
) -> ScoreBlocks:
    """Convert what stands for scores to `ScoreBlocks`, which itself stays what it is.

    Tensors may be on any device, need gradients or be bfloat16. Numbers without ids are those of the corpus's captions
    and clips in their order. A table has its ids in a column `caption_id`, in an index of pandas or in its only column
    of text, and else in the names of its columns; or it has a row a pair: `caption_id` (or `query_id`, `query`, `qid`),
    `clip_id` (or `video_id`, `item_id`, `item`, `doc_id`, `docno`) and `score`.

    Args:
        given: the scores, see `ScoresLike`.
        corpus: corpus of the scores; without it they must name their ids, and have a row a caption.
        name: name of the argument, for messages.
        partial: leave out queries of which no pair is given, see `load_scores`.
        notice: called with sentences on what was read; None to keep them in the notes of the scores (`about`).

    Raises:
        UsageError: it is nothing of these, or has no ids and there is no corpus.
        ScoresError: it is of another shape or other ids than the corpus, or holds no numbers.

    >>> as_scores([[0.9], [0.2]])
    Traceback (most recent call last):
        ...
    evenreel.errors.UsageError: scores is a list without ids; give a corpus too, or scores with their ids: \
Scores(values, caption_ids, video_ids).
    """
    if _are_blocks(given):
        return cast("ScoreBlocks", own_scores(given, name))
    said: list[str] = []
    tell = notice or said.append
    if isinstance(given, (str, os.PathLike)) and corpus is not None:
        found: OwnScores = load_scores(given, corpus, partial=partial, notice=tell)
    else:
        found = own_scores(given, name, corpus, partial=partial)
        if isinstance(found, ListedScores):
            if corpus is None:
                raise ScoresError(
                    f"{name} has a row a pair, and pairs may be left out of it; give its corpus too: as_scores({name}, "
                    "corpus)."
                )
            tell_of_gaps(found, tell)
        elif isinstance(found, Scores):
            found = found if corpus is None else by_ids(name, found, corpus, tell)
        elif corpus is None:
            raise UsageError(
                f"{name} is {described(given)} without ids; give a corpus too, or scores with their ids: "
                "Scores(values, caption_ids, video_ids)."
            )
        else:
            found = in_order(name, cast("NDArray[Any]", found), corpus, corpus, tell)
    if isinstance(found, ListedScores):
        return replace(found, notices=(*found.notices, *said))
    found = cast("Scores", found)
    return replace(found, about=replace(found.about, notices=(*found.about.notices, *said)))


def own_scores(
    given: ScoresLike, name: str = "scores", corpus: Corpus | None = None, *, partial: bool = False
) -> OwnScores:
    """Convert what stands for scores, still without comparing the ids of a table with those of a corpus."""
    if _are_blocks(given):
        check_scores(given, name)
        return cast("ScoreBlocks", given)
    if isinstance(given, (str, os.PathLike)):
        return read_scores(Path(given), corpus, partial=partial)
    if is_dataframe(given):
        return from_table(name, as_dataframe(given, name, _HOW, keep_index=True), corpus, partial=partial)
    return _of_mapping(given, corpus, name, partial) if isinstance(given, Mapping) else as_matrix(given, name)


def _are_blocks(given: object) -> bool:
    return all(hasattr(given, part) for part in ("caption_ids", "video_ids", "block"))


def numbered(values: NDArray[Any]) -> Scores:
    """Call the rows and columns of a matrix by their numbers, from 0."""
    rows, columns = values.shape
    return Scores(values, [str(row) for row in range(rows)], [str(column) for column in range(columns)])


def _of_mapping(given: Mapping[Any, Any], corpus: Corpus | None, name: str, partial: bool) -> Scores | ListedScores:
    """The arrays of an `.npz`, or scores by caption and clip, as pytrec_eval and ranx have a run."""
    if set(_ARRAYS) <= set(given):
        ids = (one.tolist() if isinstance(one, np.ndarray) else one for one in (given[part] for part in _ARRAYS[1:]))
        found = Scores(as_table(given["values"]), *ids)
        check_scores(found, name)
        return found
    pairs = [(query, item, score) for query, row in given.items() if isinstance(row, Mapping)
             for item, score in row.items()]  # fmt: skip
    if not pairs or not all(isinstance(row, Mapping) for row in given.values()):
        raise UsageError(f"{name} is {described(given)}; give {{caption: {{clip: score}}}}, or {_HOW[5:]}.")
    for query, item, score in pairs:
        if not isinstance(score, Real):
            raise ScoresError(f"{name}[{query!r}][{item!r}] is {described(score)}; a score is a number.")
    columns = {"query": [str(pair[0]) for pair in pairs], "item": [str(pair[1]) for pair in pairs]}
    table = pl.DataFrame({**columns, SCORE: np.array([pair[2] for pair in pairs], np.float64)})
    return cast("ListedScores", from_table(name, table, corpus, partial=partial))


def as_matrix(given: object, name: str, what: str = _WHAT) -> NDArray[Any]:
    """Convert an array, a tensor, a list of lists or a table of numbers to a matrix."""
    if is_dataframe(given):
        given = as_dataframe(given, name, _MATRIX).to_numpy()
    is_array = isinstance(given, (list, tuple)) or any(
        hasattr(given, part) for part in ("__array__", "__array_interface__", "__dlpack__", "detach", "toarray")
    )
    if not is_array or isinstance(given, type):
        raise UsageError(f"{name} is {described(given)}; {_MATRIX if what != _WHAT else _HOW}.")
    values = as_table(given, what)
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ScoresError(
            f"{name} is {described(values)}; scores are numbers with two axes, a caption a row and a video a column."
        )
    return values


# Files


def load_scores(
    path: str | os.PathLike[str],
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
        values = next(iter(arrays.values())) if len(arrays) == 1 else None
        return check_matrix(path, values) if values is not None and values.ndim == 2 else _of_arrays(path, arrays)
    if kind == ".json":
        return read_predictions(path, corpus, partial=partial, queries=queries)
    if kind == ".parquet":
        try:
            table: NDArray[Any] | pl.DataFrame | None = read_table(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ScoresError(f"{path} cannot be read as Parquet ({error}).") from error
    else:
        table = _text(path)
    if isinstance(table, np.ndarray):
        return table
    if table is None:
        return read_run(path, corpus, partial=partial, queries=queries)
    return from_table(str(path), table, corpus, partial=partial, queries=queries)


def check_file(path: Path) -> None:
    """Check that a path of scores is a file."""
    if path.is_dir():
        raise ScoresError(f"{path} is a folder; name a file of scores (npz, npy, parquet, csv or a run).")
    if not path.is_file():
        raise ScoresError(f"There is no file {path}.")


def read_npz(path: Path) -> Scores:
    """Read the scores of an `.npz` as `save_scores` writes it; its ids are not compared with those of a corpus."""
    return _of_arrays(path, read_arrays(path))


def _of_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Scores:
    if missing := [name for name in _ARRAYS if name not in arrays]:
        raise ScoresError(
            f"{path} has no array {missing[0]!r} (it has: {', '.join(arrays) or 'none'}); scores are values, "
            "caption_ids and video_ids, or one matrix alone: numpy.savez('scores.npz', values=matrix)."
        )
    values = check_matrix(path, arrays["values"])
    captions, videos = (row_of_text(path, name, arrays[name]) for name in _ARRAYS[1:])
    uses = row_of_text(path, "uses", arrays["uses"]) if "uses" in arrays else []
    if values.shape != (len(captions), len(videos)):
        raise ScoresError(
            f"The values of {path} are {values.shape} for {len(captions):,} captions and {len(videos):,} "
            "videos; save one row a caption and one column a video."
        )
    return Scores(values, captions, videos, ScoreNotes(tuple(uses)))


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


def check_matrix(path: Path, values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a file that is a matrix of numbers, as scores are."""
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ScoresError(
            f"{path} is an array of {values.dtype} with the shape {values.shape}; scores are numbers with two axes."
        )
    return values


def read_matrix(path: Path) -> NDArray[Any]:
    """Memory-map a matrix of numbers from a `.npy` file; the numbers are not checked."""
    try:
        values = np.lib.format.open_memmap(path, mode="r")
    except _UNREADABLE as error:
        raise ScoresError(f"{path} {_why_no_npy(path, error)}") from error
    return np.asanyarray(check_matrix(path, values))


def _why_no_npy(path: Path, error: Exception) -> str:
    """What keeps numpy from reading a `.npy` file, whose own words tell to unpickle it."""
    header = np.lib.format
    with path.open("rb") as file:
        first = file.read(8)
        if not first:
            return "is empty; write it again."
        if first.startswith(b"PK"):
            return "is a zip file, as .npz files are; name it .npz."
        if not header.MAGIC_PREFIX.startswith(first[:6]):
            shown = first.decode() if first.isascii() else first
            return f"is no .npy file, whatever its name: it begins with {shown!r}; save the matrix with numpy.save."
        file.seek(0)
        try:
            read = header.read_array_header_1_0 if header.read_magic(file) == (1, 0) else header.read_array_header_2_0
            shape, _, kind = read(file)
        except ValueError:
            return "is cut short or damaged in its header; write it again."
        needed, there = file.tell() + prod(shape) * kind.itemsize, path.stat().st_size
    if kind.hasobject:
        return "holds Python objects, which are never read; save numbers, values.astype(float), for example."
    size = f"{' x '.join(f'{one:,}' for one in shape)} numbers of {kind} and their header take {needed:,} bytes"
    cut = f"is cut short: {size}, and it has {there:,}; write it again."
    return cut if there < needed else f"cannot be read as .npy ({_reason(error)})."


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def _text(path: Path) -> NDArray[Any] | pl.DataFrame | None:
    """A matrix of numbers or a table with a head, as the first line that is no comment says; None for a run."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="replace") as file:
            first = next((line for line in file if not re.match(r"\s*(#|$)", line)), "")
    except (OSError, EOFError, zlib.error):
        return None  # the reader of runs says why
    words, kind = first.split(), path.suffix.lower()
    is_run = len(words) == 6 and (words[1] == "Q0" or kind not in (".csv", ".tsv", ".txt"))
    cells = re.split(r"\s*[,;\s]\s*", first.strip())
    if not is_run and cells[0] and all(map(_NUMBER.fullmatch, cells)):
        separator = next((one for one in ",;" if one in first), None)
        try:
            values: NDArray[Any] = np.loadtxt(path, delimiter=separator, ndmin=2, encoding="utf-8-sig")
        except _UNREADABLE as error:
            raise ScoresError(
                f"{path} is no matrix of numbers ({_reason(error)}); a row has a number for each clip."
            ) from error
        named = len(values) > 1 and (values[0] == np.arange(values.shape[1])).all()  # as pandas names columns
        return values[1:] if named else values
    if is_run or kind not in (".csv", ".tsv"):
        return None
    separator = next((one for one in "\t;" if one in first), ",")
    try:
        frame = pl.read_csv(path, separator=separator, infer_schema=False, comment_prefix="#")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ScoresError(f"{path} cannot be read as a table ({_reason(error)}).") from error
    frame = frame.rename({"": INDEX}) if "" in frame.columns else frame  # the index of pandas
    ids = {*QUERY_NAMES, *ITEM_NAMES, INDEX}
    numbers = [one.cast(pl.Float64, strict=False) for one in frame if one.name not in ids]
    return frame.with_columns(one for one in numbers if one.null_count() == frame[one.name].null_count())


def read_run(
    path: Path, corpus: Corpus | None, *, partial: bool = False, queries: Direction | None = None
) -> ListedScores:
    """Read the scores of a TREC run, also compressed as `.gz`; its ranks are ignored, the scores make the order.

    What the scores use is taken from tags that `write_run` has written.
    """
    wanted = f"six words of a run, which are query, Q0, item, rank, score and tag. {READABLE}"
    listing = words_of(path, _RUN, "a run", wanted).with_columns(pl.col(SCORE).cast(pl.Float64, strict=False))
    found = make_listed(listing, corpus, lambda number: f"Line {number} of {path}", partial=partial, queries=queries)
    tags = listing["tag"].unique(maintain_order=True)
    written = [tag.removeprefix(f"{TAG}-") for tag in tags if tag.startswith(f"{TAG}-")]
    uses = dict.fromkeys(one.replace("-", " ") for words in written for one in words.split("+"))
    return replace(found, uses=tuple(uses))


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


def read_predictions(
    path: Path,
    corpus: Corpus | None,
    *,
    split: str | None = None,
    subset: str | None = None,
    partial: bool = False,
    queries: Direction | None = None,
) -> ListedScores:
    """Read predictions of MTEB (`TASK_predictions.json`), the best items of each query with their scores."""
    document = read_document(path)
    if "scores" in document and "task_name" in document:
        raise ScoresError(
            f"{path} is a result file of MTEB, which holds figures alone; give the predictions that "
            "mteb.evaluate(prediction_folder=...) writes as TASK_predictions.json."
        )
    rows: list[tuple[str, str, float]] = []
    for query, items in _mteb_part(path, document, split, subset).items():
        try:
            rows += [(query, item, float(score)) for item, score in items.items()]
        except (AttributeError, TypeError, ValueError) as error:
            raise ScoresError(
                f"{path} has no table of numbers for the query {query!r}; give predictions that MTEB wrote."
            ) from error
    listing = pl.DataFrame(rows, {"query": pl.String, "item": pl.String, SCORE: pl.Float64}, orient="row")
    listing = listing.with_row_index("number", 1)
    return make_listed(listing, corpus, lambda number: f"Pair {number} of {path}", partial=partial, queries=queries)


def read_document(path: Path) -> dict[str, Any]:
    """Read a file of MTEB, which is a table of names in JSON."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ScoresError(f"{path} cannot be read as JSON ({error}); give a file that MTEB wrote.") from error
    if not isinstance(document, dict):
        raise ScoresError(f"{path} holds no table of names; give a file that MTEB wrote.")
    return document


def _mteb_part(path: Path, document: dict[str, Any], split: str | None, subset: str | None) -> dict[str, Any]:
    """The one part of a split and a subset: items by query."""
    parts = {
        (one, each): listed
        for one, splits in document.items()
        if one != _MTEB_HEAD and isinstance(splits, dict)
        for each, listed in splits.items()
        if isinstance(listed, dict)
    }
    there = ", ".join(sorted(map("/".join, parts))) or "none"
    fitting = [name for name in parts if subset in (None, name[0]) and split in (None, name[1])]
    if not fitting:
        asked = f"{subset or 'any subset'}/{split or 'any split'}"
        raise ScoresError(f"{path} has no predictions of {asked}; it has: {there}.")
    if len(fitting) > 1:
        raise ScoresError(
            f"{path} has predictions of several parts ({there}); load one with "
            "evenreel.integrations.mteb.load_predictions(path, corpus, split, subset)."
        )
    found: dict[str, Any] = parts[fitting[0]]
    if not any(found.values()):
        raise ScoresError(f"{path} lists nothing for {'/'.join(fitting[0])}; run the task again.")
    return found


# Tables


def column_of(table: pl.DataFrame, names: Sequence[str]) -> str | None:
    """Return the first of some names that a table has a column of; None for none."""
    return next((name for name in names if name in table.columns), None)


def lists_pairs(table: pl.DataFrame, values: Sequence[str] = (SCORE,)) -> bool:
    """Return whether a table has a row a pair of a query and an item, and a column of `values`.

    >>> lists_pairs(pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "score": [0.5]}))
    True
    >>> lists_pairs(pl.DataFrame({"caption_id": ["0"], "score": [0.5]}))  # a clip of that name
    False
    """
    return None not in (column_of(table, names) for names in (values, QUERY_NAMES, ITEM_NAMES))


def from_table(
    where: str, table: pl.DataFrame, corpus: Corpus | None, *, partial: bool = False, queries: Direction | None = None
) -> Scores | ListedScores | NDArray[Any]:
    """Make scores from a table with a row a pair, or a row a caption and a column a clip.

    Returns:
        Scores by their ids, which are not compared with those of the corpus where a row is a caption; or the values
        alone, (Q, V), of a table that names neither its rows nor its columns.
    """
    query, item = column_of(table, QUERY_NAMES), column_of(table, ITEM_NAMES)
    if query is None or item is None or not lists_pairs(table):
        return _from_wide(where, table, query or item)
    if table[SCORE].dtype.is_nested():
        raise ScoresError(f"Column {SCORE!r} of {where} holds {table[SCORE].dtype}; it must hold numbers.")
    if query == QUERY_NAMES[0]:  # says that these are captions; a 'query' may be a clip
        queries = queries or "t2v"
        query, item = (item, query) if queries == "v2t" else (query, item)
    columns = {"query": _text_column(where, table, query), "item": _text_column(where, table, item)}
    listing = pl.DataFrame({**columns, SCORE: table[SCORE].cast(pl.Float64, strict=False)})
    listing = listing.with_row_index("number", offset=1)
    return make_listed(listing, corpus, lambda number: f"Row {number} of {where}", partial=partial, queries=queries)


def _text_column(where: str, table: pl.DataFrame, name: str) -> pl.Series:
    """A column of ids as text; every row has one."""
    column = table[name]
    if column.dtype.is_nested():
        raise ScoresError(f"Column {name!r} of {where} holds {column.dtype}; it must hold one id a row.")
    if column.null_count():
        raise ScoresError(f"Row {int(column.is_null().arg_true()[0]) + 1} of {where} has no {name}; every row has one.")
    try:
        return as_ids(column)
    except pl.exceptions.PolarsError as error:
        raise ScoresError(f"Column {name!r} of {where} holds {column.dtype}, which is no text.") from error


def _from_wide(where: str, table: pl.DataFrame, ids: str | None) -> Scores | NDArray[Any]:
    """A row a caption, whose ids are in the column `ids`, in an index of pandas, or in the only column of text."""
    texts = [name for name, kind in table.schema.items() if kind == pl.String]
    ids = ids or next((name for name in table.columns if name.startswith(INDEX)), texts[0] if len(texts) == 1 else None)
    values = table if ids is None else table.drop(ids)
    for column in values:
        if not (column.dtype.is_numeric() or column.dtype == pl.Boolean) or column.null_count():
            raise ScoresError(
                f"Column {column.name!r} of {where} is not full of numbers; a table of scores is caption_id and then a "
                "column of numbers for each clip."
            )
    if ids is not None:
        return Scores(values.to_numpy(), _text_column(where, table, ids).to_list(), values.columns)
    # Libraries name columns so where nobody has: 0, 1, 2, or column_0, column_1.
    if not any(values.columns == [f"{word}{place}" for place in range(values.width)] for word in ("", "column_")):
        raise ScoresError(
            f"{where} has no column caption_id; it has: {', '.join(table.columns[:10]) or 'none'}; name its rows by "
            "that, or by its index, or give the numbers alone, rows and columns in the corpus's order."
        )
    return values.to_numpy()


# Lists


@dataclass(frozen=True, eq=False)
class ListedScores(Shown):
    """Scores (Q, V) from ranked lists, of clips for captions or of captions for clips; implements `ScoreBlocks`.

    Pairs that are not listed score minus infinity and are never retrieved.
    """

    rows: NDArray[np.int64]  # (N,) row and column of each listed pair
    columns: NDArray[np.int64]
    values: NDArray[Any]  # (N,) scores of the listed pairs
    caption_ids: Sequence[str]  # ids of the Q captions
    video_ids: Sequence[str]  # ids of the V clips
    queries: Direction = "t2v"  # `t2v` where captions have lists, `v2t` where videos have
    uses: tuple[str, ...] = ()  # what the scores use beside caption and video, see `evenreel.types.ScoreNotes`
    notices: tuple[str, ...] = ()  # sentences on what was left out, for the notes

    @property
    def about(self) -> ScoreNotes:
        """Notes on what the lists use, and whether they list every pair."""
        complete = len(self.values) == len(self.caption_ids) * len(self.video_ids)
        return ScoreNotes(self.uses, self.notices, complete=complete)

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Return the scores (q, v) of some captions and videos, minus infinity for pairs that are not listed."""
        few_rows = captions.stop - captions.start < len(self.caption_ids)
        by_row, by_column = self._tables
        part = (by_row if few_rows else by_column)[captions, videos].tocoo()
        dense = np.full(part.shape, -np.inf, dtype=self.values.dtype)
        dense[part.row, part.col] = part.data
        return dense

    @cached_property
    def _tables(self) -> tuple[sparse.csr_array, sparse.csc_array]:
        """Both are kept since a slice along the other axis of a sparse table reads all of it."""
        by_row = sparse.csr_array(
            (self.values, (self.rows, self.columns)), shape=(len(self.caption_ids), len(self.video_ids))
        )
        return by_row, by_row.tocsc()


def make_listed(
    listing: pl.DataFrame,
    corpus: Corpus | None,
    place: Callable[[int], str],
    *,
    partial: bool = False,
    queries: Direction | None = None,
) -> ListedScores:
    """Make scores from ranked lists, checked against a corpus; a query without a list counts as having found nothing.

    The ids show whether captions or clips are the queries.

    Args:
        listing: `query`, `item`, `score`, and `number`, that of the line or row it was read from.
        corpus: corpus of the ids; None for those of the lists.
        place: words for where a number is, for messages.
        partial: leave out queries without a list.
        queries: whose the lists are where the ids fit both ways.
    """
    if corpus is None:
        turned = queries == "v2t"
        asking, items = (listing[side].drop_nulls().unique(maintain_order=True) for side in ("query", "item"))
    else:
        captions, clips = corpus.captions["caption_id"], corpus.clips["clip_id"]
        turned = _are_clips_queries(listing, captions, clips, place, queries)
        asking, items = (clips, captions) if turned else (captions, clips)
    _check_list(listing, (asking, items), ("clip", "caption") if turned else ("caption", "clip"), place)
    if partial:
        asking = asking.filter(asking.is_in(listing["query"].implode()))
    sides = [(listing["query"], asking), (listing["item"], items)]
    (of_captions, captions), (of_clips, clips) = sides[::-1] if turned else sides
    rows, columns = (
        named.replace_strict(ids, np.arange(len(ids)), return_dtype=pl.Int64).to_numpy()
        for named, ids in ((of_captions, captions), (of_clips, clips))
    )
    values = listing[SCORE].to_numpy()
    return ListedScores(rows, columns, values, captions.to_list(), clips.to_list(), "v2t" if turned else "t2v")


def _are_clips_queries(
    listing: pl.DataFrame, captions: pl.Series, clips: pl.Series, place: Callable[[int], str], queries: Direction | None
) -> bool:
    """Whether the lists fit the corpus better with clips as the queries."""
    asking, items = (listing[side].unique(maintain_order=True) for side in ("query", "item"))
    ahead, back = (
        sum(int(ids.is_in(known.implode()).sum()) for ids, known in zip((asking, items), sides, strict=True))
        for sides in ((captions, clips), (clips, captions))
    )
    if ahead != back or ahead < len(asking) + len(items):
        return back > ahead
    if queries is None:
        first = listing.row(0, named=True)
        raise ScoresError(
            f"{place(first['number'])} lists {first['item']!r} for {first['query']!r}, and here as everywhere the ids "
            "are those of captions and of clips alike; say which are the queries: queries='t2v' for captions, 'v2t' "
            "for clips, or --direction on the command line."
        )
    return queries == "v2t"


def _check_list(
    listing: pl.DataFrame, known: tuple[pl.Series, pl.Series], names: tuple[str, str], place: Callable[[int], str]
) -> None:
    again = ~listing.select(pl.struct("query", "item").is_first_distinct()).to_series()
    wrong = [
        *(
            (
                ~listing[side].is_in(ids.implode()),
                f"names {{{side}!r}}, which is no {what} of the corpus; {WHAT_WAS_SCORED}.",
            )
            for side, ids, what in zip(("query", "item"), known, names, strict=True)
        ),
        (
            listing[SCORE].is_null() | listing[SCORE].is_nan(),
            "has no number for a score ({query!r}, {item!r}); nothing can rank it.",
        ),
        (again, "lists {item!r} a second time for {query!r}; a pair has one score."),
    ]
    for rows, sentence in wrong:
        for row in rows.arg_true():
            found = listing.row(row, named=True)
            raise ScoresError(f"{place(found['number'])} {sentence.format(**found)}")


def served(scores: ScoreBlocks, notice: Notice) -> tuple[Direction, ...]:
    """Return the directions that scores serve: lists with gaps only that of the queries that they belong to."""
    if not isinstance(scores, ListedScores) or scores.about.complete:
        return ("t2v", "v2t")
    other = "v2t" if scores.queries == "t2v" else "t2v"
    notice(f"The lists are for {scores.queries} only, so {other} is left out; --direction or settings ask for it.")
    return (scores.queries,)


def tell_of_gaps(lists: ListedScores, notice: Notice) -> None:
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
        f"The scores list {share:.1%} of all pairs; the others were not retrieved: no hit and no gain, and a rank "
        "behind what is listed."
        + (f" {without:,} of {len(ids):,} {what} have no list and count as having found nothing." if without else "")
    )


# A corpus


def by_ids(where: str, scores: Scores, corpus: Corpus, notice: Notice) -> Scores:
    """Return the scores, turned where their ids say that a video is a row; each id known and there once."""
    captions, clips = (dict.fromkeys(ids).keys() for ids in (corpus.captions["caption_id"], corpus.clips["clip_id"]))
    rows, columns = set(scores.caption_ids), set(scores.video_ids)
    ahead, back = rows <= captions and columns <= clips, rows <= clips and columns <= captions
    if ahead and back:
        notice(
            "The ids are those of captions and of clips alike, so the names are taken at their word: a caption a row, "
            "a clip a column."
        )
    elif back:
        notice("There is a video a row, as the ids say; it is turned.")
        scores = Scores(scores.values.T, scores.video_ids, scores.caption_ids, scores.about)
    for ids, known, what in ((scores.caption_ids, captions, "caption"), (scores.video_ids, clips, "clip")):
        seen: set[str] = set()
        for one in ids:
            if one not in known:
                raise ScoresError(
                    f"{where} names {one!r}, which is no {what} of the corpus; its first is "
                    f"{next(iter(known), None)!r} (column {what}_id); {WHAT_WAS_SCORED}."
                )
            if one in seen:
                raise ScoresError(f"{where} names the {what} {one!r} twice; every id is there once.")
            seen.add(one)
    return scores


def in_order(where: str, values: NDArray[Any], corpus: Corpus, whole: Corpus, notice: Notice) -> Scores:
    """Return the scores of a corpus, or of the whole one that it is of, whichever has as many captions and clips."""
    if values.shape == (whole.captions.height, whole.clips.height):
        corpus = whole
    captions, clips = corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list()
    if values.shape != (len(captions), len(clips)):
        turned = values.shape == (len(clips), len(captions))
        raise ScoresError(
            f"{where} is {' x '.join(f'{one:,}' for one in values.shape)}, but the corpus has {len(captions):,} "
            f"captions and {len(clips):,} clips (a caption a row, a clip a column)"
            + (
                ": it lies the other way round, so give its transpose."
                if turned
                else "; give it the corpus, or the split, that it is of, or with its ids: Scores(values, caption_ids, "
                "video_ids)."
            )
        )
    notice("The table names no ids: its rows and columns are taken for the corpus's captions and clips in their order.")
    return Scores(values, captions, clips)


def cut_to(
    part: Corpus, scores: Scores | ListedScores, whole: Corpus, path: Path, notice: Notice
) -> Scores | ListedScores:
    """Select the scores of a part of a corpus; captions and clips of other parts are left out.

    Adjacent rows and columns, as those of a split mostly are, are not copied from a memory-mapped table.
    """
    rows, columns = (
        np.flatnonzero(pl.Series(ids, dtype=pl.String).is_in(kept.implode()).to_numpy())
        for ids, kept in ((scores.caption_ids, part.captions["caption_id"]), (scores.video_ids, part.clips["clip_id"]))
    )
    captions, clips = len(scores.caption_ids) - len(rows), len(scores.video_ids) - len(columns)
    if not captions and not clips:
        return scores
    if not len(rows) or not len(columns):
        what, of = "clips" if len(rows) else "captions", scores.video_ids
        if not len(rows):
            asked = pl.col("caption_id").is_in(pl.Series(scores.caption_ids, dtype=pl.String).implode())
            of = whole.captions.filter(asked)["clip_id"].to_list()
        splits = " and ".join(map(repr, splits_of(whole, of))) or "other parts"
        raise ScoresError(
            f"{path} has no scores of {what} of the part that is asked for: its {what} are of {splits}; choose that, "
            "or score this part."
        )
    others = " and ".join(count(one, word) for one, word in ((captions, "caption"), (clips, "clip")) if one)
    known = " What they use was of the whole gallery, so better score the part alone." if scores.about.uses else ""
    notice(f"The file also has scores of {others} of other parts of the corpus, which are left out.{known}")
    caption_ids, video_ids = (
        [ids[int(row)] for row in kept] for ids, kept in ((scores.caption_ids, rows), (scores.video_ids, columns))
    )
    if isinstance(scores, Scores):
        return Scores(scores.values[_together(rows)][:, _together(columns)], caption_ids, video_ids, scores.about)
    of_rows, of_columns = np.full(len(scores.caption_ids), -1), np.full(len(scores.video_ids), -1)
    of_rows[rows], of_columns[columns] = np.arange(len(rows)), np.arange(len(columns))
    row, column = of_rows[scores.rows], of_columns[scores.columns]
    kept = (row >= 0) & (column >= 0)
    listed = replace(scores, rows=row[kept], columns=column[kept], values=scores.values[kept])
    return replace(listed, caption_ids=caption_ids, video_ids=video_ids)


def _together(places: Indices) -> slice | Indices:
    """The places as a slice where they have no gap, so that numpy makes a view."""
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places
