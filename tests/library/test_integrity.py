"""Hazards 34 and 41: what is damaged is found and named, and mended without decoding a video again."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evenreel.config import IndexSettings
from evenreel.errors import LibraryError
from evenreel.library import index_folders, open_library, repair, verify
from tests.library.state import state
from tests.library.videos import write_folder

SETTINGS = IndexSettings(model="builtin", read_text=False, workers=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("made")
    videos = place / "videos"
    write_folder(videos, 3)
    (videos / "metadata.csv").write_text("path,caption\nclip_00.mp4,a red tram\n")
    index_folders([videos], place / "library", SETTINGS)
    return videos, place / "library"


@pytest.fixture
def videos(made: tuple[Path, Path]) -> Path:
    return made[0]


@pytest.fixture
def library(made: tuple[Path, Path], tmp_path: Path) -> Path:
    shutil.copytree(made[1], tmp_path / "library")
    return tmp_path / "library"


def first_shard(library: Path) -> Path:
    return sorted(library.glob("shards/*/*.safetensors"))[0]


def change(library: Path, *statements: str) -> None:
    connection = sqlite3.connect(library / "catalog.sqlite", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def zero_shard(library: Path) -> None:
    first_shard(library).write_bytes(b"\0" * first_shard(library).stat().st_size)


def flip_shard(library: Path) -> None:
    content = bytearray(first_shard(library).read_bytes())
    content[-3] ^= 0x40
    first_shard(library).write_bytes(content)


def lose_shard(library: Path) -> None:
    first_shard(library).unlink()


def zero_vectors(library: Path) -> None:
    path = next(library.glob("vectors.*.f16"))
    path.write_bytes(b"\0" * path.stat().st_size)


def cut_vectors(library: Path) -> None:
    path = next(library.glob("vectors.*.f16"))
    path.write_bytes(path.read_bytes()[:100])


def lose_vectors(library: Path) -> None:
    next(library.glob("vectors.*.f16")).unlink()


def swap_vectors(library: Path) -> None:
    path = next(library.glob("vectors.*.f16"))
    content = path.read_bytes()
    head, rows = content[:64], content[64:]
    path.write_bytes(head + rows[len(rows) // 2 :] + rows[: len(rows) // 2])


def forget_words(library: Path) -> None:
    change(library, "DELETE FROM about")


def change_moment(library: Path) -> None:
    change(library, "UPDATE moments SET time_s = time_s + 1 WHERE number = 0")


def garbage_catalog(library: Path) -> None:
    (library / "catalog.sqlite").write_bytes(b"\0" * 8192)


def torn_catalog(library: Path) -> None:
    content = (library / "catalog.sqlite").read_bytes()
    (library / "catalog.sqlite").write_bytes(content[: len(content) // 2])


def lose_catalog(library: Path) -> None:
    (library / "catalog.sqlite").unlink()


DERIVED = [zero_vectors, cut_vectors, lose_vectors, swap_vectors, forget_words, change_moment]
SHARDS = [zero_shard, flip_shard, lose_shard]
CATALOG = [garbage_catalog, torn_catalog, lose_catalog]
Damage = Callable[[Path], None]


def test_a_whole_library_has_no_problem(library: Path) -> None:
    assert verify(library) == []


@pytest.mark.parametrize("damage", DERIVED)
def test_what_is_derived_is_rebuilt_without_a_video(library: Path, damage: Damage) -> None:
    before = state(library)
    damage(library)
    problems = verify(library)
    assert problems
    assert all("evenreel repair" in problem.remedy for problem in problems)
    assert repair(library)
    assert verify(library) == []
    assert state(library) == before


@pytest.mark.parametrize("damage", SHARDS)
def test_a_damaged_shard_costs_reading_its_file_again(library: Path, videos: Path, damage: Damage) -> None:
    before = state(library)
    damage(library)
    problems = verify(library)
    assert [problem.where.startswith("clip ") for problem in problems] == [True]
    assert "evenreel index" in problems[0].remedy
    repair(library)
    assert verify(library) == []
    assert len(state(library)["clips"]) == 2
    report = index_folders([videos], library, SETTINGS)
    assert (report.indexed, report.unchanged) == (1, 2)
    assert state(library) == before


@pytest.mark.parametrize("damage", CATALOG)
def test_a_lost_catalog_is_made_anew_from_the_shards(library: Path, videos: Path, damage: Damage) -> None:
    before = state(library)
    damage(library)
    assert [problem.where for problem in verify(library)] == ["catalog.sqlite"]
    repair(library)
    report = index_folders([videos], library, replace(SETTINGS, model="auto"))
    assert (report.indexed, report.recognised, report.frames) == (0, 3, 0)
    assert state(library) == before
    assert verify(library) == []


def test_a_damaged_catalog_is_kept_beside_the_new_one(library: Path) -> None:
    garbage_catalog(library)
    for use in (lambda: open_library(library), lambda: index_folders([library], library, SETTINGS)):
        with pytest.raises(LibraryError, match="damaged .* evenreel repair"):
            use()
    done = repair(library)
    assert "catalog.sqlite.broken-1" in done[0]
    assert (library / "catalog.sqlite.broken-1").read_bytes() == b"\0" * 8192


def test_search_never_answers_from_a_damaged_matrix(library: Path) -> None:
    for damage in (lose_vectors, cut_vectors):
        damage(library)
        with open_library(library) as opened, pytest.raises(LibraryError, match="evenreel repair"):
            opened.search("a red square")
        repair(library)


def test_repairing_twice_and_before_indexing_loses_no_clip(library: Path, videos: Path) -> None:
    lose_catalog(library)
    repair(library)
    repair(library)
    assert index_folders([videos], library, SETTINGS).indexed == 0


def test_missing_files_are_forgotten_when_asked(library: Path, videos: Path, tmp_path: Path) -> None:
    fewer = tmp_path / "fewer"
    shutil.copytree(videos, fewer)
    index_folders([fewer], library, SETTINGS)
    gone = fewer / "clip_00.mp4"
    gone.unlink()
    index_folders([fewer], library, SETTINGS)
    repair(library, drop_missing=True)
    found = state(library)
    assert len(found["files"]) == 5  # the other folder still has the clip
    assert len(found["clips"]) == 3
    assert verify(library) == []


def test_there_is_nothing_to_verify_or_repair_in_an_empty_folder(tmp_path: Path) -> None:
    for use in (verify, repair):
        with pytest.raises(LibraryError, match="There is no library"):
            use(tmp_path)


def test_leftovers_of_a_crash_are_cleared(library: Path, videos: Path) -> None:
    """A shard that was being written, and vectors that no transaction names."""
    before = state(library)
    (first_shard(library).parent / ".half.0123456789abcdef.tmp").write_bytes(b"half")
    with next(library.glob("vectors.*.f16")).open("ab") as file:
        file.write(b"\xff" * 1000)
    assert verify(library) == []
    write_folder(videos.parent / "more", 4)
    index_folders([videos.parent / "more" / "clip_03.mp4"], library, SETTINGS)
    found = state(library)
    assert found["left over"] == []
    assert len(found["clips"]) == len(before["clips"]) + 1
    assert verify(library) == []
