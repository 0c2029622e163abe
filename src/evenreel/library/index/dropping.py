"""Further models that a library drops: no longer named by its catalog first, then their vectors are deleted.

One transaction takes a model out of those that are searched and notes it as being dropped. Files are deleted after it,
and then the note; a run that is killed in between leaves that to the next one that writes the library.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from evenreel.arguments import as_path
from evenreel.errors import UsageError
from evenreel.library.index.exchange import finish_exchange
from evenreel.library.store import catalog
from evenreel.library.store.also import ALSO, DROPPING, MAKING, MODELS, SOUNDS, further, noted, place_of
from evenreel.library.store.filesystem import library_lock
from evenreel.library.store.kept import copied
from evenreel.library.store.model_folders import ModelFolder, model_folders
from evenreel.library.store.writer import closing_error

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class DropReport:
    """What dropping a further model frees.

    Attributes:
        library: folder of the library.
        model: name of the model.
        bytes: size of its vectors; 0 where a link leads to them, as they stay where they are.
        dropped: False if it was only asked what would be freed.
    """

    library: str
    model: str
    bytes: int
    dropped: bool

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, the form that `--json` prints."""
        return asdict(self)


def drop_model(library: str | Path, model: str, *, dry_run: bool = False) -> DropReport:
    """Delete the vectors of a further model of a library, one in the making too; the library's own stay.

    Args:
        library: folder of the library.
        model: name of the further model, with its commit or without, or of its folder in `models`.
        dry_run: only say what would be freed.

    Raises:
        UsageError: the library has no such further model, or several.
        LibraryError: there is no library, it is damaged, another process holds it, or it cannot be written.
    """
    library = as_path(library, "library")
    with closing(catalog.open_for_reading(library)) as connection, catalog.readable(library):
        found = _named(library, catalog.get_meta(connection), model)
    place = place_of(library, found.folder)
    report = DropReport(str(library), found.model, 0 if place.is_symlink() else found.bytes, dropped=not dry_run)
    if dry_run:
        _say_what_stays(place)
        return report
    with library_lock(library), closing(catalog.open_for_writing(library)) as connection:
        try:
            with copied(library, connection):
                finish_exchange(library, catalog.get_meta(connection))
                _note(connection, {found.folder: found.model})
                finish_dropping(library, connection)
        except (sqlite3.Error, OSError) as error:
            raise closing_error(library, error) from error
    return report


def finish_dropping(library: Path, connection: sqlite3.Connection) -> list[str]:
    """Delete the vectors that the catalog notes as being dropped; return the models' names.

    Args:
        library: folder of the library, which the caller holds.
        connection: its catalog, open for writing.

    Raises:
        OSError: the vectors cannot be deleted; the note stays.
    """
    models = further(catalog.get_meta(connection), DROPPING)
    for folder in models:
        _delete(place_of(library, folder))
    if models:
        with suppress(OSError):  # others are in it
            (library / MODELS).rmdir()
        left = {folder: name for folder, name in models.items() if os.path.lexists(place_of(library, folder))}
        with catalog.transaction(connection):
            catalog.set_meta(connection, {DROPPING: noted(left)})
    return list(models.values())


def _delete(place: Path) -> None:
    """Delete the folder of a model; of a link only the link, as what it leads to may be somebody else's too."""
    if place.is_symlink() or place.is_file():
        _say_what_stays(place)
        place.unlink()
    else:
        shutil.rmtree(place, onerror=_unless_gone)  # onexc, which takes its place, is of Python 3.12


def _unless_gone(_: object, __: str, raised: tuple[type[BaseException], BaseException, TracebackType]) -> None:
    """Go on where a file is gone already: a reader that closes a catalog takes its -wal and -shm away."""
    if not isinstance(raised[1], FileNotFoundError):
        raise raised[1]


def _say_what_stays(place: Path) -> None:
    if place.is_symlink():
        log.warning(
            "%s is a link: only the link is deleted, the vectors stay in %s; delete that folder yourself",
            place,
            os.path.realpath(place),
        )


def _note(connection: sqlite3.Connection, models: dict[str, str]) -> None:
    """Have the catalog name these models as being dropped, and no longer as searched or in the making."""
    meta = catalog.get_meta(connection)
    with catalog.transaction(connection):
        left = {
            entry: {folder: name for folder, name in further(meta, entry).items() if folder not in models}
            for entry in (ALSO, SOUNDS, MAKING)
        }
        left[DROPPING] = {**further(meta, DROPPING), **models}
        catalog.set_meta(connection, {entry: noted(named) for entry, named in left.items()})


def _named(library: Path, meta: dict[str, str], model: str) -> ModelFolder:
    """The vectors that a person means.

    Raises:
        UsageError: none, or several.
    """
    from evenreel.encoders.sources import stored_ids

    wanted, there = stored_ids(model), model_folders(library, meta)
    found = [one for one in there if wanted & {one.model, one.model.partition("@")[0], one.folder}]
    if len(found) == 1:
        return found[0]
    if found:
        folders = " or ".join(one.folder for one in found)
        raise UsageError(f"The library {library} has several models {model}; name the folder of one: {folders}.")
    if wanted & {name for known in (meta.get("model", ""), meta.get("asked_model", "")) for name in _names(known)}:
        raise UsageError(
            f"{model} is the library's own model, which evenreel reindex --model MODEL exchanges for another one; "
            "only further models can be dropped."
        )
    names = ", ".join(one.model for one in there)
    raise UsageError(f"The library {library} has no further model {model}; it has {names or 'none besides its own'}.")


def _names(model: str) -> set[str]:
    """A model's name with its commit and without; none of a library without a model."""
    return {model, model.partition("@")[0]} - {""}
