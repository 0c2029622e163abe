"""Figures of the frame-length paper: classes by length, samples of strata, what rankings look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.audits.class_lengths import ClassLengths, TailClasses, class_lengths, read_tail_classes
from evenreel.audits.exchange import mean_interval
from evenreel.audits.length import (
    MAIN,
    LengthData,
    LengthMeasures,
    TrainTestClasses,
    chance_table,
    class_table,
    discrepancy_table,
    histogram_parts,
    length_method,
    length_notices,
    measure_length,
    most_affected,
    strip_captions,
    strip_parts,
    unit_of,
)
from evenreel.audits.length_charts import (
    STRIP_DEPTH,
    Groups,
    Weighted,
    discrepancy_bars,
    length_boxes,
    length_histograms,
    relevance_strips,
)
from evenreel.audits.settings import AuditSettings
from evenreel.corpus import select
from evenreel.corpus.actions import Actions, action_names, actions_of
from evenreel.debias.frame_length import trim_class
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.ranking import CheckedScores
from evenreel.papers.engine import (
    Findings,
    SeededRuns,
    TrainingOutcome,
    effect_of,
    few_seeds,
    measured_trainings,
    shown,
    training_told,
)
from evenreel.papers.frame_length.tables import RMV_ALL, RMV_RAND, plain, trimmed
from evenreel.papers.shown import asked
from evenreel.papers.study import BASELINE, StudySettings, Variant, Variants, paragraph, paragraphs
from evenreel.papers.workspace import Workspace
from evenreel.progress import Progress
from evenreel.report.result import AuditFigure, AuditTable, Cell, Effect, interval_cells, interval_columns
from evenreel.types import Corpus, ScoreBlocks, Scores

# Table 8 of the paper on frame-length bias: one class with its shortest or its longest training clips left out.
#
# RmvOne (section B) moves the mean length of the class in training towards the test split, or, with the longest clips,
# away from it; the same training is then asked for the class's test captions.

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


def remove_one(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
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


def _kinds(chosen: OneClass, settings: StudySettings) -> Variants:
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


# What RmvAll does to captions that may be missed for their length (section B of the paper on frame-length bias).

MOST = 60
"""Captions that are drawn of those that are suspected."""


_SHARE = "Captions ranked better less those ranked worse"
_COUNTED = ("suspected", "drawn", "better", "worse", "same", "ranks gained", "ranks lost")


class Moved(NamedTuple):
    """How many captions rank better or worse after another training, and by how many ranks.

    Attributes:
        suspected: how many there were to draw from.
        better, worse, same: captions whose rank falls, rises, stays.
        gained, lost: ranks that the former and the latter move, summed.
    """

    suspected: int
    better: int
    worse: int
    same: int
    gained: float
    lost: float

    @property
    def drawn(self) -> int:
        """Return how many captions were ranked again."""
        return self.better + self.worse + self.same

    @property
    def share(self) -> float:
        """Return the share of captions ranked better less that of captions ranked worse, in percent."""
        return 100 * (self.better - self.worse) / self.drawn

    @property
    def figures(self) -> dict[str, float]:
        """Return the figures by the heads of their columns, and the share last."""
        own = (self.suspected, self.drawn, self.better, self.worse, self.same, self.gained, self.lost)
        return {**dict(zip(_COUNTED, own, strict=True)), _SHARE: self.share}


def samples(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Rank captions that may be missed for their length before and after RmvAll, and after RmvRand (section B)."""
    material.learning()  # refuses what lacks a split, before the recipe is looked at
    recipe = settings.recipe
    tail = read_tail_classes(settings.tail_classes) if settings.tail_classes else None
    kinds = {
        BASELINE: Variant(plain(recipe)),
        RMV_ALL: Variant(trimmed(recipe, "all"), BASELINE),
        RMV_RAND: Variant(trimmed(recipe, "random"), BASELINE),
    }
    suspected: dict[int, tuple[LengthMeasures, NDArray[np.int64]]] = {}

    def measure(one: TrainingOutcome) -> dict[str, dict[str, float]]:
        found = _samples_measured(one, settings, tail)
        if one.row == BASELINE:  # the first of its seed
            suspected.clear()  # one seed at a time is enough
            suspected[one.seed] = found, drawn(found, one.seed)
            return {}
        before, rows = suspected[one.seed]
        return {one.row: compared(before, found, rows).figures}

    runs = measured_trainings(kinds, material, settings, progress, measure, {})
    added = runs.changes(RMV_RAND, RMV_ALL)[_SHARE]
    return Findings(
        " ".join(f"After {name}: {_told(own[0])}" for name, own in runs.rows.items())
        + f" {_SHARE}, RmvAll less RmvRand: {shown(added)} points.",
        effect_of(added, f"{_SHARE}, in %: RmvAll less RmvRand"),
        (_samples_table(runs),),
        (),
        (*few_seeds(settings), *runs.notices),
        (paragraph("length", "Suspected captions"), training_told(recipe, material)),
    )


