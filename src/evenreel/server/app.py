"""The web application of a library, from the outside in: its server, who may come in, its pages, its errors.

uvicorn limits neither how many connections are open nor how long one may take to bring a whole request: one that says
nothing stays for ever. So each is a `Connection`, which hands all on to uvicorn's own protocol; `answering` tells it of
answers. `Guard` checks before anything else handles a request, and puts security headers on every answer: Host against
DNS rebinding, Origin against other sites that write, a token where strangers can reach us; no CORS anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import hmac
import html
import ipaddress
import logging
import math
import multiprocessing
import os
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, unquote_plus, urlencode, urlsplit

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from pydantic import TypeAdapter
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

import evenreel
from evenreel.config import usable_cores
from evenreel.errors import EncoderError, EvenreelError, MediaError, NotFoundError, UsageError
from evenreel.server.adding import AddingApi
from evenreel.server.api import Api
from evenreel.server.desk import OF_A_CHANGE, BusyError, Desk
from evenreel.server.exports import Exports
from evenreel.server.local import ADDRESS, noted
from evenreel.server.media import Pictures, Playback, Uploads, received
from evenreel.server.settings import ServeSettings, address_of, is_known_host, proxy_network

log = logging.getLogger("evenreel")
STATIC = resources.files("evenreel.server").joinpath("static")

FILES_A_CONNECTION, OTHER_FILES = 3, 1_024  # files that may be open for a connection, and for all else
QUEUE = 256  # connections that the system keeps until they are taken, and that are taken at a time
Served = tuple[Path, ServeSettings]
SERVED = "EVENREEL_SERVED"  # variable of the environment that tells a worker what it serves, as JSON
GRACE_S = 3  # seconds that answers under way may take when the server is asked to stop
RARELY_S = 60.0  # seconds between two equal warnings of what visitors can bring about
NO_FILE = "socket.accept() out of system resource"
"""How asyncio begins to say that no file is left for a connection, which it tries again a second later."""

BODY_BYTES = 256 * 2**10  # largest body of a request, but for that of a picture to search by
PICTURES = "/api/v1/search/image"  # the one address that receives its body itself, within limits of its own
HOST = re.compile(r"(\[[^\[\]@/]+\]|[^\[\]:@/]+)(?::[0-9]*)?")  # the name of a host, or its address, and a port
READING = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without one, browsers send "Origin: null" with the form of the token
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
SESSION = "/session"
OPEN_TO_ALL = ("/api/v1/health", "/static/", ADDRESS)  # the last asks for a proof of its own
FOR_PROGRAMS = ("/api/", "/mcp")  # beginnings of addresses that programs ask
LOGIN_BYTES = 4_096
WRONG_TOKEN_DELAY_S = 0.5
LONGEST_LINE = 10
TOO_MANY = "Too many wrong tokens were sent from your address; try again in a moment."
ACTION = f'action="{SESSION}"'
PROBLEM = '<p id="problem" role="alert">'
OWN_BITS = 64
"""Leading bits of an IPv6 address that stand for one person: whoever has one address has all that begin alike."""

STATUS: dict[type[EvenreelError], int] = {
    UsageError: 400,
    EncoderError: 400,
    NotFoundError: 404,
    MediaError: 404,
    EvenreelError: 503,
}
"""HTTP status of an error: that of the first of these classes that it belongs to."""
TOLD = (UsageError, NotFoundError, MediaError, BusyError)
"""Errors whose sentences are for visitors; the others may tell how the disk is laid out, so they go into the log."""
SECRET = {
    400: "The server has no model for this; only words can be searched.",
    503: "The library cannot be used now; the server's log says why.",
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
    pictures, playback = Pictures(settings, desk.followed.stills_of), Playback(desk, settings)
    adding, exports = AddingApi(desk, library, settings), Exports(desk, playback, settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for start in (desk.start, pictures.start, uploads.start, playback.start, exports.start):
            start()
        if adds:
            adding.start()
        try:
            yield
        finally:
            for part in (adding.adder, exports, playback, uploads, pictures, desk):
                part.close()

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
    app.include_router(Api(desk, pictures, uploads, playback).router())
    app.include_router(adding.router(adds=adds))
    app.include_router(exports.router())

    async def page() -> Response:
        return FileResponse(str(STATIC.joinpath("index.html")), media_type="text/html")

    for path in ("/", "/library"):
        app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/static", StaticFiles(directory=str(STATIC)))
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
    with noted(library, settings.host, OF_A_CHANGE, on_ready) as ready:
        if settings.workers == 1:
            run_app(make_app(library, settings), settings, ready)
            return
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // settings.workers)))
        os.environ[SERVED] = TypeAdapter(Served).dump_json((library, settings)).decode()
        with _listening(settings) as listener:
            ready(_own_address(settings, listener))
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
    return answering(make_app(library, settings.of_one_worker()))


def run_app(app: ASGIApp, settings: ServeSettings, on_ready: Callable[[str], None]) -> None:
    _quieten()
    with _listening(settings) as listener:
        on_ready(_own_address(settings, listener))
        uvicorn.Server(uvicorn.Config(answering(app), **_options(settings))).run(sockets=[listener])


def check_servable(library: Path, settings: ServeSettings) -> None:
    """Refuse what the operator can put right before anybody can come."""
    with evenreel.open_library(library, cache=settings.snapshot_cache) as opened:
        if settings.rerank is not None:
            from evenreel.checkpoint import load_matcher

            opened.check_matcher(load_matcher(settings.rerank))


def _options(settings: ServeSettings) -> dict[str, Any]:
    return {
        "http": functools.partial(Connection, Crowd(settings.connections, settings.idle_s)),
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


def _is_no_hurried_end(record: logging.LogRecord) -> bool:
    """Visitors who are still there when the server is asked to stop, and what they were being sent, are no error."""
    cancelled = bool(record.exc_info) and isinstance(record.exc_info[1], asyncio.CancelledError)  # type: ignore[index]
    return not cancelled and "graceful shutdown exceeded" not in record.getMessage()


def is_worth_saying(record: logging.LogRecord) -> bool:
    """Filter for the log of asyncio: connections without a file are one line a minute instead of a page a second."""
    if not record.getMessage().startswith(NO_FILE):
        return True
    why = record.exc_info[1] if record.exc_info else None
    warn_rarely("a connection cannot be taken (%s)", getattr(why, "strerror", None) or why)
    return False


def warn_rarely(message: str, *given: object) -> None:
    now = time.monotonic()
    if now - _warned.get(message, -RARELY_S) >= RARELY_S:
        _warned[message] = now
        log.warning(message, *given)


def _listening(settings: ServeSettings) -> socket.socket:
    """A socket that visitors can already connect to, and room for the files of all of them."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # it is Windows, or may not
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = FILES_A_CONNECTION * settings.of_one_worker().connections + OTHER_FILES
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
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
            f"{settings.host} port {settings.port} is not free ({why.lower()}); choose another with --port or --host."
        ) from error
    return listener


