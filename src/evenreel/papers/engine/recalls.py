"""Recall and ranks both ways, as the columns of tables have them: `R@1 T2V`, `MeanR V2T`, ..."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.evaluation.metrics import Direction
from evenreel.types import Corpus, ScoreBlocks

WAYS: dict[str, Direction] = {"T2V": "t2v", "V2T": "v2t"}
BOTH = "Rsum both ways"
"""R@1, R@5 and R@10 of both ways, added up."""

_ENDS = {"Rsum": (0.0, 300.0), "MedR": (1.0, np.inf), "MeanR": (1.0, np.inf)}


def named(metrics: Sequence[str], *ways: str) -> tuple[str, ...]:
    """Return the columns of some metrics, one direction after the other.

    >>> named(("R@1", "MedR"), "T2V", "V2T")
    ('R@1 T2V', 'MedR T2V', 'R@1 V2T', 'MedR V2T')
    """
    return tuple(f"{metric} {way}" for way in ways for metric in metrics)


def ends_of(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the least and greatest value that figures can have, where these are not 0 and 100."""
    own = {name: _ENDS[name.split()[0]] for name in names if name != BOTH and name.split()[0] in _ENDS}
    return own | ({BOTH: (0.0, 600.0)} if BOTH in names else {})


def recall_figures(scores: ScoreBlocks, corpus: Corpus, names: Sequence[str]) -> dict[str, float]:
    """Measure recall in percent and ranks, of the caption's own clip and of the clip's own captions.

    Args:
        scores: scores of every caption and clip of the corpus.
        corpus: corpus that the scores are of.
        names: a metric of `evenreel.evaluation` and a way of `WAYS`, such as `R@1 T2V`; or `BOTH`.
    """
    metrics = dict.fromkeys("Rsum" if name == BOTH else name.split()[0] for name in names)
    settings = EvaluationSettings(parse_metrics(list(metrics)), resamples=0)
    found = evaluate(scores, corpus, settings).directions
    figures = {
        f"{metric} {way}": found[direction].summary[metric].value
        for way, direction in WAYS.items()
        for metric in metrics
    }
    if BOTH in names:
        figures[BOTH] = sum(figures[f"Rsum {way}"] for way in WAYS)
    return {name: figures[name] for name in names}
