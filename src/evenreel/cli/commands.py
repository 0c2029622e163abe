"""Commands that are imported when they are called: what one needs, the others do not wait for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Protocol, cast

import typer
from typer.core import TyperCommand, TyperGroup

from evenreel.cli.from_settings import command_of


@dataclass(frozen=True)
class Command:
    """A command, by the place of its function, which is imported when the command is called.

    Attributes:
        place: `module:function`.
        panel: heading under which `--help` lists it; None for the usual one.
    """

    place: str
    panel: str | None = None

    def _function(self) -> Callable[..., None]:
        module, _, name = self.place.partition(":")
        return cast("Callable[..., None]", getattr(import_module(module), name))

    def help(self) -> str | None:
        """Return what the command does, for a list; its settings are not imported."""
        return inspect.getdoc(self._function())

    def make(self, name: str) -> Any:
        """Make the command with its options, as click runs it."""
        alone = typer.Typer(add_completion=False)
        alone.command(name)(command_of(self._function()))
        return typer.main.get_command(alone)


@dataclass(frozen=True)
class LazyGroup(Command):
    """A group of commands, made by the function at `place` from the word that they stand behind."""

    def make(self, name: str) -> Any:
        """Make the group, as click runs it."""
        return self._function()(name)


@dataclass(frozen=True)
class CommandGroup:
    """A group of commands behind a word, such as `evenreel corpus info`.

    Attributes:
        text: what the commands are for.
        commands: commands by name.
        panel: heading under which `--help` lists the word; None for the usual one.
    """

    text: str
    commands: Mapping[str, Command]
    panel: str | None = None

    def help(self) -> str:
        """Return what the commands are for, for a list."""
        return self.text

    def make(self, name: str) -> Any:
        """Make the group, as click runs it."""
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


class Listed(Protocol):
    """A word of the command line: a command or a group of them."""

    @property
    def panel(self) -> str | None:
        """Heading under which `--help` lists it; None for the usual one."""

    def help(self) -> str | None:
        """Return what the command or the group does, for a list."""

    def make(self, name: str) -> Any:
        """Make the command or the group, as click runs it."""


class TableGroup(TyperGroup):
    """A group of commands, listed in the order of a table; only the called one is made with its options."""

    table: ClassVar[Mapping[str, Listed]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast("Any", _Made(self.table))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, without making any command."""
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command's name and help, which are all that a list of commands needs."""
        one = self.table.get(cmd_name)
        return one and TyperCommand(name=cmd_name, help=one.help(), rich_help_panel=one.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, whole, and the other words."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, self.commands.get(name or ""), rest


def group_of(table: Mapping[str, Listed]) -> type[TableGroup]:
    """Make the class of a group of the commands of a table."""
    return type("Group", (TableGroup,), {"table": table})
