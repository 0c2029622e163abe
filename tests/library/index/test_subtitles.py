from __future__ import annotations

import os
from pathlib import Path

import pytest

from evenreel import open_library
from evenreel.library import IndexReport, index_folders, verify
from evenreel.library.index.stages import SUBTITLE_READER
from evenreel.media.workers import Worker
from evenreel.speech import Transcript
from tests.library.damage import QUICK
from tests.library.videos import write_video
from tests.speech.subtitle_files import Line, film_with_subtitles, written

pytestmark = pytest.mark.usefixtures("no_models")


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    for number in range(2):
        write_video(tmp_path / "videos" / f"clip_{number}.mp4", number)
    return tmp_path / "videos"


def say(path: Path, *lines: str, start_ms: int = 200, speaker: str = "") -> Path:
    path.parent.mkdir(exist_ok=True)
    cues = [Line(start_ms + 500 * n, start_ms + 500 * n + 400, words, speaker) for n, words in enumerate(lines)]
    path.write_text(written(path.suffix, cues), encoding="utf-8")
    return path


def index(videos: Path) -> IndexReport:
    return index_folders([videos], videos.parent / "library", QUICK)


def said(videos: Path, clip: str = "clip_0.mp4") -> dict[str, list[str]]:
    """What each source says: the name of its file, or `stream` and its number."""
    return {
        (Path(one.origin).name if one.source == "sidecar" else f"stream {one.origin}"): [
            utterance.text for utterance in one.utterances
        ]
        for one in transcripts(videos, clip)
        if one.utterances
    }


def transcripts(videos: Path, clip: str = "clip_0.mp4") -> tuple[Transcript, ...]:
    with open_library(videos.parent / "library", vision=False) as opened:
        return opened.transcripts(str(videos / clip))


def frames_read(report: IndexReport) -> tuple[int, int]:
    return report.indexed, report.frames


def test_files_beside_a_video_are_read_with_it_and_followed_after(videos: Path) -> None:
    english = say(videos / "clip_0.en.vtt", "Good morning.", "The tram is late.", speaker="Ann")
    say(videos / "Subs" / "clip_0.de.srt", "Guten Morgen.")
    say(videos / "clip_7.srt", "of no video")
    report = index(videos)
    assert (report.indexed, report.subtitles, report.set_aside, report.other_files) == (2, 2, [], 0)
    assert said(videos) == {"clip_0.de.srt": ["Guten Morgen."], "clip_0.en.vtt": ["Good morning.", "The tram is late."]}
    (german, spoken) = [one for one in transcripts(videos) if one.utterances]
    assert (german.language, spoken.language) == ("de", "en")
    assert [(one.start_s, one.end_s, one.speaker) for one in spoken.utterances] == [
        (0.2, 0.6, "Ann"),
        (0.7, 1.1, "Ann"),
    ]
    assert said(videos, "clip_1.mp4") == {}
    assert verify(videos.parent / "library") == []

    assert index(videos).did_nothing
    say(english, "Good evening.")
    report = index(videos)
    assert (frames_read(report), report.subtitles, report.did_nothing) == ((0, 0), 1, False)
    assert said(videos) == {"clip_0.de.srt": ["Guten Morgen."], "clip_0.en.vtt": ["Good evening."]}

    english.unlink()
    say(videos / "clip_1.ass", "One more.")
    report = index(videos)
    assert (frames_read(report), report.subtitles, report.subtitles_gone) == ((0, 0), 1, 1)
    assert said(videos) == {"clip_0.de.srt": ["Guten Morgen."]}
    assert said(videos, "clip_1.mp4") == {"clip_1.ass": ["One more."]}
    assert verify(videos.parent / "library") == []


