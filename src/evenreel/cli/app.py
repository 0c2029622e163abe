"""The table of all commands, each imported when it is called; the options before them; what `evenreel` alone asks."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import shlex
import sys
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from evenreel.cli.options import OptionSettings
from evenreel.errors import UsageError
from evenreel.files import printable
from evenreel.version import __version__

QUESTION = """What do you want to do?

  1  Open the page, where you search your videos and add folders
  2  Add a folder of videos here
  3  Try the demo: render a few clips, then index, search and audit them

evenreel --help lists all commands. 1, 2, 3, or q to leave [1]: """
WHICH_FOLDER = "Which folder? Type its path, or drag it here; Enter alone goes back: "
NO_CHOICE = "Please type 1, 2, 3 or q.\n"


@dataclass(frozen=True)
class Command:
    place: str
    panel: str | None = None  # heading in the first help, which shows the words that have one

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


class _Made(UserDict[str, Any]):
    """Commands by their names, each made when it is looked up."""

    def __init__(self, table: Mapping[str, Command | CommandGroup]) -> None:
        self.data = cast("Any", table)  # as it is: a copy would import what the table imports when it is looked at

    def __getitem__(self, name: str) -> Any:
        return self.data[name].make(name)


class TableGroup(TyperGroup):
    """A group of commands, listed in the order of a table; only the called one is made with its options.

    Where some words of the table have a panel, `--help` explains these alone. `moved` has for each word that is no
    longer there what to type in its place.
    """

    table: ClassVar[Mapping[str, Any]]
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


def group_of(table: Mapping[str, Command | CommandGroup], moved: Mapping[str, str] | None = None) -> type[TableGroup]:
    """Make the class of a group of the commands of a table."""
    return type("Group", (TableGroup,), {"table": table, "moved": moved or {}})


SEARCH, MEASURE = "Search your videos", "Measure, audit and train"

CORPUS = {
    "import": Command("evenreel.cli.corpus.command:import_corpus"),
    "info": Command("evenreel.cli.corpus.command:info_corpus"),
    "classes": Command("evenreel.cli.corpus.command:find_classes"),
    "pair": Command("evenreel.cli.corpus.command:pair"),
    "prompts": Command("evenreel.cli.corpus.command:prompts"),
    "mix": Command("evenreel.cli.corpus.command:mix"),
    "domains": Command("evenreel.cli.corpus.command:domains"),
    "edit": Command("evenreel.cli.corpus.command:edit_corpus"),
    "corrupt": Command("evenreel.cli.corpus.command:corrupt_corpus"),
    "equalise": Command("evenreel.cli.corpus.command:equalise_corpus"),
    "overview": Command("evenreel.cli.corpus.overview:overview_corpus"),
}
SAVED = {
    "add": Command("evenreel.cli.marks:saved_add"),
    "list": Command("evenreel.cli.marks:saved_list"),
    "run": Command("evenreel.cli.marks:saved_run"),
    "remove": Command("evenreel.cli.marks:saved_remove"),
}
CHECK = {"network": Command("evenreel.cli.check:network")}
COMMANDS: dict[str, Command | CommandGroup] = {
    "demo": Command("evenreel.cli.index:demo", SEARCH),
    "index": Command("evenreel.cli.index:index", SEARCH),
    "search": Command("evenreel.cli.search:search", SEARCH),
    "serve": Command("evenreel.cli.serve:serve", SEARCH),
    "export": Command("evenreel.cli.search:export", SEARCH),
    "evaluate": Command("evenreel.cli.evaluate.command:evaluate", MEASURE),
    "audit": Command("evenreel.cli.audit.command:audit", MEASURE),
    "train": Command("evenreel.cli.train:train", MEASURE),
    "saved": CommandGroup("Save searches, and see which clips are new since you last ran them.", SAVED),
    "mark": Command("evenreel.cli.marks:mark"),
    "people": Command("evenreel.cli.marks:people"),
    "transcript": Command("evenreel.cli.search:transcript"),
    "mcp": Command("evenreel.cli.serve:mcp"),
    "info": Command("evenreel.cli.index:info"),
    "remove": Command("evenreel.cli.index:remove"),
    "reindex": Command("evenreel.cli.index:reindex"),
    "verify": Command("evenreel.cli.index:verify"),
    "publish": Command("evenreel.cli.index:publish"),
    "check": CommandGroup("See what evenreel opens on the network.", CHECK),
    "models": Command("evenreel.cli.models:models"),
    "corpus": CommandGroup("Make a corpus of a benchmark's files or of your own tables, and look at it.", CORPUS),
    "fuse": Command("evenreel.cli.fuse:fuse"),
    "perturb": Command("evenreel.cli.perturb:perturb"),
    "shifts": Command("evenreel.cli.shifts:shifts"),
    "features": Command("evenreel.cli.features:features"),
    "elements": Command("evenreel.cli.elements:elements"),
    "cost": Command("evenreel.cli.cost:cost"),
    "score": Command("evenreel.cli.score.command:score"),
    "prepare": Command("evenreel.cli.prepare:prepare"),
    "adapt": Command("evenreel.cli.adapt:adapt"),
    "study": LazyGroup("evenreel.cli.study:study"),
    "planted": Command("evenreel.cli.planted:planted"),
}
"""In the order of `evenreel --help`, which explains those with a panel: what people come for."""

MOVED = {
    "watch": "index --watch FOLDERS",
    "highlights": "search, without words",
    "favourite": "mark CLIP",
    "note": "mark CLIP --note TEXT",
    "repair": "verify --repair",
}
MORE = (
    f"More: {', '.join(name for name, one in COMMANDS.items() if one.panel is None)}.\n\n"
    "evenreel COMMAND --help explains each."
)

app = typer.Typer(
    name="evenreel",
    help="Search videos by what is seen, what is written on screen and what is said.",
    epilog=MORE,
    cls=group_of(COMMANDS, MOVED),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenreel {__version__}")
        raise typer.Exit


class _SafeFormatter(logging.Formatter):
    """Formats messages of a log without characters that steer the terminal, such as a file's name may have."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the name is logging's
        return printable(super().formatMessage(record))


