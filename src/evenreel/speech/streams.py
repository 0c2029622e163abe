"""Subtitle streams of text inside a video, read packet by packet: no decoder of FFmpeg runs.

Streams of pictures (PGS, VobSub, DVB) are left out, as a note says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenreel.errors import MediaError
from evenreel.media import open_video
from evenreel.media.allowlist import packet_options
from evenreel.media.languages import language_tag
from evenreel.media.opening import FFMPEG_ERRORS, open_file, subtitles_of_text
from evenreel.speech.encodings import decode
from evenreel.speech.subtitles import LARGEST_BYTES, MOST_CUES, Cue, Format, Subtitles, too_many_cues, utterances_of
from evenreel.wording import count

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.subtitles.stream import SubtitleStream

FORMATS: dict[str, Format] = {
    "subrip": "srt",
    "srt": "srt",
    "text": "srt",
    "mov_text": "srt",
    "webvtt": "vtt",
    "ass": "ass",
    "ssa": "ass",
}
"""Format of a stream's cues, by FFmpeg's name of its codec; a stream of another codec has no text."""

_ASS_FIELDS = 9  # ReadOrder, Layer, Style, Name, three margins, Effect, Text
_ASS_NAME = 3


@dataclass
class _Stream:
    codec: str
    language: str | None
    cues: list[Cue] = field(default_factory=list)
    bytes: int = 0
    broken: int = 0


def read_streams(path: str | os.PathLike[str]) -> Iterator[Subtitles | None]:
    """Read the subtitle streams of a video; yields None now and then while it reads, then what each stream says.

    Times count from where a player's timeline begins. A stream without any words is left out.

    Raises:
        MediaError: the file cannot be opened, or a stream is too large.
    """
    with open_file(path, packet_options()) as container:
        of_text = subtitles_of_text(container)
        wanted = {stream.index: _Stream(stream.codec_context.name, _language(stream)) for stream in of_text}
        pictures = len(container.streams.subtitles) - len(wanted)
        if wanted:
            start_s = _starts_s(path)
            for packet in _packets(container, wanted):
                _take(wanted[packet.stream.index], packet, start_s)
                yield None
    for stream in wanted.values():
        try:
            yield utterances_of(
                stream.cues, FORMATS[stream.codec], stream.broken, source="stream", language=stream.language
            )
        except MediaError:  # nothing is said in it
            continue
    if pictures:
        yield Subtitles((), (f"{count(pictures, 'stream')} of subtitles in pictures left out",))


def _starts_s(path: str | os.PathLike[str]) -> float:
    """Where a player's timeline begins on the file's own clock, in seconds."""
    with open_video(path) as video:
        return video.info.starts_s


def _language(stream: SubtitleStream) -> str | None:
    return language_tag(stream.metadata.get("language"))


def _packets(container: InputContainer, wanted: dict[int, _Stream]) -> Iterator[Packet[Stream]]:
    """Packets of the wanted streams; damage ends the file, as its end does."""
    from av.stream import Discard

    for stream in container.streams:
        if stream.index not in wanted:
            stream.discard = Discard.all  # not even read from the disk where the index allows
    try:
        for packet in container.demux([container.streams[index] for index in wanted]):
            if packet.size:
                yield packet
    except FFMPEG_ERRORS:
        return


def _take(stream: _Stream, packet: Packet[Stream], start_s: float) -> None:
    data = bytes(packet)
    stream.bytes += len(data)
    if len(stream.cues) >= MOST_CUES or stream.bytes > LARGEST_BYTES:
        raise too_many_cues(len(stream.cues) + 1)
    if packet.pts is None or packet.time_base is None:
        stream.broken += 1
        return
    begins_s = float(packet.pts * packet.time_base) - start_s
    ends_s = begins_s + float((packet.duration or 0) * packet.time_base)
    stream.cues.append(_cue(begins_s, ends_s, data, stream.codec))


def _cue(start_s: float, end_s: float, data: bytes, codec: str) -> Cue:
    if codec == "mov_text":  # two bytes of length, the text, boxes of styles
        data = data[2 : 2 + int.from_bytes(data[:2], "big")]
    text, _ = decode(data)
    if FORMATS[codec] != "ass":
        return Cue(start_s, end_s, text)
    fields = text.split(",", _ASS_FIELDS - 1)
    if len(fields) < _ASS_FIELDS:
        return Cue(start_s, end_s, "")
    return Cue(start_s, end_s, fields[-1], fields[_ASS_NAME] or None)
