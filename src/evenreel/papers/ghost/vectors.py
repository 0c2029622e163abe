"""Tables 7 and 8 and Figure 4: the p-vector, added to real clips (Generative Ghost, section 5.2).

The original model is the one that training begins with, a checkpoint's or the recipe's matcher as it is built, so that
both tables have one baseline; the debiased one is trained from it with the recipe's term, or that of the preset
`release`. A control is fine-tuned on the same real pairs without the term: what its p-vector does is due to fine-tuning
and not to debiasing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.exchange import MIX_R
from evenreel.corpus.counterparts import counterparts
from evenreel.debias.source.contrast import PRESETS
from evenreel.debias.source.vector import PRESETS as P_PRESETS
from evenreel.debias.source.vector import (
    EmbeddingTable,
    PVector,
    Source,
    VectorScores,
    caption_vectors,
    diagnose,
    p_vectors,
    shifted_scores,
    video_vectors,
)
from evenreel.edits.frame_order import reordered
from evenreel.edits.settings import FrameOrder
from evenreel.evaluation import Interval
from evenreel.papers.engine.findings import (
    PREFERENCE,
    Findings,
    effect_of,
    few_pairs,
    shown,
)
from evenreel.papers.engine.fine_tuning import FineTuned, before_training, each_trained
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import CorpusPart, one_group
from evenreel.papers.engine.seeds import SeededRuns, by_row
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.papers.ghost.changes import AS_IT_IS
from evenreel.papers.ghost.measures import (
    MAIN,
    METRICS,
    Figures,
    SeededFigures,
    measured,
    notices_of,
    paper_table,
)
from evenreel.papers.ghost.settings import VectorSettings
from evenreel.progress import Progress
from evenreel.report.figures import deltas_by_group
from evenreel.report.result import AuditFigure, AuditTable, Row, interval_cells, interval_columns
from evenreel.types import ScoreBlocks, VideoFeatures

ORIGINAL, DEBIASED, CONTROL = "original", "debiased", "control"
SIDES: tuple[Source, Source] = ("real", "generated")
NAMES: Mapping[FrameOrder, str] = {"original": "p", "random": "p-random"}
"""What the difference is called, by the order of the frames that the models see."""


@dataclass(frozen=True, eq=False)
class Trained:
    """The matchers that one seed trained, beside the one that they began as.

    Attributes:
        original: before training.
        debiased: trained with the term against the preference.
        control: trained without it.
    """

    original: FineTuned
    debiased: FineTuned
    control: FineTuned


@dataclass(frozen=True, eq=False)
class Paired:
    """A test split with its pairs of real clips and the generated clips that mirror them.

    Attributes:
        part: test split with features.
        group: name of the group of generated clips.
        real: ids of the real clips, one a pair.
        generated: ids of their mirrors, pair by pair.
    """

    part: CorpusPart
    group: str
    real: tuple[str, ...]
    generated: tuple[str, ...]

    def of(self, source: Source) -> tuple[str, ...]:
        """Return the clip ids of one side, `real` or `generated`."""
        return self.real if source == "real" else self.generated


def p_vector(material: LearningInputs, settings: VectorSettings, progress: Progress) -> Findings:
    """Make table 7 of Generative Ghost: the p-vector of clips in order, added to real clips."""
    return _study(("original",), material, settings, progress)


def p_random(material: LearningInputs, settings: VectorSettings, progress: Progress) -> Findings:
    """Make table 8 of Generative Ghost: the p-vector of clips with frames in random order, added to real clips."""
    return _study(("random",), material, settings, progress)


def p_both(material: LearningInputs, settings: VectorSettings, progress: Progress) -> Findings:
    """Make figure 4 of Generative Ghost: both p-vectors on one baseline."""
    return _study(("original", "random"), material, settings, progress)


def trained_models(material: LearningInputs, settings: VectorSettings, progress: Progress) -> Iterator[Trained]:
    """Train with one seed after the other, and yield the original, the debiased and the control matcher of each."""
    data = replace(settings.recipe.data, generated_group=settings.group)
    control = replace(settings.recipe, data=data, debias=None)
    debiased = replace(control, debias=settings.recipe.debias or PRESETS["release"])
    original = FineTuned(before_training(settings.recipe, material), material.learning()[1])
    waiting: dict[str, FineTuned] = {}
    for kind, _, trained in each_trained({CONTROL: control, DEBIASED: debiased}, material, settings, progress):
        waiting[kind] = trained
        if kind == DEBIASED:
            yield Trained(original, waiting[DEBIASED], waiting[CONTROL])


def paired_clips(material: LearningInputs, settings: VectorSettings) -> Paired:
    """Return the test split with its pairs of a real clip and a generated one of the study's group, with features."""
    _, test = material.learning()
    group = one_group(test.corpus, settings.group)
    pairs = counterparts(test.corpus, group).unique("clip_id", keep="first", maintain_order=True)
    return Paired(test, group, tuple(pairs["clip_id"]), tuple(pairs["generated_id"]))


