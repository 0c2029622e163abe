"""Figures 1, 2, 5 and 7 of the paper on frame-length bias, and those of its appendix that show the same elsewhere.

Two of them are of the corpus alone: how far classes differ in length between training and test, and how lengths are
spread. Two are of rankings: how long the clips are that a class's captions are shown, and how relevant they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from evenreel.errors import CorpusError
from evenreel.evaluation.ranking import CheckedScores
from evenreel.papers.engine.answers import asked
from evenreel.papers.engine.findings import Findings, effect_of, shown
from evenreel.papers.engine.inputs import LengthInputs, LengthRankingInputs
from evenreel.papers.engine.settings import QuerySettings, StudySettings
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.papers.frame_length.classes import picked_class
from evenreel.papers.frame_length.settings import ClassSettings
from evenreel.progress import Progress
from evenreel.report.result import AuditFigure, AuditTable, Cell, Effect
from evenreel.types import Corpus, ScoreBlocks, Scores

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


def discrepancies(material: LengthInputs, settings: StudySettings, progress: Progress) -> Findings:
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


def spread(material: LengthInputs, settings: StudySettings, progress: Progress) -> Findings:
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


def shown_lengths(material: LengthRankingInputs, settings: ClassSettings, progress: Progress) -> Findings:
    """Make figures 1b, 6, 9b and 10b of the frame-length paper: lengths of a class in training, in test and first."""
    learned = material.learned_from()
    pair = None if settings.action is None else picked_class(learned, material.test, settings.action).pair
    measured = _measured(material, settings, learned, progress)
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


def strips(material: LengthRankingInputs, settings: QuerySettings, progress: Progress) -> Findings:
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


def _data(material: LengthInputs) -> LengthData:
    """Lengths of both splits, before any ranking."""
    clips = material.test.clips["clip_id"].to_list()
    return LengthData.of(Scores(np.zeros((0, len(clips))), [], clips), material.test, material.learned_from())


def _corpus_lengths(material: LengthInputs) -> tuple[LengthData, TrainTestClasses]:
    data = _data(material)
    if data.classes is None or not len(data.classes.common.classes):
        raise CorpusError(
            "No class of verb and noun is in both splits, so none can be compared; add classes with `evenreel corpus "
            "classes`."
        )
    return data, data.classes


def _measured(material: LengthRankingInputs, settings: StudySettings, learned: Corpus, progress: Progress) -> Measured:
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
