"""*Seen* by a distributed engine, where a library has more moments than one machine scans: Milvus.

The engine holds a row for each moment: its vector, its clip as a number, and its place in the clip. A search asks for
the nearest moments *grouped by clip*, so that a film of an hour does not fill the answer. The engine compares codes of
a byte a number in all cells, since few probed cells lose what text queries look for, and what it names is scored again
by the whole vectors. Words, filters and everything shown stay with the library's catalog.

`milvus-lite` runs the same API in this process, from a path that ends in `.db`: a form for tests.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import EvenreelError, LibraryError, UsageError
from evenreel.extras import needed_extra
from evenreel.library.store import catalog
from evenreel.library.store.writer import open_vectors
from evenreel.progress import Progress
from evenreel.types import FloatArray

ADDRESS, TOKEN = "EVENREEL_ENGINE", "EVENREEL_ENGINE_TOKEN"
OVERSAMPLED, A_CLIP = 4, 3
"""Clips that are asked of the engine for each that is wanted, and moments of each, to be scored by whole vectors."""
MOST_ROWS = 16_384
"""Most moments that Milvus names in one answer."""
MOST_NAMED = 1_000_000
"""Most clips that a question names, to be searched or to be left out."""
CELLS = 128
"""Cells of codes in each segment, all of which are probed."""
AT_ONCE = 1_000

KEY_DIGITS = 15
"""Hexadecimal digits of a clip's id that are its number: two of ten million are alike once in twenty thousand times."""


class BestMoments(NamedTuple):
    """Score of each clip's best moment (C,), -inf beyond the first, and its place in the clip (C,), there -1."""

    scores: FloatArray
    numbers: Indices


