from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenreel.errors import LibraryError, MediaError
from evenreel.features import shards
from evenreel.features.shards import (
    DamagedShardError,
    NewerShardError,
    Shard,
    read_shard,
    shard_path,
    write_shard,
)
from evenreel.files import TEMPORARY_SUFFIX
from evenreel.types import TextTrack, VideoInfo

INFO = VideoInfo("mp4", "h264", 320, 240, 3.0, 90, 30.0, 90, ("short: 1.67 of 3.0 s",))
TRACK = TextTrack("HYUNDAI", 0.93, 0.0, 2.0, (0.1, 0.2, 0.3, 0.4), ("HYUNDAI", "HYUNDRI"))
reals = st.floats(0, 1e6)
texts = st.text(max_size=30)


def make_shard(count: int = 4, dimension: int = 8, seed: int = 0) -> Shard:
    frames = np.random.default_rng(seed).normal(size=(count, dimension))
    frames /= np.linalg.norm(frames, axis=1, keepdims=True)
    times = np.arange(count, dtype=np.float64)
    spans, frames = np.stack([times, times + 1], axis=1), frames.astype(np.float16)
    seen = ("builtin", "f" * 64, "every 1 s", times, spans, frames)
    return Shard("ab12cd34", INFO, *seen, (TRACK,), "rapidocr")


@st.composite
def track(draw: st.DrawFn) -> TextTrack:
    start, end = sorted(draw(st.tuples(reals, reals)))
    box = draw(st.tuples(*[st.floats(0, 1)] * 4))
    return TextTrack(draw(texts), draw(st.floats(0, 1)), start, end, box, tuple(draw(st.lists(texts, max_size=3))))


@st.composite
def any_shard(draw: st.DrawFn) -> Shard:
    base = make_shard(draw(st.integers(0, 5)), draw(st.integers(1, 9)), draw(st.integers(0, 99)))
    seen, read = draw(st.booleans()), draw(st.booleans())
    info = dataclasses.replace(INFO, duration_s=draw(st.none() | reals), notes=tuple(draw(st.lists(texts, max_size=2))))
    times = draw(st.lists(reals, min_size=len(base.times_s), max_size=len(base.times_s)))
    shard = dataclasses.replace(base, info=info, rule=draw(texts), times_s=np.sort(np.asarray(times, float)))
    who = ("org/name@abc", "0" * 64, base.frames) if seen else (None, None, None)
    shard = dataclasses.replace(shard, encoder_id=who[0], weights_hash=who[1], frames=who[2])
    tracks = tuple(draw(st.lists(track(), max_size=3))) if read else None
    return dataclasses.replace(shard, tracks=tracks, reader_id="rapidocr" if read else None)


def assert_same(left: Shard, right: Shard) -> None:
    for field in dataclasses.fields(Shard):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            assert one.tobytes() == other.tobytes()
            assert one.shape == other.shape
        else:
            assert one == other


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_shard(tmp_path, make_shard())
    return shard_path(tmp_path, "ab12cd34")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shard=any_shard())
def test_a_shard_comes_back_as_it_went_in(shard: Shard, tmp_path: Path) -> None:
    digest = write_shard(tmp_path, shard)
    assert_same(read_shard(shard_path(tmp_path, shard.clip_id), digest), shard)


def test_equal_content_gives_equal_bytes_and_the_digest_of_the_file(tmp_path: Path) -> None:
    first, again = (write_shard(tmp_path / name, make_shard()) for name in ("one", "two"))
    payload = shard_path(tmp_path / "one", "ab12cd34").read_bytes()
    assert first == again == hashlib.sha256(payload).hexdigest()
    assert payload == shard_path(tmp_path / "two", "ab12cd34").read_bytes()


def test_arrays_that_are_views_are_stored_as_they_are_seen(tmp_path: Path) -> None:
    base = make_shard()
    assert base.frames is not None
    strided = dataclasses.replace(base, frames=np.asfortranarray(np.repeat(base.frames, 2, axis=0))[::2])
    assert write_shard(tmp_path / "a", strided) == write_shard(tmp_path / "b", base)


@pytest.mark.parametrize("clip_id", ["../../etc/passwd", "", "a", "a/b", "..", "abc\n", "a" * 129])
def test_an_id_cannot_lead_out_of_the_folder(tmp_path: Path, clip_id: str) -> None:
    with pytest.raises(LibraryError, match="is not a clip id"):
        shard_path(tmp_path, clip_id)


def test_every_single_flipped_bit_is_noticed_without_a_digest(tmp_path: Path) -> None:
    write_shard(tmp_path, make_shard(2, 4))
    path = shard_path(tmp_path, "ab12cd34")
    payload = path.read_bytes()
    for position in range(len(payload)):
        damaged = bytearray(payload)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(LibraryError, match=r"damaged|newer|format"):
            read_shard(path)


