"""A folder that is there whole or not at all, also after a crash or a power cut."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from evenreel.files import TEMPORARY_SUFFIX, make_folder, sync_file, sync_folder


@contextlib.contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder beside `folder` to fill; when the block ends well it takes its place, else it is removed.

    What stood at `folder` is whole until then. No file system exchanges two full folders in one step, so a power cut
    at the very end can leave the old and the new one beside each other under hidden names, both whole.

    Raises:
        OSError: the disk is full, read-only or failing.
    """
    part = _beside(folder)
    try:
        make_folder(part)
        yield part
        _sync(part)
        _move_folder(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _beside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")


def _sync(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            sync_file(path)
    for path in (*folder.rglob("*"), folder):
        if path.is_dir():
            sync_folder(path)


def _move_folder(part: Path, folder: Path) -> None:
    """Rename a folder, over another if there is one."""
    before = _beside(folder) if folder.exists() else None
    if before is not None:
        folder.rename(before)
    try:
        part.rename(folder)
    except OSError:
        if before is not None:
            before.rename(folder)
        raise
    sync_folder(folder.parent)
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)
