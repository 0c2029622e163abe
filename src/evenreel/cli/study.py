"""`evenreel study`: a table or figure of a paper, made on a corpus of your own, each with its own options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.app import TableGroup, command_of
from evenreel.cli.evaluate.files import check_place
from evenreel.cli.options import JsonOption, from_settings
from evenreel.config import OptionForm
from evenreel.errors import UsageError
from evenreel.provenance import provenance_of

if TYPE_CHECKING:
    from evenreel.papers import Sources, Study, StudySettings, Workspace
    from evenreel.report.result import AuditResult

REPORT, RESULTS, RUNS = "report.html", "results.json", "runs"
NAME_ALL = (
    "Name a study, a corpus and a folder for the results: evenreel study ghost/t2 CORPUS --out DIR. "
    "`evenreel study --list` names every study and what it needs."
)
SOURCE_OPTIONS = ("--matcher", "--scores", "--start", "--words")
"""Options that name what a study works on; the others say how it is made."""


class _StudyCommand(TyperCommand):
    """The command of one study, which refuses the options of others in a sentence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if option := _strange_option(self, ctx, args):
            if option in SOURCE_OPTIONS:
                raise UsageError(f"This study does not look at what is named with {option}; leave it out.")
            raise UsageError(f"The study {self.name} does not look at {option}: leave that out.")
        return super().parse_args(ctx, args)


def _strange_option(command: Any, ctx: Any, words: Iterable[str]) -> str | None:
    """The first option among words that some study has and a command has not."""
    own = {option for parameter in command.get_params(ctx) for option in parameter.opts}
    given = (word.partition("=")[0] for word in words if word.startswith("--"))
    return next((option for option in given if option not in own and option in _all_options()), None)


def _all_options() -> set[str]:
    studies = _Studies()
    return {option for name in studies for parameter in studies[name].make(name).params for option in parameter.opts}


@dataclass(frozen=True)
class RecipeChoice:
    """What a study trains, or how its models learn at test time.

    Attributes:
        recipe: what to train, a YAML file or a recipe that comes along; with a backbone, towers are trained too.
        changes: PLACE=VALUE instead of the recipe's, as for `evenreel train`: loop.steps=2000; may be given again.
    """

    recipe: str | None = None
    changes: Annotated[tuple[str, ...], OptionForm("--set")] = ()


LEARNS = {
    "recipe": "How to learn at test time, a file or settings of 'evenreel adapt'.",
    "changes": "NAME=VALUE instead of one of these settings: lr=0.001; may be given again.",
}
"""What the choice is of a study whose models learn at test time."""


def _named(given: Sequence[str]) -> dict[str, str]:
    """`NAME=PLACE`, or a place that is its own name; two of one name are refused."""
    found: dict[str, str] = {}
    for word in given:
        name, equals, place = word.partition("=")
        if name in found:
            raise UsageError(f"Two things are called {name!r}; give each a name of its own: NAME={place or name}.")
        found[name] = place if equals else name
    return found


def _others(given: Sequence[str]) -> dict[str, Any]:
    """`NAME=CORPUS,FEATURES`, with `,SPLIT` where it is not that of the study's own corpus."""
    from evenreel.papers.study import OtherCorpus

    found = {}
    for name, places in _named(given).items():
        corpus, *rest = places.split(",")
        if name == places or len(rest) not in (1, 2) or not all((name, corpus, *rest)):
            raise UsageError(f"--other is {places!r}; it must be NAME=CORPUS,FEATURES or NAME=CORPUS,FEATURES,SPLIT.")
        found[name] = OtherCorpus(Path(corpus), Path(rest[0]), rest[1] if rest[1:] else None)
    return found


def _with_names(sources: Sources) -> Sources:
    """What was named as words on the command line, by the names it is shown by."""
    given: dict[str, Any] = {one: getattr(sources, one) or () for one in ("matchers", "scores", "others")}
    scores = {name: Path(place) for name, place in _named(given["scores"]).items()}
    return replace(sources, matchers=_named(given["matchers"]), scores=scores, others=_others(given["others"]))


