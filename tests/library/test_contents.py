from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenreel
from evenreel import open_library
from evenreel.errors import MediaError, NotFoundError, UsageError
from evenreel.library import Library, contents, index_folders
from evenreel.library.contents import (
    MAX_SIGNS,
    PARTS,
    ClipFile,
    Examples,
    ListedFile,
    Located,
    SameContent,
    examples,
    list_files,
    locate,
    sizes_on_disk,
)
from evenreel.library.search.result import TextHit
from evenreel.library.store.catalog import RENDERED_PX, no_clip, root_of, unknown_to_builtin
from evenreel.media.workers import FileStamp, content_digest
from evenreel.planted.biases import PLANTED_SCENES
from evenreel.planted.scenes import SceneRanges
from tests import prebuilt
from tests.in_process import run_here
from tests.library.stub_models import SETTINGS, load

from .fakes import Library as Fake
from .fakes import empty_catalog, on_disk

ONCE = FileStamp(1, 1, 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def opened(place: Path) -> Iterator[Library]:
    with evenreel.open_library(place) as library:
        yield library


def names(found: tuple[ListedFile, ...]) -> list[str]:
    return [file.name for file in found]


def test_a_clip_has_its_files_words_and_metadata(opened: Library) -> None:
    clip = opened.clip("tram")
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
    lost = opened.clip("lost")
    assert (lost.name, lost.files, lost.metadata, lost.moments) == ("lost", (), {}, 0), "without a file it has its id"


@pytest.mark.parametrize("clip_id", ["nowhere", "", "../../etc/passwd", "tram' OR '1'='1", "\x00", "x" * 10_000])
def test_an_unknown_clip_is_said_to_be_unknown(opened: Library, clip_id: str) -> None:
    for ask in (opened.clip, opened.locate):
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


def test_files_are_listed_by_path_with_why_one_was_skipped(opened: Library) -> None:
    found = opened.files()
    assert found.total == 5
    assert names(found.files) == ["Alt.mp4", "Tram.mp4", "copy.mp4", "gro\u0308ße.mp4", "100%_sea.mp4"]
    told = [(one.state, one.clip_id, one.reason, one.sentence, one.duration_s) for one in found.files[3:]]
    assert told == [("set_aside", None, "empty", "It has no bytes.", None), ("indexed", "sea", None, None, 3.5)]
    assert found.files[4].folder == "\\udcff"


def test_files_are_sorted_and_what_is_not_known_comes_last(place: Path, tmp_path: Path) -> None:
    place = shutil.copytree(place, tmp_path / "own")
    with sqlite3.connect(place / "catalog.sqlite") as connection:
        connection.execute("UPDATE files SET size = length(path) * 7 % 11, mtime_ns = length(path) * 86400000000000")
    with evenreel.open_library(place) as library:

        def listed(order: Any, of: str) -> list[Any]:
            return [getattr(one, of) for one in library.files(order=order).files]

        for order, of in (("name", "name"), ("size", "size_bytes"), ("date", "day"), ("length", "duration_s")):
            found = [str(one).lower() for one in listed(order, of) if one is not None]
            assert found == sorted(found), order
            assert [str(one).lower() for one in listed(f"-{order}", of) if one is not None] == found[::-1]
        assert (listed("length", "duration_s")[-1], listed("-length", "duration_s")[-1]) == (None, None)


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


@pytest.mark.parametrize("wrong", [{"state": "fine"}, {"limit": 0}, {"order": "-path"}, {"offset": -1}])
def test_questions_about_files_that_make_no_sense(opened: Library, wrong: dict[str, str | int]) -> None:
    with pytest.raises(UsageError):
        opened.files(**wrong)  # type: ignore[arg-type]


def test_a_clip_is_located_below_the_innermost_folder(opened: Library) -> None:
    tram = opened.locate("tram")
    assert (tram.container, tram.codec, tram.duration_s) == ("mp4", "h264", 2.0)
    assert tram.files == (("/v/a/Tram.mp4", "/v", ONCE), ("/v/deep/copy.mp4", "/v/deep", ONCE))
    (sea,) = opened.locate("sea").files
    assert os.fsencode(sea.path) == b"/v/\xff/100%_sea.mp4"
    assert opened.locate("lost").files == ()


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


def test_a_clip_is_found_by_the_name_that_is_shown(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    for clip_id, names in {"one": ("a/Tram.mp4", "copy.mp4"), "two": ("b/TRAM.mov",), "three": ("Café 3.mp4",)}.items():
        made.add_clip(clip_id)
        for name in names:
            made.add_file(f"/v/{name}", clip_id)
    asked = {
        "a/Tram.mp4": "one",
        "A/tram": "one",
        "copy": "one",
        "/v/a/Tram.mp4": "one",
        "TRAM.mov": "two",
        "cafe\u0301 3": "three",
    }
    assert {name: contents.clip_named(made.connection, name) for name in asked} == asked
    with pytest.raises(UsageError, match=r"2 videos are named 'Tram'; give the path of one: /v/a/Tram.mp4, /v/b/TRAM"):
        contents.clip_named(made.connection, "Tram")
    for name in ("ram.mp4", "/", "", "."):
        with pytest.raises(NotFoundError):
            contents.clip_named(made.connection, name)


def test_patterns_are_neither_shown_nor_tried(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    made.add_clip("one")
    for text in ("★", "AAAA", "FIRST"):
        made.add_track("one", text)
    assert [sign.text for sign in contents.clip_detail(made.connection, "one").signs] == ["AAAA", "FIRST"]
    assert examples(made.connection) == Examples(None, "FIRST")


def test_examples_are_the_first_candidates(opened: Library) -> None:
    assert opened.examples() == Examples(None, "FIRST")
    assert examples(empty_catalog()) == Examples(None, None)


def test_of_a_long_path_that_is_no_clip_the_end_is_shown_where_its_name_is() -> None:
    error = no_clip(f"/{'deep/' * 60}film.mp4")
    assert "deep/film.mp4'; give the name" in str(error)
    assert len(str(error)) < 160
    assert str(no_clip("ab" * 32)) == f"The library has no clip '{'ab' * 32}'; give the name or path of its video."


# A file is the one that was indexed by its stamp, else by its content, whatever its times say ------------------------


Change = Callable[[Path], object]


def times_put_back(path: Path, change: Change) -> None:
    before = path.stat()
    change(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"CONTENT")
    other.replace(path)


@pytest.fixture
def file(tmp_path: Path) -> Located:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"content")
    return Located(str(path), str(tmp_path), FileStamp.of(path.stat()))


@pytest.fixture
def clip_id(file: Located) -> str:
    return content_digest(file.path)


def check(file: Located, clip_id: str, same: SameContent | None = None) -> Located:
    return (same or SameContent(10.0)).check(clip_id, file, os.stat(file.path))


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read: list[str] = []
    real = contents.watched_digest
    monkeypatch.setattr(contents, "watched_digest", lambda path, *rest: read.append(path) or real(path, *rest))
    return read


def test_an_untouched_file_is_not_read(file: Located, clip_id: str, digests: list[str]) -> None:
    assert check(file, clip_id) is file
    assert digests == []


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.chmod(0o600),
        lambda path: os.utime(path, ns=(0, 0)),
        lambda path: os.link(path, path.with_name("link")),
        lambda path: times_put_back(path, lambda path: path.write_bytes(b"content")),
    ],
    ids=["mode", "times", "hard link", "written again"],
)
def test_a_file_that_was_only_touched_is_read_once(
    file: Located, clip_id: str, digests: list[str], change: Change
) -> None:
    change(Path(file.path))
    same = SameContent(10.0)
    for _ in range(3):
        now = check(file, clip_id, same)
        assert now.stamp == FileStamp.of(os.stat(file.path))
    assert digests == [file.path]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: times_put_back(path, lambda path: path.write_bytes(b"CONTENT")),
        lambda path: times_put_back(path, replaced),
        lambda path: path.write_bytes(b"CONTENT"),
    ],
    ids=["in place", "by another file", "later"],
)
def test_other_content_of_the_same_size_and_time_is_noticed(file: Located, clip_id: str, change: Change) -> None:
    change(Path(file.path))
    with pytest.raises(MediaError, match="has changed since it was indexed"):
        check(file, clip_id)


