"""Forgets in children that are killed, each a step later than the one before; prints how many, and how many had begun.

Usage: `python -m tests.library.people.killed_forgetting LIBRARY at-a-line|within-sqlite|everyone FOLDER`. No line
between two steps of our own, or no statement of SQLite with pages written before they are committed, goes untried.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

from evenreel.errors import UsageError
from evenreel.library import people
from evenreel.library.people import FORGETTING, forget_everyone, forget_person, list_people
from evenreel.library.store.catalog import CATALOG
from tests.library.people.traces import found_in, traces

SOURCES = {people.__file__}
OPERATIONS = 100
"""Operations of SQLite's machine between two points at which it is killed."""


def killed_at(step: int, work: Callable[[], Any], prepare: Callable[[int], None]) -> bool:
    """Run some work in a child that is killed at a step; False where it ended before."""
    child = os.fork()
    if child == 0:
        try:
            prepare(step)
            work()
            sys.settrace(None)
        except BaseException:
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def at_a_line(step: int) -> None:
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in SOURCES:
            return None
        lines += event == "line"
        if lines >= step:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def within_sqlite(step: int) -> None:
    steps, connect = 0, sqlite3.connect

    def count() -> int:
        nonlocal steps
        steps += 1
        if steps >= step:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def watched(*given: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*given, **named)
        connection.execute("PRAGMA cache_size = 1")  # so that pages are written before they are committed
        connection.set_progress_handler(count, OPERATIONS)
        return connection  # type: ignore[no-any-return]

    sqlite3.connect = watched  # type: ignore[assignment]


def check_ada(place: Path, gone: list[bytes]) -> bool:
    """The next command finishes what was begun; returns whether anything was."""
    names = [one.name for one in list_people(place)]
    assert names in (["Bob"], ["Ada King", "Bob"]), names
    begun = names == ["Bob"]
    if not begun:
        forget_person(place, "Ada King")
    assert not found_in(place, gone)
    with closing(sqlite3.connect(place / CATALOG)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM faces").fetchone() == (7,)
    return begun


def check_everyone(place: Path, gone: list[bytes]) -> bool:
    """The next look finishes what was begun; returns whether anything was."""
    try:
        begun = not list_people(place)
    except UsageError:  # no people are looked for any more
        begun = True
    assert not (place / FORGETTING).exists()
    assert not (begun and found_in(place, gone))
    return begun


def main(library: Path, where: str, place: Path) -> None:
    gone = traces(library, None if where == "everyone" else "Ada King")
    check = check_everyone if where == "everyone" else check_ada
    prepare = within_sqlite if where == "within-sqlite" else at_a_line
    step, begun = 1, 0
    while True:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(library, place)

        def work() -> None:
            if where == "everyone":
                forget_everyone(place)
            else:
                forget_person(place, "Ada King")

        if not killed_at(step, work, prepare):
            break
        begun += check(place, gone)
        step += 1
    print(step - 1, begun)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
