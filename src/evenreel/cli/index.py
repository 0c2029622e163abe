"""What a library is made of: `evenreel index`, `reindex`, `remove`, `info`, `verify`, `publish`; and `demo`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenreel.cli import EXIT_FAILED, EXIT_SET_ASIDE, Interrupted
from evenreel.cli.options import CacheOption, JsonOption, LibraryOption, PlaceOption, documented, fetched
from evenreel.cli.progress import bars, share_bar
from evenreel.cli.show_library import AGAIN, console, list_aside, list_notes, print_json, safe
from evenreel.config import DEFAULT_MODEL, IndexSettings, Machines, MediaLimits, default_library
from evenreel.errors import UsageError
from evenreel.extras import byte_size
from evenreel.files import printable
from evenreel.wording import count, other_files

if TYPE_CHECKING:
    from evenreel.library import IndexReport

MODEL_HELP = (
    "Image and text towers: a hub id, a folder, 'builtin', or a name that 'evenreel models' lists. \\[default: the "
    f"library's own, and {DEFAULT_MODEL} for a new one]"
)
SAMPLE_HELP = (
    "Which frames are looked at, for example 'every 0.5 s' or '8 midpoints'. \\[default: the library's own, and every "
    "1 s for a new one]"
)
METADATA_HELP = (
    "Table about the videos (csv, tsv, parquet, jsonl) with a column 'path'; metadata.* and manifest.* in a folder are "
    "read by themselves."
)
SPEECH_HELP = (
    "Speech model for clips without subtitles: a name, a hub id or a folder. \\[default: the library's "
    "own, and none for a new one]"
)
RAY_HELP = "Address of a Ray cluster whose workers read and encode; 'local' starts one for this run."
SET_HELP = (
    "Any other setting, as NAME=VALUE; again for more. Lines of this form in LIBRARY/settings.txt hold for every run; "
    "--set help lists all."
)
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SET_HELP)]
DeviceOption = Annotated[str | None, typer.Option(help="Where the model runs: auto, cpu, cuda, cuda:1, mps.")]
PRECISION_HELP = (
    "Numbers of the model: float32, bfloat16, float16 or int8. \\[default: the library's own, float32 for a new one]"
)
PrecisionOption = Annotated[str | None, typer.Option(help=PRECISION_HELP)]
RetryOption = Annotated[bool, typer.Option("--retry", help="Try again what was skipped.")]

OF_A_RUN = ("workers", "device", "precision", "retry", "accept_missing", "accept_licence", "limits")
"""Settings that an exchange of the model takes; the others are the library's own, and stay."""


