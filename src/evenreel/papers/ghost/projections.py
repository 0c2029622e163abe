"""Figure 5: vectors of clips before and after debiasing, and p, in a plane (Generative Ghost, section 5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenreel.edits.settings import FrameOrder
from evenreel.papers.engine.findings import Findings, few_pairs
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.projection import draw_points, project, separation
from evenreel.papers.engine.words import paragraphs
from evenreel.papers.ghost.p_vector import EmbeddingTable, PVector
from evenreel.papers.ghost.settings import VectorSettings
from evenreel.papers.ghost.vectors import (
    CONTROL,
    DEBIASED,
    ORIGINAL,
    SIDES,
    Paired,
    encoded,
    moves,
    paired_clips,
    trained_models,
)
from evenreel.progress import Progress
from evenreel.report.figures import vector_map
from evenreel.report.result import AuditFigure, AuditTable, Effect

if TYPE_CHECKING:
    import plotly.graph_objects as go

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


def projected(material: LearningInputs, settings: VectorSettings, progress: Progress) -> Findings:
    """Make figure 5 of Generative Ghost: vectors of clips before and after debiasing, frames in order or not."""
    paired = paired_clips(material, settings)
    (models,) = trained_models(material, replace(settings, seeds=1), progress)
    sets = {order: vector_sets(encoded(models, order, settings), paired) for order in ORDERS}
    table = _table(sets)
    before, after = (_agreement(sets["original"], one, other) for one, other in COMPARED[:2])
    return Findings(
        f"Of the nearest neighbours of a clip's vector, {before:.0f} % are of its own source before debiasing and "
        f"{after:.0f} % after it (real clips and {paired.group}).",
        Effect("Neighbours of the own source after debiasing less before, points", after - before),
        (table,),
        tuple(
            AuditFigure(f"t-SNE, {words}", partial(_drawn, sets[order], paired, settings.audit.seed))
            for order, words in ORDERS.items()
        ),
        method=paragraphs("ghost", "Pictures of vectors"),
        few=few_pairs(paired.part.corpus, [paired.group]),
    )


def vector_sets(vectors: Mapping[str, EmbeddingTable], paired: Paired) -> dict[str, NDArray[np.float64]]:
    """Return the (n, D) vectors and their differences that the figure and the table compare, pair by pair."""
    found: dict[str, NDArray[np.float64]] = {}
    for kind, letter in ((ORIGINAL, "h"), (DEBIASED, "h^d")):
        found |= {f"{letter} {side}": vectors[kind].of(paired.of(side)).values.astype(np.float64) for side in SIDES}
    found |= {f"p {side}": moves(vectors, DEBIASED, paired, PVector(side)) for side in SIDES}
    return found | {f"p of control, {side}": moves(vectors, CONTROL, paired, PVector(side)) for side in SIDES}


def _table(sets: Mapping[FrameOrder, Sets]) -> AuditTable:
    rows = []
    for order, words in ORDERS.items():
        for one, other in COMPARED:
            vectors, groups = _both(sets[order], one, other)
            found = separation(vectors, groups, min(MOST_NEIGHBOURS, len(vectors) - 1))
            rows.append((words, f"{one} and {other}", 100 * found.agreement, 100 * found.chance, found.silhouette))
    columns = ("frames", "groups", "own neighbours, %", "by chance, %", "silhouette")
    return AuditTable("Whether groups of vectors lie apart in the full space", columns, tuple(rows))


def _agreement(sets: Sets, one: str, other: str) -> float:
    vectors, groups = _both(sets, one, other)
    return 100 * separation(vectors, groups, min(MOST_NEIGHBOURS, len(vectors) - 1)).agreement


def _both(sets: Sets, one: str, other: str) -> tuple[NDArray[np.float64], list[str]]:
    return np.concatenate([sets[one], sets[other]]), [one] * len(sets[one]) + [other] * len(sets[other])


def _drawn(sets: Sets, paired: Paired, seed: int) -> go.Figure:
    shown = dict(list(sets.items())[:6])
    groups = [name for name, rows in shown.items() for _ in rows]
    names = [clip for name in shown for clip in (paired.real if name.endswith("real") else paired.generated)]
    kept = draw_points(groups, seed)
    points = project(np.concatenate(list(shown.values()))[kept])
    return vector_map(points, [groups[row] for row in kept], [names[row] for row in kept], seed)[0]
