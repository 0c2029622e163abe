"""A fact that holds of many things, in one test that names all those that it does not hold of."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Thing = TypeVar("Thing")


def check_each(things: Iterable[Thing], check: Callable[[Thing], object], name: Callable[[Thing], str] = str) -> None:
    """Check all things, and fail with the name of each that the check fails on, and why.

    Args:
        things: one at least; a test of nothing fails.
        check: raises where the fact does not hold.
        name: what a thing is called.
    """
    checked, broken = 0, []
    for thing in things:
        checked += 1
        try:
            check(thing)
        except (Exception, pytest.fail.Exception) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            broken.append(f"{name(thing)}: {said} ({place.filename}:{place.lineno})")
    assert checked, "there is nothing to check"
    if broken:
        pytest.fail("\n".join([f"{len(broken)} of {checked} fail:", *broken]), pytrace=False)
