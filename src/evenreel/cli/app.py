"""The table of all commands, and the options before them. What a command needs is imported when it is called."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from evenreel.cli.commands import Command, CommandGroup, LazyGroup, group_of
from evenreel.version import __version__

SEARCH, MEASURE = "Search your videos", "Measure and audit"
TRAIN, RESEARCH = "Train and adapt", "Research"

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
    "add": Command("evenreel.cli.personal:saved_add"),
    "list": Command("evenreel.cli.personal:saved_list"),
    "run": Command("evenreel.cli.personal:saved_run"),
    "remove": Command("evenreel.cli.personal:saved_remove"),
}
COMMANDS: dict[str, Command | CommandGroup] = {
    "demo": Command("evenreel.cli.library:demo", SEARCH),
    "index": Command("evenreel.cli.library:index", SEARCH),
    "watch": Command("evenreel.cli.watch:watch", SEARCH),
    "search": Command("evenreel.cli.search:search", SEARCH),
    "highlights": Command("evenreel.cli.personal:highlights", SEARCH),
    "saved": CommandGroup("Save searches, and see what is new since they were last run.", SAVED, SEARCH),
    "favourite": Command("evenreel.cli.personal:favourite", SEARCH),
    "note": Command("evenreel.cli.personal:note", SEARCH),
    "people": Command("evenreel.cli.people:people", SEARCH),
    "transcript": Command("evenreel.cli.transcript:transcript", SEARCH),
    "export": Command("evenreel.cli.export:export", SEARCH),
    "serve": Command("evenreel.cli.serve:serve", SEARCH),
    "mcp": Command("evenreel.cli.mcp:mcp", SEARCH),
    "info": Command("evenreel.cli.library:info", SEARCH),
    "remove": Command("evenreel.cli.remove:remove", SEARCH),
    "reindex": Command("evenreel.cli.library:reindex", SEARCH),
    "verify": Command("evenreel.cli.library:verify", SEARCH),
    "publish": Command("evenreel.cli.publish:publish", SEARCH),
    "models": Command("evenreel.cli.models:models", SEARCH),
    "corpus": CommandGroup(
        "Make a corpus of a benchmark's files or of your own tables, and look at it.", CORPUS, MEASURE
    ),
    "evaluate": Command("evenreel.cli.evaluate.command:evaluate", MEASURE),
    "audit": Command("evenreel.cli.audit.command:audit", MEASURE),
    "fuse": Command("evenreel.cli.fuse:fuse", MEASURE),
    "perturb": Command("evenreel.cli.perturb:perturb", MEASURE),
    "shifts": Command("evenreel.cli.shifts:shifts", MEASURE),
    "features": Command("evenreel.cli.features:features", TRAIN),
    "elements": Command("evenreel.cli.elements.command:elements", TRAIN),
    "train": Command("evenreel.cli.train.command:train", TRAIN),
    "cost": Command("evenreel.cli.cost:cost", TRAIN),
    "score": Command("evenreel.cli.score.command:score", TRAIN),
    "prepare": Command("evenreel.cli.prepare:prepare", TRAIN),
    "adapt": Command("evenreel.cli.adapt.command:adapt", TRAIN),
    "study": LazyGroup("evenreel.cli.study:study", RESEARCH),
    "planted": Command("evenreel.cli.planted:planted", RESEARCH),
}
"""In the order of `evenreel --help`: what people come for is first."""

SUCCESSORS = {"repair": "verify --repair"}
"""Commands that went, and what does their work."""

app = typer.Typer(
    name="evenreel",
    help="Search videos by what is seen, what is written on screen and what is said.",
    cls=group_of(COMMANDS, SUCCESSORS),
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
