"""Subtitle streams of text inside a video, read packet by packet: no decoder of FFmpeg runs.

Streams of pictures are for `evenreel.speech.pictures`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenreel.errors import MediaError
from evenreel.media.opening import (
    CONTAINER_NAMES,
    open_file,
    packet_options,
    packets_of,
    subtitles_in_pictures,
    subtitles_of_text,
)
from evenreel.media.sampling import language_tag, same_language
from evenreel.media.video import open_video
from evenreel.speech.subtitles import (
    LARGEST_BYTES,
    MOST_CUES,
    Cue,
    Format,
    Subtitles,
    decode,
    too_many_cues,
    utterances_of,
)
from evenreel.wording import count

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.subtitles.stream import SubtitleStream

FORMATS: dict[str, Format] = dict.fromkeys(("subrip", "srt", "text", "mov_text"), "srt")
FORMATS |= {"webvtt": "vtt", "ass": "ass", "ssa": "ass"}
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
    """Read the streams of text of a video; yields None now and then while it reads, then what each stream says.

    Times count from where a player's timeline begins. A stream without any words is left out. The last of them has no
    words where streams of pictures are to be read.
    """
    with open_file(path, packet_options()) as container:
        of_text = subtitles_of_text(container)
        wanted = {stream.index: _Stream(stream.codec_context.name, language_of(stream)) for stream in of_text}
        pictures = pictures_to_read(container)
        others = len(container.streams.subtitles) - len(of_text) - len(subtitles_in_pictures(container))
        if wanted:
            start_s = starts_s(path)
            for packet in subtitle_packets(container, wanted):
                if packet is not None:
                    _take(wanted[packet.stream.index], packet, start_s)
                yield None
    for stream in wanted.values():
        try:
            yield utterances_of(
                stream.cues, FORMATS[stream.codec], stream.broken, source="stream", language=stream.language
            )
        except MediaError:  # nothing is said in it
            continue
    if pictures or others:
        notes = [f"{count(others, 'stream')} of subtitles of a kind that is not read left out"] if others else []
        yield Subtitles((), tuple(notes), pictures=len(pictures))


def pictures_to_read(container: InputContainer) -> list[SubtitleStream]:
    """Choose the streams of pictures to read: of each language the first that is not of forced subtitles alone.

    Streams in the language of a stream of text are left out; those without a language count as of one.
    """
    known = [language_of(stream) for stream in subtitles_of_text(container) if not _is_forced(stream)]
    chosen = []
    for stream in sorted(subtitles_in_pictures(container), key=_is_forced):
        language = language_of(stream)
        if language not in known and not any(same_language(language, one) for one in known):
            chosen.append(stream)
            known.append(language)
    return sorted(chosen, key=lambda stream: stream.index)


def _is_forced(stream: SubtitleStream) -> bool:
    from av.stream import Disposition

    return bool(stream.disposition & Disposition.forced)


def starts_s(path: str | os.PathLike[str]) -> float:
    """Return where a player's timeline begins on the file's own clock, in seconds."""
    with open_video(path) as video:
        return video.info.starts_s


def language_of(stream: SubtitleStream) -> str | None:
    """Return the language that a container says of a stream, as a BCP 47 tag; None where it says none."""
    return language_tag(stream.metadata.get("language"))


def subtitle_packets(container: InputContainer, wanted: Collection[int]) -> Iterator[Packet[Stream] | None]:
    """Yield the packets of streams by their numbers, and None now and then in between."""
    from av.stream import Discard

    paced = set(wanted)
    if CONTAINER_NAMES.get(container.format.name) != "mp4":  # the whole file is read anyway, which takes its time
        paced |= {stream.index for stream in container.streams.video}
    for stream in container.streams:
        if stream.index not in paced:
            stream.discard = Discard.all  # not even read from the disk where the index allows
    for packet in packets_of(container, *(container.streams[index] for index in sorted(paced))):
        yield packet if packet.stream.index in wanted else None


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
