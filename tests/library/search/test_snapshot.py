from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.library.search.snapshot import SnapshotReader
from evenreel.library.search.words import SOURCES, vocabulary
from evenreel.library.store.catalog import set_meta
from evenreel.library.store.fulltext import index_about, index_clip_text, rebuild_full_text, remove_about
from evenreel.library.store.vectors import update_null_scores
from evenreel.library.store.writer import delete_clips
from tests.library.fakes import SUBJECTS, Library

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove", "measure", "rebuild", "look"]), st.integers(0, 5)), max_size=14
)


def told(reader: SnapshotReader) -> list[object]:
    with reader.snapshot() as s:
        columns = (s.first_rows, s.counts, s.means, s.deviations)
        places = np.flatnonzero(s.there)
        words = [(known.texts, known._sorted, known._joined, known._letters.tolist(), known._lengths.tolist())
                 for known in (vocabulary(s, channel) for channel in SOURCES)]  # fmt: skip
        return [s.ids(places), s.seen_ids, s.allowed(None).tolist(), *(one[places].tolist() for one in columns), words]


@given(STEPS)
def test_a_reader_that_looks_often_sees_what_a_new_one_sees(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    library = Library(tmp_path_factory.mktemp("library"))
    reader = SnapshotReader(library.connection, lambda _: library.vectors)
    there: set[str] = set()
    for step, number in steps:
        clip_id, path = f"c{number}", f"/v/{SUBJECTS[number]}.mp4"
        if step == "add" and clip_id not in there:
            there.add(clip_id)
            library.add_clip(clip_id, [SUBJECTS[number]] * number)
            library.add_track(clip_id, f"SIGN {SUBJECTS[number]}")
            library.add_file(path, clip_id, {"caption": "a caption"})
            index_clip_text(library.connection, clip_id)
            index_about(library.connection, path, "a caption")
        elif step == "remove" and clip_id in there:
            there.remove(clip_id)
            remove_about(library.connection, path)
            library.connection.execute("DELETE FROM files WHERE path = ?", (path,))
            delete_clips(library.connection, [clip_id])
        elif step == "measure":
            update_null_scores(library.connection, library.vectors, library.encoder)
        elif step == "rebuild":
            rebuild_full_text(library.connection)
        elif step == "look":
            told(reader)
    assert told(reader) == told(SnapshotReader(library.connection, lambda _: library.vectors))


def steps_after_one_more(folder: Path, clips: int) -> int:
    """Steps of SQLite's in the next look of an open reader, once a library has one clip more."""
    folder.mkdir()
    library, steps = Library(folder), 0
    for number in range(clips):
        library.add_clip(f"c{number}")
        library.add_file(f"/v/{number}.mp4", f"c{number}")
    rebuild_full_text(library.connection)
    reader = SnapshotReader(library.connection, lambda _: None)
    told(reader)
    library.add_clip("new")
    library.add_file("/v/new.mp4", "new")
    index_about(library.connection, "/v/new.mp4", "")

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    library.connection.set_progress_handler(count, 1)
    with reader.snapshot() as s:
        assert s.allowed(None).sum() == clips + 1
        for channel in SOURCES:
            vocabulary(s, channel)
    library.connection.set_progress_handler(None, 1)
    return steps


def test_what_a_change_leaves_as_it_was_is_not_read_again(tmp_path: Path) -> None:
    few, many = (steps_after_one_more(tmp_path / f"{clips}", clips) for clips in (20, 2_000))
    assert many < 1.5 * few


def test_words_are_searched_without_vectors_that_are_gone(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.add_clip("c", ["red bus"])
    library.add_file("/v/c.mp4", "c")
    library.add_track("c", "EXIT")
    rebuild_full_text(library.connection)
    set_meta(library.connection, {"dimension": "64"})
    (tmp_path / "vectors.0.f16").unlink()
    with SnapshotReader(library.connection, lambda _: library.vectors).snapshot() as s:
        assert s.allowed(None).sum() == 1
