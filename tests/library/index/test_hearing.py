from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evenreel import open_library
from evenreel.config import Machines
from evenreel.errors import LibraryError
from evenreel.library import IndexReport, index_folders, verify
from evenreel.library.index import spread
from evenreel.speech import Transcript
from tests.library.damage import QUICK
from tests.library.index.test_subtitles import say
from tests.library.machines import here
from tests.library.state import state
from tests.sound_files import Track, bursts, write_sound
from tests.speech.loud import TARGET
from tests.speech.speech_models import write_onnx
from tests.speech.subtitle_files import film_with_subtitles

pytestmark = pytest.mark.usefixtures("no_models")


@pytest.fixture(autouse=True)
def _detector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is loud is speech."""
    monkeypatch.setattr("evenreel.speech.recogniser.TARGET", TARGET)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("models")
    words = (("hello", "you"), ("good", "evening"))
    return [
        str(write_onnx(folder / first, {3: f"▁{first}", 9: f"▁{then}"}, vocabulary=(f"▁{first}", f"▁{then}")))
        for first, then in words
    ]


def film(path: Path, start_s: float = 0.5) -> Path:
    """Two seconds of pictures, and a sound that is taken for speech at a time."""
    path.parent.mkdir(exist_ok=True)
    return write_sound(path, [Track(bursts([start_s, start_s + 0.2], 2.0), codec="flac")])


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    film(tmp_path / "videos" / "a.mkv", 0.5)
    film(tmp_path / "videos" / "b.mkv", 0.7)
    return tmp_path / "videos"


def index(videos: Path, **changes: object) -> IndexReport:
    return index_folders([videos], videos.parent / "library", replace(QUICK, **changes))


def heard(videos: Path, clip: str) -> list[Transcript]:
    with open_library(videos.parent / "library", vision=False) as opened:
        return [one for one in opened.transcripts(str(videos / clip)) if one.source == "recognised"]


def words(videos: Path, clip: str) -> list[str]:
    return [utterance.text for one in heard(videos, clip) for utterance in one.utterances]


def test_clips_are_heard_once_and_new_ones_by_the_librarys_own_model(videos: Path, models: list[str]) -> None:
    report = index(videos, speech=models[0])
    assert (report.indexed, report.heard, report.set_aside, report.notes) == (2, 2, [], [])
    (found,) = heard(videos, "a.mkv")
    assert (found.origin, found.problem, words(videos, "b.mkv")) == (models[0], None, ["hello you"])
    (said,) = found.utterances
    assert said.source == "recognised"
    assert [word.text for word in said.words] == ["hello", "you"]
    assert said.start_s == pytest.approx(0.1 + 3 * 0.08, abs=0.05)  # 0.4 s before the sound, and three steps
    assert verify(videos.parent / "library") == []

    assert index(videos).did_nothing
    film(videos / "c.mkv", 0.9)
    report = index(videos)
    assert (report.indexed, report.heard) == (1, 1)
    assert words(videos, "c.mkv") == ["hello you"]
    with open_library(videos.parent / "library", vision=False) as opened:
        assert len(opened.search("hello you").hits) == 3


def write_clips_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.library.index.stages.SpeechStage.put", lambda *_: pytest.fail("it is written again"))


def test_a_new_clip_is_heard_while_it_is_read_and_stored_at_once(
    videos: Path, models: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_clips_once(monkeypatch)
    say(videos / "b.srt", "It is written down.")
    assert index(videos, speech=models[0]).heard == 1
    assert (words(videos, "a.mkv"), heard(videos, "b.mkv")) == (["hello you"], [])


def test_in_two_passes_clips_are_heard_while_their_words_are_read(
    videos: Path, models: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library is that of one pass; nothing is heard with the pictures, and what was heard is stored at once."""
    one = index_folders([videos], videos.parent / "one", replace(QUICK, speech=models[0], passes=1))
    write_clips_once(monkeypatch)
    report = index(videos, speech=models[0], passes=2)
    assert (report.indexed, report.heard, report.notes) == (one.indexed, one.heard, one.notes) == (2, 2, [])
    assert words(videos, "a.mkv") == ["hello you"]
    assert state(videos.parent / "library") == state(videos.parent / "one")


