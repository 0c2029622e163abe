"""A clip whose shard is gone or damaged is read anew by the next index, and nothing else is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evenreel.library import open_library, verify
from evenreel.library.index.run import LOST
from tests import prebuilt
from tests.features.pixel_encoder import PixelEncoder
from tests.library.state import state
from tests.library.videos import write_video
from tests.library.words_only import index

DAMAGE: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "cut": lambda path: os.truncate(path, 100),
    "empty": lambda path: os.truncate(path, 0),
    "changed": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\xff"),
}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("evenreel.encoders.load_encoder", lambda *_, **__: PixelEncoder())
    return "pixels"


def shard_of(library: Path, name: str) -> Path:
    with open_library(library, vision=False) as opened:
        (hit,) = opened.search(name).hits
    (path,) = library.glob(f"shards/*/{hit.clip_id}.safetensors")
    return path


@pytest.mark.parametrize("vision", [False, True])
def test_a_clip_whose_shard_is_gone_is_indexed_anew(videos: Path, library: Path, model: str, vision: bool) -> None:
    """Its file is as it was; nobody but the list of shards could tell."""
    settings: dict[str, object] = {"model": model if vision else None}
    index(videos, library, **settings)
    before = state(library)
    shard_of(library, "clip_02").unlink()
    report = index(videos, library, **settings)
    assert (report.indexed, report.unchanged, report.set_aside) == (1, 3, [])
    assert report.notes == [(str(videos / "clip_02.mp4"), LOST)]
    assert (state(library), verify(library)) == (before, [])
    assert index(videos, library, **settings).did_nothing


@pytest.mark.usefixtures("quick_text")
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_shard_ends_no_run_that_adds_to_it(videos: Path, library: Path, model: str, damage: str) -> None:
    clean = library.with_name("clean")
    index(videos, clean, model=model, read_text=True)
    index(videos, library, model=model)
    DAMAGE[damage](shard_of(library, "clip_02"))
    report = index(videos, library, model=model, read_text=True)
    assert (report.indexed, report.set_aside) == (4, [])
    assert (state(library), verify(library)) == (state(clean), [])


def killed(*_: object) -> None:
    raise SystemExit("killed")


PLACES = {
    "before the rows go": "delete_clips",
    "before the shard goes": "remove_shard",
}


@pytest.mark.parametrize("name", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("returns", [True, False])
def test_hazard_33_a_kill_while_the_clip_of_an_edited_file_is_dropped(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, name: str, returns: bool
) -> None:
    """Its old content may be back by the next run."""
    prebuilt.library(videos, library)
    write_video(videos / "clip_02.mp4", 77)
    monkeypatch.setattr(f"evenreel.library.store.writer.{name}", killed)
    with pytest.raises(SystemExit):
        index(videos, library)
    monkeypatch.undo()
    if returns:
        write_video(videos / "clip_02.mp4", 2)
    index(videos, library)
    clean = library.with_name("clean")
    index(videos, clean)
    assert (state(library), verify(library)) == (state(clean), [])


@pytest.mark.parametrize("where", ["insert_clip", "Store._put_file"])
def test_hazard_33_a_new_file_that_is_gone_after_a_kill_leaves_nothing(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Its shard has no rows yet."""
    prebuilt.library(videos, library)
    before = state(library)
    write_video(videos / "new.mp4", 77)
    monkeypatch.setattr(f"evenreel.library.store.writer.{where}", killed)
    with pytest.raises(SystemExit):
        index(videos, library)
    monkeypatch.undo()
    (videos / "new.mp4").unlink()
    assert index(videos, library).did_nothing
    assert (state(library), verify(library)) == (before, [])
