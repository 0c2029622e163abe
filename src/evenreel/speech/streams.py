"""Subtitle streams inside a video: of text, for which no decoder of FFmpeg runs, and of pictures.

Pictures (PGS, VobSub, DVB) are decoded, drawn as dark letters on white, and read. FFmpeg's decoders run, so that is for
a worker that can be killed. PyAV hands out the number of each pixel's colour, and not the palette. FFmpeg's encoder of
DVB subtitles writes that down, of whatever kind the stream was.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import av
import numpy as np
from av.stream import Discard, Disposition
from av.subtitles.subtitle import BitmapSubtitle
from numpy.typing import NDArray

from evenreel.errors import MediaError
from evenreel.media.opening import (
    CONTAINER_NAMES,
    FFMPEG_ERRORS,
    open_file,
    packet_options,
    packets_of,
    picture_subtitle_options,
    subtitles_in_pictures,
    subtitles_of_text,
)
from evenreel.media.sampling import language_tag, same_language
from evenreel.media.video import open_video
from evenreel.media.workers import Message
from evenreel.speech.subtitles import (
    LARGEST_BYTES,
    MOST_CUES,
    Cue,
    Format,
    Subtitles,
    Utterance,
    decode,
    one_line,
    read_sidecar,
    too_many_cues,
    utterances_of,
)
from evenreel.types import Pixels
from evenreel.wording import count

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.subtitles.stream import SubtitleStream
    from av.subtitles.subtitle import SubtitleSet

FORMATS: dict[str, Format] = dict.fromkeys(("subrip", "srt", "text", "mov_text"), "srt")
FORMATS |= {"webvtt": "vtt", "ass": "ass", "ssa": "ass"}
"""Format of a stream's cues, by FFmpeg's name of its codec; a stream of another codec has no text."""

_ASS_FIELDS = 9  # ReadOrder, Layer, Style, Name, three margins, Effect, Text
_ASS_NAME = 3


def read_streams(path: str | os.PathLike[str]) -> Iterator[Subtitles | None]:
    """Read the streams of text of a video; yields None now and then while it reads, then what each stream says.

    Times count from where a player's timeline begins. A stream without any words is left out. The last of them has no
    words where streams of pictures are to be read.
    """
    with open_file(path, packet_options()) as container:
        of_text = subtitles_of_text(container)
        wanted = {stream.index: _TextStream(stream.codec_context.name, language_of(stream)) for stream in of_text}
        pictures = pictures_to_read(container)
        others = len(container.streams.subtitles) - len(of_text) - len(subtitles_in_pictures(container))
        if wanted:
            start_s = starts_s(path)
            for packet in subtitle_packets(container, wanted):
                if packet is not None:
                    wanted[packet.stream.index].take(packet, start_s)
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


@dataclass
class _TextStream:
    codec: str
    language: str | None
    cues: list[Cue] = field(default_factory=list)
    bytes: int = 0
    broken: int = 0

    def take(self, packet: Packet[Stream], start_s: float) -> None:
        """Keep the cue of a packet; the player's timeline begins at `start_s` of the file's clock."""
        data = bytes(packet)
        self.bytes += len(data)
        if len(self.cues) >= MOST_CUES or self.bytes > LARGEST_BYTES:
            raise too_many_cues(len(self.cues) + 1)
        if packet.pts is None or packet.time_base is None:
            self.broken += 1
            return
        begins_s = float(packet.pts * packet.time_base) - start_s
        ends_s = begins_s + float((packet.duration or 0) * packet.time_base)
        if self.codec == "mov_text":  # two bytes of length, the text, boxes of styles
            data = data[2 : 2 + int.from_bytes(data[:2], "big")]
        (text, _), speaker = decode(data), None
        if FORMATS[self.codec] == "ass":
            fields = text.split(",", _ASS_FIELDS - 1)
            text, speaker = (fields[-1], fields[_ASS_NAME] or None) if len(fields) == _ASS_FIELDS else ("", None)
        self.cues.append(Cue(begins_s, ends_s, text, speaker))


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
    paced = set(wanted)
    if CONTAINER_NAMES.get(container.format.name) != "mp4":  # the whole file is read anyway, which takes its time
        paced |= {stream.index for stream in container.streams.video}
    for stream in container.streams:
        if stream.index not in paced:
            stream.discard = Discard.all  # not even read from the disk where the index allows
    for packet in packets_of(container, *(container.streams[index] for index in sorted(paced))):
        yield packet if packet.stream.index in wanted else None


MOST_PICTURES = 10_000  # different ones of a stream; a film of two hours has some 1,500
LARGEST_PIXELS = 4096 * 2304  # of the screen that a subtitle is drawn on
LONGEST_S = 10.0  # after which a picture is gone where nothing says when it ends
_SAME_S = 0.25  # between two cues of the same words that are one
_SAME_LEVELS = 24  # by which a patch of two sheets may differ and still show the same letters
_LEAST_SEEN = 32  # opacity, 0 to 255, of the most opaque pixel below which nobody sees a picture: it begins to fade in
_ONE_COLOUR = 60  # levels of brightness within which a picture is of one colour, but for the softened edges of letters
_GAP_PX = 12  # rows without any letter between two areas


class SheetRecogniser(Protocol):
    """A recogniser of sheets: dark letters on white paper, (H, W) grey -> words and confidence, 0 to 1."""

    def can_read(self, language: str | None) -> bool: ...
    def read(self, sheet: Pixels) -> tuple[str, float]: ...


class ShownPicture(NamedTuple):
    """What is on screen from a time on, in seconds; without words the screen is cleared."""

    start_s: float
    end_s: float | None  # when it is gone at the latest; None where nothing says so
    words: str = ""
    confidence: float = 0.0


class Area(NamedTuple):
    """One rectangle of a subtitle at (x, y): the number of each pixel's colour, and (256, 2) brightness and opacity."""

    x: int
    y: int
    indices: Pixels
    colours: NDArray[np.uint8]


