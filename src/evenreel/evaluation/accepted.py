"""What is taken for scores: records, paths, arrays, tensors, and tables of any library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from evenreel.config import check_scores, described
from evenreel.corpus.tables import ArrowTable, as_dataframe, is_dataframe
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.fitted import Notice, by_ids, from_table, in_order, tell_of_gaps
from evenreel.evaluation.listed import ListedScores
from evenreel.evaluation.matrices import as_table
from evenreel.evaluation.scores import load_scores, read_scores
from evenreel.types import Corpus, ScoreBlocks, Scores

ScoresLike: TypeAlias = (
    "ScoreBlocks | str | os.PathLike[str] | ArrayLike | pl.DataFrame | pl.LazyFrame | ArrowTable"
    " | Mapping[str, Mapping[str, float]] | Mapping[str, Any]"
)
"""What is taken for scores: `Scores` or any `ScoreBlocks`; the path of a file that `load_scores` reads; an array, a
tensor or a list of lists (Q, V), a caption a row and a video a column, in the order of the corpus; a table of polars,
pandas or another `ArrowTable`, with a row a caption and a column a clip, or with a row a pair; scores of pairs as
{caption: {clip: score}}; or the arrays of an `.npz` by name."""

_WHAT = "The scores"
_HOW = (
    "give Scores(values, caption_ids, video_ids), the path of a file, or numbers as an array or a DataFrame, a caption "
    "a row and a video a column"
)
_MATRIX = "give an array of numbers with two axes"
_ARRAYS = ("values", "caption_ids", "video_ids")


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
        check_scores(given, name)
        return cast("ScoreBlocks", given)
    said: list[str] = []
    found = _fitted(given, corpus, name, partial, notice or said.append)
    if isinstance(found, ListedScores):
        return replace(found, notices=(*found.notices, *said))
    return replace(found, about=replace(found.about, notices=(*found.about.notices, *said)))


OwnScores: TypeAlias = "ScoreBlocks | NDArray[Any]"
"""Scores as they are without a corpus: with the ids that they name, or the numbers of a matrix that names none."""


def own_scores(given: ScoresLike, name: str = "scores") -> OwnScores:
    """Convert what stands for scores without a corpus."""
    if _are_blocks(given):
        check_scores(given, name)
        return cast("ScoreBlocks", given)
    return _unfitted(given, None, name)


def numbered(values: NDArray[Any]) -> Scores:
    """Call the rows and columns of a matrix by their numbers, from 0."""
    rows, columns = values.shape
    return Scores(values, [str(row) for row in range(rows)], [str(column) for column in range(columns)])


def _are_blocks(given: object) -> bool:
    return all(hasattr(given, part) for part in ("caption_ids", "video_ids", "block"))


def _fitted(given: object, corpus: Corpus | None, name: str, partial: bool, notice: Notice) -> Scores | ListedScores:
    """Scores of the corpus; a file says what it is of itself."""
    if isinstance(given, (str, os.PathLike)) and corpus is not None:
        return load_scores(given, corpus, partial=partial, notice=notice)
    found = _unfitted(given, corpus, name, partial)
    if isinstance(found, ListedScores) and corpus is None:
        raise ScoresError(
            f"{name} has a row a pair, and pairs may be left out of it; give its corpus too: as_scores({name}, corpus)."
        )
    if isinstance(found, ListedScores):
        tell_of_gaps(found, notice)
        return found
    if isinstance(found, Scores):
        return found if corpus is None else by_ids(name, found, corpus, notice)
    if corpus is None:
        raise UsageError(
            f"{name} is {described(given)} without ids; give a corpus too, or scores with their ids: Scores(values, "
            "caption_ids, video_ids)."
        )
    return in_order(name, found, corpus, corpus, notice)


def _unfitted(
    given: object, corpus: Corpus | None, name: str, partial: bool = False
) -> Scores | ListedScores | NDArray[Any]:
    if isinstance(given, (str, os.PathLike)):
        return read_scores(Path(given), corpus, partial=partial)
    if is_dataframe(given):
        return from_table(name, as_dataframe(given, name, _HOW, keep_index=True), corpus, partial=partial)
    return _of_mapping(given, corpus, name, partial) if isinstance(given, Mapping) else as_matrix(given, name)


def _of_mapping(given: Mapping[Any, Any], corpus: Corpus | None, name: str, partial: bool) -> Scores | ListedScores:
    """The arrays of an `.npz`, or scores by caption and clip, as pytrec_eval and ranx have a run."""
    if set(_ARRAYS) <= set(given):
        found = Scores(as_table(given["values"]), *(_ids(given[part]) for part in _ARRAYS[1:]))
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
    table = pl.DataFrame({**columns, "score": np.array([pair[2] for pair in pairs], np.float64)})
    return cast("ListedScores", from_table(name, table, corpus, partial=partial))


def _ids(given: Any) -> Any:
    """Ids of an array as a list of texts, where they are texts."""
    return given.tolist() if isinstance(given, np.ndarray) else given


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
