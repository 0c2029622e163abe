"""What a library stores of people, to be looked for in the bytes of its files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from evenreel.library.store.catalog import CATALOG

PIECE = 48


def traces(library: Path, who: str | None = None) -> list[bytes]:
    """Pieces of all that is stored of a person, or of everyone: vectors and their mean as they are and as
    float32, pictures, name."""
    with closing(sqlite3.connect(library / CATALOG)) as connection:
        rows = connection.execute(
            "SELECT vector, jpeg FROM faces JOIN people USING (person_id) WHERE ?1 IS NULL OR name = ?1", (who,)
        ).fetchall()
        known = connection.execute("SELECT name, mean FROM people WHERE ?1 IS NULL OR name = ?1", (who,)).fetchall()
    assert rows
    pieces = [name.encode() for name, _ in known]
    for vector, crop in [*rows, *((mean, b"") for _, mean in known)]:
        half = np.frombuffer(vector, "<f2")
        single = half.astype("<f4")
        for whole in (vector, single.tobytes(), (single / np.linalg.norm(single)).tobytes()):
            pieces += [whole[start : start + PIECE] for start in range(0, len(whole) - PIECE, PIECE)]
        body = crop[len(crop) // 2 :]  # the tables at the beginning are those of every JPEG
        pieces += [body[start : start + PIECE] for start in range(0, len(body) - PIECE, PIECE)]
    return pieces


def found_in(folder: Path, pieces: list[bytes]) -> list[str]:
    """Names of the files below a folder that hold any of the pieces, byte by byte."""
    content = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return [path.name for path, held in content.items() if any(piece in held for piece in pieces)]
