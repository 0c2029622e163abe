"""Connections end by themselves, answers under way do not; served by a real uvicorn with a short limit."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import AsyncIterator
from functools import partial

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from evenreel.server import app as server_app
from evenreel.server.app import Connection, Crowd, answering, is_worth_saying

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
