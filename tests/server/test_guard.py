"""Who may come in: hazards 53 and 55, and the token."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from evenreel.errors import UsageError
from evenreel.server.guard import COOKIE, Guard, session_of
from evenreel.server.settings import ServeSettings, is_known_host

TOKEN = "correct horse battery"


async def answer(request: Request) -> Response:
    return PlainTextResponse("inside")


def client(settings: ServeSettings | None = None, base_url: str = "http://127.0.0.1:8765") -> TestClient:
    app = Starlette(
        routes=[Route(path, answer, methods=["GET", "POST"]) for path in ("/", "/api/search", "/api/health")]
    )
    guarded = Guard(app, settings or ServeSettings())
    return TestClient(guarded, base_url=base_url, follow_redirects=False)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "10.0.0.7", "", "[::2]"]
)
def test_hazard_53_a_foreign_host_is_refused(host: str) -> None:
    refused = client().get("/", headers={"host": host})
    assert refused.status_code == 400
    assert "--allow-host" in refused.json()["detail"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8765", "LOCALHOST", "[::1]:8765", "localhost."])
def test_our_own_names_are_known(host: str) -> None:
    assert client().get("/", headers={"host": host}).text == "inside"


def test_the_operator_names_further_hosts() -> None:
    settings = ServeSettings(allowed_hosts=("Films.local",))
    assert client(settings).get("/", headers={"host": "films.local:80"}).text == "inside"


def test_a_server_for_others_knows_numbers_but_not_foreign_names() -> None:
    settings = ServeSettings(host="0.0.0.0", token=TOKEN)
    assert is_known_host("192.168.1.20", settings)
    assert is_known_host("[2001:db8::1]", settings)
    assert not is_known_host("evil.example", settings)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_hazard_53_a_write_from_another_site_is_refused(headers: dict[str, str]) -> None:
    assert client().post("/api/search", headers=headers).status_code == 403


@pytest.mark.parametrize("headers", [{"origin": "http://127.0.0.1:8765"}, {}, {"sec-fetch-site": "same-origin"}])
def test_a_write_of_our_page_or_of_a_program_is_let_through(headers: dict[str, str]) -> None:
    assert client().post("/api/search", headers=headers).text == "inside"


def test_hazard_53_no_page_may_frame_us_and_nothing_is_loaded_from_elsewhere() -> None:
    for response in (client().get("/"), client().get("/", headers={"host": "evil.example"})):
        policy = response.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "http" not in policy
        assert response.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.20", "films.local"])
def test_hazard_55_an_open_address_without_a_token_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="a token is needed"):
        ServeSettings(host=host)
    assert ServeSettings(host=host, token=TOKEN).token == TOKEN


@pytest.mark.parametrize("token", ["", "short", "ключ-от-двери"])
def test_a_weak_token_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match="at least 8"):
        ServeSettings(token=token)


def test_without_the_token_the_api_says_so_and_the_page_asks_for_it() -> None:
    visitor = client(ServeSettings(token=TOKEN))
    refused = visitor.get("/api/search")
    assert refused.status_code == 401
    assert "Bearer" in refused.json()["detail"]
    asked = visitor.get("/")
    assert asked.status_code == 401
    assert '<form method="post" action="/session">' in asked.text
    assert TOKEN not in asked.text


def test_the_token_is_taken_from_header_cookie_or_address() -> None:
    visitor = client(ServeSettings(token=TOKEN))
    assert visitor.get("/api/search", headers={"authorization": f"Bearer {TOKEN}"}).text == "inside"
    assert visitor.get("/api/search", headers={"cookie": f"{COOKIE}={session_of(TOKEN)}"}).text == "inside"
    by_address = visitor.get("/", params={"q": "a red star", "token": TOKEN})
    assert (by_address.status_code, by_address.headers["location"]) == (303, "/?q=a+red+star")
    assert "HttpOnly" in by_address.headers["set-cookie"]
    assert "SameSite=strict" in by_address.headers["set-cookie"]
    assert TOKEN not in by_address.headers["set-cookie"]
    assert visitor.get("/").text == "inside"  # the cookie was kept


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer"},
        {"cookie": f"{COOKIE}={TOKEN}"},
        {"cookie": f"{COOKIE}="},
        {"cookie": "=;;,\x7f"},
        {"authorization": "Bearer \xff".encode("latin-1").decode("latin-1")},
    ],
)
def test_anything_else_is_no_token(headers: dict[str, str]) -> None:
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    assert client(ServeSettings(token=TOKEN)).get("/api/search", headers=raw).status_code == 401


def test_a_token_in_the_address_does_not_open_the_api() -> None:
    assert client(ServeSettings(token=TOKEN)).get("/api/search", params={"token": TOKEN}).status_code == 401


def test_health_is_told_to_everyone() -> None:
    assert client(ServeSettings(token=TOKEN)).get("/api/health").text == "inside"
