"""Windows of frames: by slow loops over whole clips, and their invariants."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenreel.features.clip_reader import FrameWindow, WindowMaker, period_s, spans, stride_frames, within_shots
from evenreel.types import Pixels, WindowRule

Frames = list[tuple[int, Pixels]]
"""Shot and pixels of each frame; the number of a frame is its first pixel."""

SHOTS = st.lists(st.tuples(st.integers(1, 30), st.sampled_from([2, 2, 2, 3])), min_size=1, max_size=4)
RULES = st.builds(
    WindowRule, st.integers(2, 9), st.sampled_from([0.5, 4.0, 8.0]), st.sampled_from([0.1, 2.0, 4.0, 9.0])
)


def frames_of(shots: list[tuple[int, int]]) -> Frames:
    """Frames of shots of some lengths and heights."""
    both = [(shot, height) for shot, (length, height) in enumerate(shots) for _ in range(length)]
    return [(shot, np.full((height, 2, 3), number, np.uint8)) for number, (shot, height) in enumerate(both)]


def made(rule: WindowRule, frames: Frames) -> list[FrameWindow]:
    maker = WindowMaker(rule)
    found = [window for shot, pixels in frames for window in maker.add(shot, pixels)]
    return [*found, *maker.end()]


def expected(rule: WindowRule, lengths: list[int]) -> list[list[int]]:
    """Places of the frames of each window, of all shots at once."""
    windows, first, stride = [], 0, max(1, min(rule.frames, round(rule.stride_s * rule.frames / rule.span_s)))
    for length in lengths:
        starts = list(range(0, length - rule.frames + 1, stride))
        if not starts:
            windows.append([first + place * length // rule.frames for place in range(rule.frames)])
        elif starts[-1] != length - rule.frames:
            starts.append(length - rule.frames)
        windows += [[first + start + place for place in range(rule.frames)] for start in starts]
        first += length
    return windows


@given(RULES, SHOTS)
def test_windows_are_those_of_whole_shots(rule: WindowRule, shots: list[tuple[int, int]]) -> None:
    found = made(rule, frames_of(shots))
    assert [window.pixels[:, 0, 0, 0].tolist() for window in found] == expected(rule, [length for length, _ in shots])


@given(RULES, SHOTS)
def test_windows_cover_the_clip_in_order_and_never_go_on_over_a_cut(
    rule: WindowRule, shots: list[tuple[int, int]]
) -> None:
    frames = frames_of(shots)
    found = made(rule, frames)
    assert {place for window in found for place in range(window.first, window.last + 1)} == set(range(len(frames)))
    assert all(one.first <= one.middle <= one.last for one in found)
    assert [one.middle for one in found] == sorted(one.middle for one in found)
    assert all(frames[one.first][0] == frames[one.last][0] for one in found)
    assert len(found) <= len(frames)


@given(SHOTS)
def test_a_picture_is_a_window_of_one_frame(shots: list[tuple[int, int]]) -> None:
    frames = frames_of(shots)
    assert [window[:3] for window in made(WindowRule(), frames)] == [(place,) * 3 for place in range(len(frames))]


def test_frames_of_a_window_are_spread_evenly_over_its_span() -> None:
    rule = WindowRule(16, 8.0, 4.0)
    assert (period_s(rule), stride_frames(rule)) == (0.5, 8)
    assert (
        period_s(WindowRule()),
        stride_frames(WindowRule(4, 8.0, 0.1)),
        stride_frames(WindowRule(4, 8.0, 99.0)),
    ) == (0, 1, 4)


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=30, unique=True).map(sorted),
    st.lists(st.integers(1, 400), max_size=5, unique=True).map(sorted),
)
def test_stretches_within_shots_begin_before_they_end_and_hold_no_cut(times: list[int], cuts: list[int]) -> None:
    times_s, cuts_s = np.array(times) / 10, [cut / 10 for cut in cuts]
    found, shot_of = within_shots(times_s, spans(times_s, times_s[-1] + 0.3), cuts_s)
    assert (found[:, 0] < found[:, 1]).all()
    assert not any(start < cut < end for start, end in found for cut in cuts_s)
    assert (found[:, 0] <= times_s).all()
    assert (times_s < found[:, 1]).all()
    assert shot_of.tolist() == [sum(cut <= time_s for cut in cuts_s) for time_s in times_s]
    for _, rows in groupby(range(len(times)), key=shot_of.tolist().__getitem__):  # stretches of a shot meet
        together = found[list(rows)]
        assert together[1:, 0].tolist() == together[:-1, 1].tolist()
