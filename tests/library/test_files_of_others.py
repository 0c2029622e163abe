from __future__ import annotations

from pathlib import Path

import pytest

from evenreel.errors import EncoderError, EvenreelError
from evenreel.features.manifest import remove_leftovers
from evenreel.library import repair, verify
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


@pytest.mark.parametrize(
    ("fails", "error", "said"),
    [
        ("encoders.load_encoder", EncoderError("The model cannot be had."), "cannot be had"),
        ("library.store.writer.write_shard", OSError(28, "No space left on device"), "is full"),  # stills are there
    ],
)
def test_a_first_run_that_fails_leaves_a_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, videos: Path, fails: str, error: Exception, said: str
) -> None:
    library, put = tmp_path / "project", put_others(tmp_path / "project")
    before = everything(library)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"evenreel.{fails}", fail)
    with pytest.raises(EvenreelError, match=said):
        index(videos, library, model="builtin")
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
