"""Favourites and notes stay: index, kill -9, repair, moved and replaced files, a damaged catalog; see the hazards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evenreel.errors import LibraryError, NotFoundError, UsageError
from evenreel.library import open_library, repair, verify
from evenreel.library.personal.file import COPY, FILE
from tests import prebuilt
from tests.library.damage import change, write
from tests.library.videos import write_video
from tests.library.words_only import index


@pytest.fixture
def marked(videos: Path, library: Path) -> Path:
    """A library of four clips, of which the first is a favourite with a note at its second second."""
    prebuilt.library(videos, library)
    with open_library(library) as opened:
        opened.personal.mark(str(videos / "clip_00.mp4"), favourite=True)
        opened.personal.mark(str(videos / "clip_00.mp4"), 1.0, note="the square turns")
    return library


def told(library: Path) -> list[tuple[str, str, str]]:
    """Name of the file, state, and what is said, of each mark."""
    with open_library(library) as opened:
        marks = opened.personal.marks()
        return [(Path(one.path).name, one.state, one.mark.note or "favourite") for one in marks]


def chosen(library: Path, where: str) -> list[str]:
    with open_library(library) as opened:
        return sorted(Path(clip.path).name for clip in opened.browse(where).clips)


STAYED = [("clip_00.mp4", "here", "favourite"), ("clip_00.mp4", "here", "the square turns")]


def test_filters_choose_by_them(marked: Path) -> None:
    others = ["clip_01.mp4", "clip_02.mp4", "clip_03.mp4"]
    assert chosen(marked, "favourite") == chosen(marked, "favourite = true") == ["clip_00.mp4"]
    assert chosen(marked, "not favourite") == chosen(marked, "note is null") == others
    assert chosen(marked, "note like '%square%'") == ["clip_00.mp4"]
    assert chosen(marked, "favourite and note = 'the square turns' or name = 'clip_01.mp4'")[0] == "clip_00.mp4"
    with open_library(marked) as opened:
        with pytest.raises(UsageError, match="cannot hold"):
            opened.browse("note")
        (facet,) = (one for one in opened.facets() if one.column == "favourite")
    assert {value.value: value.clips for value in facet.values} == {True: 1, False: 3}


def test_hazard_90_what_is_marked_in_a_library_of_an_earlier_format_is_kept(
    marked: Path, videos: Path, tmp_path: Path
) -> None:
    before = told(marked)
    write(marked, "UPDATE meta SET value = '6' WHERE key = 'schema_version'")
    with pytest.raises(LibraryError, match=r"--library NEW.*copy personal\.jsonl there"):
        index(videos, marked)
    new = tmp_path / "new"
    index(videos, new)
    shutil.copy(marked / "personal.jsonl", new)
    assert told(new) == before == STAYED


def test_an_open_library_sees_a_change_at_once(marked: Path) -> None:
    with open_library(marked) as reader, open_library(marked) as writer:
        assert len(reader.search("clip", where="favourite").hits) == 1
        favours = reader.favours([], "favourite").all
        writer.personal.mark(str(reader.browse("name = 'clip_02.mp4'").clips[0].clip_id), favourite=True)
        assert len(reader.search("clip", where="favourite").hits) == 2
        assert (favours, reader.favours([], "favourite").all) == (1, 2)
        writer.personal.unmark(reader.browse("name = 'clip_02.mp4'").clips[0].clip_id)
        assert len(reader.search("clip", where="favourite").hits) == 1


def test_a_mark_without_anything_left_is_gone(marked: Path) -> None:
    with open_library(marked) as opened:
        clip_id = opened.personal.marks()[0].mark.clip_id
        assert not opened.personal.mark(clip_id, favourite=False).says_something
        opened.personal.mark(clip_id, 1.0, note=" ")
        assert opened.personal.marks() == ()
        with pytest.raises(NotFoundError, match="no favourite or note"):
            opened.personal.unmark(clip_id)
        with pytest.raises(NotFoundError, match="no clip"):
            opened.personal.mark("f" * 32, favourite=True)


def test_repair_and_a_catalog_that_is_gone_or_damaged(marked: Path, videos: Path) -> None:
    repair(marked)
    assert told(marked) == STAYED
    change(marked, "DELETE FROM files", "UPDATE clips SET codec = 'x'")
    assert verify(marked)
    repair(marked, drop_missing=True)
    index(videos, marked)
    assert told(marked) == STAYED
    for path in marked.glob("catalog.sqlite*"):
        path.unlink()
    (marked / "kept.jsonl").unlink()
    repair(marked)
    index(videos, marked)
    assert told(marked) == STAYED


def test_a_moved_file_keeps_them(marked: Path, videos: Path) -> None:
    (videos / "deep").mkdir()
    (videos / "clip_00.mp4").rename(videos / "deep" / "bus.mp4")
    index(videos, marked)
    assert told(marked) == [("bus.mp4", *rest) for _, *rest in STAYED]
    assert chosen(marked, "favourite") == ["bus.mp4"]


def test_a_replaced_file_keeps_them_and_a_change_takes_them_over(marked: Path, videos: Path) -> None:
    write_video(videos / "clip_00.mp4", 77, seconds=3.0)
    index(videos, marked)
    assert told(marked) == [(name, "replaced", said) for name, _, said in STAYED]
    assert chosen(marked, "favourite") == ["clip_00.mp4"]
    with open_library(marked) as opened:
        opened.personal.mark(str(videos / "clip_00.mp4"), note="another cut")
        second, first = opened.personal.marks()
        assert (first.mark.favourite, first.mark.note, first.state) == (True, "another cut", "here")
        assert (second.mark.note, second.state) == ("the square turns", "replaced")


def test_those_of_a_deleted_file_wait_for_it(marked: Path, videos: Path) -> None:
    content = (videos / "clip_00.mp4").read_bytes()
    (videos / "clip_00.mp4").unlink()
    index(videos, marked)
    repair(marked, drop_missing=True)
    assert told(marked) == [(name, "gone", said) for name, _, said in STAYED]
    assert chosen(marked, "favourite") == []
    (videos / "again.mp4").write_bytes(content)
    index(videos, marked)
    assert told(marked) == [("again.mp4", "here", said) for _, _, said in STAYED]
    (videos / "again.mp4").unlink()
    index(videos, marked)
    with open_library(marked) as opened:
        opened.personal.unmark(opened.personal.marks()[0].mark.clip_id)
        assert len(opened.personal.marks()) == 1


def test_killing_an_indexer_that_writes_leaves_them(marked: Path, videos: Path) -> None:
    for number in range(10, 16):
        write_video(videos / f"clip_{number}.mp4", number)
    before = (marked / "catalog.sqlite").stat().st_mtime_ns, (marked / "catalog.sqlite-wal")
    command = [sys.executable, "-m", "evenreel", "index", str(videos), "--library", str(marked), "--no-vision"]
    process = subprocess.Popen([*command, "--no-ocr", "--set", "speech=none"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while process.poll() is None and not before[1].exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    with open_library(marked) as opened:  # while it writes
        opened.personal.mark(str(videos / "clip_01.mp4"), note="meanwhile")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert told(marked) == [*STAYED, ("clip_01.mp4", "here", "meanwhile")]
    index(videos, marked)
    assert told(marked) == [*STAYED, ("clip_01.mp4", "here", "meanwhile")]
    assert verify(marked) == []


def test_verify_and_repair_mend_the_files_and_damage_costs_others_nothing(marked: Path) -> None:
    (marked / FILE).write_bytes((marked / FILE).read_bytes().replace(b"favourite", b"favourits"))
    assert [problem.where for problem in verify(marked)] == [FILE]
    assert told(marked) == STAYED
    assert any("favourites" in sentence for sentence in repair(marked))
    assert verify(marked) == []
    for name in (FILE, COPY):
        (marked / name).unlink()
        (marked / name).mkdir()
    with open_library(marked) as opened:
        assert len(opened.search("clip").hits) == 4
        assert opened.facets()
        with pytest.raises(LibraryError, match="a folder, where a file belongs; move it away"):
            opened.search("clip", where="favourite")
        with pytest.raises(LibraryError, match="a folder, where a file belongs; move it away"):
            opened.personal.marks()


def test_a_published_snapshot_is_only_read_and_has_no_notes(marked: Path, tmp_path: Path) -> None:
    from evenreel.library import publish_library

    publish_library(marked, str(tmp_path / "published"))
    with open_library(tmp_path / "published", cache=tmp_path / "cache") as opened:
        assert opened.personal.marks() == ()
        assert opened.browse("favourite").total == 0
        with pytest.raises(UsageError, match="published snapshot"):
            opened.personal.mark(opened.browse().clips[0].clip_id, favourite=True)
