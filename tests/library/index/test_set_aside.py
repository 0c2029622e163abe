from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from evenreel.cli import INTERRUPTED
from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError, MediaError, UsageError
from evenreel.features.pool import NoProgress
from evenreel.features.shards import Shard
from evenreel.library import IndexReport, index_folders, open_library, verify
from evenreel.library.index.scan import read_tables
from evenreel.media.workers import _DigestProgress, content_digest, stamp, watched_digest
from tests import prebuilt
from tests.library.videos import write_folder, write_video
from tests.library.words_only import WORDS_ONLY, index


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    write_folder(tmp_path / "videos", 3)
    return tmp_path / "videos"


def aside(report: IndexReport) -> dict[str, str]:
    return {Path(one.path).name: one.reason for one in report.set_aside}


@pytest.mark.parametrize("when_s", [10_413_792_000, -11_000_000_000], ids=["2300", "1621"])
def test_hazard_61_a_time_beyond_64_bits_of_nanoseconds(videos: Path, library: Path, when_s: int) -> None:
    """`touch -d 2300-01-01`: SQLite keeps whole numbers of 64 bits; nothing but equality counts."""
    os.utime(videos / "clip_01.mp4", (when_s, when_s))
    assert (index(videos, library).indexed, index(videos, library).unchanged) == (3, 3)
    with open_library(library) as opened:
        (media,) = [opened.locate(hit.clip_id) for hit in opened.search("01").hits]
        assert media.files[0].stamp == stamp(str(videos / "clip_01.mp4"))
    os.utime(videos / "clip_01.mp4", (when_s + 1, when_s + 1))
    assert index(videos, library).recognised == 1


class DeafEntry:
    """An entry whose kind the disk does not tell, as on a failing share."""

    def __init__(self, entry: os.DirEntry[str]) -> None:
        self.name, self.path = entry.name, entry.path

    def is_symlink(self) -> bool:
        raise OSError(5, "Input/output error")

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        raise OSError(5, "Input/output error")


class Entries(list[Any]):
    def close(self) -> None:
        """Nothing is open."""


