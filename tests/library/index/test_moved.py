"""Files that were moved: one clip, under its new path, with what was said about it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from evenreel.errors import LibraryError
from evenreel.library import index_folders, open_library, verify
from tests import prebuilt
from tests.in_process import run_here
from tests.library.damage import write
from tests.library.state import state
from tests.library.videos import write_folder
from tests.library.words_only import WORDS_ONLY, index


def files(library: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name -> state and metadata of every file that a library knows."""
    with sqlite3.connect(library / "catalog.sqlite") as connection:
        rows = connection.execute("SELECT path, state, metadata FROM files").fetchall()
    return {os.path.basename(path): (found, json.loads(metadata)) for path, found, metadata in rows}


def states(library: Path) -> dict[str, str]:
    return {name: found for name, (found, _) in files(library).items()}


def test_a_moved_file_is_one_file_with_its_new_path(videos: Path, library: Path) -> None:
    prebuilt.library(videos, library)
    (videos / "sub").mkdir()
    (videos / "clip_00.mp4").rename(videos / "sub" / "renamed.mp4")
    report = index(videos, library)
    assert (report.moved, report.missing, report.recognised, report.frames) == (1, 0, 1, 0)
    assert states(library) == dict.fromkeys(["clip_01.mp4", "clip_02.mp4", "clip_03.mp4", "renamed.mp4"], "indexed")
    with open_library(library) as opened:
        assert opened.stats().missing == 0
        assert [Path(hit.path).name for hit in opened.search("renamed").hits] == ["renamed.mp4"]
    assert verify(library) == []
    assert index(videos, library).did_nothing


def test_one_that_moved_to_another_folder_is_found_whichever_is_looked_at_first(tmp_path: Path, library: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    write_folder(here, 3)
    write_folder(there, 1, first=10)
    index_folders([here, there], library, WORDS_ONLY)
    (here / "clip_00.mp4").rename(there / "b.mp4")
    index_folders([there], library, WORDS_ONLY)
    index_folders([here], library, WORDS_ONLY)
    assert states(library) == dict.fromkeys(["b.mp4", "clip_01.mp4", "clip_02.mp4", "clip_10.mp4"], "indexed")
    (there / "b.mp4").rename(here / "c.mp4")
    index_folders([there], library, WORDS_ONLY)
    assert states(library)["b.mp4"] == "missing"  # until it is found again
    index_folders([here], library, WORDS_ONLY)
    assert states(library) == dict.fromkeys(["c.mp4", "clip_01.mp4", "clip_02.mp4", "clip_10.mp4"], "indexed")


def test_what_was_said_about_a_file_moves_with_it(videos: Path, library: Path, tmp_path: Path) -> None:
    table = tmp_path / "said.csv"
    table.write_text("path,caption,source\nvideos/clip_00.mp4,a lighthouse at dusk,camera\n")
    index_folders([videos], library, WORDS_ONLY, metadata=[table])
    (videos / "clip_00.mp4").rename(videos / "moved.mp4")
    index(videos, library)
    assert files(library)["moved.mp4"] == ("indexed", {"caption": "a lighthouse at dusk", "source": "camera"})
    with open_library(library) as opened:
        assert [Path(hit.path).name for hit in opened.search("lighthouse").hits] == ["moved.mp4"]
    assert verify(library) == []
    table.write_text("path,caption\nvideos/again.mp4,a market at noon\n")
    (videos / "moved.mp4").rename(videos / "again.mp4")
    index_folders([videos], library, WORDS_ONLY, metadata=[table])
    assert files(library)["again.mp4"] == ("indexed", {"caption": "a market at noon"})  # what is said now counts


def test_a_copy_that_is_deleted_is_not_missed_and_the_last_one_is(videos: Path, library: Path) -> None:
    shutil.copy(videos / "clip_00.mp4", videos / "copy.mp4")
    prebuilt.library(videos, library)
    (videos / "copy.mp4").unlink()
    assert index(videos, library).moved == 1
    assert "copy.mp4" not in states(library)
    (videos / "clip_00.mp4").unlink()
    report = index(videos, library)
    assert (report.moved, report.missing) == (0, 1)
    assert states(library)["clip_00.mp4"] == "missing"
    assert len(state(library)["clips"]) == 4


def test_a_copy_that_is_away_for_a_while_keeps_what_was_said_about_it(
    videos: Path, library: Path, tmp_path: Path
) -> None:
    shutil.copy(videos / "clip_00.mp4", videos / "copy.mp4")
    table = tmp_path / "said.csv"
    table.write_text("path,caption\nvideos/clip_00.mp4,a lighthouse\nvideos/copy.mp4,the same at noon\n")
    index_folders([videos], library, WORDS_ONLY, metadata=[table])
    (videos / "copy.mp4").rename(tmp_path / "away.mp4")
    report = index(videos, library)
    assert (report.moved, report.missing) == (0, 1)
    (tmp_path / "away.mp4").rename(videos / "copy.mp4")
    index(videos, library)
    assert files(library)["copy.mp4"] == ("indexed", {"caption": "the same at noon"})
    assert files(library)["clip_00.mp4"] == ("indexed", {"caption": "a lighthouse"})
    assert verify(library) == []


def test_an_older_library_loses_its_second_names(videos: Path, library: Path) -> None:
    """A library that an earlier version indexed has the old name as missing beside the new one."""
    prebuilt.library(videos, library)
    write(
        library,
        "INSERT INTO files SELECT replace(path, 'clip_00', 'before'), 'before.mp4', root, size, mtime_ns, ctime_ns,"
        " 'missing', clip_id, reason, sentence, metadata FROM files WHERE name = 'clip_00.mp4'",
    )
    index(videos, library)
    assert "before.mp4" not in states(library)


@pytest.mark.parametrize("kept", [0, 3], ids=["all", "most"])
def test_a_renamed_folder_is_no_vanished_disk(tmp_path: Path, library: Path, kept: int) -> None:
    videos = tmp_path / "videos"
    write_folder(videos / "summer", 12)
    write_folder(videos / "kept", kept, first=20)
    prebuilt.library(videos, library)
    (videos / "summer").rename(videos / "summer of 2024")
    report = index(videos, library)
    assert (report.moved, report.missing, report.frames) == (12, 0, 0)
    assert set(states(library).values()) == {"indexed"}
    shutil.rmtree(videos / "summer of 2024")
    write_folder(videos / "others", 12, first=40)  # as many new files are no sign of a move
    with pytest.raises(LibraryError, match="is its disk or share connected"):
        index(videos, library)


def test_the_command_says_that_a_file_was_moved(videos: Path, library: Path) -> None:
    arguments = ("index", str(videos), "--library", str(library), "--no-vision", "--no-ocr")
    assert run_here(*arguments, environment={}).returncode == 0
    (videos / "clip_02.mp4").rename(videos / "holiday.mp4")
    told = run_here(*arguments, environment={})
    assert told.returncode == 0
    assert "1 file moved, now known by another name" in " ".join(told.stdout.split())
    assert "missing" not in told.stdout