AUDIT = from_settings("evenreel.audits.settings:AuditSettings", leave_out=("band_bytes", "cluster"))


def _options(source: type[Any], names: Iterable[str], texts: Mapping[str, str] | None = None) -> Any:
    """Options of a command for some fields of a record, with other help than that of the field for some."""
    left_out = tuple(one.name for one in fields(source) if one.name not in names)
    own: dict[str, Any] = {"audit": AUDIT} if "audit" in names else {}
    kinds: dict[str, Any] = {"recipe": (str | None,), "changes": (list[str] | None, "--set")}
    for name, text in (texts or {}).items():
        kind, *flags = kinds.get(name, (Path | None,))
        own[name] = Annotated[kind, typer.Option(*flags, help=text)]
    return from_settings(source, leave_out=left_out, **own)


@dataclass(frozen=True)
class _One:
    """A study as a command, for `evenreel.cli.app.TableGroup`."""

    study: Study
    panel: None = None

    def help(self) -> str:
        """What it reproduces."""
        return f"{self.study.about}."

    def make(self, name: str) -> Any:
        """The command with the options of the study, as click runs it."""
        from evenreel.papers.study import Sources, StudySettings

        study = self.study
        chosen = {"recipe", "adapt"} & {*study.options}
        made_of = {"recipe", "runs", "adapt"}  # fields that are made of the choice of a recipe
        of_sources = _options(Sources, {"split", *study.needs.sources}, study.needs.help)
        of_settings = _options(StudySettings, {"audit", *study.options} - made_of)
        of_recipe = _options(RecipeChoice, LEARNS if chosen else (), LEARNS if "adapt" in chosen else {})

        def run(
            ctx: typer.Context,
            corpus: Annotated[Path | None, typer.Argument(help="Folder of the corpus.")] = None,
            out: Annotated[
                Path | None, typer.Option(help="Folder for report.html, results.json and training runs.")
            ] = None,
            sources: Any = of_sources,
            settings: Any = of_settings,
            choice: Any = of_recipe,
            as_json: JsonOption = False,
        ) -> None:
            if corpus is None or out is None:
                raise UsageError(NAME_ALL)
            _make(_Call(study, corpus, out), sources, settings, choice, as_json or bool(ctx.obj))

        alone = typer.Typer(add_completion=False)
        alone.command(name, cls=_StudyCommand, help=f"{study.title} {study.about}.")(command_of(run))
        return typer.main.get_command(alone)


class _Studies(Mapping[str, _One]):
    """All studies by their names, imported when they are looked at."""

    def __getitem__(self, name: str) -> _One:
        from evenreel.papers import find_study

        return _One(find_study(name))

    def __iter__(self) -> Iterator[str]:
        from evenreel.papers import STUDIES

        return iter(STUDIES)

    def __len__(self) -> int:
        return len(list(iter(self)))


class _StudyGroup(TableGroup):
    """All studies behind one word, which says where their options stand."""

    table = _Studies()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = takewhile(lambda word: word.startswith("-"), args)
        if option := _strange_option(self, ctx, first):
            raise UsageError(
                f"{option} stands before the name of a study; give its options behind it: evenreel study NAME CORPUS "
                f"{option} ... (`evenreel study NAME --help` lists them)."
            )
        return super().parse_args(ctx, args)


def study(name: str) -> Any:
    """Make a table or figure of a paper on your own clips. Exit status 3 if clips had been skipped."""
    group = typer.Typer(name=name, cls=_StudyGroup, help=study.__doc__)

    @group.callback(invoke_without_command=True)
    def _first(
        ctx: typer.Context,
        list_all: Annotated[bool, typer.Option("--list", help="Name the studies and what they reproduce.")] = False,
        as_json: JsonOption = False,
    ) -> None:
        if list_all:
            _list(as_json)
            raise typer.Exit
        ctx.obj = as_json
        if ctx.invoked_subcommand is None:
            raise UsageError(NAME_ALL)

    return typer.main.get_group(group)


