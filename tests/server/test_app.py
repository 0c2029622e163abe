"""What the application says when something goes wrong, and where it listens."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from evenreel.errors import (
    CorpusError,
    EncoderError,
    EvenreelError,
    LibraryError,
    MediaError,
    NotFoundError,
    UsageError,
)
from evenreel.server import ServeSettings, make_app
from evenreel.server import app as server_app
from evenreel.server.app import Connection, Crowd, answering, is_worth_saying
from evenreel.server.desk import BusyError

SECRET = "/home/ana/films"


def failing(folder: Path, error: Exception) -> TestClient:
    """A visitor of an application with an address that raises an error."""
    app = make_app(folder, ServeSettings(cache=folder))

    async def fail() -> None:
        raise error

    app.add_api_route("/api/v1/fail", fail)
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (LibraryError(f"{SECRET} is damaged."), 503),
        (EncoderError(f"The model in {SECRET} is not complete."), 400),
        (CorpusError(f"{SECRET} breaks a rule."), 503),
        (EvenreelError(f"{SECRET} sent no picture."), 503),
        (PermissionError(13, "Permission denied", SECRET), 503),
        (ValueError(SECRET), 500),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failure_is_a_sentence_that_does_not_tell_how_the_disk_is_laid_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, status: int
) -> None:
    caplog.set_level(logging.INFO, "evenreel")
    answer = failing(tmp_path, error).get("/api/v1/fail")
    assert (answer.status_code, set(answer.json())) == (status, {"detail"})
    assert SECRET not in answer.text and answer.json()["detail"].endswith(".")
    assert "retry-after" not in answer.headers  # it would be the same again
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-cache"
    assert status == 500 or SECRET in caplog.text  # a 500 is logged by what serves us
    assert "Traceback" not in caplog.text  # visitors can make as many of them as they like


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("The filter ends too early."), 400),
        (NotFoundError("There is no such clip."), 404),
        (MediaError("damaged", "The video is damaged."), 404),
        (BusyError("Too many wait."), 503),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_for_visitors_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, status: int
) -> None:
    answer = failing(tmp_path, error).get("/api/v1/fail")
    assert (answer.status_code, answer.json()) == (status, {"detail": str(error)})
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)
    assert not caplog.records


@pytest.mark.parametrize(
    "settings",
    [
        lambda port: ServeSettings(port=port),
        lambda _: ServeSettings(host="192.0.2.1", token="long enough"),
        lambda _: ServeSettings(host="a" * 70 + ".example", token="long enough"),
    ],
    ids=["taken", "not ours", "no name"],
)
def test_an_address_that_cannot_be_had_is_one_sentence_and_leaves_nothing_open(
    settings: Callable[[int], ServeSettings],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(UsageError, match="choose another with --port or --host") as caught:
            server_app._listening(settings(taken.getsockname()[1]))
        assert "\n" not in str(caught.value)
    del caught
    gc.collect()  # a socket that was left open warns here, and warnings fail


@pytest.mark.parametrize("path", ["/nothing", "/library/x", "/nothing/at/all?q=1"])
def test_an_address_of_nothing_is_a_page_to_browsers_and_a_sentence_to_programs(tmp_path: Path, path: str) -> None:
    visitor = TestClient(make_app(tmp_path, ServeSettings(cache=tmp_path)), base_url="http://127.0.0.1")
    page = visitor.get(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert '<a class="quiet" href="/">' in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    for accept in ("*/*", "application/json"):
        told = visitor.get(path, headers={"accept": accept})
        assert (told.status_code, told.headers["content-type"]) == (404, "application/json")
        assert set(told.json()) == {"detail"}
        assert "/api/v1/openapi.json" in told.json()["detail"]
    for answer in (page, told):
        assert "accept" in answer.headers["vary"].lower()
    assert set(visitor.get("/api/v1/nothing", headers={"accept": "text/html"}).json()) == {"detail"}
    wrong = visitor.post("/", headers={"accept": "text/html", "origin": "http://127.0.0.1"})
    assert (wrong.status_code, set(wrong.json())) == (405, {"detail"})


IDLE_S = 0.3
PATIENCE_S = 60.0  # a busy machine is no failure
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODILESS = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def quick(request: Request) -> Response:
    return PlainTextResponse("answered")


async def slow(request: Request) -> Response:
    await asyncio.sleep(3 * IDLE_S)
    return PlainTextResponse("answered")


async def body(request: Request) -> Response:
    with contextlib.suppress(ClientDisconnect):
        await request.body()
    return PlainTextResponse("answered")


@contextlib.asynccontextmanager
async def running(most: int = 100, idle_s: float = IDLE_S) -> AsyncIterator[tuple[int, uvicorn.Server]]:
    routes = [("/", quick), ("/slow", slow), ("/body", body)]
    app = Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path, answer in routes])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        http = partial(Connection, Crowd(most, idle_s))
        config = uvicorn.Config(answering(app), http=http, lifespan="off", ws="none", log_level="critical")  # type: ignore[arg-type]
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield listener.getsockname()[1], server
        server.should_exit = True
        await serving


async def until_hung_up(port: int, said: bytes, then: bytes = b"") -> tuple[bytes, float]:
    """What came back, and after how long the other side hung up; `then` is said byte by byte."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    trickle = asyncio.create_task(_trickle(writer, then))
    received = b""
    with contextlib.suppress(ConnectionResetError):  # a byte was on its way when the other side hung up
        while chunk := await asyncio.wait_for(reader.read(4096), PATIENCE_S):
            received += chunk
    trickle.cancel()
    writer.close()
    return received, time.perf_counter() - began


