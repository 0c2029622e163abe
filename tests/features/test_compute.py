"""Features are those of media and encoder called by hand; nothing is done twice, nothing stale is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.config import MediaLimits
from evenreel.errors import FeaturesError
from evenreel.features import (
    FeatureReport,
    FeatureSettings,
    compute_features,
    feature_folder,
    find_clips,
    load_text_features,
    load_video_features,
    read_manifest,
)
from evenreel.features.compute import FeatureJob
from evenreel.media import open_video, parse_rule
from evenreel.media.workers import watched_digest
from evenreel.types import Corpus, VideoFeatures
from tests.features.corpora import CAPTIONS, corpus_of, write_corpus
from tests.features.pixel_encoder import PixelEncoder
from tests.library.videos import write_video

FRAMES = 4


class Place:
    """A corpus, its videos and its features."""

    def __init__(self, root: Path) -> None:
        self.videos, self.folder = root / "videos", root / "features"
        self.corpus = write_corpus(self.videos)
        self.settings = FeatureSettings(rule=f"{FRAMES} midpoints", read_text=False, videos=self.videos, workers=1)

    def compute(
        self, encoder: PixelEncoder | None = None, words: pl.DataFrame | None = None, **changes: object
    ) -> FeatureReport:
        settings = replace(self.settings, **changes)  # type: ignore[arg-type]
        return compute_features(self.corpus, self.folder, encoder or PixelEncoder(), settings, words=words)

    def load(self, corpus: Corpus | None = None) -> VideoFeatures:
        return load_video_features(self.folder, corpus or self.corpus)

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.folder)): path.read_bytes() for path in sorted(self.folder.rglob("*.safetensors"))
        }


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def by_hand(path: Path, rule: str, start_s: float = 0.0, end_s: float = 99.0) -> tuple[np.ndarray, np.ndarray]:
    """Times and features of the frames on screen at the rule's moments, by decoding everything."""
    with open_video(path) as video:
        frames = list(video.frames(parse_rule("every 0.01 s")))
        end_s = min(end_s, video.info.duration_s or 0.0)
    chosen = parse_rule(rule)
    moments = [moment for moment, _ in zip(chosen.times(start_s, end_s), range(1000), strict=False) if moment < end_s]
    shown = [max(f for f in range(len(frames)) if frames[f].time_s <= moment + 1e-6) for moment in moments]
    kept = [frames[number] for number in dict.fromkeys(shown)]
    pixels = np.stack([frame.pixels for frame in kept]).transpose(0, 3, 1, 2)
    times = [max(0.0, frame.time_s - start_s) for frame in kept]
    return np.array(times), PixelEncoder().encode_windows(pixels[:, None]).astype(np.float16)


@pytest.mark.parametrize("rule", ["4 midpoints", "every 0.7 s"])
def test_frames_and_times_are_those_read_by_hand_also_of_parts(place: Place, rule: str) -> None:
    report = place.compute(rule=rule)
    assert (report.computed, report.set_aside, report.damaged) == (4, [], [])
    loaded = place.load()
    parts = {"a": ("one", 0.0, 99.0), "b": ("two", 0.0, 99.0), "c": ("three", 0.0, 2.0), "d": ("three", 1.0, 30.0)}
    assert loaded.ids == tuple(parts)
    for row, (name, start_s, end_s) in enumerate(parts.values()):
        times, frames = by_hand(place.videos / f"{name}.mp4", rule, start_s, end_s)
        mask = loaded.frame_mask[row]
        assert mask.sum() == len(times)
        np.testing.assert_allclose(loaded.times_s[row][mask], times, atol=1e-9)
        np.testing.assert_array_equal(loaded.frames[row][mask], frames)
        assert not loaded.frames[row][~mask].any()
    assert loaded.frames.dtype == np.float16
    assert loaded.on_screen is None


