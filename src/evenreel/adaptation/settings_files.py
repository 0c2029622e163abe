"""Settings of test-time training as YAML: found by path or by name, read, changed by `--set`, checked key by key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenreel.adaptation.settings import AdaptSettings
from evenreel.training.recipe import RecipeError
from evenreel.training.recipe_files import named_file, read_changed, read_settings, yaml_files

DEFAULT = "safe"
"""What a command takes where nothing is named."""

_WHAT = "file of settings"


def shipped_settings() -> dict[str, Path]:
    """The settings of the package by name, in order."""
    return yaml_files("evenreel.adaptation")


def load_settings(name: str | Path = DEFAULT, changes: Sequence[str] = ()) -> AdaptSettings:
    """Settings of a file, or of the package.

    Args:
        name: a path, or a name such as `titan/offline`.
        changes: settings in place of those of the file, each `place=value` with the value in YAML, for example
            `matching.alpha=0.5`.

    Raises:
        RecipeError: there is no such file, it is no YAML, has a key that nothing has, or a value of another type or
            out of its range.

    >>> load_settings("titan/naive", ["lr=0.001"]).matching.match
    'one_way'
    """
    path = named_file(name, shipped_settings(), _WHAT)
    values = read_changed(path, changes, _WHAT)
    try:
        return read_settings(AdaptSettings, values)
    except RecipeError as error:
        changed = f", with {', '.join(changes)}," if changes else ""
        raise RecipeError(f"The {_WHAT} {name}{changed} cannot be followed:", *error.args) from error
