"""Libraries in memory of rendered clips, as an index run leaves them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenreel.library.search.searcher import Searcher
from evenreel.library.store.catalog import create_schema, set_meta, transaction
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import ExactVectors, update_null_scores
from evenreel.types import Encoder, TextEmbedding


@dataclass(frozen=True, eq=False)
class Pool:
    """Rendered clips: frames (R, D), first row and number of frames (C,), colour, shape and place of each (C, 3)."""

    vectors: NDArray[np.float16]
    first_rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    shown: NDArray[np.int64]


class RememberingEncoder:
    """An encoder that encodes each text once, for the same are asked of every library."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._known = encoder, dict[str, TextEmbedding]()
        self.encoder_id, self.weights_hash, self.dimension = encoder.encoder_id, encoder.weights_hash, encoder.dimension
        self.window = encoder.window
        self.encode_windows, self.truncated = encoder.encode_windows, encoder.truncated

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Texts by themselves, so that none depends on another's length."""
        for text in set(captions) - self._known.keys():
            self._known[text] = self._encoder.encode_text([text])
        sentence = np.concatenate([self._known[text].sentence for text in captions])
        return TextEmbedding(sentence[:, None], np.ones((len(captions), 1), np.bool_), sentence)


def library_of(pool: Pool, clips: Sequence[int], folder: Path, encoder: Encoder) -> Searcher:
    """A library of some of the clips, in memory, as an index run leaves it."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_schema(connection)
    vectors = ExactVectors(folder / "vectors.0.f16", encoder.dimension)
    spans = [slice(pool.first_rows[clip], pool.first_rows[clip] + pool.counts[clip]) for clip in clips]
    vectors.append(np.concatenate([pool.vectors[span] for span in spans]).astype(np.float32), at_row=0)
    connection.execute("BEGIN")
    row = 0
    for number in clips:
        name, frames = str(number), int(pool.counts[number])
        connection.execute(
            "INSERT INTO clips VALUES (?, 'mp4', 'h264', 320, 240, ?, 12, 1, 1, '[]', '')", (name, frames)
        )
        connection.execute(
            "INSERT INTO files VALUES (?, ?, '/', 1, 1, 1, 'indexed', ?, NULL, NULL, '{}')",
            (f"/{name}.mp4", "v.mp4", name),
        )
        connection.execute("INSERT INTO vector_rows VALUES (?, ?, ?)", (name, row, frames))
        moments = [(name, frame, float(frame), frame - 0.5, frame + 0.5) for frame in range(frames)]
        connection.executemany("INSERT INTO moments VALUES (?, ?, ?, ?, ?)", moments)
        row += frames
    rebuild_full_text(connection)
    connection.execute("COMMIT")
    with transaction(connection):
        set_meta(connection, {"weights_hash": encoder.weights_hash})
        update_null_scores(connection, vectors, encoder)
    return Searcher(connection, lambda _: vectors, lambda: encoder, folder)
