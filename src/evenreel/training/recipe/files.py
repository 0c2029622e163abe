"""Recipes as YAML files: found by path or by name, read, changed by `--set`, and checked key by key."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from evenreel.debias.source import SourceDebias
from evenreel.documents import brief, parse_yaml
from evenreel.errors import UsageError
from evenreel.matchers.registry import MATCHERS
from evenreel.training.recipe.recipe import Recipe, RecipeError
from evenreel.training.recipe.sections import MatcherChoice, Trim

Settings = TypeVar("Settings")

LARGEST = 2**63
_PRESET = "preset"
_PRESETS = {SourceDebias: "evenreel.debias.source", Trim: "evenreel.debias.trimming"}
"""The modules whose `PRESETS` a table may start from: `preset: NAME`, and beside it what differs."""

_RENAMED = {"data.seen": "data.pretrained_features"}
"""Settings of older runs by what they are called now; where they are null they say nothing and are left out."""


def find_recipe(name: str | Path) -> Path:
    """Find the file of a recipe.

    Args:
        name: a path, or the name of a recipe of the package, such as `msrvtt-9k/x_pool`.

    Raises:
        RecipeError: there is no such file and no such recipe.
    """
    return named_file(name, shipped_recipes(), "recipe")


def named_file(name: str | Path, shipped: Mapping[str, Path], what: str) -> Path:
    """Find a YAML file by its path, or among the files of the package by its name.

    Raises:
        RecipeError: there is no such file and no such name.
    """
    if Path(name).is_file():
        return Path(name)
    if str(name) in shipped:
        return shipped[str(name)]
    raise RecipeError(
        f"There is no {what} {str(name)!r}, neither a file nor one of the package: {', '.join(shipped) or 'none'}."
    )


def shipped_recipes() -> dict[str, Path]:
    """Return the paths of the package's recipes by name, in order."""
    return yaml_files("evenreel.training")


def yaml_files(package: str) -> dict[str, Path]:
    """Return the paths of the YAML files in the folder `recipes` of a package, by name, in order."""
    root = Path(str(resources.files(package))) / "recipes"
    found = {path.relative_to(root).with_suffix("").as_posix(): path for path in root.rglob("*.yaml")}
    return dict(sorted(found.items()))


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a training recipe from a YAML file, apply changes, and check it.

    Args:
        path: a YAML file.
        changes: settings that replace those of the file, each `place=value` with the value in YAML, for example
            `matcher.settings.kind=ti`.

    Raises:
        RecipeError: the file is no YAML, has an unknown key, lacks one, or a value is of the wrong type or range.
    """
    values = read_changed(path, changes)
    try:
        return recipe_from(values)
    except RecipeError as error:
        raise RecipeError(f"The recipe {path} cannot be followed:", *error.args) from error


def read_changed(path: str | Path, changes: Sequence[str] = (), what: str = "recipe") -> dict[str, Any]:
    """Read the values of a YAML file and apply changes to them, without checking any.

    Args:
        path: path of the file.
        changes: changes, each `place=value`.
        what: kind of content, for messages.

    Raises:
        RecipeError: the file cannot be read, is no YAML table, or a change is malformed.
    """
    return changed(_read(Path(path), what), changes)


def changed(values: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """Apply changes, each `place=value`, to the values of a recipe, without checking any.

    Raises:
        RecipeError: a change is no `place=value`.

    >>> changed({"lr": 0.1}, ["lr=0.5", "safety.keep=1"])
    {'lr': 0.5, 'safety': {'keep': 1}}
    """
    found = dict(values)
    for change in sorted(changes, key=_begins_anew, reverse=True):
        _change(found, change)
    return found


def recipe_from(values: Mapping[str, Any]) -> Recipe:
    """Build a recipe from values by name, as a YAML file holds them, and check it.

    Raises:
        RecipeError: a key is unknown or missing, or a value is of the wrong type or range.
    """
    recipe = read_settings(Recipe, values)
    if recipe.matcher.name not in MATCHERS:
        raise RecipeError(f"matcher.name is {recipe.matcher.name!r}; the matchers are {', '.join(MATCHERS)}.")
    settings = read_settings(MATCHERS[recipe.matcher.name].settings, recipe.matcher.settings, "matcher.settings")
    given = {name: getattr(settings, name) for name in recipe.matcher.settings}
    return replace(recipe, matcher=MatcherChoice(recipe.matcher.name, given))


def recipe_text(recipe: Recipe) -> str:
    """Return a recipe as YAML text with every setting, which reads back as the same recipe."""
    return settings_text(recipe)


def settings_text(settings: Any) -> str:
    """Return a settings dataclass as YAML text with every setting, which reads back as the same."""
    import yaml

    return str(yaml.safe_dump(_plain(asdict(settings)), sort_keys=False, allow_unicode=True))


def read_settings(kind: type[Settings], given: object, place: str = "") -> Settings:
    """Build a settings dataclass from values by name, and check their types.

    Args:
        kind: a dataclass; its fields may be dataclasses in turn.
        given: values by the name of the field.
        place: place in the recipe, for messages.

    Raises:
        RecipeError: a key is unknown or missing, or a value of the wrong type.
    """
    if not isinstance(given, Mapping):
        raise RecipeError(f"{place or 'A recipe'} is {brief(given)}; it must be a table of settings.")
    if _PRESET in given and kind in _PRESETS:
        given = _from_preset(import_module(_PRESETS[kind]).PRESETS, given, place)
    hints = get_type_hints(kind)
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]  # it is a dataclass
    given = {key: value for key, value in given.items() if value is not None or _at(place, key) not in _RENAMED}
    if renamed := next((_at(place, key) for key in given if _at(place, key) in _RENAMED), None):
        raise RecipeError(f"The setting {renamed} is called {_RENAMED[renamed]} now; rename it.")
    if strangers := [str(key) for key in given if key not in known]:
        raise RecipeError(f"There is no setting {_at(place, strangers[0])[:80]}; there are {', '.join(known)}.")
    needed = [name for name, one in known.items() if one.default is MISSING and one.default_factory is MISSING]
    if missing := [name for name in needed if name not in given]:
        raise RecipeError(f"The setting {_at(place, missing[0])} is missing.")
    try:
        return kind(**{key: _value(hints[key], value, _at(place, key)) for key, value in given.items()})
    except RecipeError:
        raise
    except (TypeError, ValueError, UsageError) as error:
        raise RecipeError(f"{place}: {error}" if place else str(error)) from error


def _from_preset(presets: Mapping[str, Any], given: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The settings of the preset that is named, and those given in place of them."""
    name = given[_PRESET]
    if not (isinstance(name, str) and name in presets):
        raise RecipeError(f"{_at(place, _PRESET)} is {name!r}; the presets are {', '.join(presets)}.")
    return {**asdict(presets[name]), **{key: value for key, value in given.items() if key != _PRESET}}


