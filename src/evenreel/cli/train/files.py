"""What `evenreel train` writes when a run is over: the checkpoint, the page of curves, what was skipped."""

from __future__ import annotations

import csv
import io
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import cast

from evenreel.checkpoint import About, EncoderNote, Inputs, Pretrained, RecordedMetric, save_pretrained
from evenreel.checkpoint.architecture import reads_windows
from evenreel.corpus.cells import as_cell
from evenreel.features.pool import SetAside
from evenreel.files import write_durably
from evenreel.matchers.batches import row_lengths
from evenreel.provenance import provenance_of
from evenreel.report.page import write_page
from evenreel.report.training import training_page
from evenreel.training.data.examples import FeatureExamples
from evenreel.training.data.material import LoadedData
from evenreel.training.data.pixels import PixelExamples
from evenreel.training.loop.run import TrainedModel
from evenreel.training.loop.run_folder import MEMBERS, METRICS
from evenreel.training.loop.saved_files import MetricsFile
from evenreel.training.recipe import Recipe, recipe_text
from evenreel.training.specs import spec_of

CHECKPOINT, PAGE, SET_ASIDE = "checkpoint", "curves.html", "set_aside.csv"
_VALIDATION = "validation/"


@dataclass(frozen=True)
class FinishedRun:
    """A finished training run.

    Attributes:
        folder: folder of the run.
        loaded: clips and captions that it learned from.
        trained: the trained matcher, with its figures.
        about: record of its checkpoint; None on devices but the first, which write no checkpoint.
    """

    folder: Path
    loaded: LoadedData
    trained: TrainedModel
    about: About | None = None


def write_results(folder: Path, recipe: Recipe, loaded: LoadedData, trained: TrainedModel) -> About:
    """Write the checkpoint, the page and the table of what was skipped into the folder of a run.

    Returns:
        The record that the checkpoint keeps of itself.

    Raises:
        CheckpointError: the checkpoint cannot be written.
        OutputError: the page cannot be written.
    """
    towers = trained.towers.towers if trained.towers is not None and trained.towers.learns else None
    pretrained = Pretrained(trained.matcher, trained.spec, _about(recipe, loaded, trained))
    about = save_pretrained(folder / CHECKPOINT, pretrained, towers).about
    page = training_page(recipe.name, _lead(recipe, trained), _curves(folder), recipe_text(recipe))
    write_page(page, folder / PAGE, provenance_of(_inputs(recipe)))
    if loaded.set_aside:
        table = io.StringIO()
        rows = csv.writer(table)
        rows.writerow([one.name for one in fields(SetAside)])
        rows.writerows(map(as_cell, astuple(one)) for one in loaded.set_aside)
        write_durably(folder / SET_ASIDE, table.getvalue().encode("utf-8", "backslashreplace"))
    return about


def validation_figures(trained: TrainedModel) -> dict[str, float]:
    """Return the figures of the validation split, by metric, at the step of the weights."""
    return {
        name.removeprefix(_VALIDATION): value for name, value in trained.figures.items() if name.startswith(_VALIDATION)
    }


def clips_note(loaded: LoadedData, trained: TrainedModel) -> tuple[str, ...]:
    """List sentences on the training clips: what was left out of them, and how they were divided."""
    left_out = (() if loaded.trimmed is None else (loaded.trimmed.sentence,)) + loaded.drawn
    if trained.members:
        strata = tuple(f"Member {one.number} learned from {one}." for one in trained.strata)
        return left_out + (strata or (f"All {len(trained.members)} members learned from all clips, by other seeds.",))
    return left_out + tuple(f"It learned from stratum {one.number} alone: {one}." for one in trained.strata)


def _inputs(recipe: Recipe) -> dict[str, str | None]:
    """Everything that training reads, by its part in it."""
    data = recipe.data
    return {
        "corpus": data.corpus,
        "features": data.features,
        "features before training": data.pretrained_features,
        "on-screen text": data.on_screen,
        "model": None if recipe.backbone is None else recipe.backbone.model,
        "matcher to begin with": recipe.start,
        "corpus of likeness": None if recipe.likeness is None else recipe.likeness.corpus,
        "features of likeness": None if recipe.likeness is None else recipe.likeness.features,
    }


def _curves(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """The figures of the run, and of those that it is made of."""
    found = MetricsFile(folder / METRICS).curves()
    places = (folder / MEMBERS).glob(f"*/{METRICS}")
    for place in sorted(places, key=lambda place: (len(place.parent.name), place)):
        curves = MetricsFile(place).curves()
        found |= {f"{name} (member {place.parent.name})": points for name, points in curves.items()}
    return found


def _about(recipe: Recipe, loaded: LoadedData, trained: TrainedModel) -> About:
    split = recipe.data.validation or f"{recipe.data.held_out:.0%} of {recipe.data.train}"
    data = f"{Path(recipe.data.corpus).name}, {split}, on which the weights were selected"
    figures, answers, uses = validation_figures(trained), recipe.selection.relevance, loaded.uses
    changed = () if (words := recipe.changed_words) is None else words.uses
    return About(
        encoder=EncoderNote(loaded.encoder.encoder_id, loaded.encoder.weights_hash, loaded.material.dimension),
        inputs=inputs_of(recipe, loaded),
        corpus=Path(recipe.data.corpus).name,
        split=recipe.data.train,
        recipe=recipe_text(recipe),
        recipe_note=recipe.about,
        clips_note=clips_note(loaded, trained),
        uses=uses,
        metrics=tuple(
            RecordedMetric(f"{name} t2v", value, data=data, relevance=answers, uses=(*uses, *changed))
            for name, value in figures.items()
        ),
    )


def inputs_of(recipe: Recipe, loaded: LoadedData) -> Inputs:
    """Return the most frames and words that a matcher was trained on, and what kind they are, for its checkpoint."""
    examples = loaded.material.examples
    if isinstance(examples, FeatureExamples):
        most_frames = int(row_lengths(examples.video_features.frame_mask).max())
        word_mask = examples.text_features.word_mask
    else:
        pixels = cast("PixelExamples", examples)
        most_frames = max(file.frames or 0 for file in pixels.files)
        word_mask = pixels.tokens.mask.numpy()
    encoder, reads_text = loaded.encoder, reads_windows(spec_of(recipe))
    windows, words_from = (encoder.windows, encoder.words_from) if reads_text else (None, None)
    graphs = isinstance(examples, FeatureExamples) and examples.text_features.graphs is not None
    most_words, streams = None if graphs else int(row_lengths(word_mask).max()), recipe.data.streams
    return Inputs(most_frames, most_words, encoder.rule, windows, words_from, streams, recipe.changed_words)


def _lead(recipe: Recipe, trained: TrainedModel) -> str:
    figures = validation_figures(trained)
    metric = recipe.selection.metric
    value = f"{metric} {figures[metric]:.1f}" if figures else ""
    if trained.members:
        measured = f", with {value} on the validation split" if value else ""
        return f"{len(trained.members)} members became one matcher{measured}."
    if not value:
        return f"The weights are those of the last step, {trained.step:,}; there was no validation split to select on."
    return f"The weights are those of step {trained.step:,}, the best on the validation split: {value}."
