"""`evenreel publish`: a snapshot of a library that any number of machines serve; and fetching one to read it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenreel.cli.options import JsonOption, LibraryOption
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, megabytes, print_json, safe
from evenreel.config import default_library
from evenreel.errors import UsageError

HELD = "A folder, or s3://BUCKET/PREFIX with the credentials of the environment."


def publish(
    to: Annotated[Path | None, typer.Option(help=HELD)] = None,
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
        f"Published {safe(report.id)} to {safe(report.to)}: {megabytes(report.bytes)}, of which "
        f"{megabytes(report.sent_bytes)} were sent, in {report.seconds:.1f} s."
    )
    for dropped in report.dropped:
        console().print(f"  dropped {safe(dropped)}, which nobody needs any more")


def fetched(library: Path, cache: Path | None) -> Path:
    """Return the folder that a library is read from; a published snapshot is fetched, and a bar says how that goes."""
    from evenreel.library.store.catalog import is_published

    if not is_published(library):
        return library
    from evenreel.library.published import local_folder

    with share_bar("fetching the snapshot") as progress:
        return local_folder(library, cache, progress)
