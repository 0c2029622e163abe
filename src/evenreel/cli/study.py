"""`evenreel study`: a table or figure of a paper, made on a corpus of your own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.evaluate.files import check_place
from evenreel.cli.options import MOST, MOST_SEED, DeviceOption, JsonOption, VideosOption
from evenreel.errors import UsageError
from evenreel.provenance import Provenance, provenance_of

if TYPE_CHECKING:
    from evenreel.adaptation.settings import AdaptSettings
    from evenreel.edits.frame_order import OrderStage
    from evenreel.features.settings import Words
    from evenreel.papers.engine.loading import OtherCorpus, Sources
    from evenreel.papers.engine.material import StudyMaterial, StudySettings
    from evenreel.report.result.record import AuditResult
    from evenreel.training.recipe.recipe import Recipe

REPORT, RESULTS, RUNS = "report.html", "results.json", "runs"
CLASS_HELP = (
    "The class of length/t8 and length/f1: VERB,NOUN or what captions call it. \\[default: the one most longer in "
    "test; for length/f1 the one with the most captions suspected to be missed for it]"
)
BASE_HELP = r"A matcher that length/t7 trains; again for more. \[default: temporal, wti, x_clip]"
QUERY_HELP = "A caption that length/f5, bima/maps, tcd/f4 or titan/f5 shows, by its id; again for more."
CLIP_HELP = "A clip that bima/maps shows instead of what is found first, by its id; again for more."
TAIL_HELP = "A csv of verbs or nouns with few training clips, for length/samples; again for both kinds."
NEEDS = {
    "files": "the videos",
    "lengths": "a split to train on",
    "rankings": "--features or --scores",
    "models": "--features",
    "features": "--features",
    "training": "--features and a split to train on",
}
OWN_OPTIONS = {
    "--class": ("length/t8", "length/f1"),
    "--base": ("length/t7",),
    "--query": ("length/f5", "bima/maps", "tcd/f4", "titan/f5"),
    "--clip": ("bima/maps",),
    "--tail-classes": ("length/samples",),
    "--share": ("ghost/f3",),
    "--other": ("bima/t3",),
    "--margin": ("rerank/depth",),
}
"""Options that some studies alone look at."""
NAME_HELP = "A study, such as ghost/t2; --list names them all."
MATCHER_HELP = (
    "A checkpoint that ranks the clips, or mean_pool, which needs no training; [NAME=]CHECKPOINT, may be given again. "
    r"\[default: mean_pool]"
)
SCORES_HELP = "Scores of any other system on the split, [NAME=]FILE: npy, npz, parquet or a TREC run; again for more."
RECIPE_HELP = (
    "What to train, a YAML file or a recipe that comes along; on features. For titan/...: how to learn at test time, a "
    "file or settings of `evenreel adapt`."
)
SET_HELP = (
    "PLACE=VALUE instead of the recipe's, as for `evenreel train`: loop.steps=2000; for titan/...: lr=0.001. May be "
    "given again."
)
START_HELP = "A checkpoint that training begins with, whose matcher and adapter take the place of the recipe's."
SHARE_HELP = r"Share of generated clips in training for ghost/f3; give two or more. \[default: 0, 0.2, 0.4, 0.6, 0.8]"
OTHER_HELP = (
    "A corpus that bima/t3 searches and learns nothing from: NAME=CORPUS,FEATURES, and ,SPLIT where it is another than "
    "--split; again for more."
)
SEEN_HELP = "Folder of features by the towers of --matcher or --start before their training, where it asks for some."
WORDS_HELP = r"Words on screen that tcd/... looks at: corpus or ocr. \[default: those of the last run]"
MARGIN_HELP = r"Points of R@1 that a shortlist may lose, for rerank/depth. \[default: 1]"
STAGE_HELP = "Move the frames that were taken (sampled), or those of the whole clip before --frames are taken (video)."


def study(
    name: Annotated[str | None, typer.Argument(help=NAME_HELP)] = None,
    corpus: Annotated[Path | None, typer.Argument(help="Folder of the corpus.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for report.html, results.json and training runs.")] = None,
    features: Annotated[Path | None, typer.Option(help="Folder of the corpus's features.")] = None,
    matcher: Annotated[list[str] | None, typer.Option(help=MATCHER_HELP)] = None,
    scores: Annotated[list[str] | None, typer.Option(help=SCORES_HELP)] = None,
    split: Annotated[str, typer.Option(help="Part of the corpus that is searched.")] = "test",
    train_split: Annotated[str, typer.Option(help="Part of the corpus that is learned from.")] = "train",
    group: Annotated[
        str | None, typer.Option(help="Generated clips to train on, or to look at alone, such as 'sora text'.")
    ] = None,
    videos: VideosOption = None,
    recipe: Annotated[str | None, typer.Option(help=RECIPE_HELP)] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help=SET_HELP)] = None,
    start: Annotated[str | None, typer.Option(help=START_HELP)] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1_000, help="Trainings, or draws, of each kind.")] = 5,
    share: Annotated[list[float] | None, typer.Option(min=0, max=1, help=SHARE_HELP)] = None,
    stage: Annotated[str, typer.Option(help=STAGE_HELP)] = "sampled",
    frames: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="Frames taken of each clip where order counts.")
    ] = None,
    resamples: Annotated[int, typer.Option(min=0, max=MOST, help="Samples and permutations; 0: no interval.")] = 1000,
    confidence: Annotated[float, typer.Option(help="Of the intervals, between 0 and 1.")] = 0.95,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Of the samples, and of random orders of frames.")
    ] = 0,
    action: Annotated[str | None, typer.Option("--class", help=CLASS_HELP)] = None,
    base: Annotated[list[str] | None, typer.Option(help=BASE_HELP)] = None,
    query: Annotated[list[str] | None, typer.Option(help=QUERY_HELP)] = None,
    clip: Annotated[list[str] | None, typer.Option(help=CLIP_HELP)] = None,
    tail_classes: Annotated[list[Path] | None, typer.Option(help=TAIL_HELP)] = None,
    other: Annotated[list[str] | None, typer.Option(help=OTHER_HELP)] = None,
    seen: Annotated[Path | None, typer.Option(help=SEEN_HELP)] = None,
    margin: Annotated[float | None, typer.Option(min=0, max=100, help=MARGIN_HELP)] = None,
    words: Annotated[str | None, typer.Option(help=WORDS_HELP)] = None,
    device: DeviceOption = "auto",
    list_all: Annotated[bool, typer.Option("--list", help="Name the studies and what they reproduce.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a table or figure of a paper on your own clips. Exit status 3 if clips had been set aside."""
    if list_all:
        _list(as_json)
        return
    if name is None or corpus is None or out is None:
        raise UsageError(
            "Name a study, a corpus and a folder for the results: evenreel study ghost/t2 CORPUS --out DIR. "
            "`evenreel study --list` names every study and what it needs."
        )
    from evenreel.audits.settings import AuditSettings
    from evenreel.papers import StudySettings
    from evenreel.papers.engine.loading import Sources

    _check_used(
        name,
        {
            "--class": action, "--base": base, "--query": query, "--clip": clip, "--tail-classes": tail_classes,
            "--share": share, "--other": other, "--margin": margin,
        },
        {"--recipe": recipe, "--set": changes},
    )  # fmt: skip
    chosen = _recipe(name, recipe, (*_on(name, device), *(changes or ())))
    chosen = replace(chosen, start=start or chosen.start)
    settings = StudySettings(
        chosen,
        out / RUNS,
        AuditSettings(resamples, seed, confidence),
        seeds,
        group,
        stage=cast("OrderStage", stage),
        frames=frames,
    )
    settings = replace(
        settings,
        shares=tuple(share or settings.shares),
        action=action,
        bases=tuple(base or settings.bases),
        queries=tuple(query or ()),
        clips=tuple(clip or ()),
        tail_classes=tuple(tail_classes or ()),
        margin=settings.margin if margin is None else margin,
        adapt=_adaptation(name, recipe, changes or ()) or settings.adapt,
    )
    sources = Sources(
        corpus, features, _named(matcher), {one: Path(place) for one, place in _named(scores).items()},
        split, train_split, chosen.data.validation, chosen.start, _reads_graphs(chosen, base or ()), videos, device,
        seen, _others(other, split), cast("Words | None", words),
    )  # fmt: skip
    for file in (REPORT, RESULTS):
        check_place(out / file)
    material, result = _made(name, sources, settings)
    made = provenance_of(_inputs(sources, recipe, tail_classes or ()))
    _write(result, out, made)
    _show(result, out, material, made.to_json() if as_json else None)
    if material.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _check_used(name: str, own: Mapping[str, object], training: Mapping[str, object]) -> None:
    """Refuse options that the study does not look at, rather than do as if they had been followed.

    Args:
        name: of the study.
        own: keys of `OWN_OPTIONS`, and what was given for them.
        training: options of studies that train, likewise.

    Raises:
        UsageError: one is given to another study; or there is no such study.
    """
    from evenreel.papers import find_study

    trains = find_study(name).needs == "training" or find_study(name).adapts
    given = [*own.items(), *(() if trains else training.items())]
    unused = [option for option, value in given if value and name not in OWN_OPTIONS.get(option, ())]
    if unused:
        raise UsageError(f"The study {name} does not look at {' and '.join(unused)}: leave that out.")


