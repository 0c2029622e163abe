"""What a library forgets: folders and single files, and nothing on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evenreel import open_library
from evenreel.errors import LibraryError, UsageError
from evenreel.library import index_folders, remove_from_library, repair, verify
from evenreel.library.index import reindex as removing
from tests import prebuilt
from tests.library.state import state
from tests.library.stub_models import SETTINGS, load
from tests.library.videos import write_folder
from tests.library.words_only import index


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.encoders.load_encoder", load)


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """A second folder, with a copy of a video of the first."""
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
    """Whatever was done before, the same command brings about the same end."""
    index_folders([videos, more], library, SETTINGS)
    steps = [0]

    def step(name: str, *arguments: object) -> object:
        steps[0] += 1
        if steps[0] > stops_at:
            raise KeyboardInterrupt
        return own[name](*arguments)

    own = {name: getattr(removing, name) for name in ("_forget", "_measure", "remove_about")}
    with monkeypatch.context() as patch:
        for name in own:
            patch.setattr(removing, name, lambda *arguments, name=name: step(name, *arguments))
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
