"""Login by token: in a header, in the cookie, once in the address, or typed into a page."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
from dataclasses import dataclass, field
from importlib import resources
from urllib.parse import parse_qs, parse_qsl, quote, unquote_plus, urlencode

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope

from evenreel.server.senders import Senders, received
from evenreel.server.settings import ServeSettings

SESSION = "/session"
OPEN_TO_ALL = ("/api/v1/health", "/static/")
FOR_PROGRAMS = ("/api/", "/mcp")
"""Beginnings of addresses that programs ask: the REST API, and that of assistants."""
LOGIN_BYTES = 4_096
WRONG_TOKEN_DELAY_S = 0.5
LONGEST_LINE = 10
ACTION = f'action="{SESSION}"'
PROBLEM = '<p id="problem" role="alert">'


@dataclass
class Line:
    """Queue of requests from one address that wait for their answer."""

    length: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Guesses:
    """Slows guessing down: wrong tokens of one address are answered one after another.

    Right ones never come here. Many people may share an address, behind a proxy, and one of them who guesses, or whose
    token is an old one, must not keep the others out.
    """

    def __init__(self, delay_s: float = WRONG_TOKEN_DELAY_S) -> None:
        self._delay_s = delay_s
        self._lines: dict[str, Line] = {}

    async def wait(self, sender: str) -> bool:
        """Wait until a wrong token may be answered; False, at once, where too many of its sender wait already."""
        line = self._lines.setdefault(sender, Line())
        if line.length >= LONGEST_LINE:
            return False
        line.length += 1
        try:
            async with line.turn:
                await asyncio.sleep(self._delay_s)
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[sender]
        return True


class Login:
    """Admits requests that show the token and asks others for it; without a token it admits all."""

    def __init__(self, settings: ServeSettings) -> None:
        self._token, self._timeout_s = settings.token, settings.upload_timeout_s
        # Each worker has a line of its own: all of them together answer no faster than one would.
        self._guesses = Guesses(WRONG_TOKEN_DELAY_S * settings.workers)
        self._senders = Senders(settings.trusted_proxies)
        self._html = resources.files("evenreel.server").joinpath("static", "login.html").read_text("utf-8")

    async def answer(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the response to a request that may not go on; None where it may."""
        path = scope["path"]
        if path == SESSION:
            return await self._log_in(Request(scope, receive))
        if path.startswith(OPEN_TO_ALL):
            return None
        if path.startswith(FOR_PROGRAMS):
            return await self._to_a_program(scope)
        return await self._to_a_visitor(scope)

    async def _to_a_program(self, scope: Scope) -> Response | None:
        known = self._shows_token(scope)
        if known:
            return None
        if known is False and not await self._guesses.wait(self._senders.sender(scope)):
            return _problem(429, "Too many wrong tokens come from your address; try again in a moment.")
        return _problem(401, "This server needs its token: send it as 'Authorization: Bearer TOKEN'.")

    async def _to_a_visitor(self, scope: Scope) -> Response | None:
        """Let in who brings the token in the address, and take it out of there; ask the others for it."""
        asked, given = _address(scope)
        known = self._shows_token(scope, given)
        if known is False and not await self._guesses.wait(self._senders.sender(scope)):
            return self._too_many_waiting(asked)
        if not known:
            return self._page(asked, "" if given is None else "The token in the address is not that of this server.")
        return None if given is None else self._with_session(scope, RedirectResponse(asked, 303))

    async def _log_in(self, request: Request) -> Response:
        """Give the cookie to who types the token, and go on to the page that was asked for."""
        asked = own_page(request.query_params.get("next", "/"))
        if request.method != "POST" or self._token is None:
            return RedirectResponse(asked, 303)
        if same_secret(await self._typed_token(request), self._token):
            return self._with_session(request.scope, RedirectResponse(asked, 303))
        if not await self._guesses.wait(self._senders.sender(request.scope)):
            return self._too_many_waiting(asked)
        return self._page(asked, "That is not the token of this server.")

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

    async def _typed_token(self, request: Request) -> str:
        """The token of a form; nothing where it is too long, comes too slowly, or its sender leaves."""
        try:
            body = await received(request.receive, LOGIN_BYTES, self._timeout_s)
        except (asyncio.TimeoutError, ClientDisconnect):
            return ""
        return "" if len(body) > LOGIN_BYTES else parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]

    def _page(self, asked: str, problem: str, status: int = 401) -> Response:
        """The page that asks for the token and goes on to `asked`."""
        action = html.escape(f"{SESSION}?{urlencode({'next': asked})}")
        filled = self._html.replace(ACTION, f'action="{action}"').replace(PROBLEM, PROBLEM + html.escape(problem))
        return HTMLResponse(filled, status)

    def _too_many_waiting(self, asked: str) -> Response:
        return self._page(asked, "Too many wrong tokens come from your address; try again in a moment.", 429)

    def _with_session(self, scope: Scope, response: Response) -> Response:
        """The response, with the cookie that lets its receiver in from now on.

        It comes along from links of other sites too (lax): what they can open changes nothing.
        """
        if self._token is not None:
            name, value = cookie_name(scope), session_of(self._token)
            response.set_cookie(name, value, max_age=30 * 86_400, httponly=True, samesite="lax")
        return response


def same_secret(given: str, secret: str) -> bool:
    """Compare two secrets in constant time."""
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
    """The address that was asked for without the token, and the token."""
    query = scope["query_string"].decode("latin-1")
    rest = "&".join(part for part in query.split("&") if unquote_plus(part.partition("=")[0]) != "token")
    path = quote(scope["path"])
    given = dict(parse_qsl(query, keep_blank_values=True)).get("token")
    return own_page(f"{path}?{rest}" if rest else path), given


def _problem(status: int, sentence: str) -> Response:
    return JSONResponse({"detail": sentence}, status, {"Retry-After": "1"} if status == 429 else None)
