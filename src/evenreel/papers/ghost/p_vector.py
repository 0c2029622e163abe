"""The p-vector, tables 7 and 8 and figures 4 and 5 of Generative Ghost: vectors before and after debiasing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.source.paired import measure_source
from evenreel.audits.statistics.deltas import MIX_R
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
from evenreel.papers.engine import (
    PREFERENCE,
    Cells,
    FineTuned,
    SeededRuns,
    before_training,
    but_few,
    by_row,
    each_trained,
    effect_of,
    few_pairs,
    finding,
    shown,
)
from evenreel.papers.ghost.figures import AS_IT_IS, MAIN, METRICS, Figures, figures_of, paper_table, seeded
from evenreel.papers.shown import draw_points, project, separation
from evenreel.papers.study import StudySettings, paragraph, paragraphs
from evenreel.papers.workspace import CorpusPart, Workspace, one_group
from evenreel.progress import Progress
from evenreel.report.figures import deltas_by_group, vector_map
from evenreel.report.result import AuditFigure, AuditResult, AuditTable, Effect
from evenreel.types import ScoreBlocks, VideoFeatures

if TYPE_CHECKING:
    import plotly.graph_objects as go


# Tables 7 and 8 and Figure 4: the p-vector, added to real clips (Generative Ghost, section 5.2).
#
# The original model is the one that training begins with, a checkpoint's or the recipe's matcher as it is built, so
# that both tables have one baseline; the debiased one is trained from it with the recipe's term, or that of the
# preset `release`. A control is fine-tuned on the same real pairs without the term: what its p-vector does is due to
# fine-tuning and not to debiasing.

ORIGINAL, DEBIASED, CONTROL = "original", "debiased", "control"
SIDES: tuple[Source, Source] = ("real", "generated")
NAMES: Mapping[FrameOrder, str] = {"original": "p", "random": "p-random"}
"""What the difference is called, by the order of the frames that the models see."""


class Trained(NamedTuple):
    """The matchers that one seed trained, with the term against the preference and without; and what they began as."""

    original: FineTuned
    debiased: FineTuned
    control: FineTuned


class Paired(NamedTuple):
    """A test split with its pairs of real clips and the generated clips of a group that mirror them."""

    part: CorpusPart
    group: str
    real: tuple[str, ...]  # ids, one a pair
    generated: tuple[str, ...]  # ids, pair by pair

    def of(self, source: Source) -> tuple[str, ...]:
        return self.real if source == "real" else self.generated


def p_vector(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 7 of Generative Ghost: the p-vector of clips in order, added to real clips."""
    return _study(("original",), material, settings, progress)


def p_random(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 8 of Generative Ghost: the p-vector of clips with frames in random order, added to real clips."""
    return _study(("random",), material, settings, progress)


def p_both(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figure 4 of Generative Ghost: both p-vectors on one baseline."""
    return _study(("original", "random"), material, settings, progress)


def trained_models(material: Workspace, settings: StudySettings, progress: Progress) -> Iterator[Trained]:
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


def paired_clips(material: Workspace, settings: StudySettings) -> Paired:
    """Return the test split with its pairs of a real clip and a generated one of the study's group, with features."""
    _, test = material.learning()
    group = one_group(test.corpus, settings.group)
    pairs = counterparts(test.corpus, group).unique("clip_id", keep="first", maintain_order=True)
    return Paired(test, group, tuple(pairs["clip_id"]), tuple(pairs["generated_id"]))


def in_order(videos: VideoFeatures, order: FrameOrder, settings: StudySettings) -> VideoFeatures:
    """Return the features of videos with their frames in the order in which vectors of matchers are compared."""
    if order == "original" and settings.frames is None:
        return videos
    return reordered(videos, order, stage=settings.stage, take=settings.frames, seed=settings.audit.seed)


def encoded(models: Trained, order: FrameOrder, settings: StudySettings) -> dict[str, EmbeddingTable]:
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
    orders: Sequence[FrameOrder], material: Workspace, settings: StudySettings, progress: Progress
) -> AuditResult:
    paired, confidence = paired_clips(material, settings), settings.audit.confidence
    alone = replace(settings.audit, resamples=0)
    measured: list[tuple[str, Figures]] = []
    likeness: list[tuple[tuple[str, str, str], dict[str, float]]] = []
    notices: dict[str, None] = {}
    said: dict[str, None] = {}
    for models in trained_models(material, settings, progress):
        sets = {order: encoded(models, order, settings) for order in orders}
        for name, scores in _variants(models, paired, sets):
            measures = measure_source(scores, paired.part.corpus, paired.group, alone)
            measured.append((name, figures_of(measures)))
            said |= dict.fromkeys(measures.notices)
        likeness += _likenesses(paired, sets)
        notices |= dict.fromkeys(_unmoved(models, paired, sets))
    runs, alike = seeded(by_row(measured), confidence), SeededRuns(by_row(likeness), confidence)
    means, changes = {row: runs.means(row) for row in runs.rows}, runs.changes_beside(AS_IT_IS)
    name = f"{NAMES[orders[0]]}: paper"
    bars = {  # of dot products alone, which the paper has
        row: {metric: figures["normalized", metric] for metric in (*METRICS, MIX_R)}
        for row, figures in changes.items()
        if not row.endswith("cosine")
    }
    moved: Iterable[Cells] = (
        {"real clips": row, PREFERENCE: own[MAIN], "change": changes[row][MAIN] if row in changes else None}
        for row, own in means.items()
    )
    alike_rows: Iterable[Cells] = (
        {
            **dict(zip(("vector", "model", "clips"), key, strict=True)),
            **{figure: own.value for figure, own in alike.means(key).items()},
        }
        for key in alike.rows
    )
    result = finding(
        f"Adding {NAMES[orders[0]]} to real clips, as the printed formula has it, changes {PREFERENCE} on "
        f"{paired.group} by {shown(changes[name][MAIN])}; that of the control, which was never debiased, by "
        f"{shown(changes[f'{name}, {CONTROL}'][MAIN])}.",
        effect_of(changes[name][MAIN], f"Change of {PREFERENCE} on {paired.group}: {name}"),
        (
            AuditTable.of(
                "The preference with real clips moved",
                moved,
                paragraph("ghost", "Intervals over seeds", seeds=settings.seeds),
            ),
            AuditTable.of(
                "How alike the moves of single clips are", alike_rows, paragraph("ghost", "Likeness of moves"), digits=3
            ),
            paper_table(f"Real clips and {paired.group}", [({"real clips": row}, own) for row, own in means.items()]),
        ),
        (
            AuditFigure(
                "Change of Normalized Δ by metric", partial(deltas_by_group, bars, "change of Normalized Δ, points")
            ),
        ),
        (*notices, *said),
        paragraphs("ghost", "Measures", "The p-vector"),
    )
    return but_few(few_pairs(paired.part.corpus, [paired.group]), result)


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


