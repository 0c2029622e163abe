"""Tables of an audit of length bias: classes, strata, clips that trimming leaves out, first clips, failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from evenreel.arrays import Column
from evenreel.audits.length.class_lengths import ClassLengths, drawn_discrepancies
from evenreel.audits.length.data import LengthData, TrainTestClasses
from evenreel.audits.length.first_clips import MAIN
from evenreel.audits.length.measures import FAILED, Failures, LengthMeasures, tertiles
from evenreel.audits.length.trims import USES_TEST, divisions, trims
from evenreel.audits.length.words import unit_of
from evenreel.corpus.actions import ActionLengths
from evenreel.report.result import AuditTable, Cell, Row

EPIC_SIZES = (67_217, 9_668)
"""Training and test clips of EPIC-KITCHENS-100: beside its figures stand those that the paper gives."""

EPIC_CLASS = (0, 54)
"""Verb and noun of its example: take, rubbish (table 8)."""

LARGE_S = 200 / 60
"""Seconds of the larger of the paper's two discrepancies, of 60 and of 200 frames at 60 a second."""

DRAWS = 200
"""Random divisions of the clips of each class, for what chance gives."""

_PAPER = "paper"


def length_tables(measured: LengthMeasures) -> Iterator[AuditTable]:
    """Yield the tables of an audit of length bias in reading order, those for which classes or training are known."""
    data, classes = measured.data, measured.data.classes
    if classes is not None:
        yield class_table(data, classes)
        yield discrepancy_table(data, classes.common)
        yield chance_table(data, classes)
        if is_epic(data) and EPIC_CLASS in classes.actions.pairs:
            yield _example_table(classes, classes.actions.pairs.index(EPIC_CLASS))
        yield _strata_table(data)
        yield _trim_table(data)
    yield _first_table(measured)
    if measured.failures is not None and classes is not None:
        yield _tertiles_table(measured)
        yield _failure_table(measured, measured.failures)
        if len(measured.failures.suspected):
            yield _suspect_table(measured, measured.failures)
        yield _drill_table(measured, classes)
        yield _recall_table(measured)


def most_affected(measured: LengthMeasures) -> list[int]:
    """Return the captions' classes, first those with most suspected failures, then by how their lengths differ."""
    classes, failures = measured.data.classes, measured.failures
    if classes is None or failures is None:
        return []
    own = measured.data.caption_class
    suspected = np.bincount(own[failures.suspected], minlength=len(classes.actions.pairs))
    gap = np.abs(classes.test_mean - classes.train_mean)
    asked = [int(one) for one in np.unique(own[own >= 0]) if not np.isnan(gap[one])]
    return sorted(asked, key=lambda one: (-int(suspected[one]), -float(gap[one]), one))


def is_epic(data: LengthData) -> bool:
    """Return whether numbers of clips, in frames, suggest that the data are EPIC-KITCHENS-100 retrieval."""
    return (len(data.train_lengths), len(data.lengths)) == EPIC_SIZES and data.unit == "frames"


def class_table(data: LengthData, held: TrainTestClasses) -> AuditTable:
    """Tabulate the numbers of clips and of classes in training, in test, and in both."""
    train, test = held.counts(trained=True), held.counts(trained=False)
    rows: list[Row] = [
        ("clips in training", len(data.train_lengths)),
        ("clips in test", len(data.lengths)),
        ("classes in training", int((train > 0).sum())),
        ("classes in test", int((test > 0).sum())),
        ("classes in both", int(((train > 0) & (test > 0)).sum())),
        ("classes in training alone", int(((train > 0) & (test == 0)).sum())),
        ("classes in test alone", int(((train == 0) & (test > 0)).sum())),
    ]
    note = "A class is a pair of a verb and a noun. 'Test' is the clips of the scores."
    return _with_paper(
        data, AuditTable("Classes", ("what", "count"), tuple(rows), note), {0: 67_217, 1: 9_668, 4: 1_114}
    )


