"""Words that edits of composition go by, from `composition.txt`: beings, attributes, relations and what they need."""

from __future__ import annotations

from collections import defaultdict
from functools import cache, lru_cache

from evenreel.language.synonyms import packaged_lines

ATTRIBUTES = (
    "colour",
    "size",
    "height",
    "length",
    "age",
    "newness",
    "temperature",
    "wetness",
    "state",
    "speed",
    "look",
    "surface",
    "shape",
    "number",
)
"""Kinds of attributes."""

RELATIONS = ("always", "side", "order", "motion", "holder")
"""What a relation needs beside its word, see `composition.txt`."""


@lru_cache(maxsize=1)
def rows() -> dict[str, list[str]]:
    """Return the rows of `composition.txt` by the words before their colon, in their order."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in packaged_lines("composition.txt"):
        kind, _, rest = line.partition(":")
        found[kind].append(rest.strip())
    return dict(found)


@cache
def words(kind: str) -> frozenset[str]:
    """Return all words of one kind of rows, such as `being`."""
    return frozenset(word for row in rows()[kind] for word in row.split())


@lru_cache(maxsize=1)
def attribute_values() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Return, for each value of an attribute, its kinds, each with the other values that may take its place.

    >>> attribute_values()["short"]
    [('height', ('tall',)), ('length', ('long',))]
    """
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for kind in ATTRIBUTES:
        for row in rows()[kind]:
            values = row.split()
            for value in values:
                found[value].append((kind, tuple(one for one in values if one != value)))
    return dict(found)


@lru_cache(maxsize=1)
def fixed_nouns() -> dict[str, frozenset[str]]:
    """Return the nouns that each value of an attribute makes a name with, such as dog of `hot`."""
    found: dict[str, frozenset[str]] = {}
    for row in rows()["fixed"]:
        for pair in row.split(","):
            value, nouns = pair.split()
            found[value] = found.get(value, frozenset()) | frozenset(nouns.split("/"))
    return found


@lru_cache(maxsize=1)
def opposites() -> list[tuple[tuple[str, ...], str, str]]:
    """Return relations as their words, their opposite and what they need (`RELATIONS`), those of most words first."""
    found = []
    for need in RELATIONS:
        for row in rows()[need]:
            relation, _, opposite = row.partition(" = ")
            found.append((tuple(relation.split()), opposite, need))
    return sorted(found, key=lambda one: -len(one[0]))
