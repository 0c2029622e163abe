"""`evenreel index`, `reindex`, `info`, `verify` and `repair`: a library of your own videos; and `demo` of them all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from evenreel.cli import EXIT_FAILED, EXIT_SET_ASIDE
from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import CacheOption, JsonOption, LibraryOption, PlaceOption
from evenreel.cli.progress import bars
from evenreel.cli.publish import fetched
from evenreel.cli.show_library import console, show_done, show_problems, show_report, show_stats
from evenreel.config import IndexSettings, Machines, default_library

MetadataOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Table about the videos (csv, tsv, parquet, jsonl) with a column 'path'; metadata.* and "
        "manifest.* in a folder are read by themselves."
    ),
]
NoSpeechOption = Annotated[bool, typer.Option("--no-speech", help="Hear no speech; subtitles are read.")]
NoSoundOption = Annotated[bool, typer.Option("--no-sound", help="No sounds, though the library has a model of them.")]
NoVisionOption = Annotated[bool, typer.Option("--no-vision", help="No model: only words on screen and names.")]
INDEX_SETTINGS = from_settings(
    IndexSettings,
    rule=Annotated[str, typer.Option("--sample")],
    keep_stills=Annotated[
        bool, typer.Option("--no-stills", help="Keep no small picture of each moment: 34 MB an hour less.")
    ],
)
"""Options of what is indexed, and how."""

LIBRARYS_OWN = (
    "people",
    "face_models",
    "model",
    "rule",
    "read_text",
    "keep_stills",
    "speech",
    "language",
    "sound",
    "ignore",
    "unignore",
    "passes",
)
"""Settings that an exchange of the model leaves as they are."""


def left_out(settings: IndexSettings, *, vision: bool, speech: bool, sound: bool) -> IndexSettings:
    """Leave models out of the settings of a run, each where it is True: of what is seen, of speech, of sounds."""
    if vision:
        settings = replace(settings, model=None)
    if speech:
        settings = replace(settings, speech=None)
    return replace(settings, sound=None) if sound else settings


def index(
    folders: Annotated[list[Path], typer.Argument(help="Folders of videos, or single files.")],
    library: LibraryOption = None,
    no_vision: NoVisionOption = False,
    no_speech: NoSpeechOption = False,
    no_sound: NoSoundOption = False,
    metadata: MetadataOption = None,
    settings: IndexSettings = INDEX_SETTINGS,
    machines: Machines = from_settings(Machines, panel="Many machines"),
    as_json: JsonOption = False,
) -> None:
    """Index folders of videos; unchanged files cost nothing, and a broken-off run goes on."""
    from evenreel.library import index_folders

    settings = left_out(settings, vision=no_vision, speech=no_speech, sound=no_sound)
    place = library or default_library()
    with bars() as progress:
        report = index_folders(folders, place, settings, progress=progress, metadata=metadata or (), machines=machines)
    show_report(report, place, as_json)
    if report.set_aside or report.closed_folders:
        raise typer.Exit(EXIT_SET_ASIDE)


def reindex(
    model: Annotated[
        str, typer.Option(help="The new model: a hub id, a folder, 'builtin', or a name of `evenreel models`.")
    ],
    anew: Annotated[bool, typer.Option("--anew", help="Drop what an unfinished run with another model made.")] = False,
    library: LibraryOption = None,
    settings: IndexSettings = from_settings(IndexSettings, leave_out=LIBRARYS_OWN),
    as_json: JsonOption = False,
) -> None:
    """Exchange the model of a library: new vectors are made, then take the place of the old ones at once."""
    from evenreel.library import reindex as reindex_library

    place = library or default_library()
    with bars() as progress:
        report = reindex_library(place, model, settings, anew=anew, progress=progress)
    show_report(report, place, as_json)
    if report.set_aside or report.closed_folders:
        raise typer.Exit(EXIT_SET_ASIDE)


def info(library: PlaceOption = None, snapshot_cache: CacheOption = None, as_json: JsonOption = False) -> None:
    """Say what a library holds, and list what was set aside and why."""
    from evenreel.library import open_library
    from evenreel.library.people.store import has_people
    from evenreel.library.published import copy_of

    place = fetched(library or default_library(), snapshot_cache)
    with open_library(place, vision=False) as opened:
        show_stats(opened.stats(), opened.sizes(), as_json, copy_of(place))
    if not as_json and has_people(place):
        console().print("people: looked for (evenreel people lists them; --forget ALL deletes them and looks no more)")


def verify(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Check every checksum and everything derived. Exit status 1 if something is wrong."""
    from evenreel.library import verify as verify_library

    place = library or default_library()
    problems = verify_library(place)
    show_problems(problems, place, as_json)
    if problems:
        raise typer.Exit(EXIT_FAILED)


def repair(
    library: LibraryOption = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Also forget missing files, and clips that no file has.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Rebuild what is derived, without decoding any video again."""
    from evenreel.library import repair as repair_library

    show_done(repair_library(library or default_library(), drop_missing=drop_missing), as_json)


def demo(
    folder: Annotated[Path, typer.Option(help="Where the videos, the library and the report of the demo go.")] = Path(
        "demo"
    ),
) -> None:
    """Render a small library of real mp4 files, index it, search it, audit it. Nothing is downloaded."""
    from evenreel.demo import run_demo

    with bars() as progress:
        run_demo(folder, progress)
