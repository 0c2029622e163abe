"""Frames for several rules in one pass: each rule has the frames that it has alone, and each frame its shot."""

from __future__ import annotations

import bisect
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evenreel.config import MediaLimits
from evenreel.media import open_video, parse_rule
from evenreel.onscreen.reader import FileReader
from tests.media_files import Film, gop, steady, write_film

LIMITS = asdict(MediaLimits(max_damaged_share=1.0))


def read(path: Path, rule: str, **task: Any) -> tuple[list[tuple[float, list[int], int]], list[float], list[float]]:
    """Time, rules and shot of each frame, the times of stills, and the cuts."""
    whole = {"path": str(path), "part": [None, None], "frames": True, "text": False, **task}
    frames, stills, cuts = [], [], []
    for message, _ in FileReader(rule, LIMITS, 1, text=False, shots=True)(whole):
        if message["kind"] == "frame":
            frames.append((message["time_s"], message["for"], message["shot"]))
        elif message["kind"] == "still":
            stills.append(message["time_s"])
        elif message["kind"] == "end":
            cuts = message["cuts_s"]
    return frames, stills, cuts


def alone(path: Path, rule: str) -> list[float]:
    with open_video(path, MediaLimits(max_damaged_share=1.0)) as video:
        return [max(0.0, frame.time_s) for frame in video.frames(parse_rule(rule))]


FILMS = {
    "steady.mp4": Film(steady(150), options=gop(30, b_frames=3)),
    "open.ts": Film(steady(150), options=gop(30, b_frames=3, more=":open-gop=1")),
    "slow.mkv": Film([0, 33, 66, 100, 300, 500, 700, 1500, 1540, 1580, 1620, 4000, 4010, 4020, 7000, 9000]),
    "one.mp4": Film([0]),
}


def check(path: Path, rule: str) -> None:
    own = alone(path, rule)
    frames, stills, cuts = read(path, rule, periods=[0.4, 0.7], still={"side_px": 8, "quality": 50})
    assert stills == own
    for place, wanted in enumerate([rule, "every 0.4 s", "every 0.7 s"]):
        assert [time_s for time_s, rules, _ in frames if place in rules] == alone(path, wanted), wanted
    assert [shot for *_, shot in frames] == [bisect.bisect_right(cuts, time_s) for time_s, *_ in frames]


@pytest.mark.parametrize("rule", ["every 1 s", "7 midpoints"])
@pytest.mark.parametrize("name", FILMS)
def test_each_rule_has_the_frames_that_it_has_alone(tmp_path: Path, name: str, rule: str) -> None:
    write_film(tmp_path / name, FILMS[name])
    check(tmp_path / name, rule)


@pytest.mark.parametrize("name", ["video_90.mov", "ucf101_eye_makeup.avi", "kitten_on_grass.mp4"])
def test_each_rule_has_its_frames_of_real_clips(real_clips: Path, name: str) -> None:
    check(real_clips / name, "every 1 s")


def test_windows_have_the_frames_of_a_rule_by_number(tmp_path: Path) -> None:
    write_film(tmp_path / "clip.mp4", FILMS["steady.mp4"])
    frames, *_ = read(tmp_path / "clip.mp4", "frozen 5", periods=[0.4])
    assert [rules for _, rules, _ in frames] == [[0, 1]] * 5
