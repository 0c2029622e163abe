"""NumPy files from outside: the size an array claims is compared with its file before memory is taken for it.

Whatever is wrong raises a `ValueError` whose text is a part of the caller's message. Pickles are never read.
"""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from evenreel.documents import brief

ALWAYS_UNPACKED_BYTES = 2**30
"""Bytes up to which data is unpacked however small it was packed, such as a mask of one value."""
MOST_TIMES_PACKED = 100
"""Most times the packed size that larger data may unpack to; real features and scores are packed 3 or 4 times."""
MAX_ARRAYS = 2_000_000
MOST_OF_NOTHING = 1_000_000
"""Most rows of an array without any number."""
BLOCK_BYTES = 2**24

_OTHERS = (RuntimeError, NotImplementedError, EOFError, OverflowError)

Array = NDArray[Any]


class ArrayArchive(Mapping[str, Array]):
    """The arrays of a `.npz` file by name, each read when it is looked up."""

    def __init__(self, file: Path | IO[bytes]) -> None:
        try:
            self._archive = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, NotImplementedError, OverflowError) as error:
            raise ValueError(f"it is no whole archive ({error})") from error
        self._members = {info.filename.removesuffix(".npy"): info for info in self._archive.infolist()}
        if len(self._members) > MAX_ARRAYS:
            self._archive.close()
            raise ValueError(f"it has {len(self._members):,} arrays, at most {MAX_ARRAYS:,} are read")

    def __enter__(self) -> ArrayArchive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    def __contains__(self, name: object) -> bool:
        return name in self._members  # without it `Mapping` would read the array

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def read_all(self) -> dict[str, Array]:
        """Read every array."""
        packed = sum(member.compress_size for member in self._members.values())
        check_unpacked("the arrays", packed, sum(member.file_size for member in self._members.values()))
        return {name: self[name] for name in self}

    def __getitem__(self, name: str) -> Array:
        """Read an array."""
        member = self._members[name]
        check_unpacked(f"the array {name!r}", member.compress_size, member.file_size)
        try:
            with self._archive.open(member) as file:
                return _read(file, member.file_size, f"the array {name!r}")
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, *_OTHERS) as error:  # damaged, or encrypted
            raise ValueError(f"the array {name!r} is damaged ({error})") from error


def check_unpacked(told: str, packed: int, unpacked: int) -> None:
    """Refuse data that unpacks to much more than its packed size, as no measured or computed array does."""
    most = max(ALWAYS_UNPACKED_BYTES, MOST_TIMES_PACKED * packed)
    if unpacked > most:
        raise ValueError(
            f"{told} would unpack from {_size(packed)} to {_size(unpacked)}, at most {_size(most)} are unpacked; save "
            "it without compression"
        )


def load_array(path: Path) -> Array:
    """Read a `.npy` file."""
    with path.open("rb") as file:
        return _read(file, os.fstat(file.fileno()).st_size, "the array")


def map_array(path: Path) -> Array:
    """Map a `.npy` file, whose values are read when they are looked at."""
    with path.open("rb") as file:
        _check(file, os.fstat(file.fileno()).st_size, "the array")
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _read(file: IO[bytes], size_bytes: int, told: str) -> Array:
    shape, is_fortran, kind = _check(file, size_bytes, told)
    try:
        content = bytearray(prod(shape) * kind.itemsize)
    except MemoryError as error:
        raise ValueError(f"{told} takes {_size(prod(shape) * kind.itemsize)}, more than there is memory for") from error
    view, filled = memoryview(content), 0
    while filled < len(content):
        count = file.readinto(view[filled : filled + BLOCK_BYTES])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{told} is cut short")
        filled += count
    array = np.frombuffer(content, kind) if content else np.empty(0, kind)
    return array.reshape(shape, order="F" if is_fortran else "C")


def _check(file: IO[bytes], size_bytes: int, told: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and kind of an array whose file has so many bytes; what is read next of it are the numbers."""
    try:
        version = npy.read_magic(file)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, kind = header(file)
    except Exception as error:  # a made-up header can fail in any way in Python's own parser
        raise ValueError(f"{told} is damaged, or no array") from error
    if kind.hasobject:
        raise ValueError(f"{told} holds Python objects, which are a pickle and never read")
    claimed, there = prod(shape) * kind.itemsize, size_bytes - file.tell()
    is_endless = not claimed and max(shape, default=0) > MOST_OF_NOTHING
    if claimed > there or is_endless or min(shape, default=0) < 0:
        shown = brief(" x ".join(f"{side:,}" for side in shape)).strip("'")
        raise ValueError(f"{told} claims {shown} of {kind}, {_size(min(claimed, 2**80))}, and has {_size(there)}")
    return shape, is_fortran, kind


def _size(size_bytes: float) -> str:
    """A size that a person can read.

    >>> _size(512), _size(3 * 2**30), _size(15 * 2**40)
    ('512 bytes', '3.0 GiB', '15.0 TiB')
    """
    if size_bytes < 1024:
        return f"{size_bytes:,.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        size_bytes /= 1024
        if size_bytes < 1024:
            return f"{size_bytes:.1f} {unit}"
    return f"{size_bytes / 1024:,.1f} TiB"
