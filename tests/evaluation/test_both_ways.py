"""The mean of both directions: its value, and an interval that knows that both directions are of the same clips."""

from __future__ import annotations

import numpy as np
import pytest

from evenreel.evaluation import EvaluationSettings, evaluate
from evenreel.evaluation.comparison import means_of_directions
from evenreel.evaluation.measure import Evaluation
from tests.evaluation.small_corpus import corpus_of, scores_of

WORDS = ("R@1", "MRR", "nDCG", "mAP-EPIC", "Rsum", "MedR", "GeoR")


def found(values: np.ndarray, clips: list[int], resamples: int = 1000) -> Evaluation:
    settings = EvaluationSettings(WORDS, resamples=resamples)  # type: ignore[arg-type]
    return evaluate(scores_of(values), corpus_of(clips, values.shape[1]), settings)


def noisy(seed: int, clips: list[int], count: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(len(clips), count)) + 2 * (np.array(clips)[:, None] == np.arange(count))


def test_each_direction_counts_half_and_ranks_have_no_mean() -> None:
    clips = [0] * 5 + list(range(30))
    done = found(noisy(0, clips, 30), clips)
    means = means_of_directions(done)
    assert list(means) == ["R@1", "MRR", "nDCG", "mAP-EPIC", "Rsum"]
    for word, mean in means.items():
        ahead, back = (done.directions[direction].summary[word].value for direction in ("t2v", "v2t"))
        assert mean.value == pytest.approx((ahead + back) / 2, abs=1e-12)
        assert mean.low is not None and mean.high is not None and mean.low < mean.value < mean.high


def test_of_a_symmetric_table_the_mean_is_as_sure_as_one_direction() -> None:
    """Each clip finds its caption just where the caption finds it, so the second direction adds nothing."""
    clips = list(range(40))
    values = noisy(1, clips, 40)
    done = found(values + values.T, clips)
    mean, alone = means_of_directions(done)["MRR"], done.directions["t2v"].summary["MRR"]
    assert (mean.value, mean.low, mean.high) == pytest.approx((alone.value, alone.low, alone.high), abs=1e-9)


def test_its_interval_is_as_wide_as_bootstrap_samples_of_clips_spread() -> None:
    clips = [clip for clip in range(60) for _ in range(1 + clip % 3)]
    done = found(noisy(2, clips, 60), clips)
    columns = [done.directions[direction] for direction in ("t2v", "v2t")]
    random, drawn = np.random.default_rng(0), []
    for _ in range(3000):
        times = np.bincount(random.integers(0, 60, 60), minlength=60)
        drawn.append(np.mean([np.average(one.per_query["MRR"], weights=times[one.groups]) for one in columns]))
    mean = means_of_directions(done)["MRR"]
    assert mean.high - mean.low == pytest.approx(2 * 2.0 * np.std(drawn), rel=0.08)  # type: ignore[operator]


def test_one_direction_has_no_mean_and_without_resamples_no_interval() -> None:
    clips = list(range(5))
    values = noisy(3, clips, 5)
    alone = evaluate(scores_of(values), corpus_of(clips, 5), EvaluationSettings(directions=("t2v",)))
    assert means_of_directions(alone) == {}
    assert means_of_directions(found(values, clips, 0))["R@1"].low is None
