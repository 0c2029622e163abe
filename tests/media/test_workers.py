from __future__ import annotations

import io
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError, MediaError
from evenreel.media.workers import Worker, _report, read_message, write_message

TARGET = "tests.media.stub_targets:Stub"
LIMITS = MediaLimits(memory_bytes=300 * 2**20)
STALL_S = 2.0
HURRIED = MediaLimits(stall_timeout_s=STALL_S)
PATIENCE_S = 60.0  # a busy machine is no failure


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker(TARGET, {"rule": "x"}, LIMITS)
    yield made
    made.close()


@pytest.fixture
def hurried() -> Iterator[Worker]:
    made = Worker(TARGET, {"rule": "x"}, HURRIED)
    yield made
    made.close()


def answer(worker: Worker, **task: Any) -> list[tuple[dict[str, Any], Any]]:
    return list(worker.run(task))


def test_messages_arrive_in_order_with_their_arrays(worker: Worker) -> None:
    first, *rest = answer(worker, do="arrays", count=4)
    assert first[0]["got"] == {"do": "arrays", "count": 4}
    assert first[0]["setup"] == {"rule": "x"}
    assert [header["number"] for header, _ in rest] == [0, 1, 2, 3]
    for number, (_, array) in enumerate(rest):
        np.testing.assert_array_equal(array, np.full((2, 3, number), number, np.uint8))


def test_what_native_code_prints_does_not_disturb_the_messages(worker: Worker) -> None:
    assert answer(worker, do="chatter")[1][0] == {"still": "in step"}


@pytest.mark.parametrize(
    ("what", "reason", "words"),
    [
        ("refuse", "encrypted", "it is encrypted"),
        ("fail", "failed", "ZeroDivisionError: by surprise"),
        ("segfault", "crashed", "SIGSEGV"),
        ("abort", "crashed", "SIGABRT"),
        ("leave", "crashed", "exit status 7"),
        ("grow", "out_of_memory", "300 MiB"),
    ],
)
def test_a_task_that_ends_badly_has_a_reason_and_the_next_is_answered(
    worker: Worker, what: str, reason: str, words: str
) -> None:
    with pytest.raises(MediaError, match=words) as caught:
        answer(worker, do=what)
    assert caught.value.reason == reason
    assert len(answer(worker, do="arrays", count=2)) == 3


@pytest.mark.parametrize("what", ["hang", "hang_holding_the_interpreter"])
def test_a_task_that_hangs_is_ended_and_the_next_is_answered(hurried: Worker, what: str) -> None:
    with pytest.raises(MediaError, match="no progress for 2 s") as caught:
        answer(hurried, do=what)
    assert caught.value.reason == "timeout"
    assert len(answer(hurried, do="arrays", count=2)) == 3


def test_a_slow_task_that_makes_progress_is_not_a_hang(hurried: Worker) -> None:
    assert len(answer(hurried, do="slow", count=10, pause_s=1.2 * STALL_S / 10)) == 11


def test_a_slow_consumer_is_not_a_hang(hurried: Worker) -> None:
    for header, _ in hurried.run({"do": "slow", "count": 1, "pause_s": 0.0}):
        if "number" not in header:
            time.sleep(1.2 * STALL_S)
    assert answer(hurried, do="arrays", count=0)


def test_a_task_that_is_left_early_does_not_leak_into_the_next(worker: Worker) -> None:
    for header, _ in worker.run({"do": "arrays", "count": 50}):
        if header.get("number") == 3:
            break
    assert [header["number"] for header, _ in answer(worker, do="arrays", count=2)[1:]] == [0, 1]


@pytest.mark.parametrize(("broken", "told"), [("struct", "; it said"), ("numpy", ": reading it failed")])
def test_a_child_that_cannot_be_imported_says_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, told: str
) -> None:
    (tmp_path / f"{broken}.py").write_text("raise ImportError('libblas is missing')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
    with pytest.raises(EvenreelError, match=rf"could not start{told}: ImportError: libblas is missing\."):
        answer(Worker(TARGET, {}, LIMITS), do="arrays", count=1)


def test_closing_ends_the_child_for_good() -> None:
    worker = Worker(TARGET, {}, LIMITS)
    pid = answer(worker, do="arrays", count=0)[0][0]["pid"]
    worker.close()
    worker.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(EvenreelError, match="closed"):
        answer(worker, do="arrays", count=0)


def test_a_child_that_the_system_kills_is_not_blamed_on_the_task(worker: Worker) -> None:
    with pytest.raises(MediaError, match="SIGKILL") as caught:
        for header, _ in worker.run({"do": "hang"}):
            os.kill(header["pid"], signal.SIGKILL)
    assert caught.value.reason == "killed"


def test_a_ctrl_c_in_the_terminal_does_not_reach_the_child(worker: Worker) -> None:
    pid = answer(worker, do="arrays", count=0)[0][0]["pid"]
    assert os.getpgid(pid) != os.getpgid(0)


def test_a_message_that_claims_too_much_is_refused_before_memory_is_taken() -> None:
    for sizes in (struct.pack("<IQ", 2**31, 0), struct.pack("<IQ", 2, 2**60)):
        with pytest.raises(ValueError, match="bytes"):
            read_message(io.BytesIO(sizes + b"{}"))


def test_a_child_does_not_outlive_a_killed_parent() -> None:
    code = (
        "from evenreel.media.workers import Worker; from evenreel.config import MediaLimits\n"
        f"worker = Worker({TARGET!r}, {{}}, MediaLimits())\n"
        "for header, _ in worker.run({'do': 'hang'}): print(header['pid'], flush=True)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + PATIENCE_S
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not psutil.pid_exists(pid)


@given(
    header=st.dictionaries(st.text(max_size=5), st.integers() | st.text() | st.none(), max_size=3),
    array=st.none() | hnp.arrays(st.sampled_from([np.uint8, np.float32]), hnp.array_shapes(min_side=0)),
)
def test_a_message_comes_out_as_it_went_in(header: dict[str, Any], array: Any) -> None:
    header.pop("array", None)
    stream = io.BytesIO()
    write_message(stream, header, array)
    stream.seek(0)
    got_header, got_array = read_message(stream)
    assert got_header == header
    if array is None:
        assert got_array is None
    else:
        assert got_array is not None
        np.testing.assert_array_equal(got_array, array)
    with pytest.raises(EOFError):
        read_message(stream)


@pytest.mark.parametrize("error", [MemoryError(), ImportError("x.so: failed to map segment from shared object")])
def test_hazard_246_a_limit_of_memory_is_named_where_a_library_cannot_be_loaded(error: Exception) -> None:
    told = io.BytesIO()
    _report(told, error)
    told.seek(0)
    header, _ = read_message(told)
    assert (header["reason"], "not enough memory to read it (see" in header["sentence"]) == ("out_of_memory", True)
