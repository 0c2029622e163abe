"""Opening of a media file: from a path to a container and its one video stream, or an error with the reason.

FFmpeg decides by content, not by name, what a file is. A text file named `clip.mp4` that begins with `ffconcat` or
`#EXTM3U` is a playlist for it, and a playlist opens other files and addresses. And each of its 500 decoders is code
that a hostile file can reach. So every opening of a file passes lists to FFmpeg: the only containers, decoders and
protocols that it may use for files from users. All names are FFmpeg's.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import av
from av.stream import Disposition

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media.workers import not_regular

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.subtitles.stream import SubtitleStream
    from av.video.stream import VideoStream

# MP4, Matroska, AVI, MPEG (transport, program and elementary streams), GIF, APNG, FLV, Ogg, WMV, MXF, DV. None of them
# refers to other files, or only with an option that is off.
DEMUXERS = (
    "mov", "matroska", "avi", "mpegts", "mpeg", "mpegvideo", "gif", "apng", "flv", "ogg", "asf", "mxf", "dv",
)  # fmt: skip

DECODERS = (
    "h264", "hevc", "libdav1d", "av1", "vp8", "vp9", "mpeg4", "mpeg2video", "mpeg1video", "mjpeg", "prores",
    "dnxhd", "dvvideo", "theora", "gif", "apng", "png", "wmv1", "wmv2", "wmv3", "vc1", "msmpeg4v1", "msmpeg4v2",
    "msmpeg4", "h263", "flv", "ffv1", "huffyuv", "utvideo", "qtrle", "cinepak", "rawvideo",
)  # fmt: skip
"""Of pictures: what cameras, editors, browsers and archives write."""

SOUND_DECODERS = (
    "aac", "aac_latm", "mp3float", "mp3", "mp2float", "mp2", "ac3", "eac3", "dca", "truehd", "mlp", "flac", "alac",
    "opus", "libopus", "vorbis", "wmav1", "wmav2", "wmapro", "amrnb", "amrwb", "libopencore_amrnb",
    "libopencore_amrwb", "speex", "nellymoser", "wavpack", "adpcm_ms", "adpcm_ima_wav", "adpcm_ima_qt", "adpcm_swf",
    "s302m", "dvaudio",
    *(f"pcm_{kind}" for kind in ("u8", "s8", "mulaw", "alaw", "bluray", "dvd")),
    *(f"pcm_{kind}{end}" for kind in ("s16", "s24", "s32", "f32", "f64") for end in ("le", "be")),
)  # fmt: skip
"""What cameras, phones, editors, discs and broadcasts write."""

TEXT_SUBTITLES = frozenset({"subrip", "srt", "text", "mov_text", "webvtt", "ass", "ssa"})
"""Kinds of subtitle streams whose packets are text."""

PICTURE_SUBTITLES = ("pgssub", "dvdsub", "dvbsub")
"""Decoders of subtitles in pictures: of Blu-ray discs, DVDs, broadcasts. No other reading of a file has them."""

CONTAINER_NAMES = {"mov,mp4,m4a,3gp,3g2,mj2": "mp4", "matroska,webm": "matroska"}
"""Short names of the demuxers that FFmpeg names by a list."""

CODEC_NAMES = {
    "h264": "H.264", "mpeg4": "MPEG-4", "mpeg2video": "MPEG-2", "mpeg1video": "MPEG-1", "mjpeg": "Motion JPEG",
    "prores": "ProRes", "dnxhd": "DNxHD", "dvvideo": "DV", "theora": "Theora", "rawvideo": "uncompressed",
    "flv1": "Sorenson H.263", "h263": "H.263", "vc1": "VC-1", "qtrle": "QuickTime Animation", "cinepak": "Cinepak",
    "huffyuv": "HuffYUV", "utvideo": "Ut Video",
}  # fmt: skip
"""Codecs as people know them; the others are known by their short names in capitals (HEVC, AV1, VP9, FFV1)."""


def copy_options(limits: MediaLimits) -> dict[str, str]:
    """Options with which a file is opened to copy its pictures and sound: all trusted decoders."""
    return allowing((*DECODERS, *SOUND_DECODERS)) | codec_options(limits)


def packet_options() -> dict[str, str]:
    """Options with which a file is opened for packets that are read without any decoder."""
    return allowing(("none",))


def allowing(decoders: Sequence[str]) -> dict[str, str]:
    """Options with which a file is opened: no other decoder is run, and no other file read."""
    lists = {"format_whitelist": ",".join(DEMUXERS), "codec_whitelist": ",".join(decoders)}
    return lists | {"protocol_whitelist": "file"}


def codec_options(limits: MediaLimits) -> dict[str, str]:
    """Option of a decoder that limits pixels a picture, padding of its buffers too, for sizes that no header gives."""
    return {"max_pixels": str(limits.max_pixels * 11 // 10 + 2**16)}


def picture_subtitle_options(max_pixels: int) -> dict[str, str]:
    """Options of a decoder of subtitles in pictures, which refuses what is damaged."""
    lists = {"codec_whitelist": ",".join(PICTURE_SUBTITLES), "max_pixels": str(max_pixels)}
    return lists | {"err_detect": "explode"}


FFMPEG_ERRORS = (av.FFmpegError, ValueError, ArithmeticError, MemoryError, LookupError)
"""What PyAV lets through from files that were made to break it (UnicodeError is a ValueError)."""

_MEDIA_SIGNS = {
    b"\x1a\x45\xdf\xa3": "Matroska or WebM",
    b"OggS": "Ogg",
    b"FLV\x01": "FLV",
    b"GIF8": "GIF",
    b"\x30\x26\xb2\x75": "ASF",
}
_NOT_A_PICTURE = Disposition.attached_pic | Disposition.timed_thumbnails


def open_container(path: str | os.PathLike[str], limits: MediaLimits) -> tuple[InputContainer, VideoStream]:
    """Open a local video file under the allowlists and choose its video stream; the caller must close the container."""
    container = open_file(path, allowing(DECODERS) | codec_options(limits))
    try:
        stream = choose_stream(container, limits)
        read_only(container, stream)
        return container, stream
    except BaseException:
        container.close()
        raise


def open_file(path: str | os.PathLike[str], options: dict[str, str]) -> InputContainer:
    """Open a local media file with FFmpeg's options; the caller must close the container."""
    head = _read_head(path)
    if not head:
        raise MediaError("empty", "the file is empty (0 bytes); copy it again")
    try:
        # An absolute path behind `file:` is never read as another protocol, an option or a device.
        return _opened("file:" + os.path.abspath(os.fspath(path)), options)
    except FFMPEG_ERRORS as error:
        _explain(path, head, error)


