"""Who may come in: checks that are done before anything else handles a request, with security headers on every answer.

Host against DNS rebinding, Origin against other sites that write, a token where strangers can reach us; no CORS
anywhere, and a content security policy without any other place than our own. The token is shown in a header, in the
cookie, once in the address, or typed into a page.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import ipaddress
import re
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from typing import TypeAlias
from urllib.parse import parse_qs, parse_qsl, quote, unquote_plus, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenreel.server.settings import ServeSettings, is_known_host, is_loopback, proxy_network

BODY_BYTES = 256 * 2**10
"""Largest body of a request, but for that of a picture to search by."""
PICTURES = "/api/v1/search/image"
"""The one address that receives its body itself, within limits of its own."""
HOST = re.compile(r"(\[[^\[\]@/]+\]|[^\[\]:@/]+)(?::[0-9]*)?")
"""The name of a host, or its address, and a port."""
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
OPEN_TO_ALL = ("/api/v1/health", "/static/")
FOR_PROGRAMS = ("/api/", "/mcp")
"""Beginnings of addresses that programs ask: the REST API, and that of assistants."""
LOGIN_BYTES = 4_096
WRONG_TOKEN_DELAY_S = 0.5
LONGEST_LINE = 10
TOO_MANY = "Too many wrong tokens come from your address; try again in a moment."
ACTION = f'action="{SESSION}"'
PROBLEM = '<p id="problem" role="alert">'
FORWARDED_FOR = b"x-forwarded-for"
OWN_BITS = 64
"""Leading bits of an IPv6 address that stand for one person: whoever has one address has all that begin alike."""
HANDED_ON = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers of a request that a proxy has handed on."""

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class Guard:
    """ASGI application that passes on permitted requests to another one and refuses the rest."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app, self._settings = app, settings
        self._login = Login(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refused request, hand the others on; every answer carries the security headers."""
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
                body = await received(receive, BODY_BYTES, self._settings.upload_timeout_s)
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
        if not is_known_host(found[1] if found else "", self._settings):
            return _problem(400, "The Host header names no address of this server; name it with --allow-host.")
        if scope["method"] not in READING:
            elsewhere = not _same_origin(headers, host)
        else:  # another site may link to our pages; the API is not for it
            elsewhere = scope["path"].startswith(FOR_PROGRAMS) and headers.get("sec-fetch-site") == "cross-site"
        return _problem(403, "The request comes from another site.") if elsewhere else None


def _repeated(body: bytes, receive: Receive) -> Receive:
    """A body that was received, to be received again, and then what comes after it."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


def _same_origin(headers: Headers, host: str) -> bool:
    """Browsers send Origin with whatever may write; a program that is no browser sends none."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "none") in {"same-origin", "none"}
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


class Guesses:
    """Slows guessing down: wrong tokens of one address are answered one after another.

    Right ones never come here. Many people may share an address, behind a proxy, and one of them who guesses, or whose
    token is an old one, must not keep the others out.
    """

    def __init__(self, delay_s: float = WRONG_TOKEN_DELAY_S) -> None:
        self._delay_s = delay_s
        self._waiting, self._turns = Counter[str](), dict[str, asyncio.Lock]()

    async def wait(self, sender: str) -> bool:
        """Wait until a wrong token may be answered; False, at once, where too many of its sender wait already."""
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


class Login:
    """Admits requests that show the token and asks others for it; without a token it admits all."""

    def __init__(self, settings: ServeSettings) -> None:
        self._token, self._timeout_s = settings.token, settings.upload_timeout_s
        # Each worker has a line of its own: all of them together answer no faster than one would.
        self._guesses = Guesses(WRONG_TOKEN_DELAY_S * settings.workers)
        self._proxies = [proxy_network(proxy) for proxy in settings.trusted_proxies]
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
        if known is False and not await self._may_guess(scope):
            return _problem(429, TOO_MANY)
        return _problem(401, "This server needs its token: send it as 'Authorization: Bearer TOKEN'.")

    async def _to_a_visitor(self, scope: Scope) -> Response | None:
        """Let in who brings the token in the address, and take it out of there; ask the others for it."""
        asked, given = _address(scope)
        known = self._shows_token(scope, given)
        if known is False and not await self._may_guess(scope):
            return self._page(asked, TOO_MANY, 429)
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
        if not await self._may_guess(request.scope):
            return self._page(asked, TOO_MANY, 429)
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

    async def _may_guess(self, scope: Scope) -> bool:
        return await self._guesses.wait(sender_of(scope, self._proxies))

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


def sender_of(scope: Scope, proxies: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()) -> str:
    """Return the address that a request comes from, '' where unknown; of IPv6 the network that one person has.

    Each proxy adds the address that it was called from to the end of the header, so the last one that is not a trusted
    proxy's is believed, and nothing before it.
    """
    peer = str(scope["client"][0]) if scope.get("client") else ""
    said = b",".join(value for name, value in scope["headers"] if name == FORWARDED_FOR).decode("latin-1").split(",")
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


async def received(receive: Receive, most: int, within_s: float) -> bytes:
    """Receive the body of a request; one that is larger than it may be is cut off behind `most` bytes."""

    async def body() -> bytes:
        content, more = bytearray(), True
        while more and len(content) <= most:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            content += message.get("body", b"")
            more = message.get("more_body", False)
        return bytes(content)

    return await asyncio.wait_for(body(), within_s)


def address_of(text: str) -> Address | None:
    """Parse an address as proxies write it, with or without a port; None for what is none.

    Example:
        >>> address_of(" 10.0.0.1:443"), address_of("[::1]:443"), address_of("::ffff:10.0.0.1"), address_of("unknown")
        (IPv4Address('10.0.0.1'), IPv6Address('::1'), IPv4Address('10.0.0.1'), None)
    """
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def is_near(request: Request, settings: ServeSettings) -> bool:
    """Return whether a request can come only from this machine.

    A proxy on this machine hands on the requests of others, and some add no header that would tell. So nobody is near
    where the settings name other hosts or a proxy.
    """
    others = bool(settings.allowed_hosts or settings.trusted_proxies) or not is_loopback(settings.host)
    handed_on = any(name in request.headers for name in HANDED_ON)
    return not others and not handed_on and request.client is not None and is_loopback(request.client.host)


def _problem(status: int, sentence: str) -> Response:
    return JSONResponse({"detail": sentence}, status, {"Retry-After": "1"} if status == 429 else None)
