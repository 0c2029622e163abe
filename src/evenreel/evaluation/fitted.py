"""Scores of tables and arrays, fitted to a corpus by the ids that they name, or by their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus.tables import INDEX, as_ids
from evenreel.errors import ScoresError
from evenreel.evaluation.listed import WHAT_WAS_SCORED, ListedScores, make_listed
from evenreel.evaluation.settings import Direction
from evenreel.types import Corpus, ScoreBlocks, Scores

Notice = Callable[[str], object]

QUERY_NAMES = ("caption_id", "query_id", "query", "qid", "query-id")
"""Names that a column of captions' ids may have, the first that is there counts."""

ITEM_NAMES = ("clip_id", "video_id", "item_id", "item", "doc_id", "docno", "corpus-id")
"""Names that a column of clips' ids may have."""

SCORE = "score"


def lists_pairs(table: pl.DataFrame, values: Sequence[str] = (SCORE,)) -> bool:
    """Return whether a table has a row a pair of a query and an item, and a column of `values`.

    >>> lists_pairs(pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "score": [0.5]}))
    True
    >>> lists_pairs(pl.DataFrame({"caption_id": ["0"], "score": [0.5]}))  # a clip of that name
    False
    """
    return None not in (column_of(table, names) for names in (values, QUERY_NAMES, ITEM_NAMES))


def column_of(table: pl.DataFrame, names: Sequence[str]) -> str | None:
    """Return the first of some names that a table has a column of; None for none."""
    return next((name for name in names if name in table.columns), None)


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
    if queries == "v2t" and query == QUERY_NAMES[0]:
        query, item = item, query
    listing = pl.DataFrame(
        {
            "query": _text_column(where, table, query),
            "item": _text_column(where, table, item),
            "score": table[SCORE].cast(pl.Float64, strict=False),
        }
    ).with_row_index("number", offset=1)
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
    numbered = _is_numbered(values.columns)
    if ids is None and not numbered:
        raise ScoresError(
            f"{where} has no column caption_id; it has: {', '.join(table.columns[:10]) or 'none'}; name its rows by "
            "that, or by its index, or give the numbers alone, rows and columns in the corpus's order."
        )
    if ids is None:
        return values.to_numpy()
    return Scores(values.to_numpy(), _text_column(where, table, ids).to_list(), values.columns)


def _is_numbered(names: Sequence[str]) -> bool:
    """Whether columns have the names that libraries give them where nobody has: 0, 1, 2, or column_0, column_1."""
    return any(list(names) == [f"{word}{place}" for place in range(len(names))] for word in ("", "column_"))


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