def _value(hint: Any, given: object, place: str) -> Any:
    inner = [one for one in _alternatives(hint) if is_dataclass(one)]
    if inner and given is not None:
        return read_settings(inner[0], given, place)  # type: ignore[arg-type]  # a class, not one of its objects
    kinds = _alternatives(hint)
    if isinstance(given, int) and abs(given) >= LARGEST:
        raise RecipeError(f"{place} is {brief(given)}; whole numbers in recipes are below 2^63.")
    if (isinstance(given, bool) and bool not in kinds) or (
        given is None and type(None) not in kinds and hint is not Any
    ):
        # Python takes true for 1, and the parser takes null for a value that was not given.
        raise RecipeError(_wrong_type(hint, given, place))
    return _checked(hint, given, place)


def _checked(hint: Any, given: object, place: str) -> Any:
    from jsonargparse import ArgumentError

    try:
        return _parser(hint).parse_object({"value": given})["value"]
    except (ArgumentError, TypeError, ValueError) as error:
        raise RecipeError(_wrong_type(hint, given, place)) from error


@cache
def _parser(hint: Any) -> Any:
    """What reads values of a type; to make one takes longer than to read with it."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--value", type=hint)
    return parser


def _wrong_type(hint: Any, given: object, place: str) -> str:
    return f"{place} is {brief(given)}; it must be {' or '.join(_words(hint))}."


def _words(hint: Any) -> Iterator[str]:
    """What a type wants, in words."""
    names = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        type(None): "null",
        dict: "a table",
    }
    for one in _alternatives(hint):
        if get_origin(one) is Literal:
            yield from (repr(choice) for choice in get_args(one))
        elif get_origin(one) is tuple:
            parts = get_args(one)
            count = "a list of" if parts[-1] is Ellipsis else f"{len(parts)} values, each"
            yield f"{count} {next(_words(parts[0]))}"
        elif is_dataclass(one):
            yield "a table of settings"
        else:
            yield names.get(get_origin(one) or one, str(one))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _at(place: str, key: object) -> str:
    return f"{place}.{key}" if place else str(key)


def _read(path: Path, what: str) -> dict[str, Any]:
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"The {what} {path} cannot be read ({error}).") from error
    except ValueError as error:
        raise RecipeError(f"The {what} {path} is not YAML ({error}).") from error
    if not isinstance(values, dict):
        raise RecipeError(f"The {what} {path} is not a table of settings.")
    return values


def _change(values: dict[str, Any], change: str) -> None:
    """Put one `place=value` into the settings; tables on the way are made where there are none."""
    place, equals, text = change.partition("=")
    keys = place.strip().split(".")
    if not equals or not all(keys):
        raise RecipeError(f"--set takes PLACE=VALUE, for example loop.batch_size=64, not {brief(change)}.")
    table = values
    for key in keys[:-1]:
        inner = table.get(key)
        table[key] = table = dict(inner) if isinstance(inner, dict) else {}
    if keys[-1] == _PRESET:
        table.clear()  # the settings of the file, such as that of a run, would hide all that the preset says
    try:
        table[keys[-1]] = parse_yaml(text)
    except ValueError as error:
        raise RecipeError(f"The value of --set {brief(change)} is not YAML ({error}).") from error


def _begins_anew(change: str) -> bool:
    """Whether a change puts a preset in the place of a table, so that it goes before those that change the table."""
    return change.partition("=")[0].strip().split(".")[-1] == _PRESET


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
