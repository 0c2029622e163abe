"""Settings of an index run as text: `NAME=VALUE`, given with `--set` or kept, a line each, in LIBRARY/settings.txt."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from evenreel.config import IndexSettings, Machines, MediaLimits
from evenreel.errors import UsageError
from evenreel.files import printable

FILE, ENGINE = "settings.txt", "engine"
MAX_BYTES = 100_000
BOUNDS = {
    "workers": (0, 1_024),
    "passes": (0, 2),
    "max_side_px": (1, 2**31),
    "max_pixels": (1, 2**31),
    "max_frames": (1, 2**31),
    "stall_timeout_s": (0.1, 604_800),
    "memory_bytes": (64 * 2**20, 2**44),
    "max_damaged_share": (0, 1),
}


def usual_settings() -> dict[str, Any]:
    records = (IndexSettings, Machines, MediaLimits)
    return {one.name: one.default for record in records for one in fields(record) if one.name != "limits"}


def index_settings(
    library: Path, given: Sequence[str] = (), options: Mapping[str, Any] | None = None, only: Collection[str] = ()
) -> tuple[IndexSettings, Machines]:
    """Make the settings of a run: those of the library's file, over them `options` but for None, then `given`.

    Only those named by `only` are taken, `limits` for all of `MediaLimits`; others are passed over in the file alone.
    """
    limits = {one.name for one in fields(MediaLimits)}
    taken = {*only, *(limits if "limits" in only else ())} or set(usual_settings())
    file = library / FILE
    kept = _read(_lines(file), str(file), {*usual_settings(), ENGINE})
    values = {name: value for name, value in kept.items() if name in taken}
    values |= {name: value for name, value in (options or {}).items() if value is not None}
    values |= _read(given, "--set", taken)
    made = {record: _made(record, values) for record in (MediaLimits, Machines)}
    return _made(IndexSettings, values | {"limits": made[MediaLimits]}), made[Machines]


def engine_of(library: Path) -> str | None:
    """Return the address of the engine that is asked what is seen: the environment's, or else the library's own."""
    if given := os.environ.get("EVENREEL_ENGINE"):
        return given
    found = _read(_lines(library / FILE), str(library / FILE), {*usual_settings(), ENGINE}).get(ENGINE)
    return None if found is None else str(found)


def _lines(file: Path) -> list[str]:
    try:
        with file.open("rb") as opened:
            text = (read := opened.read(MAX_BYTES + 1)).decode("utf-8-sig")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read ({error}); write lines such as workers=2 in UTF-8.") from error
    if len(read) > MAX_BYTES:
        raise UsageError(f"{file} has more than {MAX_BYTES:,} bytes; write lines such as workers=2.")
    return [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]


def _read(entries: Iterable[str], where: str, known: Collection[str]) -> dict[str, Any]:
    usual, found = usual_settings(), dict[str, Any]()
    for entry in entries:
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or name not in known:
            what = f"there is no setting {printable(name)!r}" if equals else f"{printable(entry)!r} is no NAME=VALUE"
            raise UsageError(f"{where}: {what}; the settings are {', '.join(sorted(known))}.")
        if isinstance(usual.get(name), tuple):
            found.setdefault(name, []).append(value)
        else:
            found[name] = None if value.lower() == "none" else value
    return found


def _made(record: type[Any], values: Mapping[str, Any]) -> Any:
    """A record of settings from texts, read as the types of its fields say."""
    from pydantic import TypeAdapter, ValidationError

    own = {one.name: values[one.name] for one in fields(record) if one.name in values}
    try:
        made = TypeAdapter(record).validate_python(own)
    except ValidationError as error:
        first = error.errors()[0]
        name, said = first["loc"][0], first["msg"].removeprefix("Input should be ").split(", unable")[0]
        raise UsageError(f"The setting {name} is {printable(str(first['input']))!r}; it should be {said}.") from error
    for name in own.keys() & BOUNDS.keys():
        least, most = BOUNDS[name]
        if not least <= getattr(made, name) <= most:
            raise UsageError(f"The setting {name} is {getattr(made, name):,}; it should be from {least:,} to {most:,}.")
    return made
