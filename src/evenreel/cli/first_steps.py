"""What `evenreel` alone asks in a terminal: what to do, and with which folder. The answer is the words of a command."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from evenreel.wording import printable

QUESTION = """What do you want to do?

  1  Open the page: search your videos, and add folders of them
  2  Add a folder of videos from here
  3  Try the demo: a small library of made clips, indexed, searched and audited

evenreel --help lists all commands. 1, 2, 3, or q to leave [1]: """
WHICH_FOLDER = "Which folder? Type its path, or drag it here; Enter alone goes back: "
NO_CHOICE = "Please type 1, 2, 3 or q.\n"


def asked() -> list[str] | None:
    """Ask what to do where a person sits at a terminal."""
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        return []
    chosen = choose(input)
    if chosen:
        print(f"\n$ {printable(shlex.join(['evenreel', *chosen]))}\n", flush=True)  # noqa: T201 -- a conversation
    return chosen


def choose(ask: Callable[[str], str]) -> list[str] | None:
    """Ask until an answer is one of those that are offered."""
    question = QUESTION
    while True:
        answer = ask(question).strip().lower()
        question = NO_CHOICE + QUESTION
        if answer in {"q", "quit", "exit"}:
            return None
        if answer in {"", "1"}:
            return ["serve", "--open"]
        if answer == "3":
            return ["demo"]
        if answer == "2":
            if (folder := _folder(ask)) is not None:
                return ["index", "--", folder]
            question = QUESTION


def _folder(ask: Callable[[str], str]) -> str | None:
    """A folder that is there; None for none."""
    question = WHICH_FOLDER
    while typed := ask(question).strip():
        for path in _readings(typed):
            if os.path.isdir(path):
                return path
        question = f"There is no folder {printable(typed)}.\n{WHICH_FOLDER}"
    return None


def _readings(typed: str) -> list[str]:
    """What a line may mean: a path as it is, or in the quotes and escapes of a terminal that it was dragged to."""
    try:
        parts = shlex.split(typed)
    except ValueError:  # a quote that is part of the name
        parts = []
    return [str(Path(path).expanduser()) for path in (typed, *parts[:1])]


def _is_terminal(stream: object) -> bool:
    isatty = getattr(stream, "isatty", None)
    return isatty is not None and bool(isatty())
