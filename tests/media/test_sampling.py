from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import MediaError, UsageError
from evenreel.media import open_video, parse_rule
from evenreel.media.sampling import Clip4Clip, EverySeconds, IntervalFrames, Midpoints, Part, SeveralRules, TimeRule
from tests.media_files import Film, gop, number_in, steady, write_film

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


RULES = ["3 midpoints", "every 0.5 s", "clip4clip 3", "x_pool 3"]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10 seconds, 10 frames a second, a keyframe each second."""
    path = tmp_path_factory.mktemp("parts") / "film.mp4"
    return write_film(path, Film(steady(100, 10), options=gop(10)))


def numbers(path: Path, rule: str, part: Part) -> list[int]:
    with open_video(path) as video:
        return [number_in(frame.pixels) for frame in video.frames(part.rule(parse_rule(rule)))]


@pytest.mark.parametrize(
    ("rule", "part", "expected"),
    [
        ("3 midpoints", Part(2.0, 5.0), [25, 35, 45]),
        ("1 midpoints", Part(7.13, 40.0), [85]),
        ("3 midpoints", Part(None, 3.0), [5, 15, 25]),
        ("every 0.5 s", Part(2.0, 3.5), [20, 25, 30]),
        ("every 2.5 s", Part(4.05), [40, 65, 90]),
        ("clip4clip 12", Part(4.0, 7.0), [40, 50, 60]),
        ("x_pool 3", Part(4.0, 7.0), [44, 54, 64]),
        ("x_pool 3", Part(8.5, 40.0), [87, 92, 97]),
    ],
)
def test_frames_of_a_part(film: Path, rule: str, part: Part, expected: list[int]) -> None:
    assert numbers(film, rule, part) == expected


@given(st.floats(0, 50), st.floats(0.1, 50), st.floats(0.1, 60), st.sampled_from(["5 midpoints", "every 0.3 s"]))
def test_moments_are_those_of_a_file_that_is_the_part(
    start_s: float, length_s: float, file_s: float, rule: str
) -> None:
    part, inner = Part(start_s, start_s + length_s), parse_rule(rule)
    ruled = part.rule(inner)
    assert isinstance(ruled, TimeRule) and isinstance(inner, TimeRule)
    seen_s = part.length_s(file_s)
    assert seen_s is not None
    if start_s >= file_s:
        with pytest.raises(MediaError):
            ruled.times(0.0, file_s)
        return
    moments = list(ruled.times(0.0, file_s))
    assert all(start_s <= moment < min(file_s, start_s + length_s) for moment in moments)
    if rule == "5 midpoints":
        assert moments == pytest.approx([start_s + (k + 0.5) * seen_s / 5 for k in range(5)])
    else:
        assert moments == pytest.approx([start_s + k * 0.3 for k in range(len(moments))])
        assert len(moments) * 0.3 >= seen_s - 1e-9


def test_a_part_is_capped_by_its_own_length() -> None:
    capped = Part(10.0, 30.0).rule(parse_rule("every 1 s")).capped(3600.0, 10)
    assert str(capped) == "every 2 s of 10 to 30 s"


def test_a_part_decodes_its_own_stretch_alone(film: Path) -> None:
    with open_video(film) as video:
        assert len(list(video.frames(Part(6.0, 7.0).rule(parse_rule("3 midpoints"))))) == 3
        assert video._source.reader.packets <= 30  # the first keyframe's, and two of the ten groups
