"""Commands that are imported when they are called: what one needs, the others do not wait for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Protocol, cast, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from evenreel.cli.from_settings import OptionSettings
from evenreel.errors import UsageError


class Listed(Protocol):
    """A word of the command line: a command or a group of them. The first help shows the words that have a panel."""

    @property
    def panel(self) -> str | None: ...
    def help(self) -> str | None: ...
    def make(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Command:
    """A command, by the place of its function, `module:function`."""

    place: str
    panel: str | None = None

    def _function(self) -> Callable[..., None]:
        module, _, name = self.place.partition(":")
        return cast("Callable[..., None]", getattr(import_module(module), name))

    def help(self) -> str | None:
        return inspect.getdoc(self._function())

    def make(self, name: str) -> Any:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(command_of(self._function()))
        return typer.main.get_command(alone)


@dataclass(frozen=True)
class LazyGroup(Command):
    """A group of commands, made by the function at `place` from the word that they stand behind."""

    def make(self, name: str) -> Any:
        return self._function()(name)


@dataclass(frozen=True)
class CommandGroup:
    """A group of commands behind a word, such as `evenreel corpus info`; `text` says what they are for."""

    text: str
    commands: Mapping[str, Command]
    panel: str | None = None

    def help(self) -> str:
        return self.text

    def make(self, name: str) -> Any:
        return typer.main.get_group(typer.Typer(name=name, help=self.text, cls=group_of(self.commands)))


class _Made(Mapping[str, Any]):
    """Commands by their names, each made when it is looked up."""

    def __init__(self, table: Mapping[str, Listed]) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Any:
        return self._table[name].make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class TableGroup(TyperGroup):
    """A group of commands, listed in the order of a table; only the called one is made with its options.

    Where some words of the table have a panel, `--help` explains these alone. `moved` has for each word that is no
    longer there what to type in its place.
    """

    table: ClassVar[Mapping[str, Listed]]
    moved: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast("Any", _Made(self.table))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command's name and help, which are all that a list of commands needs."""
        if (one := self.table.get(cmd_name)) is None:
            return None
        if one.panel is None and any(other.panel for other in self.table.values()):
            return TyperCommand(name=cmd_name, hidden=True)
        return TyperCommand(name=cmd_name, help=one.help(), rich_help_panel=one.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, whole, and the other words."""
        if args and (instead := self.moved.get(args[0])):
            raise UsageError(f"evenreel {args[0]} is now: evenreel {instead}")
        name, _, rest = super().resolve_command(ctx, args)
        return name, self.commands.get(name or ""), rest


def command_of(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command as Typer takes it: each parameter that stands for settings is replaced by their options."""
    own = inspect.signature(function).parameters
    made = {name: one.default for name, one in own.items() if isinstance(one.default, OptionSettings)}
    if not made:
        return function

    @functools.wraps(function)
    def run(**given: Any) -> None:
        function(**{name: made[name].build(given) if name in made else given[name] for name in own})

    run.__annotations__ = {name: kind for name, kind in function.__annotations__.items() if name not in made}
    hints = get_type_hints(run, include_extras=True)
    every: list[inspect.Parameter] = []
    for name, one in own.items():
        plain = one.replace(kind=one.KEYWORD_ONLY, annotation=hints.get(name))
        every += made[name].parameters() if name in made else [plain]
    names = [one.name for one in every]
    if twice := {name for name in names if names.count(name) > 1}:
        raise TypeError(f"{function.__name__} has two options {', '.join(sorted(twice))}")
    run.__annotations__ = {one.name: one.annotation for one in every}
    cast("Any", run).__signature__ = inspect.Signature(every)
    return run


def group_of(table: Mapping[str, Listed], moved: Mapping[str, str] | None = None) -> type[TableGroup]:
    """Make the class of a group of the commands of a table."""
    return type("Group", (TableGroup,), {"table": table, "moved": moved or {}})
