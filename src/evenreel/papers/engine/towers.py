"""Rows whose towers are trained too, as `evenreel train` does, and searched by the features that these then make.

Each row has towers of its own. What the features of a study are for is what they say beside their vectors: which clips
and captions can be used, which words are on screen (`data.on_screen`), and how the towers saw clips before training,
by which scene elements are selected (`data.pretrained_features`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evenreel.checkpoint.architecture import kept_weights, reads_graphs, reads_windows
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.loading import locate
from evenreel.encoders.towers import usable_device
from evenreel.errors import UsageError
from evenreel.features.load import with_pretrained_means
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import CorpusPart, PartFolders
from evenreel.papers.engine.runs import TrainingRun
from evenreel.papers.engine.study import Study
from evenreel.training.data.clip_check import clip_files, readable
from evenreel.training.data.examples import TrainingInputs
from evenreel.training.data.pixels import load_pixels, pixel_examples
from evenreel.training.data.splits import CorpusSplits, LoadedSplits, usable_part
from evenreel.training.loop.module import RetrievalModule
from evenreel.training.loop.run import TrainedModel
from evenreel.training.loop.validation import tower_features
from evenreel.training.recipe.recipe import Recipe
from evenreel.training.specs import spec_of


def check_towers(study: Study, recipe: Recipe) -> None:
    """Check, before anything is read, that a study can train towers where its recipe does."""
    if recipe.backbone is None:
        return
    if study.frozen:
        raise UsageError(
            f"The recipe {recipe.name!r} trains towers, and {study.name} {study.frozen}: it works on features computed "
            "once; leave 'backbone' out."
        )
    if recipe.start is not None:
        raise _begun(recipe)


def check_rows(rows: Mapping[str, Recipe]) -> None:
    """Check, before any row is trained, that no recipe trains towers for a matcher that reads role graphs.

    Args:
        rows: recipes by the name of their row in a table; those without a backbone train no towers and pass.
    """
    for name, recipe in rows.items():
        if recipe.backbone is not None and reads_graphs(spec_of(recipe)):
            raise UsageError(
                f"The matcher {recipe.matcher.name} of the row {name!r} reads captions as role graphs and not as a "
                "text tower does; leave 'backbone' out, or set matcher.name to another."
            )


def through_towers(recipe: Recipe, material: LearningInputs) -> Recipe:
    """Give a recipe that trains towers the folders of a study; return any other as it is."""
    if recipe.backbone is None:
        return recipe
    if material.start is not None:
        raise _begun(recipe)
    train, _ = material.learning()
    _, folder = locate(recipe.backbone.model)
    if material.weights_hash not in (None, open_checkpoint(folder).digest()):
        raise UsageError(
            f"The recipe trains {recipe.backbone.model} (backbone.model), and the features are of another encoder or "
            "of other weights; give those that it makes before training (`evenreel features --model "
            f"{recipe.backbone.model}`)."
        )
    return placed(recipe, _folders_of(train))


def placed(recipe: Recipe, folders: PartFolders) -> Recipe:
    """Return a recipe with a backbone that finds its clips, and of their features what its matcher asks for."""
    backbone, features = recipe.backbone, str(folders.features)
    reads = reads_windows(spec_of(recipe))
    data = replace(
        recipe.data,
        features=None,
        videos=str(folders.videos),
        pretrained_features=features if backbone is not None and backbone.train else None,
        on_screen=features if reads else None,
        words=recipe.data.words if reads else None,
    )
    return replace(recipe, data=data)


def read_clips(recipe: Recipe, part: CorpusPart, splits: CorpusSplits, run: TrainingRun) -> LoadedSplits:
    """Load the towers of a row and the clips that it learns from, as `evenreel train` does.

    Args:
        recipe: recipe of the row, with a backbone.
        part: the training split, whose folders are those of all clips.
        splits: what is learned from and selected on.
        run: called with the share of the clips that were looked at; which can be read is remembered beside it.
    """
    own = placed(recipe, _folders_of(part))
    if own.backbone is None:
        raise UsageError("Pictures are for towers, and the recipe has no backbone: give one.")
    return load_pixels(own, own.backbone, splits, run.progress, run.clips_read)


def pixel_inputs(read: LoadedSplits) -> TrainingInputs:
    """Return the inputs of a training through towers."""
    return TrainingInputs(
        read.learned,
        read.dimension,
        read.selected,
        read.towers,
        source=read.source,
        weights_hash=read.encoder.weights_hash,
    )


def begun_with_towers(learning: TrainingInputs, trained: TrainedModel) -> TrainingInputs:
    """Return inputs that begin with the matcher and the towers of another training."""
    if learning.towers is not None and trained.towers is not None:
        learning.towers.model.load_state_dict(trained.towers.model.state_dict())
    return replace(learning, start=kept_weights(trained.matcher), start_spec=trained.spec)


def seen_by(trained: TrainedModel, recipe: Recipe, part: CorpusPart, verdicts: Path | None) -> CorpusPart:
    """Return a part with the features that trained towers make of it, as `evenreel features` does by a checkpoint.

    Args:
        trained: a row with its towers.
        recipe: its recipe.
        part: a split to search; its features are those of the towers before training.
        verdicts: file that remembers which clips can be read; None for none.
    """
    folders, own = _folders_of(part), placed(recipe, _folders_of(part))
    if own.backbone is None or trained.towers is None:
        return part
    towers = trained.towers.towers
    whole = replace(own, backbone=replace(own.backbone, max_words=towers.longest_caption))
    files, aside = readable(clip_files(part.corpus, folders.videos), own.backbone.rule, verdicts=verdicts)
    there = {file.clip_id: file for file in files}
    corpus = usable_part(part.corpus, there, aside)
    module = RetrievalModule(trained.matcher, trained.towers, recipe, steps=1)
    module.to(usable_device(recipe.loop.device, "float32"))
    texts, videos = tower_features(module, pixel_examples(whole, towers, corpus, there), recipe.loop.workers)
    if trained.towers.learns and trained.matcher.limits.pretrained_mean:
        videos = with_pretrained_means(videos, folders.features, corpus)
    return replace(part, corpus=corpus, texts=texts, videos=videos)


def _begun(recipe: Recipe) -> UsageError:
    return UsageError(
        f"The recipe {recipe.name!r} trains towers, and studies that do so begin with a fresh matcher: leave 'start' "
        "(--start) out; a checkpoint's encoder can be named as backbone.model."
    )


def _folders_of(part: CorpusPart) -> PartFolders:
    if part.folders is None:
        raise UsageError(
            "This study trains towers, which look at the clips themselves; give it parts that know where these are "
            "(folders)."
        )
    return part.folders
