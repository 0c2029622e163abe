"""What is shown of clips, read of many at a time and kept, against reading each by itself."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenreel.library.search import shown_clips
from evenreel.library.search.query import Query
from evenreel.library.search.shown_clips import ShownClips, read_shown
from tests.library.damage import change
from tests.library.fakes import SUBJECTS, Library, finish, on_disk

CLIPS = 30


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Library]:
    """Clips with up to three files, some of them missing, moments, shots and tracks."""
    library, chance = on_disk(tmp_path), random.Random(3)
    with library.connection as connection:
        for number in range(CLIPS):
            clip = f"c{number:02}"
            library.add_clip(clip, chance.choices(SUBJECTS, k=chance.randint(0, 6)), duration_s=1.5 * number)
            for copy in range(chance.randint(1, 3)):
                state = "missing" if copy == 1 else "indexed"
                library.add_file(f"/{chance.random()}/{clip}.mp4", clip, {"copy": copy}, state=state)
            for shot in range(chance.randint(0, 3)):
                connection.execute("INSERT INTO shots VALUES (?, ?, ?, ?)", (clip, shot, shot, shot + 1))
            if chance.random() < 0.5:
                library.add_track(clip, "EXIT")
    yield library
    library.connection.close()


def by_itself(connection: sqlite3.Connection, clip_id: str) -> tuple[object, ...]:
    def rows(statement: str) -> list[tuple[object, ...]]:
        return connection.execute(statement, (clip_id,)).fetchall()

    return (
        rows("SELECT duration_s FROM clips WHERE clip_id = ?")[0][0],
        rows("SELECT path, metadata FROM files WHERE clip_id = ? AND state = 'indexed' ORDER BY path"),
        rows("SELECT time_s, start_s, end_s FROM moments WHERE clip_id = ? ORDER BY number"),
        rows("SELECT start_s, end_s FROM shots WHERE clip_id = ? ORDER BY number"),
        bool(rows("SELECT 1 FROM tracks WHERE clip_id = ?")),
    )


def test_many_clips_are_read_as_each_by_itself(made: Library) -> None:
    clips = [f"c{number:02}" for number in range(CLIPS)]
    random.Random(0).shuffle(clips)
    for clip_id, shown in read_shown(made.connection, clips).items():
        assert shown is not None
        spans = [tuple(span) for span in shown.times.spans_s.tolist()]
        found = shown.duration_s, shown.files, spans, shown.times.shots, shown.has_tracks
        assert found == by_itself(made.connection, clip_id)
        assert all(shown.metadata_of(path) == json.loads(metadata) for path, metadata in shown.files)


def test_what_is_kept_is_not_read_again_and_stays_within_its_bytes(
    made: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_clips, "KEPT_BYTES", 20_000)
    monkeypatch.setattr(shown_clips, "AT_ONCE", 4)
    read: list[str] = []
    really = shown_clips.read_shown

    def counting(connection: sqlite3.Connection, clip_ids: list[str]) -> object:
        read.extend(clip_ids)
        return really(connection, clip_ids)

    monkeypatch.setattr(shown_clips, "read_shown", counting)
    kept, chance = ShownClips(made.connection), random.Random(1)
    sizes = {
        clip: one.bytes for clip, one in really(made.connection, [f"c{n:02}" for n in range(CLIPS)]).items() if one
    }
    recent: list[str] = []
    for _ in range(200):
        wanted = chance.sample(sorted(sizes), chance.randint(1, 4))
        read.clear()
        assert len(list(kept.of(wanted))) == len(wanted)
        assert read == [clip for clip in wanted if clip not in recent]
        recent = [clip for clip in recent if clip not in wanted] + wanted
        while sum(map(sizes.__getitem__, recent)) > 20_000:
            recent.pop(0)
    assert 4 < len(recent) < CLIPS


def test_an_open_library_shows_what_another_program_has_changed(made: Library, tmp_path: Path) -> None:
    searcher = finish(made)
    before = searcher.search(Query("red bus", k=CLIPS))
    assert searcher.search(Query("red bus", k=CLIPS)) == before
    first, second = before.hits[:2]
    made.connection.execute("UPDATE clips SET duration_s = 1234 WHERE clip_id = ?", (first.clip_id,))
    assert searcher.search(Query("red bus", k=CLIPS)).hits[0].duration_s == 1234
    change(tmp_path, f"UPDATE clips SET duration_s = 5 WHERE clip_id = '{second.clip_id}'")
    assert searcher.search(Query("red bus", k=CLIPS)).hits[1].duration_s == 5


def test_a_hit_can_be_changed_without_changing_the_next_one(made: Library) -> None:
    searcher = finish(made)
    hit = searcher.search(Query("red bus", k=3)).hits[0]
    hit.metadata["copy"] = "mine"
    assert searcher.search(Query("red bus", k=3)).hits[0].metadata == {"copy": 0}
