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
from evenreel.library import open_library, verify
from tests import prebuilt
from tests.library.state import state
from tests.library.videos import write_folder
from tests.library.words_only import index


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
