from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.config import MediaLimits
from evenreel.corpus import make_corpus
from evenreel.features import FeatureSettings, compute, compute_features, find_clips, load_video_features, read_manifest
from evenreel.features.clip_reader import FrameWindow, WindowMaker, merge, period_s, spans, stride_frames, within_shots
from evenreel.features.shards import Shard, read_shard, shard_files
from evenreel.features.windows import Sampled
from evenreel.library import index_folders
from evenreel.media import open_video, parse_rule
from evenreel.planted import write_clip
from evenreel.types import Corpus, FloatArray, Pixels, WindowRule
from tests.features.pixel_encoder import PixelEncoder
from tests.features.test_shards import make_shard
from tests.library.test_windows import SETTINGS

FPS = 5
RULE = WindowRule(frames=4, span_s=2.0, stride_s=1.0)


class Drift(PixelEncoder):
    """A window as how its last frame differs from its first."""

    window = RULE

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        assert pixels.shape[1] in (1, RULE.frames)
        self.frames_encoded += pixels.shape[0] * pixels.shape[1]
        moved = pixels[:, -1].astype(np.float32) - pixels[:, 0]
        return np.stack([self._frame(picture) for picture in np.clip(128 + moved, 0, 255)])


def darkening(frames: int) -> list[Pixels]:
    """A picture whose halves fade in opposite directions."""
    pictures = []
    for number in range(frames):
        picture = np.full((64, 64, 3), 20 + 200 * number // frames, np.uint8)
        picture[:, 32:] = 20 + 200 * (frames - 1 - number) // frames
        pictures.append(picture)
    return pictures


def corpus(folder: Path, **clips: list[Pixels]) -> Corpus:
    folder.mkdir(exist_ok=True)
    for name, pictures in clips.items():
        write_clip(folder / f"{name}.mp4", iter(pictures), FPS)
    names = list(clips)
    table = pl.DataFrame({"clip_id": names, "path": [f"{name}.mp4" for name in names]})
    captions = pl.DataFrame({"caption_id": names, "clip_id": names, "text": names})
    return make_corpus(table, captions)


def settings(folder: Path) -> FeatureSettings:
    return FeatureSettings(rule="4 midpoints", read_text=False, videos=folder, workers=1)


@pytest.fixture
def quick_text(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    quick = partial(compute.FeatureJob, reader="tests.library.stub_reader:QuickReader")
    monkeypatch.setattr(compute, "FeatureJob", quick)
    yield


def test_a_clip_that_runs_backwards_has_other_vectors(tmp_path: Path) -> None:
    there = darkening(20)
    both = corpus(tmp_path / "videos", there=there, back=there[::-1])
    compute_features(both, tmp_path / "moving", Drift(), settings(tmp_path / "videos"))
    moving = load_video_features(tmp_path / "moving", both)
    assert moving.frame_mask.sum(axis=1).tolist() == [3, 3]  # of 8 frames over 4 s, from 0, 1 and 2 s on
    forwards, backwards = moving.frames.astype(np.float32)
    assert np.einsum("td,td->t", forwards, backwards[::-1]).max() < 0.8
    still = PixelEncoder()  # single pictures are the same, read from either end
    compute_features(both, tmp_path / "still", still, settings(tmp_path / "videos"))
    forwards, backwards = load_video_features(tmp_path / "still", both).frames.astype(np.float32)
    assert np.einsum("td,td->t", forwards, backwards[::-1]).min() > 0.99


def test_vectors_and_times_are_those_of_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same model and videos, cuts included: one mechanism."""
    shots = [np.full((64, 64, 3), shade, np.uint8) for shade in (30, 220, 120) for _ in range(13)]
    both = corpus(tmp_path / "videos", cut=shots, there=darkening(20))
    compute_features(both, tmp_path / "features", Drift(), settings(tmp_path / "videos"))
    monkeypatch.setattr("evenreel.encoders.load_encoder", lambda *_, **__: Drift())
    index_folders([tmp_path / "videos"], tmp_path / "library", SETTINGS)
    stored = [read_shard(path) for path in shard_files(tmp_path / "library" / "shards")]
    loaded = load_video_features(tmp_path / "features", both)
    for row in range(2):
        mask = loaded.frame_mask[row]
        (same,) = [one for one in stored if np.array_equal(one.frames, loaded.frames[row][mask])]
        assert same.times_s.tolist() == loaded.times_s[row][mask].tolist()
    assert sorted(len(one.cuts_s) for one in stored if one.cuts_s is not None) == [0, 2]


def test_a_clip_that_is_a_part_of_a_file_has_windows_of_that_part(tmp_path: Path) -> None:
    whole = corpus(tmp_path / "videos", there=darkening(20))
    part = replace(whole, clips=whole.clips.with_columns(start_s=pl.lit(1.0), end_s=pl.lit(3.0)))
    compute_features(part, tmp_path / "features", Drift(), settings(tmp_path / "videos"))
    loaded = load_video_features(tmp_path / "features", part)
    with open_video(tmp_path / "videos" / "there.mp4") as video:
        frames = [frame.pixels for frame in video.frames(parse_rule("every 0.2 s"))]
    window = np.stack([frames[number] for number in (5, 7, 10, 12)]).transpose(0, 3, 1, 2)  # at 1, 1.5, 2 and 2.5 s
    np.testing.assert_array_equal(loaded.frames[0], Drift().encode_windows(window[None]).astype(np.float16))
    assert loaded.times_s[0].tolist() == [1.0]


def test_windows_have_the_most_frames_of_a_video_for_themselves_and_a_note_says_where_they_are_fewer(
    tmp_path: Path,
) -> None:
    one, made = corpus(tmp_path / "videos", there=darkening(20)), settings(tmp_path / "videos")
    for most, windows, notes in (
        (8, 3, []),
        (4, 1, ["'4 midpoints and every 1 s' instead of '4 midpoints and every 0.5 s'"]),
    ):
        limited = replace(made, rule="4 midpoints", limits=MediaLimits(max_frames=most))
        report = compute_features(one, tmp_path / f"most {most}", Drift(), limited)
        assert load_video_features(tmp_path / f"most {most}", one).frame_mask.sum() == windows
        assert [note for _, note in report.notes if "sampled by" in note] == [
            f"sampled by {note}: at most {2 * most} frames are kept of a video" for note in notes
        ]


def test_windows_are_a_way_of_reading_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that were made of single frames by the same model are not taken for those of windows."""
    one, folder = corpus(tmp_path / "videos", there=darkening(20)), tmp_path / "features"
    with monkeypatch.context() as patch:
        patch.setattr(Drift, "window", WindowRule())
        compute_features(one, folder, Drift(), settings(tmp_path / "videos"))
        before = find_clips(folder, one).fingerprint()
    report = compute_features(one, folder, Drift(), settings(tmp_path / "videos"))
    assert (report.computed, report.unchanged) == (1, 0)
    assert read_manifest(folder).last.frame_window == RULE
    assert find_clips(folder, one).fingerprint() != before
    report = compute_features(one, folder, Drift(), settings(tmp_path / "videos"))
    assert (report.computed, report.unchanged) == (0, 1)


def test_words_on_screen_are_at_the_frames_of_the_rule(tmp_path: Path, quick_text: None) -> None:
    """Their windows are the same as with a model of pictures, whatever the windows of frames."""
    one, made = corpus(tmp_path / "videos", there=darkening(40)), settings(tmp_path / "videos")
    reading = replace(made, rule="every 1 s", read_text=True, windows=4)
    compute_features(one, tmp_path / "still", PixelEncoder(), reading)
    compute_features(one, tmp_path / "moving", Drift(), made)
    compute_features(one, tmp_path / "moving", Drift(), replace(made, rule="every 1 s"))
    compute_features(one, tmp_path / "moving", Drift(), reading)  # the words come later, beside the vectors
    compute_features(one, tmp_path / "at once", Drift(), reading)
    (still,) = [read_shard(path) for path in shard_files(tmp_path / "still" / "clips")]
    (at_once,) = [read_shard(path) for path in shard_files(tmp_path / "at once" / "clips")]
    later = [read_shard(path) for path in shard_files(tmp_path / "moving" / "clips")]
    assert still.tracks and still.text_times_s is None
    for moving in (at_once, *(one for one in later if one.tracks is not None)):
        assert moving.frames is not None and len(moving.frames) == 7
        assert moving.text_times_s is not None
        assert moving.text_times_s.tolist() == still.times_s.tolist() == list(range(8))
        assert moving.window_texts == still.window_texts
        assert Sampled.of_text(moving).spans_s.tolist() == spans(still.times_s, 8.0).tolist()
    assert len([one for one in later if one.tracks is not None]) == 1


def test_times_of_words_go_with_the_words_where_stages_are_put_together() -> None:
    pictures = make_shard()
    assert pictures.tracks is not None
    windows: Shard = replace(pictures, times_s=pictures.times_s + 0.25, tracks=None, reader_id=None)
    joined = merge(windows, pictures)
    assert joined.text_times_s is not None
    assert joined.text_times_s.tolist() == pictures.times_s.tolist()
    assert merge(pictures, windows).text_times_s is None
    assert merge(replace(windows, frames=None), joined).text_times_s is not None
    assert merge(pictures, pictures).text_times_s is None


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
    frames = frames_of(shots)
    found = made(rule, frames)
    assert [window.pixels[:, 0, 0, 0].tolist() for window in found] == expected(rule, [length for length, _ in shots])
    assert {place for window in found for place in range(window.first, window.last + 1)} == set(range(len(frames)))
    assert all(one.first <= one.middle <= one.last for one in found)
    assert all(frames[one.first][0] == frames[one.last][0] for one in found)  # never over a cut


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
