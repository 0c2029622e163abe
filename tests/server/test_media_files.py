"""Files are opened below their folder, without following links, and only if they are regular."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from evenreel.server.media_files import media_type, open_beneath


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "videos" / "trams").mkdir(parents=True)
    (tmp_path / "videos" / "trams" / "a.mp4").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    return tmp_path / "videos"


def content(root: Path, path: str | Path) -> bytes:
    descriptor = open_beneath(str(root), str(path))
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def test_a_regular_file_below_is_opened(root: Path) -> None:
    assert content(root, root / "trams" / "a.mp4") == b"inside"


def test_a_name_that_is_not_utf8(root: Path) -> None:
    path = os.fsdecode(os.path.join(os.fsencode(root), b"b\xff.mp4"))
    Path(path).write_bytes(b"odd")
    assert content(root, path) == b"odd"


@pytest.mark.parametrize("path", ["../secret", "trams/../../secret", "/etc/passwd", ".", "trams", "none.mp4", "a\0b"])
def test_anything_else_is_not(root: Path, path: str) -> None:
    with pytest.raises((OSError, ValueError)):
        open_beneath(str(root), os.path.join(root, path))


def test_no_link_is_followed(root: Path) -> None:
    (root / "link.mp4").symlink_to(root.parent / "secret")
    (root / "door").symlink_to(root.parent)
    for path in ("link.mp4", "door/secret"):
        with pytest.raises(OSError):
            open_beneath(str(root), str(root / path))


def test_pipes_and_sockets_do_not_hold_us_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe.mp4")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(root)  # a path of a socket has to be short
        listener.bind("socket.mp4")
    for name in ("pipe.mp4", "socket.mp4"):
        with pytest.raises(OSError):
            open_beneath(str(root), str(root / name))


def test_nothing_is_left_open(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("trams", "none.mp4", "trams/none.mp4", "../secret"):
        with pytest.raises(OSError):
            open_beneath(str(root), str(root / path))
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_a_browser_is_asked_about() -> None:
    assert media_type("mp4", "hevc") == 'video/mp4; codecs="hvc1.1.6.L120.90"'
    assert media_type("matroska", "h264") == 'video/x-matroska; codecs="avc1.640028"'
    assert media_type("flv", "flv") == "application/octet-stream"