def read_pictures(path: str | os.PathLike[str], reader: SheetRecogniser) -> Iterator[Subtitles | None]:
    """Read the subtitles in pictures of a video; yields None now and then while it reads, then what each stream says.

    Times count from where a player's timeline begins.
    """
    with open_file(path, packet_options()) as container:
        streams = {stream.index: _PictureStream(stream, reader) for stream in pictures_to_read(container)}
        wanted = [index for index, stream in streams.items() if not stream.notes]
        start_s = starts_s(path) if wanted else 0.0
        for packet in subtitle_packets(container, wanted) if wanted else ():
            if packet is not None and not streams[packet.stream.index].is_full:
                streams[packet.stream.index].take(packet, start_s)
            yield None
    for stream in streams.values():
        yield stream.subtitles()


class _PictureStream:
    """One stream, packet by packet; it has notes from the beginning where it is not read."""

    def __init__(self, stream: SubtitleStream, reader: SheetRecogniser) -> None:
        self._reader, self._decoder, self._language = reader, stream.codec_context, language_of(stream)
        self._decoder.options = picture_subtitle_options(LARGEST_PIXELS)
        self.notes: list[str] = []
        if not reader.can_read(self._language):
            self.notes.append(f"subtitles in pictures left out: the recogniser does not read {self._language}")
        elif int(av.__version__.partition(".")[0]) < 18:  # whose encoders have no room for a picture
            self.notes.append(f"subtitles in pictures left out: they need PyAV 18, and this is {av.__version__}")
        self._shown: list[ShownPicture] = []
        self._readings: dict[bytes, tuple[str, float]] = {}
        self._last: tuple[Pixels, tuple[str, float]] | None = None
        self._taken = self._broken = self._pictures = 0

    @property
    def is_full(self) -> bool:
        return self._taken >= MOST_CUES or self._pictures >= MOST_PICTURES

    def take(self, packet: Packet[Stream], start_s: float) -> None:
        """Read what a packet shows; the player's timeline begins at `start_s` of the file's clock."""
        self._taken += 1
        try:
            data = bytes(packet)
            # A picture of VobSub that is shorter than it says: the decoder would take what follows for the rest of it.
            needed = int.from_bytes(data[:2], "big") or int.from_bytes(data[2:6], "big")
            if self._decoder.name == "dvdsub" and len(data) < max(4, needed):
                raise ValueError("cut short")
            if (found := self._decoder.decode2(packet)) is not None:  # else it changes nothing
                times_s = _times_s(found, packet, start_s)
                self._shown.append(ShownPicture(*times_s, *self._reading(drawn(_areas(found)))))
        except FFMPEG_ERRORS:
            self._broken += 1

    def subtitles(self) -> Subtitles:
        """What the stream says, and notes on what was left out."""
        notes = list(self.notes)
        if self._broken:
            notes.append(f"{self._broken:,} of {count(self._taken, 'packet')} of subtitles could not be read")
        if self.is_full:
            until_s = max((one.start_s for one in self._shown), default=0.0)
            notes.append(
                f"its subtitles in pictures were read up to {until_s:,.0f} s: of a stream at most {MOST_PICTURES:,} "
                f"different pictures are read, and {MOST_CUES:,} packets"
            )
        return Subtitles(tuple(cues_of(self._shown, self._language)), tuple(notes))

    def _reading(self, sheet: Pixels | None) -> tuple[str, float]:
        """The words of a sheet and their confidence; it is read once, however often it is shown."""
        if sheet is None:
            return "", 0.0
        key = sha256(repr(sheet.shape).encode() + sheet.tobytes()).digest()
        if key not in self._readings:
            if self._last is None or not _looks_alike(sheet, self._last[0]):  # as each picture of a fade does
                self._pictures += 1
                self._last = sheet, self._reader.read(sheet)
            self._readings[key] = self._last[1]
        return self._readings[key]


