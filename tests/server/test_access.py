"""Who may come in: host, origin, token, the size of what is sent, and whom a request comes from."""

from __future__ import annotations

import asyncio
import html
import re
import time
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message, Scope

from evenreel.errors import UsageError
from evenreel.server import app as access
from evenreel.server.app import BODY_BYTES, Guard, sender_of, session_of
from evenreel.server.settings import ServeSettings, proxy_network

TOKEN = "correct horse battery"
LEFT = b"the sender has gone"


async def answer(request: Request) -> Response:
    return PlainTextResponse("inside")


def guard(settings: ServeSettings) -> Guard:
    paths = ("/", "/library", "/api/v1/search", "/api/v1/health", "/static/base.css", "/healthy")
    return Guard(Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path in paths]), settings)


def client(settings: ServeSettings | None = None) -> TestClient:
    app = guard(settings or ServeSettings())
    return TestClient(app, base_url="http://127.0.0.1:8765", follow_redirects=False)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8765", "127.0.0.1.evil.example", "10.0.0.7", "", "[::2]", "localhost/evil.com"),
        *("127.0.0.1:80@evil.com", "127.0.0.1:80:80", "[::1]evil.com", "[::1]@evil.com:80"),
    ],
)
def test_hazard_53_a_foreign_host_is_refused(host: str) -> None:
    refused = client().get("/", headers={"host": host})
    assert (refused.status_code, "--allow-host" in refused.json()["detail"]) == (400, True)


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


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        *(("films.local", own) for own in ("127.0.0.1", "localhost:8765", "LOCALHOST", "[::1]:8765", "localhost.")),
        ("2001:db8::7", "[2001:db8::7]:80"),
        ("[2001:db8::7]", "[2001:db8::7]"),
        ("films_1.", "films_1"),
        ("Films.local", "films.local:80"),
    ],
)
def test_our_own_names_are_known_and_those_that_the_operator_adds(allowed: str, host: str) -> None:
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


COOKIE = "evenreel_session_8765"
DELAY_S = 0.05
RIGHT_COOKIE = f"{COOKIE}={session_of(TOKEN)}"


@pytest.fixture(autouse=True)
def _short_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "WRONG_TOKEN_DELAY_S", DELAY_S)


@pytest.fixture
def visitor() -> TestClient:
    return client(ServeSettings(token=TOKEN))


def action(page: str) -> str:
    found = re.search(r'<form method="post" action="([^"]+)">', page)
    assert found
    return html.unescape(found[1])


def test_without_the_token_the_api_says_so_and_the_page_asks_for_it(visitor: TestClient) -> None:
    refused = visitor.get("/api/v1/search")
    assert refused.status_code == 401
    assert "Bearer" in refused.json()["detail"]
    asked = visitor.get("/")
    assert asked.status_code == 401
    assert action(asked.text) == "/session?next=%2F"
    assert '<p id="problem" role="alert"></p>' in asked.text
    assert TOKEN not in asked.text
    assert visitor.get("/api/v1/health").text == visitor.get("/static/base.css").text == "inside"  # for everyone
    assert visitor.get("/healthy").status_code == 401