def _told(moved: Mapping[str, float]) -> str:
    return (
        f"of {moved['drawn']} suspected captions {moved['better']} are ranked better and {moved['worse']} worse, by "
        f"{moved['ranks gained']:,.0f} and {moved['ranks lost']:,.0f} ranks in all."
    )


def compared(before: LengthMeasures, after: LengthMeasures, rows: NDArray[np.int64]) -> Moved:
    """Count how many captions rank better or worse by another ranking, and by how many ranks."""
    change = after.first.rank[rows] - before.first.rank[rows]
    suspected = 0 if before.failures is None else len(before.failures.suspected)
    return Moved(
        suspected,
        int((change < 0).sum()),
        int((change > 0).sum()),
        int((change == 0).sum()),
        float(-change[change < 0].sum()),
        float(change[change > 0].sum()),
    )


def drawn(before: LengthMeasures, seed: int) -> NDArray[np.int64]:
    """Draw up to `MOST` of the captions that are suspected of being missed for their length, ascending rows."""
    rows = np.empty(0, np.int64) if before.failures is None else before.failures.suspected
    if not len(rows):
        raise CorpusError(
            "No caption is suspected of being missed for its length: none is ranked behind 10 whose class is longer or "
            "shorter in training by a second. The audit `length` says how many each rule leaves."
        )
    return np.sort(np.random.default_rng(seed).choice(rows, min(MOST, len(rows)), replace=False))


def _samples_measured(outcome: TrainingOutcome, settings: StudySettings, tail: TailClasses | None) -> LengthMeasures:
    audit = replace(settings.audit, resamples=0)
    return measure_length(outcome.scores(), outcome.test.corpus, audit, train=outcome.learned, tail=tail)


def _samples_table(runs: SeededRuns[str, str]) -> AuditTable:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, seed, *(one[head] for head in _COUNTED))
        for name, own in runs.rows.items()
        for seed, one in enumerate(own)
    )
    return AuditTable("Suspected captions, ranked again", ("training", "seed", *_COUNTED), rows)


# Figures 1, 2, 5 and 7 of the paper on frame-length bias, and those of its appendix that show the same elsewhere.
#
# Two of them are of the corpus alone: how far classes differ in length between training and test, and how lengths are
# spread. Two are of rankings: how long the clips are that a class's captions are shown, and how relevant they are.

Measured = Mapping[str, tuple[LengthMeasures, CheckedScores]]
"""By system."""


class ClassShown(NamedTuple):
    """A class of verb and noun with its mean lengths in training, in test and among the clips ranked first.

    Attributes:
        system: name of the system.
        name: name of the class.
        train: length of the class in training.
        test: length of the class in test.
        first: length of the first clips of its captions.
        rank: median rank of the first clip that answers a caption.
    """

    system: str
    name: str
    train: float
    test: float
    first: float
    rank: float

    def told(self, unit: str) -> str:
        """Say in a sentence how long clips of the class are in training, in test and among those ranked first."""
        return (
            f"{self.system}: the class '{self.name}' is {self.train:,.1f} {unit} long in training and {self.test:,.1f} "
            f"in test; the first {MAIN} clips of its captions have {self.first:,.1f}."
        )


_BARS_NOTE = "Point at a bar for its class."


