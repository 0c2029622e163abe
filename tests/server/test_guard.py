"""Who may come in: hazards 53 and 55, and the token."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from evenreel.errors import UsageError
from evenreel.server.access import BODY_BYTES, Guard
from evenreel.server.settings import ServeSettings, is_known_host

TOKEN = "correct horse battery"
LEFT = b"the sender has gone"


async def answer(request: Request) -> Response:
    return PlainTextResponse("inside", headers={"cache-control": "max-age=60"} if request.url.path == "/kept" else None)


def client(settings: ServeSettings | None = None, base_url: str = "http://127.0.0.1:8765") -> TestClient:
    paths = ("/", "/kept", "/api/v1/search", "/api/v1/health")
    app = Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path in paths])
    guarded = Guard(app, settings or ServeSettings())
    return TestClient(guarded, base_url=base_url, follow_redirects=False)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "10.0.0.7",
        "",
        "[::2]",
        "127.0.0.1:80@evil.com",
        "127.0.0.1:80:80",
        "[::1]evil.com",
        "[::1]@evil.com:80",
        "localhost/evil.com",
    ],
)
def test_hazard_53_a_foreign_host_is_refused(host: str) -> None:
    refused = client().get("/", headers={"host": host})
    assert (refused.status_code, "--allow-host" in refused.json()["detail"]) == (400, True)


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
    assert client().post("/api/v1/search", headers=headers).status_code == 403


@pytest.mark.parametrize("headers", [{"origin": "http://127.0.0.1:8765"}, {}, {"sec-fetch-site": "same-origin"}])
def test_a_write_of_our_page_or_of_a_program_is_let_through(headers: dict[str, str]) -> None:
    assert client().post("/api/v1/search", headers=headers).text == "inside"


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


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8765", "LOCALHOST", "[::1]:8765", "localhost."])
def test_our_own_names_are_known(host: str) -> None:
    assert client().get("/", headers={"host": host}).text == "inside"


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        ("2001:db8::7", "[2001:db8::7]:80"),
        ("[2001:db8::7]", "[2001:db8::7]"),
        ("films_1.", "films_1"),
        ("Films.local", "films.local:80"),
    ],
)
def test_the_operator_names_further_hosts(allowed: str, host: str) -> None:
    assert client(ServeSettings(allowed_hosts=(allowed,))).get("/", headers={"host": host}).text == "inside"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        *(({"token": token}, "at least 8") for token in ("", "short", "ключ-от-двери")),
        *(({"port": port}, "the last one is 65535") for port in (-1, 65_536)),
        *(
            ({"allowed_hosts": (name,)}, "without scheme, port and path")
            for name in ("films.local:8765", "http://films.local", "films.local/", "", "cafe:80", "[::1]:80")
        ),
        *(
            ({"trusted_proxies": (proxy,)}, "neither the address nor the network")
            for proxy in ("", "proxy.example", "10.0.0.0/33", "10.0.0.1:80", "*")
        ),
        ({"rerank": "matcher", "vision": False}, "leave out --rerank or --no-vision"),
        ({"rerank": "matcher", "rerank_depth": 0}, "clips to re-rank is 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        ServeSettings(**settings)


def test_another_site_may_link_to_a_page_but_not_use_the_api() -> None:
    from_elsewhere = {"sec-fetch-site": "cross-site"}
    assert client().get("/", headers=from_elsewhere).text == "inside"
    refused = client().get("/api/v1/search", headers=from_elsewhere)
    assert (refused.status_code, refused.json()) == (403, {"detail": "The request comes from another site."})
    assert client().get("/api/v1/search", headers={"sec-fetch-site": "same-origin"}).text == "inside"


def test_what_says_nothing_of_how_long_it_holds_is_asked_for_again() -> None:
    assert client().get("/").headers["cache-control"] == "no-cache"
    assert client().get("/", headers={"host": "evil.example"}).headers["cache-control"] == "no-cache"
    assert client().get("/kept").headers.get_list("cache-control") == ["max-age=60"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ([b"a" * BODY_BYTES], 200),
        ([b"a" * BODY_BYTES, b"a"], 413),
        ([b"a"] * 1000, 200),
        ([b"a", None], 408),
        ([None], 408),
        ([b"a", LEFT], None),
    ],
)
def test_hazard_237_a_body_is_bounded_in_size_and_time_on_every_address(
    sent: list[bytes | None], status: int | None
) -> None:
    """None stands for what never comes. Nothing of a refused request, or of one that was broken off, is passed on."""
    chunks, reached, answered = list(sent), list[bytes](), list[Message]()

    async def receive() -> Message:
        chunk = chunks.pop(0)
        if chunk is None:
            await asyncio.sleep(60)
        if chunk is LEFT:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    async def send(message: Message) -> None:
        answered.append(message)

    async def inside(request: Request) -> Response:
        reached.append(await request.body())
        return PlainTextResponse("inside")

    app = Starlette(routes=[Route("/api/v1/mark", inside, methods=["POST"])])
    scope = {"type": "http", "method": "POST", "path": "/api/v1/mark", "query_string": b""}
    scope["headers"] = [(b"host", b"127.0.0.1")]
    asyncio.run(Guard(app, ServeSettings(upload_timeout_s=0.1))(scope, receive, send))
    assert [message["status"] for message in answered if "status" in message] == ([] if status is None else [status])
    assert reached == ([b"".join(filter(None, sent))] if status == 200 else [])
