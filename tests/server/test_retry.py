"""Trying again what was set aside: what is run, and that every run comes to an end."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evenreel.library import open_library
from evenreel.server import adding
from evenreel.server.adding import Retrier, Run
from evenreel.server.adding_run import RunOrder
from evenreel.server.records import Retry
from tests.library.damage import write
from tests.library.fakes import on_disk
from tests.server.conftest import Served, wait_until

TAKEN = {"ended": "1 file taken in; 0 files still set aside."}


def ended(retrier: Retrier) -> Retry:
    wait_until(lambda: retrier.state().state != "running")
    return retrier.state()


def start(retrier: Retrier, library: Path) -> Retry:
    with open_library(library, vision=False) as opened:
        return retrier.start(opened)


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[RunOrder]:
    """What would be run; nothing is."""
    seen: list[RunOrder] = []

    def follow(run: Run, hear: Callable[[object], None]) -> dict[str, str]:
        seen.append(run.order)
        return TAKEN

    monkeypatch.setattr(Run, "follow", follow)
    return seen


def test_folders_that_are_there_are_looked_through(tmp_path: Path, orders: list[RunOrder]) -> None:
    (tmp_path / "-videos").mkdir()
    (tmp_path / "alone.mp4").write_bytes(b"x")
    made = on_disk(tmp_path / "library")
    made.connection.executemany("INSERT INTO roots VALUES (?)", [(str(tmp_path / "-videos"),), ("/no/such/disk",)])
    made.add_file(str(tmp_path / "alone.mp4"), None, state="set_aside")
    made.connection.close()
    retrier = Retrier(tmp_path / "library")
    remark = "1 folder cannot be reached and is left out."
    assert start(retrier, tmp_path / "library").sentence.endswith(remark)
    assert ended(retrier).sentence == f"{TAKEN['ended']} {remark}"
    (order,) = orders
    assert (order.retry, order.places) == (True, (str(tmp_path / "-videos"), str(tmp_path / "alone.mp4")))


def test_where_nothing_is_there_nothing_is_run(tmp_path: Path, orders: list[RunOrder]) -> None:
    made = on_disk(tmp_path / "library")
    made.connection.execute("INSERT INTO roots VALUES ('/no/such/disk')")
    made.connection.close()
    assert start(Retrier(tmp_path / "library"), tmp_path / "library").state == "failed"
    assert orders == []


def test_stages_that_the_library_has_not_are_left_out(served: Served, orders: list[RunOrder], tmp_path: Path) -> None:
    retrier = Retrier(served.library)
    start(retrier, served.library)
    ended(retrier)
    shutil.copytree(served.library, tmp_path / "library")
    write(tmp_path / "library", "UPDATE clips SET has_text = 0", "UPDATE meta SET value = '' WHERE key = 'model'")
    other = Retrier(tmp_path / "library")
    start(other, tmp_path / "library")
    ended(other)
    assert [(one.model, one.reads_text) for one in orders] == [(None, True), ("words", False)]


@pytest.mark.parametrize("code", ["import sys; sys.exit('odd')", "print('{')", "print('{}')", "import os; os.abort()"])
def test_a_run_that_fails_says_so(served: Served, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "COMMAND", [sys.executable, "-c", code])
    retrier = Retrier(served.library)
    start(retrier, served.library)
    assert ended(retrier) == Retry(state="failed", sentence=adding.BROKE)


def test_the_end_of_the_server_ends_the_run(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "COMMAND", [sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(adding, "PATIENCE_S", 0.1)
    retrier = Retrier(served.library)
    start(retrier, served.library)
    run = retrier._run
    assert run is not None
    wait_until(lambda: run.process is not None)
    retrier.close()
    assert ended(retrier).state == "failed"
    assert run.process is not None and run.process.returncode == -signal.SIGKILL
    assert start(retrier, served.library).state == "failed"  # and none begins after it


def test_each_process_of_a_server_tells_of_the_one_run(
    tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    said = json.dumps(TAKEN)
    waits = f"import pathlib,time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(.01)\nprint({said!r})"
    monkeypatch.setattr(adding, "COMMAND", [sys.executable, "-c", waits])
    one, other = Retrier(served.library, tmp_path), Retrier(served.library, tmp_path)
    assert (one.state().state, other.state().state) == ("idle", "idle")
    assert start(one, served.library).state == "running"
    assert (other.state().state, start(other, served.library).state, other._run) == ("running", "running", None)
    gate.touch()
    assert ended(one) == ended(other) == Retry(state="done", sentence=TAKEN["ended"])
    killed = {"state": "running", "sentence": "", "pid": 2**22 + 1}
    (tmp_path / "retry.json").write_text(json.dumps(killed))
    assert (one.state().state, other.state().state) == ("failed", "failed")
