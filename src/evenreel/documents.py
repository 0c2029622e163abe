"""JSON and YAML from outside: read within limits of size and depth, or refused in a sentence.

Whatever is wrong raises a `ValueError` whose text is a part of the caller's message: the parsers themselves raise
`RecursionError` for what is nested too deeply, and a YAML file of a kilobyte whose aliases repeat each other stands for
more values than any memory holds.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaml.events import Event

MAX_DEPTH = 100
"""Most levels of lists and tables within each other in a document of settings."""
MAX_YAML_CHARACTERS = 2**18
MAX_YAML_VALUES = 100_000
"""Most values of a YAML document, with every alias written out."""
MAX_DIGITS = 18
"""Most digits of a whole number from outside; every 64-bit integer holds it."""

WRITTEN_BITS = 14_000
"""Most bits of a whole number; Python refuses to write out one of more than 4,300 digits."""

_WHOLE = re.compile(rf"[0-9]{{1,{MAX_DIGITS}}}")


def parse_json(text: str | bytes) -> Any:
    """Read a JSON document of settings."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise ValueError(_plainly(error)) from error
    _check_values(value)
    return value


def parse_yaml(text: str) -> Any:
    """Read a YAML document of settings; only plain values, no objects."""
    import yaml

    if len(text) > MAX_YAML_CHARACTERS:
        raise ValueError(f"it has {len(text):,} characters, at most {MAX_YAML_CHARACTERS:,} are read")
    try:
        _check_events(yaml.parse(text, Loader=yaml.SafeLoader))
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(_plainly(error)) from error


def whole_number(text: str) -> int | None:
    """Parse a whole number of 0 or more in plain digits; None for others, one of more than `MAX_DIGITS` too.

    Example:
        >>> [whole_number(text) for text in ("12", "0012", "-1", "²", "1_000", "9" * 19)]
        [12, 12, None, None, None, None]
    """
    return int(text) if _WHOLE.fullmatch(text) else None


def brief(value: object, most: int = 80) -> str:
    """Return a value as Python writes it, cut to a length that fits a message.

    Example:
        >>> brief("short"), brief(10**400, 12)
        ("'short'", '100000000000...')
    """
    if isinstance(value, int) and value.bit_length() > WRITTEN_BITS:
        return f"a number of {value.bit_length() * 0.30103:,.0f} digits"
    told = repr(value)
    return told if len(told) <= most else f"{told[:most]}..."


def _check_values(value: Any) -> None:
    level, depth = [value], 0
    while level:
        wide = next((one for one in level if isinstance(one, int) and abs(one) >= 2**64), None)
        if wide is not None:
            raise ValueError(f"it has the whole number {brief(wide)}, and 64 bits are the most that is read")
        level = [one for one in level if isinstance(one, (dict, list))]
        depth += bool(level)
        if depth > MAX_DEPTH:
            raise _too_deep()
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]


def _check_events(events: Iterator[Event]) -> None:
    """Count what a document stands for before any of it is made."""
    import yaml

    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]  # its anchor, and the values in it until now
    for event in events:
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            open_nodes.append((event.anchor, 1))
            if len(open_nodes) > MAX_DEPTH + 1:
                raise _too_deep()
            continue
        if isinstance(event, yaml.AliasEvent):
            size = sizes.get(event.anchor, MAX_YAML_VALUES)  # one that is still open holds itself
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
            if event.anchor is not None:
                sizes[event.anchor] = size
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            anchor, size = open_nodes.pop()
            if anchor is not None:
                sizes[anchor] = size
        else:
            continue
        anchor, before = open_nodes.pop()
        if before + size > MAX_YAML_VALUES:
            raise ValueError(f"it stands for more than {MAX_YAML_VALUES:,} values; do its aliases repeat each other?")
        open_nodes.append((anchor, before + size))


def _plainly(error: Exception) -> str:
    """What a parser says, in one line and without what Python advises to programmers."""
    return " ".join(str(error).split()).partition("; use sys.")[0]


def _too_deep() -> ValueError:
    return ValueError(f"it is nested too deeply, more than {MAX_DEPTH} lists or tables within each other")
