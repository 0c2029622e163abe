"""`evenreel check network`: the real command, and that each watcher sees what leaves the machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evenreel.cli import check
from evenreel.cli.check import NetworkWatch, SocketCall
from evenreel.media.workers import command
from tests.in_process import run_here

BY_PYTHON = """
import contextlib, socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, contextlib.suppress(OSError):
    one.connect(("192.0.2.7", 9))
with contextlib.suppress(OSError):
    socket.getaddrinfo("nobody.invalid", 80)
with socket.socket() as other:
    other.bind(("127.0.0.1", 0))
"""
BY_NATIVE_CODE = """
import ctypes, struct, socket, time
system = ctypes.CDLL(None)
held = system.socket(2, 2, 0)
nobody = struct.pack("=H", 2) + struct.pack("!H4s8x", 9, socket.inet_aton("192.0.2.7"))
system.connect(held, nobody, 16)
everybody = struct.pack("=H", 2) + struct.pack("!H4s8x", 0, socket.inet_aton("0.0.0.0"))
system.bind(system.socket(2, 2, 0), everybody, 16)
time.sleep(1)
"""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="its addresses are laid out as Linux has them")


def calls_of(folder: Path, code: str) -> list[SocketCall]:
    watch = NetworkWatch(folder)
    assert watch.run("step", [sys.executable, "-c", code]) is None
    assert len(watch.processes) == 1
    return watch.calls


def test_calls_of_python_are_seen_in_any_process(tmp_path: Path) -> None:
    watch = NetworkWatch(tmp_path)
    worker = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BY_PYTHON!r}], check=True)"
    assert watch.run("step", [sys.executable, "-c", worker]) is None
    assert len(watch.processes) == 2
    found = {(one.call, one.host, one.port, one.loopback) for one in watch.calls if one.seen_by == "python"}
    assert {("connect", "192.0.2.7", 9, False), ("getaddrinfo", "nobody.invalid", 80, False)} <= found
    assert ("bind", "127.0.0.1", 0, True) in found


@LINUX
def test_native_code_is_seen_by_strace(tmp_path: Path) -> None:
    if not NetworkWatch(tmp_path).strace:
        pytest.skip("strace is not here, or may not trace")
    found = {(one.call, one.host, one.loopback) for one in calls_of(tmp_path, BY_NATIVE_CODE)}
    assert {("connect", "192.0.2.7", False), ("bind", "0.0.0.0", False)} <= found


@LINUX
def test_native_code_is_seen_by_looking_where_strace_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = calls_of(tmp_path, BY_NATIVE_CODE)
    assert {(one.host, one.loopback, one.seen_by) for one in found} >= {("0.0.0.0", False, "system")}


def test_who_asks_for_a_name_leaves_the_machine_by_whatever_address() -> None:
    assert not SocketCall(0.0, "index", 1, "connect", "127.0.0.53", 53, "strace").loopback
    assert SocketCall(0.0, "index", 1, "connect", "::1", 8000, "strace").loopback


def test_a_step_that_leaves_the_machine_is_told_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def telling(module: str, *words: str) -> list[str]:
        return [sys.executable, "-c", BY_PYTHON] if words[0] == "search" else [sys.executable, "-c", ""]

    monkeypatch.setattr(check, "command", telling)
    monkeypatch.setattr(NetworkWatch, "serve", NetworkWatch.run)
    monkeypatch.setattr("evenreel.demo.make_demo_videos", lambda folder, clips: None)
    done = run_here("check", "network", environment={})
    assert done.returncode == 1 and "search  connect      192.0.2.7, port 9  OUTSIDE" in done.stdout, done.stdout
    monkeypatch.setattr(check, "command", lambda *words: [sys.executable, "-c", "raise SystemExit('no disk')"])
    done = run_here("check", "network", "--json", environment={})
    said = json.loads(done.stdout)
    assert done.returncode == 1 and said["failed"] == "index failed: no disk" and not said["outside"]


def test_index_search_export_and_serve_keep_to_this_machine() -> None:
    done = subprocess.run(
        command("evenreel", "check", "network", "--json"), capture_output=True, text=True, check=False
    )
    said = json.loads(done.stdout)
    assert done.returncode == 0 and said["failed"] is None and said["outside"] == 0, (said, done.stderr)
    assert said["processes"] >= 5, "four commands, and readers of index"
    calls = {(one["step"], one["call"]) for one in said["calls"]}
    assert ("serve", "bind") in calls, "the watch sees what there is"
    assert all(one["loopback"] for one in said["calls"])
