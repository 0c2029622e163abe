"""Rules against slow formulas and the peers' own code, and the errors of their texts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.media.sampling import Clip4Clip, EverySeconds, IntervalFrames, Midpoints, SeveralRules, parse_rule

starts = st.floats(0, 1e4)
durations = st.floats(1e-3, 1e5)
counts = st.integers(1, 200)


@given(counts, starts, durations)
def test_midpoints_equal_the_middles_of_explicit_intervals(count: int, start_s: float, duration_s: float) -> None:
    edges = np.linspace(start_s, start_s + duration_s, count + 1)
    expected = (edges[:-1] + edges[1:]) / 2
    times = list(Midpoints(count).times(start_s, start_s + duration_s))
    assert times == sorted(times)
    assert all(start_s <= time <= start_s + duration_s for time in times)
    np.testing.assert_allclose(times, expected, rtol=1e-9, atol=1e-9)


@given(st.floats(0.01, 100), starts)
def test_every_seconds_starts_with_the_video_and_keeps_its_distance(period_s: float, start_s: float) -> None:
    times = list(itertools.islice(EverySeconds(period_s).times(start_s, start_s), 20))
    assert times[0] == start_s
    np.testing.assert_allclose(np.diff(times), period_s, rtol=1e-6)


def clip4clip_by_its_own_loop(frame_count: int, fps: float, most: int) -> list[int]:
    """rawvideo_util.py with framerate 1, then the thinning of its data loaders (slice_framepos 2)."""
    rate = int(fps)
    taken = []
    for second in range((frame_count + rate - 1) // rate + 1):
        if second * rate >= frame_count:  # the read fails
            break
        taken.append(second * rate)
    if len(taken) > most:
        return [taken[k] for k in np.linspace(0, len(taken) - 1, num=most, dtype=int)]
    return taken


@given(st.integers(1, 5000), st.floats(1, 120), st.integers(1, 64))
def test_clip4clip_takes_what_its_own_code_takes(frame_count: int, fps: float, most: int) -> None:
    assert Clip4Clip(most).indices(frame_count, fps) == clip4clip_by_its_own_loop(frame_count, fps, most)


def uniform_by_its_own_loop(num_frames: int, length: int) -> list[int]:
    """`sample_frames(..., 'uniform')` of Frozen in Time and the same lines of X-Pool."""
    intervals = np.linspace(start=0, stop=length, num=min(num_frames, length) + 1).astype(int)
    ranges = [(first, intervals[k + 1] - 1) for k, first in enumerate(intervals[:-1])]
    return [int((a + b) // 2) for a, b in ranges]


@given(st.integers(1, 5000), st.integers(1, 100))
def test_interval_frames_are_those_of_x_pool_and_frozen(frame_count: int, count: int) -> None:
    expected = uniform_by_its_own_loop(count, frame_count)
    assert IntervalFrames("x_pool", count).indices(frame_count, 25.0) == expected


@given(
    st.one_of(
        st.builds(Midpoints, counts),
        st.builds(EverySeconds, st.sampled_from([0.001, 0.5, 1.0, 2.25, 60.0])),
        st.builds(Clip4Clip, counts),
        st.builds(IntervalFrames, st.sampled_from(["x_pool", "frozen"]), counts),
    )
)
def test_a_rule_reads_back_from_its_own_text(rule: object) -> None:
    assert parse_rule(str(rule)) == rule


@pytest.mark.parametrize(
    "text",
    ["", "eight midpoints", "0 midpoints", "-1 midpoints", "every s", "every 0 s", "every 1e9 s", "every 90000 s",
     "every 1 min", "clip4clip 0", "x_pool 12 frames", "9" * 400 + " midpoints", "1 midpoints\x00", "every nan s"],
)  # fmt: skip
def test_a_text_that_is_no_rule_says_what_one_looks_like(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(text)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert any(word in sentence for word in ("write for example", "ask for 1 to", "give 0.001 to"))


@given(st.lists(st.floats(0.05, 5.0), min_size=1, max_size=3), counts)
def test_several_rules_have_the_moments_of_each(periods: list[float], count: int) -> None:
    rules = (Midpoints(count), *map(EverySeconds, periods))
    together = SeveralRules(rules, [])
    times = list(itertools.takewhile(lambda time: time < 20, together.times(0.0, 20.0)))
    assert times == sorted(times)
    for place, rule in enumerate(rules):
        own = list(itertools.takewhile(lambda time: time < 20, rule.times(0.0, 20.0)))
        assert [time for time, whose in zip(times, together.asked, strict=False) if whose == place] == own