async def _trickle(writer: asyncio.StreamWriter, said: bytes) -> None:
    for byte in said:
        await asyncio.sleep(IDLE_S / 5)
        writer.write(bytes([byte]))


async def _hung_up(said: bytes, then: bytes) -> tuple[bytes, float]:
    async with running() as (port, _):
        return await until_hung_up(port, said, then)


@pytest.mark.parametrize(
    ("said", "then", "answers"),
    [
        (b"", b"", 0),
        (b"GET / HT", b"", 0),
        (b"GET / HTTP/1.1\r\n", b"Host: localhost\r\nX: " + b"x" * 2000, 0),
        (WHOLE, b"GET / HT", 1),
        (WHOLE + WHOLE + b"GET", b"", 2),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n", b"x" * 2000, 1),
    ],
    ids=["nothing", "half a line", "a header byte by byte", "a later one", "the third", "a body nobody reads"],
)
def test_who_brings_no_whole_request_is_hung_up_on(said: bytes, then: bytes, answers: int) -> None:
    received, took_s = asyncio.run(_hung_up(said, then))
    assert received.count(b"answered") == answers
    assert IDLE_S * 0.9 <= took_s < PATIENCE_S  # each of the longest takes two minutes to say


def test_an_answer_under_way_is_waited_for() -> None:
    received, took_s = asyncio.run(_hung_up(SLOW, b""))
    assert received.endswith(b"answered")
    assert took_s >= 3 * IDLE_S * 0.9


@pytest.mark.parametrize(
    ("held", "answers"),
    [(b"", 1), (b"GET / HT", 1), (WHOLE, 1), (BODILESS, 1), (SLOW, 0)],
    ids=["nothing", "half a line", "an answered one", "a body that never comes", "answers under way"],
)
def test_hazard_236_whoever_brings_no_whole_request_keeps_nobody_out(
    held: bytes, answers: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Nine come where three may be; then one asks, and each of them waits for as long as it likes."""

    async def crowd() -> tuple[bytes, int]:
        async with running(most=3, idle_s=PATIENCE_S) as (port, server):
            visitors = []
            for _ in range(9):
                visitors.append(await asyncio.open_connection("127.0.0.1", port))
                visitors[-1][1].write(held)
                await asyncio.sleep(0.01)
            received, _ = await until_hung_up(port, WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            most = len(server.server_state.connections)
            for _, writer in visitors:
                writer.close()
            return received, most

    received, most = asyncio.run(crowd())
    assert (received.count(b"answered"), most <= 3) == (answers, True)
    assert len(caplog.records) == (not answers)


def test_hazard_236_no_file_is_left_for_a_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is taken when there is one, and a minute of it is one line of the log."""
    really, refused = socket.socket.accept, [errno.EMFILE] * 2

    def accept(listener: socket.socket) -> object:
        if refused:
            raise OSError(refused.pop(), "Too many open files")
        return really(listener)

    monkeypatch.setattr(socket.socket, "accept", accept)
    monkeypatch.setattr(server_app, "_warned", {})
    log = logging.getLogger("asyncio")
    log.addFilter(is_worth_saying)

    async def ask() -> bytes:
        async with running() as (port, _):
            received, _ = await until_hung_up(port, SLOW)
            await asyncio.sleep(1.2)  # until asyncio listens again, as it does after a second
            return received

    try:
        received = asyncio.run(ask())
    finally:
        log.removeFilter(is_worth_saying)
    assert received.endswith(b"answered")
    assert [record.getMessage() for record in caplog.records] == ["a connection cannot be taken (Too many open files)"]
