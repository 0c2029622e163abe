"""What the processes of one server share: a run that tries again, and limits."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from evenreel.server import ServeSettings, retry
from evenreel.server.login import WRONG_TOKEN_DELAY_S, Login
from evenreel.server.peers import Peers
from evenreel.server.records import Retry
from evenreel.server.retry import BROKEN_OFF, IDLE, RUN, TOLD, Retrier
from tests.library.fakes import on_disk
from tests.server.conftest import PATIENCE_S, wait_until
from tests.server.test_retry import start

REPORT = json.dumps({"indexed": 2, "recognised": 0, "set_aside": []})


@pytest.fixture
def library(tmp_path: Path) -> Path:
    made = on_disk(tmp_path / "library")
    made.connection.execute("INSERT INTO roots VALUES (?)", (str(tmp_path),))
    made.connection.close()
    return tmp_path / "library"


def test_a_run_is_told_by_each_process_and_is_only_one(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    gate = tmp_path / "gate"
    waits = f"import pathlib,time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(.01)\nprint({REPORT!r})"
    really = subprocess.Popen

    def popen(command: list[str], **options: object) -> object:
        begun.append(command)
        return really([sys.executable, "-c", waits], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(retry.subprocess, "Popen", popen)
    one, other = Retrier(library, Peers(tmp_path)), Retrier(library, Peers(tmp_path))
    assert (one.state(), other.state()) == (IDLE, IDLE)
    assert start(one, library).state == "running"
    assert (other.state().state, start(other, library).state) == ("running", "running")
    gate.touch()
    wait_until(lambda: other.state().state != "running")
    assert other.state() == one.state() == Retry(state="done", sentence="2 files taken in; 0 files still set aside.")
    wait_until(lambda: start(other, library).sentence.startswith("The folders are looked through again"))
    wait_until(lambda: one.state().state == "done")
    assert len(begun) == 2


def test_a_run_whose_process_was_killed_is_said_to_be_broken_off(library: Path, tmp_path: Path) -> None:
    running = Retry(state="running", sentence="The folders are looked through again.")
    (tmp_path / TOLD).write_text(running.model_dump_json())
    holds = f"""import time, pathlib
from evenreel.server.peers import Peers
with Peers(pathlib.Path({str(tmp_path)!r})).only_one({RUN!r}) as alone:
    print(alone, flush=True)
    time.sleep(1000)"""
    process = subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "True\n"
        assert Retrier(library, Peers(tmp_path)).state() == running
        process.kill()
    assert Retrier(library, Peers(tmp_path)).state() == BROKEN_OFF


def test_a_lock_is_of_one_thread_at_a_time(tmp_path: Path) -> None:
    peers, got = Peers(tmp_path), list[bool]()

    def take() -> None:
        with peers.only_one("x") as alone:
            got.append(alone)

    with peers.only_one("x") as first:
        thread = threading.Thread(target=take)
        thread.start()
        thread.join(PATIENCE_S)
    take()
    assert (first, got) == (True, [False, True])


@pytest.mark.parametrize("workers", [1, 2, 3, 64])
def test_limits_hold_for_all_processes_together(workers: int) -> None:
    whole = ServeSettings(workers=workers, searchers=4, waiting=64, painters=2, connections=500)
    one = whole.of_one_worker()
    for limit in ("searchers", "waiting", "painters", "connections"):
        share = getattr(one, limit)
        assert share >= 1
        assert (share - 1) * workers < getattr(whole, limit) <= share * workers
    # Wrong tokens of one address are told apart no faster by many processes than by one.
    assert workers / Login(one)._guesses._delay_s == pytest.approx(1 / WRONG_TOKEN_DELAY_S)