def test_the_token_is_taken_from_header_cookie_or_address(visitor: TestClient) -> None:
    assert visitor.get("/api/v1/search", headers={"authorization": f"Bearer {TOKEN}"}).text == "inside"
    assert visitor.get("/api/v1/search", headers={"cookie": RIGHT_COOKIE}).text == "inside"
    by_address = visitor.get(f"/?q=a%20red+star&token={TOKEN.replace(' ', '+')}")
    assert (by_address.status_code, by_address.headers["location"]) == (303, "/?q=a%20red+star")
    assert "HttpOnly" in by_address.headers["set-cookie"]
    assert "SameSite=lax" in by_address.headers["set-cookie"]  # a link in a message has to let in as well
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
        {"authorization": "Bearer \xff"},
    ],
)
def test_anything_else_is_no_token(visitor: TestClient, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    assert visitor.get("/api/v1/search", headers=raw).status_code == 401


def test_a_token_in_the_address_opens_no_api_and_holds_one_guess(visitor: TestClient) -> None:
    assert visitor.get("/api/v1/search", params={"token": TOKEN}).status_code == 401
    assert visitor.get(f"/?token={TOKEN}&token=wrong").status_code == 401
    asked = visitor.get("/?q=star&token=wrong")
    assert (asked.status_code, "The token in the address is wrong." in asked.text) == (401, True)
    assert action(asked.text) == "/session?next=%2F%3Fq%3Dstar"
    assert "<script" not in visitor.get('/?q="><script>alert(1)</script>').text


def test_logging_in_comes_back_to_the_address_that_was_asked_for(visitor: TestClient) -> None:
    asked = "/?q=a+%22red%22+star&where=source+%3D+%27a%26b%27&clip=0a1b&t=1.5"
    form = action(visitor.get(asked).text)
    wrong = visitor.post(form, data={"token": "wrong"})
    assert wrong.status_code == 401
    assert "This token is wrong." in wrong.text
    assert action(wrong.text) == form
    right = visitor.post(form, data={"token": TOKEN})
    assert right.status_code == 303
    assert parse_qs(urlsplit(right.headers["location"]).query) == parse_qs(urlsplit(asked).query)
    assert visitor.get(right.headers["location"]).text == "inside"


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "", "/\t/evil"]
)
def test_nobody_is_sent_elsewhere(visitor: TestClient, elsewhere: str) -> None:
    sent = visitor.post("/session", params={"next": elsewhere}, data={"token": TOKEN})
    assert (sent.status_code, sent.headers["location"]) == (303, "/")
    assert "set-cookie" in sent.headers
    by_path = visitor.get(f"http://127.0.0.1:8765//evil.example/?token={TOKEN}")
    assert by_path.headers["location"] == "/"


def test_a_server_without_a_token_lets_in_and_gives_no_cookie() -> None:
    visitor = client()
    assert visitor.get("/api/v1/search").text == "inside"
    for sent in (visitor.post("/session?next=/library", data={"token": "any"}), visitor.get("/library?token=any")):
        assert (sent.status_code, sent.headers["location"]) == (303, "/library")
        assert "set-cookie" not in sent.headers


def scope(path: str, address: str, headers: dict[str, str], method: str = "GET") -> Scope:
    path, _, query = path.partition("?")
    raw = [(name.encode(), value.encode()) for name, value in {"host": "127.0.0.1", **headers}.items()]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": raw,
        "client": (address, 1),
        "server": ("127.0.0.1", 8765),
    }


async def status(app: Guard, asked: Scope, received: list[Message] | None = None) -> int:
    messages = [{"type": "http.request", "body": b"token=wrong"}] if received is None else list(received)
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0) if messages else await asyncio.Event().wait()  # type: ignore[return-value]

    async def send(message: Message) -> None:
        sent.append(message)

    await app(asked, receive, send)
    return int(sent[0]["status"])


def guesses(address: str) -> list[Scope]:
    return [
        scope("/api/v1/search", address, {"authorization": "Bearer wrong"}),
        scope("/api/v1/search", address, {"cookie": f"{COOKIE}=wrong"}),
        scope("/?token=wrong", address, {}),
        scope("/session", address, {}, "POST"),
    ]


def test_wrong_tokens_of_an_address_are_answered_one_after_another() -> None:
    async def timed() -> tuple[list[int], float]:
        app, began = guard(ServeSettings(token=TOKEN)), time.perf_counter()
        found = await asyncio.gather(*(status(app, guess) for guess in guesses("10.0.0.9") * 2))
        return found, time.perf_counter() - began

    found, took_s = asyncio.run(timed())
    assert found == [401] * 8
    assert took_s >= 8 * DELAY_S * 0.9


RIGHT = [
    ("/api/v1/search", {"authorization": f"Bearer {TOKEN}"}, 200),
    ("/", {"cookie": RIGHT_COOKIE}, 200),
    (f"/?token={quote(TOKEN)}", {}, 303),
]


