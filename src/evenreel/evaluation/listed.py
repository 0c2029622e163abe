"""Scores of systems that list some pairs only; every other pair scores minus infinity and is never retrieved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from evenreel.errors import ScoresError
from evenreel.evaluation.settings import Direction
from evenreel.types import Corpus, ScoreNotes, Shown

Listing = pl.DataFrame
"""Columns `query`, `item`, `score`, and `number`, that of the line or row it was read from."""

WHAT_WAS_SCORED = "give the corpus that was scored (in Python, of a part of it also the whole one: whole=corpus)"
"""What to do about ids that a corpus does not have."""

Place = Callable[[int], str]


@dataclass(frozen=True, eq=False)
class ListedScores(Shown):
    """Scores (Q, V) from ranked lists, of clips for captions or of captions for clips; implements `ScoreBlocks`.

    Attributes:
        rows, columns: (N,) row and column of each listed pair.
        values: (N,) scores of the listed pairs.
        caption_ids: ids of the Q captions.
        video_ids: ids of the V clips.
        queries: `t2v` where captions have lists, `v2t` where videos have.
        uses: what the scores use beside caption and video, see `evenreel.types.ScoreNotes`.
        notices: sentences on what was left out, for the notes.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[Any]
    caption_ids: Sequence[str]
    video_ids: Sequence[str]
    queries: Direction = "t2v"
    uses: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def about(self) -> ScoreNotes:
        """Notes on what the lists use, and whether they list every pair."""
        complete = len(self.values) == len(self.caption_ids) * len(self.video_ids)
        return ScoreNotes(self.uses, self.notices, complete=complete)

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Return the scores (q, v) of some captions and videos, minus infinity for pairs that are not listed."""
        few_rows = captions.stop - captions.start < len(self.caption_ids)
        part = (self._by_row if few_rows else self._by_column)[captions, videos].tocoo()
        dense = np.full(part.shape, -np.inf, dtype=self.values.dtype)
        dense[part.row, part.col] = part.data
        return dense

    # Both are kept since a slice along the other axis of a sparse table reads all of it.
    @cached_property
    def _by_row(self) -> sparse.csr_array:
        return sparse.csr_array((self.values, (self.rows, self.columns)), shape=self._shape)

    @cached_property
    def _by_column(self) -> sparse.csc_array:
        return sparse.csc_array((self.values, (self.rows, self.columns)), shape=self._shape)

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.caption_ids), len(self.video_ids)


def make_listed(
    listing: Listing, corpus: Corpus | None, place: Place, *, partial: bool = False, queries: Direction | None = None
) -> ListedScores:
    """Make scores from ranked lists, checked against a corpus; a query without a list counts as having found nothing.

    The ids show whether captions or clips are the queries.
    """
    if corpus is None:
        turned = queries == "v2t"
        asking, items = (listing[side].drop_nulls().unique(maintain_order=True) for side in ("query", "item"))
    else:
        captions, clips = corpus.captions["caption_id"], corpus.clips["clip_id"]
        turned = _are_clips_queries(listing, captions, clips, place, queries)
        asking, items = (clips, captions) if turned else (captions, clips)
    _check(listing, (asking, items), ("clip", "caption") if turned else ("caption", "clip"), place)
    if partial:
        asking = asking.filter(asking.is_in(listing["query"].implode()))
    places = [
        listing.select(pl.col(side).replace_strict(ids, np.arange(len(ids)), return_dtype=pl.Int64)).to_series()
        for side, ids in (("query", asking), ("item", items))
    ]
    rows, columns = (place.to_numpy() for place in (places[::-1] if turned else places))
    captions, clips = (items, asking) if turned else (asking, items)
    values = listing["score"].to_numpy()
    return ListedScores(rows, columns, values, captions.to_list(), clips.to_list(), "v2t" if turned else "t2v")


def _are_clips_queries(
    listing: Listing, captions: pl.Series, clips: pl.Series, place: Place, queries: Direction | None
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


def _check(listing: Listing, known: tuple[pl.Series, pl.Series], names: tuple[str, str], place: Place) -> None:
    for side, ids, what in zip(("query", "item"), known, names, strict=True):
        if found := _first(listing, ~listing[side].is_in(ids.implode())):
            raise ScoresError(
                f"{place(found['number'])} names {found[side]!r}, which is no {what} of the corpus; {WHAT_WAS_SCORED}."
            )
    if found := _first(listing, listing["score"].is_null() | listing["score"].is_nan()):
        raise ScoresError(
            f"{place(found['number'])} has no number for a score ({found['query']!r}, {found['item']!r}); "
            "nothing can rank it."
        )
    if found := _first(listing, ~listing.select(pl.struct("query", "item").is_first_distinct()).to_series()):
        raise ScoresError(
            f"{place(found['number'])} lists {found['item']!r} a second time for {found['query']!r}; a pair has "
            "one score."
        )


def _first(listing: Listing, wrong: pl.Series) -> dict[str, Any]:
    """The first row that is wrong; empty where all are right."""
    rows = wrong.arg_true()
    return listing.row(int(rows[0]), named=True) if len(rows) else {}
