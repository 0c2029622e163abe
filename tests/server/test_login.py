"""Who knows the token, and what becomes of who does not."""

from __future__ import annotations

import asyncio
import html
import re
import time
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

from evenreel.server import access
from evenreel.server.access import Guard, own_page, session_of
from evenreel.server.settings import ServeSettings

TOKEN = "correct horse battery"
COOKIE = "evenreel_session_8765"
DELAY_S = 0.05
RIGHT_COOKIE = f"{COOKIE}={session_of(TOKEN)}"


@pytest.fixture(autouse=True)
def _short_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "WRONG_TOKEN_DELAY_S", DELAY_S)


async def answer(request: Request) -> Response:
    return PlainTextResponse("inside")


def guard(settings: ServeSettings) -> Guard:
    paths = ("/", "/library", "/api/v1/search", "/api/v1/health", "/static/base.css", "/healthy")
    return Guard(Starlette(routes=[Route(path, answer) for path in paths]), settings)


def client(settings: ServeSettings | None = None) -> TestClient:
    app = guard(settings or ServeSettings(token=TOKEN))
    return TestClient(app, base_url="http://127.0.0.1:8765", follow_redirects=False)


@pytest.fixture
def visitor() -> TestClient:
    return client()


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


def test_what_everyone_may_see(visitor: TestClient) -> None:
    assert visitor.get("/api/v1/health").text == visitor.get("/static/base.css").text == "inside"
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


@pytest.mark.parametrize("neighbour", ['a={"x": 1}', "odd", "b=[1, 2]", 'c="', "=;;,"])
def test_a_neighbours_cookie_hides_nothing(visitor: TestClient, neighbour: str) -> None:
    for cookies in (f"{neighbour}; {RIGHT_COOKIE}", f"{RIGHT_COOKIE}; {neighbour}"):
        assert visitor.get("/api/v1/search", headers={"cookie": cookies}).text == "inside"


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
    assert (asked.status_code, "not that of this server" in asked.text) == (401, True)
    assert action(asked.text) == "/session?next=%2F%3Fq%3Dstar"
    assert "<script" not in visitor.get('/?q="><script>alert(1)</script>').text


def test_the_token_leaves_the_address_for_those_who_are_in_already(visitor: TestClient) -> None:
    for given_token in (TOKEN, "an old token"):
        sent = visitor.get("/library", params={"text": "a", "token": given_token}, headers={"cookie": RIGHT_COOKIE})
        assert (sent.status_code, sent.headers["location"]) == (303, "/library?text=a")


def test_logging_in_comes_back_to_the_address_that_was_asked_for(visitor: TestClient) -> None:
    asked = "/?q=a+%22red%22+star&where=source+%3D+%27a%26b%27&clip=0a1b&t=1.5"
    form = action(visitor.get(asked).text)
    wrong = visitor.post(form, data={"token": "wrong"})
    assert wrong.status_code == 401
    assert "That is not the token of this server." in wrong.text
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


@given(st.text(alphabet="/\\:?#@. \t\n\rae%", max_size=12))
def test_an_own_page_stays_here(address: str) -> None:
    page = own_page(address)
    without_what_browsers_drop = re.sub(r"[\t\r\n]", "", page).replace("\\", "/")
    assert re.match(r"/(?!/)", without_what_browsers_drop)


@pytest.mark.parametrize("body", [b"", b"token=" + b"x" * 10_000, b"\xff\xfe", f"other={TOKEN}".encode()])
def test_anything_else_in_the_form_is_no_token(visitor: TestClient, body: bytes) -> None:
    assert visitor.post("/session", content=body).status_code == 401


def test_reading_the_address_of_the_form_goes_to_the_page(visitor: TestClient) -> None:
    sent = visitor.get("/session?next=/library")
    assert (sent.status_code, sent.headers["location"]) == (303, "/library")
    assert "set-cookie" not in sent.headers


def test_a_server_without_a_token_lets_in_and_gives_no_cookie() -> None:
    visitor = client(ServeSettings())
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


def test_nothing_is_kept_of_those_who_have_been_answered() -> None:
    kept = access.Guesses()

    async def answered() -> None:
        await asyncio.gather(*(kept.wait(f"10.0.0.{number}") for number in range(50)))

    asyncio.run(answered())
    assert kept._lines == {}


@pytest.mark.parametrize("received", [[{"type": "http.disconnect"}], []], ids=["left", "too slow"])
def test_a_visitor_who_leaves_while_typing_or_is_too_slow_is_no_error(received: list[Message]) -> None:
    settings = ServeSettings(token=TOKEN, upload_timeout_s=0.05)
    assert asyncio.run(status(guard(settings), scope("/session", "10.0.0.9", {}, "POST"), received)) == 401
