"""`evenreel train`: a recipe in, a run folder with a checkpoint, figures and a page out, and what is said of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import JsonOption, RecipeArgument
from evenreel.cli.progress import share_bar, step_bar
from evenreel.cli.show_library import console, list_aside, print_json, safe

if TYPE_CHECKING:
    from rich.console import Console

    from evenreel.checkpoint import About, Inputs
    from evenreel.training.batches import TrainingInputs
    from evenreel.training.loop import TrainedModel, Watch
    from evenreel.training.pixels import PixelExamples
    from evenreel.training.recipe import Recipe

RUNS = Path("runs")
CHECKPOINT, PAGE, SET_ASIDE = "checkpoint", "curves.html", "set_aside.csv"
MANY = 10
_VALIDATION = "validation/"


@dataclass(frozen=True)
class FinishedRun:
    folder: Path
    loaded: TrainingInputs  # clips and captions that it learned from
    trained: TrainedModel  # the trained matcher, with its figures
    about: About | None = None  # record of its checkpoint; None on devices but the first, which write no checkpoint


def train(
    recipe: RecipeArgument,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="PLACE=VALUE instead of the recipe's: loop.batch_size=64; may be given again."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. \\[default: the recipe's, or runs/NAME]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in that folder.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a matcher, and its towers where the recipe says so. Exit status 3 if clips had to be skipped."""
    from evenreel.training.recipe import find_recipe, load_recipe

    chosen = load_recipe(find_recipe(recipe), changes or ())  # a wrong one is told before torch is imported
    from evenreel.encoders.towers import usable_device
    from evenreel.training.loop import higher_is_better
    from evenreel.training.run_folder import CLIPS_READ, check_begun, held

    usable_device(chosen.loop.device, "float32")
    higher_is_better(chosen)  # refuses a metric that cannot select
    folder = out or (Path(chosen.out) if chosen.out else RUNS / chosen.name)
    if resume:
        check_begun(folder)
    with held(folder, chosen, resume=resume), step_bar(shown=not as_json) as watch:
        if chosen.has_tower_members:
            done = _tower_members(chosen, folder, watch)
            _show_tower_members(folder, chosen, done, as_json)
        else:
            done = [_trained(chosen, folder, folder / CLIPS_READ, watch)]
            if done[0].trained.first:
                _show(done[0], as_json)
    if any(run.loaded.set_aside and run.trained.first for run in done):  # another status than 0 of the others would
        raise typer.Exit(EXIT_SET_ASIDE)  # count as a crash


def _trained(recipe: Recipe, folder: Path, clips_read: Path, watch: Watch) -> FinishedRun:
    """Train by a recipe in a folder that is held, and write down what came of it."""
    from evenreel.training.loop import RunHooks, SelectionMeasure, higher_is_better
    from evenreel.training.material import load_material
    from evenreel.training.members import train_recipe_held
    from evenreel.training.run_folder import writing

    with share_bar("reading the clips") as progress:
        loaded = load_material(recipe, progress, clips_read)
    measure = None if loaded.selected is None else SelectionMeasure(recipe.selection, loaded.selected)
    trained = train_recipe_held(recipe, loaded, folder, RunHooks(measure, higher_is_better(recipe), watch))
    if not trained.first:  # Lightning runs this command once for each device
        return FinishedRun(folder, loaded, trained)
    with writing(folder):
        return FinishedRun(folder, loaded, trained, write_results(folder, recipe, loaded, trained))


def _tower_members(recipe: Recipe, folder: Path, watch: Watch) -> list[FinishedRun]:
    """Train each member in a folder of its own; a run that is over is only read. Gives the members alone."""
    from evenreel.training.members import ALL, begun_with_towers, tower_member_recipes
    from evenreel.training.run_folder import CLIPS_READ, MEMBERS, held

    done = {}
    for name, one in tower_member_recipes(recipe).items():
        own = begun_with_towers(one, folder / MEMBERS / ALL / CHECKPOINT) if ALL in done else one
        place = folder / MEMBERS / name
        with held(place, own, resume=True):
            done[name] = _trained(own, place, folder / CLIPS_READ, watch)
    return [run for name, run in done.items() if name != ALL]


# What is written ------------------------------------------------------------------------------------------------------


