from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evenreel.corpus import save_corpus
from evenreel.errors import EvenreelError
from evenreel.features import load_text_features, load_video_features, pool
from evenreel.features.pool import HOLDER, LOCK, writer_lock
from evenreel.files import TEMPORARY_SUFFIX
from tests.features.corpora import write_corpus
from tests.features.killed_run import compute, exit_code

KILLED_WHILE_IT_STARTS_A_CHILD = """
import os, signal, subprocess, sys
from pathlib import Path
from evenreel.errors import EvenreelError
from evenreel.features.pool import LOCK, writer_lock

def is_lock(descriptor):
    try:
        return os.path.samestat(os.fstat(descriptor), (folder / LOCK).stat())
    except OSError:
        return False

folder = Path(sys.argv[1])
with writer_lock(folder, EvenreelError, "wait"):
    subprocess.Popen(["cat"], pass_fds=filter(is_lock, range(3, 256)))
    signal.raise_signal(signal.SIGKILL)
"""


@contextmanager
def killed_holder(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A holder that is dead and not reaped; its child has the lock until the holder's stdin is closed."""
    command = [sys.executable, "-c", KILLED_WHILE_IT_STARTS_A_CHILD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as holder:
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        yield holder
    assert holder.returncode == -signal.SIGKILL


def is_free(folder: Path) -> bool:
    try:
        with writer_lock(folder, EvenreelError, "wait"):
            return True
    except EvenreelError:
        return False


@pytest.mark.parametrize("reaped", [True, False])
def test_the_lock_of_a_killed_process_is_waited_for(tmp_path: Path, reaped: bool) -> None:
    """Between fork and exec a child has a copy of all that its parent has open, the lock too."""
    with killed_holder(tmp_path) as holder:
        if reaped:
            holder.wait()
        assert holder.stdin is not None
        letting_go = threading.Timer(0.5, holder.stdin.close)
        letting_go.start()
        assert is_free(tmp_path)
        letting_go.join()


def test_a_process_that_lives_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "HOLDER_GRACE_S", 3600)
    with writer_lock(tmp_path, EvenreelError, "wait"):
        assert not is_free(tmp_path)


def test_a_lock_that_nobody_names_is_refused_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "HOLDER_GRACE_S", 0.2)
    with writer_lock(tmp_path, EvenreelError, "wait"):
        (tmp_path / HOLDER).write_text("[]", encoding="utf-8")
        started = time.monotonic()
        with (
            pytest.raises(EvenreelError, match="being written by another process"),
            writer_lock(tmp_path, EvenreelError, "wait"),
        ):
            pass
        assert time.monotonic() - started >= 0.2
    assert (tmp_path / LOCK).is_file()


WRITES = 7
"""The manifest, a block of captions, four shards and the ledger."""


def content(folder: Path) -> dict[str, bytes]:
    kept = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("index."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def test_a_run_killed_at_every_one_of_its_writes_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    videos, clean, folder = tmp_path / "videos", tmp_path / "clean", tmp_path / "features"
    corpus = write_corpus(videos)
    save_corpus(corpus, videos)
    assert exit_code(compute, videos, clean, 0) == 0
    expected = content(clean)
    assert len(expected) == WRITES
    for number in range(WRITES):  # each run gets one write further than the one before
        assert exit_code(compute, videos, folder, min(number + 1, 2)) == -signal.SIGKILL
        done = [name for name in content(folder) if not name.endswith(TEMPORARY_SUFFIX)]
        assert len(done) == number
    assert exit_code(compute, videos, folder, 0) == 0
    assert content(folder) == expected
    assert load_video_features(folder, corpus).ids == ("a", "b", "c", "d")
    assert load_text_features(folder, corpus).ids == ("0", "1", "2", "3")