def discrepancy_table(data: LengthData, common: ClassLengths) -> AuditTable:
    """Tabulate mean lengths of classes in training and in test, and how many classes differ by how much."""
    gap, unit, large = common.discrepancy, unit_of(data), LARGE_S * data.second
    ranked = spearmanr(common.train_mean, common.test_mean).statistic if len(gap) > 2 and np.ptp(gap) else float("nan")
    rows: list[Row] = [
        (f"mean length of training clips, {unit}", float(np.nanmean(data.train_lengths))),
        (f"mean length of test clips, {unit}", float(np.nanmean(data.whole))),
        (f"mean over classes of test less training, {unit}", float(gap.mean()) if len(gap) else None),
        (f"the same without its sign, {unit}", float(np.abs(gap).mean()) if len(gap) else None),
        ("classes longer in test", int((gap > 0).sum())),
        (f"classes that differ by more than {data.second:g} {unit}", common.count_above(data.second)),
        (f"classes that differ by at least {large:.4g} {unit}", common.count_above(large, or_equal=True)),
        ("rank correlation of training and test means over classes", float(ranked)),
    ]
    note = f"The limits are the paper's 60 and 200 frames at 60 a second: 1 and {LARGE_S:.1f} seconds."
    if is_epic(data) and data.rounding:
        near = [int((np.abs(np.abs(gap) - at) <= data.rounding).sum()) for at in (data.second, large)]
        note += (
            " Training lengths are re-timed from fewer frames a second, which may move each by up to "
            f"{data.rounding:g} frames; {near[0]} classes lie that near to the one limit and {near[1]} to the other, "
            "so the counts differ from the paper's."
        )
    table = AuditTable(
        "How far classes differ in length between training and test", ("what", "value"), tuple(rows), note
    )
    return _with_paper(data, table, {5: 559, 6: 212})


def chance_table(data: LengthData, held: TrainTestClasses, seed: int = 0) -> AuditTable:
    """Tabulate how far lengths of classes differ between training and test, and how far they would by chance."""
    actions, gap = held.actions, held.common.discrepancy
    splits = [ActionLengths(actions.classes[part], actions.lengths[part]) for part in (held.trained, ~held.trained)]
    drawn = drawn_discrepancies(splits[0], splits[1], draws=DRAWS, seed=seed)
    unit, large = unit_of(data), LARGE_S * data.second
    measures: dict[str, Callable[[Column], Column]] = {
        f"mean over classes of test less training, {unit}": lambda gaps: gaps.mean(-1),
        f"the same without its sign, {unit}": lambda gaps: np.abs(gaps).mean(-1),
        "classes longer in test": lambda gaps: (gaps > 0).sum(-1),
        f"classes that differ by more than {data.second:g} {unit}": lambda gaps: (np.abs(gaps) > data.second).sum(-1),
        f"classes that differ by at least {large:.4g} {unit}": lambda gaps: (np.abs(gaps) >= large).sum(-1),
    }
    rows: list[Row] = []
    for name, measure in measures.items() if len(gap) else ():
        chance = measure(drawn).astype(np.float64)
        low, high = np.quantile(chance, (0.025, 0.975))
        rows.append((name, float(measure(gap)), float(chance.mean()), float(low), float(high)))
    note = (
        f"Drawn at random: as many test clips of each class, from its clips of both splits, {DRAWS} times. 95 % of the "
        "draws lie from low to high; a figure in there is what so few clips give without any bias. Clips of one video "
        "are drawn apart, so a difference between videos counts as one between splits."
    )
    columns = ("what", "found", "drawn at random", "low", "high")
    return AuditTable(
        "How far classes would differ if their test clips were drawn at random", columns, tuple(rows), note
    )


def _example_table(held: TrainTestClasses, class_: int) -> AuditTable:
    rows: tuple[Row, ...] = (
        ("clips in training", int(held.counts(trained=True)[class_]), 95),
        ("mean length in training, frames", float(held.train_mean[class_]), 177.11),
        ("mean length in test, frames", float(held.test_mean[class_]), 305.5),
    )
    return AuditTable(f"The paper's example: {held.names[class_]}", ("what", "value", _PAPER), rows)


