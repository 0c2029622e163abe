"""What a library tells of its clips and files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenreel
from evenreel.errors import NotFoundError, UsageError
from evenreel.library import Library
from evenreel.library.contents import (
    MAX_SIGNS,
    ClipFile,
    Examples,
    ListedFile,
    examples,
    list_files,
    locate,
    no_clip,
    root_of,
)
from evenreel.library.search.hits import TextHit
from evenreel.media.workers import FileStamp

from .fakes import Library as Fake
from .fakes import empty_catalog, on_disk

ONCE = FileStamp(1, 1, 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two indexed folders, one inside the other, and files of every state."""
    folder = tmp_path_factory.mktemp("library")
    made = on_disk(folder)
    made.connection.executemany("INSERT INTO roots VALUES (?)", [("/v",), ("/v/deep",)])
    made.add_clip("tram", ["red tram", "blue tram"], duration_s=2.0)
    made.add_track("tram", "SECOND", start_s=1.0, end_s=2.0)
    made.add_track("tram", "FIRST", start_s=0.0, end_s=2.0)
    made.add_file("/v/a/Tram.mp4", "tram", {"source": "camera", "year": 2019})
    made.add_file("/v/deep/copy.mp4", "tram", {"source": "copy"})
    made.add_file("/v/Alt.mp4", "tram", {"source": "gone"}, state="missing")
    made.add_clip("sea", ["sea"], duration_s=3.5)
    made.add_file(b"/v/\xff/100%_sea.mp4", "sea")
    made.add_file("/v/gro\u0308ße.mp4", None, state="set_aside")
    made.connection.execute(
        "UPDATE files SET reason = 'empty', sentence = 'It has no bytes.' WHERE state = 'set_aside'"
    )
    made.add_clip("lost")
    made.connection.close()
    return folder


@pytest.fixture(scope="module")
def library(place: Path) -> Iterator[Library]:
    with evenreel.open_library(place) as opened:
        yield opened


def names(found: tuple[ListedFile, ...]) -> list[str]:
    return [file.name for file in found]


def test_a_clip_has_its_files_words_and_metadata(library: Library) -> None:
    clip = library.clip("tram")
    assert clip.name == "Tram.mp4"
    assert clip.files == (
        ClipFile("Tram.mp4", "a", "indexed"),
        ClipFile("copy.mp4", "", "indexed"),
        ClipFile("Alt.mp4", "", "missing"),
    )
    assert (clip.duration_s, clip.container, clip.codec, clip.fps) == (2.0, "mp4", "h264", 25.0)
    assert (clip.width, clip.height, clip.moments, clip.notes) == (640, 360, 2, ())
    assert clip.signs == (TextHit("FIRST", (), 0.0, 2.0, 1.0), TextHit("SECOND", (), 1.0, 2.0, 1.0))
    assert clip.metadata == {"source": "camera", "year": 2019}


def test_a_clip_without_a_file_goes_by_its_id(library: Library) -> None:
    clip = library.clip("lost")
    assert (clip.name, clip.files, clip.metadata, clip.moments) == ("lost", (), {}, 0)


@pytest.mark.parametrize("clip_id", ["nowhere", "", "../../etc/passwd", "tram' OR '1'='1", "\x00", "x" * 10_000])
def test_an_unknown_clip_is_said_to_be_unknown(library: Library, clip_id: str) -> None:
    for ask in (library.clip, library.locate):
        with pytest.raises(NotFoundError, match="has no clip") as caught:
            ask(clip_id)
        assert len(str(caught.value)) < 150


def test_words_are_the_first_ones_where_there_are_thousands(tmp_path: Path) -> None:
    made = Fake(tmp_path)
    made.add_clip("ticker")
    for number in reversed(range(MAX_SIGNS + 3)):
        made.add_track("ticker", str(number), start_s=float(number))
    found = evenreel.library.contents.clip_detail(made.connection, "ticker").signs
    assert [sign.text for sign in found] == [str(number) for number in range(MAX_SIGNS)]


