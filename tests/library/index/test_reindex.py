from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenreel import open_library
from evenreel.cli.app import app
from evenreel.config import IndexSettings
from evenreel.errors import LibraryError, UsageError
from evenreel.library import index_folders, reindex, remove_from_library, repair, verify
from evenreel.library.index import reindex as module
from tests import prebuilt
from tests.library.damage import table_of
from tests.library.state import state
from tests.library.stub_models import SETTINGS, load
from tests.library.videos import write_folder
from tests.library.words_only import index

NEW = "org/windows"
WITH_TEXT = replace(SETTINGS, read_text=True)


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch, quick_text: None) -> None:
    monkeypatch.setattr("evenreel.encoders.load_encoder", load)


def alone(library: Path, videos: Path, settings: IndexSettings) -> dict[str, Any]:
    index_folders([videos], library, settings)
    return state(library)


def test_the_library_is_then_as_if_it_were_made_with_the_new_model(
    videos: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prebuilt.library(videos, library, WITH_TEXT)
    tracks = table_of(library, "tracks")
    assert tracks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenreel.onscreen.reader.TextReader.new_video", lambda _: pytest.fail("text was read again"))
        assert reindex(library, NEW, IndexSettings(workers=1)).indexed == 4
    assert verify(library) == []
    assert state(library) == alone(tmp_path / "other", videos, replace(WITH_TEXT, model=NEW))
    assert not list(library.glob("models/*"))
    assert index_folders([videos], library).did_nothing  # its model is the new one
    with open_library(library) as opened:
        assert opened.made_with[0] == f"{NEW}@1"
        assert opened.search("red").hits
    repair(library)
    assert verify(library) == []


def test_new_and_missing_files(videos: Path, library: Path) -> None:
    prebuilt.library(videos, library, SETTINGS)
    shutil.copy(videos / "clip_00.mp4", videos / "new.mp4")
    (videos / "clip_01.mp4").unlink()
    report = reindex(library, NEW)
    assert (report.indexed, report.missing) == (3, 1)
    names = [row[1] for row in table_of(library, "files")]
    assert "new.mp4" not in names
    assert [row[7] for row in table_of(library, "clips")].count(0) == 1  # words alone, until its file is back
    assert verify(library) == []


def test_vectors_of_clips_whose_folder_is_gone_stay(videos: Path, library: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (videos / "clip_03.mp4").rename(other / "clip_03.mp4")
    index_folders([videos, other], library, SETTINGS)
    before = {table: table_of(library, table) for table in ("clips", "moments", "vector_rows")}
    for folders, clips in (((videos, other), "4 clips"), ((other,), "1 clip")):
        for folder in folders:
            folder.rename(folder.with_suffix(".away"))
        with pytest.raises(LibraryError, match=rf"no vectors of {clips}, for example of .*clip_0.*old vectors stay"):
            reindex(library, NEW)
        assert {table: table_of(library, table) for table in before} == before
        assert verify(library) == []
        for folder in folders:
            folder.with_suffix(".away").rename(folder)
    assert reindex(library, NEW).indexed == 1  # the others are made
    assert verify(library) == []
    other.rename(tmp_path / "away")
    reindex(library, "org/third", IndexSettings(workers=1, accept_missing=True))
    assert [row[7] for row in table_of(library, "clips")].count(0) == 1


def broken_off(monkeypatch: pytest.MonkeyPatch, library: Path, at: str) -> None:
    """Make vectors of the new model, and break off; at `finish_exchange` it is behind the transaction."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, at, stop)
        with pytest.raises(KeyboardInterrupt):
            reindex(library, NEW)


@pytest.mark.parametrize("at", ["_exchange", "rebuild_vectors", "update_null_scores"])
def test_until_the_exchange_a_search_uses_the_old_vectors_and_a_later_run_goes_on(
    videos: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    prebuilt.library(videos, library, SETTINGS)
    with open_library(library) as opened:
        before = opened.search("red")
    broken_off(monkeypatch, library, at)
    assert verify(library) == []
    with open_library(library) as opened:
        assert opened.search("red") == before
        assert opened.stats().making == f"{NEW}@1"
    assert f"in the making: {NEW}@1" in CliRunner().invoke(app, ["info", "-l", str(library)]).output
    assert reindex(library, NEW).indexed == 0
    assert verify(library) == []
    assert state(library) == alone(tmp_path / "other", videos, replace(SETTINGS, model=NEW))


@pytest.mark.parametrize("by", ["a run", "a repair"])
def test_an_exchange_that_was_broken_off_behind_its_transaction_is_finished(
    videos: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    prebuilt.library(videos, library, SETTINGS)
    broken_off(monkeypatch, library, "finish_exchange")
    with open_library(library) as opened:
        assert opened.search("red").hits
    if by == "a run":
        assert index_folders([videos], library, IndexSettings(read_text=False)).did_nothing
    else:
        (problem,) = verify(library)
        assert problem.where == f"model {NEW}@1"
        assert problem.what.startswith("its exchange was broken off")
        assert problem.remedy.startswith("run: evenreel verify --repair")
        repair(library)
    assert verify(library) == []
    assert state(library) == alone(tmp_path / "other", videos, replace(SETTINGS, model=NEW))


def test_a_damaged_model_in_the_making_is_dropped_by_a_repair_and_made_again(
    videos: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prebuilt.library(videos, library, SETTINGS)
    broken_off(monkeypatch, library, "_exchange")
    (place,) = library.glob("models/*")
    (shard, *_) = place.glob("shards/*/*")
    shard.write_bytes(b"damaged")
    with pytest.raises(LibraryError, match="the same command makes it again"):
        reindex(library, NEW)
    (place / "catalog.sqlite").write_bytes(b"damaged" * 1000)
    assert "in the making" in " ".join(repair(library))
    assert reindex(library, NEW).indexed == 4
    assert state(library) == alone(tmp_path / "other", videos, replace(SETTINGS, model=NEW))


def test_what_cannot_be_exchanged_is_refused_in_a_sentence(
    videos: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LibraryError, match="There is no library"):
        reindex(library, NEW)
    assert not library.exists()
    index_folders([videos], tmp_path / "words", replace(SETTINGS, model=None))
    with pytest.raises(LibraryError, match="has no model to exchange"):
        reindex(tmp_path / "words", NEW)
    index_folders([videos], library, SETTINGS)
    with pytest.raises(UsageError, match="is made with org/pixels@1 already; name another model"):
        reindex(library, "org/pixels")
    broken_off(monkeypatch, library, "_exchange")
    with pytest.raises(
        UsageError, match=f"for {NEW}@1 was broken off; go on with evenreel reindex --model {NEW}@1, or"
    ):
        reindex(library, "org/third")
    assert reindex(library, "org/third", anew=True).indexed == 4
    assert not list(library.glob("models/*"))
    assert verify(library) == []


@pytest.fixture
def more(tmp_path: Path) -> Path:
    write_folder(tmp_path / "more", 3, first=3)
    return tmp_path / "more"


def whole(library: Path) -> dict[str, object]:
    """The state of a library whose rows of vectors are numbered anew."""
    repair(library)
    return state(library)


def test_a_forgotten_folder_leaves_the_library_as_it_is_without_it(
    videos: Path, more: Path, library: Path, tmp_path: Path
) -> None:
    index_folders([videos, more], library, SETTINGS)
    foretold = remove_from_library(library, more, dry_run=True)
    report = remove_from_library(library, more)
    assert (report.files, report.clips, report.sources) == (3, 2, (str(more),))  # one of them is a clip of the other
    assert (foretold.files, foretold.clips, foretold.removed, report.removed) == (3, 2, False, True)
    assert verify(library) == []
    index_folders([videos], tmp_path / "clean", SETTINGS)
    assert whole(library) == whole(tmp_path / "clean")
    assert len(list(more.iterdir())) == 3
    with open_library(library) as opened:
        assert opened.roots() == (str(videos),)
        assert opened.search("red").hits
    assert index_folders([videos], library, SETTINGS).did_nothing


def test_a_folder_inside_an_indexed_one_is_found_again_unless_it_is_ignored(videos: Path, library: Path) -> None:
    inside = videos / "old [1]"
    write_folder(inside, 2, first=7)
    prebuilt.library(videos, library)
    assert remove_from_library(library, inside).found_again == (str(videos),)
    assert index(videos, library).indexed == 2
    report = remove_from_library(library, [inside, videos / "clip_00.mp4"], ignore=True)
    assert (report.files, report.found_again, report.ignored) == (3, (), ("/old \\[1\\]", "/clip_00.mp4"))
    again = index(videos, library)
    assert (again.indexed, again.unchanged, again.ignored) == (0, 3, 2)


def test_a_file_that_is_gone_and_a_folder_above_several_can_be_forgotten(
    videos: Path, more: Path, library: Path, tmp_path: Path
) -> None:
    index_folders([videos, more], library, SETTINGS)
    (videos / "clip_00.mp4").unlink()
    assert remove_from_library(library, videos / "clip_00.mp4").files == 1
    report = remove_from_library(library, tmp_path)
    assert (report.files, set(report.sources)) == (6, {str(videos), str(more)})
    assert verify(library) == []
    assert index_folders([videos], library, SETTINGS).indexed == 3


def test_hazard_131_what_the_library_does_not_know_is_a_sentence(videos: Path, library: Path, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="no library"):
        remove_from_library(library, videos)
    index(videos, library)
    before = state(library)
    with pytest.raises(UsageError, match="knows no file"):
        remove_from_library(library, [videos, tmp_path / "clip"])  # the first letters of nothing
    assert state(library) == before


@pytest.mark.parametrize("stops_at", range(4))
def test_hazard_131_a_run_that_ends_half_way_is_finished_by_the_next(
    videos: Path, more: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops_at: int
) -> None:
    index_folders([videos, more], library, SETTINGS)
    steps = [0]

    def step(name: str, *arguments: object) -> object:
        steps[0] += 1
        if steps[0] > stops_at:
            raise KeyboardInterrupt
        return own[name](*arguments)

    own = {name: getattr(module, name) for name in ("_forget", "_measure", "remove_about")}
    with monkeypatch.context() as patch:
        for name in own:
            patch.setattr(module, name, lambda *arguments, name=name: step(name, *arguments))
        with pytest.raises(KeyboardInterrupt):
            remove_from_library(library, more)
    with_rows = remove_from_library(library, more)
    assert with_rows.sources == (str(more),)
    index_folders([videos], tmp_path / "clean", SETTINGS)
    assert whole(library) == whole(tmp_path / "clean")


def test_paths_are_compared_whole(videos: Path, library: Path) -> None:
    beside = videos.with_name(f"{videos.name} 2")
    write_folder(beside, 1, first=9)
    index_folders([videos, beside], library, SETTINGS)
    assert remove_from_library(library, f"{videos}{os.sep}").files == 4
    with open_library(library, vision=False) as opened:
        assert opened.roots() == (str(beside),)
