"""The command as a person runs it: it says where it is, serves, and ends when told to."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_library_commands import here
from tests.server.conftest import PATIENCE_S, Served, rendered, served

__all__ = ["rendered", "served"]

TOKEN = "correct horse battery"
HALF = (
    b"",
    b"GET /api/v1/sea",
    b"POST /api/v1/search/image HTTP/1.1\r\nHost: localhost\r\n",
    b"POST /api/v1/search/image HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 999\r\n\r\nx",
)
"""Requests that do not go on."""


@contextlib.contextmanager
def running(library: Path, *options: str, token: str | None = None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command, serving on a free port, and that port."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(library.parent / "cache"), "OMP_NUM_THREADS": "1"}
    environment |= {"EVENREEL_TOKEN": token} if token else {}
    process = subprocess.Popen(
        [sys.executable, "-m", "evenreel", "serve", "--library", str(library), "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", said)
        assert found, said + (process.stderr.read() if process.stderr else "")
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


def get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body) if answer.headers["content-type"] == "application/json" else body


def wait_for(port: int, path: str, key: str, until: set[str]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    answer: dict[str, Any] = get(port, path)[1]
    while answer[key] not in until:
        assert time.monotonic() < deadline, f"{path} still says {answer}"
        time.sleep(0.1)
        answer = get(port, path)[1]
    return answer


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_end(served: Served, ended_by: signal.Signals) -> None:
    with running(served.library, "--no-vision") as (process, port):
        status, answer = get(port, "/api/v1/search?q=harbour")
        assert (status, answer["hits"][0]["on_screen"][0]["text"]) == (200, "HARBOUR")
        held = socket.create_connection(("127.0.0.1", port))  # a visitor who does not hang up
        process.send_signal(ended_by)
        _, complained = process.communicate(timeout=PATIENCE_S)
        held.close()
        assert (process.returncode, complained) == (0, "")


@pytest.mark.usefixtures("interruptible")
def test_it_ends_quietly_while_a_request_is_answered(served: Served) -> None:
    with running(served.library, "--no-vision", token=TOKEN) as (process, port):
        slow = socket.create_connection(("127.0.0.1", port))
        slow.sendall(b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\ntoken=")
        assert get(port, "/api/v1/stats")[0] == 401  # so it has begun
        process.send_signal(signal.SIGINT)
        _, complained = process.communicate(timeout=PATIENCE_S)
        slow.close()
        assert (process.returncode, complained) == (0, "")


def test_hazard_54_slow_visitors_hold_nobody_up(served: Served) -> None:
    with running(served.library, "--no-vision") as (_, port), contextlib.ExitStack() as slow:
        for number in range(200):
            visitor = slow.enter_context(socket.create_connection(("127.0.0.1", port)))
            visitor.sendall(HALF[number % len(HALF)])
        began = time.monotonic()
        assert get(port, "/api/v1/search?q=harbour")[0] == 200
        assert time.monotonic() - began < 10


def test_trying_again_takes_in_what_was_mended(served: Served, tmp_path: Path) -> None:
    broken = served.videos / "broken.mp4"
    shutil.copytree(served.library, tmp_path / "library")
    with running(tmp_path / "library") as (_, port):
        assert get(port, "/api/v1/retry")[1]["state"] == "idle"
        assert get(port, "/api/v1/retry", "POST", Origin="http://evil.example")[0] == 403
        assert get(port, "/api/v1/files?state=set_aside")[1]["total"] == 1
        before = broken.read_bytes()
        broken.write_bytes((served.videos / "star.mp4").read_bytes())
        try:
            status, answer = get(port, "/api/v1/retry", "POST", Origin=f"http://127.0.0.1:{port}")
            assert (status, answer["state"]) == (202, "running")
            ended = wait_for(port, "/api/v1/retry", "state", {"done", "failed"})
            assert ended == {"state": "done", "sentence": "1 file taken in; 0 files still set aside."}
            assert get(port, "/api/v1/files?state=set_aside")[1]["total"] == 0
        finally:
            broken.write_bytes(before)


def test_the_token_opens_the_api(served: Served) -> None:
    with running(served.library, "--no-vision", token=TOKEN) as (_, port):
        assert get(port, "/api/v1/stats")[0] == 401
        assert get(port, "/api/v1/stats", Authorization=f"Bearer {TOKEN}")[0] == 200


def refused(*options: str) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EVENREEL_TOKEN", raising=False)
        done = here("serve", *options)
    return done.returncode, done.stderr


def test_hazard_55_others_are_not_served_without_a_token(served: Served) -> None:
    code, complained = refused("--library", str(served.library), "--host", "0.0.0.0")
    assert code == 2
    assert "a token is needed" in complained
    assert "--token" in complained


def test_a_host_with_a_port_is_refused(served: Served) -> None:
    code, complained = refused("--library", str(served.library), "--allow-host", "films.example:8765")
    assert (code, complained.count("\n")) == (2, 1)
    assert "without scheme, port and path" in complained


def test_a_port_that_is_taken_is_one_sentence(served: Served) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, complained = refused("--library", str(served.library), "--port", str(taken.getsockname()[1]))
    assert code == 2
    assert complained.count("\n") == 1
    assert "--port" in complained


def test_without_a_library_it_does_not_start(tmp_path: Path) -> None:
    code, complained = refused("--library", str(tmp_path / "none"))
    assert (code, complained.count("\n")) == (1, 1)
    assert "evenreel index" in complained