def _own_address(settings: ServeSettings, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = "localhost" if settings.host == "localhost" else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"


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
        self._answers, self.is_whole = 0, True  # requests that are being answered; whether the last has come whole
        self._hang_up: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether it has brought no whole request that is not answered."""
        return not self._answers or not self.is_whole

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
        self._answers, self.is_whole = self._answers + 1, is_whole
        self._stop_waiting()

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


def answering(app: ASGIApp) -> ASGIApp:
    """Make an application that tells the connection of each request when it is being answered."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        connection = _current.get(None)
        if scope["type"] != "http" or connection is None:
            await app(scope, receive, send)
            return

        async def received() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                connection.is_whole = True
            return message

        headers = dict(scope["headers"])
        connection.begin(is_whole=headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers)
        try:
            await app(scope, received, send)
        finally:
            connection.end()

    return answered


class Guard:
    """ASGI application that passes on permitted requests to another one and refuses the rest."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app, self._login, self._timeout_s = app, Login(settings), settings.upload_timeout_s
        self._is_known = functools.lru_cache(100)(functools.partial(is_known_host, settings=settings))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-cache")
            await send(message)

        answer: ASGIApp | None = self._refusal(scope) or await self._login.answer(scope, receive)
        if answer is None and scope["method"] not in READING and scope["path"] != PICTURES:
            try:
                body = await received(receive, BODY_BYTES, self._timeout_s)
            except ClientDisconnect:
                return
            except asyncio.TimeoutError:
                answer = _problem(408, "The request came too slowly; send it again.")
            else:
                receive = _repeated(body, receive)
                if len(body) > BODY_BYTES:
                    answer = _problem(413, f"The request is too large; at most {BODY_BYTES >> 10} KiB are read.")
        await (answer or self._app)(scope, receive, send_safely)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        found = HOST.fullmatch(host)
        if not self._is_known(found[1] if found else ""):
            return _problem(400, "The Host header names another server; allow it with --allow-host.")
        if scope["method"] not in READING:  # browsers send Origin with whatever may write, other programs none
            origin = headers.get("origin")
            elsewhere = headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}
            if origin is not None:
                try:
                    elsewhere = urlsplit(origin).netloc.lower() != host.lower()
                except ValueError:
                    elsewhere = True
        else:  # another site may link to our pages; the API is not for it
            elsewhere = scope["path"].startswith(FOR_PROGRAMS) and headers.get("sec-fetch-site") == "cross-site"
        return _problem(403, "The request comes from another site.") if elsewhere else None


def _repeated(body: bytes, receive: Receive) -> Receive:
    """A body that was received, to be received again, and then what comes after it."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


class Login:
    """Admits requests that show the token and asks others for it; without a token it admits all.

    The token is shown in a header, in the cookie, once in the address, or typed into a page. Wrong tokens of an address
    are answered one after another, which slows guessing down. Right ones never wait: many people may share an address,
    behind a proxy, and one of them who guesses must not keep the others out.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._token, self._timeout_s = settings.token, settings.upload_timeout_s
        # Each worker has a line of its own: all of them together answer no faster than one would.
        self._delay_s = WRONG_TOKEN_DELAY_S * settings.workers
        self._waiting, self._turns = Counter[str](), dict[str, asyncio.Lock]()
        self._proxies = [proxy_network(proxy) for proxy in settings.trusted_proxies]
        self._html = STATIC.joinpath("login.html").read_text("utf-8")

    async def answer(self, scope: Scope, receive: Receive) -> Response | None:
        path = scope["path"]
        if path == SESSION:
            return await self._log_in(Request(scope, receive))
        if path.startswith(OPEN_TO_ALL):
            return None
        if not path.startswith(FOR_PROGRAMS):
            return await self._to_a_visitor(scope)
        known = self._shows_token(scope)
        if known:
            return None
        if known is False and not await self._may_guess(scope):
            return _problem(429, TOO_MANY, passing=True)
        return _problem(401, "This server needs its token: send it as 'Authorization: Bearer TOKEN'.")

    async def _to_a_visitor(self, scope: Scope) -> Response | None:
        """Let in who brings the token in the address, and take it out of there; ask the others for it."""
        asked, given = _address(scope)
        known = self._shows_token(scope, given)
        if known is False and not await self._may_guess(scope):
            return self._page(asked, TOO_MANY, 429)
        if not known:
            return self._page(asked, "" if given is None else "The token in the address is wrong.")
        return None if given is None else self._with_session(scope, RedirectResponse(asked, 303))

    async def _log_in(self, request: Request) -> Response:
        asked = own_page(request.query_params.get("next", "/"))
        if request.method != "POST" or self._token is None:
            return RedirectResponse(asked, 303)
        try:
            body = await received(request.receive, LOGIN_BYTES, self._timeout_s)
        except (asyncio.TimeoutError, ClientDisconnect):
            body = b""
        typed = "" if len(body) > LOGIN_BYTES else parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        if same_secret(typed, self._token):
            return self._with_session(request.scope, RedirectResponse(asked, 303))
        if not await self._may_guess(request.scope):
            return self._page(asked, TOO_MANY, 429)
        return self._page(asked, "This token is wrong.")

    def _shows_token(self, scope: Scope, in_address: str | None = None) -> bool | None:
        """Whether a request shows the token; None where it shows nothing that could be it."""
        if self._token is None:
            return True
        headers = Headers(scope=scope)
        kind, _, given = headers.get("authorization", "").partition(" ")
        cookie = cookie_parser(headers.get("cookie", "")).get(cookie_name(scope))
        shown = [same_secret(given.strip(), self._token)] if kind.lower() == "bearer" else []
        shown += [] if cookie is None else [same_secret(cookie, session_of(self._token))]
        shown += [] if in_address is None else [same_secret(in_address, self._token)]
        return any(shown) if shown else None

    def _page(self, asked: str, problem: str, status: int = 401) -> Response:
        action = html.escape(f"{SESSION}?{urlencode({'next': asked})}")
        filled = self._html.replace(ACTION, f'action="{action}"').replace(PROBLEM, PROBLEM + html.escape(problem))
        return HTMLResponse(filled, status)

    async def _may_guess(self, scope: Scope) -> bool:
        """Wait until a wrong token may be answered; False, at once, where too many of its sender wait already."""
        sender = sender_of(scope, self._proxies)
        if self._waiting[sender] >= LONGEST_LINE:
            return False
        self._waiting[sender] += 1
        try:
            async with self._turns.setdefault(sender, asyncio.Lock()):
                await asyncio.sleep(self._delay_s)
        finally:
            self._waiting[sender] -= 1
            if not self._waiting[sender]:
                del self._waiting[sender], self._turns[sender]
        return True

    def _with_session(self, scope: Scope, response: Response) -> Response:
        """The response, with the cookie that lets its receiver in from now on.

        It comes along from links of other sites too (lax): what they can open changes nothing.
        """
        if self._token is not None:
            name, value = cookie_name(scope), session_of(self._token)
            response.set_cookie(name, value, max_age=30 * 86_400, httponly=True, samesite="lax")
        return response


def _problem(status: int, sentence: str, *, passing: bool = False) -> Response:
    return JSONResponse({"detail": sentence}, status, {"Retry-After": "1"} if passing else None)


def same_secret(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())


def cookie_name(scope: Scope) -> str:
    """Return the name of the cookie: browsers send one to all ports of a host, where other servers may be ours too."""
    return f"evenreel_session_{(scope.get('server') or (None, ''))[1]}"


def session_of(token: str) -> str:
    """Return the cookie's value for a token, which proves the token without revealing it."""
    return hmac.new(token.encode(), b"evenreel session", hashlib.sha256).hexdigest()


def own_page(address: str) -> str:
    r"""Return an address of this server, or its first page where a browser may take the address for another server's.

    >>> own_page("/?q=a+star"), own_page("//evil.example"), own_page("/\\evil.example"), own_page("https://evil.example")
    ('/?q=a+star', '/', '/', '/')
    """
    elsewhere = address.startswith(("//", "/\\")) or not address.startswith("/")
    return "/" if elsewhere or not address.isprintable() else address


def _address(scope: Scope) -> tuple[str, str | None]:
    query = scope["query_string"].decode("latin-1")
    rest = "&".join(part for part in query.split("&") if unquote_plus(part.partition("=")[0]) != "token")
    path = quote(scope["path"])
    given = dict(parse_qsl(query, keep_blank_values=True)).get("token")
    return own_page(f"{path}?{rest}" if rest else path), given


def sender_of(scope: Scope, proxies: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()) -> str:
    """Return the address that a request comes from, '' where unknown; of IPv6 the network that one person has.

    Each proxy adds the address that it was called from to the end of the header, so the last one that is not a trusted
    proxy's is believed, and nothing before it.
    """
    peer = str(scope["client"][0]) if scope.get("client") else ""
    said = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
    believed = address_of(peer)
    for one in reversed(said):
        if believed is None or not any(believed in network for network in proxies):
            break
        if (before := address_of(one)) is None:
            break
        believed = before
    if isinstance(believed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((believed, OWN_BITS), strict=False))
    return peer if believed is None else str(believed)


def _add_errors(app: FastAPI) -> None:
    """One sentence for every refusal, as `{"detail": ...}`."""

    async def refused(_: Request, error: Exception) -> Response:
        status = next(code for kind, code in STATUS.items() if isinstance(error, kind))
        if not isinstance(error, TOLD):
            log.log(logging.ERROR if status == 503 else logging.INFO, "not answered: %s", error)
        sentence = str(error) if isinstance(error, TOLD) else SECRET[status]
        return _problem(status, sentence, passing=isinstance(error, BusyError))

    async def invalid(_: Request, error: Exception) -> Response:
        problems = error.errors() if isinstance(error, RequestValidationError) else []
        sentences = [sentence_of(problem, problem["loc"][1:]) for problem in problems]
        return _problem(422, "; ".join(sentences) or "The request is wrong.")

    async def unreadable(_: Request, error: Exception) -> Response:
        log.error("a file of the server cannot be read or written: %s", error)
        return _problem(503, "The server cannot read or write a file; its log says which.")

    async def nothing_here(request: Request, error: Exception) -> Response:
        """A page with a way back for a browser at an address of nothing, one sentence for a program."""
        varies, wants_page = {"vary": "accept"}, "text/html" in request.headers.get("accept", "")
        if wants_page and not request.url.path.startswith("/api/"):
            return FileResponse(str(STATIC.joinpath("nothing.html")), 404, varies, media_type="text/html")
        sentence = "There is nothing at this address; /api/v1/openapi.json lists those of the API."
        return JSONResponse({"detail": sentence}, 404, varies)

    async def gone(_: Request, error: Exception) -> Response:
        return Response(status_code=400)  # nobody hears it

    async def failed(_: Request, error: Exception) -> Response:
        return _problem(500, "The server failed; its log says why.")  # uvicorn logs it

    app.add_exception_handler(404, nothing_here)
    app.add_exception_handler(Exception, failed)
    app.add_exception_handler(EvenreelError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(OSError, unreadable)
    app.add_exception_handler(ClientDisconnect, gone)


def sentence_of(problem: Mapping[str, Any], where: Sequence[object]) -> str:
    """`{"msg": "Input should be ...", ...}` at `k` -> `k: input should be ...`."""
    if problem["type"] == "json_invalid":
        return "The body is not JSON."
    message = str(problem["msg"])
    return f"{'.'.join(map(str, where))}: {message[:1].lower()}{message[1:]}"