@pytest.mark.parametrize("given_digest", [True, False])
def test_a_cut_or_zeroed_file_is_refused(path: Path, given_digest: bool) -> None:
    payload = path.read_bytes()
    digest = hashlib.sha256(payload).hexdigest()
    zeroed_half = payload[: len(payload) // 2] + bytes(len(payload) - len(payload) // 2)
    for damaged in (b"", payload[:5], payload[:-1], payload + b"\0", bytes(len(payload)), zeroed_half):
        path.write_bytes(damaged)
        with pytest.raises(DamagedShardError, match=r"is damaged: .*evenreel verify --repair"):
            read_shard(path, digest if given_digest else None)


@pytest.mark.parametrize("claimed", [0, 1, 2**20, 2**40, 2**63, 2**64 - 1])
def test_a_header_that_lies_about_its_length_is_refused(path: Path, claimed: int) -> None:
    path.write_bytes(struct.pack("<Q", claimed) + path.read_bytes()[8:])
    with pytest.raises(LibraryError, match="is damaged"):
        read_shard(path)


@pytest.mark.parametrize("shape", [[4000, 8], [2**40, 2**40], [4, 4], [-1, 8]])
def test_a_header_that_lies_about_a_tensor_is_refused(path: Path, shape: list[int]) -> None:
    payload = path.read_bytes()
    length = int.from_bytes(payload[:8], "little")
    header = json.loads(payload[8 : 8 + length])
    header["frames"]["shape"] = shape
    lying = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(lying)) + lying + payload[8 + length :])
    with pytest.raises(LibraryError, match="is damaged"):
        read_shard(path)


def test_a_newer_format_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(shards, "FORMAT", 7)
        write_shard(tmp_path, make_shard())
    with pytest.raises(NewerShardError, match="has format 7, this version reads up to 1; update evenreel"):
        read_shard(shard_path(tmp_path, "ab12cd34"))


def test_a_shard_under_the_name_of_another_clip_and_a_missing_one_are_refused(path: Path) -> None:
    moved = path.rename(path.with_name("ab99.safetensors"))
    with pytest.raises(LibraryError, match="belongs to another clip"):
        read_shard(moved)
    with pytest.raises(DamagedShardError, match=r"is gone; run `evenreel verify --repair`"):
        read_shard(path)


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_shard_that_cannot_be_read_is_not_called_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(_: Path) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(LibraryError, match=rf"cannot be read \({os.strerror(code)}\); check the disk"):
        read_shard(path)


def _with(**changes: object) -> Shard:
    return dataclasses.replace(make_shard(), **changes)  # type: ignore[arg-type]


FRAMES = np.eye(4, 8, dtype=np.float16)


@pytest.mark.parametrize(
    ("shard", "problem"),
    [
        (_with(frames=np.where(FRAMES > 0, np.float16("nan"), FRAMES)), "not a number"),
        (_with(frames=np.where(FRAMES > 0, np.float16("inf"), FRAMES)), "not a number"),
        (_with(frames=np.zeros((4, 8), np.float16)), "1 away from unit length"),
        (_with(frames=FRAMES * np.float16(1.01)), "away from unit length"),
        (_with(frames=FRAMES[:3]), "4 times do not go with features"),
        (_with(frames=FRAMES.astype(np.float32)), "type float32 instead of float16"),
        (_with(frames=None), "one is missing"),
        (_with(weights_hash=None), "one is missing"),
        (_with(tracks=None), "one is missing"),
        (_with(times_s=np.array([0.0, 2.0, 1.0, 3.0])), "out of order"),
        (_with(spans_s=np.zeros((3, 2))), "do not go with"),
        (_with(spans_s=np.tile([2.0, 1.0], (4, 1))), "ends before it starts"),
        (_with(tracks=(dataclasses.replace(TRACK, end_s=-1.0),)), "'HYUNDAI' has an impossible"),
        (_with(tracks=(dataclasses.replace(TRACK, confidence=float("nan")),)), "impossible"),
    ],
)
def test_what_cannot_be_right_is_never_written(tmp_path: Path, shard: Shard, problem: str) -> None:
    with pytest.raises(MediaError, match=problem) as caught:
        write_shard(tmp_path, shard)
    assert caught.value.reason == "bad_features"
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_full_or_failing_disk_leaves_the_old_shard_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    digest = write_shard(tmp_path, make_shard())

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as full:
        full.setattr(*((os, "fsync") if call == "fsync" else (Path, "replace")), fail)
        with pytest.raises(LibraryError, match=rf"Cannot write .*bytes\): {os.strerror(code)}"):
            write_shard(tmp_path, make_shard(seed=1))
    assert [path.name for path in tmp_path.rglob("*.*")] == ["ab12cd34.safetensors"]
    read_shard(shard_path(tmp_path, "ab12cd34"), digest)


CRASH = """
import os, pathlib, sys
from evenreel.features.shards import read_shard, write_shard
folder = pathlib.Path(sys.argv[1])
shard = read_shard(folder / "ab" / "ab12cd34.safetensors")
shard.spans_s[:] += 1
pathlib.Path.replace = lambda *_: os._exit(9)
write_shard(folder, shard)
"""


def test_a_crash_between_write_and_replace_leaves_the_old_shard(tmp_path: Path) -> None:
    digest = write_shard(tmp_path, make_shard())
    child = subprocess.run([sys.executable, "-c", CRASH, tmp_path], check=False)
    assert child.returncode == 9
    read_shard(shard_path(tmp_path, "ab12cd34"), digest)
    left = [path for path in (tmp_path / "ab").iterdir() if path.suffix == TEMPORARY_SUFFIX]
    assert len(left) == 1


def test_the_file_is_synced_before_it_takes_the_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ab").mkdir()
    calls: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(descriptor: int) -> None:
        calls.append("folder" if Path(f"/proc/self/fd/{descriptor}").is_dir() else "file")
        fsync(descriptor)

    def note_replace(self: Path, target: Path) -> Path:
        calls.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    write_shard(tmp_path, make_shard())
    assert calls == ["file", "replace", "folder"]


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        write_shard(tmp_path, make_shard())
    finally:
        os.umask(old)
    assert shard_path(tmp_path, "ab12cd34").stat().st_mode & 0o777 == 0o644
