"""Options of a command made of settings: one for each field of a dataclass, with its name, type, default and help."""

from __future__ import annotations

import copy
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from evenreel.cli.options import SHARED
from evenreel.config import OptionForm

_PLAIN = (str, int, float, bool)
_SECTION = re.compile(r"^(?:Attributes|Args):\n((?:(?: +.*)?\n)+)", re.MULTILINE)
_REFERENCE = re.compile(r" \(`evenreel\.[\w.]+`\)")
_USUAL = re.compile(r"; (?:None|empty) for ")
_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class OptionSettings:
    """The options that one parameter of a command stands for, made by `from_settings`.

    Attributes:
        source: a dataclass or a function, or `module:name` of one.
        leave_out: parameters of it that are no options.
        panel: heading of the options in `--help`; None for the usual one.
        options: how options are declared, by the parameter that they are of.
    """

    source: Callable[..., Any] | str
    leave_out: tuple[str, ...]
    panel: str | None
    options: Mapping[str, Any]

    @functools.cached_property
    def make(self) -> Callable[..., Any]:
        """The dataclass or function, which is imported where its place is named."""
        if not isinstance(self.source, str):
            return self.source
        module, _, name = self.source.partition(":")
        return cast("Callable[..., Any]", getattr(import_module(module), name))

    @functools.cached_property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        found = inspect.signature(self.make).parameters
        if strange := (set(self.leave_out) | set(self.options)) - set(found):
            raise TypeError(f"{self.make.__name__} takes no {', '.join(sorted(strange))}")
        return {name: one for name, one in found.items() if name not in self.leave_out}

    def parameters(self) -> Iterator[inspect.Parameter]:
        """List the parameters that Typer reads from the command line."""
        texts = documented(self.make)
        for name, one in self._parameters.items():
            declared = self._declared(name)
            if isinstance(declared, OptionSettings):
                yield from declared.parameters()
            else:
                yield self._option(one, declared or self._hint(one), texts.get(name))

    def _declared(self, name: str) -> Any:
        """What is said of a parameter; None where its option follows from itself."""
        found = self.options.get(name, SHARED.get(name))
        return OptionSettings(found, (), self.panel, {}) if inspect.isfunction(found) else found

    def _hint(self, one: inspect.Parameter) -> Any:
        """The type of one parameter alone, as the module reads it that names it: others may be for type checkers."""
        holder = type("Holder", (), {"__annotations__": {one.name: one.annotation}})
        named = (own for own in getattr(self.make, "__mro__", ()) if one.name in vars(own).get("__annotations__", {}))
        module = next(named, self.make).__module__
        return get_type_hints(holder, vars(sys.modules[module]), include_extras=True)[one.name]

    def _option(self, one: inspect.Parameter, hint: Any, text: str | None) -> inspect.Parameter:
        kind, info = _declared(one, hint)
        info = copy.copy(info)
        info.help = info.help or (text and text + _usual(one.default))
        if isinstance(info, OptionInfo):
            info.rich_help_panel = info.rich_help_panel or self.panel
        default = False if one.default is True else _default(one)
        if default is None and type(None) not in get_args(kind):
            kind = kind | None
        return one.replace(kind=one.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])

    def build(self, given: Mapping[str, Any]) -> Any:
        """Make the settings of the values that Typer read, by parameter; one that was not given has its default."""
        values: dict[str, Any] = {}
        for name, one in self._parameters.items():
            declared = self._declared(name)
            value = declared.build(given) if isinstance(declared, OptionSettings) else given[name]
            if one.default is True:
                values[name] = not value
            elif value is not None:
                values[name] = tuple(value) if isinstance(value, list) else value
        return self.make(**values)


def from_settings(
    source: Callable[..., Any] | str, *, leave_out: tuple[str, ...] = (), panel: str | None = None, **options: Any
) -> Any:
    """Declare an option for each parameter of a dataclass or function, as the default of a command's parameter.

    The option of `max_entities` is `--max-entities`; that of `duration_s`, `--duration`; of a field that is True by
    default, `--no-...`; an `OptionForm` in its annotation gives another name, and bounds. Its help is what the
    docstring says of the attribute or argument.
    """
    return OptionSettings(source, leave_out, panel, options)


def documented(source: Callable[..., Any]) -> dict[str, str]:
    r"""Read help texts from a docstring, one an attribute or argument; a class has those of its bases too.

    >>> def rate(fps, side):
    ...     '''How clips are written.
    ...
    ...     Args:
    ...         fps: frames a second, `[0-9]+`;
    ...             None for as many as there are.
    ...         side: of the picture.
    ...     '''
    >>> documented(rate)["fps"]
    "Frames a second, '\\[0-9]+'. \\[default: as many as there are]"
    """
    found: dict[str, str] = {}
    for one in reversed(source.__mro__) if isinstance(source, type) else (source,):
        section = _SECTION.search(inspect.cleandoc(one.__doc__ or "") + "\n")
        entries = _ENTRY.findall(section[1]) if section else []
        found |= {name: _as_help(text) for names, text in entries for name in names.split(", ")}
    return found


def _as_help(text: str) -> str:
    plain = _REFERENCE.sub("", " ".join(text.split()))
    words, *default = _USUAL.split(plain.replace("[", r"\[").rstrip("."), maxsplit=1)
    usual = rf" \[default: {default[0]}]" if default else ""
    return f"{words[:1].upper()}{words[1:]}.{usual}".replace("`", "'")


def _declared(one: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    """Type and option of a parameter: those of an `Annotated` type, else what follows from the name and the type."""
    kind, form = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, OptionForm())
    if not isinstance(form, OptionForm):
        return _readable(kind) if get_origin(kind) is tuple else kind, form
    name = one.name.removesuffix("_s").replace("_", "-")
    usual = f"--no-{name}" if one.default is True else f"--{name}"
    return _readable(kind), typer.Option(form.name or usual, min=form.least, max=form.most)


def _readable(kind: Any) -> Any:
    """A type that Typer reads from the command line, for that of a field."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return str
    if origin is Mapping:
        return list[str]
    if origin is tuple and inner[-1] is Ellipsis:
        return list[_readable(inner[0])]  # type: ignore[misc]
    if origin in (Union, UnionType):
        return Union[tuple(_readable(one) for one in inner)]  # noqa: UP007 -- made of a list
    return kind


def _usual(default: Any) -> str:
    """The values of a tuple that hold where an option is left out, which Typer does not show."""
    if not isinstance(default, tuple) or not default:
        return ""
    return rf" \[default: {', '.join(f'{one:g}' if isinstance(one, float) else str(one) for one in default)}]"


def _default(one: inspect.Parameter) -> Any:
    """What an option shows and gives where it is left out; None leaves it to the settings."""
    if one.default is one.empty or one.default is None or isinstance(one.default, _PLAIN):
        return one.default
    return one.default if type(one.default).__module__.startswith("pathlib") else None