def discrepancies(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make figures 2 and 8 of the frame-length paper: how much longer each class is in test."""
    data, held = _corpus_lengths(material)
    gap, unit = held.common.discrepancy, unit_of(data)
    mean = mean_interval(gap, np.arange(len(gap)), settings.audit)
    names = [held.names[one] for one in held.common.classes.tolist()]
    chance = chance_table(data, held, settings.audit.seed)
    _, _, expected, low, high = chance.rows[1]
    return Findings(
        f"Of {len(gap):,} classes in both splits {int((gap > 0).sum()):,} are longer in test than in training; on "
        f"average a class differs by {shown(mean)} {unit}, either way by {float(np.abs(gap).mean()):,.1f}, where "
        f"{expected:,.1f} ({low:,.1f} to {high:,.1f}) are due to how few clips a class has.",
        effect_of(mean, f"Mean over classes of test less training, {unit}"),
        (discrepancy_table(data, held.common), chance, class_table(data, held)),
        (
            AuditFigure(
                "How much longer each class is in test", partial(discrepancy_bars, gap, names, unit), _BARS_NOTE
            ),
        ),
        (),
        (paragraph("length", "Lengths of classes"), "The interval is over samples of classes."),
    )


def spread(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make figures 7, 9a and 10a of the frame-length paper: quartiles of the lengths of training and test clips."""
    data = _data(material)
    groups = {"training": Weighted.of(data.train_lengths), "test": Weighted.of(data.whole)}
    means = {name: float(one.lengths.mean()) for name, one in groups.items()}
    unit, longer = unit_of(data), means["test"] - means["training"]
    return Findings(
        f"Clips are {means['training']:,.1f} {unit} long in training and {means['test']:,.1f} in test, on average.",
        Effect(f"Mean length of test clips less that of training clips, {unit}", longer),
        (_spread_table(groups, unit),),
        (
            AuditFigure(
                "Spread of the lengths",
                partial(length_boxes, groups, unit),
                "Quartiles; whiskers reach to the last length within 1.5 times their range.",
            ),
        ),
        (),
        paragraphs("length", "Lengths of classes"),
    )


def shown_lengths(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make figures 1b, 6, 9b and 10b of the frame-length paper: lengths of a class in training, in test and first."""
    learned = material.learned_from()
    pair = None if settings.action is None else picked_class(learned, material.test, settings.action).pair
    measured = _pictures_measured(material, settings, learned, progress)
    rows: list[ClassShown] = []
    figures: list[AuditFigure] = []
    first_name, (first, _) = next(iter(measured.items()))
    class_ = _class_of(first, pair)
    for name, (one, scores) in measured.items():
        rows.append(_class_row(name, one, class_))
        parts = histogram_parts(one, scores, class_)
        figures.append(
            AuditFigure(f"Lengths: {name}", partial(length_histograms, parts, unit_of(one.data)), _SHOWN_NOTE)
        )
    unit = unit_of(first.data)
    columns = ("system", "class", f"in training, {unit}", f"in test, {unit}", f"first {MAIN}, {unit}", "median rank")
    return Findings(
        " ".join(row.told(unit) for row in rows),
        replace(first.effect, name=f"{first_name}: {first.effect.name}"),
        (AuditTable("A class and what its captions are shown", columns, tuple(rows)),),
        tuple(figures),
        tuple(dict.fromkeys(notice for one, _ in measured.values() for notice in length_notices(one, trained=True))),
        tuple(length_method(first)),
    )


_SHOWN_NOTE = f"Returned first: each clip as often as it is among the first {MAIN}."


def strips(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make figures 5 and 11 of the frame-length paper: relevance of first clips and first captions."""
    measured = _pictures_measured(material, settings, material.learned_from(), progress)
    first = next(iter(measured.values()))[0]
    captions = asked(first.data.corpus, settings.queries) or strip_captions(first)
    if not captions:
        raise CorpusError("No caption of the split has a clip that answers it, so there is nothing to show.")
    parts = {
        f"{name}: {way}": one
        for name, (found, scores) in measured.items()
        for way, one in strip_parts(found, scores, captions).items()
    }
    rows = tuple(
        (part, strip.query, float(strip.degrees.mean()), float(strip.degrees[0]))
        for part, own in parts.items()
        for strip in own
    )
    means = {part: float(np.mean([strip.degrees.mean() for strip in own])) for part, own in parts.items()}
    told = ", ".join(f"{part} {mean:.2f}" for part, mean in means.items())
    return Findings(
        f"Mean relevance of the first {STRIP_DEPTH}: {told}.",
        _strip_effect(means),
        (AuditTable(f"Relevance of the first {STRIP_DEPTH}", ("ranking", "query", "mean", "of the first"), rows),),
        (AuditFigure(f"How relevant the first {STRIP_DEPTH} are", partial(relevance_strips, parts), _STRIP_NOTE),),
        (_STRIP_NOTICE,),
        ("Relevance is the mean of the intersections over unions of verb and noun classes.",),
    )


_STRIP_NOTE = "The darker, the more relevant; equal scores in any order."
_STRIP_NOTICE = "A few queries show what a ranking looks like, and prove nothing about all of them."


def _strip_effect(means: Mapping[str, float]) -> Effect:
    """Return the mean relevance of the last system less that of the first, text to video; of one system, its own."""
    of_text = [mean for part, mean in means.items() if part.endswith("text to video")]
    if len(of_text) == 1:
        return Effect(f"Mean relevance of the first {STRIP_DEPTH}, text to video", of_text[0])
    return Effect(
        f"Mean relevance of the first {STRIP_DEPTH}, text to video: last system less first", of_text[-1] - of_text[0]
    )


def _data(material: Workspace) -> LengthData:
    """Lengths of both splits, before any ranking."""
    clips = material.test.clips["clip_id"].to_list()
    return LengthData.of(Scores(np.zeros((0, len(clips))), [], clips), material.test, material.learned_from())


def _corpus_lengths(material: Workspace) -> tuple[LengthData, TrainTestClasses]:
    data = _data(material)
    if data.classes is None or not len(data.classes.common.classes):
        raise CorpusError(
            "No class of verb and noun is in both splits, so none can be compared; add classes with `evenreel corpus "
            "classes`."
        )
    return data, data.classes


def _pictures_measured(material: Workspace, settings: StudySettings, learned: Corpus, progress: Progress) -> Measured:
    """Every ranking that is given."""
    systems: Mapping[str, ScoreBlocks] = material.systems()
    found: dict[str, tuple[LengthMeasures, CheckedScores]] = {}
    for name, scores in systems.items():
        found[name] = measure_length(scores, material.test, settings.audit, train=learned), CheckedScores(scores)
        progress(len(found) / len(systems))
    return found


def _classes(measured: LengthMeasures) -> TrainTestClasses:
    if measured.data.classes is None:
        raise CorpusError("The clips have no verb classes; add some with `evenreel corpus classes`.")
    return measured.data.classes


def _class_of(measured: LengthMeasures, pair: tuple[int, int] | None) -> int:
    """The class that is asked for, or the one of which the most captions may be missed for its length."""
    held = _classes(measured)
    affected = most_affected(measured)
    if pair is None and not affected:
        raise CorpusError("No caption is of a class that training has, so no class can be shown.")
    return affected[0] if pair is None else held.actions.pairs.index(pair)


def _class_row(system: str, measured: LengthMeasures, class_: int) -> ClassShown:
    held = _classes(measured)
    own = measured.data.caption_class == class_
    means, ranks = measured.first.at(MAIN)[own], measured.first.rank[own]
    return ClassShown(
        system,
        held.names[class_],
        float(held.train_mean[class_]),
        float(held.test_mean[class_]),
        _known_mean(means),
        float(np.nanmedian(ranks)) if (~np.isnan(ranks)).any() else float("nan"),
    )


def _known_mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _spread_table(groups: Groups, unit: str) -> AuditTable:
    shares = (0.05, 0.25, 0.5, 0.75, 0.95)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, len(one.lengths), float(one.lengths.mean()), *map(float, one.quantiles(shares)))
        for name, one in groups.items()
    )
    columns = ("clips of", "count", f"mean, {unit}", "5 %", "25 %", "median", "75 %", "95 %")
    return AuditTable("Lengths of clips", columns, rows)
