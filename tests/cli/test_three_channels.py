"""Clips that are answered by what is seen, by a sign or by a voice alone, from rendering to the first hit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evenreel.planted import Entity, Scene, SignBoard, SpokenSentence, write_scene
from evenreel.speech import VOICES, can_speak
from tests.cli.test_library_commands import here
from tests.speech.subtitle_files import Line, written


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


def test_each_clip_is_found_by_what_is_seen_written_or_heard(shared_data: Path, videos: Path) -> None:
    folder = shared_data / "whisper_tiny_en"
    if not folder.is_dir():
        pytest.skip(f"the weights of Whisper tiny.en are not at {folder}")
    if not can_speak():
        pytest.skip("espeak-ng is not here (pip install espeakng-loader)")
    check_found(index(videos, "--speech", str(folder)))