def _strata_table(data: LengthData) -> AuditTable:
    rows = [(one.rule, *(one.sizes or (None, None))) for one in divisions(data)]
    note = (
        f"Strata of the backdoor adjustment, from short to long. What is trained by a rule that {USES_TEST} has seen "
        "the test set."
    )
    table = AuditTable("Training clips in two strata", ("rule", "first", "second"), tuple(rows), note)
    return _with_paper(data, table, {1: "50,282 + 16,935"})


def _trim_table(data: LengthData) -> AuditTable:
    unit = unit_of(data)
    rows = [(one.preset, one.margin, one.least, one.clips, one.classes) for one in trims(data)]
    columns = ("preset", f"margin, {unit}", "clips a class keeps", "clips left out", "classes")
    note = "RmvAll: of each class the shortest or the longest training clips, until it is about as long as in test."
    table = AuditTable(f"What trimming would leave out ({USES_TEST})", columns, tuple(rows), note)
    return _with_paper(data, table, dict.fromkeys(range(len(rows)), "2,392 of 164 classes"))


def _first_table(measured: LengthMeasures) -> AuditTable:
    first, unit = measured.first, unit_of(measured.data)
    columns = ["first clips", f"mean length, {unit}", "times as long as expected"]
    rows: list[list[Cell]] = []
    for place, depth in enumerate(first.depths):
        rows.append([depth, _mean(first.means[place]), float(np.exp(_mean(first.excess[place])))])
    if measured.has_length_bias:
        columns += ["correlation with training", "given test", "of the excess"]
        for row, correlations in zip(rows, measured.length_biases, strict=True):
            row += [one.value for one in correlations]
    return AuditTable("Length of the first clips", tuple(columns), tuple(map(tuple, rows)), _first_note(measured))


def _first_note(measured: LengthMeasures) -> str:
    data, unit = measured.data, unit_of(measured.data)
    gallery = f"The gallery's clips have a mean of {_mean(data.lengths):,.1f} {unit}."
    if not measured.has_length_bias:
        left_out = data.class_logs is None and data.relevance is not None
        return f"{gallery} Clips that are known to answer are left out." if left_out else gallery
    train, test = _mean(measured.train_mean), _mean(measured.test_mean)
    return (
        f"{gallery} Over captions, their classes have a mean of {train:,.1f} in training and of {test:,.1f} in test. "
        "The correlations are of ranks, with the mean length of the class in training; the last is the effect."
    )


def _tertiles_table(measured: LengthMeasures) -> AuditTable:
    unit = unit_of(measured.data)
    rows = [(one.name, one.captions, one.train, one.test, one.shown, one.ratio) for one in tertiles(measured)]
    return AuditTable(
        "First clips by the length of the class in training",
        (
            "third", "captions", f"mean in training, {unit}", f"in test, {unit}", f"first {MAIN}, {unit}",
            "times as long as expected",
        ),
        tuple(rows),
        "The first clips' is a geometric mean, which lies below the arithmetic means beside it.",
    )  # fmt: skip


def _failure_table(measured: LengthMeasures, failures: Failures) -> AuditTable:
    data, unit = measured.data, unit_of(measured.data)
    rows: list[Row] = [
        ("captions of a class that training has", failures.captions),
        (f"first answer behind rank {FAILED}", failures.failed),
        ("and neither a tail verb nor a tail noun", failures.left[0]),
        (f"and training and test differ by at least {data.second:g} {unit}", failures.left[1]),
        (f"and the first {MAIN} are not nearer in length to test", failures.left[2]),
    ]
    note = (
        f"Verbs of the tail: {len(failures.tail.verbs):,}; nouns: {len(failures.tail.nouns):,}; {failures.tail.rule}. "
        "Some captions are left in any ranking."
    )
    return _with_paper(
        data,
        AuditTable(f"Failures that length may explain ({USES_TEST})", ("rule", "left"), tuple(rows), note),
        {4: 244},
    )


