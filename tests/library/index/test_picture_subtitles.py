from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evenreel.library import IndexReport, index_folders
from evenreel.media.workers import Worker
from tests.library.damage import QUICK
from tests.library.index.test_subtitles import said, say, transcripts
from tests.library.videos import write_video
from tests.speech.picture_files import PictureTrack, disc_packets, film_with_pictures
from tests.speech.stub_pictures import TARGET
from tests.speech.subtitle_files import Line

LINES = [Line(500, 1500, "Good morning."), Line(1700, 2400, "The tram is late.")]
FRENCH = PictureTrack("pgs", disc_packets(LINES), "fre")
READ = {"stream 0": ["picture 1", "picture 2"]}
UNREAD = "its subtitles are pictures, and no text in pictures was to be read"


pytestmark = pytest.mark.usefixtures("no_models")


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the stub of the recogniser is told to do."""
    path = tmp_path / "told"
    path.touch()
    monkeypatch.setenv("STUB_PICTURES", str(path))
    monkeypatch.setattr("evenreel.library.index.stages.SUBTITLE_READER", TARGET)
    return path


@pytest.fixture
def videos(tmp_path: Path, told: Path) -> Path:
    write_video(tmp_path / "videos" / "clip_0.mp4", 0)
    film_with_pictures(tmp_path / "videos" / "film.mkv", [FRENCH])
    return tmp_path / "videos"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Names of the videos whose streams a worker was asked for, and whether for those of pictures."""
    found: list[tuple[str, bool]] = []
    run = Worker.run

    def noted(self: Worker, task: dict[str, object], array: object = None) -> object:
        if self._target == TARGET:
            found.append((Path(str(task["path"])).name, bool(task.get("pictures"))))
        return run(self, task)

    monkeypatch.setattr(Worker, "run", noted)
    return found


def index(videos: Path, **changes: object) -> IndexReport:
    return index_folders([videos], videos.parent / "library", replace(QUICK, **changes))


def film_rows(videos: Path) -> list[tuple[str, str | None]]:
    return [(one.origin, one.problem) for one in transcripts(videos, "film.mkv")]


def test_without_text_on_screen_they_wait_for_a_run_that_reads_it(
    videos: Path, tmp_path: Path, asked: list[tuple[str, bool]]
) -> None:
    texts = [(say(tmp_path / "en.srt", "From inside."), "eng")]
    film_with_pictures(videos / "film.mkv", [FRENCH], texts=texts)
    report = index(videos, read_text=False)
    assert (report.subtitles, report.notes) == (
        1,
        [(str(videos / "film.mkv"), f"{UNREAD}; a run without --no-ocr reads them")],
    )
    assert film_rows(videos) == [("0", None), ("unread", UNREAD)]
    assert index(videos, read_text=False).did_nothing
    assert asked == [("film.mkv", False)]
    report = index(videos)
    assert report.subtitles == 1
    assert said(videos, "film.mkv") == {"stream 0": ["From inside."], "stream 1": ["picture 1", "picture 2"]}
    assert film_rows(videos) == [("0", None), ("1", None)]
    assert asked == [("film.mkv", False), ("film.mkv", True)]
    assert index(videos).did_nothing


def test_what_cannot_be_read_costs_itself_and_is_tried_again_when_asked_to(
    videos: Path, told: Path, tmp_path: Path
) -> None:
    film_with_pictures(videos / "film.mkv", [FRENCH], texts=[(say(tmp_path / "en.srt", "From inside."), "eng")])
    told.write_text("refuse")
    report = index(videos)
    assert report.notes == [
        (str(videos / "film.mkv"), "its subtitles in pictures cannot be read: these pictures are none")
    ]
    assert film_rows(videos) == [("0", None), ("pictures", "these pictures are none")]
    told.write_text("")
    assert index(videos).did_nothing
    assert index(videos, retry=True).subtitles == 1
    assert said(videos, "film.mkv") == {"stream 0": ["From inside."], "stream 1": ["picture 1", "picture 2"]}
    assert index(videos, retry=True).did_nothing


def test_a_reader_that_the_system_stopped_is_asked_again_at_the_next_run(videos: Path, told: Path) -> None:
    told.write_text("die")
    report = index(videos)
    assert "the system stopped its reader" in report.notes[0][1]
    assert said(videos, "film.mkv") == {}
    told.write_text("")
    assert index(videos).subtitles == 1
    assert said(videos, "film.mkv") == READ
