from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from typer.testing import CliRunner

from evenreel import open_library
from evenreel.cli.app import app
from evenreel.config import IndexSettings
from evenreel.features.shards import read_shard, shard_files
from evenreel.library import IndexReport, index_folders, repair, verify
from evenreel.media import open_video, parse_rule
from evenreel.media.video import ShotFinder
from evenreel.planted import write_clip
from evenreel.types import FloatArray, Pixels, WindowRule
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import table_of
from tests.tiny_families import tiny_x_clip

FPS = 5
SETTINGS = IndexSettings(model="org/windows", workers=1, read_text=False)


class WindowEncoder(PixelEncoder):
    """Windows of four frames over two seconds, one every second; a vector is that of the mean frame."""

    window = WindowRule(frames=4, span_s=2.0, stride_s=1.0)

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        assert pixels.shape[1] in (1, 4)
        return super().encode_windows(pixels.mean(axis=1, keepdims=True).astype(np.uint8))


@pytest.fixture(autouse=True)
def _model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.encoders.load_encoder", lambda *_, **__: WindowEncoder())


def pictures(*shots: tuple[int, int]) -> Iterator[Pixels]:
    """Plain pictures: so many frames of a colour, then of another."""
    for frames, seed in shots:
        colour = np.random.default_rng(seed).integers(0, 255, 3).astype(np.uint8)
        yield from (np.tile(colour, (64, 64, 1)) for _ in range(frames))


def indexed(place: Path, *shots: tuple[int, int], settings: IndexSettings = SETTINGS) -> IndexReport:
    (place / "videos").mkdir(exist_ok=True)
    write_clip(place / "videos" / "clip.mp4", pictures(*shots), FPS)
    return index_folders([place / "videos"], place / "library", settings)


def windows_of(path: Path) -> tuple[list[list[Pixels]], list[tuple[float, float]]]:
    """Frames of each window of a clip by whole shots, and the shots."""
    finder = ShotFinder()
    with open_video(path) as video:
        frames = [(frame.time_s, frame.pixels) for frame in video.frames(parse_rule("every 0.5 s"), finder)]
        edges = [0.0, *finder.cuts_s, video.info.duration_s or 0.0]
    found = []
    for start_s, end_s in pairwise(edges):
        shot = [pixels for time_s, pixels in frames if start_s <= time_s < end_s]
        found += [shot[start : start + 4] for start in range(0, len(shot) - 3, 2)]
        if len(shot) < 4:
            found.append([shot[place * len(shot) // 4] for place in range(4)])
        elif len(shot) % 2:
            found.append(shot[-4:])
    return found, list(pairwise(edges))


def test_moments_are_windows_that_end_at_cuts(tmp_path: Path) -> None:
    indexed(tmp_path, (20, 1), (7, 2), (15, 3))
    library = tmp_path / "library"
    windows, shots = windows_of(tmp_path / "videos" / "clip.mp4")
    assert len(shots) == 3
    (path,) = shard_files(library / "shards")
    shard = read_shard(path)
    expected = WindowEncoder().encode_windows(np.stack([np.stack(one) for one in windows]).transpose(0, 1, 4, 2, 3))
    assert shard.frames is not None
    assert np.abs(shard.frames - expected).max() < 1e-3
    starts, ends = shard.spans_s.T
    assert (starts < ends).all()
    assert (np.diff(shard.times_s) >= 0).all()
    for start_s, end_s in shots:
        inside = [(start, end) for start, end in zip(starts, ends, strict=True) if start_s <= start < end_s]
        assert inside[0][0] == pytest.approx(start_s)
        assert inside[-1][1] == pytest.approx(end_s)
        assert all(later <= end for (_, end), (later, _) in pairwise(inside))
    assert verify(library) == []
    before = table_of(library, "moments")
    repair(library)
    assert (verify(library), table_of(library, "moments")) == ([], before)


def test_a_search_lands_inside_the_shot_that_answers(tmp_path: Path) -> None:
    indexed(tmp_path, (20, 1), (20, 2), (20, 3))
    with open_library(tmp_path / "library", encoder=WindowEncoder()) as opened:
        (hit,) = opened.search_image(next(pictures((1, 2)))).hits
    best = hit.moments[0]
    assert 3.99 < best.start_s < best.time_s < best.end_s < 8.01
    assert best.end_s - best.start_s > 2.5


@pytest.mark.parametrize("frames", [1, 3, 8, 21])
def test_short_clips_have_a_window_whose_frames_are_sampled_again(tmp_path: Path, frames: int) -> None:
    report = indexed(tmp_path, (frames, 1))
    sampled = len(range(0, 10 * frames // FPS, 5))  # one each half second
    again = f"shorter than a window of the model: of 4 frames {4 - sampled} are others once more"
    assert [note for _, note in report.notes] == ([again] if sampled < 4 else [])
    rows = table_of(tmp_path / "library", "moments")
    assert rows[0][3] == 0.0
    assert rows[-1][4] == pytest.approx(frames / FPS)
    assert verify(tmp_path / "library") == []


@pytest.mark.parametrize("rule", ["clip4clip 6", "5 midpoints"])
def test_other_rules_leave_windows_theirs_or_what_is_sampled(tmp_path: Path, rule: str) -> None:
    report = indexed(tmp_path, (42, 1), settings=replace(SETTINGS, rule=rule))
    rows = table_of(tmp_path / "library", "moments")
    assert report.indexed == 1
    assert (rows[0][3], rows[-1][4]) == (0.0, pytest.approx(8.4))
    assert len(rows) == (2 if rule == "clip4clip 6" else 8)


def test_words_are_read_and_stills_kept_of_the_frames_of_the_rule_alone(tmp_path: Path) -> None:
    report = indexed(tmp_path, (42, 1))
    (path,) = shard_files(tmp_path / "library" / "stills")
    with safe_open(path, "numpy") as held:
        assert held.get_tensor("times_s").tolist() == pytest.approx([*range(9)])
    assert report.frames == 9


def test_a_model_that_takes_windows_is_indexed_by_the_real_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    (tmp_path / "videos").mkdir()
    write_clip(tmp_path / "videos" / "clip.mp4", pictures((60, 1), (40, 2)), FPS)
    command = ["index", tmp_path / "videos", "-l", tmp_path / "library", "--model", tiny_x_clip(tmp_path / "model")]
    done = CliRunner().invoke(app, [*map(str, command), "--no-ocr", "--set", "workers=1"])
    assert done.exit_code == 0, done.output
    # Four frames over eight seconds, one every four: 0 to 6 and 4 to 10 s of the first shot, 12 to 18 of the second.
    assert [row[2:] for row in table_of(tmp_path / "library", "moments")] == [
        pytest.approx((4.0, 0.0, 7.0)),
        pytest.approx((8.0, 3.0, 12.0)),
        pytest.approx((16.0, 12.0, 20.0)),
    ]
    found = CliRunner().invoke(app, ["search", "a red ball", "-l", str(tmp_path / "library"), "--all"])
    assert found.exit_code == 0, found.output