def test_hazard_25_entries_that_the_disk_fails_to_tell_of(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(videos / "deaf_folder", 1, seconds=1.0)
    assert index(videos, library).indexed == 4
    deaf, scandir = {"deaf_folder", "clip_00.mp4"}, os.scandir

    def half_deaf(path: str) -> Any:
        if not os.fspath(path).startswith(str(videos)):
            return scandir(path)
        return Entries(DeafEntry(entry) if entry.name in deaf else entry for entry in scandir(path))

    monkeypatch.setattr(os, "scandir", half_deaf)
    report = index(videos, library)
    assert (report.unchanged, report.missing, aside(report)) == (2, 0, {"clip_00.mp4": "unreadable"})
    assert report.closed_folders == [str(videos / "deaf_folder")]
    monkeypatch.undo()
    report = index(videos, library)
    assert (report.unchanged, report.recognised, report.set_aside) == (3, 1, [])


def test_hazard_25_a_file_that_vanishes_between_the_scan_and_its_turn(videos: Path, library: Path) -> None:
    class Deleting(NoProgress):
        def begin(self, files: int) -> None:
            (videos / "clip_01.mp4").unlink()

    report = index_folders([videos], library, WORDS_ONLY, progress=Deleting())
    assert (report.indexed, aside(report)) == (2, {"clip_01.mp4": "unreadable"})
    report = index(videos, library)
    assert (report.missing, report.set_aside) == (1, [])


def test_hazard_27_a_reason_that_names_a_file_whose_name_is_no_text(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.rename(videos / "clip_01.mp4", os.path.join(videos, os.fsdecode(b"clip_\xff.mp4")))

    def refuse(self: object, source: Any, *_: object) -> object:
        raise MediaError("failed", f"reading it failed: FFmpeg: cannot open {source.path!s}")

    monkeypatch.setattr("evenreel.features.clip_reader.ClipReader.read", refuse)
    assert len(index(videos, library).set_aside) == 3
    with open_library(library) as opened:
        sentences = [one.sentence for one in opened.stats().set_aside]
    assert any("clip_\\udcff.mp4" in sentence for sentence in sentences)


def test_what_cannot_be_stored_of_one_file_sets_it_aside(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenreel.library.store import writer as store

    insert, stored = store.insert_clip, []

    def overflowing(connection: sqlite3.Connection, shard: Shard, digest: str) -> None:
        stored.append(shard.clip_id)
        if len(stored) == 2:
            connection.execute("SELECT ?", (2**63,))
        insert(connection, shard, digest)

    monkeypatch.setattr(store, "insert_clip", overflowing)
    report = index(videos, library)
    assert (report.indexed, list(aside(report).values())) == (2, ["failed"])
    assert "cannot be stored (OverflowError" in report.set_aside[0].sentence
    monkeypatch.undo()
    report = index(videos, library, retry=True)
    assert (report.indexed, report.unchanged, report.set_aside) == (1, 2, [])
    assert verify(library) == []


def hollow(path: Path) -> Path:
    """A file of 300 GB on a few blocks of the disk."""
    with path.open("wb") as file:
        file.write(b"\0\0\0\x18ftypisom")
        file.truncate(300 * 2**30)
    return path


def test_a_hollow_file_of_300_gb_is_set_aside_at_the_limit(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def soon(path: str, timeout_s: float, stopped: Callable[[], bool]) -> str:
        return watched_digest(path, timeout_s / 60, stopped)

    monkeypatch.setattr("evenreel.features.pool.watched_digest", soon)  # the limit of readers stays, on a busy machine
    hollow(videos / "hollow.mp4")
    report = index(videos, library)
    assert (report.indexed, aside(report)) == (3, {"hollow.mp4": "timeout"})
    assert "nothing but zeros came of it for 1 s, the limit (stall_timeout_s" in report.set_aside[0].sentence
    assert index(videos, library).did_nothing  # it is remembered


def test_a_disk_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The read returns to nobody; who waits for it is told at the limit, or when the run stops."""
    answers = threading.Event()
    monkeypatch.setattr("evenreel.media.workers.content_digest", lambda *_: answers.wait())
    with pytest.raises(MediaError, match="nothing came of it for 0.2 s, the limit") as caught:
        watched_digest(str(tmp_path), 0.2)
    assert caught.value.reason == "unreadable"  # so it is tried again at every run
    with pytest.raises(EvenreelError, match="closed"):
        watched_digest(str(tmp_path), 60, lambda: True)
    answers.set()


@pytest.mark.parametrize("to_size", [0, 2 * 2**20 - 1, 2**23])
def test_hazard_29_a_file_that_grows_or_shrinks_while_its_bytes_are_read(tmp_path: Path, to_size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (2 * 2**20))

    class Changing(_DigestProgress):
        def take(self, block: bytes) -> None:
            os.truncate(path, to_size)

    with pytest.raises(MediaError) as caught:
        content_digest(str(path), Changing())
    assert caught.value.reason == "changed_while_reading"


def test_hazard_29_a_file_that_never_ends_is_read_as_far_as_it_said(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2**20)

    class Growing(_DigestProgress):
        def take(self, block: bytes) -> None:
            with path.open("ab") as file:
                file.write(block)

    with pytest.raises(MediaError, match="it changed while it was read"):
        content_digest(str(path), Growing())


BROKEN_TABLES = {
    "twice": (b"path,caption\nclip_00.mp4,a\nclip_00.mp4,b\n", "Row 2 .* a second time"),
    "no path": (b"path,caption\n,a\n", "Row 1 .* has no path"),
    "no rows": (b"path,caption\n", "no rows"),
    "empty": (b"", "is empty; its first line"),
    "torn": (b'path,caption\n"unclosed,a\nb,c,d,e\n', "cannot be read"),
    "Latin-1": ("path,caption\nclip_00.mp4,caf\u00e9\n".encode("latin-1"), "no UTF-8 text"),
    "a picture": (bytes(range(256)) * 16, "cannot be read"),
    "too many values": (b"path,n\nclip_00.mp4,1,2\n", "row 1 has 3 values for 2 columns"),
    "one name": (b"path,n,n\nclip_00.mp4,1,2\n", "two of its columns are named 'n'"),
}


@pytest.mark.parametrize("kind", BROKEN_TABLES)
def test_a_broken_table_beside_the_videos_is_set_aside(videos: Path, library: Path, kind: str) -> None:
    content, words = BROKEN_TABLES[kind]
    table = videos / "metadata.csv"
    table.write_bytes(b"path,caption\nclip_00.mp4,a yellow tram\n")
    prebuilt.library(videos, library)
    table.write_bytes(content)
    write_video(videos / "new.mp4", 9)
    report = index(videos, library)
    assert (report.indexed, report.unchanged, aside(report)) == (1, 3, {"metadata.csv": "bad_table"})
    assert re.search(words, report.set_aside[0].sentence)
    with open_library(library) as opened:
        assert len(opened.search("tram").hits) == 1  # what was known stays
    with pytest.raises(UsageError, match=words):
        index_folders([videos], library, WORDS_ONLY, metadata=[table])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("metadata.parquet", b"PAR1" + bytes(50) + b"PAR1", "cannot be read"),
        ("metadata.parquet", b"a text", "cannot be read"),
        ("manifest.jsonl", b'{"path": "a"}\na text\n', "line 2 is no JSON"),
        ("manifest.jsonl", b"[1, 2]\n", "no JSON object"),
        ("manifest.jsonl", b'{"path": "clip_00.mp4", "deep": %s%s}\n' % (b"[" * 3000, b"]" * 3000), "is no JSON"),
    ],
)
def test_tables_of_other_forms(videos: Path, library: Path, name: str, content: bytes, words: str) -> None:
    (videos / name).write_bytes(content)
    report = index(videos, library)
    assert (report.indexed, aside(report)) == (3, {name: "bad_table"})
    assert words in report.set_aside[0].sentence
    assert "\n" not in report.set_aside[0].sentence


@pytest.mark.parametrize(
    ("kind", "words"),
    [("hang", "no progress for 1 s"), ("crash", "crashed"), ("grow", "of memory"), ("panic", "crashed")],
)
def test_a_table_that_takes_its_reader_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, words: str
) -> None:
    monkeypatch.setattr("evenreel.library.index.scan.TABLE_READER", "tests.library.stub_reader:StubTables")
    table = tmp_path / "metadata.csv"
    table.write_text(f"{kind}\n")
    limits = MediaLimits(stall_timeout_s=1 if kind == "hang" else 60, memory_bytes=400 * 2**20)
    (one,) = read_tables([table], [], limits).set_aside
    assert (one.path, one.reason, words in one.sentence) == (str(table), "bad_table", True)


PROGRAM = """
import sys, time
import evenreel.cli, evenreel.encoders.loading, evenreel.features.pool
evenreel.cli.FAREWELL_S = evenreel.features.pool.GRACE_S = 0.1
def slow(*_, **__):
    open(sys.argv[2] + '.model', 'w').close()
    time.sleep(600)
evenreel.encoders.load_encoder = slow
evenreel.encoders.loading.locate = lambda *_, **__: None
evenreel.cli.main()
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("hangs", ["model", "bytes"])
def test_hazard_33_the_command_ends_at_the_first_interrupt(videos: Path, library: Path, hangs: str) -> None:
    command = ["index", str(videos), "--library", str(library), "--no-ocr", "--model", "slow", "--set", "workers=1"]
    held = hollow(videos / "hollow.mp4") if hangs == "bytes" else None
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *command], stderr=subprocess.PIPE, text=True)
    try:
        asked = psutil.Process(process.pid)
        while not (_holds(asked, held) if held else Path(f"{videos}.model").exists()):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, errors) == (130, f"evenreel: {INTERRUPTED}\n")


def _holds(process: psutil.Process, path: Path) -> bool:
    return any(file.path == str(path) for file in process.open_files())
