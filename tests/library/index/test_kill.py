"""Hazard 33: kill -9 at random points, then go on; the end state is that of an undisturbed run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from multiprocessing.forkserver import ForkServer, read_signed  # type: ignore[attr-defined]
from pathlib import Path

import pytest

# Some sixty runs are begun and killed, which a machine that does other things takes minutes for.
pytestmark = pytest.mark.timeout(900)

REPOSITORY = Path(__file__).resolve().parents[3]


def killed(*arguments: str) -> str:
    """What the script prints, after it has found nothing wrong."""
    command = [sys.executable, "-m", "tests.library.killed_rounds", "--clips", "4", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 in another state" in done.stdout
    return done.stdout


@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killing_the_indexer_at_random_points_changes_nothing(rounds: int) -> None:
    assert int(killed("--rounds", str(rounds)).split()[0]) >= rounds


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "clips"), [("edited and back", "4"), ("model exchanged", "1")])
def test_killing_it_at_every_step_changes_nothing_though_the_folder_changes_again(asked: str, clips: str) -> None:
    """Files are edited, renamed, copied and added; it is killed; all is as it was before, and it goes on."""
    story, _, counted = killed("--steps", "--clips", clips, "--story", asked).partition(": ")
    assert story == asked
    assert int(counted.split()[0]) >= 15


def test_the_server_that_forks_readers_outlives_an_indexer_killed_while_it_asks_for_one() -> None:
    server = ForkServer()
    server.set_forkserver_preload(["tests.lasting_forkserver"])
    server.ensure_running()
    try:
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(server._forkserver_address)  # type: ignore[attr-defined]
        sentinel, orders = server.connect_to_new_process([])
        assert read_signed(sentinel) > 0  # the new process's id
        os.close(orders)
        os.close(sentinel)
    finally:
        server._stop()  # type: ignore[attr-defined]
