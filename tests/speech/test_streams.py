"""Subtitle streams inside a video, held against what FFmpeg reads of the file they were made of."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media.workers import Worker
from evenreel.speech import Subtitles
from evenreel.speech.streams import read_streams
from evenreel.speech.subtitles import TARGET, read_with
from tests.media_files import Film, steady, write_film
from tests.speech.subtitle_files import FRENCH, RUSSIAN, Line, film_with_subtitles, reference_cues, written

LINES = [Line(200, 900, FRENCH[0]), Line(1000, 1900, f"{FRENCH[1]}\n{RUSSIAN[0]}", "Ann")]


def subtitle_file(folder: Path, suffix: str) -> Path:
    path = folder / f"cues{suffix}"
    path.write_text(written(suffix, LINES), encoding="utf-8")
    return path


def streams_of(path: Path) -> list[Subtitles]:
    return [found for found in read_streams(path) if found is not None]


@pytest.mark.parametrize("first_ms", [0, 5000])
def test_streams_of_text_say_what_their_files_say(tmp_path: Path, first_ms: int) -> None:
    made = [(subtitle_file(tmp_path, suffix), code) for suffix, code in ((".srt", "fre"), (".ass", "rus"))]
    path = film_with_subtitles(tmp_path / "film.mkv", made, first_ms)
    found = streams_of(path)
    assert [one.utterances[0].language for one in found] == ["fr", "ru"]
    for (file, _), one in zip(made, found, strict=True):
        expected = reference_cues(tmp_path / f"again{file.suffix}", written(file.suffix, LINES))
        assert one.notes == ()
        assert [(cue.text, cue.source) for cue in one.utterances] == [(words, "stream") for _, _, words in expected]
        for cue, (start_s, end_s, _) in zip(one.utterances, expected, strict=True):
            assert (cue.start_s, cue.end_s) == pytest.approx((start_s, end_s), abs=0.002)
    assert [cue.speaker for cue in found[1].utterances] == [None, "Ann"]


def test_webvtt_and_timed_text_streams_are_read(tmp_path: Path) -> None:
    made = film_with_subtitles(tmp_path / "film.webm.mkv", [(subtitle_file(tmp_path, ".vtt"), "fre")])
    (found,) = streams_of(made)
    assert [cue.text for cue in found.utterances] == [FRENCH[0], f"{FRENCH[1]} {RUSSIAN[0]}"]
    assert found.utterances[1].speaker == "Ann"
    (timed,) = streams_of(film_with_subtitles(tmp_path / "film.mp4", [], 0, RUSSIAN[1]))
    assert [(cue.text, cue.start_s, cue.end_s) for cue in timed.utterances] == [(RUSSIAN[1], 1.0, 2.0)]
    with av.open(str(tmp_path / "film.mp4")) as container:  # the decoder of FFmpeg agrees
        decoded = [cue.dialogue for cue in container.decode(subtitles=0)]
    assert decoded == [RUSSIAN[1].encode()]


def test_a_video_without_subtitles_has_none_and_what_is_no_video_is_refused(tmp_path: Path) -> None:
    assert streams_of(write_film(tmp_path / "plain.mp4", Film(steady(5)))) == []
    for name, content in (
        ("list.mp4", b"ffconcat version 1.0\nfile plain.mp4\n"),
        ("cues.srt", b"1\n"),
        ("no.mkv", b""),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(MediaError):
            streams_of(tmp_path / name)


def test_a_film_that_is_cut_short_gives_the_cues_that_are_there(tmp_path: Path) -> None:
    path = film_with_subtitles(tmp_path / "film.mkv", [(subtitle_file(tmp_path, ".srt"), "eng")])
    whole = path.read_bytes()
    for share in range(1, 10):
        path.write_bytes(whole[: len(whole) * share // 10])
        try:
            found = streams_of(path)
        except MediaError:
            continue
        assert {cue.text for one in found for cue in one.utterances} <= {FRENCH[0], f"{FRENCH[1]} {RUSSIAN[0]}"}


def test_a_worker_reads_files_and_streams_as_they_are_read_here(tmp_path: Path) -> None:
    file = subtitle_file(tmp_path, ".vtt")
    film = film_with_subtitles(tmp_path / "film.mkv", [(file, "ger")])
    worker = Worker(TARGET, {}, MediaLimits())
    try:
        (beside,) = read_with(worker, str(file), {"language": "pt-BR"})
        assert [(cue.text, cue.language, cue.speaker) for cue in beside.utterances] == [
            (FRENCH[0], "pt-BR", None),
            (f"{FRENCH[1]} {RUSSIAN[0]}", "pt-BR", "Ann"),
        ]
        assert read_with(worker, str(film)) == streams_of(film)
        for name in ("gone.srt", "."):
            with pytest.raises(MediaError) as raised:
                read_with(worker, str(tmp_path / name), {"language": None})
            assert raised.value.reason == "unreadable"
        large = tmp_path / "large.srt"
        with large.open("wb") as hole:
            hole.truncate(50 * 2**20)
        with pytest.raises(MediaError, match="50 MiB; at most 10 MiB"):
            read_with(worker, str(large), {"language": None})
    finally:
        worker.close()
