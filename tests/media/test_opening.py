from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media import open_video, parse_rule, probe
from evenreel.media.opening import DECODERS, DEMUXERS
from tests.media_files import ENCRYPTION, Film, gop, number_in, remux, steady, write_film

SHORT = Film(steady(10))


def reason_of(path: str | os.PathLike[str], limits: MediaLimits | None = None) -> str:
    with pytest.raises(MediaError) as caught, open_video(path, limits) as video:
        list(video.frames(parse_rule("every 1 s")))
    sentence = str(caught.value)
    assert sentence
    assert "\n" not in sentence
    return caught.value.reason


# -- content ---------------------------------------------------------------------------------------------


def test_hazard_1_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").touch()
    assert reason_of(tmp_path / "a.mp4") == "empty"


@pytest.mark.parametrize("content", [b"hello, world\n" * 50, np.random.default_rng(0).bytes(20_000), b"\x00" * 4096])
def test_hazard_2_text_and_random_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(content)
    assert reason_of(path) == "not_media"


def test_hazard_3_mp4_without_its_index(tmp_path: Path) -> None:
    whole = write_film(tmp_path / "whole.mp4", SHORT).read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole[: whole.index(b"moov") - 4])
    assert reason_of(cut) == "truncated_header"


@pytest.mark.parametrize("name", ["a.mkv", "a.avi", "a.flv", "a.gif"])
def test_hazard_3_other_containers_cut_inside_the_header(tmp_path: Path, name: str) -> None:
    film = Film(steady(10), codec="gif", pix_fmt="rgb8") if name == "a.gif" else Film(steady(10), codec="libx264")
    path = write_film(tmp_path / name, film)
    path.write_bytes(path.read_bytes()[:12])
    assert reason_of(path) in {"truncated_header", "no_video", "no_frames"}


def write_sound(path: Path, *, cover: bool = False) -> Path:
    with av.open(str(path), "w") as container:
        sound = container.add_stream("aac", rate=44_100)
        if cover:
            picture = container.add_stream("mjpeg", rate=1)
            picture.width, picture.height, picture.pix_fmt = 32, 32, "yuvj420p"
            picture.disposition = av.stream.Disposition.attached_pic
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), "rgb24")
            container.mux([*picture.encode(frame), *picture.encode(None)])
        for k in range(20):
            frame = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), "fltp", "stereo")
            frame.sample_rate, frame.pts = 44_100, k * 1024
            container.mux(sound.encode(frame))
        container.mux(sound.encode(None))
    return path


def test_hazard_9_sound_only(tmp_path: Path) -> None:
    assert reason_of(write_sound(tmp_path / "a.mp4")) == "no_video"


