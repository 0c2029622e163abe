"""`evenreel publish`: a snapshot of a library that any number of machines serve; and fetching one to read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import JsonOption, LibraryOption
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, megabytes, print_json, safe, show_index
from evenreel.config import default_library

if TYPE_CHECKING:
    from evenreel.library.snapshot.publish import PublishReport
    from evenreel.library.snapshot.settings import PublishSettings

HELD = "A folder, or s3://BUCKET/PREFIX with the credentials of the environment."


def publish(
    to: Annotated[Path, typer.Option(help=HELD)],
    library: LibraryOption = None,
    settings: PublishSettings = from_settings(
        "evenreel.library.snapshot.settings:PublishSettings",
        stills=Annotated[
            bool, typer.Option("--no-stills", help="Leave out the small pictures of moments, which pages show.")
        ],
    ),
    as_json: JsonOption = False,
) -> None:
    """Publish a snapshot of a library, which `evenreel serve --library` reads on any number of machines."""
    from evenreel.library import publish_library

    with share_bar("publishing") as progress:
        report = publish_library(library or default_library(), to, settings, progress)
    _show(report, as_json)


def _show(report: PublishReport, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
        return
    console().print(
        f"Published {safe(report.id)} to {safe(report.to)}: {report.clips:,} clips, {report.moments:,} moments, "
        f"{megabytes(report.bytes)} in {report.seconds:.1f} s."
    )
    for part, indexes in report.indexes.items():
        for index in indexes:
            show_index(index, part)
    for dropped in report.dropped:
        console().print(f"  dropped {safe(dropped)}, which nobody needs any more")


def fetched(library: Path, cache: Path | None) -> Path:
    """Return the folder that a library is read from; a published snapshot is fetched, and a bar says how that goes."""
    from evenreel.library.store.filesystem import is_published

    if not is_published(library):
        return library
    from evenreel.library.snapshot.holding import SnapshotCache
    from evenreel.library.snapshot.opening import local_folder

    with share_bar("fetching the snapshot") as progress:
        return local_folder(library, None if cache is None else SnapshotCache(cache), progress)