def index(
    folders: Annotated[list[Path], typer.Argument(help="Folders of videos, or single files.")],
    library: LibraryOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Watch the folders for changes until Ctrl-C.")] = False,
    model: Annotated[str | None, typer.Option(help=MODEL_HELP)] = None,
    sample: Annotated[str | None, typer.Option(help=SAMPLE_HELP)] = None,
    no_vision: Annotated[bool, typer.Option("--no-vision", help="No model: only words and names are found.")] = False,
    no_ocr: Annotated[bool, typer.Option("--no-ocr", help="Do not read on-screen text.")] = False,
    speech: Annotated[str | None, typer.Option(help=SPEECH_HELP)] = None,
    people: Annotated[bool, typer.Option("--people", help="Find faces and group them by person.")] = False,
    metadata: Annotated[list[Path] | None, typer.Option(help=METADATA_HELP)] = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    retry: RetryOption = False,
    ray: Annotated[str | None, typer.Option(help=RAY_HELP)] = None,
    given: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Index folders of videos. Unchanged files are not read again, and a run that was broken off goes on."""
    from evenreel.library import index_folders
    from evenreel.library.settings import index_settings, usual_settings

    if given == ["help"]:
        told = documented(IndexSettings) | documented(MediaLimits) | documented(Machines)
        for name, usual in usual_settings().items():
            shown = "none" if usual is None else str(usual).lower() if isinstance(usual, bool) else usual
            console().print(f"[bold]{name}={safe('' if usual == () else shown)}[/]  {told[name]}")
        return
    place = library or default_library()
    options: dict[str, Any] = {"model": model, "rule": sample, "speech": speech, "device": device}
    options |= {"retry": retry or None, "people": people or None, "read_text": False if no_ocr else None, "ray": ray}
    options["precision"] = precision
    settings, machines = index_settings(place, given or (), options)
    if no_vision:
        settings = replace(settings, model=None)
    with bars() as progress:
        if watch:
            _watch(place, folders, settings, progress=progress, metadata=metadata or ())
            return
        report = index_folders(folders, place, settings, progress=progress, metadata=metadata or (), machines=machines)
    _show_run(report, place, as_json)


def _show_run(report: IndexReport, library: Path, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json() | {"library": library})
    else:
        _show_report(report, library)
    if report.set_aside or report.closed_folders:
        raise typer.Exit(EXIT_SET_ASIDE)


def _show_report(report: IndexReport, library: Path) -> None:
    out = console()
    if report.did_nothing:
        out.print(f"Nothing to do: {count(report.unchanged, 'file')} unchanged in {safe(library)}.")
    else:
        rate = f", {report.frames / report.seconds:.1f} frames/s" if report.seconds and report.frames else ""
        out.print(
            f"Indexed {count(report.indexed, 'file')} ({count(report.frames, 'frame')}) into {safe(library)}"
            f" in {report.seconds:.1f} s{rate}."
        )
        if report.computed_on:
            out.print(f"  pictures encoded by {safe(report.computed_on)}, {report.pictures_per_s:.1f} a second")
        for number, noun, what in (
            (report.unchanged, "file", "unchanged"),
            (report.recognised, "file", "recognised by content (moved, copied or touched)"),
            (report.moved, "file", "moved, now known by another name"),
            (report.missing, "file", "marked as missing"),
            (report.subtitles, "subtitle track", "read"),
            (report.heard, "clip", "heard"),
            (report.sounds, "clip", "listened to for sounds"),
            (report.meanings, "clip", "with texts to be found by meaning"),
            (report.people, "clip", "looked at for people (evenreel people lists them)"),
            (report.subtitles_gone, "subtitle file", "gone"),
        ):
            if number:
                out.print(f"  {count(number, noun)} {what}")
        if report.metadata_changed:
            out.print(f"  metadata of {count(report.metadata_changed, 'file')} updated")
    if report.other_files or report.links or report.ignored:
        parts = [other_files(report.other_suffixes), count(report.links, "link")]
        parts.append(count(report.ignored, "ignored path"))
        out.print(f"  skipped: {', '.join(part for part in parts if not part.startswith('0 '))}")
    for folder in report.closed_folders:
        out.print(f"  [yellow]cannot be opened:[/] {safe(folder)}")
    for warning in report.warnings:
        out.print(f"[yellow]{safe(warning)}[/]")
    list_notes(report.notes)
    list_aside(report.set_aside, more=AGAIN)


def _watch(library: Path, folders: Sequence[Path], settings: IndexSettings, **given: Any) -> None:
    from evenreel.library.watching import Watcher

    def tell(report: IndexReport) -> None:
        counts = {
            "indexed": report.indexed,
            "recognised": report.recognised,
            "moved": report.moved,
            "gone": report.missing,
            "skipped": report.newly_aside,
        }
        parts = [f"{count(number, 'file')} {what}" for what, number in counts.items() if number]
        console().print(f"{time.strftime('%H:%M:%S')} {', '.join(parts) or 'words or metadata updated'}")

    watcher = Watcher(library, folders, settings, told=tell, **given)
    try:
        watcher.start()
        watched = ", ".join(watcher.state.folders)
        console().print(f"Watching {safe(watched)} for {safe(library)} (Ctrl-C ends it).")
        while not watcher.wait(0.5):
            pass
    except Interrupted:  # that is how it ends
        return
    finally:
        watcher.stop()


def reindex(
    model: Annotated[
        str, typer.Option(help="The new model: a hub id, a folder, 'builtin', or a name of `evenreel models`.")
    ],
    anew: Annotated[bool, typer.Option("--anew", help="Drop what an unfinished run with another model made.")] = False,
    library: LibraryOption = None,
    device: DeviceOption = None,
    retry: RetryOption = False,
    given: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the model of a library. Searches use the old vectors until all new ones are made."""
    from evenreel.library import reindex as reindex_library
    from evenreel.library.settings import index_settings

    place = library or default_library()
    settings, _ = index_settings(place, given or (), {"device": device, "retry": retry or None}, only=OF_A_RUN)
    with bars() as progress:
        report = reindex_library(place, model, settings, anew=anew, progress=progress)
    _show_run(report, place, as_json)


def remove(
    places: Annotated[list[Path], typer.Argument(help="Folders or videos to forget, there or not.")],
    library: LibraryOption = None,
    ignore: Annotated[
        bool, typer.Option("--ignore", help="Ignore them from now on, where an indexed folder holds them.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be forgotten.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove folders or single videos from a library. The files on the disk stay as they are."""
    from evenreel.library import remove_from_library

    report = remove_from_library(library or default_library(), places, ignore=ignore, dry_run=dry_run)
    if as_json:
        print_json(report.to_json())
        return
    out, done = console(), "Forgot" if report.removed else "Would forget"
    files = f"{count(report.files, 'file')} ({count(report.clips, 'clip')})"
    stays = "the files on the disk stay" if report.removed else "nothing was changed"
    out.print(f"{done} {files} of {safe(report.library)}; {stays}.")
    for source in report.sources:
        out.print(f"  {safe(source)} is no longer indexed")
    for pattern in report.ignored:
        out.print(f"  ignored from now on: {printable(pattern)}", markup=False)
    for root in report.found_again:
        out.print(f"  [yellow]evenreel index {safe(root)} finds them again[/]; --ignore leaves them alone from now on")


def info(library: PlaceOption = None, snapshot_cache: CacheOption = None, as_json: JsonOption = False) -> None:
    """Say what a library holds, and list what was skipped and why."""
    from evenreel.library import open_library
    from evenreel.library.people import has_people
    from evenreel.library.published import copy_of

    place = fetched(library or default_library(), snapshot_cache)
    with open_library(place, vision=False) as opened:
        stats, sizes, snapshot = opened.stats(), opened.sizes(), copy_of(place)
    if as_json:
        told = stats.to_json() | {"bytes": sizes}
        if snapshot is not None:
            told["snapshot"] = {"id": snapshot.id, "made_by": snapshot.made_by, "bytes": snapshot.size_bytes}
        print_json(told)
        return
    out, hours = console(), stats.hours
    length = f"{hours:,.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"
    out.print(
        f"{safe(stats.library)}: {count(stats.files, 'file')}, {count(stats.clips, 'clip')}, "
        f"{length}, {count(stats.moments, 'moment')}, {count(stats.tracks, 'on-screen text')}"
    )
    names = [stats.model or "none (words only)"]
    names += [f"{what} {name}" for what, name in (("sounds", stats.sounds), ("meaning", stats.meaning)) if name]
    out.print(f"  model: {safe(', '.join(names))}   sampling: {safe(stats.rule)}")
    if stats.making:
        out.print(f"  in the making: {safe(stats.making)} (evenreel reindex --model {safe(stats.making)} goes on)")
    if snapshot is not None:
        out.print(f"  published snapshot {snapshot.id}: {byte_size(snapshot.size_bytes)}")
    parts = ", ".join(f"{name} {byte_size(size)}" for name, size in sizes.items() if size)
    out.print(f"  on the disk: {byte_size(sum(sizes.values()))} ({parts})")
    if stats.ignored:
        out.print(f"  ignored: {printable('  '.join(stats.ignored))}", markup=False)
    if stats.metadata:
        out.print(f"  metadata: {safe(', '.join(stats.metadata))}")
    if stats.missing:
        out.print(f"  {count(stats.missing, 'file')} missing (evenreel verify --repair --drop-missing forgets them)")
    list_aside(stats.set_aside, more=AGAIN)
    if has_people(place):
        out.print("people: looked for (evenreel people lists them; --forget ALL deletes them and looks no more)")


def verify(
    library: LibraryOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild what is derived, without decoding any video again.")
    ] = False,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="With --repair: forget missing files, and clips that no file has.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check every checksum and everything derived. Exit status 1 if something is wrong."""
    from evenreel.library import repair as repair_library
    from evenreel.library import verify as verify_library

    place, out = library or default_library(), console()
    if drop_missing and not repair:
        raise UsageError("--drop-missing is part of a repair; give --repair too.")
    if repair:
        done = repair_library(place, drop_missing=drop_missing)
        if as_json:
            print_json(done)
        for sentence in () if as_json else done:
            out.print(safe(sentence))
        return
    problems = verify_library(place)
    if as_json:
        print_json(problems)
    elif not problems:
        out.print(f"{safe(place)} is whole: every checksum and everything derived agrees.")
    for problem in () if as_json else problems:
        out.print(f"[red]{safe(problem.where)}[/]: {safe(problem.what)}; {safe(problem.remedy)}")
    if problems:
        raise typer.Exit(EXIT_FAILED)


def demo(
    folder: Annotated[Path, typer.Option(help="Where the videos, the library and the report of the demo go.")] = Path(
        "demo"
    ),
) -> None:
    """Render a small library of real mp4 files, index it, search it, audit it. Nothing is downloaded."""
    from evenreel.cli.audit.library import audit_inputs
    from evenreel.demo import run_demo

    with bars() as progress:
        run_demo(folder, audit_inputs, progress)


def publish(
    to: Annotated[
        Path | None, typer.Option(help="A folder, or s3://BUCKET/PREFIX with the credentials of the environment.")
    ] = None,
    library: LibraryOption = None,
    engine: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Give the moments to Milvus at http://HOST:19530/NAME, as a new version."),
    ] = None,
    no_stills: Annotated[
        bool, typer.Option("--no-stills", help="Leave out the small pictures of moments, which pages show.")
    ] = False,
    keep_hours: Annotated[
        float,
        typer.Option(min=0, max=1_000_000, help="Hours for which a snapshot is kept; the last two are kept anyway."),
    ] = 24.0,
    as_json: JsonOption = False,
) -> None:
    """Publish a snapshot of a library, which `evenreel serve --library` reads on any number of machines.

    An engine is asked what is seen where its address is in EVENREEL_ENGINE, or as engine=ADDRESS in
    LIBRARY/settings.txt.
    """
    from evenreel.library import PublishSettings, publish_library

    if to is None and engine is None:
        raise UsageError("Nothing says where to publish to; give --to PLACE, or --engine ADDRESS.")
    if engine is not None:
        from evenreel.library.engine import publish_to_engine

        with share_bar("publishing to the engine") as progress:
            moments = publish_to_engine(library or default_library(), engine, progress)
        if to is None and as_json:
            print_json({"engine": engine, "moments": moments})
        if not as_json:
            console().print(f"Published {moments:,} moments to the engine at {safe(engine)}.")
    if to is None:
        return
    settings = PublishSettings(stills=not no_stills, keep_hours=keep_hours)
    with share_bar("publishing") as progress:
        report = publish_library(library or default_library(), to, settings, progress)
    if as_json:
        print_json(report)
        return
    console().print(
        f"Published {safe(report.id)} to {safe(report.to)}: {byte_size(report.bytes)}, of which "
        f"{byte_size(report.sent_bytes)} were sent, in {report.seconds:.1f} s."
    )
    for dropped in report.dropped:
        console().print(f"  dropped {safe(dropped)}, which nobody needs any more")