def write_results(folder: Path, recipe: Recipe, loaded: TrainingInputs, trained: TrainedModel) -> About:
    """Write the checkpoint, the page and the table of what was skipped into the folder of a run.

    Returns:
        The record that the checkpoint keeps of itself.

    Raises:
        CheckpointError: the checkpoint cannot be written.
        OutputError: the page cannot be written.
    """
    from evenreel.checkpoint import Pretrained, save_pretrained
    from evenreel.corpus.tables import as_cell
    from evenreel.features.pool import SetAside
    from evenreel.files import write_durably
    from evenreel.provenance import provenance_of
    from evenreel.report.page import training_page, write_page
    from evenreel.training.recipe import recipe_text
    from evenreel.training.run_folder import MEMBERS, METRICS, MetricsFile

    towers = trained.towers.towers if trained.towers is not None and trained.towers.learns else None
    pretrained = Pretrained(trained.matcher, trained.spec, _about(recipe, loaded, trained))
    about = save_pretrained(folder / CHECKPOINT, pretrained, towers).about
    curves = MetricsFile(folder / METRICS).curves()  # of the run, and of those that it is made of
    places = (folder / MEMBERS).glob(f"*/{METRICS}")
    for place in sorted(places, key=lambda place: (len(place.parent.name), place)):
        member = MetricsFile(place).curves().items()
        curves |= {f"{name} (member {place.parent.name})": points for name, points in member}
    data, likeness = recipe.data, recipe.likeness
    read = {
        "corpus": data.corpus,
        "features": data.features,
        "features before training": data.pretrained_features,
        "on-screen text": data.on_screen,
        "model": None if recipe.backbone is None else recipe.backbone.model,
        "matcher to begin with": recipe.start,
        "corpus of likeness": None if likeness is None else likeness.corpus,
        "features of likeness": None if likeness is None else likeness.features,
    }
    page = training_page(recipe.name, _lead(recipe, trained), curves, recipe_text(recipe))
    write_page(page, folder / PAGE, provenance_of(read))
    if loaded.set_aside:
        table = io.StringIO()
        rows = csv.writer(table)
        rows.writerow([one.name for one in fields(SetAside)])
        rows.writerows(map(as_cell, astuple(one)) for one in loaded.set_aside)
        write_durably(folder / SET_ASIDE, table.getvalue().encode("utf-8", "backslashreplace"))
    return about


def _about(recipe: Recipe, loaded: TrainingInputs, trained: TrainedModel) -> About:
    from evenreel.checkpoint import About, EncoderNote, RecordedMetric
    from evenreel.training.recipe import recipe_text

    split = recipe.data.validation or f"{recipe.data.held_out:.0%} of {recipe.data.train}"
    data = f"{Path(recipe.data.corpus).name}, {split}, on which the weights were selected"
    answers, uses, encoder = recipe.selection.relevance, loaded.uses, loaded.encoder
    changed = () if (words := recipe.changed_words) is None else words.uses
    assert encoder is not None  # `load_material` says which
    return About(
        encoder=EncoderNote(encoder.encoder_id, encoder.weights_hash, loaded.dimension),
        inputs=inputs_of(recipe, loaded),
        corpus=Path(recipe.data.corpus).name,
        split=recipe.data.train,
        recipe=recipe_text(recipe),
        recipe_note=recipe.about,
        clips_note=_clips_note(loaded, trained),
        uses=uses,
        metrics=tuple(
            RecordedMetric(f"{name} t2v", value, data=data, relevance=answers, uses=(*uses, *changed))
            for name, value in _validation(trained).items()
        ),
    )


def inputs_of(recipe: Recipe, loaded: TrainingInputs) -> Inputs:
    """Return the most frames and words that a matcher was trained on, and what kind they are, for its checkpoint."""
    from evenreel.checkpoint import Inputs
    from evenreel.checkpoint.architecture import reads_windows
    from evenreel.matchers.batches import row_lengths
    from evenreel.training.batches import FeatureExamples
    from evenreel.training.material import spec_of

    examples, encoder = loaded.examples, loaded.encoder
    assert encoder is not None  # `load_material` says which
    if isinstance(examples, FeatureExamples):
        frames = int(row_lengths(examples.video_features.frame_mask).max())
        word_mask, graphs = examples.text_features.word_mask, examples.text_features.graphs is not None
    else:
        pixels = cast("PixelExamples", examples)
        frames, word_mask, graphs = max(file.frames or 0 for file in pixels.files), pixels.tokens.mask.numpy(), False
    windows, words_from = (encoder.windows, encoder.words_from) if reads_windows(spec_of(recipe)) else (None, None)
    words, streams = None if graphs else int(row_lengths(word_mask).max()), recipe.data.streams
    return Inputs(frames, words, encoder.rule, windows, words_from, streams, recipe.changed_words)


def _validation(trained: TrainedModel) -> dict[str, float]:
    return {
        name.removeprefix(_VALIDATION): value for name, value in trained.figures.items() if name.startswith(_VALIDATION)
    }


def _clips_note(loaded: TrainingInputs, trained: TrainedModel) -> tuple[str, ...]:
    """Sentences on the training clips: what was left out of them, and how they were divided."""
    if trained.members:
        strata = tuple(f"Member {one.number} learned from {one}." for one in trained.strata)
        alike = (f"All {len(trained.members)} members learned from all clips, by other seeds.",)
        return loaded.notes + (strata or alike)
    return loaded.notes + tuple(f"It learned from stratum {one.number} alone: {one}." for one in trained.strata)


