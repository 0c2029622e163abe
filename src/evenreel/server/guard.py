"""Access checks: done before anything else handles a request, with security headers on every answer.

Host against DNS rebinding, Origin against other sites that write, a token where strangers can reach us; no CORS
anywhere, and a content security policy without any other place than our own.
"""

from __future__ import annotations

import asyncio
import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenreel.server.login import FOR_PROGRAMS, Login
from evenreel.server.senders import received
from evenreel.server.settings import ServeSettings, is_known_host

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
        if not is_known_host(_name_of(host), self._settings):
            return _problem(400, "The Host header names no address of this server; name it with --allow-host.")
        if _from_elsewhere(scope, headers, host):
            return _problem(403, "The request comes from another site.")
        return None


def _name_of(host: str) -> str:
    """`[::1]:8765` -> `[::1]`, `localhost:8765` -> `localhost`; nothing for what is no host with a port."""
    found = HOST.fullmatch(host)
    return found[1] if found else ""


def _repeated(body: bytes, receive: Receive) -> Receive:
    """A body that was received, to be received again, and then what comes after it."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


def _from_elsewhere(scope: Scope, headers: Headers, host: str) -> bool:
    """Whether another site's page asks; its links to our pages are welcome, the API is not for it."""
    if scope["method"] not in READING:
        return not _same_origin(headers, host)
    return scope["path"].startswith(FOR_PROGRAMS) and headers.get("sec-fetch-site") == "cross-site"


def _same_origin(headers: Headers, host: str) -> bool:
    """Browsers send Origin with whatever may write; a program that is no browser sends none."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "none") in {"same-origin", "none"}
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _problem(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"detail": sentence}, status)
