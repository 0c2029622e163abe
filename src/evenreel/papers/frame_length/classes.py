"""Table 8 of the paper on frame-length bias: one class with its shortest or its longest training clips left out.

RmvOne (section B) moves the mean length of the class in training towards the test split, or, with the longest clips,
away from it; the same training is then asked for the class's test captions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import polars as pl

from evenreel.audits.length.class_lengths import ClassLengths, class_lengths
from evenreel.audits.length.measures import measure_length
from evenreel.audits.settings import AuditSettings
from evenreel.corpus import select
from evenreel.corpus.actions import Actions, action_names, actions_of
from evenreel.debias.frame_length import trim_class
from evenreel.errors import UsageError
from evenreel.papers.engine.findings import Findings, effect_of, shown
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.seeds import SeededRuns
from evenreel.papers.engine.training_tables import measured_trainings
from evenreel.papers.engine.trainings import TrainingOutcome, few_seeds, training_told
from evenreel.papers.engine.variants import Variant, Variants
from evenreel.papers.engine.words import paragraph
from evenreel.papers.frame_length.settings import ClassTrainingSettings
from evenreel.papers.frame_length.variants import plain
from evenreel.progress import Progress
from evenreel.report.result import AuditTable, interval_cells, interval_columns
from evenreel.types import Corpus

Pair = tuple[int, int]
"""Verb class and noun class."""

NONE = "remove none"
FEWEST = 10
"""Training clips of a class that a study chooses by itself."""

RANK, FIRST, TRAIN, COUNT = (
    "rank of the first answer",
    "mean length of the first 10",
    "mean length in training",
    "training clips",
)
_DEPTH = 10

End = Literal["shortest", "longest"]


@dataclass(frozen=True)
class OneClass:
    """A class of verb and noun that both splits have, with its mean length in each.

    Attributes:
        pair: its verb class and noun class.
        name: what captions call it.
        train_mean: mean length of its clips in training.
        test_mean: mean length of its clips in test.
        unit: unit of both lengths.
    """

    pair: tuple[int, int]
    name: str
    train_mean: float
    test_mean: float
    unit: str

    @property
    def towards(self) -> End:
        """Return which training clips have to go for training to be as long as test."""
        return "shortest" if self.test_mean >= self.train_mean else "longest"


def remove_one(material: LearningInputs, settings: ClassTrainingSettings, progress: Progress) -> Findings:
    """Make table 8 of the frame-length paper: a class without its shortest or longest training clips."""
    train, test = material.learning()
    chosen = picked_class(train.corpus, test.corpus, settings.action)
    kinds = _kinds(chosen, settings)
    ends = {RANK: (1.0, np.inf), FIRST: (0.0, np.inf), TRAIN: (0.0, np.inf), COUNT: (0.0, np.inf)}
    runs = measured_trainings(
        kinds, material, settings, progress, lambda one: {one.row: _measured(one, chosen, settings.audit)}, ends
    )
    row = f"remove {chosen.towards}"
    change = runs.changes(NONE, row)[RANK]
    return Findings(
        f"{chosen.name}: {chosen.train_mean:.1f} {chosen.unit} long in training, {chosen.test_mean:.1f} in test. With "
        f"its {chosen.towards} training clips left out the {RANK}, {runs.mean(NONE, RANK).value:,.0f}, changes by "
        f"{shown(change)}.",
        effect_of(change, f"Change of the {RANK}: {row} less {NONE}"),
        (_table(runs, chosen),),
        (),
        (paragraph("length", "Chosen by the test split"), *few_seeds(settings)),
        (paragraph("length", "One class"), training_told(settings.recipe, material)),
    )


def picked_class(train: Corpus, test: Corpus, asked: str | None) -> OneClass:
    """Return the class that is named, or the one whose mean length grows most from training to test.

    Of several classes of the name that one is returned too. Unless a class is named, only those with at least `FEWEST`
    training clips are considered.

    Args:
        train: training split of a corpus.
        test: test split of the corpus.
        asked: name of the class: `VERB,NOUN` as numbers, or what captions call it; None to choose by length.
    """
    actions, names, common = _compared(train, test)
    wanted = _numbers(asked)
    held = [number for number in common.classes.tolist() if wanted in (None, actions.pairs[number])]
    if asked is not None and wanted is None:
        held = [number for number in held if names[number].casefold() == asked.casefold()]
    elif asked is None:
        held = [number for number, count in zip(held, common.train_count.tolist(), strict=True) if count >= FEWEST]
    if not held:
        raise UsageError(
            f"No class {asked!r} is in both splits; name it as VERB,NOUN, two numbers, or as captions call it."
            if asked is not None
            else f"No class of both splits has {FEWEST} training clips; name one with --class."
        )
    place = {number: row for row, number in enumerate(common.classes.tolist())}
    best = max(held, key=lambda number: float(common.discrepancy[place[number]]))
    row = place[best]
    return OneClass(
        actions.pairs[best], names[best], float(common.train_mean[row]), float(common.test_mean[row]), actions.unit
    )


def _compared(train: Corpus, test: Corpus) -> tuple[Actions, Mapping[int, str], ClassLengths]:
    both = Corpus(
        pl.concat([train.clips, test.clips], how="diagonal_relaxed"),
        pl.concat([train.captions, test.captions], how="diagonal_relaxed"),
    )
    actions = actions_of(both)
    trained = np.arange(both.clips.height) < train.clips.height
    return actions, action_names(both, actions), class_lengths(actions.of(trained), actions.of(~trained))


def _numbers(asked: str | None) -> tuple[int, int] | None:
    verb, comma, noun = (asked or "").partition(",")
    try:
        return (int(verb), int(noun)) if comma else None
    except ValueError:
        return None


def _kinds(chosen: OneClass, settings: ClassTrainingSettings) -> Variants:
    recipe = plain(settings.recipe)
    ends: tuple[End, End] = ("longest", "shortest")
    first, last = (Variant(recipe, NONE, partial(without_end, chosen=chosen, end=end)) for end in ends)
    return {"remove longest": first, NONE: Variant(recipe), "remove shortest": last}


def without_end(corpus: Corpus, chosen: OneClass, end: End) -> Corpus:
    """Leave out as many of the shortest or the longest training clips of a class as RmvOne does."""
    actions = actions_of(corpus)
    own = np.array([pair == chosen.pair for pair in actions.pairs])[actions.classes]
    clips, lengths = actions.clips[own], actions.lengths[own]
    count = len(trim_class(lengths, chosen.test_mean)) if len(lengths) else 0
    if not count:
        raise UsageError(
            f"The class {chosen.name!r} is as long in training as in test, or has a single clip; name another one."
        )
    order = np.argsort(lengths, kind="stable")
    gone = clips[order[:count] if end == "shortest" else order[-count:]]
    kept = np.ones(corpus.clips.height, np.bool_)
    kept[gone] = False
    return select(corpus, where=pl.lit(pl.Series(kept)))


def _measured(outcome: TrainingOutcome, chosen: OneClass, audit: AuditSettings) -> dict[str, float]:
    """The class in training as it was learned, and what its captions find."""
    settings = replace(audit, resamples=0)
    found = measure_length(outcome.scores(), outcome.test.corpus, settings, train=outcome.learned)
    classes = found.data.classes
    if classes is None:
        raise UsageError(f"No training clip of the class {chosen.name!r} is left; name another one.")
    number = classes.actions.pairs.index(chosen.pair)
    asked = found.data.caption_class == number
    return {
        TRAIN: float(classes.train_mean[number]),
        COUNT: float(classes.counts(trained=True)[number]),
        RANK: float(np.nanmedian(found.first.rank[asked])),
        FIRST: float(np.nanmean(found.first.at(_DEPTH)[asked])),
    }


def _table(runs: SeededRuns[str, str], chosen: OneClass) -> AuditTable:
    rows = tuple(
        (
            name,
            runs.mean(name, TRAIN).value,
            chosen.test_mean,
            round(runs.mean(name, COUNT).value),
            *interval_cells(runs.mean(name, RANK), runs.mean(name, FIRST)),
        )
        for name in runs.rows
    )
    columns = ("training", TRAIN, "in test", COUNT, *interval_columns(RANK, FIRST))
    return AuditTable(f"{chosen.name}, lengths in {chosen.unit}", columns, rows)
