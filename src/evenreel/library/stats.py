"""Counts of what a library holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenreel.features.progress import SetAside
from evenreel.library.index.scan import kept_patterns
from evenreel.library.store import catalog
from evenreel.library.store.model_folders import making_of
from evenreel.library.store.vectors import SOUNDS
from evenreel.wording import count, printable


@dataclass(frozen=True)
class LibraryStats:
    """Counts of what a library holds, and the files that were set aside."""

    library: str
    files: int
    clips: int
    moments: int
    tracks: int
    missing: int
    hours: float
    model: str | None
    rule: str | None
    metadata: tuple[str, ...]
    set_aside: tuple[SetAside, ...]
    making: str | None = None
    """The model whose vectors are made to take the place of the library's own."""
    sounds: str | None = None
    """The model of what its clips sound like."""
    ignored: tuple[str, ...] = ()
    """Patterns of what the library passes over."""
    snapshot: str | None = None
    """The published snapshot that is read; None for a library of its own."""

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain data, the form that `--json` prints."""
        found = asdict(self) | {"set_aside": [one.to_json() for one in self.set_aside]}
        return found if self.snapshot else {key: value for key, value in found.items() if key != "snapshot"}


def read_stats(connection: sqlite3.Connection, library: Path, meta: Mapping[str, str]) -> LibraryStats:
    """Count what a library holds and list what was set aside; `meta` is the catalog's table of that name."""
    files, clips, moments, tracks, missing, hours = connection.execute(
        "SELECT (SELECT count(*) FROM files WHERE state = 'indexed'), (SELECT count(*) FROM clips),"
        " (SELECT count(*) FROM moments), (SELECT count(*) FROM tracks),"
        " (SELECT count(*) FROM files WHERE state = 'missing'),"
        " (SELECT coalesce(sum(duration_s), 0) / 3600.0 FROM clips)"
    ).fetchone()
    aside = connection.execute(
        "SELECT path, reason, sentence FROM files WHERE state = 'set_aside' ORDER BY path"
    ).fetchall()
    return LibraryStats(
        str(library),
        files,
        clips,
        moments,
        tracks,
        missing,
        hours,
        model=meta.get("model") or None,
        rule=meta.get("rule"),
        metadata=tuple(sorted(catalog.metadata_keys(connection))),
        set_aside=tuple(
            SetAside("", printable(catalog.loaded_path(path)), reason, sentence) for path, reason, sentence in aside
        ),
        making=making.name if (making := making_of(meta)) else None,
        ignored=kept_patterns(meta),
        sounds=SOUNDS.own(meta).get("encoder_id"),
    )


def empty_sentence(stats: LibraryStats) -> str:
    """Return a sentence on why nothing can be found in a library without an indexed file, and what to do about it."""
    found = []
    if aside := len(stats.set_aside):
        found.append(f"{count(aside, 'file')} {'was' if aside == 1 else 'were'} set aside")
    if stats.missing:
        found.append(f"{count(stats.missing, 'file')} {'is' if stats.missing == 1 else 'are'} missing")
    why, remedy = " and ".join(found), f"evenreel info --library {stats.library} says which and why."
    if not found:
        why = "no video has been indexed into it yet"
        remedy = f"run evenreel index FOLDER --library {stats.library}."
    return f"The library {stats.library} is empty: {why}; {remedy}"
