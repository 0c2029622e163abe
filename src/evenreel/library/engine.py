"""*Seen* by a distributed engine, where a library has more moments than one machine scans: Milvus.

The engine holds a row for each moment: its vector, and its clip by its number in the catalog. A search asks for the
nearest moments *grouped by clip*, so that a film of an hour does not fill the answer, in all cells, since few probed
cells lose what text queries look for. The clips that it names, and those that came after the last `evenreel publish
--engine`, are scored by the library's own rows. Words, filters and everything shown stay with the catalog.

`milvus-lite` runs the same API in this process, from a path that ends in `.db`: a form for tests.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from evenreel.arrays import Flags, Indices
from evenreel.errors import EvenreelError, LibraryError, UsageError
from evenreel.extras import needed_extra
from evenreel.library.search import seen
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.store import catalog
from evenreel.library.store.writer import open_vectors
from evenreel.progress import Progress
from evenreel.types import FloatArray

TOKEN = "EVENREEL_ENGINE_TOKEN"
OVERSAMPLED, LEAST, A_CLIP = 4, 100, 3
"""Clips that are asked of the engine for each that is wanted, and at least; moments of each that it looks for."""
MOST_ROWS = 16_384  # most moments that Milvus names in one answer
MOST_NAMED = 1_000_000  # most clips that a question names, to be searched or to be left out
CELLS = 128  # cells of codes in each segment, all of which are probed
AT_ONCE = 1_000
PUBLISH = "publish with evenreel publish --engine"
PAUSE_S = 30.0  # how long an engine that has failed is not asked again: each try may wait for seconds


class Engine:
    """A library's moments in Milvus, under a name that always means one whole version of them.

    The address is `http://host:19530`, with the name after a slash where an engine has several libraries, or a path
    that ends in `.db`; a key is taken from the environment (`EVENREEL_ENGINE_TOKEN`), where `is_trusted`.
    """

    def __init__(self, address: str, *, is_trusted: bool = True) -> None:
        found = re.fullmatch(r"(https?://[\w.-]+(?::\d{1,5})?|[^@]*\.db)(?:/(\w{1,80}))?/?", address)
        if found is None:
            raise UsageError(
                "The address of the engine cannot be used: give http://HOST:19530 or http://HOST:19530/NAME, and a key "
                f"in the environment ({TOKEN})."
            )
        self.address, self.name = found[1], found[2] or "evenreel"
        try:
            from pymilvus import MilvusClient
        except ModuleNotFoundError as error:
            raise LibraryError(needed_extra(error, "A distributed engine") or str(error)) from error
        token = os.environ.get(TOKEN, "") if is_trusted else ""
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs what it raises
        with self._asking("cannot be reached"):
            self._client: Any = MilvusClient(self.address, token=token, timeout=10)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @contextlib.contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        try:
            yield
        except EvenreelError:
            raise
        except Exception as error:  # gRPC's, the client's own, and those of the file
            code = getattr(error, "code", None)
            why = f"{type(error).__name__}{f' {code}' if isinstance(code, int) else ''}"
            raise LibraryError(
                f"The engine at {self.address} {what} ({why}); see that it runs, and {PUBLISH}."
            ) from None

    def publish(self, clips: Iterable[tuple[int, FloatArray]], dimension: int, of: str) -> str:
        """Put all moments, (n, D) of each clip by its number, there under a new version, then let the name mean it.

        The version before stays until the next one is published, for searches under way.
        """
        from pymilvus import DataType, MilvusClient

        new = f"{self.name}_{secrets.token_hex(8)}_{of}"
        schema = MilvusClient.create_schema(auto_id=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        schema.add_field("clip", DataType.INT64)
        schema.add_field("seen", DataType.FLOAT_VECTOR, dim=dimension)
        index = self._client.prepare_index_params()
        index.add_index("seen", index_type="IVF_SQ8", metric_type="IP", params={"nlist": CELLS})
        with self._asking("cannot be written"):
            before = self._current()
            self._client.create_collection(new, schema=schema)
            try:
                for rows in _batches(clips):
                    self._client.insert(new, rows)
                self._client.flush(new)
                self._client.create_index(new, index)
                self._client.load_collection(new)
                (self._client.create_alias if before is None else self._client.alter_alias)(new, self.name)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._client.drop_collection(new)
                raise
            for old in self._client.list_collections():
                if re.fullmatch(rf"{self.name}_[0-9a-f]{{16}}_\w+", old) and old not in {new, before}:
                    self._client.drop_collection(old)
        return new

    def version(self, meta: Mapping[str, str]) -> tuple[str, int]:
        """Find the version of a library that the name means now: its name, and up to which row it has the matrix."""
        with self._asking("cannot be read"):
            current = self._current()
        if current is None:
            raise LibraryError(f"The engine at {self.address} has no moments of {self.name}; {PUBLISH}.")
        of, _, rows = current.rpartition("_")
        if not of.endswith(f"_{version_of(meta).rpartition('_')[0]}"):
            raise LibraryError(f"The engine at {self.address} has another version of the library; {PUBLISH}.")
        return current, int(rows)

    def nearest(self, version: str, query: FloatArray, first: int, allowed: Flags | None = None) -> Indices:
        """Find so many clips by their best moment under a query (D,), of those `allowed` by number, None for all."""
        chosen = "" if allowed is None else _choosing(allowed)
        first = min(first, MOST_ROWS // A_CLIP)
        named: dict[int, None] = {}
        with self._asking("cannot be asked"):
            while len(named) < first:  # a server groups until it has enough, the embedded form only some moments
                known = f"clip not in [{', '.join(map(str, named))}]" if named else ""
                (rows,) = self._client.search(
                    version,
                    data=[query],
                    anns_field="seen",
                    filter=" and ".join(filter(None, (chosen, known))),
                    limit=first - len(named),
                    group_by_field="clip",
                    group_size=A_CLIP,
                    search_params={"params": {"nprobe": CELLS}},
                    output_fields=["clip"],
                )
                named.update(dict.fromkeys(row["entity"]["clip"] for row in rows))
                if not rows:
                    break
        return np.fromiter(named, np.int64, len(named))

    def _current(self) -> str | None:
        if self.name not in self._client.list_aliases()["aliases"]:
            return None
        return str(self._client.describe_alias(self.name)["collection_name"])


class SeenByEngine:
    def __init__(self, address: str) -> None:
        self._address, self._failed, self._again_s = address, "", 0.0
        self._engine: Engine | None = None

    def score(self, s: Snapshot, query: FloatArray, where: str | None, k: int, notices: list[str]) -> FloatArray | None:
        """Score the clips (C,) among which the first k are, -inf of others; None, with a notice, where it fails."""
        if time.monotonic() >= self._again_s:
            allowed = s.allowed(where)
            try:
                # What a library's own file names, which may be anybody's, gets no key.
                is_trusted = self._address == os.environ.get("EVENREEL_ENGINE")
                self._engine = self._engine or Engine(self._address, is_trusted=is_trusted)
                version, rows = self._engine.version(s.meta)
                wanted = max(LEAST, OVERSAMPLED * k)
                named = self._engine.nearest(version, query, wanted, None if where is None else allowed)
            except EvenreelError as error:
                self._engine, self._failed = None, f"What is seen was searched without the engine: {error}"
                self._again_s = 0.0 if isinstance(error, UsageError) else time.monotonic() + PAUSE_S
            else:
                chosen = s.first_rows >= rows  # these came later
                chosen[named[named < len(chosen)]] = True
                return seen.score(s, query, allowed & chosen)
        notices.append(self._failed)
        return None


def version_of(meta: Mapping[str, str]) -> str:
    """Name the vectors that a library has: their model, which matrix, and how many rows of it."""
    return f"{meta['weights_hash'][:16]}_{meta.get('vectors_generation', '0')}_{meta.get('vectors_end', '0')}"


def _choosing(allowed: Flags) -> str:
    """A filter by whichever is fewer: the clips that may be named, or those that may not."""
    are_few = 2 * int(allowed.sum()) <= len(allowed)
    named = np.flatnonzero(allowed if are_few else ~allowed)
    if len(named) > MOST_NAMED:
        raise UsageError(
            f"The filter leaves {int(allowed.sum()):,} of {len(allowed):,} clips, and an engine is told of at most "
            f"{MOST_NAMED:,}; choose fewer, or nearly all."
        )
    return f"clip {'in' if are_few else 'not in'} [{', '.join(map(str, named.tolist()))}]"


def _batches(clips: Iterable[tuple[int, FloatArray]]) -> Iterator[list[dict[str, Any]]]:
    moments = ((clip, vector) for clip, vectors in clips for vector in np.asarray(vectors, np.float32))
    numbered = enumerate(moments)
    while rows := [{"row": row, "clip": clip, "seen": vector} for row, (clip, vector) in islice(numbered, AT_ONCE)]:
        yield rows


def publish_to_engine(library: Path, address: str, progress: Progress | None = None) -> int:
    """Put the moments of a library into an engine as a new version; returns how many."""
    connection = catalog.open_for_reading(library)
    with contextlib.closing(connection), Engine(address) as engine, catalog.snapshot(connection):
        meta = catalog.get_meta(connection)
        vectors = open_vectors(library, meta)
        if vectors is None:
            raise LibraryError(f"The library {library} is searched by words alone; there is nothing for an engine.")
        sql = "SELECT key, first_row, count FROM vector_rows JOIN clip_keys USING (clip_id) ORDER BY first_row"
        rows = connection.execute(sql).fetchall()

        def clips() -> Iterator[tuple[int, FloatArray]]:
            for done, (key, first_row, count) in enumerate(rows):
                yield key, vectors.read(first_row, count).astype(np.float32)
                if progress is not None:
                    progress((done + 1) / len(rows))

        engine.publish(clips(), vectors.dimension, version_of(meta))
        return sum(count for *_, count in rows)