def test_subtitles_that_say_nothing_leave_the_clip_to_be_heard(videos: Path, models: list[str]) -> None:
    (videos / "a.srt").write_text("1\n00:00:00,100 --> 00:00:00,900\n\u266a\n")
    assert index(videos, speech=models[0]).heard == 2
    assert words(videos, "a.mkv") == words(videos, "b.mkv") == ["hello you"]


def test_streams_of_subtitles_are_read_before_a_clip_is_heard(tmp_path: Path, models: list[str]) -> None:
    videos, cues = tmp_path / "videos", tmp_path / "cues.srt"
    videos.mkdir()
    say(cues, "It is written down.")
    film_with_subtitles(videos / "said.mkv", [(cues, "eng")])
    report = index(videos, speech=models[0])
    assert (report.indexed, report.subtitles, report.heard) == (1, 1, 0)


def test_workers_of_other_machines_hear_as_this_one_does(
    videos: Path, models: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_sound(videos / "rare.avi", [Track(bursts([0.5], 2.0), codec="adpcm_yamaha")])
    say(videos / "b.srt", "It is written down.")
    settings = replace(QUICK, speech=models[0])
    alone = index_folders([videos], tmp_path / "alone", settings)
    monkeypatch.setattr(spread, "driven", here.driven)
    monkeypatch.setattr("evenreel.library.index.stages.SpeechStage.begin", lambda *_: False)
    together = index_folders([videos], tmp_path / "together", settings, machines=Machines(ray="local"))
    assert (together.heard, together.notes) == (alone.heard, alone.notes)
    assert len(alone.notes) == 1
    assert state(tmp_path / "alone") == state(tmp_path / "together")


def test_a_worker_that_lacks_the_model_says_so(
    videos: Path, models: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "driven", here.driven)
    monkeypatch.setattr(here, "told", {"settings": {"speech": str(videos)}})
    settings = replace(QUICK, speech=models[0])
    with pytest.raises(LibraryError, match="cannot hear what is said: .* is no model of speech"):
        index_folders([videos], videos.parent / "library", settings, machines=Machines(ray="local"))


def test_a_later_run_adds_speech_without_decoding_pictures(videos: Path, models: list[str]) -> None:
    assert index(videos).heard == 0
    assert heard(videos, "a.mkv") == []
    assert index(videos, speech=None).did_nothing
    report = index(videos, speech=models[0])
    assert (report.indexed, report.frames, report.heard, report.did_nothing) == (0, 0, 2, False)
    film(videos / "c.mkv", 0.9)
    assert index(videos, speech=None).heard == 0


def test_another_model_takes_the_place_of_the_first(videos: Path, models: list[str]) -> None:
    index(videos, speech=models[0])
    assert index(videos, speech=models[1]).heard == 2
    assert words(videos, "a.mkv") == ["good evening"]
    with open_library(videos.parent / "library", vision=False) as opened:
        assert not opened.search("hello").hits
        assert len(opened.search("evening").hits) == 2
    assert verify(videos.parent / "library") == []


def test_films_without_sound_stay_found_and_are_not_tried_again(videos: Path, models: list[str]) -> None:
    write_sound(videos / "silent.mp4", [], pictures_s=1)
    report = index(videos, speech=models[0])
    assert (report.indexed, report.heard, report.set_aside, report.notes) == (3, 3, [], [])
    (found,) = heard(videos, "silent.mp4")
    assert (found.utterances, found.problem) == ((), "it has no sound stream")
    assert index(videos).did_nothing
    assert index(videos, retry=True).heard == 1


def test_a_librarys_model_that_is_gone_hears_no_new_clips(
    videos: Path, models: list[str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    folder = Path(models[0]).rename(tmp_path / "lent")
    index(videos, speech=str(folder))
    folder.rename(models[0])
    film(videos / "c.mkv", 0.9)
    assert index(videos).heard == 0
    assert "is not on this machine, so new clips are not heard" in caplog.text
