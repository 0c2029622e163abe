"""Clips without a query: each once, by the day of its file, with filters, a page at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel import open_library
from evenreel.errors import UsageError
from evenreel.library import index_folders, repair, verify
from evenreel.library.browsing import browse
from evenreel.library.search.filters import Filter, read_filter
from tests.library.damage import QUICK, change, table_of, without_models
from tests.library.fakes import empty_catalog, on_disk
from tests.media.test_times import write_dated

ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([None, "2019-01-01", "2020-02-02", "2021-03-03"]), st.integers(0, 3)),
    max_size=12,
)


@given(rows=ROWS, limit=st.integers(1, 5))
def test_pages_are_the_clips_in_order_each_once(rows: list[tuple[int, str | None, int]], limit: int) -> None:
    """Rows are files: of which clip, on which day that was recorded, and how many days after 1970 they changed."""
    connection, clips, files = empty_catalog(), dict[int, str | None](), dict[int, list[tuple[str, int]]]()
    for number, (clip, day, changed) in enumerate(rows):
        path = f"/v/{number:02}.mp4"
        if clip not in clips:
            clips[clip] = day
            connection.execute("INSERT INTO clips VALUES (?, 'mp4', 'h264', 1, 1, 1, 1, 1, 1, '[]', '')", (str(clip),))
            if day:
                connection.execute("INSERT INTO recorded VALUES (?, ?)", (str(clip), day))
        connection.execute(
            "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id)"
            " VALUES (?, 'a.mp4', '', 1, ?, 1, 'indexed', ?)",
            (path, (changed * 86_400 + 43_200) * 10**9, str(clip)),
        )
        files.setdefault(clip, []).append((path, changed))
    expected = []
    for clip, day in clips.items():
        path, changed = min(files[clip])
        expected.append((day or f"1970-01-{1 + changed:02}", changed, path, str(clip)))
    expected.sort(key=lambda one: one[2])
    expected.sort(key=lambda one: one[:2], reverse=True)
    found = [browse(connection, Filter(), "latest", limit, offset) for offset in range(0, len(expected) + 1, limit)]
    assert [(clip.day, clip.path, clip.clip_id) for page in found for clip in page.clips] == [
        (day, path, clip) for day, _, path, clip in expected
    ]
    assert all(page.total == len(expected) for page in found)
    by_path = browse(connection, Filter(), "path", 100).clips
    assert [clip.path for clip in by_path] == sorted(path for _, _, path, _ in expected)
    later = browse(connection, read_filter(connection, "date >= '2020-01-01'"), limit=100)
    assert {clip.clip_id for clip in later.clips} == {clip for day, *_, clip in expected if day >= "2020-01-01"}


def test_a_day_is_of_its_shard_and_a_changed_one_is_found(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    write_dated(tmp_path / "videos" / "a.mkv", "2019-12-31T23:30:00")
    with without_models():
        index_folders([tmp_path / "videos"], tmp_path / "library", QUICK)
    with open_library(tmp_path / "library", vision=False) as library:
        assert [clip.day for clip in library.browse("created = '2019-12-31'").clips] == ["2019-12-31"]
    change(tmp_path / "library", "UPDATE recorded SET created = '2020-01-01'")
    assert [problem.where.split()[0] for problem in verify(tmp_path / "library")] == ["clip"]
    repair(tmp_path / "library")
    assert table_of(tmp_path / "library", "recorded")[0][1] == "2019-12-31T23:30:00"
    assert verify(tmp_path / "library") == []


def test_a_library_is_browsed(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    made.add_clip("tram", ["red tram"])
    made.add_file("/v/a.mp4", "tram", {"source": "camera"})
    made.connection.close()
    with open_library(tmp_path) as library:
        (clip,) = library.browse().clips
        assert (clip.clip_id, clip.path, clip.metadata) == ("tram", "/v/a.mp4", {"source": "camera"})
        assert library.browse("source = 'phone'").total == 0
        for wrong in ({"order": "size"}, {"limit": 0}, {"offset": -1}, {"where": "nothing = 1"}):
            with pytest.raises(UsageError):
                library.browse(**wrong)  # type: ignore[arg-type]
