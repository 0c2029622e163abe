"""`evenreel mcp`: a library for assistants, by the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import Interrupted
from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import PlaceOption
from evenreel.cli.publish import fetched
from evenreel.cli.serve import HOST_HELP, LEFT_OUT, PROXY_HELP
from evenreel.cli.show_library import console, safe
from evenreel.config import DEFAULT_PORT, default_library
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.server import ServeSettings

HTTP_HELP = "Answer over HTTP, at /mcp of the address; otherwise over standard input and output."
ONLY_WITH_HTTP = "--host and --port are of an address; add --http to answer there."


def mcp(
    library: PlaceOption = None,
    http: Annotated[bool, typer.Option("--http", help=HTTP_HELP)] = False,
    settings: ServeSettings = from_settings(
        "evenreel.server.settings:ServeSettings",
        leave_out=(*LEFT_OUT, "workers", "open_folders"),
        port=Annotated[int, typer.Option(min=0, max=65_535)],
        token=Annotated[str | None, typer.Option(envvar="EVENREEL_TOKEN")],
        allowed_hosts=Annotated[list[str] | None, typer.Option("--allow-host", help=HOST_HELP)],
        trusted_proxies=Annotated[list[str] | None, typer.Option("--trusted-proxy", help=PROXY_HELP)],
    ),
) -> None:
    """Let an assistant search a library, open moments of it and read what is said (Model Context Protocol)."""
    from evenreel.server.assistants import serve_http, serve_pipe

    if not http and (settings.host, settings.port) != ("127.0.0.1", DEFAULT_PORT):
        raise UsageError(ONLY_WITH_HTTP)
    place = library or default_library()
    fetched(place, settings.snapshot_cache)
    try:
        if http:
            serve_http(place, settings, on_ready=lambda address: _say(place, address, settings.token is not None))
        else:
            serve_pipe(place, settings)
    except Interrupted:  # that is how it ends
        return


def _say(library: Path, address: str, guarded: bool) -> None:
    also = " They send the token as 'Authorization: Bearer TOKEN'." if guarded else ""
    console().print(f"Assistants search {safe(library)} at {address}mcp (Ctrl-C ends it).{also}")