# Figure 5: vectors of clips before and after debiasing, and p, in a plane (Generative Ghost, section 5.2).

MOST_NEIGHBOURS = 10
ORDERS: Mapping[FrameOrder, str] = {"original": "frames in order", "random": "frames in random order"}

Sets = Mapping[str, NDArray[np.float64]]
"""(n, D) vectors by what they are."""

COMPARED = (
    ("h real", "h generated"),
    ("h^d real", "h^d generated"),
    ("p real", "p generated"),
    ("p of control, real", "p of control, generated"),
    ("p real", "p of control, real"),
)
"""Which sets the table compares; the picture shows the first six."""


def projected(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figure 5 of Generative Ghost: vectors of clips before and after debiasing, frames in order or not."""
    paired = paired_clips(material, settings)
    (models,) = trained_models(material, replace(settings, seeds=1), progress)
    sets = {order: vector_sets(encoded(models, order, settings), paired) for order in ORDERS}
    rows: list[dict[str, str | float]] = []
    for order, words in ORDERS.items():
        for one, other in COMPARED:
            both = [sets[order][name] for name in (one, other)]
            vectors, groups = np.concatenate(both), [one] * len(both[0]) + [other] * len(both[1])
            found = separation(vectors, groups, min(MOST_NEIGHBOURS, len(vectors) - 1))
            rows.append(
                {
                    "frames": words, "groups": f"{one} and {other}", "own neighbours, %": 100 * found.agreement,
                    "by chance, %": 100 * found.chance, "silhouette": found.silhouette,
                }
            )  # fmt: skip
    before, after = (float(row["own neighbours, %"]) for row in rows[:2])
    result = finding(
        f"Of the nearest neighbours of a clip's vector, {before:.0f} % are of its own source before debiasing and "
        f"{after:.0f} % after it (real clips and {paired.group}).",
        Effect("Neighbours of the own source after debiasing less before, points", after - before),
        (AuditTable.of("Whether groups of vectors lie apart in the full space", rows),),
        [
            AuditFigure(f"t-SNE, {words}", partial(_drawn, sets[order], paired, settings.audit.seed))
            for order, words in ORDERS.items()
        ],
        method=paragraphs("ghost", "Pictures of vectors"),
    )
    return but_few(few_pairs(paired.part.corpus, [paired.group]), result)


def vector_sets(vectors: Mapping[str, EmbeddingTable], paired: Paired) -> dict[str, NDArray[np.float64]]:
    """Return the (n, D) vectors and their differences that the figure and the table compare, pair by pair."""
    found: dict[str, NDArray[np.float64]] = {}
    for kind, letter in ((ORIGINAL, "h"), (DEBIASED, "h^d")):
        found |= {f"{letter} {side}": vectors[kind].of(paired.of(side)).values.astype(np.float64) for side in SIDES}
    found |= {f"p {side}": moves(vectors, DEBIASED, paired, PVector(side)) for side in SIDES}
    return found | {f"p of control, {side}": moves(vectors, CONTROL, paired, PVector(side)) for side in SIDES}


def _drawn(sets: Sets, paired: Paired, seed: int) -> go.Figure:
    shown = dict(list(sets.items())[:6])
    groups = [name for name, rows in shown.items() for _ in rows]
    names = [clip for name in shown for clip in (paired.real if name.endswith("real") else paired.generated)]
    kept = draw_points(groups, seed)
    points = project(np.concatenate(list(shown.values()))[kept])
    return vector_map(points, [groups[row] for row in kept], [names[row] for row in kept], seed)[0]