def _times_s(found: SubtitleSet, packet: Packet[Stream], start_s: float) -> tuple[float, float | None]:
    """When it is shown first, and last where that is said."""
    if found.pts < -(2**62):
        raise ValueError("without a time")
    shown_s = found.pts / 1e6 - start_s
    end_s = None if found.end_display_time in (0, 2**32 - 1) else shown_s + found.end_display_time / 1000
    if end_s is None and packet.duration and packet.time_base:
        end_s = shown_s + float(packet.duration * packet.time_base)
    return shown_s + found.start_display_time / 1000, end_s


def _areas(found: SubtitleSet) -> list[Area]:
    shown = [one for one in found if isinstance(one, BitmapSubtitle)]
    if sum(one.width * one.height for one in shown) > LARGEST_PIXELS:
        raise ValueError("too large")
    areas = []
    for one, colours in zip(shown, _palettes(found), strict=True):
        pixels = np.frombuffer(one.planes[0], np.uint8)  # type: ignore[call-overload]
        areas.append(Area(one.x, one.y, pixels.reshape(one.height, one.width), colours))
    return areas


def _palettes(found: SubtitleSet) -> Iterator[NDArray[np.uint8]]:
    """Brightness and opacity of the colours of each rectangle, as the encoder's segments say (EN 300 743, 7.2.4)."""
    if not len(found):
        return
    encoder = av.CodecContext.create("dvb_subtitle", "w")
    encoder.time_base = Fraction(1, 1000)
    written, place = bytes(encoder.encode_subtitle(found)), 0
    while written[place : place + 1] == b"\x0f" and written[place + 1] != 0x13:  # the pixels, behind all palettes
        kind, end = written[place + 1], place + 6 + int.from_bytes(written[place + 4 : place + 6], "big")
        if kind == 0x12:  # of entries: number, flags, Y from 16 to 235, Cr, Cb, transparency
            entries = np.frombuffer(written[place + 8 : end], np.uint8).reshape(-1, 6)
            colours = np.zeros((256, 2), np.uint8)
            colours[entries[:, 0], 0] = np.clip((entries[:, 2].astype(np.float32) - 16) * 255 / 219, 0, 255)
            colours[entries[:, 0], 1] = 255 - entries[:, 5]
            yield colours
        place = end


def drawn(areas: Sequence[Area]) -> Pixels | None:
    """Draw the areas of a subtitle below one another, from the top of the screen to its bottom, as (H, W) grey.

    Letters are black on white, whatever their colours are: what is next to the transparent pixels is their outline or a
    box behind them, and is paper too. None where nothing can be seen.
    """
    sheets = [sheet for area in sorted(areas, key=lambda one: (one.y, one.x)) if (sheet := _sheet(area)) is not None]
    if not sheets:
        return None
    width = max(sheet.shape[1] for sheet in sheets)
    padded = (((_GAP_PX, 0), (0, width - sheet.shape[1])) for sheet in sheets)
    return np.concatenate([np.pad(one, by, constant_values=255) for one, by in zip(sheets, padded, strict=True)])


