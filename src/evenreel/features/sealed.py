"""Arrays and a record in one safetensors file, with a checksum over both.

The record is one JSON string in the file's header, beside a SHA-256 over that string and the arrays. Equal content
gives equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.documents import parse_json

Arrays = dict[str, NDArray[Any]]

_KEY = "evenreel"  # one key: safetensors does not order several
_LENGTH_BYTES = 8
_LARGEST_HEADER_BYTES = 2**30


def seal(arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> bytes:
    """Return the bytes of a safetensors file with arrays, a JSON-able record and a checksum over both."""
    from safetensors.numpy import save

    held = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = _canonical(record)
    header = _canonical({"record": text, "sha256": _checksum(held, text)})
    return bytes(save(held, metadata={_KEY: header}))


def unseal(payload: bytes) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the record of a sealed file, checked."""
    from safetensors.numpy import load

    arrays = load(payload)  # checks the header's length and every offset against the bytes there are
    header_length = int.from_bytes(payload[:_LENGTH_BYTES], "little")
    record, digest = _header(payload[_LENGTH_BYTES : _LENGTH_BYTES + header_length])
    if digest != _checksum(arrays, record):
        raise ValueError("the checksum inside the file does not fit")
    return arrays, parse_json(record)


def glance(path: Path) -> dict[str, Any]:
    """Return the record of a sealed file without its arrays, and without checking that it is whole."""
    with path.open("rb") as file:
        header_length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if header_length > _LARGEST_HEADER_BYTES:
            raise ValueError(f"a header of {header_length} bytes")
        record, _ = _header(file.read(header_length))
    found: dict[str, Any] = parse_json(record)
    return found


def _header(text: bytes) -> tuple[str, str]:
    header = parse_json(parse_json(text)["__metadata__"][_KEY])
    return header["record"], header["sha256"]


def _canonical(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _checksum(arrays: Arrays, record: str) -> str:
    total = hashlib.sha256(record.encode())
    for name in sorted(arrays):
        total.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
        total.update(arrays[name].data)
    return total.hexdigest()
