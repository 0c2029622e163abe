from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.errors import UsageError
from evenreel.library.search.query import Query
from tests.cli.test_library_commands import here

CHECKED_BY_THE_LIBRARY = {
    f"{command} {option}"
    for command, options in {
        "corpus classes": "--share", "corpus corrupt": "--strength", "corpus edit": "--share",
        "corpus equalise": "--crf --duration --fps --height --width", "corpus mix": "--share", "audit": "--confidence",
        "evaluate": "--confidence --alpha --beta --scale --temperature --weight", "export": "--handles -k",
        "fuse": "--weight", "mcp": "--rerank-depth",
        "planted": "--clips --long --short --signs --strength", "shifts": "--confidence --strength",
        "search": "--rerank-depth --within -k", "serve": "--rerank-depth",
    }.items()
    for option in options.split()
}  # fmt: skip
"""These are refused in a sentence of their own, to callers in Python too."""

ENDLESS = ("9" * 400, "9" * 5_000, "1e400", "inf", "nan", "²", "-" + "9" * 30)


class Number(NamedTuple):
    command: tuple[str, ...]
    option: str
    parameter: Any

    @property
    def name(self) -> str:
        return " ".join((*self.command, self.option))


def numbers(command: Any, path: tuple[str, ...] = ()) -> Iterator[Number]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from numbers(inner, (*path, name))
    for parameter in command.params:
        kind = str(parameter.type_descriptor.annotation)
        if {"int", "float"} & set(re.findall(r"\w+", kind)):
            yield Number(path, parameter.opts[0], parameter)


NUMBERS = list(numbers(typer.main.get_command(app)))
CHECKED_BY_THE_LIBRARY |= {one.name for one in NUMBERS if one.command[0] == "study" and one.option == "--confidence"}


def test_there_are_numbers() -> None:
    names = {number.name for number in NUMBERS}
    assert len(names) > 60
    assert {"cost --frames", "search -k", "planted --clips", "fuse --weight", "planted --short"} <= names
    assert names > CHECKED_BY_THE_LIBRARY


@pytest.mark.parametrize(
    "number", [one for one in NUMBERS if one.name not in CHECKED_BY_THE_LIBRARY], ids=lambda one: one.name
)
def test_a_number_has_two_ends(number: Number) -> None:
    least, most = number.parameter.min, number.parameter.max
    assert least is not None and most is not None, f"{number.name} goes from {least} to {most}"
    assert isfinite(least) and isfinite(most) and least < most <= 2**63 - 1


@pytest.mark.parametrize("value", ENDLESS, ids=lambda value: value[:8])
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("planted visual --out /nowhere/at-all", ("--clips", "--seed", "--strength", "--signs", "--workers")),
        ("cost msrvtt-9k/mean_pool", ("--frames", "--batch", "--words", "--windows", "--dimension")),
    ],
)
def test_a_number_without_end_is_refused(command: str, options: tuple[str, ...], value: str) -> None:
    for option in options:
        done = CliRunner().invoke(app, [*command.split(), f"{option}={value}"])
        assert done.exit_code != 0
        assert isinstance(done.exception, (SystemExit, UsageError)), (option, done.exception)


@pytest.mark.parametrize("count", [0, -1, 10**7, 10**400], ids=["none", "negative", "millions", "digits"])
def test_a_search_for_more_clips_than_there_may_be_is_refused(count: int) -> None:
    with pytest.raises(UsageError, match="ask for 1 to 1,000,000"):
        Query("a tram", k=count)
    with pytest.raises(UsageError, match="it must be 1 to 1,000,000"):
        Query("a tram", rerank_depth=count)


def test_a_corpus_of_99999999999_clips_is_refused_at_once() -> None:
    done = here("planted", "visual", "--clips", "99999999999", "--out", "/nowhere/at-all")
    assert (done.returncode, done.stdout) == (2, "")
    assert "99999999999 clips" in done.stderr and "at most 100,000" in done.stderr


def test_the_cost_of_100000000_frames_is_refused_before_memory_is_taken() -> None:
    done = here("cost", "msrvtt-9k/mean_pool", "--frames", "100000000", "--dimension", "512")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--frames" in done.stderr and "3600" in done.stderr
