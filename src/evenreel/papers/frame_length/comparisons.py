"""Tables of trainings of the paper on frame-length bias (arXiv 2309.09311), by their numbers.

Each training stands beside what it costs to search with: a matcher of M members encodes every clip M times, and keeps
as many galleries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evenreel.corpus.relevance import class_relevance
from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.training_tables import Measures, TrainingComparison, compared_trainings
from evenreel.papers.engine.variants import BASELINE, Variants
from evenreel.papers.frame_length import variants
from evenreel.papers.frame_length.measures import ENDS, MAP, MAP_EPIC, NDCG, RANKS, length_figures
from evenreel.papers.frame_length.variants import ALL_STEPS, BACKDOOR, STRATA, TUNED
from evenreel.types import Corpus


def _check_classes(corpus: Corpus) -> None:
    class_relevance(corpus, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())


BY_CLASSES = Measures("length", length_figures, NDCG[-1], ENDS, _check_classes)
"""The paper calls nDCG the metric that shows the bias."""


def _table(
    rows: Callable[[LearningInputs, Any], Variants], metrics: tuple[str, ...], *notes: str, lead: str = ""
) -> partial[Findings]:
    """A table of trainings, each with what it costs."""
    comparison = TrainingComparison(rows, metrics, BY_CLASSES, lead, ("What a gain costs", *notes))
    return partial(compared_trainings, comparison)


_GRADED = (*NDCG, *MAP_EPIC, *MAP)
_MEANS = (NDCG[-1], MAP_EPIC[-1], MAP[-1])
_TOTAL, _PARTS = "As many steps", "Shares of the steps"

T1 = _table(variants.against_trimming, _GRADED, lead=BACKDOOR)
T2 = _table(variants.against_mining, _GRADED, lead=f"RANP + {BACKDOOR}")
T3 = _table(variants.with_mining, (*RANKS, *NDCG), lead=f"{BASELINE} + {BACKDOOR}")
T4 = _table(variants.divisions, (*_MEANS, "R@10", "MeanR"), lead="adjusted 2")
T6 = _table(variants.without_streams, _MEANS)
T7 = _table(variants.other_matchers, _GRADED)
T10 = _table(variants.with_ensemble, _GRADED, lead=BACKDOOR)
FAILURE = _table(variants.fine_tuned_strata, (*_GRADED, "R@1", "R@10"), _TOTAL, lead=TUNED)
CONTROLS = _table(variants.controls, (*_GRADED, "R@1"), _TOTAL, _PARTS, lead=f"{STRATA}{ALL_STEPS}")
