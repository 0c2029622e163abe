"""Opening of a library by its place: its own folder, or where snapshots of it were published."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from evenreel.arguments import as_path
from evenreel.library.library import Library
from evenreel.library.store.filesystem import is_published
from evenreel.types import Encoder


def open_library(
    path: str | PathLike[str],
    *,
    encoder: Encoder | None = None,
    device: str = "auto",
    vision: bool = True,
    cache: str | PathLike[str] | None = None,
) -> Library:
    """Open a library for searching, see `Library`, or the current snapshot of a published one.

    Args:
        path: folder of the library, or place of published snapshots: a folder, or `s3://bucket/prefix` with the
            credentials of the environment.
        encoder: the model it was made with, if the caller has it loaded already.
        device: where the model runs when it is loaded for the first search.
        vision: False searches by words alone and loads no model.
        cache: folder in which snapshots are kept on this machine; None for the platform's cache folder.

    Raises:
        LibraryError: there is no library or snapshot, or it is damaged, of a later version, or cannot be reached.
    """
    given = path if isinstance(path, str) else as_path(path, "path")
    if is_published(given):
        from evenreel.library.published import local_folder

        given = local_folder(given, None if cache is None else as_path(cache, "cache"))
    return Library(Path(given), encoder=encoder, device=device, vision=vision)