@pytest.mark.parametrize("count", [14, 200])
def test_no_crowd_of_wrong_tokens_keeps_a_right_one_out(count: int) -> None:
    """Behind a proxy all visitors come from one address."""

    async def crowd() -> tuple[list[int], list[int]]:
        app = guard(ServeSettings(token=TOKEN))
        many = (guesses("10.0.0.9")[:3] * count)[:count]  # without the form, which has to be read first
        wrong = [asyncio.create_task(status(app, guess)) for guess in many]
        await asyncio.sleep(0)
        right = [await status(app, scope(path, "10.0.0.9", headers)) for path, headers, _ in RIGHT]
        right.append(await status(app, scope("/api/v1/search", "10.0.0.1", {"cookie": RIGHT_COOKIE})))
        typed: list[Message] = [{"type": "http.request", "body": f"token={quote(TOKEN)}".encode()}]
        right.append(await status(app, scope("/session", "10.0.0.9", {}, "POST"), typed))
        assert not all(task.done() for task in wrong)  # so nobody had to wait until they were answered
        return right, await asyncio.gather(*wrong)

    right, wrong = asyncio.run(crowd())
    assert right == [*(expected for *_, expected in RIGHT), 200, 303]
    assert wrong == [401] * access.LONGEST_LINE + [429] * (count - access.LONGEST_LINE)


def test_those_who_guess_behind_a_trusted_proxy_are_told_apart() -> None:
    async def crowd(proxies: tuple[str, ...]) -> list[int]:
        app = guard(ServeSettings(token=TOKEN, trusted_proxies=proxies))
        wrong = {"authorization": "Bearer wrong"}
        sent = [{**wrong, "x-forwarded-for": f"192.0.2.{number}"} for number in range(access.LONGEST_LINE + 4)]
        return await asyncio.gather(*(status(app, scope("/api/v1/search", "10.0.0.9", headers)) for headers in sent))

    assert asyncio.run(crowd(("10.0.0.0/24",))) == [401] * (access.LONGEST_LINE + 4)
    assert asyncio.run(crowd(())) == [401] * access.LONGEST_LINE + [429] * 4


@pytest.mark.parametrize("received", [[{"type": "http.disconnect"}], []], ids=["left", "too slow"])
def test_a_visitor_who_leaves_while_typing_or_is_too_slow_is_no_error(received: list[Message]) -> None:
    settings = ServeSettings(token=TOKEN, upload_timeout_s=0.05)
    assert asyncio.run(status(guard(settings), scope("/session", "10.0.0.9", {}, "POST"), received)) == 401


PROXY, INNER = "10.0.0.2", "10.0.1.7"


def sender(peer: str | None, *forwarded: str, proxies: tuple[str, ...] = ()) -> str:
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    scope = {"type": "http", "headers": headers, "client": None if peer is None else (peer, 1)}
    return sender_of(scope, [proxy_network(proxy) for proxy in proxies])


def test_without_a_trusted_proxy_the_connection_counts() -> None:
    assert sender("192.0.2.1", "198.51.100.7") == "192.0.2.1"
    assert sender("192.0.2.1", "198.51.100.7", proxies=(PROXY,)) == "192.0.2.1"
    assert sender(None, "198.51.100.7", proxies=(PROXY,)) == sender(None) == ""


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        (("198.51.100.7",), "198.51.100.7"),
        (("1.1.1.1, 198.51.100.7",), "198.51.100.7"),  # the first one is what the visitor wrote himself
        (("1.1.1.1", "198.51.100.7"), "198.51.100.7"),
        ((f"1.1.1.1, 198.51.100.7, {INNER}",), "198.51.100.7"),  # through both proxies
        (("198.51.100.7:4711",), "198.51.100.7"),
        (("2001:db8:1:2:3:4:5:6",), "2001:db8:1:2::/64"),
        (("[2001:db8:1:2::9]:443",), "2001:db8:1:2::/64"),
        (("::ffff:198.51.100.7",), "198.51.100.7"),
        (("unknown",), PROXY),
        (("198.51.100.7, nonsense",), PROXY),
        ((f"nonsense, {INNER}",), INNER),
        (("",), PROXY),
        ((), PROXY),
        ((f"{INNER}, {PROXY}",), INNER),  # the proxy itself asks
    ],
)
def test_a_trusted_proxy_says_whom_it_was_called_by(forwarded: tuple[str, ...], expected: str) -> None:
    assert sender(PROXY, *forwarded, proxies=(PROXY, "10.0.1.0/24")) == expected


@given(st.text(alphabet="0123456789abcdef.:,[] \t%-", max_size=40))
def test_what_a_visitor_writes_never_changes_who_he_is(written: str) -> None:
    for way in ((f"{written},198.51.100.7",), (written, "198.51.100.7")):
        assert sender(PROXY, *way, proxies=(PROXY,)) == "198.51.100.7"
