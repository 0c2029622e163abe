"""Trying again what was set aside: what is run, and that every run comes to an end."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evenreel.library import open_library
from evenreel.server import retry
from evenreel.server.records import Retry
from evenreel.server.retry import Retrier
from tests.library.damage import write
from tests.library.fakes import on_disk
from tests.server.conftest import Served, wait_until


def ended(retrier: Retrier) -> Retry:
    wait_until(lambda: retrier.state().state != "running")
    return retrier.state()


def start(retrier: Retrier, library: Path) -> Retry:
    with open_library(library, vision=False) as opened:
        return retrier.start(opened)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run; a Python that says nothing runs instead."""
    seen: list[list[str]] = []
    really = subprocess.Popen

    def popen(command: list[str], **options: object) -> object:
        seen.append(command)
        report = {"indexed": 1, "recognised": 0, "set_aside": []}
        return really([sys.executable, "-c", f"print({json.dumps(json.dumps(report))})"], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(retry.subprocess, "Popen", popen)
    return seen


def test_folders_that_are_there_are_looked_through(tmp_path: Path, commands: list[list[str]]) -> None:
    (tmp_path / "-videos").mkdir()
    (tmp_path / "alone.mp4").write_bytes(b"x")
    made = on_disk(tmp_path / "library")
    made.connection.executemany("INSERT INTO roots VALUES (?)", [(str(tmp_path / "-videos"),), ("/no/such/disk",)])
    made.add_file(str(tmp_path / "alone.mp4"), None, state="set_aside")
    made.connection.close()
    retrier = Retrier(tmp_path / "library")
    remark = "1 folder cannot be reached and is left out."
    assert start(retrier, tmp_path / "library").sentence.endswith(remark)
    assert ended(retrier).sentence == f"1 file taken in; 0 files still set aside. {remark}"
    (command,) = commands
    assert command[command.index("--") + 1 :] == [str(tmp_path / "-videos"), str(tmp_path / "alone.mp4")]


def test_where_nothing_is_there_nothing_is_run(tmp_path: Path, commands: list[list[str]]) -> None:
    made = on_disk(tmp_path / "library")
    made.connection.execute("INSERT INTO roots VALUES ('/no/such/disk')")
    made.connection.close()
    assert start(Retrier(tmp_path / "library"), tmp_path / "library").state == "failed"
    assert commands == []


def test_stages_that_the_library_has_not_are_left_out(
    served: Served, commands: list[list[str]], tmp_path: Path
) -> None:
    retrier = Retrier(served.library)
    start(retrier, served.library)
    ended(retrier)
    shutil.copytree(served.library, tmp_path / "library")
    write(tmp_path / "library", "UPDATE clips SET has_text = 0", "UPDATE meta SET value = '' WHERE key = 'model'")
    other = Retrier(tmp_path / "library")
    start(other, tmp_path / "library")
    ended(other)
    assert [{"--no-ocr", "--no-vision"} & set(command) for command in commands] == [set(), {"--no-ocr", "--no-vision"}]


def test_a_catalog_that_cannot_be_read_leaves_nothing_running(served: Served) -> None:
    retrier = Retrier(served.library)
    with open_library(served.library, vision=False) as library:
        library.close()
        with pytest.raises(Exception):  # noqa: B017 -- whatever it is
            retrier.start(library)
    assert retrier.state().state == "idle"


@pytest.mark.parametrize("code", ["import sys; sys.exit('odd')", "print('{')", "print('{}')", "import os; os.abort()"])
def test_a_run_that_fails_says_so(served: Served, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_command", lambda library: [sys.executable, "-c", code])
    retrier = Retrier(served.library)
    start(retrier, served.library)
    assert ended(retrier) == retry.FAILED


def test_the_end_of_the_server_ends_the_run(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_command", lambda library: [sys.executable, "-c", "import time; time.sleep(600)"])
    retrier = Retrier(served.library)
    start(retrier, served.library)
    wait_until(lambda: retrier._process is not None)
    retrier.close()
    assert ended(retrier).state == "failed"
    assert retrier._process is not None and retrier._process.returncode in {-signal.SIGTERM, -signal.SIGKILL}
    assert start(retrier, served.library).state == "failed"  # and none begins after it
