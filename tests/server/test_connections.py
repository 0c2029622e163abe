"""Connections end by themselves, answers under way do not; served by a real uvicorn with a short limit."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from evenreel.server.connections import timed_protocol

IDLE_S = 0.3
PATIENCE_S = 60.0  # a busy machine is no failure
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def quick(request: Request) -> Response:
    return PlainTextResponse("answered")


async def slow(request: Request) -> Response:
    await asyncio.sleep(3 * IDLE_S)
    return PlainTextResponse("answered")


@contextlib.asynccontextmanager
async def running(connections: int = 100, idle_s: float = IDLE_S) -> AsyncIterator[int]:
    app = Starlette(routes=[Route("/", quick, methods=["GET", "POST"]), Route("/slow", slow)])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app,
            http=timed_protocol(idle_s),
            limit_concurrency=connections,
            lifespan="off",
            ws="none",
            log_level="critical",
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield listener.getsockname()[1]
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
    async with running() as port:
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


def test_past_the_limit_of_connections_the_answer_is_503() -> None:
    async def crowd() -> bytes:
        async with running(connections=3, idle_s=PATIENCE_S) as port:
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            received, _ = await until_hung_up(port, WHOLE)
            for _, writer in held:
                writer.close()
            return received

    assert asyncio.run(crowd()).startswith(b"HTTP/1.1 503")