@app.callback()
def _settings(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more about what happens.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors and results.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    level = logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING
    handler = logging.StreamHandler()
    handler.setFormatter(_SafeFormatter("evenreel: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.ERROR)
    logging.getLogger("evenreel").setLevel(level)


def asked() -> list[str] | None:
    """Ask what to do where a person sits at a terminal."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        return []
    chosen = choose(input)
    if chosen:
        print(f"\n$ {printable(shlex.join(['evenreel', *chosen]))}\n", flush=True)  # noqa: T201 -- a conversation
    return chosen


def choose(ask: Callable[[str], str]) -> list[str] | None:
    """Ask until an answer is one of those that are offered."""
    question = QUESTION
    while True:
        answer = ask(question).strip().lower()
        question = NO_CHOICE + QUESTION
        if answer in {"q", "quit", "exit"}:
            return None
        if answer in {"", "1"}:
            return ["serve", "--open"]
        if answer == "3":
            return ["demo"]
        if answer == "2":
            if (folder := _folder(ask)) is not None:
                return ["index", "--", folder]
            question = QUESTION


def _folder(ask: Callable[[str], str]) -> str | None:
    question = WHICH_FOLDER
    while typed := ask(question).strip():
        try:  # a path as it is, or in the quotes and escapes of a terminal that it was dragged to
            parts = shlex.split(typed)
        except ValueError:  # a quote that is part of the name
            parts = []
        for path in (typed, *parts[:1]):
            if os.path.isdir(folder := str(Path(path).expanduser())):
                return folder
        question = f"There is no folder {printable(typed)}.\n{WHICH_FOLDER}"
    return None