def _sheet(area: Area) -> Pixels | None:
    opacity, levels = area.colours[:, 1], area.colours[:, 0].astype(np.float32)
    used = np.bincount(area.indices.ravel(), minlength=256) > 0
    most = int(opacity[used].max(initial=0))
    if most < _LEAST_SEEN:
        return None
    seen = opacity[area.indices] > 0.4 * most
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    indices = area.indices[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    share = (opacity.astype(np.float32) / most).clip(0, 1)
    paper, ink = _paper_and_ink(levels[indices], share[indices] > 0.5)
    mixed = paper + (levels - paper) * share
    grey = 255 - ((mixed - paper) / (ink - paper)).clip(0, 1) * 255
    return np.asarray(np.rint(grey).astype(np.uint8)[indices])


def _paper_and_ink(bright: NDArray[np.float32], seen: NDArray[np.bool_]) -> tuple[float, float]:
    """Brightness of what is to become white, and of what is to become black."""
    import cv2

    inner = cv2.erode(seen.astype(np.uint8), np.ones((3, 3), np.uint8), borderValue=0) > 0
    dark, light = (float(level) for level in np.percentile(bright[seen], (2, 98)))
    if light - dark < _ONE_COLOUR:
        return (0.0, max(light, 1.0)) if light + dark > 255 else (255.0, min(dark, 254.0))
    edge = float(np.median(bright[seen & ~inner]))
    return (dark, light) if edge - dark < light - edge else (light, dark)


def _looks_alike(one: Pixels, other: Pixels) -> bool:
    import cv2

    return one.shape == other.shape and int(cv2.blur(cv2.absdiff(one, other), (3, 3)).max()) <= _SAME_LEVELS


def cues_of(shown: Sequence[ShownPicture], language: str | None) -> list[Utterance]:
    """Make cues of what is shown, in any order; those of the same words that follow one another become one.

    A cue ends with its own end or where the screen is cleared or shows something else, and where nothing says when,
    after `LONGEST_S`.
    """
    ordered, found = sorted(shown, key=lambda one: one.start_s), list[Utterance]()
    for one in ordered:
        after = bisect_right(ordered, one.start_s, key=lambda other: other.start_s)
        then = ordered[after] if after < len(ordered) else None
        ends_s = [one.end_s] if one.end_s is not None and one.end_s > one.start_s else []
        if not ends_s and (then is None or then.words):
            ends_s = [one.start_s + LONGEST_S]
        end_s = min([*ends_s, *([then.start_s] if then else [])])
        text = one_line(one.words)
        if end_s <= 0 or not any(map(str.isalnum, text)):
            continue
        cue = Utterance(text, max(0.0, one.start_s), end_s, "stream", language, one.confidence)
        if found and found[-1].text == text and cue.start_s <= found[-1].end_s + _SAME_S:
            before = found.pop()
            surer = max(before, cue, key=lambda each: each.confidence or 0.0)
            cue = replace(surer, start_s=before.start_s, end_s=max(before.end_s, cue.end_s))
        found.append(cue)
    return found


_TICK_S = 1.0


class SubtitleFiles:
    """Worker that answers `{"path", "language"}` of a subtitle file, or `{"path"}` of a video with streams of text.

    With `"pictures": true` the streams of pictures of a video are read, and no others. The answer is a message
    `subtitles` each, with `utterances`, `notes` and `pictures`; a `tick` says that reading goes on.
    """

    def __init__(self, reader: SheetRecogniser) -> None:
        self._reader = reader

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        if "language" in task:
            yield {"kind": "subtitles", **asdict(read_sidecar(task["path"], task["language"]))}, None
            return
        path = task["path"]
        streams = read_pictures(path, self._reader) if task.get("pictures") else read_streams(path)
        told = time.monotonic()
        for found in streams:
            if found is not None:
                yield {"kind": "subtitles", **asdict(found)}, None
            elif time.monotonic() - told > _TICK_S:
                told = time.monotonic()
                yield {"kind": "tick"}, None
