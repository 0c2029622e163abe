from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import evenreel
from evenreel import encoders
from evenreel.config import IndexSettings
from evenreel.errors import DownloadError, EncoderError, LibraryError
from evenreel.library import index_folders, open_library, verify
from evenreel.library.index.run import make_empty
from evenreel.library.index.stages import ReadingStage
from evenreel.library.store import catalog
from evenreel.library.store.catalog import CATALOG, library_lock, open_for_writing
from tests.forked import context
from tests.in_process import run_here
from tests.library.videos import write_folder
from tests.tiny_checkpoints import tiny_clip

WORDS_ONLY = IndexSettings(model=None, read_text=False, workers=1)
SEEN = IndexSettings(model="builtin", read_text=False, workers=1)


def refuses(error: BaseException) -> Callable[..., NoReturn]:
    def load(*_: object, **__: object) -> NoReturn:
        raise error

    return load


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """A folder with two videos."""
    write_folder(tmp_path / "videos", 2)
    return tmp_path / "videos"


def _killed_as_it_begins(videos: Path, library: Path) -> None:
    catalog.lay_down = lambda _: os._exit(9)  # type: ignore[assignment]
    index_folders(videos, library, WORDS_ONLY)


def test_a_run_that_is_killed_before_its_catalog_has_tables_is_gone_on_with(tmp_path: Path, videos: Path) -> None:
    process = context.Process(target=_killed_as_it_begins, args=(videos, tmp_path / "library"))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    assert index_folders(videos, tmp_path / "library", WORDS_ONLY).indexed == 2
    assert verify(tmp_path / "library") == []
    assert not list((tmp_path / "library").glob(".catalog*"))


@pytest.mark.parametrize("error", [EncoderError("The model cannot be had."), KeyboardInterrupt()], ids=type)
@pytest.mark.parametrize("there", [False, True], ids=["no folder", "an empty folder"])
def test_no_library_is_left_where_the_model_cannot_be_had(
    tmp_path: Path, videos: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, there: bool
) -> None:
    library = tmp_path / "library"
    if there:
        library.mkdir()
    monkeypatch.setattr(encoders, "load_encoder", refuses(error))
    with pytest.raises(type(error)):
        index_folders([videos], library, SEEN)
    assert (list(library.iterdir()) if there else library.exists()) == ([] if there else False)
    with pytest.raises(LibraryError, match="There is no library at"):
        evenreel.open_library(library)
    monkeypatch.undo()
    assert index_folders([videos], library, SEEN).indexed == 2
    assert verify(library) == []


def test_a_second_indexer_takes_nothing_of_the_first_back(tmp_path: Path, videos: Path) -> None:
    library = tmp_path / "library"
    with library_lock(library):
        with pytest.raises(LibraryError, match="is being written by"):
            index_folders([videos], library, WORDS_ONLY)
        assert sorted(path.name for path in library.iterdir()) == ["index.holder", "index.lock"]


def test_broken_videos_alone_load_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is a download of 600 MB, for nothing here."""
    loaded: list[object] = []
    monkeypatch.setattr(encoders, "load_encoder", lambda *names, **_: loaded.extend(names))
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "broken.mp4").write_bytes(b"not a video at all" * 100)
    report = index_folders([folder], tmp_path / "library", SEEN)
    assert [aside.reason for aside in report.set_aside] == ["not_media"]
    assert loaded == []


@pytest.mark.parametrize("form", [(), ("--json",), ("--no-vision",)])
def test_an_empty_library_says_so(tmp_path: Path, form: tuple[str, ...]) -> None:
    library = tmp_path / "library"
    open_for_writing(library).close()  # what a first run leaves that is killed at once
    done = run_here("search", "a tram", "--library", library, *form, environment={})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"evenreel: The library {library} is empty: no video has been indexed into it yet; run evenreel index FOLDER "
        f"--library {library}.\n"
    )


def test_a_root_counts_once_a_file_of_it_is_here(tmp_path: Path, videos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fails before leaves nothing that refuses the next, with another model or with none."""
    library = tmp_path / "library"
    make_empty(library)
    with monkeypatch.context() as patch:
        patch.setattr(encoders, "load_encoder", refuses(EncoderError("The model cannot be had.")))
        with pytest.raises(EncoderError):
            index_folders(videos, library, IndexSettings(read_text=False, workers=1))
        with pytest.raises(DownloadError):
            patch.undo()
            index_folders(videos, library, IndexSettings(model="org/none", read_text=False, workers=1))
    with monkeypatch.context() as patch:  # ended when its model is loaded and no file is read
        patch.setattr(ReadingStage, "put", refuses(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            index_folders(videos, library, SEEN)
    with open_library(library, vision=False) as opened:
        assert opened.roots() == ()
    other = IndexSettings(model=str(tiny_clip(tmp_path / "other")), read_text=False, workers=1)
    assert index_folders(videos, library, other).indexed == 2
    with open_library(library, vision=False) as opened:
        assert opened.roots() == (str(videos),)
        assert opened.stats().model == str(tmp_path / "other")


def test_an_empty_library_that_was_there_before_stays(
    tmp_path: Path, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_for_writing(tmp_path / "library").close()
    monkeypatch.setattr(encoders, "load_encoder", refuses(EncoderError("The model cannot be had.")))
    with pytest.raises(EncoderError):
        index_folders([videos], tmp_path / "library", SEEN)
    assert (tmp_path / "library" / CATALOG).exists()
