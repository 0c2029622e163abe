"""A library of real clips and of generated ones that mirror them: alike but for a look of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenreel.library.store.catalog import set_meta
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import update_null_scores

from .fakes import Library, on_disk

PAIRS = 24
LOOKS = {"camera": "grainy", "sora": "glossy"}
PLAIN = "plain"
"""The look of clips of unknown source."""


def scene(number: int) -> str:
    return f"thing{number} place{number % 5}"


def frames(source: str, number: int) -> list[str]:
    """What is seen in the frames of a clip, each with the look of its source."""
    look = LOOKS.get(source, PLAIN)
    return [f"{scene(number)} {look} {look} shot{shot}" for shot in range(1 + number % 3)]


def mirrored_library(folder: Path, *, paired: bool = True, unknown: int = 2) -> Path:
    """One on disk with `PAIRS` pairs, and clips of unknown source."""
    made = on_disk(folder)
    for number in range(PAIRS):
        for source in LOOKS:
            clip_id = f"{source}{number:02}"
            made.add_clip(clip_id, frames(source, number))
            pair = {"pair_id": f"camera/{number:02}.mp4"} if paired and source != "camera" else {}
            made.add_file(f"/v/{source}/{number:02}.mp4", clip_id, {"source": source, **pair})
    for number in range(unknown):
        made.add_clip(f"unknown{number:02}", frames("unknown", number))
        made.add_file(f"/v/unknown/{number:02}.mp4", f"unknown{number:02}")
    finish_on_disk(made)
    made.connection.close()
    return folder


def finish_on_disk(made: Library, more: Sequence[tuple[str, str]] = ()) -> None:
    """What indexing derives."""
    set_meta(made.connection, dict(more))
    rebuild_full_text(made.connection)
    update_null_scores(made.connection, made.vectors, made.encoder)
