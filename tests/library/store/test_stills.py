from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evenreel.features import shards as stills_of
from evenreel.features.shards import (
    NEAR_S,
    SIDE_PX,
    Stills,
    read_still,
    seal,
    shard_files,
    shard_path,
    unseal,
    write_stills,
)
from evenreel.library import index_folders, open_library, repair, verify
from evenreel.media import open_video, parse_rule
from evenreel.types import FloatArray
from tests import prebuilt
from tests.library.state import state
from tests.library.videos import write_video
from tests.library.words_only import WORDS_ONLY, index

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:-10],
    "changed": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "empty": lambda _: b"",
    "another's": lambda _: b"no such file",
}


def clip_of(library: Path, name: str) -> str:
    with open_library(library, vision=False) as opened:
        return next(hit.clip_id for hit in opened.search(name, k=9).hits if Path(hit.path).stem == name)


def pixels(jpeg: bytes | None) -> FloatArray:
    assert jpeg is not None
    with Image.open(io.BytesIO(jpeg)) as image:
        assert image.format == "JPEG"
        return np.asarray(image, np.float32)


def test_each_moment_has_the_picture_that_is_on_screen_then(videos: Path, library: Path) -> None:
    """The expected picture is decoded anew and made smaller by another filter of Pillow."""
    long = write_video(videos / "long.mp4", 50, seconds=4.0, size=640)
    prebuilt.library(videos, library)
    clip_id = clip_of(library, "long")
    with open_video(long) as video:
        frames = list(video.frames(parse_rule("every 1 s")))
    small = read_still(library / "stills", clip_of(library, "clip_00"), 0.0)
    assert pixels(small).shape == (64, 64, 3), "it is not blown up"
    assert len(frames) == 4
    for frame in frames:
        found = pixels(read_still(library / "stills", clip_id, frame.time_s))
        assert found.shape == (SIDE_PX, SIDE_PX, 3)
        expected = np.asarray(Image.fromarray(frame.pixels).reduce(2), np.float32)
        others = [np.asarray(Image.fromarray(other.pixels).reduce(2), np.float32) for other in frames]
        assert np.abs(found - expected).mean() < 3
        assert min(np.abs(found - other).mean() for other in others) == np.abs(found - expected).mean()


def test_only_what_is_near_is_shown(tmp_path: Path) -> None:
    kept = Stills()
    for time_s in (0.0, 1.0, 9.0):
        kept.add(time_s, f"picture at {time_s}".encode())
    write_stills(tmp_path, "clip", kept)
    found = {at: read_still(tmp_path, "clip", at) for at in (-0.1, 0.4, 0.6, 1.0 + NEAR_S, 1.7, 8.4, 8.6, 11.0)}
    near = {-0.1: 0.0, 0.4: 0.0, 0.6: 1.0, 1.0 + NEAR_S: 1.0, 8.6: 9.0}
    assert found == {at: f"picture at {near[at]}".encode() if at in near else None for at in found}


def test_a_clip_has_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stills_of, "MOST_BYTES", 250)
    kept = Stills()
    for number in range(5):
        kept.add(float(number), bytes([number]) * 100)
    write_stills(tmp_path, "clip", kept)
    assert [read_still(tmp_path, "clip", float(number)) is not None for number in range(5)] == [True] * 2 + [False] * 3


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_found_dropped_and_costs_only_time(
    videos: Path, library: Path, damage: Callable[[bytes], bytes]
) -> None:
    prebuilt.library(videos, library)
    whole, clip_id = state(library), clip_of(library, "clip_01")
    path = shard_path(library / "stills", clip_id)
    path.write_bytes(damage(path.read_bytes()))
    assert read_still(library / "stills", clip_id, 1.0) is None
    (problem,) = verify(library)
    assert (problem.where, problem.remedy) == (f"stills of {clip_id}", "run: evenreel verify --repair")
    assert index(videos, library).did_nothing
    assert any("dropped 1 file of stills" in done for done in repair(library))
    assert verify(library) == []
    assert not path.exists()
    del whole["stills"][path.name]
    assert state(library)["stills"] == whole["stills"]
    assert state(library)["shards"] == whole["shards"]


def test_every_bit_of_a_still_is_checked(tmp_path: Path) -> None:
    kept = Stills()
    kept.add(0.0, bytes(range(64)))
    write_stills(tmp_path, "clip", kept)
    path = shard_path(tmp_path, "clip")
    content = path.read_bytes()
    start = content.index(bytes(range(64)))
    for bit in range(0, 512, 37):
        flipped = bytearray(content)
        flipped[start + bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert read_still(tmp_path, "clip", 0.0) is None


def test_stills_of_another_clip_or_time_are_not_shown(tmp_path: Path) -> None:
    """A file that was copied over another's, and one whose times were exchanged with a right checksum of the file."""
    kept = Stills()
    for number in range(3):
        kept.add(float(number), bytes([number]) * 20)
    write_stills(tmp_path, "aa-one", kept)
    path = shard_path(tmp_path, "aa-one")
    shutil.copy(path, shard_path(tmp_path, "aa-two"))
    assert read_still(tmp_path, "aa-two", 0.0) is None
    arrays, record = unseal(path.read_bytes())
    path.write_bytes(seal(dict(arrays) | {"times_s": arrays["times_s"][::-1].copy()}, {"clip_id": record["clip_id"]}))
    assert [read_still(tmp_path, "aa-one", time_s) for time_s in (0.0, 2.0)] == [None, None]
    assert read_still(tmp_path, "aa-one", 1.0) == bytes([1]) * 20


def test_stills_of_a_clip_that_is_replaced_or_forgotten_go_with_it(videos: Path, library: Path) -> None:
    prebuilt.library(videos, library)
    before = {path.stem for path in shard_files(library / "stills")}
    assert len(before) == 4
    write_video(videos / "clip_00.mp4", 77)
    index(videos, library)
    after = {path.stem for path in shard_files(library / "stills")}
    assert len(after) == 4
    assert len(before & after) == 3
    (videos / "clip_01.mp4").unlink()
    index(videos, library)
    assert len(list(shard_files(library / "stills"))) == 4  # it may come back
    repair(library, drop_missing=True)
    assert len(list(shard_files(library / "stills"))) == 3
    assert verify(library) == []


def test_a_library_without_stills_is_whole_and_gets_those_of_what_is_read(videos: Path, library: Path) -> None:
    index(videos, library, keep_stills=False)
    assert not (library / "stills").exists()
    assert verify(library) == []
    assert index(videos, library).did_nothing  # nothing is decoded again for them
    write_video(videos / "new.mp4", 60)
    index(videos, library)
    assert [path.stem for path in shard_files(library / "stills")] == [clip_of(library, "new")]


def test_a_stage_that_is_added_later_brings_them_along(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(videos, library, keep_stills=False)
    read_text = replace(WORDS_ONLY, read_text=True)
    monkeypatch.setattr("evenreel.library.index.run.READER", "tests.library.stub_reader:QuickReader")
    index_folders([videos], library, read_text)
    assert len(list(shard_files(library / "stills"))) == 4
