from __future__ import annotations

import tracemalloc
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from evenreel.media import open_video, parse_rule
from evenreel.media.sampling import WHOLE, Part
from evenreel.media.video import LONGEST_GAP_S, ShotFinder
from evenreel.types import Pixels

RATE, LONG, HIGH = 10, 96, 64


def texture(seed: int, width: int = LONG) -> Pixels:
    """Patches of colour."""
    patches = np.random.default_rng(seed).integers(0, 255, (HIGH // 8, width // 8, 3), np.uint8)
    return patches.repeat(8, axis=0).repeat(8, axis=1)


def write(path: Path, pictures: list[Pixels], keyframes: int) -> Path:
    with av.open(path, "w") as container:
        stream = container.add_stream("h264", RATE, options={"g": str(keyframes), "sc_threshold": "0", "bf": "0"})
        stream.width, stream.height, stream.pix_fmt = LONG, HIGH, "yuv420p"
        for picture in pictures:
            container.mux(stream.encode(VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def cuts(path: Path, rule: str, part: Part = WHOLE) -> tuple[list[float], int]:
    """The cuts, and how often frames were skipped."""
    finder = ShotFinder()
    with open_video(path) as video:
        assert list(video.frames(part.rule(parse_rule(rule)), finder))
        return finder.cuts_s, video._source.reader.skips


@pytest.mark.parametrize("rule", ["every 0.1 s", "every 1 s"])
def test_cuts_are_the_first_frames_of_shots(tmp_path: Path, rule: str) -> None:
    pictures = [texture(seed) for seed, frames in ((0, 23), (1, 14), (2, 30)) for _ in range(frames)]
    found, skips = cuts(write(tmp_path / "video.mp4", pictures, 250), rule)
    assert found == pytest.approx([2.3, 3.7])
    assert skips == 0


def test_frames_that_are_not_decoded_leave_the_cut_to_the_first_behind_them(tmp_path: Path) -> None:
    pictures = [texture(seed) for seed in (0, 1) for _ in range(36)]
    found, skips = cuts(write(tmp_path / "video.mp4", pictures, 4), "every 1 s")
    assert skips
    assert found == pytest.approx([4.0])  # the last keyframe before the next frame that is sampled


def test_what_moves_all_the_time_is_no_cut_whether_frames_are_skipped_or_not(tmp_path: Path) -> None:
    wide = texture(3, 8 * LONG)
    pictures = [wide[:, 6 * number : 6 * number + LONG] for number in range(100)]
    path = write(tmp_path / "video.mp4", pictures, 4)
    for rule in ("every 0.1 s", "every 1 s"):
        assert cuts(path, rule)[0] == []


def test_nothing_is_said_across_a_long_gap(tmp_path: Path) -> None:
    pictures = [texture(seed) for seed in (0, 1) for _ in range(60)]
    step = 2 * LONGEST_GAP_S
    found, skips = cuts(write(tmp_path / "video.mp4", pictures, 1), f"every {step} s")
    assert (found, skips > 0) == ([], True)


def test_a_frame_that_comes_again_is_passed() -> None:
    finder = ShotFinder()
    frames = [VideoFrame.from_ndarray(texture(seed), format="rgb24") for seed in (0, 0, 0, 0, 1, 1, 1, 1)]
    for start in (0, 0, 2):  # as when a video is read again from its start
        for number, frame in enumerate(frames[start:], start):
            finder.add(number * 0.3, frame)
    assert finder.cuts_s == pytest.approx([1.2])


def test_pictures_of_any_size_are_compared() -> None:
    finder = ShotFinder()
    wide, tall = texture(0), np.rot90(texture(1)).copy()
    for number, pixels in enumerate([wide] * 8 + [tall] * 8 + [wide[::2, ::2].copy()] * 8):
        finder.add(number * 0.1, VideoFrame.from_ndarray(pixels, format="rgb24"))
    assert finder.cuts_s == pytest.approx([0.8, 1.6])


def test_a_very_tall_picture_takes_no_more_memory_than_another() -> None:
    finder = ShotFinder()
    pixels = np.zeros((16_000, 8, 3), np.uint8)
    finder.add(0.0, VideoFrame.from_ndarray(pixels, format="rgb24"))  # imports are not of interest
    frame = VideoFrame.from_ndarray(pixels, format="rgb24")
    tracemalloc.start()
    finder.add(0.1, frame)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**20
