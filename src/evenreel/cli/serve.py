"""`evenreel serve`: the page and the REST API of a library; `evenreel mcp`: the same library for assistants."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import Interrupted
from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import PlaceOption
from evenreel.cli.publish import fetched
from evenreel.cli.show_library import console, safe
from evenreel.config import DEFAULT_PORT, default_library
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.server import ServeSettings

LEFT_OUT = (
    "searchers", "waiting", "painters", "max_upload_bytes", "upload_timeout_s", "idle_s", "connections", "cache",
    "cache_bytes", "limits", "image_limits",
)  # fmt: skip
"""Settings for those who serve from Python."""
HOST_HELP = "Another name that browsers may call this server by; again for more."
WORKERS_HELP = (
    "Processes that answer behind the one port, 1 to 64, each with a model of its own. The limits of connections and "
    "of waiting searches hold for all together: each has an equal share."
)
PROXY_HELP = "Address or network of a reverse proxy, whose X-Forwarded-For is believed, no one else's; again for more."

HTTP_HELP = "Answer over HTTP, at /mcp of the address; otherwise over standard input and output."
ONLY_WITH_HTTP = "--host and --port are of an address; add --http to answer there."


def serve(
    library: PlaceOption = None,
    open_page: Annotated[bool, typer.Option("--open", help="Show the page in your browser.")] = False,
    settings: ServeSettings = from_settings(
        "evenreel.server.settings:ServeSettings",
        leave_out=LEFT_OUT,
        workers=Annotated[int, typer.Option("--workers", min=1, max=64, help=WORKERS_HELP)],
        port=Annotated[int, typer.Option(min=0, max=65_535)],
        token=Annotated[str | None, typer.Option(envvar="EVENREEL_TOKEN")],
        allowed_hosts=Annotated[list[str] | None, typer.Option("--allow-host", help=HOST_HELP)],
        trusted_proxies=Annotated[list[str] | None, typer.Option("--trusted-proxy", help=PROXY_HELP)],
    ),
) -> None:
    """Serve a library as a page and a REST API, until Ctrl-C; without --library, your own, which may be empty yet."""
    from evenreel.library.index.run import make_empty
    from evenreel.library.store.catalog import is_published
    from evenreel.server import serve as run

    place = library or default_library()
    if library is None and not is_published(place):
        make_empty(place)
    fetched(place, settings.snapshot_cache)

    def ready(address: str) -> None:
        _say(place, address, guarded=settings.token is not None)
        if open_page:
            threading.Thread(target=_show, args=(address,), name="browser", daemon=True).start()

    try:
        run(place, settings, on_ready=ready)
    except Interrupted:  # that is how it ends
        return


def _say(library: Path, address: str, guarded: bool) -> None:
    also = " Visitors are asked for the token." if guarded else ""
    api = f"{address}api/v1/openapi.json"
    console().print(f"{safe(library)} is served at {address} (Ctrl-C ends it; API: {api}).{also}")


def _show(address: str) -> None:
    """Show a page in the browser of the desktop; where there is none, its address was said."""
    import webbrowser

    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(address)


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
            serve_http(
                place, settings, on_ready=lambda address: _say_assistants(place, address, settings.token is not None)
            )
        else:
            serve_pipe(place, settings)
    except Interrupted:  # that is how it ends
        return


def _say_assistants(library: Path, address: str, guarded: bool) -> None:
    also = " They send the token as 'Authorization: Bearer TOKEN'." if guarded else ""
    console().print(f"Assistants search {safe(library)} at {address}mcp (Ctrl-C ends it).{also}")