def test_captions_are_encoded_once_a_text_and_come_back_in_order(place: Place) -> None:
    encoder = PixelEncoder()
    report = place.compute(encoder)
    assert sorted(encoder.captions) == sorted(set(CAPTIONS))
    assert (report.texts, report.texts_unchanged) == (3, 0)
    loaded = load_text_features(place.folder, place.corpus)
    assert loaded.ids == ("0", "1", "2", "3")
    for row, text in enumerate(CAPTIONS):
        expected = PixelEncoder().encode_text([text])
        mask = loaded.word_mask[row]
        np.testing.assert_array_equal(loaded.words[row][mask], expected.words[0].astype(np.float16))
        np.testing.assert_array_equal(loaded.sentence[row], expected.sentence[0].astype(np.float16))
        assert not loaded.words[row][~mask].any()


def test_a_second_run_decodes_and_encodes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.compute()
    before = place.files()
    monkeypatch.setattr("evenreel.features.pool.watched_digest", lambda path, *_: pytest.fail(f"{path} was read"))
    encoder = PixelEncoder()
    report = place.compute(encoder)
    assert (report.computed, report.unchanged, report.texts, report.texts_unchanged) == (0, 4, 0, 3)
    assert (encoder.frames_encoded, encoder.captions) == (0, [])
    assert place.files() == before


def test_a_hollow_video_is_set_aside_at_the_limit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def soon(path: str, timeout_s: float, stopped: Callable[[], bool]) -> str:
        return watched_digest(path, timeout_s / 60, stopped)

    monkeypatch.setattr("evenreel.features.pool.watched_digest", soon)
    (place.videos / "one.mp4").write_bytes(b"ftyp")
    os.truncate(place.videos / "one.mp4", 300 * 2**30)
    report = place.compute()
    assert (report.computed, [(one.clip_id, one.reason) for one in report.set_aside]) == (3, [("a", "timeout")])


def test_clips_of_equal_content_share_a_shard(place: Place) -> None:
    shutil.copy(place.videos / "one.mp4", place.videos / "copy.mp4")
    clips = pl.DataFrame({"clip_id": ["a", "b", "c"], "path": ["one.mp4", "one.mp4", "copy.mp4"]})
    place.corpus = corpus_of(clips, ["x"])
    encoder = PixelEncoder()
    place.compute(encoder)
    assert encoder.frames_encoded == FRAMES
    loaded = place.load()
    np.testing.assert_array_equal(loaded.frames[0], loaded.frames[2])


# Nothing stale is read ---------------------------------------------------------------------------------------------


def test_an_edited_file_is_noticed_by_loading_and_computed_anew(place: Place) -> None:
    place.compute()
    old = place.load()
    write_video(place.videos / "one.mp4", 77, seconds=4.0)
    with pytest.raises(FeaturesError, match=r"1 of 4 clips have no up-to-date features .*'a'.*again"):
        place.load()
    assert place.compute().computed == 1
    new = place.load()
    assert not np.array_equal(old.frames[0], new.frames[0])
    np.testing.assert_array_equal(old.frames[1:], new.frames[1:])


def test_a_file_that_is_only_touched_or_gone_keeps_its_features(place: Place) -> None:
    place.compute()
    old = place.load()
    os.utime(place.videos / "one.mp4", (0, 0))
    (place.videos / "two.mp4").unlink()
    np.testing.assert_array_equal(place.load().frames, old.frames)


@pytest.mark.parametrize(("column", "value"), [("start_s", 1.5), ("end_s", 2.5)])
def test_another_part_of_the_same_file_is_another_clip(place: Place, column: str, value: float) -> None:
    place.compute()
    other = pl.when(pl.col("clip_id") == "d").then(value).otherwise(pl.col(column))
    place.corpus = corpus_of(place.corpus.clips.with_columns(other.alias(column)), CAPTIONS)
    with pytest.raises(FeaturesError, match="'d'"):
        place.load()
    assert place.compute().computed == 1


def test_another_encoder_is_refused_and_has_a_folder_of_its_own(place: Place) -> None:
    place.compute()
    other = PixelEncoder("b" * 64)
    with pytest.raises(FeaturesError, match="holds features of org/pixels@1, and .* other weights; name another --out"):
        place.compute(other)
    assert feature_folder(Path("corpus"), other) == Path("corpus/features/pixels-bbbbbbbb")
    assert read_manifest(place.folder).weights_hash == "a" * 64