def _suspect_table(measured: LengthMeasures, failures: Failures) -> AuditTable:
    first = measured.first.means[measured.first.main]
    words = _words(measured.data)
    gap = np.abs(measured.test_mean - measured.train_mean)
    order = failures.suspected[np.argsort(-gap[failures.suspected], kind="stable")]
    rows = [
        (words[row], _class_name(measured, int(row)), float(measured.first.rank[row]), float(measured.train_mean[row]),
         float(measured.test_mean[row]), float(first[row]))
        for row in order
    ]  # fmt: skip
    unit = unit_of(measured.data)
    columns = ("caption", "class", "rank", f"training, {unit}", f"test, {unit}", f"first {MAIN}, {unit}")
    return AuditTable(
        f"Suspected failures ({USES_TEST})", columns, tuple(rows), "Those first whose class differs the most.", digits=1
    )


def _drill_table(measured: LengthMeasures, held: TrainTestClasses) -> AuditTable:
    train, test = held.counts(trained=True), held.counts(trained=False)
    suspected = set(measured.failures.suspected.tolist()) if measured.failures else set()
    rows: list[Row] = []
    for one in most_affected(measured):
        own = np.flatnonzero(measured.data.caption_class == one)
        rows.append(
            (
                held.names[one], int(train[one]), int(test[one]), float(held.train_mean[one]),
                float(held.test_mean[one]), len(own), len(suspected.intersection(own.tolist())),
                _median(measured.first.rank[own]), _mean(measured.first.at(FAILED)[own]),
            )
        )  # fmt: skip
    unit = unit_of(measured.data)
    columns = (
        "class", "training clips", "test clips", f"training, {unit}", f"test, {unit}", "captions", "suspected",
        "median rank", f"first {FAILED}, {unit}",
    )  # fmt: skip
    return AuditTable(
        "Classes, the most affected first", columns, tuple(rows), "By suspected failures, then by difference.", 1
    )


def _recall_table(measured: LengthMeasures) -> AuditTable:
    data, unit = measured.data, unit_of(measured.data)
    gap, large = measured.test_mean - measured.train_mean, LARGE_S * data.second
    edges = [-np.inf, -large, -data.second, data.second, large, np.inf]
    excess, rows = measured.first.excess[measured.first.main], []
    for low, high in pairwise(edges):
        own = np.flatnonzero((gap >= low) & (gap < high))
        ratio = float(np.exp(_mean(excess[own])))
        rows.append(
            (_span(low, high), len(own), _mean(measured.first.recall[own]), _median(measured.first.rank[own]), ratio)
        )
    return AuditTable(
        "Captions by how much longer their class is in test",
        (f"test less training, {unit}", "captions", f"R@{FAILED}, %", "median rank", "first clips: times as long"),
        tuple(rows),
        "A clip answers where its verb and nouns equal the caption's.",
    )


def _span(low: float, high: float) -> str:
    if np.isinf(low):
        return f"below {high:.4g}"
    return f"{low:.4g} and more" if np.isinf(high) else f"{low:.4g} to {high:.4g}"


def _with_paper(data: LengthData, table: AuditTable, published: dict[int, Cell]) -> AuditTable:
    """The table of EPIC-KITCHENS-100 with what the paper gives, by row; every other as it is."""
    if not is_epic(data):
        return table
    rows = tuple((*row, published.get(place)) for place, row in enumerate(table.rows))
    return AuditTable(table.title, (*table.columns, _PAPER), rows, table.note, table.digits)


def _words(data: LengthData) -> Sequence[str]:
    captions = data.corpus.captions
    return [text or name for text, name in captions.select("text", "caption_id").iter_rows()]


def _class_name(measured: LengthMeasures, caption: int) -> str:
    held = measured.data.classes
    return "" if held is None else held.names[int(measured.data.caption_class[caption])]


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _median(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")
