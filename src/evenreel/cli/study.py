"""`evenreel study`: a table or figure of a paper, made on a corpus of your own, each with its own options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.app import TableGroup, command_of
from evenreel.cli.options import JsonOption, from_settings
from evenreel.config import OptionForm
from evenreel.errors import UsageError
from evenreel.provenance import provenance_of

if TYPE_CHECKING:
    from evenreel.papers import Study, StudyInputs, StudySettings
    from evenreel.papers.engine.sources import StudySources
    from evenreel.report.result import AuditResult
    from evenreel.training.recipe.recipe import Recipe

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
    """The options of all studies."""
    studies = _Studies()
    return {option for name in studies for parameter in studies[name].make(name).params for option in parameter.opts}


@dataclass(frozen=True)
class RecipeChoice:
    """Recipe of what a study trains.

    Attributes:
        recipe: what to train, a YAML file or a recipe that comes along; with a backbone, towers are trained too.
        changes: PLACE=VALUE instead of the recipe's, as for `evenreel train`: loop.steps=2000; may be given again.
    """

    recipe: str | None = None
    changes: Annotated[tuple[str, ...], OptionForm("--set")] = ()


@dataclass(frozen=True)
class AdaptationChoice(RecipeChoice):
    """Settings by which the models of a study learn at test time.

    Attributes:
        recipe: how to learn at test time, a file or settings of `evenreel adapt`.
        changes: NAME=VALUE instead of one of these settings: lr=0.001; may be given again.
    """


def _named(given: Sequence[str]) -> dict[str, str]:
    """`NAME=PLACE`, or a place that is its own name.

    Raises:
        UsageError: two have one name.
    """
    found: dict[str, str] = {}
    for word in given:
        name, equals, place = word.partition("=")
        if name in found:
            raise UsageError(f"Two things are called {name!r}; give each a name of its own: NAME={place or name}.")
        found[name] = place if equals else name
    return found


def _files(given: Sequence[str]) -> dict[str, Path]:
    return {name: Path(place) for name, place in _named(given).items()}


def _others(given: Sequence[str]) -> dict[str, Any]:
    """`NAME=CORPUS,FEATURES`, with `,SPLIT` where it is not that of the study's own corpus.

    Raises:
        UsageError: it is not; or two have one name.
    """
    from evenreel.papers.engine.sources import OtherCorpus

    found = {}
    for name, places in _named(given).items():
        corpus, *rest = places.split(",")
        if name == places or len(rest) not in (1, 2) or not all((name, corpus, *rest)):
            raise UsageError(f"--other is {places!r}; it must be NAME=CORPUS,FEATURES or NAME=CORPUS,FEATURES,SPLIT.")
        found[name] = OtherCorpus(Path(corpus), Path(rest[0]), rest[1] if rest[1:] else None)
    return found


def _with_names(sources: StudySources) -> StudySources:
    """What was named as words on the command line, by the names it is shown by."""
    forms: dict[str, Callable[[Sequence[str]], Mapping[str, Any]]] = {
        "matchers": _named, "scores": _files, "others": _others,
    }  # fmt: skip
    there = [one.name for one in fields(sources) if one.name in forms]
    named: dict[str, Any] = {name: forms[name](getattr(sources, name) or ()) for name in there}
    return replace(sources, **named)


DERIVED = ("graphs", "rule", "validation_split", "recipe", "runs", "adapt")
"""Fields that follow from a recipe, or are made of one."""
AUDIT = from_settings("evenreel.audits.settings:AuditSettings", leave_out=("band_bytes", "cluster"))


def _options(source: type[Any], *, none_of: bool = False) -> Any:
    """Options of a command for the fields of a record, but for those that are derived."""
    names = [one.name for one in fields(source)]
    derived = () if issubclass(source, RecipeChoice) else DERIVED
    left_out = tuple(name for name in names if none_of or name in derived)
    return from_settings(source, leave_out=left_out, **({"audit": AUDIT} if "audit" in names else {}))


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
        study = self.study
        settles = {one.name for one in fields(study.settings)} & {"recipe", "adapt"}
        chooses = AdaptationChoice if "adapt" in settles else RecipeChoice
        of_sources, of_settings = _options(study.needs.sources), _options(study.settings)
        of_recipe = _options(chooses, none_of=not settles)

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
            _make(_Call(name, study, corpus, out), sources, settings, choice, as_json or bool(ctx.obj))

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

    name: str
    study: Study
    corpus: Path
    out: Path


def _make(call: _Call, sources: StudySources, settings: StudySettings, choice: RecipeChoice, as_json: bool) -> None:
    """Read what a study works on, make it, write it down and show it."""
    from evenreel.cli.evaluate.command import check_place
    from evenreel.cli.progress import share_bar
    from evenreel.files import write_durably
    from evenreel.papers import run_study
    from evenreel.papers.engine.reading import load_study_inputs
    from evenreel.report import write_page
    from evenreel.report.page import audit_page

    sources, settings = _with_recipe(call, _with_names(sources), settings, choice)
    for file in (REPORT, RESULTS):
        check_place(call.out / file)
    with share_bar("looking at videos") as progress:
        given = load_study_inputs(call.study.needs, call.corpus, sources, progress, mirrors=call.study.mirrors)
    with share_bar(call.name) as progress:
        result = run_study(call.name, given, settings, progress)
    made = provenance_of(_inputs(call.corpus, sources, choice, settings))
    write_page(audit_page([result]), call.out / REPORT, made)
    found = result.to_json() | {"provenance": made.to_json()}
    write_durably(call.out / RESULTS, (json.dumps(found, indent=2, allow_nan=False) + "\n").encode())
    _show(result, call.out, given, made.to_json() if as_json else None)
    if given.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _with_recipe(
    call: _Call, sources: StudySources, settings: StudySettings, choice: RecipeChoice
) -> tuple[StudySources, StudySettings]:
    """What is trained, or how is learned at test time, and what has to be read for it."""
    from evenreel.adaptation.settings_files import load_settings
    from evenreel.papers import TrainingSettings, study_recipe
    from evenreel.papers.engine.sources import SelectingSources, TrainingSources
    from evenreel.papers.engine.towers import check_towers
    from evenreel.papers.titan.settings import AdaptationSettings

    if isinstance(settings, AdaptationSettings):
        return sources, replace(settings, adapt=load_settings(choice.recipe or call.study.recipe, choice.changes))
    if not isinstance(settings, TrainingSettings) or not isinstance(sources, TrainingSources):
        return sources, settings
    on = [] if sources.device == "auto" else [f"loop.device={sources.device}"]
    recipe = study_recipe(choice.recipe, (*on, *choice.changes), call.study.recipe)
    recipe = replace(recipe, start=sources.start or recipe.start)
    check_towers(call.study, recipe)
    rule = None if recipe.backbone is None else recipe.backbone.rule
    graphs = _reads_graphs(recipe, getattr(settings, "bases", ()))
    sources = replace(sources, start=recipe.start, graphs=graphs, rule=rule)
    if isinstance(sources, SelectingSources):
        sources = replace(sources, validation_split=recipe.data.validation)
    return sources, replace(settings, recipe=recipe, runs=call.out / RUNS)


def _reads_graphs(recipe: Recipe, bases: Sequence[str]) -> bool:
    """Whether the recipe's matcher, or one of some others, reads role graphs of captions."""
    from evenreel.checkpoint import MatcherSpec
    from evenreel.checkpoint.architecture import reads_graphs
    from evenreel.training.specs import spec_of

    return any(reads_graphs(spec) for spec in (spec_of(recipe), *map(MatcherSpec, bases)))


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
    corpus: Path, sources: StudySources, choice: RecipeChoice, settings: StudySettings
) -> dict[str, Sequence[str | Path | None]]:
    """Everything a study is made of, by its part in it."""

    def of(name: str) -> Any:
        return getattr(sources, name, {})

    others = of("others").values()
    recipe: Recipe | None = getattr(settings, "recipe", None)
    return {
        "corpus": [corpus, *(one.corpus for one in others)],
        "features": [of("features") or None, *(one.features for one in others), of("pretrained_features") or None],
        "matcher": [*of("matchers").values(), of("start") or None],
        "scores": list(of("scores").values()),
        "recipe": [choice.recipe],
        "model": [recipe.backbone.model] if recipe is not None and recipe.backbone is not None else [],
        "few training clips": getattr(settings, "tail_classes", ()),
    }


def _show(result: AuditResult, out: Path, material: StudyInputs, origin: dict[str, Any] | None) -> None:
    """The sentence and the first table, the others are on the page; or JSON, where its origin is given."""
    from evenreel.cli.audit.command import show_audits
    from evenreel.cli.show_library import list_aside, print_json

    if origin is not None:
        more = {"report": out / REPORT, "set_aside": material.set_aside, "provenance": origin}
        print_json(result.to_json() | more)
        return
    show_audits([replace(result, tables=result.tables[:1])], out / REPORT, as_json=False)
    list_aside(material.set_aside, lead="")