def _recipe(name: str, recipe: str | None, changes: Sequence[str]) -> Recipe:
    """What a study trains; nothing of it counts for one that learns at test time."""
    from evenreel.papers import find_study, study_recipe

    study = find_study(name)
    return study_recipe() if study.adapts else study_recipe(recipe, changes, study.recipe)


def _adaptation(name: str, recipe: str | None, changes: Sequence[str]) -> AdaptSettings | None:
    """How a study learns at test time; None for one that does not."""
    from evenreel.adaptation.settings_files import load_settings
    from evenreel.papers import find_study

    study = find_study(name)
    return load_settings(recipe or study.recipe, changes) if study.adapts else None


def _on(name: str, device: str) -> list[str]:
    """Where a study trains, as a change of its recipe."""
    from evenreel.papers import find_study

    return [f"loop.device={device}"] if device != "auto" and find_study(name).needs == "training" else []


def _made(name: str, sources: Sources, settings: StudySettings) -> tuple[StudyMaterial, AuditResult]:
    from evenreel.cli.waiting import share_bar
    from evenreel.papers import find_study, run_study
    from evenreel.papers.engine.loading import load_study_material

    with share_bar("looking at videos") as progress:
        material = load_study_material(find_study(name), sources, progress)
    with share_bar(name) as progress:
        return material, run_study(name, material, settings, progress)