def test_files_are_listed_by_path_with_why_one_was_set_aside(library: Library) -> None:
    found = library.files()
    assert found.total == 5
    assert names(found.files) == ["Alt.mp4", "Tram.mp4", "copy.mp4", "gro\u0308ße.mp4", "100%_sea.mp4"]
    assert found.files[3] == ListedFile("gro\u0308ße.mp4", "", "set_aside", None, "empty", "It has no bytes.", None)
    assert found.files[4] == ListedFile("100%_sea.mp4", "\\udcff", "indexed", "sea", None, None, 3.5)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"state": "set_aside"}, ["gro\u0308ße.mp4"]),
        ({"state": "missing"}, ["Alt.mp4"]),
        ({"text": "TRAM"}, ["Tram.mp4"]),
        ({"text": "a/tram"}, ["Tram.mp4"]),
        ({"text": "GRÖSSE"}, ["gro\u0308ße.mp4"]),
        ({"text": "%_"}, ["100%_sea.mp4"]),
        ({"text": "_"}, ["100%_sea.mp4"]),
        ({"text": "v"}, []),  # the name of the indexed folder is not of the file
        ({"text": "deep"}, []),
        ({"text": "' OR 1=1 --"}, []),
        ({"state": "indexed", "text": ".mp4", "limit": 1, "offset": 1}, ["copy.mp4"]),
        ({"offset": 4}, ["100%_sea.mp4"]),
        ({"offset": 2**70}, []),
    ],
)
def test_files_are_found_by_state_and_name(place: Path, asked: dict[str, Any], expected: list[str]) -> None:
    with evenreel.open_library(place) as library:
        found = library.files(**asked)
    assert names(found.files) == expected
    assert found.total >= len(expected)


def test_pages_of_files_make_up_the_whole(library: Library) -> None:
    pages = [library.files(limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [page.total for page in pages] == [5, 5, 5]
    assert sum((page.files for page in pages), ()) == library.files().files


@pytest.mark.parametrize("wrong", [{"state": "fine"}, {"limit": 0}, {"limit": -1}, {"offset": -1}])
def test_questions_about_files_that_make_no_sense(library: Library, wrong: dict[str, str | int]) -> None:
    with pytest.raises(UsageError):
        library.files(**wrong)  # type: ignore[arg-type]


def test_a_clip_is_located_below_the_innermost_folder(library: Library) -> None:
    tram = library.locate("tram")
    assert (tram.container, tram.codec, tram.duration_s) == ("mp4", "h264", 2.0)
    assert tram.files == (("/v/a/Tram.mp4", "/v", ONCE), ("/v/deep/copy.mp4", "/v/deep", ONCE))
    (sea,) = library.locate("sea").files
    assert os.fsencode(sea.path) == b"/v/\xff/100%_sea.mp4"
    assert library.locate("lost").files == ()


def test_a_file_outside_every_folder_has_its_own(tmp_path: Path) -> None:
    made = Fake(tmp_path)
    made.connection.execute("INSERT INTO roots VALUES ('/v/tra')")
    made.add_clip("tram")
    made.add_file("/v/trams/a.mp4", "tram")
    assert locate(made.connection, "tram").files == (("/v/trams/a.mp4", "/v/trams", ONCE),)
    assert list_files(made.connection).files[0].folder == ""


part = st.text("ab", min_size=1, max_size=2)


@given(parts=st.lists(part, min_size=1, max_size=5), roots=st.lists(st.lists(part, max_size=5), max_size=4))
def test_the_root_holds_the_file_and_no_inner_one_does(parts: list[str], roots: list[list[str]]) -> None:
    folders = ["/" + "/".join(root) for root in roots]
    found = root_of("/" + "/".join(parts), folders)
    holding = [root for root in roots if root == parts[: len(root)] and len(root) < len(parts)]
    inner = max(holding, key=len, default=parts[:-1])
    assert found == "/" + "/".join(inner)


def test_examples_are_of_the_library(library: Library, tmp_path: Path) -> None:
    assert library.examples() == Examples(None, "FIRST")
    made = Fake(tmp_path)
    for clip_id, sign in (("a", "GATE 7"), ("b", "HARBOUR"), ("c", "HARBOUR"), ("d", "12345"), ("e", "12345")):
        made.add_clip(clip_id)
        made.add_track(clip_id, sign)
        made.add_file(
            f"/v/{clip_id}.mp4", clip_id, {"caption": "x" * 61} if clip_id == "a" else {"caption": "a red bus"}
        )
    for clip_id in "abc":
        made.add_track(clip_id, "UNSURE", confidence=0.5)
    assert examples(made.connection) == Examples("a red bus", "HARBOUR")
    assert examples(empty_catalog()) == Examples(None, None)


def test_of_a_long_path_that_is_no_clip_the_end_is_shown_where_its_name_is() -> None:
    error = no_clip(f"/{'deep/' * 60}film.mp4")
    assert "deep/film.mp4'; give the path" in str(error)
    assert len(str(error)) < 160
    assert str(no_clip("ab" * 32)) == f"The library has no clip '{'ab' * 32}'; give the path of its video."
