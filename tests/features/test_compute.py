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
from evenreel.errors import EvenreelError, FeaturesError, UsageError
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
from evenreel.media.content import watched_digest
from evenreel.types import Corpus, VideoFeatures
from tests.features.corpora import CAPTIONS, corpus_of, write_corpus
from tests.features.pixel_encoder import DIMENSION, PixelEncoder
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


def test_a_part_of_a_corpus_loads_in_its_own_order(place: Place) -> None:
    place.compute()
    whole = place.load()
    turned = Corpus(place.corpus.clips.reverse().head(3), place.corpus.captions)
    part = place.load(turned)
    assert part.ids == ("d", "c", "b")
    np.testing.assert_array_equal(part.frames, whole.frames[[3, 2, 1], : part.frames.shape[1]])


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


def test_only_what_is_new_is_computed(place: Place) -> None:
    place.compute()
    write_video(place.videos / "new.mp4", 9)
    clips = pl.concat([place.corpus.clips, pl.DataFrame({"clip_id": ["e"], "path": ["new.mp4"]})], how="diagonal")
    place.corpus = corpus_of(clips, [*CAPTIONS, "a new one"])
    encoder = PixelEncoder()
    report = place.compute(encoder)
    assert (report.computed, report.unchanged, report.texts, report.texts_unchanged) == (1, 4, 1, 3)
    assert (encoder.frames_encoded, encoder.captions) == (FRAMES, ["a new one"])


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


def test_a_run_without_the_videos_keeps_every_feature_and_counts_it(place: Place) -> None:
    place.compute()
    old = place.load()
    away = place.videos.rename(place.videos.with_name("unmounted"))
    report = place.compute()
    assert (report.computed, report.unchanged, report.set_aside) == (0, 4, [])
    np.testing.assert_array_equal(place.load().frames, old.frames)
    away.rename(place.videos)
    assert place.compute().unchanged == 4


def test_of_a_video_that_is_gone_only_clips_without_features_are_set_aside(place: Place) -> None:
    place.compute()
    (place.videos / "three.mp4").unlink()
    more = pl.DataFrame({"clip_id": ["e"], "path": ["three.mp4"], "start_s": [3.0]})
    place.corpus = corpus_of(pl.concat([place.corpus.clips, more], how="diagonal"), CAPTIONS)
    for _ in range(2):
        report = place.compute()
        assert (report.computed, report.unchanged) == (0, 4)
        assert [(aside.clip_id, aside.reason) for aside in report.set_aside] == [("e", "unreadable")]
        assert load_video_features(place.folder, place.corpus, leave_out_aside=True).ids == ("a", "b", "c", "d")
    write_video(place.videos / "three.mp4", 2, seconds=4.0)
    assert place.compute().computed == 1
    assert place.load().ids == ("a", "b", "c", "d", "e")


@pytest.mark.parametrize(("column", "value"), [("start_s", 1.5), ("end_s", 2.5)])
def test_another_part_of_the_same_file_is_another_clip(place: Place, column: str, value: float) -> None:
    place.compute()
    other = pl.when(pl.col("clip_id") == "d").then(value).otherwise(pl.col(column))
    place.corpus = corpus_of(place.corpus.clips.with_columns(other.alias(column)), CAPTIONS)
    with pytest.raises(FeaturesError, match="'d'"):
        place.load()
    assert place.compute().computed == 1


def test_another_rule_is_computed_beside_the_first(place: Place) -> None:
    place.compute()
    first = place.load()
    with pytest.raises(FeaturesError, match=r"holds features by '4 midpoints', not by what .* with its --rule"):
        load_video_features(place.folder, place.corpus, rule="3 midpoints")
    assert place.compute(rule="3 midpoints").computed == 4
    assert place.load().frames.shape[1] == 3
    again = load_video_features(place.folder, place.corpus, rule="4 midpoints")
    np.testing.assert_array_equal(again.frames, first.frames)


def test_another_caption_text_has_no_features_until_it_is_encoded(place: Place) -> None:
    place.compute()
    place.corpus = corpus_of(place.corpus.clips, ["a green square", *CAPTIONS[1:]])
    with pytest.raises(FeaturesError, match=r"1 of 4 captions have no up-to-date features .*'a green square'"):
        load_text_features(place.folder, place.corpus)
    assert place.compute().texts == 1
    expected = PixelEncoder().encode_text(["a green square"]).sentence[0].astype(np.float16)
    np.testing.assert_array_equal(load_text_features(place.folder, place.corpus).sentence[0], expected)


