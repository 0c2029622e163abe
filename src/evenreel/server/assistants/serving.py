"""The two ways that an assistant reaches the library: a process of its own, or HTTP behind the checks of the page."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from evenreel.server.app import check_servable, run_app
from evenreel.server.assistants.asking import AskedLibrary
from evenreel.server.assistants.pipe import MessageLines, endable_input
from evenreel.server.assistants.tools import AssistantServer
from evenreel.server.guard import Guard
from evenreel.server.settings import ServeSettings

PATH = "/mcp"
NOTHING_ELSE = f"There is nothing at this address; assistants are answered at {PATH}."


def serve_pipe(library: Path, settings: ServeSettings) -> None:
    """Answer the assistant that started this process, over its standard input and output, until told to stop."""
    check_servable(library, settings)
    asked = AskedLibrary(library, settings)

    async def run(lines: MessageLines) -> None:
        async with asked.running():
            await AssistantServer(asked).answer_lines(lines)

    with endable_input() as pipe:
        anyio.run(run, MessageLines(pipe))


def serve_http(library: Path, settings: ServeSettings, on_ready: Callable[[str], None]) -> None:
    """Answer assistants over HTTP until the process is asked to stop."""
    check_servable(library, settings)
    run_app(make_http_app(library, settings), settings, on_ready)


def make_http_app(library: Path, settings: ServeSettings) -> ASGIApp:
    """Make the application that answers assistants at `/mcp`, each request by itself.

    Host, origin and token are checked as for the page and the REST API (`Guard`), instead of by the SDK.
    """
    asked = AskedLibrary(library, settings)
    app = AssistantServer(asked).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    sessions = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(_: ASGIApp) -> AsyncIterator[None]:
        async with asked.running(), sessions(app):
            yield

    async def nothing_here(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": NOTHING_ELSE}, 404)

    app.router.lifespan_context = lifespan
    app.add_exception_handler(404, nothing_here)
    return Guard(app, settings)
