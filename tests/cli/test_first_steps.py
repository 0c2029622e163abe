from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from evenreel.cli.app import NO_CHOICE, QUESTION, WHICH_FOLDER, choose
from tests.server.conftest import PATIENCE_S

CTRL_C = b"\x03"
IDLE = 10
"""Looks at a terminal in which nothing is written any more, after which Ctrl-C is pressed."""
EVENREEL = (sys.executable, "-m", "evenreel")


class Conversation:
    """Answers questions one after the other, and keeps the questions."""

    def __init__(self, answers: Iterable[str]) -> None:
        self.answers, self.questions = iter(answers), list[str]()

    def __call__(self, question: str) -> str:
        self.questions.append(question)
        return next(self.answers)


def test_each_choice_is_a_command(tmp_path: Path) -> None:
    for answer, command in {"": "serve --open", " 1 ": "serve --open", "3": "demo"}.items():
        assert choose(Conversation([answer])) == command.split()
    assert [choose(Conversation([answer])) for answer in ("q", "Quit")] == [None, None]
    assert choose(Conversation(["2", str(tmp_path)])) == ["index", "--", str(tmp_path)]


def test_an_answer_that_is_none_is_asked_for_again() -> None:
    said = Conversation(["4", "serve", "3"])
    assert choose(said) == ["demo"]
    assert said.questions == [QUESTION, NO_CHOICE + QUESTION, NO_CHOICE + QUESTION]


def test_a_folder_that_is_not_there_is_asked_for_again_and_nothing_goes_back(tmp_path: Path) -> None:
    said = Conversation(["2", "/no/such\x1b", "", "q"])
    assert choose(said) is None
    assert said.questions == [QUESTION, WHICH_FOLDER, f"There is no folder /no/such\\x1b.\n{WHICH_FOLDER}", QUESTION]


@pytest.mark.parametrize("name", ["my films", "it's", "-rf", 'a "b"', "back\\slash"])
def test_a_folder_may_be_dragged_from_a_desktop(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).mkdir()
    path = str(tmp_path / name)
    quoted = "'" + path.replace("'", "'\\''") + "'"
    escaped = re.sub(r"([^\w/.-])", r"\\\1", path)
    for typed in (path, quoted, escaped):
        assert choose(Conversation(["2", typed])) == ["index", "--", path]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert choose(Conversation(["2", f"~/{name}"])) == ["index", "--", path]


def in_a_terminal(typed: bytes, home: Path) -> tuple[int, str]:
    """Type into the command in a terminal, once it asks; its status and all that is seen there. Ctrl-C is a signal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "HOME": str(home), "TERM": "dumb"}
    process = subprocess.Popen(EVENREEL, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=home)
    os.close(theirs)
    seen, idle, deadline = b"", 0, time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                seen += os.read(ours, 4_096)
            except OSError:  # it has ended
                break
            idle = 0
        idle += 1
        if typed == CTRL_C and b"[1]:" in seen and idle > IDLE:  # again where it came before the terminal was read from
            process.send_signal(signal.SIGINT)
            idle = 0
        elif typed and typed != CTRL_C and seen.rstrip().endswith(b"[1]:"):
            os.write(ours, typed)
            typed = b""
    try:
        code = process.wait(PATIENCE_S)
    finally:
        process.kill()
        os.close(ours)
    return code, seen.decode()


def test_in_a_terminal_it_asks_and_says_which_command_that_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, seen = in_a_terminal(f"2\n{tmp_path / 'empty'}\n".encode(), tmp_path)
    assert "What do you want to do?" in seen
    assert f"$ evenreel index -- {tmp_path / 'empty'}" in seen
    assert code == 1 and "There is no video in" in seen


@pytest.mark.parametrize("typed", [b"q\n", b"\x04", CTRL_C])
@pytest.mark.usefixtures("interruptible")
def test_who_leaves_gets_no_complaint(tmp_path: Path, typed: bytes) -> None:
    code, seen = in_a_terminal(typed, tmp_path)
    assert code == 0
    assert "evenreel:" not in seen and "Traceback" not in seen


def test_without_a_terminal_it_prints_the_help_as_ever() -> None:
    alone = subprocess.run(EVENREEL, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    with_help = subprocess.run((*EVENREEL, "--help"), capture_output=True, text=True, check=True)
    assert (alone.stdout + alone.stderr).strip() == with_help.stdout.strip()
