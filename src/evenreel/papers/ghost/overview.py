"""Table 1 and Figure 2: what the benchmark is made of, and how near mirrors are to real clips (section 2.3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.audits.overview import (
    PAPER_RULE,
    Overview,
    overview,
    overview_method,
    overview_sentence,
    overview_tables,
    similarities,
)
from evenreel.corpus.counterparts import counterparts
from evenreel.errors import UsageError
from evenreel.features.facts import FACT_COLUMNS, ClipFacts
from evenreel.papers.engine.findings import Findings, effect_of, few_pairs
from evenreel.papers.engine.inputs import PairInputs
from evenreel.papers.engine.material import groups_in
from evenreel.papers.engine.settings import StudySettings
from evenreel.progress import Progress
from evenreel.report.figures import similarity_histogram
from evenreel.report.result import AuditFigure, Effect

if TYPE_CHECKING:
    import plotly.graph_objects as go

_UNKNOWN = ClipFacts(pl.DataFrame(schema={"clip_id": pl.String(), **FACT_COLUMNS}))
"""Of files that nobody looked at."""


def benchmark(material: PairInputs, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 1 of Generative Ghost: clips by group and split, their files and their similarity to real ones."""
    found = _overview(material, settings)
    figures = _figures(found) if found.pairs["similarity"].is_not_nan().any() else ()
    return _findings(found, material, figures)


def similarity(material: PairInputs, settings: StudySettings, progress: Progress) -> Findings:
    """Make figure 2 of Generative Ghost: how the similarities of pairs are spread."""
    found = _overview(material, settings)
    if not found.pairs["similarity"].is_not_nan().any():
        raise UsageError(
            "This study compares frames of real clips and their mirrors; give it features, best by "
            f"`evenreel features CORPUS --rule '{PAPER_RULE}'`."
        )
    return _findings(found, material, _figures(found))


def _findings(found: Overview, material: PairInputs, figures: tuple[AuditFigure, ...]) -> Findings:
    nearest = max(found.similarity, key=lambda group: found.similarity[group].value, default=None)
    effect = Effect("Mean similarity", np.nan)
    if nearest is not None:
        effect = effect_of(found.similarity[nearest], f"Mean similarity of {nearest}")
    return Findings(
        overview_sentence(found),
        effect,
        overview_tables(found),
        figures,
        found.notices,
        overview_method(),
        few=few_pairs(material.test, groups_in(material.test)),
    )


def _overview(material: PairInputs, settings: StudySettings) -> Overview:
    rule = material.rule
    other = f"Similarity is of frames by '{rule}'; the paper's is of '{PAPER_RULE}'."
    notices = (other,) if rule not in ("", PAPER_RULE) else ()
    return overview(material.whole, material.facts or _UNKNOWN, _cosines(material), settings.audit, notices)


def _cosines(material: PairInputs) -> NDArray[np.float64]:
    """Return the similarity of each pair of the corpus; NaN for a pair without features."""
    pairs = counterparts(material.whole)
    found = np.full(pairs.height, np.nan)
    for part in (material.features, material.train):
        if part is not None:
            found = np.fmax(found, similarities(part.videos, pairs))
    return found


def _figures(found: Overview) -> tuple[AuditFigure, ...]:
    return (AuditFigure("Similarity of the two clips of a pair", partial(_drawn, found)),)


def _drawn(found: Overview) -> go.Figure:
    measured = found.pairs.filter(found.pairs["similarity"].is_not_nan())
    return similarity_histogram(
        {
            f"{group}, {split}": part["similarity"].to_numpy()
            for (group, split), part in measured.group_by("group", "split", maintain_order=True)
        }
    )