@dataclass(frozen=True)
class _Call:
    """A study, what it is made on, and where its results go."""

    study: Study
    corpus: Path
    out: Path


def _make(call: _Call, sources: Sources, settings: StudySettings, choice: RecipeChoice, as_json: bool) -> None:
    """Read what a study works on, make it, write it down and show it."""
    from evenreel.cli.progress import share_bar
    from evenreel.files import write_durably
    from evenreel.papers import run_study
    from evenreel.papers.reading import open_workspace
    from evenreel.report import write_page
    from evenreel.report.page import audit_page

    name, study = call.study.name, call.study
    sources, settings = _with_recipe(call, _with_names(sources), settings, choice)
    for file in (REPORT, RESULTS):
        check_place(call.out / file)
    with share_bar("looking at videos") as progress:
        given = open_workspace(study, call.corpus, sources, settings, progress)
    with share_bar(name) as progress:
        result = run_study(name, given, settings, progress)
    made = provenance_of(_inputs(call, sources, choice, settings))
    write_page(audit_page([result]), call.out / REPORT, made)
    found = result.to_json() | {"provenance": made.to_json()}
    write_durably(call.out / RESULTS, (json.dumps(found, indent=2, allow_nan=False) + "\n").encode())
    _show(result, call.out, given, made.to_json() if as_json else None)
    if given.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _with_recipe(
    call: _Call, sources: Sources, settings: StudySettings, choice: RecipeChoice
) -> tuple[Sources, StudySettings]:
    """What is trained, or how is learned at test time."""
    from evenreel.papers import study_recipe

    study = call.study
    if "adapt" in study.options:
        from evenreel.adaptation.settings_files import load_settings

        return sources, replace(settings, adapt=load_settings(choice.recipe or study.recipe, choice.changes))
    if "recipe" not in study.options:
        return sources, settings
    from evenreel.papers.engine import check_towers

    on = [] if sources.device == "auto" else [f"loop.device={sources.device}"]
    recipe = study_recipe(choice.recipe, (*on, *choice.changes), study.recipe)
    recipe = replace(recipe, start=sources.start or recipe.start)
    check_towers(study, recipe)
    return replace(sources, start=recipe.start), replace(settings, recipe=recipe, runs=call.out / RUNS)


def _list(as_json: bool) -> None:
    from evenreel.cli.show_library import console, print_json
    from evenreel.papers import STUDIES

    if as_json:
        print_json([{"name": name, "about": one.about, "needs": one.needs.words} for name, one in STUDIES.items()])
        return
    width = max(map(len, STUDIES))
    for name, one in STUDIES.items():
        console().print(f"{name:{width}}  {one.about}; needs {one.needs.words}")


def _inputs(
    call: _Call, sources: Sources, choice: RecipeChoice, settings: StudySettings
) -> dict[str, Sequence[str | Path | None]]:
    """Everything a study is made of, by its part in it."""
    others = sources.others.values()
    backbone = settings.recipe.backbone if "recipe" in call.study.options else None
    return {
        "corpus": [call.corpus, *(one.corpus for one in others)],
        "features": [sources.features, *(one.features for one in others), sources.pretrained_features],
        "matcher": [*sources.matchers.values(), sources.start],
        "scores": list(sources.scores.values()),
        "recipe": [choice.recipe],
        "model": [] if backbone is None else [backbone.model],
        "few training clips": settings.tail_classes,
    }


def _show(result: AuditResult, out: Path, material: Workspace, origin: dict[str, Any] | None) -> None:
    """The sentence and the first table, the others are on the page; or JSON, where its origin is given."""
    from evenreel.cli.audit.show import show_audits
    from evenreel.cli.show_library import list_aside, print_json

    if origin is not None:
        more = {"report": out / REPORT, "set_aside": material.set_aside, "provenance": origin}
        print_json(result.to_json() | more)
        return
    show_audits([replace(result, tables=result.tables[:1])], out / REPORT, as_json=False)
    list_aside(material.set_aside, lead="")