def test_another_encoder_is_refused_and_has_a_folder_of_its_own(place: Place) -> None:
    place.compute()
    other = PixelEncoder("b" * 64)
    with pytest.raises(FeaturesError, match="holds features of org/pixels@1, and .* other weights; name another --out"):
        place.compute(other)
    assert feature_folder(Path("corpus"), other) == Path("corpus/features/pixels-bbbbbbbb")
    assert read_manifest(place.folder).weights_hash == "a" * 64


@pytest.mark.parametrize("left", ["clips", "texts"])
def test_files_of_another_encoder_stay_where_the_manifest_is_damaged(place: Place, left: str) -> None:
    place.compute()
    shutil.rmtree(place.folder / ("texts" if left == "clips" else "clips"))
    before = place.files()
    for name, content in [("features.json", "{"), ("files.json", "[]")]:
        (place.folder / name).write_text(content)
    with pytest.raises(FeaturesError, match="holds features of org/pixels@1, and .* other weights; name another --out"):
        place.compute(PixelEncoder("b" * 64))
    assert place.files() == before
    report = place.compute()
    assert (report.unchanged, report.texts_unchanged) == ((4, 0) if left == "clips" else (0, 3))


def test_a_block_of_another_encoder_is_named_and_left(place: Place) -> None:
    from evenreel.features.texts import encode_block, write_block

    place.compute()
    other = PixelEncoder("b" * 64)
    write_block(place.folder, encode_block(["one"], other), other)
    before = place.files()
    with pytest.raises(FeaturesError, match="of org/pixels@1 in float32, another encoder or precision; move the file"):
        place.compute()
    assert place.files() == before


def test_features_of_a_later_version_are_refused(place: Place) -> None:
    place.compute()
    path = place.folder / "features.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    for attempt in (place.load, place.compute):
        with pytest.raises(FeaturesError, match="later version; update evenreel"):
            attempt()


# Damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["clips", "texts"])
@pytest.mark.parametrize("where", [0.02, 0.5, 0.999])
def test_a_flipped_byte_is_found_named_and_computed_anew(place: Place, part: str, where: float) -> None:
    place.compute()
    before = place.files()
    path = sorted((place.folder / part).rglob("*.safetensors"))[0]
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)
    with pytest.raises(EvenreelError, match="run `evenreel features`"):
        place.load()
        load_text_features(place.folder, place.corpus)
    report = place.compute()
    assert report.damaged == [str(path)]
    assert report.computed + report.texts == (1 if part == "clips" else 3)
    assert place.files() == before


def test_a_lost_ledger_costs_a_look_at_the_files_and_no_decoding(place: Place) -> None:
    place.compute()
    (place.folder / "files.json").unlink()
    encoder = PixelEncoder()
    report = place.compute(encoder)
    assert (report.computed, report.unchanged, encoder.frames_encoded) == (0, 4, 0)
    assert place.load().ids == ("a", "b", "c", "d")


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
    with pytest.raises(FeaturesError, match="4 clips were set aside .*leave_out_aside"):
        place.load()
    kept = load_video_features(place.folder, place.corpus, leave_out_aside=True)
    listed = find_clips(place.folder, place.corpus).load()[1]
    assert sorted(listed, key=lambda aside: (aside.path, aside.clip_id)) == report.set_aside
    assert not {aside.clip_id for aside in listed} & set(kept.ids)
    assert kept.ids == ("a", "b", "c", "d")


def test_what_was_set_aside_is_listed_again_and_tried_again_when_changed_or_asked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(place)
    first = place.compute()
    again = place.compute()
    assert again.set_aside == first.set_aside
    assert len(place.compute(retry=True).set_aside) == 4
    write_video(place.videos / "text.mp4", 5)
    write_video(place.videos / "gone.mp4", 6)
    report = place.compute()
    assert report.computed == 2
    assert {aside.clip_id for aside in report.set_aside} == {"nameless", "late"}


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


def test_a_rule_that_is_none_is_refused_before_anything_is_written(place: Place) -> None:
    with pytest.raises(UsageError, match="not a sampling rule"):
        place.compute(rule="now and then")
    assert not place.folder.exists()


def test_two_runs_at_once_are_refused(place: Place) -> None:
    from evenreel.features.lock import writer_lock

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


def test_a_folder_without_features_says_what_to_do(tmp_path: Path, place: Place) -> None:
    for attempt in (load_video_features, load_text_features):
        with pytest.raises(FeaturesError, match="make some with `evenreel features`"):
            attempt(tmp_path / "nothing", place.corpus)


def test_a_corpus_of_no_captions_has_none(place: Place) -> None:
    place.corpus = corpus_of(place.corpus.clips, [])
    place.compute()
    assert load_text_features(place.folder, place.corpus).words.shape == (0, 0, DIMENSION)
