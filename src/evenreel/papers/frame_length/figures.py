"""Figures of the frame-length paper: classes by length, samples of strata, what rankings look like, and table 5."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.audits.class_lengths import class_lengths, read_tail_classes
from evenreel.audits.exchange import mean_interval
from evenreel.audits.length import (
    MAIN,
    LengthData,
    LengthMeasures,
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
    Weighted,
    discrepancy_bars,
    length_boxes,
    length_histograms,
    relevance_strips,
)
from evenreel.corpus import select
from evenreel.corpus.actions import action_names, actions_of
from evenreel.debias.frame_length import trim_class
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.ranking import CheckedScores
from evenreel.papers.engine import (
    Cells,
    SeededRuns,
    TrainingOutcome,
    batch_shape,
    effect_of,
    few_seeds,
    finding,
    learning_of,
    measured_trainings,
    shown,
    splits_of,
    training_told,
)
from evenreel.papers.frame_length.tables import (
    BACKDOOR,
    ENSEMBLE,
    RMV_ALL,
    RMV_RAND,
    backdoor,
    ensemble,
    plain,
    trimmed,
)
from evenreel.papers.shown import asked
from evenreel.papers.study import BASELINE, StudySettings, Variant, paragraph, paragraphs
from evenreel.papers.workspace import Workspace
from evenreel.progress import Progress, part_of
from evenreel.report.result import AuditFigure, AuditResult, AuditTable, Effect
from evenreel.training.cost import measured_times, recipe_cost
from evenreel.training.material import learned_from
from evenreel.types import Corpus, Scores

# table 5: parameters, multiply-adds and time of an epoch, alone and by stratum ----------------------------------------

IN_TURN = "strata in sequence"
_EPOCH, _BESIDE = "seconds an epoch", "% beside one training"


def costs(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 5 of the frame-length paper: what the baseline, the ensemble and the backdoor adjustment cost."""
    recipe = backdoor(settings.recipe)
    learning = learning_of(recipe, splits_of(recipe, material), material)
    kinds = {BASELINE: plain(recipe), ENSEMBLE: ensemble(recipe), BACKDOOR: recipe}
    shape, learned = replace(batch_shape(recipe, learning, material), windows=0), learned_from(learning)
    counted = {name: recipe_cost(one, shape, learned) for name, one in kinds.items()}
    measured: dict[str, list[dict[str, float]]] = {}
    captions: dict[str, int | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(settings.seeds):
            share = part_of(progress, seed, settings.seeds)
            one = measured_times(recipe, learning, Path(folder) / str(seed), share)
            epochs = {"one training, all clips": one.alone}
            epochs |= {f"stratum {number}": member for number, member in enumerate(one.members, start=1)}
            seconds = {name: epoch.seconds for name, epoch in epochs.items()}
            seconds |= {IN_TURN: one.in_turn_s, "strata in parallel": one.at_once_s}
            captions = {name: epochs[name].captions if name in epochs else None for name in seconds}
            for name, own_s in seconds.items():
                figures = {_EPOCH: own_s, _BESIDE: 100 * (own_s / one.alone.seconds - 1)}
                measured.setdefault(name, []).append(figures)
    runs = SeededRuns(measured, settings.audit.confidence, {_EPOCH: (0.0, inf), _BESIDE: (-inf, inf)})
    change, whole = runs.mean(IN_TURN, _BESIDE), counted[BACKDOOR]
    columns = (
        "training", "parameters, captions", "clips", "tables", "multiply-adds of a batch, captions", "clips", "a pair",
        "bytes kept of a clip", "encodings of a clip",
    )  # fmt: skip
    rows = tuple(
        (
            name, one.whole.captions.parameters, one.whole.videos.parameters, one.whole.embeddings,
            one.whole.captions.multiply_adds, one.whole.videos.multiply_adds, one.whole.pair_multiply_adds,
            one.whole.videos.row_bytes, one.members,
        )
        for name, one in counted.items()
    )  # fmt: skip
    batch = (
        f"A batch: {shape.batch} captions of {shape.words} words, {shape.batch} clips of {shape.frames} frames of "
        f"{shape.dimension:,} numbers."
    )
    times = ({"training": name, "captions": captions[name], **runs.means(name)} for name in runs.rows)
    return finding(
        f"One after the other, the strata take {shown(change)} % beside one training for an epoch. To search, each "
        f"clip is encoded {whole.members} times and {whole.members} galleries are kept.",
        effect_of(change, f"Time of an epoch in sequence: {BACKDOOR} less {BASELINE}, % of {BASELINE}"),
        (AuditTable("What searching costs", columns, rows, batch), AuditTable.of("What an epoch takes", times)),
        method=paragraphs("length", "Costs", "Table 5 in the paper"),
    )


# table 8: one class with its shortest or its longest training clips left out ------------------------------------------
#
# RmvOne (section B) moves the mean length of the class in training towards the test split, or, with the longest clips,
# away from it; the same training is then asked for the class's test captions.

NONE = "remove none"
FEWEST = 10
"""Training clips of a class that a study chooses by itself."""
RANK, FIRST = "rank of the first answer", "mean length of the first 10"
TRAIN, COUNT = "mean length in training", "training clips"
_DEPTH = 10
End = Literal["shortest", "longest"]


class OneClass(NamedTuple):
    """A class of verb and noun that both splits have, with the mean length of its clips in each."""

    pair: tuple[int, int]
    name: str  # what captions call it
    train_mean: float
    test_mean: float
    unit: str

    @property
    def towards(self) -> End:
        """Return which training clips have to go for training to be as long as test."""
        return "shortest" if self.test_mean >= self.train_mean else "longest"


def remove_one(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 8 of the frame-length paper: a class without its shortest or longest training clips."""
    train, test = material.learning()
    chosen, recipe = picked_class(train.corpus, test.corpus, settings.action), plain(settings.recipe)
    ends: tuple[End, End] = ("longest", "shortest")
    first, last = (Variant(recipe, NONE, partial(without_end, chosen=chosen, end=end)) for end in ends)
    kinds = {"remove longest": first, NONE: Variant(recipe), "remove shortest": last}
    audit = replace(settings.audit, resamples=0)

    def measure(one: TrainingOutcome) -> dict[str, dict[str, float]]:
        found = measure_length(one.scores(), one.test.corpus, audit, train=one.learned)
        classes = found.data.classes
        if classes is None:
            raise UsageError(f"No training clip of the class {chosen.name!r} is left; name another one.")
        number = classes.actions.pairs.index(chosen.pair)
        asked = found.data.caption_class == number
        figures = {
            TRAIN: float(classes.train_mean[number]),
            COUNT: float(classes.counts(trained=True)[number]),
            RANK: float(np.nanmedian(found.first.rank[asked])),
            FIRST: float(np.nanmean(found.first.at(_DEPTH)[asked])),
        }
        return {one.row: figures}

    limits = {RANK: (1.0, inf)} | dict.fromkeys((FIRST, TRAIN, COUNT), (0.0, inf))
    runs = measured_trainings(kinds, material, settings, progress, measure, limits)
    row = f"remove {chosen.towards}"
    change = runs.changes(NONE, row)[RANK]
    rows: Iterable[Cells] = (
        {
            "training": name,
            TRAIN: own[TRAIN].value,
            "in test": chosen.test_mean,
            COUNT: round(own[COUNT].value),
            RANK: own[RANK],
            FIRST: own[FIRST],
        }
        for name, own in ((name, runs.means(name)) for name in runs.rows)
    )
    return finding(
        f"{chosen.name}: {chosen.train_mean:.1f} {chosen.unit} long in training, {chosen.test_mean:.1f} in test. With "
        f"its {chosen.towards} training clips left out the {RANK}, {runs.mean(NONE, RANK).value:,.0f}, changes by "
        f"{shown(change)}.",
        effect_of(change, f"Change of the {RANK}: {row} less {NONE}"),
        (AuditTable.of(f"{chosen.name}, lengths in {chosen.unit}", rows),),
        (),
        (paragraph("length", "Chosen by the test split"), *few_seeds(settings)),
        (paragraph("length", "One class"), training_told(settings.recipe, material)),
    )


def picked_class(train: Corpus, test: Corpus, asked: str | None) -> OneClass:
    """Return the class that is named, or the one whose mean length grows most from training to test.

    It is named as `VERB,NOUN`, two numbers, or as captions call it; of several of one name the one that grows most is
    returned. Unless one is named, only those with at least `FEWEST` training clips are considered.
    """
    both = Corpus(
        pl.concat([train.clips, test.clips], how="diagonal_relaxed"),
        pl.concat([train.captions, test.captions], how="diagonal_relaxed"),
    )
    actions, trained = actions_of(both), np.arange(both.clips.height) < train.clips.height
    names, common = action_names(both, actions), class_lengths(actions.of(trained), actions.of(~trained))
    wanted = _numbers(asked)
    held = list(enumerate(common.classes.tolist()))
    if wanted is not None:
        held = [(place, number) for place, number in held if actions.pairs[number] == wanted]
    elif asked is not None:
        held = [(place, number) for place, number in held if names[number].casefold() == asked.casefold()]
    else:
        held = [(place, number) for place, number in held if common.train_count[place] >= FEWEST]
    if not held:
        raise UsageError(
            f"No class {asked!r} is in both splits; name it as VERB,NOUN, two numbers, or as captions call it."
            if asked is not None
            else f"No class of both splits has {FEWEST} training clips; name one with --class."
        )
    place, best = max(held, key=lambda one: float(common.discrepancy[one[0]]))
    means = float(common.train_mean[place]), float(common.test_mean[place])
    return OneClass(actions.pairs[best], names[best], *means, actions.unit)


def _numbers(asked: str | None) -> tuple[int, int] | None:
    verb, comma, noun = (asked or "").partition(",")
    try:
        return (int(verb), int(noun)) if comma else None
    except ValueError:
        return None


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
    kept = np.ones(corpus.clips.height, np.bool_)
    kept[clips[order[:count] if end == "shortest" else order[-count:]]] = False
    return select(corpus, where=pl.lit(pl.Series(kept)))


# what RmvAll does to captions that may be missed for their length (section B) -----------------------------------------

MOST = 60
"""Captions that are drawn of those that are suspected."""
_SHARE = "Captions ranked better less those ranked worse"


def samples(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Rank captions that may be missed for their length before and after RmvAll, and after RmvRand (section B)."""
    material.learning()  # refuses what lacks a split, before the recipe is looked at
    recipe, audit = settings.recipe, replace(settings.audit, resamples=0)
    tail = read_tail_classes(settings.tail_classes) if settings.tail_classes else None
    kinds = {
        BASELINE: Variant(plain(recipe)),
        RMV_ALL: Variant(trimmed(recipe, "all"), BASELINE),
        RMV_RAND: Variant(trimmed(recipe, "random"), BASELINE),
    }
    suspected: dict[int, tuple[LengthMeasures, NDArray[np.int64]]] = {}

    def measure(one: TrainingOutcome) -> dict[str, dict[str, float]]:
        found = measure_length(one.scores(), one.test.corpus, audit, train=one.learned, tail=tail)
        if one.row == BASELINE:  # the first of its seed
            suspected.clear()  # one seed at a time is enough
            suspected[one.seed] = found, drawn(found, one.seed)
            return {}
        before, rows = suspected[one.seed]
        return {one.row: compared(before, found, rows)}

    runs = measured_trainings(kinds, material, settings, progress, measure, {})
    added = runs.changes(RMV_RAND, RMV_ALL)[_SHARE]
    told = (
        f"After {name}: of {own[0]['drawn']} suspected captions {own[0]['better']} are ranked better and "
        f"{own[0]['worse']} worse, by {own[0]['ranks gained']:,.0f} and {own[0]['ranks lost']:,.0f} ranks in all."
        for name, own in runs.rows.items()
    )
    rows: Iterable[Cells] = (
        {"training": name, "seed": seed, **{head: value for head, value in one.items() if head != _SHARE}}
        for name, own in runs.rows.items()
        for seed, one in enumerate(own)
    )
    return finding(
        f"{' '.join(told)} {_SHARE}, RmvAll less RmvRand: {shown(added)} points.",
        effect_of(added, f"{_SHARE}, in %: RmvAll less RmvRand"),
        (AuditTable.of("Suspected captions, ranked again", rows),),
        (),
        (*few_seeds(settings), *runs.notices),
        (paragraph("length", "Suspected captions"), training_told(recipe, material)),
    )


def compared(before: LengthMeasures, after: LengthMeasures, rows: NDArray[np.int64]) -> dict[str, float]:
    """Count how many captions rank better or worse by another ranking, and by how many ranks; the share in percent."""
    change = after.first.rank[rows] - before.first.rank[rows]
    better, worse, same = (int(some.sum()) for some in (change < 0, change > 0, change == 0))
    ranked = better + worse + same
    return {
        "suspected": 0 if before.failures is None else len(before.failures.suspected),
        "drawn": ranked,
        "better": better,
        "worse": worse,
        "same": same,
        "ranks gained": float(-change[change < 0].sum()),
        "ranks lost": float(change[change > 0].sum()),
        _SHARE: 100 * (better - worse) / ranked,
    }


def drawn(before: LengthMeasures, seed: int) -> NDArray[np.int64]:
    """Draw up to `MOST` of the captions that are suspected of being missed for their length, ascending rows."""
    rows = np.empty(0, np.int64) if before.failures is None else before.failures.suspected
    if not len(rows):
        raise CorpusError(
            "No caption is suspected of being missed for its length: none is ranked behind 10 whose class is longer or "
            "shorter in training by a second. The audit `length` says how many each rule leaves."
        )
    return np.sort(np.random.default_rng(seed).choice(rows, min(MOST, len(rows)), replace=False))


# figures 1, 2, 5 and 7, and those of the appendix that show the same elsewhere ----------------------------------------
#
# Two of them are of the corpus alone: how far classes differ in length between training and test, and how lengths are
# spread. Two are of rankings: how long the clips are that a class's captions are shown, and how relevant they are.


def discrepancies(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figures 2 and 8 of the frame-length paper: how much longer each class is in test."""
    data = _data(material)
    held, unit = data.classes, unit_of(data)
    if held is None or not len(held.common.classes):
        raise CorpusError(
            "No class of verb and noun is in both splits, so none can be compared; add classes with `evenreel corpus "
            "classes`."
        )
    gap = held.common.discrepancy
    mean = mean_interval(gap, np.arange(len(gap)), settings.audit)
    names = [held.names[one] for one in held.common.classes.tolist()]
    chance = chance_table(data, held, settings.audit.seed)
    _, _, expected, low, high = chance.rows[1]
    bars = partial(discrepancy_bars, gap, names, unit)
    return finding(
        f"Of {len(gap):,} classes in both splits {int((gap > 0).sum()):,} are longer in test than in training; on "
        f"average a class differs by {shown(mean)} {unit}, either way by {float(np.abs(gap).mean()):,.1f}, where "
        f"{expected:,.1f} ({low:,.1f} to {high:,.1f}) are due to how few clips a class has.",
        effect_of(mean, f"Mean over classes of test less training, {unit}"),
        (discrepancy_table(data, held.common), chance, class_table(data, held)),
        (AuditFigure("How much longer each class is in test", bars, "Point at a bar for its class."),),
        (),
        (paragraph("length", "Lengths of classes"), "The interval is over samples of classes."),
    )


def spread(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figures 7, 9a and 10a of the frame-length paper: quartiles of the lengths of training and test clips."""
    data = _data(material)
    groups = {"training": Weighted.of(data.train_lengths), "test": Weighted.of(data.whole)}
    means = {name: float(one.lengths.mean()) for name, one in groups.items()}
    unit, longer = unit_of(data), means["test"] - means["training"]
    shares = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}
    rows: Iterable[Cells] = (
        {
            "clips of": name,
            "count": len(one.lengths),
            f"mean, {unit}": means[name],
            **dict(zip(shares, map(float, one.quantiles([*shares.values()])), strict=True)),
        }
        for name, one in groups.items()
    )
    quartiles = "Quartiles; whiskers reach to the last length within 1.5 times their range."
    return finding(
        f"Clips are {means['training']:,.1f} {unit} long in training and {means['test']:,.1f} in test, on average.",
        Effect(f"Mean length of test clips less that of training clips, {unit}", longer),
        (AuditTable.of("Lengths of clips", rows),),
        (AuditFigure("Spread of the lengths", partial(length_boxes, groups, unit), quartiles),),
        (),
        paragraphs("length", "Lengths of classes"),
    )


def shown_lengths(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figures 1b, 6, 9b and 10b of the frame-length paper: lengths of a class in training, in test and first."""
    learned = material.learned_from()
    pair = None if settings.action is None else picked_class(learned, material.test, settings.action).pair
    measured = _measured(material, settings, learned, progress)
    first_name, (first, _) = next(iter(measured.items()))
    class_, unit = _class_of(first, pair), unit_of(first.data)
    rows: list[dict[str, str | float]] = []
    told: list[str] = []
    figures: list[AuditFigure] = []
    for system, (one, scores) in measured.items():
        held = one.data.classes
        assert held is not None  # all systems have the classes of the first
        own = one.data.caption_class == class_
        name, train, test = held.names[class_], float(held.train_mean[class_]), float(held.test_mean[class_])
        means, ranks = (values[own][~np.isnan(values[own])] for values in (one.first.at(MAIN), one.first.rank))
        among, rank = (
            float(f(some)) if len(some) else float("nan") for f, some in ((np.mean, means), (np.median, ranks))
        )
        told.append(
            f"{system}: the class '{name}' is {train:,.1f} {unit} long in training and {test:,.1f} in test; the first "
            f"{MAIN} clips of its captions have {among:,.1f}."
        )
        rows.append(
            {
                "system": system, "class": name, f"in training, {unit}": train, f"in test, {unit}": test,
                f"first {MAIN}, {unit}": among, "median rank": rank,
            }
        )  # fmt: skip
        draw = partial(length_histograms, histogram_parts(one, scores, class_), unit_of(one.data))
        note = f"Returned first: each clip as often as it is among the first {MAIN}."
        figures.append(AuditFigure(f"Lengths: {system}", draw, note))
    return finding(
        " ".join(told),
        replace(first.effect, name=f"{first_name}: {first.effect.name}"),
        (AuditTable.of("A class and what its captions are shown", rows),),
        figures,
        dict.fromkeys(notice for one, _ in measured.values() for notice in length_notices(one, trained=True)),
        length_method(first),
    )


def strips(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figures 5 and 11 of the frame-length paper: relevance of first clips and first captions."""
    measured = _measured(material, settings, material.learned_from(), progress)
    first = next(iter(measured.values()))[0]
    captions = asked(first.data.corpus, settings.queries) or strip_captions(first)
    if not captions:
        raise CorpusError("No caption of the split has a clip that answers it, so there is nothing to show.")
    parts = {
        f"{name}: {way}": one
        for name, (found, scores) in measured.items()
        for way, one in strip_parts(found, scores, captions).items()
    }
    rows: Iterable[Cells] = (
        {
            "ranking": part, "query": strip.query, "mean": float(strip.degrees.mean()),
            "of the first": float(strip.degrees[0]),
        }
        for part, own in parts.items()
        for strip in own
    )  # fmt: skip
    means = {part: float(np.mean([strip.degrees.mean() for strip in own])) for part, own in parts.items()}
    told = ", ".join(f"{part} {mean:.2f}" for part, mean in means.items())
    of_text = [mean for part, mean in means.items() if part.endswith("text to video")]
    name = f"Mean relevance of the first {STRIP_DEPTH}, text to video"
    last_less_first = Effect(f"{name}: last system less first", of_text[-1] - of_text[0])
    darker = "The darker, the more relevant; equal scores in any order."
    return finding(
        f"Mean relevance of the first {STRIP_DEPTH}: {told}.",
        Effect(name, of_text[0]) if len(of_text) == 1 else last_less_first,
        (AuditTable.of(f"Relevance of the first {STRIP_DEPTH}", rows),),
        (AuditFigure(f"How relevant the first {STRIP_DEPTH} are", partial(relevance_strips, parts), darker),),
        ("A few queries show what a ranking looks like, and prove nothing about all of them.",),
        ("Relevance is the mean of the intersections over unions of verb and noun classes.",),
    )


def _data(material: Workspace) -> LengthData:
    """Lengths of both splits, before any ranking."""
    clips = material.test.clips["clip_id"].to_list()
    return LengthData.of(Scores(np.zeros((0, len(clips))), [], clips), material.test, material.learned_from())


def _measured(
    material: Workspace, settings: StudySettings, learned: Corpus, progress: Progress
) -> Mapping[str, tuple[LengthMeasures, CheckedScores]]:
    """Every ranking that is given, by its system."""
    systems = material.systems()
    found: dict[str, tuple[LengthMeasures, CheckedScores]] = {}
    for name, scores in systems.items():
        found[name] = measure_length(scores, material.test, settings.audit, train=learned), CheckedScores(scores)
        progress(len(found) / len(systems))
    return found


def _class_of(measured: LengthMeasures, pair: tuple[int, int] | None) -> int:
    """The class that is asked for, or the one of which the most captions may be missed for its length."""
    held = measured.data.classes
    if held is None:
        raise CorpusError("The clips have no verb classes; add some with `evenreel corpus classes`.")
    affected = most_affected(measured)
    if pair is None and not affected:
        raise CorpusError("No caption is of a class that training has, so no class can be shown.")
    return affected[0] if pair is None else held.actions.pairs.index(pair)
