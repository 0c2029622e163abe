"""A file is the one that was indexed by its stamp, else by its content, whatever its times say."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evenreel.errors import MediaError
from evenreel.library.contents import Located
from evenreel.library.store import identity
from evenreel.library.store.identity import SameContent
from evenreel.media.workers import FileStamp, content_digest

Change = Callable[[Path], object]


def times_put_back(path: Path, change: Change) -> None:
    before = path.stat()
    change(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"CONTENT")
    other.replace(path)


@pytest.fixture
def file(tmp_path: Path) -> Located:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"content")
    return Located(str(path), str(tmp_path), FileStamp.of(path.stat()))


@pytest.fixture
def clip_id(file: Located) -> str:
    return content_digest(file.path)


def check(file: Located, clip_id: str, same: SameContent | None = None) -> Located:
    return (same or SameContent(10.0)).check(clip_id, file, os.stat(file.path))


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read through."""
    read: list[str] = []
    real = identity.watched_digest
    monkeypatch.setattr(identity, "watched_digest", lambda path, *rest: read.append(path) or real(path, *rest))
    return read


def test_an_untouched_file_is_not_read(file: Located, clip_id: str, digests: list[str]) -> None:
    assert check(file, clip_id) is file
    assert digests == []


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.chmod(0o600),
        lambda path: os.utime(path, ns=(0, 0)),
        lambda path: os.link(path, path.with_name("link")),
        lambda path: times_put_back(path, lambda path: path.write_bytes(b"content")),
    ],
    ids=["mode", "times", "hard link", "written again"],
)
def test_a_file_that_was_only_touched_is_read_once(
    file: Located, clip_id: str, digests: list[str], change: Change
) -> None:
    change(Path(file.path))
    same = SameContent(10.0)
    for _ in range(3):
        now = check(file, clip_id, same)
        assert now.is_unchanged(os.stat(file.path))
    assert digests == [file.path]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: times_put_back(path, lambda path: path.write_bytes(b"CONTENT")),
        lambda path: times_put_back(path, replaced),
        lambda path: path.write_bytes(b"CONTENT"),
    ],
    ids=["in place", "by another file", "later"],
)
def test_other_content_of_the_same_size_and_time_is_noticed(file: Located, clip_id: str, change: Change) -> None:
    change(Path(file.path))
    with pytest.raises(MediaError, match="has changed since it was indexed"):
        check(file, clip_id)


def test_another_size_is_noticed_without_reading(file: Located, clip_id: str, digests: list[str]) -> None:
    Path(file.path).write_bytes(b"longer content")
    with pytest.raises(MediaError, match="has changed"):
        check(file, clip_id)
    assert digests == []


def test_a_file_that_changes_while_it_is_compared_is_not_the_same(
    file: Located, clip_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = identity.watched_digest

    def digest(path: str, *rest: object) -> str:
        found = real(path, *rest)  # type: ignore[arg-type]
        replaced(Path(path))
        return found

    monkeypatch.setattr(identity, "watched_digest", digest)
    os.utime(file.path)
    with pytest.raises(MediaError, match="has changed"):
        check(file, clip_id)


def test_so_many_are_remembered_and_no_more(file: Located, clip_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "REMEMBERED", 3)
    same = SameContent(10.0)
    for moment in range(9):
        os.utime(file.path, ns=(moment, moment))
        check(file, clip_id, same)
    assert len(same._digests) == 3
