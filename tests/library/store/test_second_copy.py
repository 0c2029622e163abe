"""Hazard 34: the second copy is there when it is needed, and where it cannot be read it costs nothing that is sound."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenreel.config import IndexSettings
from evenreel.errors import LibraryError
from evenreel.features.shards import read_shard, write_shard
from evenreel.library import index_folders, open_library, repair, verify
from evenreel.library.store import writer as store_module
from evenreel.library.store.kept import FILE, read_copy
from evenreel.library.store.sealed_lines import sealed_line
from tests import prebuilt
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import QUICK, change, library, made, table_of, videos
from tests.library.state import state
from tests.library.videos import write_folder

__all__ = ["library", "made", "videos"]


# What a catalog without a copy has lost ---------------------------------------------------------------------------

ENTRIES = ("rule", "model", "encoder_id", "weights_hash", "dimension")


@pytest.mark.parametrize("lost", [*((name,) for name in ENTRIES), ENTRIES[2:], ENTRIES], ids=" ".join)
@pytest.mark.parametrize(
    "damage", ["UPDATE meta SET value = '77' WHERE key = '{}'", "DELETE FROM meta WHERE key = '{}'"]
)
def test_shards_say_what_the_library_was_made_with(
    library: Path, videos: Path, damage: str, lost: tuple[str, ...]
) -> None:
    before = state(library)
    (library / FILE).unlink()
    change(library, *map(damage.format, lost))
    assert verify(library)
    repair(library)
    assert (verify(library), state(library)) == ([], before)
    assert not list(library.rglob("*.safetensors.broken"))
    assert index_folders([videos], library, QUICK).unchanged == 2


def test_what_is_left_of_the_model_says_whose_shards_have_a_vote(library: Path) -> None:
    """Most shards are another model's; the digest of the weights is as it was written."""
    before = state(library)["meta"]
    (library / FILE).unlink()
    change(library, "DELETE FROM meta WHERE key IN ('encoder_id', 'dimension')")
    for number in range(3):
        _copy_of_another_model(library, f"{number:032x}")
    repair(library)
    assert (verify(library), state(library)["meta"]) == ([], before)
    assert len(list(library.rglob("*.safetensors.broken"))) == 3


def _copy_of_another_model(library: Path, clip_id: str) -> None:
    shard = read_shard(sorted(library.glob("shards/*/*.safetensors"))[-1])
    assert shard.frames is not None
    frames = np.repeat(np.eye(1, 5, dtype=np.float16), len(shard.frames), axis=0)
    write_shard(
        library / "shards", replace(shard, clip_id=clip_id, encoder_id="b", weights_hash="b" * 64, frames=frames)
    )


def test_a_library_of_words_alone_stays_one(videos: Path, tmp_path: Path) -> None:
    words, library = IndexSettings(model=None, workers=1), tmp_path / "words"
    prebuilt.library(videos, library, words)
    before = state(library)
    (library / FILE).unlink()
    change(library, "DELETE FROM meta WHERE key = 'model'")
    repair(library)
    assert (verify(library), state(library)) == ([], before)


def test_what_no_shard_says_is_known_again_when_the_model_is_loaded(
    library: Path, videos: Path, tmp_path: Path
) -> None:
    """All shards are gone, with them whoever could say how long a vector is."""
    before = state(library)
    (library / FILE).unlink()
    change(library, "DELETE FROM meta WHERE key = 'dimension'")
    shutil.rmtree(library / "shards")
    repair(library)
    assert index_folders([videos], library, QUICK).indexed == 2
    assert (verify(library), state(library)) == ([], before)


