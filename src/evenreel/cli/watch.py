"""`evenreel watch`: folders whose changes are brought into a library as they happen."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import Interrupted
from evenreel.cli.library import (
    INDEX_SETTINGS,
    MetadataOption,
    NoSoundOption,
    NoSpeechOption,
    NoVisionOption,
    left_out,
)
from evenreel.cli.options import LibraryOption
from evenreel.cli.progress import bars
from evenreel.cli.show_library import console, safe
from evenreel.config import IndexSettings, default_library
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.library import IndexReport


def watch(
    folders: Annotated[list[Path], typer.Argument(help="Folders of videos.")],
    library: LibraryOption = None,
    no_vision: NoVisionOption = False,
    no_speech: NoSpeechOption = False,
    no_sound: NoSoundOption = False,
    metadata: MetadataOption = None,
    settings: IndexSettings = INDEX_SETTINGS,
) -> None:
    """Index folders and go on watching them, until Ctrl-C: new, changed, moved and deleted videos are followed."""
    from evenreel.library.watching import Watcher

    place = library or default_library()
    settings = left_out(settings, vision=no_vision, speech=no_speech, sound=no_sound)
    with bars() as progress:
        watcher = Watcher(place, folders, settings, progress=progress, metadata=metadata or (), told=_tell)
        try:
            watcher.start()
            watched = ", ".join(watcher.state.folders)
            console().print(f"Watching {safe(watched)} for {safe(place)} (Ctrl-C ends it).")
            while not watcher.wait(0.5):
                pass
        except Interrupted:  # that is how it ends
            return
        finally:
            watcher.stop()


def _tell(report: IndexReport) -> None:
    """Print what a run has done, in a line with the time."""
    parts = [
        f"{count(number, 'file')} {what}"
        for number, what in (
            (report.indexed, "indexed"),
            (report.recognised, "recognised"),
            (report.moved, "moved"),
            (report.missing, "gone"),
            (report.newly_aside, "set aside"),
        )
        if number
    ]
    console().print(f"{time.strftime('%H:%M:%S')} {', '.join(parts) or 'words or metadata updated'}")
