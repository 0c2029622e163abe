"""Clips that are read again only where the catalog has changed, beside those of a reader that reads all anew."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from evenreel.library.search.known_rows import ClipRows
from evenreel.library.store.catalog import open_for_writing, transaction
from evenreel.library.store.confidence import update_null_scores
from tests.library.fakes import SUBJECTS, Library


def same(held: ClipRows, fresh: ClipRows) -> bool:
    return (
        list(held.clip_ids) == list(fresh.clip_ids)
        and all(held.clip_ids.place(clip_id) == place for place, clip_id in enumerate(fresh.clip_ids))
        and all(
            np.array_equal(getattr(held, name), getattr(fresh, name), equal_nan=True)
            for name in ("first_rows", "counts", "means", "deviations")
        )
    )


@pytest.mark.parametrize("seed", range(5))
def test_rows_follow_whatever_an_indexer_does(tmp_path: Path, seed: int) -> None:
    library, held, rng = Library(tmp_path, open_for_writing(tmp_path)), ClipRows(), random.Random(seed)
    there: list[str] = []

    def add() -> None:
        there.append(f"c{len(there)}x{rng.random()}")
        library.add_clip(there[-1], rng.choices(SUBJECTS, k=rng.randint(1, 3)))

    def remove() -> None:
        if there:
            gone = there.pop(rng.randrange(len(there)))
            for table in ("null_scores", "clips"):
                library.connection.execute(f"DELETE FROM {table} WHERE clip_id = ?", (gone,))

    def again() -> None:
        if there:
            row = library.vectors.append(library.encoder.encode_text(["dog"]).sentence)
            changed = (row, 1, rng.choice(there))
            library.connection.execute("UPDATE vector_rows SET first_row = ?, count = ? WHERE clip_id = ?", changed)

    def measure() -> None:
        update_null_scores(library.connection, library.vectors, library.encoder)

    for _ in range(25):
        with transaction(library.connection):
            for step in rng.choices((add, remove, again, measure), (8, 1, 1, 2), k=rng.randint(0, 3)):
                step()
        held.refresh(library.connection)
        fresh = ClipRows()
        fresh.refresh(library.connection)
        assert same(held, fresh)
