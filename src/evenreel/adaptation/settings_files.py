"""Settings of adaptation and of its preparation as YAML files: found, read, changed by `--set`, checked key by key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.adaptation.settings import AdaptSettings
from evenreel.training.recipe import RecipeError, changed, named_file, read_changed, read_settings, yaml_files

if TYPE_CHECKING:
    from evenreel.adaptation.preparing import PrepareSettings

DEFAULT = "safe"
"""What a command takes where nothing is named."""

_WHAT = "file of settings"


def shipped_settings() -> dict[str, Path]:
    """Return the paths of the package's settings of adaptation by name, in order."""
    return yaml_files("evenreel.adaptation")


def load_settings(name: str | Path = DEFAULT, changes: Sequence[str] = ()) -> AdaptSettings:
    """Load settings of adaptation from a file, or those of the package by name.

    Args:
        name: a path, or a name such as `titan/offline`.
        changes: settings that replace those of the file, each `place=value` with the value in YAML, for example
            `matching.alpha=0.5`.

    Raises:
        RecipeError: there is no such file, it is no YAML, has an unknown key, or a value of another type or out of its
            range.

    >>> load_settings("titan/naive", ["lr=0.001"]).matching.match
    'one_way'
    """
    path = named_file(name, shipped_settings(), _WHAT)
    values = read_changed(path, changes, _WHAT, shipped_settings())
    try:
        return read_settings(AdaptSettings, values)
    except RecipeError as error:
        raise RecipeError(f"The {_WHAT} {name}{_with(changes)} cannot be followed:", *error.args) from error


def load_prepare_settings(path: Path | None = None, changes: Sequence[str] = ()) -> PrepareSettings:
    """Load the settings of `evenreel prepare` from a YAML file.

    Args:
        path: a YAML file; None for the defaults.
        changes: settings that replace those of the file, each `place=value`, for example `causal_fit.lr=0.001`.

    Raises:
        RecipeError: there is no such file, it is no YAML, has an unknown key, or a value of another type or out of its
            range.
    """
    from evenreel.adaptation.preparing import PrepareSettings

    values = changed({}, changes) if path is None else read_changed(path, changes, _WHAT, {})
    try:
        return read_settings(PrepareSettings, values)
    except RecipeError as error:
        named = _WHAT if path is None else f"{_WHAT} {path}"
        raise RecipeError(f"The {named}{_with(changes)} cannot be followed:", *error.args) from error


def _with(changes: Sequence[str]) -> str:
    return f", with {', '.join(changes)}," if changes else ""
