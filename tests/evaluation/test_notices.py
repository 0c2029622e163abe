"""What is said beside figures that are right and mean little: a k beyond the gallery, scores that are infinite."""

from __future__ import annotations

import numpy as np
import pytest

from evenreel.evaluation import EvaluationSettings, evaluate
from tests.evaluation.small_corpus import corpus_of, scores_of

VALUES = np.random.default_rng(0).normal(size=(12, 12)) + np.eye(12)
CORPUS = corpus_of(range(12), 12)


def said(values: np.ndarray, *metrics: str) -> list[str]:
    settings = EvaluationSettings(metrics=metrics, resamples=0)
    return list(evaluate(scores_of(values), CORPUS, settings).notices)


@pytest.mark.parametrize("metric", ["R@12", "R@999999999"])
def test_a_k_beyond_the_gallery_is_told(metric: str) -> None:
    words = f"the gallery has 12 items, so {metric} would count all of them in any order; choose a k below that."
    assert said(VALUES, "R@1", metric) == [f"t2v: {words}", f"v2t: {words}"]


def test_a_sum_of_recalls_is_no_better_than_its_recalls() -> None:
    small = evaluate(scores_of(np.eye(4)), corpus_of(range(4), 4), EvaluationSettings(resamples=0)).notices
    assert small[0].startswith("t2v: the gallery has 4 items, so R@5, R@10, Rsum would count all")


def test_a_k_below_the_gallery_and_other_metrics_need_no_word() -> None:
    assert said(VALUES, "R@11", "MedR", "nDCG@50", "Rsum", "mAP") == []


@pytest.mark.parametrize("turned", [False, True])
def test_plus_infinity_is_told_with_its_pair(turned: bool) -> None:
    values = VALUES.copy()
    values[3, 5] = np.inf
    values[7, 1] = -np.inf
    (sentence,) = said(values.T if turned else values, "R@1")
    pair = ("c5", "v3") if turned else ("c3", "v5")
    assert sentence.startswith(f"The score of caption '{pair[0]}' and video '{pair[1]}' is plus infinity, and others")
    assert "Half precision overflows to it" in sentence


def test_nan_is_refused_beside_infinity() -> None:
    values = VALUES.copy()
    values[0, 0], values[3, 5] = np.inf, np.nan
    with pytest.raises(Exception, match="caption 'c3' and video 'v5' is NaN"):
        said(values, "R@1")
