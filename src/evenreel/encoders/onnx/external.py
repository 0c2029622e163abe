"""Files that an ONNX graph takes weights from, read off its protocol buffers without a parser of ONNX.

Field numbers are those of `onnx.proto3` (ONNX IR version 3 to 13), which never change.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from evenreel.documents import brief
from evenreel.errors import EncoderError

_PARTS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
    "entry": {1: "key", 2: "value"},
}
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
"""Wire types of protocol buffers."""


def weight_files(path: Path) -> tuple[Path, ...]:
    """Return the files beside an ONNX file that hold weights of it, in the order of their names."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            names = sorted(set(_locations(content)))
    except (OSError, ValueError, IndexError) as error:
        raise EncoderError(f"{path} is cut off, damaged or no ONNX file ({error}); put a good copy there.") from error
    for name in names:
        if not _is_inside(name):
            raise EncoderError(
                f"{path} takes weights from {brief(name)}, outside its folder, which is not followed; use another copy "
                "of the model."
            )
        if not os.path.isfile(path.parent / name):  # False too where no disk has names that long
            raise EncoderError(
                f"{path} takes weights from {brief(name)}, which is missing beside it; copy it there too."
            )
    return tuple(path.parent / name for name in names)


def _is_inside(name: str) -> bool:
    """True for a relative path that never goes up, on any system."""
    return bool(name) and not any(
        kind(name).anchor or kind(name).drive or ".." in kind(name).parts for kind in (PurePosixPath, PureWindowsPath)
    )


def _locations(content: mmap.mmap) -> Iterator[str]:
    """What the entries called `location` of all tensors say."""
    waiting, graphs = [("model", 0, len(content))], 0
    while waiting:
        kind, start, end = waiting.pop()
        if kind == "entry":
            found = {part: content[first:last] for part, first, last in _fields(content, kind, start, end)}
            if found.get("key") == b"location":
                yield found.get("value", b"").decode()
            continue
        parts = list(_fields(content, kind, start, end))
        graphs += kind == "graph"
        waiting += parts
    if not graphs:
        raise ValueError("there is no graph in it")


def _fields(content: mmap.mmap, kind: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Parts of a message that are followed: their kind, where they begin and where they end."""
    while start < end:
        tag, start = _number(content, start)
        wire = tag & 7
        if wire == _VARINT:
            _, start = _number(content, start)
            continue
        length, start = _number(content, start) if wire == _BYTES else ({_EIGHT: 8, _FOUR: 4}.get(wire, -1), start)
        if length < 0 or start + length > end:
            raise ValueError("its parts do not fit into it")
        if wire == _BYTES and (part := _PARTS[kind].get(tag >> 3)):
            yield part, start, start + length
        start += length


def _number(content: mmap.mmap, start: int) -> tuple[int, int]:
    """A number of 7 bits a byte, lowest first, and where the next part begins."""
    value = shift = 0
    while shift < 64:
        byte = content[start]
        value |= (byte & 127) << shift
        start, shift = start + 1, shift + 7
        if byte < 128:
            return value, start
    raise ValueError("its parts do not fit into it")
