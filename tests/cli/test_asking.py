from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import srt

from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.planted import Entity, Scene, SignBoard, SpokenSentence, write_scene
from evenreel.speech import VOICES, can_speak
from tests.cli.test_library_commands import here
from tests.in_process import run_here
from tests.library.videos import write_video
from tests.speech.picture_files import PictureTrack, disc_packets, film_with_pictures
from tests.speech.subtitle_files import Line, written

STAR = Scene((Entity("star", "red", "large"),), "moves_right", "beach", duration_s=3.0)
HEART = Scene((Entity("heart", "blue", "large"),), "bounces", "forest", duration_s=3.0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    (videos := folder / "videos").mkdir()
    for name, scene in (("star.mp4", STAR), ("heart.mp4", HEART)):
        write_scene(videos / name, scene)
    index_folders([videos], folder / "library", IndexSettings(model="builtin", workers=1, read_text=False))
    return folder


def search(place: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    words = map(str, ("search", "--library", place / "library", "--device", "cpu", *arguments))
    return run_here(*words, environment={"COLUMNS": "200"})


def answered(place: Path, *arguments: object) -> dict[str, Any]:
    done = search(place, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_then_is_printed_with_both_times(place: Path) -> None:
    assert ", followed by 0:0" in search(place, "star, then a star", "--within", 2, "--all").stdout
    found = answered(place, "star, then a star", "--within", 2)
    assert found["steps"] == ["star", "a star"]
    first, second = found["hits"][0]["steps"]
    assert first["time_s"] < second["time_s"] <= first["time_s"] + 2


def test_marks_move_what_is_found(place: Path) -> None:
    star, heart = place / "videos" / "star.mp4", place / "videos" / "heart.mp4"
    found = answered(place, "a shape", "--right", f"{heart}@1", "--wrong", star)
    assert [Path(hit["path"]).name for hit in found["hits"]] == ["heart.mp4"]
    assert Path(answered(place, "--right", star)["hits"][0]["path"]).name == "star.mp4"


def test_what_cannot_be_asked_is_one_sentence(place: Path) -> None:
    for words, sentence in (
        (("a bus then",), "after 'then'"),
        (("a then b then c then d",), "3 times"),
        (("a then b", "--within", "0"), "seconds above 0"),
        (("a bus", "--within", "5"), "gap of two moments"),
        (("a bus", "--right", "nowhere.mp4"), "nowhere.mp4"),
        (("a bus", "--right", "@5"), "names no clip"),
        (("a then b", "--right", "x.mp4"), "leave one of the two out"),
        (("--wrong", "x.mp4"), "need a sentence, a picture or an example"),
        (("--image", "x.png", "--right", "x.mp4"), "leave --right, --wrong and --within out"),
        (("a bus", "--rerank", "x", "--right", "x.mp4"), "knows of no examples"),
    ):
        done = search(place, *words)
        assert (done.returncode, done.stdout) in {(2, ""), (1, "")} and done.stderr.count("\n") == 1
        assert done.stderr.startswith("evenreel: ") and sentence in done.stderr


ENGLISH = "WEBVTT\n\n00:00.200 --> 00:01.000\n<v Ann>Good morning.\n\n00:01.000 --> 00:01.800\nThe tram is late.\n"


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transcript")
    for number in range(3):
        write_video(folder / "videos" / f"clip_{number}.mp4", number)
    (folder / "videos" / "clip_0.en.vtt").write_text(ENGLISH)
    (folder / "videos" / "clip_0.pt-BR.srt").write_text("1\n00:00:00,200 --> 00:00:01,000\nBom dia.\n")
    (folder / "videos" / "clip_1.srt").write_text("nothing")
    index_folders([folder / "videos"], folder / "library", IndexSettings(model=None, workers=1, read_text=False))
    return folder


def evenreel(spoken: Path, *words: str) -> subprocess.CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(spoken)
        return run_here(*words, environment={"COLUMNS": "400"})


def transcript(spoken: Path, clip: str, *options: str) -> subprocess.CompletedProcess[str]:
    return evenreel(spoken, "transcript", clip, "-l", "library", *options)


def test_each_format_says_what_is_said(spoken: Path) -> None:
    clip = "videos/clip_0.mp4"
    text = transcript(spoken, clip)
    assert (text.returncode, text.stdout) == (0, "Ann: Good morning.\nThe tram is late.\n")
    assert "1 more transcript (pt-BR); choose one with --language" in text.stderr
    found = transcript(spoken, clip, "--format", "srt", "--language", "pt")
    assert [cue.content for cue in srt.parse(found.stdout)] == ["Bom dia."] and found.stderr == ""
    assert "\n00:00:00.200 --> 00:00:01.000\n<v Ann>Good" in transcript(spoken, clip, "--format", "vtt").stdout
    records = json.loads(transcript(spoken, clip, "--format", "json").stdout)
    assert [(one["language"], len(one["utterances"])) for one in records] == [("en", 2), ("pt-BR", 1)]


def test_what_is_not_there_is_said_in_a_sentence(spoken: Path) -> None:
    for clip, options, sentence in (
        ("videos/clip_9.mp4", (), "The library has no clip"),
        ("videos/clip_0.mp4", ("--language", "fr"), "there are transcripts in: en, pt-BR"),
        ("videos/clip_1.mp4", (), "clip_1.srt: no cue with a time and words is in the subtitles"),
        ("videos/clip_2.mp4", (), "put subtitles beside the video"),
    ):
        found = transcript(spoken, clip, *options)
        assert (found.returncode, found.stdout) == (1, "") and sentence in found.stderr.replace("\n", " ")


def test_subtitles_in_pictures_are_indexed_found_and_printed(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    lines = [Line(500, 1500, "Where is the key\nof the old house?"), Line(1700, 2400, "It was here yesterday.")]
    film_with_pictures(tmp_path / "videos" / "film.mkv", [PictureTrack("pgs", disc_packets(lines))])
    indexed = evenreel(tmp_path, "index", "videos", "-l", "library", "--no-vision", "--no-ocr")
    assert "its subtitles are pictures" in " ".join(indexed.stdout.split())
    unread = transcript(tmp_path, "videos/film.mkv")
    assert "its subtitles are pictures, and no text in pictures was to be read" in unread.stderr.replace("\n", " ")

    assert evenreel(tmp_path, "index", "videos", "-l", "library", "--no-vision").returncode == 0
    said = "Where is the key of the old house?\nIt was here yesterday.\n"
    assert transcript(tmp_path, "videos/film.mkv").stdout == said
    subtitles = transcript(tmp_path, "videos/film.mkv", "--format", "srt", "--language", "en").stdout
    assert [cue.start.total_seconds() for cue in srt.parse(subtitles)] == [0.5, 1.7]
    (hit,) = json.loads(evenreel(tmp_path, "search", "yesterday", "-l", "library", "--json").stdout)["hits"]
    assert Path(hit["path"]).name == "film.mkv"
    assert [moment["start_s"] for moment in hit["moments"]] == [1.7]


class Case(NamedTuple):
    """A clip by what alone answers a query."""

    query: str
    channel: str
    seen: tuple[str, str, str] = ("black", "square", "room")
    sign: str = ""
    said: str = ""


CASES = {
    "star": Case("a red star in the mountains", "seen", ("red", "star", "mountains")),
    "heart": Case("a pink heart on a beach", "seen", ("pink", "heart", "beach")),
    "ring": Case("a yellow ring under water", "seen", ("yellow", "ring", "sea")),
    "harbour": Case("harbour", "on_screen", sign="HARBOUR"),
    "bakery": Case("the bakery", "on_screen", sign="BAKERY"),
    "museum": Case("museum tickets", "on_screen", sign="MUSEUM TICKETS"),
    "garden": Case("children playing in the garden", "said", said="The children are playing in the garden today."),
    "piano": Case("who plays the piano", "said", said="He plays the piano better than anyone in his family."),
    "storm": Case("storm damaged the church", "said", said="A strong storm damaged the roof of the church."),
}


def render(folder: Path) -> Path:
    folder.mkdir()
    for number, (name, case) in enumerate(CASES.items()):
        colour, shape, background = case.seen
        signs = (SignBoard(case.sign, height=0.16),) if case.sign else ()
        spoken = (SpokenSentence(case.said, VOICES[0], start_s=0.3),) if case.said and can_speak() else ()
        entity = Entity(shape, colour, "large")
        scene = Scene((entity,), "sways", background, signs, duration_s=2.0, seed=number, spoken=spoken)
        write_scene(folder / f"{name}.mp4", scene)
    return folder


def index(videos: Path, *more: str) -> Path:
    library = videos.parent / "library"
    sampled = ("--sample", "1 midpoint", "--model", "builtin", "--device", "cpu", "--set", "keep_stills=no")
    done = here("index", videos, "--library", library, *sampled, *more)
    assert (done.returncode, done.stderr) == (0, ""), done
    return library


def first_hits(library: Path) -> Mapping[str, Any]:
    """The first hit of each case's query."""
    found = {}
    for name, case in CASES.items():
        done = here("search", case.query, "--library", library, "--device", "cpu", "--json")
        found[name] = json.loads(done.stdout)["hits"][0]
    return found


def check_found(library: Path) -> None:
    """Each clip is the first, by its own channel of words, or by none."""
    for name, hit in first_hits(library).items():
        channel = CASES[name].channel
        assert Path(hit["path"]).stem == name, (name, hit)
        by_words = {one for one in ("on_screen", "said") if hit[one]}
        assert by_words == ({channel} - {"seen"}), (name, hit)
        assert hit["weaker"] is False, (name, hit)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rendered clips, which are searched before anybody has heard what is said in them."""
    folder = render(tmp_path_factory.mktemp("channels") / "videos")
    deaf = first_hits(index(folder))
    assert not any(hit["said"] for hit in deaf.values())
    assert all(hit["written"] < 0.5 for name, hit in deaf.items() if CASES[name].channel == "said")
    return folder


def test_each_clip_is_found_where_subtitles_say_what_is_said(videos: Path) -> None:
    """The weights of no speech model are needed."""
    spoken = {videos / f"{name}.srt": case.said for name, case in CASES.items() if case.said}
    for path, said in spoken.items():
        path.write_text(written(".srt", [Line(300, 1900, said)]), encoding="utf-8")
    check_found(index(videos))
    for path in spoken:
        path.unlink()


def test_each_clip_is_found_by_what_is_seen_written_or_heard(whisper: Path, videos: Path) -> None:
    check_found(index(videos, "--speech", str(whisper)))
