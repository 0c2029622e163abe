"""The command as a person runs it: it says where it is, serves, and ends when told to; and its Python client."""

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

import psutil
import pytest

from evenreel.library import open_library, verify
from scripts.python_client.__main__ import ENVIRONMENT, generate
from tests.cli.test_library_commands import here
from tests.conftest import REPOSITORY
from tests.server.conftest import PATIENCE_S, Served, rendered, served, wait_until

__all__ = ["rendered", "served"]

TOKEN = "correct horse battery"
KNOWN = {"authorization": f"Bearer {TOKEN}"}
WORKERS = pytest.mark.skipif(os.name != "posix", reason="several processes share a port on Linux and macOS only")
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


class Visitor:
    """A connection of its own, which one worker keeps."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, said: object = None, **headers: str) -> tuple[int, Any]:
        headers |= {} if said is None else {"content-type": "application/json"}
        self.connection.request(method, path, None if said is None else json.dumps(said), headers)
        answer = self.connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if answer.headers["content-type"] == "application/json" else text


def get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
    visitor = Visitor(port)
    with contextlib.closing(visitor.connection):
        return visitor.ask(method, path, **headers)


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
        assert get(port, "/api/v1/stats", **KNOWN)[0] == 200
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
            assert ended == {"state": "done", "sentence": "1 file added; 0 files still skipped."}
            assert get(port, "/api/v1/files?state=set_aside")[1]["total"] == 0
        finally:
            broken.write_bytes(before)


def refused(*options: str) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EVENREEL_TOKEN", raising=False)
        done = here("serve", *options)
    return done.returncode, done.stderr


def test_hazard_55_others_are_not_served_without_a_token(served: Served) -> None:
    code, complained = refused("--library", str(served.library), "--host", "0.0.0.0")
    assert code == 2 and "a token is needed" in complained


@pytest.mark.parametrize("workers", [(), pytest.param(("--workers", "2"), marks=WORKERS)])
def test_a_port_that_is_taken_is_one_sentence(served: Served, workers: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, complained = refused("--library", str(served.library), "--no-vision", *workers, "--port", port)
    assert (code, complained.count("\n")) == (2, 1)
    assert f"port {port} is not free" in complained or "--port" in complained


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that answer; not the one that keeps track of what they share, and none that has died."""
    found = []
    for one in psutil.Process(process.pid).children():
        with contextlib.suppress(psutil.Error):
            if "resource_tracker" not in " ".join(one.cmdline()):
                found.append(one)
    return found


def asked(port: int) -> bool:
    """Whether a search is answered, also where a process has just gone."""
    try:
        return get(port, "/api/v1/search?q=harbour")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


@WORKERS
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_that_dies_is_replaced_and_all_end_quietly(served: Served, ended_by: signal.Signals) -> None:
    with running(served.library, "--no-vision", "--workers", "2") as (process, port):
        wait_until(lambda: asked(port))
        before = workers_of(process)
        assert len(before) == 2
        before[0].kill()
        wait_until(lambda: len(workers_of(process)) == 2 and before[0] not in workers_of(process))
        last = workers_of(process)
        before[1].kill()  # the new one answers where the other is gone
        wait_until(lambda: asked(port))
        wait_until(lambda: len(workers_of(process)) == 2)
        last += workers_of(process)
        process.send_signal(ended_by)
        _, complained = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, complained) == (0, "")
        assert psutil.wait_procs(last, PATIENCE_S)[1] == []


@WORKERS
def test_nothing_is_left_where_the_process_that_listens_is_killed(served: Served) -> None:
    with running(served.library, "--no-vision", "--workers", "2") as (process, port):
        wait_until(lambda: asked(port))
        begun = workers_of(process)
        process.kill()
        assert len(begun) == 2
        assert psutil.wait_procs(begun, PATIENCE_S)[1] == []


@WORKERS
def test_only_who_has_the_token_writes_and_each_worker_sees_it(served: Served, tmp_path: Path) -> None:
    library = tmp_path / "library"
    shutil.copytree(served.library, library)
    with open_library(library, vision=False) as reader:
        clips = [file.clip_id for file in reader.files("indexed").files]
    with running(library, "--workers", "2", "--no-vision", token=TOKEN) as (_, port), contextlib.ExitStack() as opened:
        visitors = [Visitor(port) for _ in range(4)]
        for visitor in visitors:
            opened.callback(visitor.connection.close)
        marked = [f"/api/v1/clips/{clip_id}/mark" for clip_id in clips]
        assert visitors[0].ask("POST", marked[0], {"favourite": True})[0] == 401
        assert visitors[0].ask("GET", "/api/v1/marks")[0] == 401
        assert visitors[0].ask("GET", "/api/v1/marks", **KNOWN) == (200, [])
        for number, (visitor, path) in enumerate(zip(visitors, marked, strict=True)):
            said = {"favourite": True, "note": f"note {number}"}
            assert visitor.ask("POST", path, said, **KNOWN)[0] == 200
            for other in visitors:
                marks = other.ask("GET", "/api/v1/marks", **KNOWN)[1]
                assert [mark["note"] for mark in marks] == [f"note {before}" for before in range(number + 1)]
                found = other.ask("GET", "/api/v1/search?q=harbour&where=favourite&fold=false", **KNOWN)[1]
                assert {hit["clip_id"] for hit in found["hits"]} == set(clips[: number + 1])
        assert visitors[1].ask("DELETE", marked[0])[0] == 401
        assert visitors[1].ask("DELETE", marked[0], **KNOWN)[0] == 204
    with open_library(library, vision=False) as reader:
        assert len(reader.personal.marks()) == 3
    assert verify(library) == []


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the generated client."""
    if not ENVIRONMENT.is_dir():
        pytest.skip(f"the generator is not in {ENVIRONMENT} (make test puts it there, Python 3.11)")
    folder = tmp_path_factory.mktemp("generated") / "client"
    generate(folder)
    return folder


def run_program(client: Path, code: str, address: str) -> subprocess.CompletedProcess[str]:
    """Run a program where there is the client and no evenreel."""
    environment = {**os.environ, "PYTHONPATH": str(client), "EVENREEL_ADDRESS": address, "EVENREEL_TOKEN": TOKEN}
    command = [str(ENVIRONMENT / "python"), "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def example() -> str:
    """The program of the page on assistants and programs."""
    (code,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / "programs.md").read_text("utf-8"), re.DOTALL)
    return str(code)


def test_the_example_of_the_page_gets_the_answers_of_the_library(client: Path, served: Served) -> None:
    with running(served.library, token=TOKEN) as (_, port):
        wait_for(port, "/api/v1/health", "model", {"ready"})
        done = run_program(client, example(), f"http://127.0.0.1:{port}")
    assert done.returncode == 0, done.stderr
    hit, page, refusal = done.stdout.splitlines()
    with open_library(served.library) as library:
        (best,) = library.search("a red star on a beach", k=3).hits[:1]
        listed = [Path(clip.path).name for clip in library.browse("duration_s > 3.5", limit=2).clips]
    assert hit.startswith(f"star.mp4 {best.moments[0].time_s} ['HARBOUR'] [] ")
    assert int(hit.split()[-1]) > 1_000  # bytes of a picture
    assert page == f"3 {listed}"
    assert refusal.startswith("There is no column 'nonsense'")
