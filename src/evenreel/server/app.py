"""The web application of a library, and its server with the limits of its connections.

uvicorn limits neither how many are open nor how long one may take to bring a whole request: a connection that says
nothing stays for ever. So each is a `Connection`, which hands all on to uvicorn's own protocol and is told of answers
by `Answering`, the outermost part of the application.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import TypeAdapter
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

import evenreel
from evenreel.config import usable_cores
from evenreel.errors import EncoderError, EvenreelError, MediaError, NotFoundError, UsageError
from evenreel.server.access import Guard
from evenreel.server.adding import AddingApi
from evenreel.server.desk import BusyError, Desk, LoadingError
from evenreel.server.exports import Exports, FileManagerApi
from evenreel.server.media import Playback
from evenreel.server.pictures import Pictures, Uploads
from evenreel.server.routes import Api
from evenreel.server.settings import ServeSettings

log = logging.getLogger("evenreel")

FILES_A_CONNECTION, OTHER_FILES = 3, 1_024
"""Files that may be open for a connection, and for all else."""
PAGES = ("/", "/library")
NO_PAGE = "There is nothing at this address; /api/v1/openapi.json lists those of the API."
VARIES = {"vary": "accept"}
QUEUE = 256
"""Connections that the system keeps until they are taken, and that are taken at a time."""
Served = tuple[Path, ServeSettings]
SERVED = "EVENREEL_SERVED"
"""Variable of the environment that tells a worker what it serves, as JSON."""
GRACE_S = 3
"""Seconds that answers under way may take when the server is asked to stop."""
RARELY_S = 60.0
"""Seconds between two equal warnings of what visitors can bring about."""
NO_FILE = "socket.accept() out of system resource"
"""How asyncio begins to say that no file is left for a connection, which it tries again a second later."""
STATUS: dict[type[EvenreelError], int] = {
    UsageError: 400,
    EncoderError: 400,
    NotFoundError: 404,
    MediaError: 404,
    EvenreelError: 503,
}
"""HTTP status of an error: that of the first of these classes that it belongs to."""
TOLD = (UsageError, NotFoundError, MediaError, BusyError, LoadingError)
"""Errors whose sentences are for visitors; the others may tell how the disk is laid out, so they go into the log."""
SECRET = {
    400: "The server has no model that can answer this; only words can be searched.",
    503: "The library cannot be used at the moment; the server's log says why.",
}

_warned: dict[str, float] = {}
_current: ContextVar[Connection] = ContextVar("connection")


def make_app(library: Path, settings: ServeSettings | None = None, *, adds: bool = True) -> FastAPI:
    """Make the application over one library, for a host of its own: its addresses begin at the root.

    Nothing is opened before it starts. What answers is checked by `Guard` first, so it cannot be a part of another
    application, and takes no further middleware.

    Args:
        library: folder of the library, or place of published snapshots, of which the newest is served.
        settings: who may come in, and limits; None for the defaults of `ServeSettings`.
        adds: whether it goes on with the folders that were being added, and lets more be added.

    Raises (when it starts):
        LibraryError: there is no library, or it is damaged or of another version.
    """
    settings = settings or ServeSettings()
    desk, uploads = Desk(library, settings), Uploads(settings)
    pictures, playback = Pictures(library, settings, desk.followed.stills_of), Playback(desk, settings)
    adding = AddingApi(desk, library, settings)
    exports = Exports(desk, playback, settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        desk.start()
        pictures.start()
        uploads.start()
        playback.start()
        if adds:
            adding.start()
        exports.start()
        try:
            yield
        finally:
            adding.adder.close()
            exports.close()
            playback.close()
            uploads.close()
            pictures.close()
            desk.close()

    app = FastAPI(
        title="evenreel",
        description="Search a library of videos by what is seen, what is written on screen and what is said.",
        version=evenreel.__version__,
        lifespan=lifespan,
        openapi_url="/api/v1/openapi.json",
        generate_unique_id_function=lambda route: route.name,  # what generated clients call it
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.desk, app.state.adder = desk, adding.adder
    app.include_router(Api(desk, pictures, uploads, playback, adding.adder).router())
    if adds:
        app.include_router(adding.router())
    app.include_router(exports.router())
    app.include_router(FileManagerApi(desk, settings).router())
    _add_pages(app)
    _add_errors(app)
    app.middleware_stack = Guard(app.build_middleware_stack(), settings)  # outside of all, answers to failures too
    return app


def serve(library: Path, settings: ServeSettings, on_ready: Callable[[str], None]) -> None:
    """Serve a library until the process is asked to stop.

    Args:
        library: folder of the library, or place of published snapshots, of which the newest is served.
        settings: address, who may come in, limits.
        on_ready: called with the address once visitors can connect.

    Raises:
        LibraryError: there is no library, or it is damaged or of another version, or of another model than the matcher
            that is to re-rank.
        UsageError: the address cannot be had, or several workers cannot share one on this system.
        CheckpointError: there is no such matcher as is to re-rank, or it is damaged.
    """
    if settings.workers > 1 and os.name != "posix":
        raise UsageError("Several workers share a port on Linux and macOS only; leave out --workers here.")
    check_servable(library, settings)
    if settings.workers == 1:
        run_app(make_app(library, settings), settings, on_ready)
        return
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // settings.workers)))
    os.environ[SERVED] = TypeAdapter(Served).dump_json((library, settings)).decode()
    with _listening(settings) as listener:
        on_ready(_address(settings, listener))
        uvicorn.run(
            f"{__name__}:worker_app",
            factory=True,
            workers=settings.workers,
            fd=listener.fileno(),
            **_options(settings.of_one_worker()),
        )


def worker_app() -> ASGIApp:
    """Make the application of one of several workers, which ends with the process that started it."""
    library, settings = TypeAdapter(Served).validate_json(os.environ[SERVED])

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
    _quieten()
    return Answering(make_app(library, settings.of_one_worker()))


def run_app(app: ASGIApp, settings: ServeSettings, on_ready: Callable[[str], None]) -> None:
    _quieten()
    with _listening(settings) as listener:
        on_ready(_address(settings, listener))
        uvicorn.Server(uvicorn.Config(Answering(app), **_options(settings))).run(sockets=[listener])


def _options(settings: ServeSettings) -> dict[str, Any]:
    return {
        "http": partial(Connection, Crowd(settings.connections, settings.idle_s)),
        "ws": "none",
        "lifespan": "on",
        "log_level": "error",  # its warnings are of what visitors do
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "backlog": QUEUE,
        "timeout_keep_alive": math.ceil(settings.idle_s),
        "timeout_graceful_shutdown": GRACE_S,
    }


def _quieten() -> None:
    logging.getLogger("uvicorn.error").addFilter(_is_no_hurried_end)
    logging.getLogger("asyncio").addFilter(is_worth_saying)


def check_servable(library: Path, settings: ServeSettings) -> None:
    """Refuse what the operator can put right before anybody can come."""
    with evenreel.open_library(library, cache=settings.snapshot_cache) as opened:
        if settings.rerank is not None:
            from evenreel.checkpoint import load_matcher

            opened.check_matcher(load_matcher(settings.rerank))


def _is_no_hurried_end(record: logging.LogRecord) -> bool:
    """Visitors who are still there when the server is asked to stop, and what they were being sent, are no error."""
    cancelled = bool(record.exc_info) and isinstance(record.exc_info[1], asyncio.CancelledError)  # type: ignore[index]
    return not cancelled and "graceful shutdown exceeded" not in record.getMessage()


def _listening(settings: ServeSettings) -> socket.socket:
    """A socket that visitors can already connect to, and room for the files of all of them."""
    _allow_files(settings.of_one_worker().connections)
    try:
        found = socket.getaddrinfo(settings.host.strip("[]"), settings.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        with contextlib.ExitStack() as undo:
            listener = undo.enter_context(socket.socket(family, kind, protocol))
            if os.name == "posix":  # elsewhere it lets two servers have one port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # its connections have it too
            listener.bind(address)
            listener.listen(QUEUE)
            undo.pop_all()
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{settings.host} port {settings.port} cannot be had ({why.lower()}); choose another with --port or --host."
        ) from error
    return listener


def _allow_files(connections: int) -> None:
    """Raise the number of files that the process may have open, as far as the system lets it."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # it is Windows, or may not
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = FILES_A_CONNECTION * connections + OTHER_FILES
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _address(settings: ServeSettings, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = "localhost" if settings.host == "localhost" else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"


def _add_pages(app: FastAPI) -> None:
    static = resources.files("evenreel.server").joinpath("static")

    async def page() -> Response:
        return FileResponse(str(static.joinpath("index.html")), media_type="text/html")

    for path in PAGES:
        app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/static", StaticFiles(directory=str(static)))


def _add_errors(app: FastAPI) -> None:
    """One sentence for every refusal, as `{"detail": ...}`."""

    async def refused(_: Request, error: Exception) -> Response:
        status = next(code for kind, code in STATUS.items() if isinstance(error, kind))
        if not isinstance(error, TOLD):
            log.log(logging.ERROR if status == 503 else logging.INFO, "not answered: %s", error)
        sentence = str(error) if isinstance(error, TOLD) else SECRET[status]
        passing = isinstance(error, (BusyError, LoadingError))
        return JSONResponse({"detail": sentence}, status, {"Retry-After": "1"} if passing else None)

    async def invalid(_: Request, error: Exception) -> Response:
        problems = error.errors() if isinstance(error, RequestValidationError) else []
        return JSONResponse({"detail": "; ".join(map(_sentence, problems)) or "The request is wrong."}, 422)

    async def unreadable(_: Request, error: Exception) -> Response:
        log.error("a file of the server cannot be read or written: %s", error)
        sentence = "A file of the server cannot be read or written; the server's log says which."
        return JSONResponse({"detail": sentence}, 503)

    async def gone(_: Request, error: Exception) -> Response:
        return Response(status_code=400)  # nobody hears it

    async def failed(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": "The server failed; what happened is in its log."}, 500)  # uvicorn logs it

    app.add_exception_handler(404, _nothing_here)
    app.add_exception_handler(Exception, failed)
    app.add_exception_handler(EvenreelError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(OSError, unreadable)
    app.add_exception_handler(ClientDisconnect, gone)


async def _nothing_here(request: Request, error: Exception) -> Response:
    """A page with a way back for a browser at an address of nothing, one sentence for a program."""
    wants_page = "text/html" in request.headers.get("accept", "")
    if wants_page and not request.url.path.startswith("/api/"):
        page = resources.files("evenreel.server").joinpath("static", "nothing.html")
        return FileResponse(str(page), 404, VARIES, media_type="text/html")
    return JSONResponse({"detail": NO_PAGE}, 404, VARIES)


def _sentence(problem: dict[str, Any]) -> str:
    """`{"loc": ("query", "k"), "msg": "Input should be ..."}` -> `k: input should be ...`."""
    where = ".".join(str(part) for part in problem["loc"][1:])
    if problem["type"] == "json_invalid":
        return "The body is no JSON."
    message = str(problem["msg"])
    return f"{where}: {message[:1].lower()}{message[1:]}"


def warn_rarely(message: str, *given: object) -> None:
    if _is_due(message):
        log.warning(message, *given)


def is_worth_saying(record: logging.LogRecord) -> bool:
    """Filter for the log of asyncio: connections without a file are one line a minute instead of a page a second."""
    if not record.getMessage().startswith(NO_FILE):
        return True
    if _is_due(NO_FILE):
        why = record.exc_info[1] if record.exc_info else None
        log.warning("a connection cannot be taken (%s)", getattr(why, "strerror", None) or why)
    return False


def _is_due(message: str) -> bool:
    now = time.monotonic()
    if now - _warned.get(message, -RARELY_S) < RARELY_S:
        return False
    _warned[message] = now
    return True


@dataclass(frozen=True, eq=False)
class Crowd:
    """The connections of a server: `most` at a time, each of which brings a whole request within `idle_s` seconds."""

    most: int
    idle_s: float
    there: set[Connection] = field(default_factory=set)

    def make_room(self, latest: Connection) -> None:
        """Where there is one too many, close that which has waited longest without a whole request.

        Who is silent keeps nobody out. Where all others are being answered, the latest is closed.
        """
        if len(self.there) <= self.most:
            return
        waiting = [one for one in self.there if one.waits and one is not latest]
        if not waiting:
            warn_rarely("all %d connections are being answered; further ones are closed", self.most)
        min(waiting, key=lambda one: one.waits_since, default=latest).abort()


class Connection(asyncio.Protocol):
    """Connection of a crowd, which is closed when it takes too long to send a request's head, first or later.

    While an answer is under way there is no limit: a player that is paused reads on when it goes on.
    """

    def __init__(self, crowd: Crowd, **of_uvicorn: Any) -> None:
        self._crowd, self._protocol = crowd, H11Protocol(**of_uvicorn)
        self._answers, self._is_whole = 0, True
        self._hang_up: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether it has brought no whole request that is not answered."""
        return not self._answers or not self._is_whole

    def abort(self) -> None:
        self._crowd.there.discard(self)
        self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._protocol.connection_made(transport)
        self._crowd.there.add(self)
        self._wait()
        self._crowd.make_room(self)

    def data_received(self, data: bytes) -> None:
        _current.set(self)
        self._protocol.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.there.discard(self)
        self._stop_waiting()
        self._protocol.connection_lost(exc)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def begin(self, *, is_whole: bool) -> None:
        """Hear that a request has come, with its body or with that still to come."""
        self._answers, self._is_whole = self._answers + 1, is_whole
        self._stop_waiting()

    def has_come_whole(self) -> None:
        self._is_whole = True

    def end(self) -> None:
        self._answers -= 1
        if not self._answers and self in self._crowd.there:
            self._wait()

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self.waits_since = loop.time()
        self._hang_up = loop.call_later(self._crowd.idle_s, self._transport.close)

    def _stop_waiting(self) -> None:
        if self._hang_up is not None:
            self._hang_up.cancel()
            self._hang_up = None


class Answering:
    """ASGI application that tells the connection of each request when it is being answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = _current.get(None)
        if scope["type"] != "http" or connection is None:
            await self._app(scope, receive, send)
            return

        async def received() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                connection.has_come_whole()
            return message

        headers = dict(scope["headers"])
        connection.begin(is_whole=headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers)
        try:
            await self._app(scope, received, send)
        finally:
            connection.end()
