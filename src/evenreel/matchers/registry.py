"""Registry of matchers by name, the word that a recipe or a checkpoint gives as `matcher`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from evenreel.errors import UsageError
from evenreel.matchers.entry import Entry
from evenreel.matchers.matcher import Matcher

_MODULES = {
    "mean_pool": "evenreel.matchers.mean_pool",
    "temporal": "evenreel.matchers.temporal",
    "wti": "evenreel.matchers.wti",
    "x_clip": "evenreel.matchers.x_clip",
    "x_pool": "evenreel.matchers.x_pool",
    "t_mass": "evenreel.matchers.t_mass",
    "hgr": "evenreel.matchers.hgr.matcher",
    "tcd": "evenreel.matchers.tcd.matcher",
    "bima": "evenreel.matchers.bima.matcher",
}
"""The module of each matcher, with its `ENTRY`."""


class _Matchers(Mapping[str, Entry]):
    """Matchers by their names; the module of one is imported when it is looked up, so that no other is needed."""

    def __getitem__(self, name: str) -> Entry:
        entry: Entry = import_module(_MODULES[name]).ENTRY
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


MATCHERS: Mapping[str, Entry] = _Matchers()


def build_matcher(name: str, dimension: int, settings: Mapping[str, Any] | None = None) -> Matcher:
    """Build a matcher by name, with fresh parameters.

    Args:
        name: a key of `MATCHERS`.
        dimension: length D of the features it takes.
        settings: fields of its settings class that differ from the defaults.

    Raises:
        UsageError: no matcher has this name, or no setting of it.
    """
    if name not in MATCHERS:
        raise UsageError(f"No matcher is called {name!r}; there are {', '.join(MATCHERS)}.")
    entry = MATCHERS[name]
    known = set(entry.settings.__dataclass_fields__)
    if unknown := sorted(set(settings or {}) - known):
        raise UsageError(f"The matcher {name} has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}.")
    matcher: Matcher = entry.matcher(dimension, entry.settings(**(settings or {})))
    return matcher
