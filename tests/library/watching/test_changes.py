"""Which changes count, and when a file has settled: by a clock of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenreel.library.watching.changes import SETTLE_S, FileChanges


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "videos").mkdir()
    return tmp_path / "videos"


def noted(root: Path, *names: str, left_out: tuple[Path, ...] = ()) -> list[str]:
    changes = FileChanges([str(one) for one in left_out])
    return [
        str(Path(path).relative_to(root)) for path in changes.note([str(root / one) for one in names], 0, [str(root)])
    ]


def test_videos_subtitles_tables_lists_and_folders_count(root: Path) -> None:
    (root / "folder.x").mkdir()
    (root / "notes.txt").touch()
    (root / "a.MP4").touch()
    names = ["a.MP4", "a.en.srt", "metadata.csv", ".evenreelignore", "folder.x", "gone", "gone.mkv"]
    assert noted(root, *names, "notes.txt", ".hidden/a.mp4", ".hidden.mp4", "../beside/a.mp4") == names


def test_the_library_in_a_watched_folder_does_not_count(root: Path) -> None:
    library = root / "library"
    (library / "shards" / "ab").mkdir(parents=True)
    names = ("library", "library/shards/ab", "library 2/a.mp4")
    assert noted(root, *names, left_out=(library,)) == ["library 2/a.mp4"]


def test_a_file_settles_when_it_has_stayed_the_same(root: Path) -> None:
    changes, path = FileChanges(), root / "a.mp4"
    path.write_bytes(b"1")
    changes.note([str(path)], 0.0, [str(root)])
    assert changes.take(SETTLE_S - 0.1) == set()
    path.write_bytes(b"12")  # it grows, and nobody says so
    assert changes.take(SETTLE_S) == set()
    assert changes.take(2 * SETTLE_S - 0.1) == set()
    assert changes.unsettled() == {str(path)}
    assert changes.take(2 * SETTLE_S) == {str(path)}
    assert (changes.take(9 * SETTLE_S), len(changes)) == (set(), 0)


def test_a_file_that_is_gone_settles_too_and_what_is_to_be_looked_at_again_is_settled(root: Path) -> None:
    changes, path = FileChanges(), root / "a.mp4"
    path.touch()
    changes.note([str(path)], 0.0, [str(root)])
    path.unlink()
    assert changes.take(SETTLE_S) == set()  # only now it is seen to be gone
    assert changes.take(2 * SETTLE_S) == {str(path)}
    changes.again([str(path)])
    assert changes.take(0.0) == {str(path)}