def _opened(address: str, options: dict[str, str]) -> InputContainer:
    return av.open(address, mode="r", options=options, metadata_errors="replace")


def _read_head(path: str | os.PathLike[str]) -> bytes:
    """The first bytes of a regular file; never waits, whatever the path leads to."""
    try:
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind):
            raise not_regular(kind)
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MediaError("unreadable", f"it cannot be opened: {reason}") from error
    try:
        return os.read(handle, 64)
    except OSError as error:
        raise MediaError("unreadable", f"it cannot be read: {error.strerror}") from error
    finally:
        os.close(handle)


def _explain(path: str | os.PathLike[str], head: bytes, error: BaseException) -> NoReturn:
    if isinstance(error, av.error.ArgumentError):  # FFmpeg's answer to a container off the whitelist
        what = "its content is of a kind that is not opened here (playlists, pictures, rare containers)"
        raise MediaError("format_not_allowed", f"{what}; allowed containers: {', '.join(DEMUXERS)}") from error
    if isinstance(error, MemoryError):
        raise MediaError("too_large", "its header asks for more memory than there is") from error
    name = _container_by_head(head)
    if name is None:
        raise MediaError("not_media", "its content is not a video that can be recognised") from error
    what = f"it begins as {name}, but its header is cut off or damaged"
    if name == "MP4" and not _has_box(path, b"moov"):
        what = "this MP4 has no index (moov box): the recording or the copy was cut short"
    raise MediaError("truncated_header", f"{what}; copy it again") from error


def _container_by_head(head: bytes) -> str | None:
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
        return "MP4"
    if head[:4] == b"RIFF" and head[8:11] == b"AVI":
        return "AVI"
    return next((name for sign, name in _MEDIA_SIGNS.items() if head.startswith(sign)), None)


def _has_box(path: str | os.PathLike[str], wanted: bytes) -> bool:
    """Whether a complete top-level box of that type is in an MP4 file (ISO/IEC 14496-12, 4.2)."""
    with Path(path).open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        position = 0
        while len(header := file.read(16)) >= 8:
            size, kind = int.from_bytes(header[:4], "big"), header[4:8]
            if size == 1:
                size = int.from_bytes(header[8:16], "big")
            if kind == wanted:
                return position + size <= end
            if size < 8:  # 0: up to the end of the file; 2 to 7: nonsense
                return False
            position += size
            file.seek(position)
    return False


def packets_of(container: InputContainer, *streams: Stream) -> Iterator[Packet[Any]]:
    try:
        for packet in container.demux(*streams):
            if packet.size:  # the last ones are empty: signals to flush the decoder
                yield packet
    except FFMPEG_ERRORS:
        return


