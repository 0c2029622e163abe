from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenreel import open_library
from evenreel.config import IndexSettings, Machines, MediaLimits
from evenreel.errors import UsageError
from evenreel.features.pool import Brake, Forecast, NoProgress, RunHaltedError, VideoProgress
from evenreel.library import IndexReport, index_folders, verify
from evenreel.library.index import run, stages
from evenreel.library.index.run import RunParts, index_found, measure_lengths
from evenreel.library.index.scan import scan
from evenreel.library.index.stages import VideoMeter
from evenreel.library.store import catalog
from evenreel.media.workers import Worker
from evenreel.speech.subtitles import Subtitles, read_with
from tests.library.state import state
from tests.library.stub_models import load
from tests.library.videos import write_video

SETTINGS = IndexSettings(model="org/pixels", workers=2)


class Telling(NoProgress):
    def __init__(self) -> None:
        self.foretold: list[Forecast] = []
        self.told: list[VideoProgress] = []

    def forecast(self, forecast: Forecast) -> None:
        self.foretold.append(forecast)

    def video(self, progress: VideoProgress) -> None:
        self.told.append(progress)


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch, quick_text: None) -> Iterator[None]:
    monkeypatch.setattr("evenreel.encoders.load_encoder", load)
    yield


def index(videos: Path, library: Path, progress: NoProgress | None = None, **changes: Any) -> IndexReport:
    return index_folders([videos], library, replace(SETTINGS, **changes), progress=progress)


def counts(report: IndexReport) -> tuple[int, int, int, int, list[tuple[str, str]]]:
    return report.indexed, report.recognised, report.frames, report.newly_aside, report.notes


def spoil(videos: Path) -> None:
    """A file that is none, and a copy of a clip."""
    (videos / "torn.mp4").write_bytes(b"no video" * 100)
    (videos / "copy.mp4").write_bytes((videos / "clip_00.mp4").read_bytes())


def test_two_passes_end_where_one_does(videos: Path, library: Path, tmp_path: Path) -> None:
    spoil(videos)
    progress = Telling()
    one, two = index(videos, tmp_path / "one", passes=1), index(videos, library, progress, passes=2)
    assert counts(one) == counts(two) == (4, 1, 8, 1, one.notes)
    assert state(library) == state(tmp_path / "one")
    assert verify(library) == []
    assert list(dict.fromkeys(told.stage for told in progress.told)) == ["pictures", "words"]
    assert index(videos, library, passes=2).did_nothing


def test_without_a_model_only_words_are_said_to_be_read(videos: Path, library: Path) -> None:
    index(videos, library, progress := Telling(), model=None)
    assert {told.stage for told in progress.told} == {"words"}


