"""A part of a file is sampled as a file of its own would be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import MediaError
from evenreel.media import open_video, parse_rule
from evenreel.media.sampling import Part, TimeRule
from tests.media_files import Film, gop, number_in, steady, write_film

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
        assert video.packets_decoded <= 30  # the first keyframe's, and two of the ten groups