# Damage ------------------------------------------------------------------------------------------------------------


# Videos that cannot be used ----------------------------------------------------------------------------------------


def spoil(place: Place) -> None:
    """Add a clip without a path, one whose file is missing, one that is no video and one after its file's end."""
    (place.videos / "text.mp4").write_text("not a video")
    more = pl.DataFrame(
        {
            "clip_id": ["nameless", "gone", "text", "late"],
            "path": [None, "gone.mp4", "text.mp4", "one.mp4"],
            "start_s": [None, None, None, 60.0],
        }
    )
    place.corpus = corpus_of(pl.concat([place.corpus.clips, more], how="diagonal"), CAPTIONS)


def test_unusable_clips_are_set_aside_with_the_reason_and_the_rest_goes_on(place: Place) -> None:
    spoil(place)
    report = place.compute()
    assert report.computed == 4
    reasons = {aside.clip_id: aside.reason for aside in report.set_aside}
    assert reasons == {"nameless": "unreadable", "gone": "unreadable", "text": "not_media", "late": "no_frames"}
    assert all(aside.sentence for aside in report.set_aside)
    with pytest.raises(FeaturesError, match="4 clips were skipped .*leave_out_aside"):
        place.load()
    kept = load_video_features(place.folder, place.corpus, leave_out_aside=True)
    listed = find_clips(place.folder, place.corpus).load()[1]
    assert sorted(listed, key=lambda aside: (aside.path, aside.clip_id)) == report.set_aside
    assert not {aside.clip_id for aside in listed} & set(kept.ids)
    assert kept.ids == ("a", "b", "c", "d")


def test_a_decoder_that_hangs_or_crashes_costs_its_clip(place: Place) -> None:
    for number, name in enumerate(["crash", "good", "hang"]):
        write_video(place.videos / f"{name}.mp4", number)
    place.compute()

    def run(limits: MediaLimits, *names: str) -> FeatureReport:
        corpus = corpus_of(pl.DataFrame({"clip_id": names, "path": [f"{name}.mp4" for name in names]}), CAPTIONS)
        settings = replace(place.settings, limits=limits)
        return FeatureJob(
            place.folder, PixelEncoder(), settings, _Silent(), "tests.library.stub_reader:StubReader"
        ).run(corpus)

    report = run(MediaLimits(), "crash", "good")
    assert report.computed == 1
    assert {aside.clip_id: aside.reason for aside in report.set_aside} == {"crash": "crashed"}
    report = run(MediaLimits(stall_timeout_s=1), "hang")
    assert {aside.clip_id: aside.reason for aside in report.set_aside} == {"hang": "timeout"}


class _Silent:
    def begin(self, files: int) -> None: ...
    def frame(self) -> None: ...
    def file_done(self, path: str) -> None: ...
    def stage(self, name: str, count: int | None = None) -> None: ...
    def advance(self, steps: int) -> None: ...
    def forecast(self, forecast: object) -> None: ...
    def video(self, progress: object) -> None: ...


def test_a_file_that_changes_while_it_is_read_is_set_aside(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.features.clip_reader.stamp", lambda path: None)
    report = place.compute()
    assert {aside.reason for aside in report.set_aside} == {"changed_while_reading"}
    monkeypatch.undo()
    assert place.compute().computed == 4


def test_two_runs_at_once_are_refused(place: Place) -> None:
    from evenreel.features.pool import writer_lock

    with (
        writer_lock(place.folder, FeaturesError, "wait"),
        pytest.raises(FeaturesError, match=f"being written by process {os.getpid()} .*name another --out"),
    ):
        place.compute()


def test_a_full_disk_is_one_sentence_and_what_was_done_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenreel.files import write_durably

    def full(path: Path, payload: bytes) -> None:
        if len(list((place.folder / "clips").rglob("*.safetensors"))) == 2:
            raise OSError(28, "No space left on device")
        write_durably(path, payload)

    monkeypatch.setattr("evenreel.features.shards.write_durably", full)
    with pytest.raises(FeaturesError, match="No space left on device"):
        place.compute()
    monkeypatch.undo()
    report = place.compute()
    assert (report.computed, report.unchanged) == (2, 2)