def in_order(videos: VideoFeatures, order: FrameOrder, settings: VectorSettings) -> VideoFeatures:
    """Return the features of videos with their frames in the order in which vectors of matchers are compared."""
    if order == "original" and settings.frames is None:
        return videos
    return reordered(videos, order, stage=settings.stage, take=settings.frames, seed=settings.audit.seed)


def encoded(models: Trained, order: FrameOrder, settings: VectorSettings) -> dict[str, EmbeddingTable]:
    """Encode the clips of the test split by the original, the debiased and the control matcher."""
    by_kind = {ORIGINAL: models.original, DEBIASED: models.debiased, CONTROL: models.control}
    return {
        kind: video_vectors(one.matcher, in_order(one.test.videos, order, settings)) for kind, one in by_kind.items()
    }


def moves(sets: Mapping[str, EmbeddingTable], kind: str, paired: Paired, form: PVector) -> NDArray[np.float64]:
    """Return how the vectors of one side of n pairs move from the original matcher to another, p_i (n, D).

    Args:
        sets: vectors of all clips by each matcher.
        kind: the other matcher, `debiased` or `control`.
        paired: the pairs of real clips and their mirrors.
        form: which side, and whether vectors are brought to unit length.
    """
    ids = paired.of(form.source)
    return p_vectors(sets[ORIGINAL].of(ids).values, sets[kind].of(ids).values, form.normalised)


def _study(
    orders: Sequence[FrameOrder], material: LearningInputs, settings: VectorSettings, progress: Progress
) -> Findings:
    paired, confidence = paired_clips(material, settings), settings.audit.confidence
    alone = replace(settings.audit, resamples=0)
    runs: list[tuple[str, Figures]] = []
    likeness: list[tuple[tuple[str, str, str], dict[str, float]]] = []
    notices: dict[str, None] = {}
    for models in trained_models(material, settings, progress):
        sets = {order: encoded(models, order, settings) for order in orders}
        runs += [
            (name, measured(scores, paired.part.corpus, paired.group, alone))
            for name, scores in _variants(models, paired, sets)
        ]
        likeness += _likenesses(paired, sets)
        notices |= dict.fromkeys(_unmoved(models, paired, sets))
    found = SeededFigures(by_row(runs), confidence)
    means, changes = found.means, found.runs.changes_beside(AS_IT_IS)
    name = f"{NAMES[orders[0]]}: paper"
    bars = {  # of dot products alone, which the paper has
        row: {metric: figures["normalized", metric] for metric in (*METRICS, MIX_R)}
        for row, figures in changes.items()
        if not row.endswith("cosine")
    }
    return Findings(
        f"Adding {NAMES[orders[0]]} to real clips, as the printed formula has it, changes {PREFERENCE} on "
        f"{paired.group} by {shown(changes[name][MAIN])}; that of the control, which was never debiased, by "
        f"{shown(changes[f'{name}, {CONTROL}'][MAIN])}.",
        effect_of(changes[name][MAIN], f"Change of {PREFERENCE} on {paired.group}: {name}"),
        (
            _changes_table(means, changes, settings.seeds),
            _likeness_table(SeededRuns(by_row(likeness), confidence)),
            paper_table(f"Real clips and {paired.group}", ("real clips",), [((one,), means[one]) for one in means]),
        ),
        (
            AuditFigure(
                "Change of Normalized Δ by metric", partial(deltas_by_group, bars, "change of Normalized Δ, points")
            ),
        ),
        (*notices, *notices_of(means.values())),
        paragraphs("ghost", "Measures", "The p-vector"),
        few=few_pairs(paired.part.corpus, [paired.group]),
    )


