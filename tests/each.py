"""A fact that holds of many things, in one test that names all those that it does not hold of."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import pytest

Thing = TypeVar("Thing")


def check_each(things: Iterable[Thing], check: Callable[[Thing], object], name: Callable[[Thing], str] = str) -> None:
    """Check all things, and fail with the name of each that the check fails on, and why.

    Args:
        things: one at least; a test of nothing fails.
        check: raises where the fact does not hold; may skip a thing, and where it skips all the test is skipped.
        name: what a thing is called.
    """
    checked, broken, skipped = 0, [], ""
    for thing in things:
        try:
            check(thing)
            checked += 1
        except pytest.skip.Exception as reason:
            skipped = str(reason)
        except (Exception, pytest.fail.Exception) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            broken.append(f"{name(thing)}: {said} ({place.filename}:{place.lineno})")
    if broken:
        pytest.fail("\n".join([f"{len(broken)} of {len(broken) + checked} fail:", *broken]), pytrace=False)
    if not checked and skipped:
        pytest.skip(skipped)
    assert checked, "there is nothing to check"


def of_each(
    cases: Iterable[Any], name: Callable[[Any], str] = str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make of a test of one case one test of all of them, see `check_each`.

    Args:
        cases: the first argument of the test each, or a tuple of the first ones; fixtures are the others.
        name: what a case is called.
    """
    known = list(cases)
    arguments = len(known[0]) if isinstance(known[0], tuple) else 1

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def of_all(**fixtures: Any) -> None:
            check_each(known, lambda case: test(*(case if isinstance(case, tuple) else (case,)), **fixtures), name)

        signature = inspect.signature(test)
        of_all.__signature__ = signature.replace(parameters=list(signature.parameters.values())[arguments:])  # type: ignore[attr-defined]
        return of_all

    return decorate