# A run that is broken off -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device"), LibraryError("No.")])
def test_a_run_that_is_broken_off_leaves_a_copy_of_what_it_has_done(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    _break_off(videos, tmp_path / "new", monkeypatch, error)
    copy = read_copy(tmp_path / "new")
    assert copy is not None
    assert [row["path"] for row in copy.rows["files"]] == [row[0] for row in table_of(tmp_path / "new", "files")] != []
    assert verify(tmp_path / "new") == []
    change(tmp_path / "new", "DELETE FROM files", "UPDATE meta SET value = 'x' WHERE key = 'weights_hash'")
    repair(tmp_path / "new")
    assert verify(tmp_path / "new") == []
    assert len(table_of(tmp_path / "new", "files")) == 1


def _break_off(videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Run until the second clip is to be stored."""
    put, calls = store_module.Store.put_clip, []

    def late(*request: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise error
        put(*request)

    with monkeypatch.context() as broken_off:
        broken_off.setattr(store_module.Store, "put_clip", late)
        with pytest.raises((KeyboardInterrupt, LibraryError)):
            index_folders([videos], library, QUICK)


def test_a_run_that_finds_damage_does_not_copy_it(
    library: Path, videos: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is damaged while the run goes on would take the place of the only sound rows."""
    before = (library / FILE).read_bytes()
    write_folder(tmp_path / "more", 3)

    def spoil(*_: Any) -> None:
        change(library, "UPDATE files SET size = size + 1 WHERE name = 'clip_01.mp4'")
        raise LibraryError("The disk is gone.")

    monkeypatch.setattr(store_module.Store, "mark_missing", spoil)
    with pytest.raises(LibraryError, match="disk is gone"):
        index_folders([tmp_path / "more"], library, QUICK)
    assert (library / FILE).read_bytes() == before


def test_a_first_run_that_is_taken_back_leaves_no_copy(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store_module.Store, "put_clip", refuse)
    with pytest.raises(KeyboardInterrupt):
        index_folders([videos], tmp_path / "new", QUICK)
    assert not (tmp_path / "new").exists()


# A copy that cannot be read ---------------------------------------------------------------------------------------


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "mine.txt").write_text("not of the library")


def a_closed_file(path: Path) -> None:
    """As where the permission is lacking, which a superuser does not notice: a link that leads nowhere in the end."""
    path.symlink_to(path)


UNREADABLE = pytest.mark.parametrize("make", [a_folder, a_closed_file])


@UNREADABLE
def test_a_copy_that_cannot_be_read_is_a_problem_of_a_library_that_works(
    library: Path, videos: Path, make: Callable[[Path], None]
) -> None:
    before = state(library)
    (library / FILE).unlink()
    make(library / FILE)
    (problem,) = verify(library)
    assert (problem.where, "cannot be read" in problem.what) == (FILE, True)
    assert "evenreel repair" in problem.remedy
    with open_library(library, encoder=PixelEncoder()) as opened:
        assert len(opened.search("a red square").hits) == 2
    assert any(f"{FILE}.broken-1" in line for line in repair(library))
    assert (library / f"{FILE}.broken-1").is_symlink() or (library / f"{FILE}.broken-1" / "mine.txt").exists()
    assert (verify(library), state(library)) == ([], before)
    assert read_copy(library) is not None


@UNREADABLE
def test_an_index_run_writes_a_new_copy(
    library: Path, videos: Path, make: Callable[[Path], None], tmp_path: Path
) -> None:
    (library / FILE).unlink()
    make(library / FILE)
    write_folder(tmp_path / "more", 3)
    index_folders([tmp_path / "more"], library, QUICK)
    assert verify(library) == []
    a_folder(tmp_path / FILE)
    index_folders([videos], tmp_path, QUICK)  # a new library, in a folder that has something of that name
    assert verify(tmp_path) == []


def test_a_copy_that_is_needed_and_cannot_be_read_just_now_stops_a_repair(library: Path) -> None:
    """It may be the only one that knows; nothing is changed before somebody has looked."""
    (library / FILE).unlink()
    a_closed_file(library / FILE)
    change(library, "DELETE FROM files")
    assert [problem.where for problem in verify(library) if problem.where == FILE]
    with pytest.raises(LibraryError, match=r"kept\.jsonl cannot be read .*permissions"):
        repair(library)
    assert (library / FILE).is_symlink()


def test_a_copy_of_a_later_version_is_a_problem_with_its_remedy(library: Path) -> None:
    (library / FILE).write_text(sealed_line({"format": 9, "changes": 1, "seals": "", "lines": 0}))
    (problem,) = verify(library)
    assert (problem.where, problem.remedy) == (FILE, "update evenreel")
