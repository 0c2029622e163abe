"""Who may ask what: checked before anything else sees a request, and said to the browser with every answer.

Host against DNS rebinding, Origin against other sites that write, a token where strangers can reach us; no CORS
anywhere, and a content security policy without any other place than our own.
"""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from importlib import resources
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenreel.server.settings import ServeSettings, is_known_host

COOKIE = "evenreel_session"
OPEN_TO_ALL = ("/api/health", "/static/", "/session")
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
    """ASGI middleware that refuses what may not come in.

    Args:
        app: what is behind it.
        settings: host names, token.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app, self._settings = app, settings
        self._login_page = resources.files("evenreel.server").joinpath("static", "login.html").read_text("utf-8")

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
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer = self._refusal(scope) or self._app
        await answer(scope, receive, send_safely)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        host = headers.get("host", "")
        if not is_known_host(_name_of(host), self._settings):
            return _problem(400, "The Host header names no address of this server; name it with --allow-host.")
        if method not in READING and not _same_origin(headers, host):
            return _problem(403, "The request comes from another site.")
        if self._settings.token is None or path.startswith(OPEN_TO_ALL) or self._has_token(headers):
            return None
        return self._without_token(scope, path)

    def _has_token(self, headers: Headers) -> bool:
        token = self._settings.token or ""
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and same_secret(given.strip(), token):
            return True
        return same_secret(_cookie(headers), session_of(token))

    def _without_token(self, scope: Scope, path: str) -> Response:
        """Let in who brings the token in the address, once; ask all others for it."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = self._settings.token or ""
        if not path.startswith("/api/"):
            if any(name == "token" and same_secret(value, token) for name, value in query):
                rest = urlencode([(name, value) for name, value in query if name != "token"])
                return with_session(RedirectResponse(f"{path}?{rest}" if rest else path, 303), token)
            return HTMLResponse(self._login_page, 401)
        return _problem(401, "This server needs its token: send it as 'Authorization: Bearer TOKEN'.")


def same_secret(given: str, secret: str) -> bool:
    """Compare without telling by the time taken how much was right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())


def session_of(token: str) -> str:
    """What the cookie holds: it proves the token without being it."""
    return hmac.new(token.encode(), b"evenreel session", hashlib.sha256).hexdigest()


def with_session(response: Response, token: str) -> Response:
    """The response, with the cookie that lets its receiver in from now on."""
    response.set_cookie(COOKIE, session_of(token), max_age=30 * 86_400, httponly=True, samesite="strict")
    return response


def _name_of(host: str) -> str:
    """`[::1]:8765` -> `[::1]`, `localhost:8765` -> `localhost`."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _same_origin(headers: Headers, host: str) -> bool:
    """Browsers send Origin with whatever may write; a program that is no browser sends none."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "none") in {"same-origin", "none"}
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _problem(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"detail": sentence}, status)