def test_a_clip_is_searched_by_its_pictures_before_any_words_are_read(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[tuple[int, int, int]]()
    begin = stages.ReadingStage.begin_pass

    def look(self: stages.ReadingStage, title: str, lengths_s: dict[str, float]) -> None:
        if title == stages.WORDS and lengths_s:
            with open_library(library) as opened:
                found = opened.search("red")
                seen.append((sum(hit.weaker is not None for hit in found.hits), len(found.hits), opened.stats().tracks))
        begin(self, title, lengths_s)

    monkeypatch.setattr(stages.ReadingStage, "begin_pass", look)
    index(videos, library, passes=2)
    ((measured, hits, tracks),) = seen
    assert (hits, tracks) == (4, 0)
    assert measured == 4  # how nonsense scores is known by then
    with open_library(library, vision=False) as opened:
        assert opened.stats().tracks == 4


@pytest.mark.parametrize("after", range(1, 8))
def test_hazard_132_a_run_that_ends_between_or_in_the_passes_is_gone_on_with(
    videos: Path, library: Path, tmp_path: Path, after: int
) -> None:
    class Interrupting(NoProgress):
        def file_done(self, path: str) -> None:
            done.append(path)
            if len(done) == after:
                raise KeyboardInterrupt

    done = list[str]()
    with pytest.raises(KeyboardInterrupt):
        index(videos, library, Interrupting(), passes=2, workers=1)
    index(videos, library, passes=2)
    index(videos, tmp_path / "clean", passes=1)
    assert state(library) == state(tmp_path / "clean")


def test_a_brake_ends_a_run_after_the_file_at_hand_and_the_next_goes_on(
    videos: Path, library: Path, tmp_path: Path
) -> None:
    class Easing(NoProgress):
        def file_done(self, path: str) -> None:
            brake.ease()

    brake = Brake()
    settings = replace(SETTINGS, passes=2, workers=1)
    report = index_found(library, settings, scan([videos]), parts=RunParts(Easing(), brake=brake))
    assert report.unfinished
    assert 1 <= report.indexed < 4
    assert verify(library) == []
    assert not index(videos, library).unfinished
    index(videos, tmp_path / "clean")
    assert state(library) == state(tmp_path / "clean")


class EasingIn(NoProgress):
    """Eases a brake after the first item of a stage."""

    def __init__(self, stage: str, brake: Brake) -> None:
        self._wanted, self._brake, self._stage = stage, brake, ""

    def stage(self, name: str, total: int | None = None) -> None:
        self._stage = name

    def advance(self, count: int) -> None:
        if self._stage == self._wanted:
            self._brake.ease()


def test_a_brake_ends_the_reading_of_subtitles_which_are_read_next_time(
    videos: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for clip in videos.glob("*.mp4"):
        clip.with_suffix(".srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nhello\n", encoding="utf-8")
    found = scan([videos])
    easing, halting = Brake(), Brake()
    parts = RunParts(EasingIn("reading subtitles", easing), brake=easing)
    report = index_found(library, SETTINGS, found, parts=parts)
    read = report.subtitles  # one more may be read by the time the first is stored
    assert report.unfinished and 1 <= read <= 2

    def halted(worker: Worker, *arguments: Any) -> list[Subtitles]:
        halting.halt()
        return read_with(worker, *arguments)

    with monkeypatch.context() as patch, pytest.raises(RunHaltedError):
        patch.setattr(stages, "read_with", halted)
        index_found(library, SETTINGS, found, parts=RunParts(brake=halting))
    report = index(videos, library)
    assert (report.unfinished, report.subtitles, report.set_aside) == (False, 4 - read, [])
    index(videos, tmp_path / "clean")
    assert state(library) == state(tmp_path / "clean")


def test_much_video_is_foretold_and_read_pictures_first(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits are lowered to what a test can read: much is ten seconds, and a stretch a quarter of a second."""
    monkeypatch.setattr("evenreel.library.index.run.LONG_S", 10.0)
    monkeypatch.setattr(run, "PATIENCE_S", float("inf"))
    monkeypatch.setattr(run, "SMALL_BYTES", 1)
    monkeypatch.setattr("evenreel.library.index.run.STRETCH_S", 0.25)
    monkeypatch.setattr("evenreel.library.index.run.WARM_UP_S", 0.25)
    for number in range(3):
        write_video(tmp_path / "videos" / f"{number}.mp4", number, seconds=4.0)
    progress = Telling()
    assert index(tmp_path / "videos", library, progress).frames == 12  # without those of the stretches
    (foretold,) = progress.foretold
    assert (foretold.files, foretold.sure, foretold.hears) == (3, True, False)
    assert foretold.video_s == pytest.approx(12.0)
    assert foretold.pictures_s is not None and foretold.pictures_s > 0
    assert foretold.words_s is not None and foretold.words_s > 0
    for stage in ("pictures", "words"):
        told = [one for one in progress.told if one.stage == stage]
        assert [one.done_s for one in told] == sorted(one.done_s for one in told)
        last = told[-1]
        assert (last.files_done, last.files) == (3, 3)
        assert (last.done_s, last.total_s) == pytest.approx((12.0, 12.0))


@pytest.mark.parametrize(
    ("passes_asked", "machines", "sentence"),
    [(3, None, "1 pass or in 2"), (-1, None, "1 pass or in 2"), (2, Machines(ray="local"), "--ray")],
)
def test_a_number_of_passes_that_there_is_not_is_refused(
    videos: Path, library: Path, passes_asked: int, machines: Machines | None, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        index_folders([videos], library, replace(SETTINGS, passes=passes_asked), machines=machines)
    assert not library.exists()


# how long the files are ------------------------------------------------------------------------------------------


def test_lengths_are_of_headers_then_of_the_catalog_and_estimates_by_bytes(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    videos = tmp_path / "videos"
    for number, seconds in enumerate((1.0, 2.0, 4.0)):
        write_video(videos / f"{number}.mp4", number, seconds=seconds)
    (videos / "torn.mp4").write_bytes(b"no video" * 100)
    monkeypatch.setattr(run, "SMALL_BYTES", 1)
    monkeypatch.setattr(run, "PATIENCE_S", float("inf"))
    found, whole = scan([videos]).files, {"0.mp4": 1.0, "1.mp4": 2.0, "2.mp4": 4.0, "torn.mp4": 0.0}
    with catalog.open_for_writing(library) as connection:
        measured = measure_lengths(found, connection, MediaLimits())
        assert {Path(path).name: length_s for path, length_s in measured.by_path.items()} == pytest.approx(whole)
        assert measured.sure
        monkeypatch.setattr(run, "PATIENCE_S", -1.0)
        hurried = measure_lengths(found, connection, MediaLimits())
    assert (hurried.sure, hurried.video_s) == (False, 0.0)  # nothing to estimate by
    index(videos, library, read_text=False)
    write_video(videos / "new.mp4", 9, seconds=2.0)
    monkeypatch.setattr(run, "HEADER_READER", "nobody:Reads")  # what is known is not read
    with catalog.open_for_writing(library) as connection:
        again = measure_lengths(scan([videos]).files, connection, MediaLimits())
    known = [file for file in found if file.path in again.by_path and "torn" not in file.path]
    rate = 7.0 / sum(file.stamp.size for file in known)
    sizes = {file.path: file.stamp.size for file in scan([videos]).files}
    assert again.by_path[str(videos / "new.mp4")] == pytest.approx(rate * sizes[str(videos / "new.mp4")])
    assert not again.sure


def test_a_meter_adds_up_what_is_read_and_corrects_what_was_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "TELL_S", 0.0)
    progress = Telling()
    meter = VideoMeter("pictures", {"/a": 10.0, "/b": 0.0}, progress)
    meter.read("/a", 4.0)
    meter.read("/a", 3.0)  # a frame that came late
    meter.finish("/a", 8.0)
    meter.finish("/b")  # set aside
    meter.finish("/b")
    last = progress.told[-1]
    assert (last.done_s, last.total_s, last.files_done, last.files, last.file) == (8.0, 8.0, 2, 2, "/a")
    meter = VideoMeter("pictures", {"/a": 0.0, "/b": 0.0, "/c": 0.0}, progress)
    meter.read("/a", 4.0)
    assert progress.told[-1].total_s == 0.0  # no length is known yet
    meter.finish("/a", 6.0)
    assert (progress.told[-1].done_s, progress.told[-1].total_s) == (6.0, 18.0)  # the others are taken for as long
    for path, length_s in (("/b", 2.0), ("/c", 1.0)):
        meter.finish(path, length_s)
    assert (progress.told[-1].done_s, progress.told[-1].total_s) == (9.0, 9.0)
    longer = VideoMeter("words", {"/a": 1.0}, progress)
    longer.read("/a", 5.0)
    longer.finish("/a")
    assert (progress.told[-1].done_s, progress.told[-1].total_s) == (5.0, 5.0)