def _reads_graphs(recipe: Recipe, bases: Sequence[str]) -> bool:
    """Whether the recipe's matcher, or one of some others, reads role graphs of captions."""
    from evenreel.checkpoint import MatcherSpec
    from evenreel.checkpoint.architecture import reads_graphs
    from evenreel.training.specs import spec_of

    return any(reads_graphs(spec) for spec in (spec_of(recipe), *map(MatcherSpec, bases)))


def _named(given: Sequence[str] | None) -> dict[str, str]:
    """`NAME=PLACE`, or a place that is its own name.

    Raises:
        UsageError: two have one name.
    """
    found: dict[str, str] = {}
    for word in given or ():
        name, equals, place = word.partition("=")
        if name in found:
            raise UsageError(f"Two things are called {name!r}; give each a name of its own: NAME={place or name}.")
        found[name] = place if equals else name
    return found


def _others(given: Sequence[str] | None, split: str) -> dict[str, OtherCorpus]:
    """`NAME=CORPUS,FEATURES`, with `,SPLIT` where it is not that of the study's own corpus.

    Raises:
        UsageError: it is not; or two have one name.
    """
    from evenreel.papers.engine.loading import OtherCorpus

    found = {}
    for name, places in _named(given).items():
        corpus, *rest = places.split(",")
        if name == places or len(rest) not in (1, 2) or not all((name, corpus, *rest)):
            raise UsageError(f"--other is {places!r}; it must be NAME=CORPUS,FEATURES or NAME=CORPUS,FEATURES,SPLIT.")
        found[name] = OtherCorpus(Path(corpus), Path(rest[0]), rest[1] if rest[1:] else split)
    return found


def _list(as_json: bool) -> None:
    from evenreel.cli.show_library import console, print_json
    from evenreel.papers import STUDIES

    if as_json:
        print_json([{"name": name, "about": one.about, "needs": NEEDS[one.needs]} for name, one in STUDIES.items()])
        return
    width = max(map(len, STUDIES))
    for name, one in STUDIES.items():
        console().print(f"{name:{width}}  {one.about}; needs {NEEDS[one.needs]}")


def _inputs(sources: Sources, recipe: str | None, tail: Sequence[Path]) -> dict[str, Sequence[str | Path | None]]:
    """Everything a study is made of, by its part in it."""
    others = sources.others.values()
    return {
        "corpus": [sources.corpus, *(one.corpus for one in others)],
        "features": [sources.features, *(one.features for one in others), sources.seen],
        "matcher": [*sources.matchers.values(), sources.start],
        "scores": list(sources.scores.values()),
        "recipe": [recipe],
        "few training clips": tail,
    }


def _write(result: AuditResult, out: Path, made: Provenance) -> None:
    from evenreel.files import write_durably
    from evenreel.report import write_page
    from evenreel.report.result.page import audit_page

    write_page(audit_page([result]), out / REPORT, made)
    found = result.to_json() | {"provenance": made.to_json()}
    write_durably(out / RESULTS, (json.dumps(found, indent=2, allow_nan=False) + "\n").encode())


def _show(result: AuditResult, out: Path, material: StudyMaterial, origin: dict[str, Any] | None) -> None:
    """The sentence and the first table, the others are on the page; or JSON, where its origin is given."""
    from dataclasses import asdict

    from evenreel.cli.audit.show import show_audits
    from evenreel.cli.show_library import console, list_clips_aside, print_json

    if origin is not None:
        aside = [asdict(one) for one in material.set_aside]
        print_json(result.to_json() | {"report": str(out / REPORT), "set_aside": aside, "provenance": origin})
        return
    show_audits([replace(result, tables=result.tables[:1])], out / REPORT, as_json=False)
    list_clips_aside(console(), material.set_aside)
