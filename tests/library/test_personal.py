from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from evenreel.errors import NotFoundError, UsageError
from evenreel.library import open_library, repair, verify
from evenreel.library.personal import LONGEST_NOTE, MOST_SEEN, PersonalMark, SavedSearch, moment_of
from tests import prebuilt
from tests.library.damage import change
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
        with pytest.raises(UsageError, match="cut off"):
            opened.browse("note")
        (facet,) = (one for one in opened.facets() if one.column == "favourite")
    assert {value.value: value.clips for value in facet.values} == {True: 1}


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
        unmarked = opened.personal.mark(clip_id, favourite=False)
        assert not unmarked.favourite and not unmarked.note
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
        first, second = opened.personal.marks()
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


def news(library: Path, name: str, *, keep: bool = False) -> list[str]:
    with open_library(library) as opened:
        return sorted(Path(hit.path).name for hit in opened.personal.run_search(name, keep=keep).new)


def test_what_came_since_is_new_until_it_is_looked_at(videos: Path, library: Path) -> None:
    write_video(videos / "red bus.mp4", 20)
    prebuilt.library(videos, library)
    with open_library(library) as opened:
        saved = opened.personal.save_search("bus", name="buses")
        assert (saved.query, saved.where, len(saved.seen)) == ("bus", None, 1)
        opened.personal.save_search("bus", "duration_s > 60")
    assert news(library, "buses") == []
    write_video(videos / "blue bus.mp4", 21)
    write_video(videos / "boat.mp4", 22)
    index(videos, library)
    assert news(library, "buses", keep=True) == news(library, "buses") == ["blue bus.mp4"]
    assert news(library, "buses") == news(library, "bus") == []
    (videos / "blue bus.mp4").unlink()
    index(videos, library)
    assert news(library, "buses") == []
    write_video(videos / "blue bus.mp4", 21)  # back again: it had been seen
    index(videos, library)
    assert news(library, "buses") == []
    with open_library(library) as opened:
        assert [one.name for one in opened.personal.searches()] == ["buses", "bus"]
        opened.personal.remove_search("buses")
        assert [one.name for one in opened.personal.searches()] == ["bus"]


def test_the_latest_clips_are_remembered() -> None:
    search = SavedSearch("bus", "bus", seen=tuple(f"{number}" for number in range(MOST_SEEN)))
    later = search.looked_at(("5", "new"))
    assert later.seen[-2:] == ("5", "new")
    assert len(later.seen) == MOST_SEEN
    assert later.seen[0] == "1"


def test_no_more_is_kept_than_can_be_copied_with_each_change(
    marked: Path, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenreel.library.personal.MOST_MARKS", 2)
    with open_library(marked) as opened, pytest.raises(UsageError, match="remove some first"):
        opened.personal.mark(str(videos / "clip_01.mp4"), favourite=True)
    assert told(marked) == STAYED


def test_hazard_245_notes_have_room_in_all_and_can_always_be_shortened(
    marked: Path, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = str(videos / "clip_00.mp4")
    with open_library(marked) as opened:
        opened.personal.mark(clip, 0.5, note="\u00e9" * 50)
        monkeypatch.setattr("evenreel.library.personal.MOST_NOTE_BYTES", 40)
        with pytest.raises(UsageError, match=r"keeps at most .* MiB of notes in all; shorten or delete some first"):
            opened.personal.mark(str(videos / "clip_01.mp4"), note="z")
        opened.personal.mark(str(videos / "clip_01.mp4"), favourite=True)
        opened.personal.mark(clip, 0.5, note="\u00e9" * 40)
        assert [one.mark.note for one in opened.personal.marks()] == ["", "the square turns", "\u00e9" * 40, ""]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PersonalMark("a", float("nan")), "no time in a clip"),
        (lambda: PersonalMark("a", -1.0), "no time in a clip"),
        (lambda: PersonalMark("a", note="x" * (LONGEST_NOTE + 1)), "at most 10,000"),
        (lambda: PersonalMark("a", note="\udcff"), "not text"),
        (lambda: SavedSearch("bus", ""), "query is empty"),
        (lambda: SavedSearch(" ", "bus"), "name of a saved search is empty"),
        (lambda: moment_of(float("inf")), "no time in a clip"),
    ],
)
def test_what_can_be_no_mark_or_search_is_refused_in_a_sentence(make: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make()


def test_wrong_searches_are_refused(videos: Path, library: Path) -> None:
    prebuilt.library(videos, library)
    with open_library(library) as opened:
        opened.personal.save_search("clip")
        with pytest.raises(UsageError, match="There is a saved search 'clip'"):
            opened.personal.save_search("another", name="clip")
        with pytest.raises(UsageError, match="no column 'colour'"):
            opened.personal.save_search("clip", "colour = 'red'", "red")
        for wrong in (opened.personal.run_search, opened.personal.remove_search):
            with pytest.raises(NotFoundError, match="no saved search 'nobody'"):
                wrong("nobody")
        assert [one.name for one in opened.personal.searches()] == ["clip"]