def choose_stream(container: InputContainer, limits: MediaLimits) -> VideoStream:
    """Choose the video stream of an open container: the one marked default, else the first, that is no cover picture.

    A cover is often not marked as one: a stream of a single picture is taken only where no other has more.
    """
    candidates = [s for s in container.streams.video if not s.disposition & _NOT_A_PICTURE]
    if not candidates:
        held = sorted({s.type for s in container.streams if s.type != "video"})
        what = f"only {' and '.join(held)}" if held else "no stream"
        if container.streams.video:
            what = "only a cover picture as video"
        raise MediaError("no_video", f"it has no video stream: {what}")
    candidates.sort(key=lambda stream: not stream.disposition & Disposition.default)
    stream = candidates[0] if len(candidates) == 1 else _first_film(container, candidates)
    check_codec(stream, "video", DECODERS, "H.264")
    check_size(stream.width, stream.height, limits)
    return stream


def _first_film(container: InputContainer, streams: Sequence[VideoStream]) -> VideoStream:
    """The first stream with more than one picture, by its packets; the first of all where none has."""
    pictures = Counter[int]()
    with contextlib.suppress(*FFMPEG_ERRORS), _opened(container.name, packet_options()) as again:
        for packet in again.demux(*(again.streams[stream.index] for stream in streams)):
            pictures[packet.stream_index] += packet.size > 0
            if pictures[streams[0].index] > 1 or max(pictures.values()) >= 1000:  # beside one picture: that is no film
                break
    return next((stream for stream in streams if pictures[stream.index] > 1), streams[0])


def subtitles_in(container: InputContainer, names: Collection[str]) -> list[SubtitleStream]:
    """Return the streams of `TEXT_SUBTITLES` or `PICTURE_SUBTITLES`."""
    coded = [stream for stream in container.streams.subtitles if stream.codec_context is not None]
    return [stream for stream in coded if stream.codec_context.name in names]


def refused_size(path: str | os.PathLike[str], limits: MediaLimits) -> tuple[int, int] | None:
    """Return the picture size (width, height) that the decoder refused, read from its log; None for another reason."""
    with _log_of(av.logging.ERROR) as logs, contextlib.suppress(MediaError, *FFMPEG_ERRORS):
        container, stream = open_container(path, limits)
        with container:
            stream.codec_context.options = codec_options(limits)
            next(container.decode(stream), None)
    found = re.findall(r"Picture size (\d+)x(\d+)", "\n".join(message for _, _, message in logs))
    return (int(found[-1][0]), int(found[-1][1])) if found else None


def is_dolby_vision_alone(stream: VideoStream) -> bool:
    """Return whether pictures are IPT-PQ-c2 (profiles 5 and 10.0 of Dolby Vision), whatever the colour tags say."""
    dump = getattr(stream.container, "dumps_format", str)  # PyAV does not promise it
    with _log_of(av.logging.INFO):
        said = dump().split(f"Stream #0:{stream.index}[")[-1].partition("Stream #")[0]
    return re.search(r"DOVI configuration record: .*profile: (5,|10,.* compatibility id: 0,)", said) is not None


@contextlib.contextmanager
def _log_of(level: int) -> Iterator[list[tuple[int, str, str]]]:
    before, skips = av.logging.get_level(), av.logging.get_skip_repeated()
    av.logging.set_level(level)
    av.logging.set_skip_repeated(False)  # or what was also said of the file before would not be told
    try:
        with av.logging.Capture(local=False) as logs:
            yield logs
    finally:
        av.logging.set_level(before)
        av.logging.set_skip_repeated(skips)


def codec_name(stream: Stream) -> str:
    """The name of a stream's codec, whichever decoder reads it."""
    name = stream.codec_context.codec.canonical_name
    return CODEC_NAMES.get(name, name.upper())


def check_codec(stream: VideoStream | AudioStream, kind: str, trusted: Collection[str], remedy: str) -> None:
    name = stream.codec_context.name if stream.codec_context is not None else "unknown"
    if name not in trusted:
        what = f"its {kind} codec ({name}) is not on the list of decoders that are trusted with unknown files"
        raise MediaError("codec_not_allowed", f"{what}; convert it, for example to {remedy}")


def read_only(container: InputContainer, stream: Stream) -> None:
    """Have no other stream read, not even from the disk where the index allows."""
    for other in container.streams:
        if other is not stream:
            other.discard = av.stream.Discard.all


def check_size(width: int, height: int, limits: MediaLimits) -> None:
    if max(width, height) > limits.max_side_px or width * height > limits.max_pixels:
        raise too_large(width, height, limits)


def too_large(width: int, height: int, limits: MediaLimits) -> MediaError:
    return MediaError(
        "too_large",
        f"its pictures are {width} x {height}; at most {limits.max_side_px} a side and "
        f"{limits.max_pixels:,} pixels are decoded (MediaLimits.max_side_px, max_pixels)",
    )
