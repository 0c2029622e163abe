"""Checks of settings, so that a wrong recipe is refused before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

from evenreel.documents import brief
from evenreel.errors import UsageError


class OptionForm(NamedTuple):
    """Form of a setting on the command line, beside its type: `Annotated[int, OptionForm(least=1)]`.

    Attributes:
        name: name of the option with its dashes; None for that of the setting.
        least: smallest number; None for no bound.
        most: largest number; None for no bound.
    """

    name: str | None = None
    least: float | None = None
    most: float | None = None


class Allowed(NamedTuple):
    """Values that a setting may have, with their description for messages."""

    words: str
    holds: Callable[[Any], bool]


def number(words: str, holds: Callable[[float], bool]) -> Allowed:
    """Allow finite numbers for which a condition holds, which `words` describe; no text, no bool and no NaN."""
    return Allowed(
        f"a number {words}".strip(),
        lambda value: (
            isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value) and holds(float(value))
        ),
    )


MOST = 10**9
"""Most steps, rows and the like: beyond all that anyone has, and within every counter."""
MOST_LAYERS = 1_000
MOST_SIZE = 2**20
"""Largest size of a layer, and most frames or words that have a place in a table."""
MOST_BITS = 2**63 - 1
"""Largest seed or number of bytes."""


def whole(least: int, most: int = MOST) -> Allowed:
    """Allow whole numbers from the least to the most.

    >>> whole(1).holds(2), whole(1).holds(0), whole(1).holds(2.0), whole(1).holds(10**400)
    (True, False, False, False)
    """
    room = "below 2^63" if most == MOST_BITS else f"at most {most:,}"
    return Allowed(
        f"a whole number, at least {least} and {room}",
        lambda value: isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most,
    )


def one_of(*names: str) -> Allowed:
    """Allow these words alone."""
    return Allowed(" or ".join(names), lambda value: isinstance(value, str) and value in names)


TRUE_OR_FALSE = Allowed("true or false", lambda value: isinstance(value, bool))
FINITE = number("", lambda value: True)
ABOVE_0 = number("above 0", lambda value: value > 0)
AT_LEAST_0 = number("of at least 0", lambda value: value >= 0)
BETWEEN_0_AND_1 = number("between 0 and 1", lambda value: 0 < value < 1)
ABOVE_0_TO_1 = number("above 0 and at most 1", lambda value: 0 < value <= 1)
SHARE = number("of at least 0 and below 1", lambda value: 0 <= value < 1)
TEXT_OR_NONE = Allowed("text or null", lambda value: value is None or (isinstance(value, str) and bool(value)))
TEXT = Allowed("text", lambda value: isinstance(value, str) and bool(value))
WORDS = Allowed(
    "a list of words, each once",
    lambda value: (
        isinstance(value, (list, tuple))
        and all(isinstance(word, str) for word in value)
        and len(set(value)) == len(value)
    ),
)


def check_settings(owner: str, settings: object, allowed: Mapping[str, Allowed]) -> None:
    """Check that settings have allowed values."""
    for name, values in allowed.items():
        if not values.holds(given := getattr(settings, name)):
            raise UsageError(
                f"The setting {name} of {owner} is {' '.join(brief(given).split())}; it must be {values.words}."
            )


def check_heads(dimension: int, heads: int) -> None:
    """Check that a number of attention heads divides the length of the features."""
    if dimension % heads:
        raise UsageError(
            f"Features of length {dimension} cannot be split among {heads} attention heads; "
            f"choose a number of heads that divides {dimension}."
        )
