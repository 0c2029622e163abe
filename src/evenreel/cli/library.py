"""Commands about a library of one's own videos: index, search, info, verify, repair; and the demo of them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_FAILED, EXIT_SET_ASIDE
from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import DeviceOption, JsonOption, LibraryOption, NoVisionOption
from evenreel.cli.progress import bars
from evenreel.cli.show_library import show_done, show_dropped, show_problems, show_report, show_result, show_stats
from evenreel.config import RERANK_DEPTH, IndexSettings, default_library
from evenreel.errors import LibraryError, UsageError

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained

MetadataOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Table about the videos (csv, tsv, parquet, jsonl) with a column 'path'; metadata.* and "
        "manifest.* in a folder are read by themselves."
    ),
]


def _as_utf8(argument: str | None) -> str | None:
    """Read an argument as UTF-8 whose bytes Python has kept as surrogates, because the locale cannot hold them."""
    if argument is None or argument.isascii():
        return argument
    try:
        argument.encode()
    except UnicodeEncodeError:
        return os.fsencode(argument).decode("utf-8", "replace")
    return argument


def index(
    folders: Annotated[list[Path], typer.Argument(help="Folders of videos, or single files.")],
    library: LibraryOption = None,
    no_vision: Annotated[bool, typer.Option("--no-vision", help="No model: only words on screen and names.")] = False,
    metadata: MetadataOption = None,
    settings: IndexSettings = from_settings(
        IndexSettings,
        rule=Annotated[str, typer.Option("--sample")],
        keep_stills=Annotated[
            bool, typer.Option("--no-stills", help="Keep no small picture of each moment: 34 MB an hour less.")
        ],
    ),
    as_json: JsonOption = False,
) -> None:
    """Index folders of videos; unchanged files cost nothing, and a broken-off run goes on."""
    from evenreel.library import index_folders

    if no_vision:
        settings = replace(settings, model=None)
    place = library or default_library()
    with bars() as progress:
        report = index_folders(folders, place, settings, progress=progress, metadata=metadata or ())
    show_report(report, place, as_json)
    if report.set_aside or report.closed_folders:
        raise typer.Exit(EXIT_SET_ASIDE)


def reindex(
    model: Annotated[
        str | None, typer.Option(help="The new model: a hub id, a folder, 'builtin', or a name of 'evenreel models'.")
    ] = None,
    library: LibraryOption = None,
    drop: Annotated[
        str | None, typer.Option(help="Delete the vectors of this further model ('evenreel info' lists them).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --drop: only say what would be freed.")] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Drop what an unfinished run with another model made.")] = False,
    settings: IndexSettings = from_settings(
        IndexSettings, leave_out=("model", "rule", "read_text", "keep_stills", "also")
    ),
    as_json: JsonOption = False,
) -> None:
    """Exchange the model of a library: new vectors are made, then take the place of the old ones at once.

    Or drop a further model (--drop), whose vectors are deleted.
    """
    from evenreel.library import drop_model
    from evenreel.library import reindex as reindex_library

    place = library or default_library()
    if drop is not None:
        if model is not None or anew or settings != IndexSettings():
            raise UsageError("--drop takes --library, --dry-run and --json; leave the other options out.")
        show_dropped(drop_model(place, drop, dry_run=dry_run), as_json)
        return
    if model is None:
        raise UsageError("Name the new model with --model, or with --drop a further one that is to go.")
    if dry_run:
        raise UsageError("--dry-run says what --drop would free; leave it out with --model.")
    with bars() as progress:
        report = reindex_library(place, model, settings, anew=anew, progress=progress)
    show_report(report, place, as_json)
    if report.set_aside or report.closed_folders:
        raise typer.Exit(EXIT_SET_ASIDE)


def search(
    query: Annotated[
        str | None, typer.Argument(help="What is to be seen, or read on screen.", callback=_as_utf8)
    ] = None,
    library: LibraryOption = None,
    k: Annotated[int, typer.Option("-k", help="How many clips at most.")] = 10,
    where: Annotated[
        str | None,
        typer.Option(help="Filter, for example \"source = 'camera' and duration_s < 60\".", callback=_as_utf8),
    ] = None,
    image: Annotated[Path | None, typer.Option(help="Search by a picture instead of a sentence.")] = None,
    no_vision: NoVisionOption = False,
    rerank: Annotated[
        str | None, typer.Option(help="A matcher's checkpoint, folder or hub id, that orders the first clips anew.")
    ] = None,
    rerank_depth: Annotated[int, typer.Option(help="How many clips --rerank looks at.")] = RERANK_DEPTH,
    neutral_source: Annotated[
        bool,
        typer.Option(
            "--neutral-source",
            help="Favour no source: take what sets generated clips apart from those of a camera out of the query.",
        ),
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show the nearest others too, below what fits or may fit.")
    ] = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Find clips, each with its best moment and the reason."""
    from evenreel.library import open_library
    from evenreel.library.stats import empty_sentence

    if (query is None) == (image is None):
        raise UsageError('Give either a sentence or a picture: evenreel search "a red bus", or --image FILE.')
    if image is not None and no_vision:
        raise UsageError("--image needs vision; leave --no-vision out.")
    if rerank is not None and (no_vision or image is not None):
        raise UsageError("--rerank needs a sentence and vision; leave --image and --no-vision out.")
    if neutral_source and (no_vision or rerank is not None):
        raise UsageError(
            "--neutral-source changes how frames are ranked, and a matcher's scores are not neutral; leave --no-vision "
            "and --rerank out."
        )
    with open_library(library or default_library(), device=device, vision=not no_vision) as opened:
        if image is not None:
            found = opened.search_image(image, k, where, neutral_source=neutral_source)
        else:
            matcher = _matcher(rerank, device)
            found = opened.search(
                query or "", k, where, rerank=matcher, rerank_depth=rerank_depth, neutral_source=neutral_source
            )
        if not found.hits and not (held := opened.stats()).files:
            raise LibraryError(empty_sentence(held))
    show_result(found, as_json, others=everything)


def _matcher(name: str | None, device: str) -> Pretrained | None:
    if name is None:
        return None
    from evenreel.checkpoint import load_matcher

    return load_matcher(name, device=device)


def info(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Say what a library holds, and list what was set aside and why."""
    from evenreel.library import open_library

    with open_library(library or default_library(), vision=False) as opened:
        show_stats(opened.stats(), opened.model_folders(), as_json)


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