def test_nothing_is_started_where_there_is_nothing_to_read(videos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    start = Worker._start
    monkeypatch.setattr(Worker, "_start", lambda self: started.append(self._target) or start(self))
    index(videos)
    index(videos)
    say(videos / "clip_0.srt", "Now there is.")
    index(videos)
    assert [target for target in started if "subtitle" in target] == [SUBTITLE_READER]


def test_a_video_that_moves_with_its_subtitles_is_followed(videos: Path) -> None:
    say(videos / "clip_0.srt", "Here.")
    index(videos)
    for suffix in (".mp4", ".srt"):
        (videos / f"clip_0{suffix}").rename(videos / f"renamed{suffix}")
    report = index(videos)
    assert (frames_read(report), report.moved, report.subtitles) == ((0, 0), 1, 1)
    assert said(videos, "renamed.mp4") == {"renamed.srt": ["Here."]}


def test_a_file_that_cannot_be_read_is_set_aside_and_its_video_stays(videos: Path) -> None:
    bad = videos / "clip_0.srt"
    bad.write_text("no cue at all")
    say(videos / "clip_1.srt", "much later", start_ms=60_000)
    say(videos / "clip_1.en.srt", "in time", "still in time", start_ms=1400)
    (videos / "clip_1.en.srt").write_text((videos / "clip_1.en.srt").read_text() + "9\n00:09:00,000 --> soon\nlost\n")
    report = index(videos)
    assert (report.indexed, report.newly_aside) == (2, 2)
    sentences = {Path(one.path).name: one.sentence for one in report.set_aside}
    assert sentences == {
        "clip_0.srt": "no cue with a time and words is in the subtitles",
        "clip_1.srt": "all of its cues come after the end of the video; are they of another cut?",
    }
    assert (str(videos / "clip_1.en.srt"), "1 of 3 cues could not be read and were left out") in report.notes
    assert said(videos, "clip_1.mp4") == {"clip_1.en.srt": ["in time", "still in time"]}

    again = index(videos)
    assert (again.newly_aside, len(again.set_aside), again.did_nothing) == (0, 2, True)
    say(bad, "Now it can.")
    fixed = index(videos)
    assert [Path(one.path).name for one in fixed.set_aside] == ["clip_1.srt"]
    assert said(videos) == {"clip_0.srt": ["Now it can."]}


def test_cues_end_with_their_clip_and_are_told_once(videos: Path) -> None:
    say(videos / "clip_0.srt", "Here.", "Till the end.", "Afterwards.", start_ms=1250)
    more = say(videos / "Subs" / "clip_0.vtt", "Here.", "Not there.", "Late.", start_ms=1180)
    say(videos / "clip_0.de.srt", "Here.", start_ms=900)
    report = index(videos)
    assert said(videos) == {
        "clip_0.vtt": ["Here.", "Not there."],
        "clip_0.de.srt": ["Here."],
        "clip_0.srt": ["Till the end."],
    }
    assert [one.end_s for source in transcripts(videos) for one in source.utterances] == [1.58, 2.0, 1.3, 2.0]
    (note,) = [note for path, note in report.notes if path == str(videos / "clip_0.srt")]
    assert note.startswith("1 of 3 cues come after the end of the video")
    assert verify(videos.parent / "library") == []
    more.unlink()
    index(videos)
    assert said(videos)["clip_0.srt"] == ["Here.", "Till the end."]


def test_streams_are_read_once(videos: Path, tmp_path: Path) -> None:
    cues = [(say(tmp_path / "en.srt", "From inside."), "eng"), (say(tmp_path / "fr.ass", "De dedans."), "fre")]
    film_with_subtitles(videos / "film.mkv", cues)
    assert index(videos).subtitles == 2
    assert said(videos, "film.mkv") == {"stream 0": ["From inside."], "stream 1": ["De dedans."]}
    assert [one.language for one in transcripts(videos, "film.mkv")] == ["en", "fr"]
    assert index(videos).did_nothing


@pytest.mark.parametrize("then", ["", "Good night.", None], ids=["unchanged", "changed", "deleted"])
def test_a_run_that_is_killed_between_shard_and_catalog_is_finished_by_the_next(
    videos: Path, monkeypatch: pytest.MonkeyPatch, then: str | None
) -> None:
    """At every step of it: `python -m tests.library.killed_rounds --clips 2 --steps --story subtitles`."""
    index(videos)
    file = say(videos / "clip_0.srt", "Good morning.")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("evenreel.library.store.writer.speech_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            index(videos)
    if then is None:
        file.unlink()
    elif then:
        say(file, then)
    index(videos)
    assert said(videos) == ({} if then is None else {"clip_0.srt": [then or "Good morning."]})
    assert verify(videos.parent / "library") == []
    assert index(videos).did_nothing


def test_a_path_that_is_not_utf8_is_kept_and_followed(videos: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    (videos / "clip_0.mp4").rename(videos / f"{name}.mp4")
    say(videos / f"{name}.srt", "Bonjour.")
    index(videos)
    assert said(videos, f"{name}.mp4") == {f"{name}.srt": ["Bonjour."]}
    assert index(videos).did_nothing
    assert verify(videos.parent / "library") == []
