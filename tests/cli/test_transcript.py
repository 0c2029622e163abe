"""`evenreel transcript` as it is typed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import srt

from evenreel.config import IndexSettings
from evenreel.library import index_folders
from tests.in_process import run_here
from tests.library.videos import write_video
from tests.speech.picture_files import PictureTrack, disc_packets, film_with_pictures
from tests.speech.subtitle_files import Line

ENGLISH = "WEBVTT\n\n00:00.200 --> 00:01.000\n<v Ann>Good morning.\n\n00:01.000 --> 00:01.800\nThe tram is late.\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transcript")
    for number in range(3):
        write_video(folder / "videos" / f"clip_{number}.mp4", number)
    (folder / "videos" / "clip_0.en.vtt").write_text(ENGLISH)
    (folder / "videos" / "clip_0.pt-BR.srt").write_text("1\n00:00:00,200 --> 00:00:01,000\nBom dia.\n")
    (folder / "videos" / "clip_1.srt").write_text("nothing")
    index_folders([folder / "videos"], folder / "library", IndexSettings(model=None, workers=1, read_text=False))
    return folder


def evenreel(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return run_here(*words, environment={"COLUMNS": "400"})


def run(place: Path, clip: str, *options: str) -> subprocess.CompletedProcess[str]:
    return evenreel(place, "transcript", clip, "-l", "library", *options)


def test_each_format_says_what_is_said(place: Path) -> None:
    clip = "videos/clip_0.mp4"
    text = run(place, clip)
    assert (text.returncode, text.stdout) == (0, "Ann: Good morning.\nThe tram is late.\n")
    assert "1 more transcript (pt-BR); choose one with --language" in text.stderr
    found = run(place, clip, "--format", "srt", "--language", "pt")
    assert [cue.content for cue in srt.parse(found.stdout)] == ["Bom dia."]
    assert found.stderr == ""
    assert run(place, clip, "--format", "vtt").stdout.startswith("WEBVTT\n\n00:00:00.200 --> 00:00:01.000\n<v Ann>Good")
    records = json.loads(run(place, clip, "--format", "json").stdout)
    assert [(one["language"], len(one["utterances"])) for one in records] == [("en", 2), ("pt-BR", 1)]


def test_what_is_not_there_is_said_in_a_sentence(place: Path) -> None:
    for clip, options, sentence in (
        ("videos/clip_9.mp4", (), "The library has no clip"),
        ("videos/clip_0.mp4", ("--language", "fr"), "there are transcripts in: en, pt-BR"),
        ("videos/clip_1.mp4", (), "clip_1.srt: no cue with a time and words is in the subtitles"),
        ("videos/clip_2.mp4", (), "put subtitles beside the video"),
    ):
        found = run(place, clip, *options)
        assert (found.returncode, found.stdout) == (1, ""), clip
        assert sentence in found.stderr.replace("\n", " ")
        assert "Traceback" not in found.stderr


def test_subtitles_in_pictures_are_indexed_found_and_printed(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    lines = [Line(500, 1500, "Where is the key\nof the old house?"), Line(1700, 2400, "It was here yesterday.")]
    film_with_pictures(tmp_path / "videos" / "film.mkv", [PictureTrack("pgs", disc_packets(lines))])
    indexed = evenreel(tmp_path, "index", "videos", "-l", "library", "--no-vision", "--no-ocr")
    assert "its subtitles are pictures" in " ".join(indexed.stdout.split())
    unread = run(tmp_path, "videos/film.mkv")
    assert "its subtitles are pictures, and no text in pictures was to be read" in unread.stderr.replace("\n", " ")

    assert evenreel(tmp_path, "index", "videos", "-l", "library", "--no-vision").returncode == 0
    assert run(tmp_path, "videos/film.mkv").stdout == "Where is the key of the old house?\nIt was here yesterday.\n"
    subtitles = run(tmp_path, "videos/film.mkv", "--format", "srt", "--language", "en").stdout
    assert [cue.start.total_seconds() for cue in srt.parse(subtitles)] == [0.5, 1.7]
    (hit,) = json.loads(evenreel(tmp_path, "search", "yesterday", "-l", "library", "--json").stdout)["hits"]
    assert Path(hit["path"]).name == "film.mkv"
    assert [moment["start_s"] for moment in hit["moments"]] == [1.7]
