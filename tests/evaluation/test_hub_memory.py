"""The hub memory against slow loops over its formula, and that no query sees a later one."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenreel.errors import UsageError
from evenreel.evaluation.rescoring import HubMemory, hub_memory, rescore
from evenreel.types import Scores

Matrix = NDArray[Any]


def scores_of(values: Any) -> Scores:
    array = np.asarray(values)
    return Scores(array, [f"c{i}" for i in range(array.shape[0])], [f"v{i}" for i in range(array.shape[1])])


def cosines(seed: int, queries: int, videos: int) -> Matrix:
    return np.random.default_rng(seed).normal(0.2, 0.1, (queries, videos))


def slowly(values: Matrix, own: HubMemory) -> list[list[float]]:
    """Row by row, with the memory as a queue of batches."""
    videos = values.shape[1]
    memory: deque[Matrix] = deque(maxlen=own.remembered or max(1, videos // 10))
    found: list[list[float]] = []
    for start in range(0, len(values), own.batch):
        batch = values[start : start + own.batch]
        kept = [row for one in [*memory, batch] for row in one]
        for row in batch:
            if not memory:
                found.append(list(row))
                continue
            over_items = sum(math.exp(own.beta * s) for s in row)
            weighed = []
            for v, s in enumerate(row):
                by_gallery = math.exp(own.alpha * s) / sum(math.exp(own.alpha * other[v]) for other in kept)
                by_query = math.exp(own.beta * s) / over_items
                weighed.append(own.weight * s * by_gallery + (1 - own.weight) * s * by_query)
            found.append(weighed)
        memory.append(batch)
    return found


MEMORIES = [HubMemory(), HubMemory(batch=1), HubMemory(batch=3, remembered=1), HubMemory(batch=2, remembered=50)]
MEMORIES += [HubMemory(batch=4, remembered=2, alpha=30.0, beta=20.0, weight=0.2)]


@pytest.mark.parametrize("own", MEMORIES)
@pytest.mark.parametrize(("queries", "videos"), [(53, 7), (40, 31), (5, 4)])
def test_the_memory_is_that_of_slow_loops(own: HubMemory, queries: int, videos: int) -> None:
    values = cosines(queries, queries, videos)
    expected = slowly(values, own)
    np.testing.assert_allclose(hub_memory(scores_of(values), settings=own).values, expected, rtol=1e-9)
    turned = hub_memory(scores_of(values.T), "v2t", own).values
    np.testing.assert_allclose(turned.T, expected, rtol=1e-9)


def test_the_first_batch_stays_and_a_hub_sinks_in_the_next() -> None:
    hub = np.tile([0.5, 0.1, 0.1], (16, 1))
    values = np.vstack([hub, [[0.42, 0.4, 0.1]]])
    found = hub_memory(scores_of(values)).values
    np.testing.assert_array_equal(found[:16], hub)
    assert found[16].argmax() == 1


@given(st.integers(0, 50), st.integers(1, 5), st.integers(1, 4), st.integers(1, 30))
def test_later_queries_change_no_earlier_answer(seed: int, batch: int, remembered: int, batches: int) -> None:
    values, own = cosines(seed, 40, 6), HubMemory(batch, remembered)
    before = min(batch * batches, 40)
    whole = hub_memory(scores_of(values), settings=own).values
    np.testing.assert_array_equal(hub_memory(scores_of(values[:before]), settings=own).values, whole[:before])


@given(st.integers(0, 50), st.integers(1, 5), st.integers(1, 4))
def test_what_left_the_memory_is_forgotten(seed: int, batch: int, remembered: int) -> None:
    values, own = cosines(seed, 40, 6), HubMemory(batch, remembered)
    gone = 40 - batch * (remembered + 1) - 40 % batch
    last = slice(40 - (40 % batch or batch), 40)
    changed = values.copy()
    changed[: max(gone, 0)] += 0.3
    found = [hub_memory(scores_of(one), settings=own).values[last] for one in (values, changed)]
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_columns_go_with_their_ids() -> None:
    values, order = cosines(0, 50, 9), np.random.default_rng(1).permutation(9)
    found = hub_memory(scores_of(values[:, order])).values
    np.testing.assert_allclose(found, hub_memory(scores_of(values)).values[:, order], rtol=1e-9)


def test_it_says_that_the_order_of_the_queries_counts() -> None:
    s = scores_of(cosines(0, 20, 5))
    used = ("queries before it and beside it in its batch, in the order of the scores",)
    assert rescore("hub-memory", s, "t2v").about.uses == used
    assert rescore("hub-memory", s, "v2t").about.uses == used


OUT_OF_RANGE: dict[str, tuple[Any, str]] = {
    "batch": (0, "batches of 1 query or more .* they were 0 and None"),
    "remembered": (0, "they were 16 and 0"),
    "alpha": (0.0, "above 0 and its weight is 0 to 1; they were 0.0, 10.0 and 0.5"),
    "beta": (math.nan, "they were 100.0, nan and 0.5"),
    "weight": (1.5, "they were 100.0, 10.0 and 1.5"),
}


@pytest.mark.parametrize(("bad", "words"), [({name: bad}, words) for name, (bad, words) in OUT_OF_RANGE.items()])
def test_settings_out_of_range_are_refused(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        HubMemory(**bad)
