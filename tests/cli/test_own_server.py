"""A running server of the same person is asked in place of a model, and nobody else's says anything."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from evenreel.library import Library
from evenreel.server import local
from tests.cli.test_serve import get, running, wait_for
from tests.in_process import run_here
from tests.server.conftest import Served, rendered, served

__all__ = ["rendered", "served"]

QUESTIONS: tuple[tuple[str, ...], ...] = (
    ("a red star",),
    ("a red star", "--json"),
    ("harbour", "--all", "--no-fold", "-k", "2"),
    ("star, then harbour", "--within", "4", "--all"),
    ("a shape without a star", "--json", "--where", "source = 'camera'"),
)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "BEGIN_S", 5.0)  # a busy machine is no failure


@pytest.fixture
def library(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(served.library, tmp_path / "library")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # of `running` too
    return tmp_path / "library"


@contextlib.contextmanager
def ready(library: Path, *options: str, token: str | None = None) -> Iterator[subprocess.Popen[str]]:
    with running(library, *options, token=token) as (process, port):
        wait_for(port, "/api/v1/health", "model", {"ready", "none"})
        yield process


def said(library: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_here("search", "--library", library, *words, environment={"COLUMNS": "200"})


@pytest.fixture
def opened_here(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Libraries that this process opens to search."""
    found: list[Path] = []
    own = Library.__init__

    def opening(self: Library, path: Path, **given: Any) -> None:
        found.append(path)
        own(self, path, **given)

    monkeypatch.setattr(Library, "__init__", opening)
    return found


def exported(library: Path, name: str) -> bytes:
    out = library.parent / name
    words = ("export", "a red  star", "--library", library, "--out", out, "--format", "csv")
    assert run_here(*words, environment={}).returncode == 0
    (written,) = out.iterdir()
    return written.name.encode() + written.read_bytes()


def test_a_server_gives_the_answer_that_the_command_gives_by_itself(
    library: Path, opened_here: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [said(library, *words) for words in QUESTIONS]
    assert len(opened_here) == len(QUESTIONS) and not any(one.returncode for one in alone)
    by_itself = exported(library, "alone")
    monkeypatch.setattr("evenreel.library.library.load_pictures", None)
    opened_here.clear()
    for workers in ("1", "2"):
        with ready(library, "--workers", workers, token="correct horse battery") as process:
            for words, before in zip(QUESTIONS, alone, strict=True):
                assert said(library, *words).stdout == before.stdout
            assert not opened_here
            assert exported(library, workers) == by_itself
            opened_here.clear()
            process.terminate()
            process.wait()
            assert not list((library.parent / "cache" / "evenreel" / "served").iterdir())


def test_the_command_loads_neither_numbers_nor_models(library: Path) -> None:
    told = "import sys; print(json.dumps(sorted(sys.modules.keys() & {'numpy', 'onnxruntime', 'polars', 'fastapi'})))"
    code = f"import json, atexit; atexit.register(lambda: exec({told!r}))\nfrom evenreel.cli import main; main()"
    command = [sys.executable, "-c", f"from evenreel.server import local; local.BEGIN_S = 5\n{code}"]
    words = ("search", "harbour", "--library", str(library))
    with ready(library):
        asked = subprocess.run([*command, *words], capture_output=True, text=True, check=True)
    assert asked.stdout.splitlines()[-1] == "[]" and "HARBOUR" in asked.stdout


@pytest.mark.parametrize("how", ["vision", "changed", "version", "stopped", "killed", "readable"])
def test_a_server_that_cannot_say_the_same_is_not_asked(
    how: str, library: Path, opened_here: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ready(library, *(["--no-vision"] if how == "vision" else [])) as process:
        if how == "version":
            monkeypatch.setattr(local, "__version__", "0.0.1")
        elif how == "changed":
            monkeypatch.setattr(local, "file_state", lambda _: (1, 2, 3))
        elif how == "readable":
            next((library.parent / "cache" / "evenreel" / "served").iterdir()).chmod(0o644)
        elif how in {"stopped", "killed"}:
            process.send_signal(signal.SIGSTOP if how == "stopped" else signal.SIGKILL)
            monkeypatch.setattr(local, "BEGIN_S", 0.05)
        if how == "killed":
            process.wait()
        began = time.monotonic()
        assert local.ask(library, {}) is None and time.monotonic() - began < 5
        found = said(library, "harbour")
        assert "HARBOUR" in found.stdout and opened_here == [library]


class Impostor(BaseHTTPRequestHandler):
    """What listens at the port of a server that is gone, and says what it likes."""

    heard: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.heard.append(str(self.headers).encode() + self.rfile.read(length))
        text = json.dumps({"hits": [], "notices": ["\x1b]0;taken\x07"], "matches": 0, "answering": 0}).encode()
        self.send_response(200)
        self.end_headers()
        shown = (self.headers[local.PROOF].encode(), b"0" * 64, b"")[len(self.heard) % 3]
        self.wfile.write(shown + b"\n" + text)

    def log_message(self, format: str, *given: object) -> None:
        pass


def test_whoever_takes_the_port_of_a_server_learns_the_question_alone(library: Path, opened_here: list[Path]) -> None:
    impostor = HTTPServer(("127.0.0.1", 0), Impostor)
    threading.Thread(target=impostor.serve_forever, daemon=True).start()
    noted = local.noted(library, "127.0.0.1", ("catalog.sqlite",), lambda _: None)
    with contextlib.closing(impostor.socket), noted as ready_at:
        ready_at(f"http://127.0.0.1:{impostor.server_port}/")
        note = local.read_note(library)
        found = [said(library, "harbour").stdout for _ in range(3)]
        impostor.shutdown()
    assert opened_here == [library] * 3 and all("HARBOUR" in one and "taken" not in one for one in found)
    assert note is not None and b"harbour" in Impostor.heard[-1]
    assert note["secret"].encode() not in b"".join(Impostor.heard)


def test_a_stranger_is_not_answered_and_no_note_leads_elsewhere(library: Path) -> None:
    with ready(library):
        note = local.read_note(library)
        assert note is not None
        place = next((library.parent / "cache" / "evenreel" / "served").iterdir())
        assert place.stat().st_mode & 0o777 == 0o600
        assert get(note["port"], local.ADDRESS, "POST")[0] == 404
        wrong = {local.NONCE: "a", local.PROOF: local.proof("", "question", "a", b"")}
        assert get(note["port"], local.ADDRESS, "POST", **wrong)[0] == 404
    for host, leads in (("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("192.0.2.1", None)):
        with local.noted(library, host, (), lambda _: None) as ready_at:
            ready_at("http://0.0.0.0:80/")
            assert (local.read_note(library) or {}).get("host") == leads
    place.write_text(json.dumps(note | {"host": "192.0.2.1"}), encoding="utf-8")
    place.chmod(0o600)
    assert local.read_note(library) is None
    for damaged in (*({name: 5} for name in note), {"host": []}, {"files": [5]}, {"port": 99_999}):
        place.write_text(json.dumps(note | damaged), encoding="utf-8")
        assert local.ask(library, {}) is None, damaged
