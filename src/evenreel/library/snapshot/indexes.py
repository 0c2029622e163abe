"""Indexes of a snapshot's tables, each measured when it is built, and refused where it finds too little.

Our servers rank by codes and exact vectors; these indexes are for whoever reads the tables with Lance.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenreel.arrays import Indices, slices
from evenreel.library.snapshot.manifest import LEAST_RECALL, MeasuredIndex
from evenreel.library.snapshot.place import lance
from evenreel.library.snapshot.tables import AT_ONCE, MOMENTS, TRACKS, VECTOR
from evenreel.library.store.confidence import CLIPS_AT_ONCE
from evenreel.library.store.vectors import ExactVectors
from evenreel.types import FloatArray

SCALARS = (
    (MOMENTS, "clip_id", "BTREE"),
    (TRACKS, "clip_id", "BTREE"),
    ("clips", "clip_id", "BTREE"),
    ("files", "clip_id", "BTREE"),
    ("files", "state", "BITMAP"),
    (TRACKS, "text", "INVERTED"),
    ("files", "name", "INVERTED"),
)
FULL_TEXT: dict[str, Any] = {"stem": False, "remove_stop_words": False, "with_position": True}
VECTOR_KIND = "IVF_SQ"
"""Kind of vector index: codes of a byte a number, in cells."""
NEAREST_CELLS = {"nprobes": 20, "refine_factor": 2}
ALL_CODES = {"nprobes": 1, "refine_factor": 2}
"""How an index of many cells is searched, and one of a single cell, which is tried where the first finds too little."""
SAMPLED = 100
FIRST = 10
MOMENTS_ASKED = 500
"""Moments that are asked for, so that ten clips are among them."""
EQUAL = 1e-4
"""Differences of similarity that are none: a query of float16 numbers is a little off."""


@dataclass(frozen=True, eq=False)
class SearchedGallery:
    """Clips of a library as an exact search sees them.

    Attributes:
        vectors: their vectors.
        first_rows: first row of each clip (C,) in `vectors`.
        counts: number of rows of each (C,).
        clip_ids: their ids.
        queries: text queries (Q, D) to measure with.
    """

    vectors: ExactVectors
    first_rows: Indices
    counts: Indices
    clip_ids: Sequence[str]
    queries: FloatArray

    def best(self) -> Iterator[FloatArray]:
        """Yield the similarity of some queries to all clips, (q, C)."""
        for part in slices(len(self.queries), 16):
            found = [
                self.vectors.best_per_clip(self.queries[part], self.first_rows[clips], self.counts[clips])
                for clips in slices(len(self.clip_ids), CLIPS_AT_ONCE)
            ]
            yield np.concatenate(found, axis=1)


def build_indexes(
    folder: Path, gallery: SearchedGallery | None, index_from: int, on_index: Callable[[MeasuredIndex], None]
) -> Iterator[MeasuredIndex]:
    """Build the indexes of the tables in a folder and measure them; those that find too little are taken off again."""
    for table, column, kind in SCALARS:
        path = folder / f"{table}.lance"
        if path.exists() and (dataset := lance().dataset(str(path))).count_rows():
            began = time.monotonic()
            dataset.create_scalar_index(column, kind, **(FULL_TEXT if kind == "INVERTED" else {}))
            recall = _recall_of_rows(lance().dataset(str(path)), column, kind)
            found = MeasuredIndex(table, column, kind, recall, recall >= LEAST_RECALL, time.monotonic() - began)
            yield _settled(path, found, on_index)
    if gallery is None or len(gallery.queries) == 0 or int(gallery.counts.sum()) < index_from:
        return
    for how in (NEAREST_CELLS, ALL_CODES):
        path = folder / f"{MOMENTS}.lance"
        began = time.monotonic()
        cells = 1 if how is ALL_CODES else max(1, round(float(gallery.counts.sum()) ** 0.5))
        opened = lance().dataset(str(path))
        dataset = opened.create_index(VECTOR, VECTOR_KIND, metric="dot", replace=True, num_partitions=cells)
        seconds = time.monotonic() - began
        recall = recall_of_clips(dataset, gallery, how)
        found = MeasuredIndex(
            MOMENTS, VECTOR, VECTOR_KIND, recall, recall >= LEAST_RECALL, seconds, {**how, "cells": cells}
        )
        yield _settled(path, found, on_index)
        if found.kept:
            return


def _settled(path: Path, found: MeasuredIndex, on_index: Callable[[MeasuredIndex], None]) -> MeasuredIndex:
    """Take an index off that finds too little, and what lies there of refused ones."""
    from datetime import timedelta

    dataset = lance().dataset(str(path))
    if not found.kept:
        for one in dataset.describe_indices():
            if found.column in one.field_names:
                dataset.drop_index(one.name)
    dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    found = replace(found, recall=round(found.recall, 4), seconds=round(found.seconds, 2))
    on_index(found)
    return found


def recall_of_clips(dataset: Any, gallery: SearchedGallery, how: dict[str, int]) -> float:
    """Measure which share of the first ten clips an index of moments finds; clips of equal similarity count alike."""
    place = {clip_id: number for number, clip_id in enumerate(gallery.clip_ids)}
    first = min(FIRST, len(place))
    similarities = (row for some in gallery.best() for row in some)
    found = 0
    for query, similar in zip(gallery.queries, similarities, strict=True):
        nearest = {"column": VECTOR, "q": query.astype(np.float16), "k": MOMENTS_ASKED, **how}
        scanner = dataset.scanner(columns=["clip_id"], nearest=nearest, disable_scoring_autoprojection=True)
        ids = scanner.to_table()["clip_id"].to_pylist()
        shown = list(dict.fromkeys(ids))[:first]
        least = np.partition(similar, -first)[-first] - EQUAL
        found += sum(bool(similar[place[clip_id]] >= least) for clip_id in shown)
    return found / (first * len(gallery.queries))


def _recall_of_rows(dataset: Any, column: str, kind: str) -> float:
    """Which share of sampled rows is among those that their value, or the words of it, is found in."""
    found, asked = 0, 0
    for value, expected in _sampled(dataset, column).items():
        query = _of_words(column, value) if kind == "INVERTED" else {"filter": _equals(column, value)}
        if query is not None:
            scanner = dataset.scanner(columns=[], with_row_id=True, disable_scoring_autoprojection=True, **query)
            found += sum(len(expected & set(some["_rowid"].to_pylist())) for some in scanner.to_batches())
            asked += len(expected)
    return found / asked if asked else 1.0


def _sampled(dataset: Any, column: str) -> dict[str | None, set[int]]:
    """Values of sampled rows, with the rows that have them; one batch of the table is held at a time."""
    rows = dataset.count_rows()
    sample = np.unique(np.linspace(0, rows - 1, min(SAMPLED, rows)).astype(int))
    found: dict[str | None, set[int]] = {}
    begin = 0
    for batch in dataset.scanner(columns=[column], with_row_id=True, batch_size=AT_ONCE).to_batches():
        some = batch.take(sample[(sample >= begin) & (sample < begin + len(batch))] - begin)
        for value, row in zip(some[column].to_pylist(), some["_rowid"].to_pylist(), strict=True):
            found.setdefault(value, set()).add(row)
        begin += len(batch)
    return found


def _of_words(column: str, value: str | None) -> dict[str, Any] | None:
    """Search for rows with all words of a text; None where its words could be read in several ways."""
    from lance.query import FullTextOperator, MatchQuery

    words = re.findall(r"[A-Za-z0-9]+", value or "")
    if not words or not (value or "").isascii():
        return None
    return {"full_text_query": MatchQuery(" ".join(words), column, operator=FullTextOperator.AND)}


def _equals(column: str, value: str | None) -> str:
    return f"{column} IS NULL" if value is None else f"{column} = '{value.replace(chr(39), chr(39) * 2)}'"
