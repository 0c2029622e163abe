from __future__ import annotations

from pathlib import Path

import pytest

from evenreel import encoders
from evenreel.config import IndexSettings
from evenreel.errors import EncoderError, LibraryError
from evenreel.features.folder import remove_leftovers
from evenreel.library import index_folders, repair, verify
from tests.in_process import run_here
from tests.library.videos import write_folder, write_video
from tests.library.words_only import index

OTHERS = (
    "stills/holiday/photo.jpg",
    "stills/holiday/album.safetensors",
    "stills/ab/abc.safetensors",
    "stills/ab/0123456789abcdef0123456789abcdef.safetensors",  # in the folder of another name
    "stills/holiday/.photo.jpg.tmp",
    "stills/notes.txt",
    "shards/mine/model-00001.safetensors",
    "shards/mine/.draft.tmp",
    "shards/ab/weights.safetensors",
    ".personal.sqlite.mine.tmp",
    "vectors.mine.f16",
    "vectors.1.old.f16",
)


def put_others(folder: Path) -> dict[str, bytes]:
    """Files of somebody, in the very folders of a library."""
    for name in OTHERS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(f"precious: {name}".encode())
    return others(folder)


def others(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in OTHERS if (folder / name).exists()}


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_first_run_that_fails_leaves_a_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, videos: Path
) -> None:
    library, put = tmp_path / "project", put_others(tmp_path / "project")
    before = everything(library)

    def load(*_: object, **__: object) -> None:
        raise EncoderError("The model cannot be had.")

    monkeypatch.setattr(encoders, "load_encoder", load)
    with pytest.raises(EncoderError):
        index_folders([videos], library, IndexSettings(model="builtin", read_text=False, workers=1))
    assert others(library) == put
    assert everything(library) == before


def test_a_first_run_that_fails_takes_its_own_stills_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, videos: Path
) -> None:
    library, put = tmp_path / "project", put_others(tmp_path / "project")
    before = everything(library)

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("evenreel.library.store.writer.write_shard", full)
    with pytest.raises(LibraryError, match="is full"):
        index(videos, library)
    assert others(library) == put
    assert everything(library) == before


def test_the_command_keeps_the_stills_folder_of_a_project(tmp_path: Path) -> None:
    project = tmp_path / "proj"
    write_folder(project / "clips", 1)
    (project / "stills" / "holiday").mkdir(parents=True)
    (project / "stills" / "holiday" / "photo.jpg").write_text("precious")
    told = run_here("index", project / "clips", "--library", project, "--model", "no-such/model", environment={})
    assert told.returncode == 1
    assert (project / "stills" / "holiday" / "photo.jpg").read_text() == "precious"


@pytest.mark.parametrize("catalog", ["there", "gone"])
def test_an_index_a_check_and_a_repair_touch_no_file_of_others(videos: Path, library: Path, catalog: str) -> None:
    put = put_others(library)
    index(videos, library)
    write_video(videos / "clip_00.mp4", 77)  # its old clip is dropped
    index(videos, library)
    assert verify(library) == []
    assert others(library) == put
    if catalog == "gone":
        (library / "catalog.sqlite").unlink()
    repair(library)
    assert others(library) == put
    assert verify(library) == []
    assert not list(library.rglob("*.broken"))


def test_leftovers_are_those_that_evenreel_names(tmp_path: Path) -> None:
    left, other = tmp_path / "clips" / f".ab.safetensors.{'0f' * 8}.tmp", tmp_path / "clips" / ".draft.tmp"
    for path in (left, other):
        path.parent.mkdir(exist_ok=True)
        path.write_text("half")
    remove_leftovers(tmp_path)
    assert not left.exists()
    assert other.exists()


def test_a_file_that_has_the_name_of_the_copy_is_put_aside(tmp_path: Path, videos: Path) -> None:
    library = tmp_path / "project"
    library.mkdir()
    (library / "personal.sqlite").write_text("precious")
    index(videos, library)
    assert (library / "personal.sqlite.broken-1").read_text() == "precious"
    assert verify(library) == []
