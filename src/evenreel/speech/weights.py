"""Identity of a model's files."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

_CHUNK = 2**22


def folder_hash(folder: Path, patterns: Sequence[str]) -> str:
    """Return the SHA-256 of the files in a folder that match a pattern: names and bytes, in order of their names."""
    digest = sha256()
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while part := file.read(_CHUNK):
                digest.update(part)
    return digest.hexdigest()
