"""`evenreel mcp` as it is started: who may come over HTTP, what a pipe survives, how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from evenreel.server.assistants import InputRelay, make_http_app
from evenreel.server.settings import ServeSettings
from tests.cli.test_library_commands import here
from tests.server.conftest import Served, rendered, served

__all__ = ["rendered", "served"]

TOKEN = "correct horse battery"
ACCEPTED = {"accept": "application/json, text/event-stream"}
FIRST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}},
}


def asked(number: int, query: object) -> dict[str, Any]:
    called = {"name": "search", "arguments": {"query": query}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": called}


@pytest.fixture
def visitor(served: Served) -> Iterator[TestClient]:
    settings = ServeSettings(cache=served.settings.cache, painters=1, token=TOKEN, vision=False)
    with TestClient(make_http_app(served.library, settings), base_url="http://127.0.0.1:8765") as client:
        yield client


def test_who_may_come_over_http_is_decided_as_for_the_page(visitor: TestClient) -> None:
    right = {**ACCEPTED, "authorization": f"Bearer {TOKEN}"}
    wrong = {**ACCEPTED, "authorization": "Bearer of bad news"}
    cases = [
        (right, 200, '"serverInfo"'),
        (ACCEPTED, 401, "This server needs its token: send it as 'Authorization: Bearer TOKEN'."),
        (wrong, 401, "This server needs its token"),
        ({**right, "host": "evil.example"}, 400, "The Host header names no address of this server"),
        ({**right, "origin": "https://evil.example"}, 403, "The request comes from another site."),
    ]
    for headers, status, sentence in cases:
        answer = visitor.post("/mcp", json=FIRST, headers=headers)
        assert (answer.status_code, sentence in answer.text) == (status, True), answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert visitor.get("/mcp", headers={**right, "sec-fetch-site": "cross-site"}).status_code == 403
    beside = visitor.get("/api/v1/stats", headers=right)
    assert (beside.status_code, "assistants are answered at /mcp" in beside.text) == (404, True)


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b"{" * 50_000, b'{"jsonrpc": "2.0", "id": 1}', b"\xff\xfe"])
def test_what_is_no_request_is_refused(visitor: TestClient, body: bytes) -> None:
    headers = {**ACCEPTED, "authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    assert 400 <= visitor.post("/mcp", content=body, headers=headers).status_code < 500
    assert visitor.post("/mcp", json=FIRST, headers=headers).status_code == 200


@contextlib.contextmanager
def piped(library: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "evenreel", "mcp", "--library", str(library), "--no-vision", *options]
    environment = {**os.environ, "XDG_CACHE_HOME": str(library.parent)}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def tell(process: subprocess.Popen[str], *lines: str) -> None:
    assert process.stdin is not None
    process.stdin.write("".join(f"{line}\n" for line in lines))
    process.stdin.flush()


def heard(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return dict(json.loads(process.stdout.readline()))


INVALID, UNREADABLE, UNKNOWN, PARAMETERS = -32600, -32700, -32601, -32602
WRONG: list[tuple[str, int | None, int]] = [
    ("no json", None, UNREADABLE),
    ("[" * 100_000, None, UNREADABLE),
    ('{"jsonrpc": "2.0", "id": 2, "method": "ping"', None, UNREADABLE),
    ('{"jsonrpc": "2.0", "id": 3, "method": "\\ud800"}', None, UNREADABLE),
    *((one, None, INVALID) for one in ("null", "5", '"x"', "[]", "{}", '{"jsonrpc": "2.0"}')),
    ('[{"jsonrpc": "2.0", "id": 4, "method": "ping"}]', None, INVALID),
    ('{"jsonrpc": "1.0", "id": 5, "method": "ping"}', 5, INVALID),
    ('{"id": 6, "method": "ping"}', 6, INVALID),
    ('{"jsonrpc": "2.0", "id": 7}', 7, INVALID),
    ('{"jsonrpc": "2.0", "id": 8, "method": 9}', 8, INVALID),
    ('{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": [1]}', 9, INVALID),
    *(
        (f'{{"jsonrpc": "2.0", "id": {one}, "method": "ping"}}', None, INVALID)
        for one in ("null", "true", "1.5", "[1]")
    ),
    ('{"jsonrpc": "2.0", "id": 10, "result": 5}', None, INVALID),
    ('{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []}', None, INVALID),
    ('{"jsonrpc": "2.0", "id": 11, "method": "nothing"}', 11, UNKNOWN),
    ('{"jsonrpc": "2.0", "id": 12, "method": "tools/call"}', 12, PARAMETERS),
    (
        '{"jsonrpc": "2.0", "id": 13, "method": "tools/call", "params": {"name": "search", "arguments": []}}',
        13,
        PARAMETERS,
    ),
]


def test_hazard_126_every_line_that_is_no_request_gets_its_error(served: Served) -> None:
    with piped(served.library) as process:
        for line, number, code in [WRONG[0], (json.dumps(FIRST), 1, 0), *WRONG]:
            tell(process, "", line)
            told = heard(process)
            assert (told["id"], told.get("error", {"code": 0})["code"]) == (number, code), line
        tell(process, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        tell(process, json.dumps(asked(2, "harbour\0")), json.dumps(asked(3, {"a": "dictionary"})))
        answers = {(answer := heard(process))["id"]: answer["result"] for _ in range(2)}
        assert len(answers[2]["structuredContent"]["answers"]) == 4
        assert answers[3]["content"][0]["text"] == "query: input should be a valid string"
        rest, errors = process.communicate()  # its input ends
        assert (process.returncode, rest, errors) == (0, "", "")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_asked_to_though_its_input_goes_on(served: Served, number: int) -> None:
    with piped(served.library) as process:
        tell(process, json.dumps(FIRST))
        assert heard(process)["id"] == 1
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stderr is not None and process.stderr.read() == ""


def test_a_relay_hands_on_all_of_its_input_and_ends_once() -> None:
    before = os.dup(0)
    read, write = os.pipe()
    os.dup2(read, 0)
    os.close(read)
    try:
        relay = InputRelay()
        os.write(write, b"some words")
        assert os.read(relay.lines.fileno(), 100) == b"some words"
        assert os.read(0, 100) == b""  # what children would read
        relay.end()
        relay.end()
        assert relay.lines.read() == ""
        relay.lines.close()
    finally:
        os.close(write)
        os.dup2(before, 0)
        os.close(before)


@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        (("--port", "9000"), 2, "--host and --port are of an address; add --http to answer there."),
        (("--http", "--host", "0.0.0.0"), 2, "0.0.0.0 can be reached by others, so a token is needed: --token,"),
        (("--library", "/nowhere"), 1, "There is no library at"),
    ],
)
def test_what_cannot_be_served_is_said_at_once(
    served: Served, options: tuple[str, ...], status: int, sentence: str
) -> None:
    done = here("mcp", "--library", served.library, *options)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (status, "", 1)
    assert done.stderr.startswith(f"evenreel: {sentence}")
