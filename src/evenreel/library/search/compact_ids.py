"""Ids of clips in little memory.

A tuple and a dictionary of a million ids take 250 MB and are slow to build; side by side as bytes, with a sorted column
of 64 bits each, they take 44.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices

LINE_END = 10
"""What stands between ids that SQLite has joined to one text; no id has it."""

MANY = 10_000
"""Number of ids from which it pays to look them up in order."""

MIXER, SHIFT = 0x9E3779B97F4A7C15, 29
"""What spreads the bits of an id over its key."""

MOST_SALTS = 8
"""Number of ways to make keys, after which two equal ones are those of equal ids."""

Encoded = NDArray[np.bytes_]
"""(C,) Ids in UTF-8."""


class ClipIds(Sequence[str]):
    """Sequence of the ids of C clips, each once, with the place of each."""

    def __init__(self, encoded: Encoded) -> None:
        self.encoded = encoded
        self._salt = 0
        while not self._index():  # it is once, but for a chance of 1 in 10 million among a million clips
            self._salt += 1
            if self._salt == MOST_SALTS:
                raise ValueError("two clips have one id")

    def _index(self) -> bool:
        """Sort the keys of the ids; False where two ids have one."""
        keys = _keys(self.encoded, self._salt)
        order = np.argsort(keys)
        self._keys, self._places = keys[order], order.astype(np.int32)
        return bool(np.all(self._keys[1:] != self._keys[:-1]))

    def __len__(self) -> int:
        return len(self.encoded)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        found = self.encoded[place]
        return found.decode() if isinstance(found, bytes) else [clip_id.decode() for clip_id in found.tolist()]

    def __iter__(self) -> Iterator[str]:
        return (clip_id.decode() for clip_id in self.encoded.tolist())

    def __contains__(self, clip_id: object) -> bool:
        return isinstance(clip_id, str) and self.place(clip_id) >= 0

    def place(self, clip_id: str) -> int:
        """Find the place of one id, -1 where it is not among them, without arrays: these take longer."""
        wanted = clip_id.encode("utf-8", "surrogateescape")
        at = int(self._keys.searchsorted(_key(wanted, self._salt)))
        found = int(self._places[at]) if at < len(self._places) else -1
        return found if found >= 0 and self.encoded[found] == wanted else -1

    def places(self, clip_ids: Iterable[str] | Encoded) -> Indices:
        """Find the places of N ids, (N,); -1 for an id that is not among them."""
        wanted = clip_ids if isinstance(clip_ids, np.ndarray) else encoded_ids(clip_ids)
        if not len(self) or not len(wanted):
            return np.full(len(wanted), -1, np.int64)
        keys = _keys(wanted, self._salt)
        order = np.argsort(keys) if len(keys) >= MANY else slice(None)
        found = np.empty(len(wanted), np.int32)
        found[order] = self._places[np.minimum(np.searchsorted(self._keys, keys[order]), len(self) - 1)]
        return np.where(self.encoded[found] == wanted, found, -1).astype(np.int64)

    def with_more(self, more: Encoded) -> ClipIds:
        """Return the ids with more of them behind, without sorting all of them again."""
        keys = _keys(more, self._salt)
        order = np.argsort(keys)
        keys, at = keys[order], np.searchsorted(self._keys, keys[order])
        found = ClipIds(np.empty(0, "S1"))
        found.encoded, found._salt = np.concatenate([self.encoded, more]), self._salt
        found._keys = np.insert(self._keys, at, keys)
        found._places = np.insert(self._places, at, (len(self) + order).astype(np.int32))
        return found if np.all(found._keys[1:] != found._keys[:-1]) else ClipIds(found.encoded)


class PlaceOf(Mapping[str, int]):
    """Mapping from the ids of clips to their places."""

    def __init__(self, ids: ClipIds) -> None:
        self._ids = ids

    def __getitem__(self, clip_id: str) -> int:
        if (place := self._ids.place(clip_id)) < 0:
            raise KeyError(clip_id)
        return place

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __contains__(self, clip_id: object) -> bool:
        return clip_id in self._ids


def encoded_ids(clip_ids: Iterable[str]) -> Encoded:
    """Encode ids to an array of bytes (N,)."""
    given = [clip_id.encode("utf-8", "surrogateescape") for clip_id in clip_ids]
    return np.array(given, np.bytes_) if given else np.empty(0, "S1")


def joined_ids(text: str | None) -> Encoded:
    """Split ids that SQLite has joined by line ends to an array of bytes (N,), without an object for each."""
    if not text:
        return np.empty(0, "S1")
    letters = np.frombuffer(text.encode("utf-8", "surrogateescape") + b"\n", np.uint8)
    width = int(np.argmax(letters == LINE_END)) + 1
    if width > 1 and len(letters) % width == 0:
        rows = letters.reshape(-1, width)
        if np.all(rows[:, -1] == LINE_END) and np.count_nonzero(letters == LINE_END) == len(rows):
            return np.ascontiguousarray(rows[:, :-1]).view(f"S{width - 1}").ravel()
    return np.array(letters.tobytes().split(b"\n")[:-1], np.bytes_)


def _keys(encoded: Encoded, salt: int) -> NDArray[np.uint64]:
    """A number of 64 bits for each id: those of different ids hardly ever are equal."""
    wide = -(-encoded.dtype.itemsize // 8) * 8
    columns = encoded.astype(f"S{wide}").view("<u8").reshape(len(encoded), wide // 8)
    keys = np.full(len(encoded), salt, np.uint64)
    for column in columns.T:
        # Zeros behind an id, of which an array with longer ones has more, change nothing.
        mixed = (keys ^ column) * np.uint64(MIXER)
        keys = np.where(column == 0, keys, mixed ^ (mixed >> np.uint64(SHIFT)))
    return keys


def _key(encoded: bytes, salt: int) -> np.uint64:
    """The number of one id, see `_keys`."""
    key = salt
    for start in range(0, len(encoded), 8):
        if column := int.from_bytes(encoded[start : start + 8], "little"):
            key = (key ^ column) * MIXER & 0xFFFFFFFFFFFFFFFF
            key ^= key >> SHIFT
    return np.uint64(key)