def keys_of(clip_ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers that the engine knows clips by: (C,)."""
    return np.fromiter((int(one[:KEY_DIGITS], 16) for one in clip_ids), np.int64, len(clip_ids))


class Engine:
    """A library's moments in Milvus, under a name that always means one whole version of them.

    The address is `http://host:19530`, with the name after a slash where an engine has several libraries, or a path
    that ends in `.db`; a key is taken from the environment (`EVENREEL_ENGINE_TOKEN`).
    """

    def __init__(self, address: str) -> None:
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
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs what it raises
        with self._asking("cannot be reached"):
            self._client: Any = MilvusClient(self.address, token=os.environ.get(TOKEN, ""), timeout=10)

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
                f"The engine at {self.address} {what} ({why}); see that it runs, and publish with publish_to_engine."
            ) from None

    def publish(self, clips: Iterable[tuple[str, FloatArray]], dimension: int, weights_hash: str) -> str:
        """Put all moments, (n, D) of each clip by its id, there under a new version, then let the name mean it.

        The version before stays until the next one is published, for searches under way.
        """
        from pymilvus import DataType, MilvusClient

        new = f"{self.name}_{secrets.token_hex(8)}_{weights_hash[:16]}"
        schema = MilvusClient.create_schema(auto_id=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        schema.add_field("clip", DataType.INT64)
        schema.add_field("number", DataType.INT64)
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
                if re.fullmatch(rf"{self.name}_[0-9a-f]{{16}}_\w{{1,16}}", old) and old not in {new, before}:
                    self._client.drop_collection(old)
        return new

    def check(self, weights_hash: str) -> None:
        """Refuse a version of another model's vectors, and a name that means none."""
        with self._asking("cannot be read"):
            current = self._current()
            if current is None:
                raise LibraryError(
                    f"The engine at {self.address} has no moments of {self.name}; publish with publish_to_engine."
                )
            if current.rpartition("_")[2] != weights_hash[:16]:
                raise LibraryError(
                    f"The engine at {self.address} has vectors of another model; publish with publish_to_engine."
                )

    def best(
        self, query: FloatArray, keys: NDArray[np.int64], first: int, allowed: NDArray[np.bool_] | None = None
    ) -> BestMoments:
        """Score the `first` clips of those `allowed` (C,), None for all, by their best moment.

        Clips are named by `keys_of` (C,), `query` is a unit vector (D,). A clip is missed where its codes misjudge it
        by more than `OVERSAMPLED` times as many places; `benchmarks/engine.py` measures how often.
        """
        best = BestMoments(np.full(len(keys), -np.inf, np.float32), np.full(len(keys), -1, np.int64))
        chosen = "" if allowed is None or allowed.all() else _choosing(keys, allowed)
        wanted = min(OVERSAMPLED * first, MOST_ROWS // A_CLIP, len(keys) if allowed is None else int(allowed.sum()))
        if wanted < 1:
            return best
        named: dict[int, tuple[float, int]] = {}
        with self._asking("cannot be asked"):
            while len(named) < wanted:  # a server groups until it has enough, the embedded form only some moments
                known = f"clip not in [{', '.join(map(str, named))}]" if named else ""
                (rows,) = self._client.search(
                    self.name,
                    data=[query],
                    anns_field="seen",
                    filter=" and ".join(filter(None, (chosen, known))),
                    limit=wanted - len(named),
                    group_by_field="clip",
                    group_size=A_CLIP,
                    search_params={"params": {"nprobe": CELLS}},
                    output_fields=["clip", "number", "seen"],
                )
                for row in (one["entity"] for one in rows):
                    score = float(np.dot(query, np.asarray(row["seen"], np.float32)))
                    named[row["clip"]] = max(named.get(row["clip"], (-np.inf, -1)), (score, row["number"]))
                if not rows:
                    break
        firsts = sorted(named, key=lambda key: named[key], reverse=True)[:first]
        for place in np.flatnonzero(np.isin(keys, firsts)):
            best.scores[place], best.numbers[place] = named[int(keys[place])]
        return best

    def frames(self, key: int) -> FloatArray:
        """Return the vectors of a clip's moments in their order: (n, D)."""
        with self._asking("cannot be asked"):
            rows = self._client.query(
                self.name, filter=f"clip == {key}", output_fields=["number", "seen"], limit=MOST_ROWS
            )
        ordered = sorted(rows, key=lambda row: int(row["number"]))
        return np.array([row["seen"] for row in ordered], np.float32)

    def _current(self) -> str | None:
        """The version that the name means now."""
        if self.name not in self._client.list_aliases()["aliases"]:
            return None
        return str(self._client.describe_alias(self.name)["collection_name"])


def _choosing(keys: NDArray[np.int64], allowed: NDArray[np.bool_]) -> str:
    """A filter by whichever is fewer: the clips that may be named, or those that may not."""
    are_few = 2 * int(allowed.sum()) <= len(keys)
    named = keys[allowed if are_few else ~allowed]
    if len(named) > MOST_NAMED:
        raise UsageError(
            f"The filter leaves {int(allowed.sum()):,} of {len(keys):,} clips, and an engine is told of at most "
            f"{MOST_NAMED:,}; choose fewer, or nearly all."
        )
    return f"clip {'in' if are_few else 'not in'} [{', '.join(map(str, named))}]"


def _batches(clips: Iterable[tuple[str, FloatArray]]) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    count = 0
    for clip_id, vectors in clips:
        (key,) = keys_of([clip_id]).tolist()
        for number, vector in enumerate(np.asarray(vectors, np.float32)):
            rows.append({"row": count, "clip": key, "number": number, "seen": vector})
            count += 1
            if len(rows) == AT_ONCE:
                yield rows
                rows = []
    if rows:
        yield rows


def publish_to_engine(library: Path, address: str, progress: Progress | None = None) -> str:
    """Put the moments of a library into an engine; returns the name of the version."""
    with contextlib.closing(catalog.open_for_reading(library)) as connection, Engine(address) as engine:
        meta = catalog.get_meta(connection)
        vectors = open_vectors(library, meta)
        if vectors is None:
            raise LibraryError(f"The library {library} is searched by words alone; there is nothing for an engine.")
        rows = connection.execute("SELECT clip_id, first_row, count FROM vector_rows ORDER BY first_row").fetchall()

        def clips() -> Iterator[tuple[str, FloatArray]]:
            for done, (clip_id, first_row, count) in enumerate(rows):
                yield clip_id, vectors.read(first_row, count).astype(np.float32)
                if progress is not None:
                    progress((done + 1) / len(rows))

        return engine.publish(clips(), vectors.dimension, meta["weights_hash"])
