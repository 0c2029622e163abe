"""`evenreel serve`: the page and the REST API of a library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import Interrupted
from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import PlaceOption
from evenreel.cli.publish import fetched
from evenreel.cli.show_library import console, safe
from evenreel.config import default_library

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


def serve(
    library: PlaceOption = None,
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
    """Serve a library as a page and a REST API, until Ctrl-C."""
    from evenreel.server import serve as run

    place = library or default_library()
    fetched(place, settings.snapshot_cache)
    try:
        run(place, settings, on_ready=lambda address: _say(place, address, settings.token is not None))
    except Interrupted:  # that is how it ends
        return


def _say(library: Path, address: str, guarded: bool) -> None:
    also = " Visitors are asked for the token." if guarded else ""
    api = f"{address}api/v1/openapi.json"
    console().print(f"{safe(library)} is served at {address} (Ctrl-C ends it; API: {api}).{also}")
