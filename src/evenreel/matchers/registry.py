"""Registry of matchers by name, the word that a recipe or a checkpoint gives as `matcher`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from evenreel.errors import UsageError
from evenreel.matchers.matcher import Entry, Matcher

_MODULES = ("mean_pool", "temporal", "wti", "x_clip", "x_pool", "t_mass", "hgr", "tcd", "bima")
"""Modules of this package, named as their matcher, each with its `ENTRY`."""

_OWN: dict[str, Entry] = {}
"""Matchers that `register_matcher` added."""


class _Matchers(Mapping[str, Entry]):
    """Matchers by their names; the module of one is imported when it is looked up, so that no other is needed."""

    def __getitem__(self, name: str) -> Entry:
        if name not in _MODULES:
            return _OWN[name]
        entry: Entry = import_module(f"evenreel.matchers.{name}").ENTRY
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter((*_MODULES, *_OWN))

    def __len__(self) -> int:
        return len(_MODULES) + len(_OWN)


MATCHERS: Mapping[str, Entry] = _Matchers()


def register_matcher(name: str, entry: Entry) -> None:
    """Register a matcher of your own, so that recipes, training and checkpoints know it by its name.

    It is known in this process alone: register it again before a checkpoint of it is loaded. Registering a name of your
    own again replaces what it stood for.

    Args:
        name: name for recipes, one word.
        entry: class of the matcher (`evenreel.matchers.Matcher`) and of its settings, a dataclass.

    Raises:
        UsageError: the name is that of a matcher of the package, or no word; the settings are no dataclass.
    """
    if name in _MODULES or not name.isidentifier():
        why = "is a matcher of the package" if name in _MODULES else "is no single word"
        raise UsageError(f"{name!r} {why}; give your own matcher another name, such as my_matcher.")
    if not hasattr(entry.settings, "__dataclass_fields__"):
        raise UsageError(f"The settings of {name} are {entry.settings!r}, which is no dataclass; make it one.")
    _OWN[name] = entry


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
    matcher: Matcher = MATCHERS[name].matcher(dimension, settings_of(MATCHERS[name], f"matcher {name}", settings or {}))
    return matcher


def settings_of(entry: Entry, owner: str, settings: Mapping[str, Any]) -> Any:
    """Make the settings of an entry; one that there is not is refused by name, `owner` being whose it would be."""
    known = set(entry.settings.__dataclass_fields__)
    if unknown := sorted(set(settings) - known):
        raise UsageError(f"The {owner} has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}.")
    return entry.settings(**settings)
