"""The table of all commands, and the options before them. What a command needs is imported when it is called."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from evenreel.cli.commands import Command, CommandGroup, LazyGroup, group_of
from evenreel.version import __version__

SEARCH, MEASURE = "Search your videos", "Measure, audit and train"

CORPUS = {
    "import": Command("evenreel.cli.corpus.command:import_corpus"),
    "info": Command("evenreel.cli.corpus.command:info_corpus"),
    "classes": Command("evenreel.cli.corpus.classes:find_classes"),
    "pair": Command("evenreel.cli.corpus.counterparts:pair"),
    "prompts": Command("evenreel.cli.corpus.counterparts:prompts"),
    "mix": Command("evenreel.cli.corpus.counterparts:mix"),
    "domains": Command("evenreel.cli.corpus.domains:domains"),
    "edit": Command("evenreel.cli.corpus.edited_clips:edit_corpus"),
    "corrupt": Command("evenreel.cli.corpus.corrupt:corrupt_corpus"),
    "equalise": Command("evenreel.cli.corpus.equalise:equalise_corpus"),
    "overview": Command("evenreel.cli.corpus.overview:overview_corpus"),
}
SAVED = {
    "add": Command("evenreel.cli.marks:saved_add"),
    "list": Command("evenreel.cli.marks:saved_list"),
    "run": Command("evenreel.cli.marks:saved_run"),
    "remove": Command("evenreel.cli.marks:saved_remove"),
}
COMMANDS: dict[str, Command | CommandGroup] = {
    "demo": Command("evenreel.cli.index:demo", SEARCH),
    "index": Command("evenreel.cli.index:index", SEARCH),
    "search": Command("evenreel.cli.search:search", SEARCH),
    "serve": Command("evenreel.cli.serve:serve", SEARCH),
    "export": Command("evenreel.cli.export:export", SEARCH),
    "evaluate": Command("evenreel.cli.evaluate.command:evaluate", MEASURE),
    "audit": Command("evenreel.cli.audit.command:audit", MEASURE),
    "train": Command("evenreel.cli.train.command:train", MEASURE),
    "saved": CommandGroup("Save searches, and see what is new since they were last run.", SAVED),
    "mark": Command("evenreel.cli.marks:mark"),
    "people": Command("evenreel.cli.people:people"),
    "transcript": Command("evenreel.cli.transcript:transcript"),
    "mcp": Command("evenreel.cli.serve:mcp"),
    "info": Command("evenreel.cli.index:info"),
    "remove": Command("evenreel.cli.index:remove"),
    "reindex": Command("evenreel.cli.index:reindex"),
    "verify": Command("evenreel.cli.index:verify"),
    "publish": Command("evenreel.cli.publish:publish"),
    "models": Command("evenreel.cli.models:models"),
    "corpus": CommandGroup("Make a corpus of a benchmark's files or of your own tables, and look at it.", CORPUS),
    "fuse": Command("evenreel.cli.fuse:fuse"),
    "perturb": Command("evenreel.cli.perturb:perturb"),
    "shifts": Command("evenreel.cli.shifts:shifts"),
    "features": Command("evenreel.cli.features:features"),
    "elements": Command("evenreel.cli.elements.command:elements"),
    "cost": Command("evenreel.cli.cost:cost"),
    "score": Command("evenreel.cli.score.command:score"),
    "prepare": Command("evenreel.cli.prepare:prepare"),
    "adapt": Command("evenreel.cli.adapt.command:adapt"),
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
        from evenreel.wording import printable

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
