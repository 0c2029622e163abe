"""`evenreel serve`: the page and the REST API of a library; `evenreel mcp`: the same library for assistants."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenreel.cli import Interrupted
from evenreel.cli.options import PlaceOption, fetched, from_settings
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
HOST_HELP = "Another name of this server that browsers may use; may be given several times."
WORKERS_HELP = (
    "Processes that answer on the one port, 1 to 64, each with its own model. They share the limits of connections and "
    "of waiting searches equally."
)
PROXY_HELP = "Address or network of a reverse proxy whose X-Forwarded-For is trusted; may be given several times."
ADDRESS: dict[str, Any] = {
    "port": Annotated[int, typer.Option(min=0, max=65_535)],
    "token": Annotated[str | None, typer.Option(envvar="EVENREEL_TOKEN")],
    "allowed_hosts": Annotated[list[str] | None, typer.Option("--allow-host", help=HOST_HELP)],
    "trusted_proxies": Annotated[list[str] | None, typer.Option("--trusted-proxy", help=PROXY_HELP)],
}
HTTP_HELP = "Answer over HTTP, at /mcp of the address, instead of over standard input and output."


def serve(
    library: PlaceOption = None,
    open_page: Annotated[bool, typer.Option("--open", help="Show the page in your browser.")] = False,
    settings: ServeSettings = from_settings(
        "evenreel.server.settings:ServeSettings",
        leave_out=LEFT_OUT,
        workers=Annotated[int, typer.Option("--workers", min=1, max=64, help=WORKERS_HELP)],
        **ADDRESS,
    ),
) -> None:
    """Serve a library as a page and a REST API until Ctrl-C. Without --library: your own, empty or not."""
    from evenreel.library.index.run import make_empty
    from evenreel.library.store.catalog import is_published
    from evenreel.server import serve as run

    place = library or default_library()
    if library is None and not is_published(place):
        make_empty(place)
    fetched(place, settings.snapshot_cache)

    def ready(address: str) -> None:
        also = " Visitors are asked for the token." if settings.token is not None else ""
        api = f"{address}api/v1/openapi.json"
        console().print(f"{safe(place)} is served at {address} (Ctrl-C ends it; API: {api}).{also}")
        if open_page:
            threading.Thread(target=_show, args=(address,), name="browser", daemon=True).start()

    with contextlib.suppress(Interrupted):  # that is how it ends
        run(place, settings, on_ready=ready)


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
        **ADDRESS,
    ),
) -> None:
    """Let an assistant search a library, open moments and read what is said (Model Context Protocol)."""
    from evenreel.server.assistants import serve_http, serve_pipe

    if not http and (settings.host, settings.port) != ("127.0.0.1", DEFAULT_PORT):
        raise UsageError("--host and --port are of an address; add --http to answer there.")
    place = library or default_library()
    fetched(place, settings.snapshot_cache)

    def ready(address: str) -> None:
        also = " They send the token as 'Authorization: Bearer TOKEN'." if settings.token is not None else ""
        console().print(f"Assistants search {safe(place)} at {address}mcp (Ctrl-C ends it).{also}")

    with contextlib.suppress(Interrupted):  # that is how it ends
        if http:
            serve_http(place, settings, on_ready=ready)
        else:
            serve_pipe(place, settings)
