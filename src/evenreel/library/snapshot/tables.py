"""Tables of a snapshot: the catalog's rows in Arrow's form, and back.

A snapshot has every ordinary table of the catalog as it stands, with two differences: the rows of the vector matrix are
numbered without gaps, and a moment has its vector. Word indexes of SQLite are not sent, but made of the rows again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from evenreel.arrays import Indices
from evenreel.errors import LibraryError
from evenreel.files import sync_file
from evenreel.library.store import catalog
from evenreel.library.store.codes import HalfArray
from evenreel.library.store.fulltext import fill_full_text
from evenreel.library.store.model_folders import MAKING
from evenreel.library.store.schema import lay_down, tables
from evenreel.library.store.vectors import VectorIndex

if TYPE_CHECKING:
    import pyarrow as pa

MOMENTS, TRACKS, VECTOR_ROWS = "moments", "tracks", "vector_rows"
VECTOR = "vector"
BYTES = {("files", "path"), ("roots", "path"), ("transcripts", "origin")}
"""Columns of text that are bytes in a snapshot: paths need not be UTF-8."""
AT_ONCE = 8_192
"""Rows that are read or written together."""
BLOCK_ROWS = 256
"""Vectors that have a checksum together, and are fetched together."""
"""Entries of `meta` about vectors that no search reads."""

_KINDS = {"TEXT": "string", "INTEGER": "int64", "REAL": "float64"}


class CatalogReader:
    """Reads the tables of a catalog as batches of Arrow, at one moment.

    Attributes:
        clips: id, first row in the snapshot's matrix and number of vectors of each clip with frames, in order of rows.
        vector_rows: number of vectors.
    """

    def __init__(self, connection: sqlite3.Connection, vectors: VectorIndex | None) -> None:
        self._connection, self._vectors = connection, vectors
        self.clips: list[tuple[str, int, int]] = []
        self._stored_at: dict[str, int] = {}
        rows = 0
        found = connection.execute("SELECT clip_id, first_row, count FROM vector_rows ORDER BY first_row")
        for clip_id, first, count in found.fetchall() if vectors is not None else ():
            self.clips.append((clip_id, rows, count))
            self._stored_at[clip_id] = first
            rows += count
        self.vector_rows = rows

    @property
    def dimension(self) -> int:
        """Length of a vector; 0 without vision."""
        return 0 if self._vectors is None else self._vectors.dimension

    def stored_clips(self) -> list[tuple[str, int, int]]:
        """List id, first row in the library's own matrix, and number of vectors of each clip with frames."""
        return [(clip_id, self._stored_at[clip_id], count) for clip_id, _, count in self.clips]

    def batches(self, table: str, on_vectors: Callable[[HalfArray], None]) -> pa.RecordBatchReader:
        """Read a table in batches."""
        import pyarrow as pa

        schema = schema_of(table, self.dimension)
        return pa.RecordBatchReader.from_batches(schema, self._batches(table, schema, on_vectors))

    def _batches(
        self, table: str, schema: pa.Schema, on_vectors: Callable[[HalfArray], None]
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if table == MOMENTS:
            yield from self._moments(schema, on_vectors)
            return
        if table == VECTOR_ROWS:
            columns = list(zip(*self.clips, strict=True)) or [(), (), ()]
            yield pa.record_batch(
                [pa.array(one, field.type) for one, field in zip(columns, schema, strict=True)], schema
            )
            return
        for rows in self._rows(f"SELECT {_selected(table)} FROM {table}"):
            yield _batch([row for row in rows if table != "meta" or row[0].decode() != MAKING], schema)

    def _rows(self, sql: str) -> Iterator[list[Any]]:
        cursor = self._connection.execute(sql)
        while rows := cursor.fetchmany(AT_ONCE):
            yield rows

    def _moments(self, schema: pa.Schema, on_vectors: Callable[[HalfArray], None]) -> Iterator[pa.RecordBatch]:
        """Moments of clips with vectors in the order of the matrix, then the others."""
        select = f"SELECT {_selected(MOMENTS)} FROM {MOMENTS}"
        pending: list[tuple[str, int, int]] = []
        for clip in [*self.clips, None]:
            if pending and (clip is None or sum(count for *_, count in pending) + clip[2] > AT_ONCE):
                yield self._seen(select, pending, schema, on_vectors)
                pending = []
            if clip is not None:
                pending.append(clip)
        without = f"{select} WHERE clip_id NOT IN (SELECT clip_id FROM vector_rows) ORDER BY clip_id, number"
        for rows in self._rows(without if self._vectors is not None else f"{select} ORDER BY clip_id, number"):
            yield _batch(rows, schema)

    def _seen(
        self,
        select: str,
        clips: Sequence[tuple[str, int, int]],
        schema: pa.Schema,
        on_vectors: Callable[[HalfArray], None],
    ) -> pa.RecordBatch:
        assert self._vectors is not None  # else no clip has any
        rows: list[Any] = []
        found: list[HalfArray] = []
        for clip_id, _, count in clips:
            of_clip = self._connection.execute(f"{select} WHERE clip_id = ? ORDER BY number", (clip_id,)).fetchall()
            if len(of_clip) != count:
                raise LibraryError(
                    f"The catalog has {len(of_clip)} moments of clip {clip_id} but {count} vectors; run "
                    "`evenreel verify --repair`, then publish."
                )
            rows += of_clip
            found.append(self._vectors.read(self._stored_at[clip_id], count))
        vectors = np.ascontiguousarray(np.concatenate(found), "<f2")
        if not np.all(np.abs(np.linalg.norm(vectors.astype(np.float32), axis=1) - 1) < 0.01):  # NaN fails too
            raise LibraryError(
                "The library has vectors that are not of unit length; run `evenreel verify --repair`, then publish."
            )
        on_vectors(vectors)
        return _batch(rows, schema, vectors)


def _selected(table: str) -> str:
    """Columns of a row, text as its bytes, which can always be read."""
    return ", ".join(f"CAST({name} AS BLOB)" if kind == "TEXT" else name for name, kind in tables()[table])


def schema_of(table: str, dimension: int) -> pa.Schema:
    """Return the columns of a table of a snapshot; moments have a vector where there is a dimension."""
    import pyarrow as pa

    kinds = {name: pa.binary() if (table, name) in BYTES else _kind(kind) for name, kind in tables()[table]}
    if table == MOMENTS and dimension:
        kinds[VECTOR] = pa.list_(pa.float16(), dimension)
    return pa.schema(kinds)


def _kind(declared: str) -> pa.DataType:
    import pyarrow as pa

    found: pa.DataType = getattr(pa, _KINDS[declared.split(maxsplit=1)[0]])()
    return found


def _batch(rows: Sequence[Sequence[Any]], schema: pa.Schema, vectors: HalfArray | None = None) -> pa.RecordBatch:
    import pyarrow as pa

    names = [name for name in schema.names if name != VECTOR]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    arrays = [_array(values, schema.field(name).type) for name, values in zip(names, columns, strict=True)]
    if VECTOR in schema.names and vectors is None:
        arrays.append(pa.nulls(len(rows), schema.field(VECTOR).type))
    elif vectors is not None:
        arrays.append(pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1]))
    return pa.record_batch(arrays, schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values of a column; text comes as its bytes."""
    import pyarrow as pa

    if kind != pa.string():
        return pa.array(values, kind)
    try:
        return pa.array([None if value is None else value.decode() for value in values], kind)
    except UnicodeDecodeError as error:
        raise LibraryError(
            "The catalog has text that is damaged; run `evenreel verify --repair`, then publish."
        ) from error


class Checksums:
    """Checksums of a matrix that comes in pieces: one for each `BLOCK_ROWS` rows."""

    def __init__(self) -> None:
        self._left = b""
        self._row_bytes = 0
        self._found: list[int] = []

    def add(self, vectors: HalfArray) -> None:
        """Add the next vectors (n, D)."""
        self._row_bytes = 2 * vectors.shape[1]
        payload, step = self._left + vectors.tobytes(), BLOCK_ROWS * self._row_bytes
        whole = len(payload) // step * step
        self._found += [crc32(payload[start : start + step]) for start in range(0, whole, step)]
        self._left = payload[whole:]

    def all(self) -> Indices:
        """Return the checksum of each block, the last of which may be shorter."""
        return np.array([*self._found, *([crc32(self._left)] if self._left else [])], np.int64)


def fill_catalog(path: Path, names: Sequence[str], rows_of: Callable[[str], Iterator[pa.RecordBatch]]) -> None:
    """Make the catalog of a folder from tables of a snapshot, with its word indexes."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        lay_down(connection)
        for table in set(names) & set(tables()):
            columns = [column.name for column in tables()[table]]
            insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            for batch in rows_of(table):
                values = [_values(table, name, batch) for name in columns]
                connection.executemany(insert, zip(*values, strict=True))
        fill_full_text(connection)
        _settle(connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA optimize")
    finally:
        connection.close()
    sync_file(path)


def _values(table: str, column: str, batch: pa.RecordBatch) -> list[Any]:
    values: list[Any] = batch.column(column).to_pylist()
    return [_path(value) for value in values] if (table, column) in BYTES else values


def _path(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def _settle(connection: sqlite3.Connection) -> None:
    """What the folder has in another way than the library: a matrix without gaps, of generation 0, and word indexes."""
    (rows,) = connection.execute("SELECT coalesce(max(first_row + count), 0) FROM vector_rows").fetchone()
    catalog.set_meta(connection, {"vectors_generation": "0", "vectors_end": str(rows)})
