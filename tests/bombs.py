"""Array files of a few kilobytes that claim terabytes, or unpack to gigabytes."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np


def claiming(shape: tuple[int, ...], kind: str = "<f4", held: bytes = b"") -> bytes:
    """An array file whose header says anything."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue() + held


def archive(path: Path, **members: bytes) -> Path:
    """An archive of these files, packed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(f"{name}.npy", content)
    return path


def endless_zeros(path: Path, name: str = "values", size_gib: int = 3) -> Path:
    """An archive of one array of zeros that says that it unpacks to gigabytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(f"{name}.npy", claiming((size_gib * 2**28,), held=bytes(2**21)))
        packed.filelist[0].file_size = size_gib * 2**30 + 128
    return path