def _lead(recipe: Recipe, trained: TrainedModel) -> str:
    figures, metric = _validation(trained), recipe.selection.metric
    value = f"{metric} {figures[metric]:.1f}" if figures else ""
    if trained.members:
        measured = f", with {value} on the validation split" if value else ""
        return f"{len(trained.members)} members became one matcher{measured}."
    if not value:
        return f"The weights are those of the last step, {trained.step:,}; there was no validation split to select on."
    return f"The weights are those of step {trained.step:,}, the best on the validation split: {value}."


# What is said ---------------------------------------------------------------------------------------------------------


def _show(run: FinishedRun, as_json: bool) -> None:
    if as_json:
        print_json(_result(run))
        return
    out = console()
    for line in _lines(run):
        out.print(line)
    _show_notices(out, run)


def _show_tower_members(folder: Path, recipe: Recipe, members: Sequence[FinishedRun], as_json: bool) -> None:
    """Print how the runs of members with an encoder each ended, and the commands that search with all of them."""
    from evenreel.training.members import score_weights

    weights = score_weights(recipe, [run.trained for run in members])
    if as_json:
        told = [{**_result(run), "weight": weight} for run, weight in zip(members, weights, strict=True)]
        print_json({"folder": folder, "members": told})
        return
    out = console()
    for run in members:
        for line in _lines(run):
            out.print(line)
    out.print(f"{len(members)} members, each with features of its own. To search with all of them:")
    for number, run in enumerate(members, start=1):
        checkpoint, features = quote(str(run.folder / CHECKPOINT)), f"FEATURES-{number}"
        command = "" if run.about is None else run.about.features_command.replace("CHECKPOINT", checkpoint)
        scored = f"evenreel score {checkpoint} CORPUS --features {features} --split test"
        out.print(f"  {safe(command)} --out {features}")
        out.print(f"  {safe(scored)} --out {number}.npz")
    files = " ".join(f"{number}.npz" for number in range(1, len(members) + 1))
    given = " ".join(f"--weight {weight!r}" for weight in weights)
    out.print(f"  evenreel fuse {files} --by sum {given} --out fused.npz")
    _show_notices(out, members[0])


def _show_notices(out: Console, run: FinishedRun) -> None:
    """What the model knows of other splits, and what was skipped."""
    for use in run.loaded.uses:
        out.print(f"[yellow]It was trained with {safe(use)}[/]: its scores say so, wherever they are shown.")
    list_aside(run.loaded.set_aside, more=f", all in {safe(run.folder / SET_ASIDE)}", most=MANY)


def _lines(run: FinishedRun) -> Iterator[str]:
    from evenreel.checkpoint.architecture import encodings

    def figures(measured: dict[str, float]) -> str:
        return ", ".join(f"{name} {value:.1f}" for name, value in measured.items())

    folder, trained = run.folder, run.trained
    yield f"Trained in {safe(folder)}: {_weights(trained)}."
    for note in _clips_note(run.loaded, trained):
        yield f"  {safe(note)}"
    for number, member in enumerate(trained.members, start=1):
        measured = _validation(member)
        yield f"  member {number}: {_weights(member)}" + (f": {figures(measured)}" if measured else "")
    if measured := _validation(trained):
        yield ("  together: " if trained.members else "  ") + figures(measured)
    yield f"  checkpoint: {safe(folder / CHECKPOINT)}"
    if (times := encodings(trained.spec)) > 1:
        yield (
            f"  searching with it encodes each video {times} times and each caption {times} times, and a gallery takes "
            f"{times} times the memory"
        )


def _weights(trained: TrainedModel) -> str:
    if trained.members:
        weights = " + ".join(f"{weight:.3g}" for weight in trained.spec.settings["weights"])
        return f"{len(trained.members)} members became one matcher, with the weights {weights}"
    early = ", stopped early" if trained.progress.stopped else ""
    chosen = "best on validation" if trained.progress.best_step is not None else "last"
    return f"the weights are those of step {trained.step:,}, the {chosen}{early}"


def _result(run: FinishedRun) -> dict[str, Any]:
    from evenreel.checkpoint.architecture import encodings

    folder, loaded, trained = run.folder, run.loaded, run.trained
    return {
        "folder": folder,
        "checkpoint": folder / CHECKPOINT,
        "step": trained.step,
        "stopped_early": trained.progress.stopped,
        "validation": _validation(trained),
        "clips": list(_clips_note(loaded, trained)),
        "strata": [vars(one) for one in trained.strata],
        "members": [{"step": one.step, "validation": _validation(one)} for one in trained.members],
        "weights": list(trained.spec.settings["weights"]) if trained.spec.name == "ensemble" else [],
        "encodings": encodings(trained.spec),
        "uses": loaded.uses,
        "set_aside": loaded.set_aside,
    }
