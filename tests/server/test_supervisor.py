"""The process that listens, with workers that fail to start, hang, or leave; they are programs of a few lines here."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from evenreel.config import MediaLimits
from evenreel.server import ServeSettings, supervisor
from evenreel.server.supervisor import ENDED, LEAVING, UP, Supervisor
from evenreel.server.worker_task import WorkerTask
from tests.server.conftest import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="connections cannot be handed on here")

ANSWERS = f"""
import os, signal, socket, sys, time
channel = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
channel.send({UP!r})
while True:
    word, files, _, _ = socket.recv_fds(channel, 1, 1)
    if not word:
        break
    for file in files:
        with socket.socket(fileno=file) as visitor:
            asked = visitor.recv(9)
            if asked == b"leave":
                channel.send({LEAVING!r})
                channel.send({ENDED!r})
                visitor.send(b"left")
                if channel.recv(1) != b"n":
                    sys.exit("not told that no more will come")
                time.sleep(1000)
            if asked == b"hang":
                channel.send({ENDED!r})
                visitor.send(b"hung")
                time.sleep(1000)
            visitor.send(str(os.getpid()).encode())
        channel.send({ENDED!r})
"""
"""A worker that says its number to whoever says 'who', hangs where it is told 'hang', leaves where it is told so."""


@contextlib.contextmanager
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int = 0) -> Iterator[int]:
    """A supervisor of two such workers, and its port; the first so many processes cannot be started."""
    left, really = [refused], subprocess.Popen

    def popen(command: list[str], **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return really([sys.executable, "-c", ANSWERS, command[-1]], **options)

    monkeypatch.setattr(supervisor.subprocess, "Popen", popen)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        keeper = Supervisor(tmp_path, ServeSettings(workers=2, cache=tmp_path), listener)
        thread = threading.Thread(target=keeper.run)
        port = listener.getsockname()[1]
        thread.start()
        try:
            yield port
        finally:
            keeper._loop.call_soon_threadsafe(keeper._told_to_end.set)
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def say(port: int, word: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as visitor:
        visitor.sendall(word)
        return visitor.recv(99)


def answering(port: int, asked: int = 6) -> set[int]:
    """Numbers of the processes that answer, some visitors at a time; a visitor may meet one that is just killed."""
    with contextlib.ExitStack() as opened:
        addresses = [("127.0.0.1", port)] * asked
        visitors = [opened.enter_context(socket.create_connection(address, PATIENCE_S)) for address in addresses]
        for visitor in visitors:
            visitor.sendall(b"who")
        return {int(said) for said in map(_heard, visitors) if said}


def _heard(visitor: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        return visitor.recv(99)
    return b""


@pytest.mark.slow
def test_a_worker_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = psutil.Process().num_fds()
    with caplog.at_level(logging.WARNING), supervised(tmp_path, monkeypatch, refused=3) as port:
        wait_until(lambda: len(answering(port)) == 2)
    told = [record.getMessage() for record in caplog.records]
    sentence = "a process of the server cannot be started (Resource temporarily unavailable); it is tried again"
    assert [one for one in told if "cannot be started" in one] == [sentence] * 3
    assert psutil.Process().num_fds() == files


def test_a_worker_that_hangs_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), supervised(tmp_path, monkeypatch) as port:
        wait_until(lambda: len(answering(port)) == 2)
        before = answering(port)
        monkeypatch.setattr(supervisor, "HUNG_S", 0.2)  # none of them says that it runs
        assert say(port, b"hang") == b"hung"
        wait_until(lambda: any("has not moved for" in record.getMessage() for record in caplog.records))
        monkeypatch.setattr(supervisor, "HUNG_S", 1e6)
        wait_until(lambda: (found := answering(port)) != before and len(found) == 2)


def test_a_worker_that_leaves_gets_no_more_visitors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with supervised(tmp_path, monkeypatch) as port:
        wait_until(lambda: len(answering(port)) == 2)
        assert say(port, b"leave") == b"left"
        wait_until(lambda: len(answering(port)) == 1)
        found = [answering(port, 1) for _ in range(20)]
        assert found == found[:1] * 20


def test_a_task_is_read_as_it_was_written() -> None:
    strange = Path(os.fsdecode(b"/videos/\xff name"))
    others: dict[str, Any] = {
        **{"host": "::1", "port": 0, "token": "a secret word", "device": "cpu", "rerank": "some/matcher"},
        **{"allowed_hosts": ("films.example", "other.example"), "trusted_proxies": ("10.0.0.0/8",)},
        **{"rerank_depth": 7, "workers": 5, "searchers": 9, "waiting": 11, "painters": 3, "max_upload_bytes": 12},
        **{"upload_timeout_s": 1.5, "idle_s": 2.5, "connections": 13, "cache": strange / "cache", "cache_bytes": 14},
        **{"snapshot_cache": strange / "snapshots", "limits": MediaLimits(max_side_px=1)},
    }
    settings = ServeSettings(image_limits=MediaLimits(max_frames=2), **others)
    unlike = {one.name for one in fields(settings) if getattr(settings, one.name) == getattr(ServeSettings(), one.name)}
    # Any other is told apart from its default, a new one too; folders are opened for no other host.
    assert unlike == {"vision", "open_folders"}
    for one in (settings, replace(settings, rerank=None, vision=False), ServeSettings(open_folders=True)):
        task = WorkerTask(strange, one, Path("/shared"))
        assert WorkerTask.from_json(task.to_json()) == task
