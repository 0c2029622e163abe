"""What a library takes on the disk, and whether its model can know its clips."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest

from evenreel import open_library
from evenreel.library import index_folders
from evenreel.library.contents import PARTS, sizes_on_disk
from evenreel.library.store.catalog import RENDERED_PX, unknown_to_builtin
from evenreel.planted.scenes import SceneRanges
from evenreel.planted.shots import PLANTED_SCENES
from tests import prebuilt
from tests.in_process import run_here
from tests.library.stub_models import SETTINGS, load


def evenreel(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
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
    with sqlite3.connect(library / "catalog.sqlite") as connection:
        sentence = unknown_to_builtin(connection, {"model": "builtin"}) or ""
        assert "4 clips here are no rendered scenes" in sentence
        assert unknown_to_builtin(connection, {"model": "google/siglip2-base-patch16-224"}) is None
        connection.execute("UPDATE clips SET width = 320, height = 240")
        assert unknown_to_builtin(connection, {"model": "builtin"}) is None
        connection.rollback()


def test_remove_on_the_command_line(videos: Path, library: Path) -> None:
    prebuilt.library(videos, library)
    dry = evenreel("remove", videos / "clip_00.mp4", "--library", library, "--dry-run")
    assert dry.stdout.startswith("Would forget 1 file (1 clip)")
    assert "finds them again" in dry.stdout
    done = evenreel("remove", videos / "clip_00.mp4", "--ignore", "--library", library)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["  passed over from now on: /clip_00.mp4"])
    wrong = evenreel("remove", videos / "nothing", "--library", library)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "knows no file" in wrong.stderr
    told = evenreel("info", "--library", library).stdout
    assert "passed over: /clip_00.mp4" in told
    assert "on the disk: " in told