def test_hazard_9_a_cover_picture_is_no_video(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.mp4", cover=True)
    with av.open(str(path)) as container:
        assert len(container.streams.video) == 1, "the file is not what this test is about"
    with pytest.raises(MediaError, match="cover picture") as caught:
        probe(path)
    assert caught.value.reason == "no_video"


def declare_gif_size(path: Path, width: int, height: int) -> Path:
    """A tiny GIF whose logical screen claims another size."""
    data = bytearray(write_film(path, Film(steady(3), codec="gif", pix_fmt="rgb8")).read_bytes())
    data[6:10] = width.to_bytes(2, "little") + height.to_bytes(2, "little")
    path.write_bytes(data)
    return path


def test_hazard_19_a_declared_size_past_the_limit_costs_no_memory(tmp_path: Path) -> None:
    paths = [declare_gif_size(tmp_path / f"{width}.gif", width, 32_768) for width in (32_768, 20_000)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in (paths[0], paths[0], paths[1], paths[0]):  # FFmpeg's log leaves out what it just said
        with pytest.raises(MediaError, match=f"{path.stem} x 32768") as caught:
            probe(path)
        assert caught.value.reason == "too_large"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB; one picture has 4 GiB


def test_hazard_23_an_encrypted_file(tmp_path: Path) -> None:
    plain = write_film(tmp_path / "plain.mp4", SHORT)
    assert reason_of(remux(plain, tmp_path / "locked.mp4", **ENCRYPTION)) == "encrypted"


def test_hazard_24_a_rare_decoder_is_refused_by_name(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.avi", Film(steady(5), codec="magicyuv"))
    with pytest.raises(MediaError, match="magicyuv") as caught:
        probe(path)
    assert caught.value.reason == "codec_not_allowed"


def test_the_allowlists_name_what_this_ffmpeg_has() -> None:
    assert all(av.format.ContainerFormat(name, "r").is_input for name in DEMUXERS)
    assert all(av.codec.Codec(name, "r").type == "video" for name in DECODERS)


# -- other files and addresses ----------------------------------------------------------------------------

_IN_OPEN = 0x20


@contextlib.contextmanager
def opens_of(path: Path) -> Iterator[Callable[[], int]]:
    """Counts how often any process opens a file, by the kernel's own account (inotify)."""
    if not sys.platform.startswith("linux"):
        pytest.skip("inotify is of Linux")
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(os.O_NONBLOCK)
    assert handle >= 0, os.strerror(ctypes.get_errno())
    assert libc.inotify_add_watch(handle, os.fsencode(path), _IN_OPEN) >= 0

    def count() -> int:
        ready, _, _ = select.select([handle], [], [], 0.05)
        return len(os.read(handle, 65_536)) // 16 if ready else 0  # 16 bytes an event of a file

    try:
        yield count
    finally:
        os.close(handle)


def playlists(secret: Path) -> dict[str, str]:
    return {
        "ffconcat": f"ffconcat version 1.0\nfile {secret.name}\n",
        "absolute ffconcat": f"ffconcat version 1.0\nfile '{secret}'\n",
        "m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:2,\n{secret.as_uri()}\n#EXT-X-ENDLIST\n",
        "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n",
        "dash": f'<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period><AdaptationSet '
        f'mimeType="video/mp4"><Representation id="1"><BaseURL>{secret.as_uri()}</BaseURL></Representation>'
        f"</AdaptationSet></Period></MPD>",
    }


@pytest.mark.parametrize("kind", ["ffconcat", "absolute ffconcat", "m3u8", "sdp", "dash"])
def test_hazard_21_a_playlist_opens_no_other_file(tmp_path: Path, kind: str) -> None:
    secret = write_film(tmp_path / "secret.ts", Film(steady(25), options=gop(10)))
    path = tmp_path / "clip.mp4"
    path.write_text(playlists(secret)[kind])
    with opens_of(secret) as count:
        assert reason_of(path) in {"format_not_allowed", "not_media"}
        assert count() == 0
    if kind == "ffconcat":
        assert reason_of(path) == "format_not_allowed"


def test_hazard_21_the_proof_itself_sees_an_unprotected_open(tmp_path: Path) -> None:
    secret = write_film(tmp_path / "secret.ts", Film(steady(25), options=gop(10)))
    path = tmp_path / "clip.mp4"
    path.write_text(playlists(secret)["ffconcat"])
    with opens_of(secret) as count, av.open(str(path)) as container:
        assert next(container.decode(video=0)) is not None, "this FFmpeg follows no playlist at all"
        assert count() > 0


@contextlib.contextmanager
def listener() -> Iterator[tuple[int, Callable[[], bool]]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)

        def visited() -> bool:
            with contextlib.suppress(BlockingIOError):
                server.accept()[0].close()
                return True
            return False

        yield server.getsockname()[1], visited


def test_hazard_22_addresses_inside_a_file_are_not_visited(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    with listener() as (port, visited):
        for address in (f"http://127.0.0.1:{port}/a.ts", f"tcp://127.0.0.1:{port}", f"rtsp://127.0.0.1:{port}/a"):
            path.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:2,\n{address}\n#EXT-X-ENDLIST\n")
            assert reason_of(path) in {"format_not_allowed", "not_media"}
        assert not visited()


@pytest.mark.parametrize("scheme", ["http", "tcp", "rtsp", "https", "udp"])
def test_hazard_22_an_address_as_path_is_a_file_that_is_not_there(scheme: str) -> None:
    with listener() as (port, visited):
        assert reason_of(f"{scheme}://127.0.0.1:{port}/a.mp4") == "unreadable"
        assert not visited()


@pytest.mark.parametrize(
    "path", ["concat:a.ts|b.ts", "subfile,,start,0,end,100,,:a.mp4", "data:video/mp4,AAAA", "pipe:0", "/dev/stdin", "-"]
)
def test_hazard_22_protocols_and_options_as_path_are_only_names(tmp_path: Path, path: str) -> None:
    write_film(tmp_path / "a.mp4", SHORT)
    with contextlib.chdir(tmp_path) if hasattr(contextlib, "chdir") else contextlib.nullcontext():
        assert reason_of(path) == "unreadable"


# -- what is no regular file --------------------------------------------------------------------------------


def test_hazard_25_what_cannot_be_read_never_blocks(tmp_path: Path) -> None:
    (tmp_path / "folder.mp4").mkdir()
    os.mkfifo(tmp_path / "pipe.mp4")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s.mp4"))
        (tmp_path / "zero.mp4").symlink_to("/dev/zero")
        (tmp_path / "loop.mp4").symlink_to("loop.mp4")
        began = time.monotonic()
        for name in ("folder.mp4", "pipe.mp4", "s.mp4", "zero.mp4", "loop.mp4", "absent.mp4", "nul\x00.mp4"):
            assert reason_of(tmp_path / name) == "unreadable", name
    assert time.monotonic() - began < 60  # a busy machine is no failure, and what blocks here blocks for ever


def test_hazard_25_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_film(tmp_path / "a.mp4", SHORT)

    def denied(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(MediaError, match="Permission denied") as caught:
        probe(path)
    assert caught.value.reason == "unreadable"


@pytest.mark.parametrize(
    "name",
    [b"two\nlines.mp4", b"it's \"quoted\".mp4", "\N{FILM PROJECTOR}\N{PILE OF POO}.mp4".encode(),
     "\u202egnp.4pm.mp4".encode(), b"bytes-\xff\xfe\x80.mp4", b"x" * 251 + b".mp4", b"-i.mp4", b"%2e%2e%d%s.mp4",
     b"<script>.mp4", b"a:b|c,d;e.mp4", b"file:x.mp4", b"http:x.mp4", b" .mp4", b"back\\slash.mp4", b"no suffix"],
)  # fmt: skip
def test_hazard_27_any_name_is_read(tmp_path: Path, name: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / os.fsdecode(name)
    write_film(tmp_path / "plain.mp4", SHORT).rename(path)
    monkeypatch.chdir(tmp_path)
    for given in (path, str(path), os.fsdecode(name)):
        with open_video(given) as video:
            assert [number_in(frame.pixels) for frame in video.frames(parse_rule("every 1 s"))] == [0]


def test_the_file_is_closed_whatever_happens(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.mp4", Film(steady(50), options=gop(10)))
    garbage = tmp_path / "g.mp4"
    garbage.write_bytes(b"x" * 1000)
    before = open_handles()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), open_video(path) as video:
            next(video.frames(parse_rule("every 0.1 s")))
            _ = 1 / 0
        with open_video(path) as video:
            list(video.frames(parse_rule("x_pool 3")))
            list(video.frames(parse_rule("3 midpoints")))
        reason_of(garbage)
    assert open_handles() == before


def open_handles() -> int:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("no /proc on this system")
    return len(list(folder.iterdir()))


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = bytearray(write_film(tmp_path / "a.ts", Film(steady(50), options=gop(10))).read_bytes())
    for at in range(3000, len(broken), 500):
        broken[at] ^= 0xFF
    (tmp_path / "b.ts").write_bytes(broken)
    with contextlib.suppress(MediaError), open_video(tmp_path / "b.ts") as video:
        list(video.frames(parse_rule("every 0.1 s")))
    assert capfd.readouterr() == ("", "")