def test_another_size_is_noticed_without_reading(file: Located, clip_id: str, digests: list[str]) -> None:
    Path(file.path).write_bytes(b"longer content")
    with pytest.raises(MediaError, match="has changed"):
        check(file, clip_id)
    assert digests == []


def test_a_file_that_changes_while_it_is_compared_is_not_the_same(
    file: Located, clip_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = contents.watched_digest

    def digest(path: str, *rest: object) -> str:
        found = real(path, *rest)  # type: ignore[arg-type]
        replaced(Path(path))
        return found

    monkeypatch.setattr(contents, "watched_digest", digest)
    os.utime(file.path)
    with pytest.raises(MediaError, match="has changed"):
        check(file, clip_id)


# What a library takes on the disk, and whether its model can know its clips ------------------------------------------


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_here(*arguments, environment={"COLUMNS": "200", "NO_COLOR": "1"})


def test_the_parts_add_up_to_all_files(videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.encoders.load_encoder", load)
    index_folders([videos], library, SETTINGS)
    index_folders([videos], library / "models" / ("b" * 16), SETTINGS)
    (library / "elements.x").write_bytes(b"12345")
    sizes = sizes_on_disk(library)
    assert list(sizes) == list(PARTS)
    assert sum(sizes.values()) == sum(path.stat().st_size for path in library.rglob("*") if path.is_file())
    for part, pattern in (("shards", "shards/*/*"), ("stills", "stills/*/*"), ("vectors", "vectors.*")):
        assert sizes[part] == sum(path.stat().st_size for path in library.glob(pattern)) > 0
    assert sizes["models"] == sum(path.stat().st_size for path in library.glob("models/**/*") if path.is_file()) > 0
    assert sizes["others"] >= 5
    assert sum(sizes_on_disk(library / "nowhere").values()) == 0


def test_what_is_rendered_has_the_sizes_that_are_known() -> None:
    ranges = SceneRanges(), PLANTED_SCENES
    assert tuple((one.width, one.height) for one in ranges) == RENDERED_PX


def test_the_builtin_model_is_warned_of_where_a_clip_is_no_rendered_one(videos: Path, library: Path) -> None:
    prebuilt.library(videos, library)
    with open_library(library, vision=False) as opened:
        assert opened.unknown_to_model() is None  # there is no model
        pictures, *others = opened.notices()
        assert pictures.startswith("Pictures are not searched")
        assert [one.partition(" are not")[0].partition(" is not")[0] for one in others] == ["Words on screen", "Speech"]
    with sqlite3.connect(library / "catalog.sqlite") as connection:
        sentence = unknown_to_builtin(connection, {"model": "builtin"}) or ""
        assert "4 clips here are no rendered scenes" in sentence
        assert unknown_to_builtin(connection, {"model": "google/siglip2-base-patch16-224"}) is None
        connection.execute("UPDATE clips SET width = 320, height = 240")
        assert unknown_to_builtin(connection, {"model": "builtin"}) is None
        connection.rollback()


def test_remove_on_the_command_line(videos: Path, library: Path) -> None:
    prebuilt.library(videos, library)
    dry = command("remove", videos / "clip_00.mp4", "--library", library, "--dry-run")
    assert dry.stdout.startswith("Would forget 1 file (1 clip)")
    assert "finds them again" in dry.stdout
    done = command("remove", videos / "clip_00.mp4", "--ignore", "--library", library)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["  ignored from now on: /clip_00.mp4"])
    wrong = command("remove", videos / "nothing", "--library", library)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "knows no file" in wrong.stderr
    told = command("info", "--library", library).stdout
    assert "ignored: /clip_00.mp4" in told
    assert "on the disk: " in told


def test_pages_of_files_make_up_the_whole(opened: Library) -> None:
    pages = [opened.files(limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [page.total for page in pages] == [5, 5, 5]
    assert sum((page.files for page in pages), ()) == opened.files().files
