"""The best pair of moments in order, against a slow loop, and the bound by which clips are passed over."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenreel.library.search.asking import TimedEvidence, best_pair, highest_in_order

TIMES = st.integers(0, 12)
MOMENT = st.tuples(TIMES, st.integers(0, 5), st.integers(-8, 8), st.integers(0, 2))
MOMENTS = st.lists(MOMENT, max_size=8)
Moments = list[tuple[int, int, int, int]]


def evidence(moments: Moments) -> TimedEvidence:
    starts, lengths, values, states = np.array(moments, float).reshape(-1, 4).T
    return TimedEvidence(starts, starts + lengths, values, states.astype(np.int8))


def slowly(first: Moments, second: Moments, within_s: float) -> tuple[int, float] | None:
    """The least state, then the greatest sum, of all pairs in order."""
    pairs = [
        (max(one[3], other[3]), -(one[2] + other[2]))
        for one in first
        for other in second
        if one[0] < other[0] and other[0] - (one[0] + one[1]) <= within_s
    ]
    return None if not pairs else (min(pairs)[0], -min(pairs)[1])


@given(MOMENTS, MOMENTS, st.sampled_from([0.5, 1.0, 3.0, 100.0]))
def test_the_pair_is_the_one_of_a_slow_loop(first: Moments, second: Moments, within_s: float) -> None:
    found = best_pair(evidence(first), evidence(second), within_s)
    assert (None if found is None else (found.state, found.value)) == slowly(first, second, within_s)
    if found is not None:
        one, other = first[found.first], second[found.second]
        assert one[0] < other[0] <= one[0] + one[1] + within_s
        assert one[2] + other[2] == found.value


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=6), min_size=1, max_size=5
    )
)
def test_no_pair_of_a_clip_is_above_its_bound(clips: list[list[tuple[int, int]]]) -> None:
    first, second = (np.array([frame[at] for clip in clips for frame in clip], float) for at in (0, 1))
    found = highest_in_order(first, second, np.array(list(map(len, clips))))
    expected = [
        max((clip[i][0] + clip[j][1] for j in range(len(clip)) for i in range(j)), default=-np.inf) for clip in clips
    ]
    np.testing.assert_allclose(found, expected)
