"""`evenreel serve`: the page and the REST API of a library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenreel.cli import Interrupted
from evenreel.cli.options import DeviceOption, LibraryOption
from evenreel.config import DEFAULT_PORT, RERANK_DEPTH, default_library


def serve(
    library: LibraryOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on; any other than this machine's needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on; 0: any that is free.")
    ] = DEFAULT_PORT,
    token: Annotated[
        str | None, typer.Option(envvar="EVENREEL_TOKEN", help="What visitors have to know. Better in EVENREEL_TOKEN.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name that browsers may call this server by.")
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(help="Address or network of a reverse proxy; its X-Forwarded-For is believed, no one else's."),
    ] = None,
    no_vision: Annotated[bool, typer.Option("--no-vision", help="Words only; loads no model.")] = False,
    rerank: Annotated[
        str | None, typer.Option(help="A matcher's checkpoint, folder or hub id, that orders the first clips anew.")
    ] = None,
    rerank_depth: Annotated[int, typer.Option(help="How many clips --rerank looks at.")] = RERANK_DEPTH,
    device: DeviceOption = "auto",
) -> None:
    """Serve a library as a page and a REST API, until Ctrl-C."""
    from evenreel.server import ServeSettings
    from evenreel.server import serve as run

    settings = ServeSettings(
        host=host,
        port=port,
        token=token,
        allowed_hosts=tuple(allow_host or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        vision=not no_vision,
        device=device,
        rerank=rerank,
        rerank_depth=rerank_depth,
    )
    place = library or default_library()
    try:
        run(place, settings, on_ready=lambda address: _say(place, address, settings.token is not None))
    except Interrupted:  # that is how it ends
        return


def _say(library: Path, address: str, guarded: bool) -> None:
    from evenreel.cli.show_library import console, safe

    also = " Visitors are asked for the token." if guarded else ""
    console().print(f"{safe(library)} is served at {address} (Ctrl-C ends it; API: {address}api/openapi.json).{also}")