def _variants(
    models: Trained, paired: Paired, sets: Mapping[FrameOrder, Mapping[str, EmbeddingTable]]
) -> Iterator[tuple[str, ScoreBlocks]]:
    """Scores by the original model, as they are and with real clips moved in every way."""
    captions = caption_vectors(models.original.matcher, paired.part.texts)
    clips = video_vectors(models.original.matcher, paired.part.videos)
    real, generated = clips.of(paired.real), clips.of(paired.generated)
    yield AS_IT_IS, VectorScores(captions, clips)
    for order, kind, preset, normalised in product(sets, (DEBIASED, CONTROL), P_PRESETS, (False, True)):
        form = replace(P_PRESETS[preset], normalised=normalised)
        p = moves(sets[order], kind, paired, form).mean(axis=0)
        words = [preset, *([CONTROL] if kind == CONTROL else []), *(["cosine"] if normalised else [])]
        yield f"{NAMES[order]}: {', '.join(words)}", shifted_scores(captions, real, generated, p, form)


def _likenesses(
    paired: Paired, sets: Mapping[FrameOrder, Mapping[str, EmbeddingTable]]
) -> Iterator[tuple[tuple[str, str, str], dict[str, float]]]:
    """How alike the p_i of each side of the pairs are, by vector, model and side; see `debias.source.vector.Alike`."""
    for order, kind in product(sets, (DEBIASED, CONTROL)):
        sides: dict[str, NDArray[np.float64]] = {
            side: moves(sets[order], kind, paired, PVector(side)) for side in SIDES
        }
        found = diagnose(sides)
        for side, alike in found.alike.items():
            yield (
                (NAMES[order], kind, side),
                {
                    "mean length": alike.length,
                    "cosine of two clips": alike.cosine,
                    "share along the mean": alike.share_along_mean,
                    "real to generated": found.cosine(*SIDES),
                },
            )


def _unmoved(models: Trained, paired: Paired, sets: Mapping[FrameOrder, Mapping[str, EmbeddingTable]]) -> Iterator[str]:
    """A sentence where the order of frames is nothing to the debiased model."""
    if "random" in sets:
        ordered = video_vectors(models.debiased.matcher, models.debiased.test.videos).values
        if np.allclose(ordered, sets["random"][DEBIASED].values, rtol=0.0, atol=1e-4):
            yield "The models do not see the order of frames, so p-random is p and says nothing of motion."


def _changes_table(
    means: Mapping[str, Figures], changes: Mapping[str, Mapping[tuple[str, str], Interval]], seeds: int
) -> AuditTable:
    rows = [(AS_IT_IS, *interval_cells(means[AS_IT_IS][MAIN], None))]
    rows += [(name, *interval_cells(means[name][MAIN], change[MAIN])) for name, change in changes.items()]
    columns = ("real clips", *interval_columns(PREFERENCE, "change"))
    return AuditTable(
        "The preference with real clips moved",
        columns,
        tuple(rows),
        paragraph("ghost", "Intervals over seeds", seeds=seeds),
    )


def _likeness_table(likeness: SeededRuns[tuple[str, str, str], str]) -> AuditTable:
    means = {key: likeness.means(key) for key in likeness.rows}
    rows: tuple[Row, ...] = tuple((*key, *(one.value for one in own.values())) for key, own in means.items())
    columns = ("vector", "model", "clips", *next(iter(means.values())))
    note = paragraph("ghost", "Likeness of moves")
    return AuditTable("How alike the moves of single clips are", columns, rows, note, digits=3)
