"""Lines of JSON, each with a checksum of its own, so that damage to a file costs single lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32


def sealed_line(record: Mapping[str, Any]) -> str:
    """Write a record as a line of JSON behind its checksum."""
    text = json.dumps(record, separators=(",", ":"))
    return f"{crc32(text.encode()):08x} {text}\n"


def record_of(line: bytes) -> dict[str, Any] | None:
    """Read the record of a line; None where it is not what was written."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % crc32(text):
        return None
    record: dict[str, Any] = json.loads(text)
    return record
