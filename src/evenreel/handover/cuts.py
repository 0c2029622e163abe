"""Cutting a stretch out of a file, by copying its packets from a key frame on, or to the frame: by encoding it anew.

What is shown from a key frame on needs nothing from before it, so a copy begins at the last key frame whose picture is
on screen at the start, or before it; pictures that are shown before that key frame but come after it in the file (the
leading ones of an open group) are left out. It ends with the last packet whose picture begins before the end; a picture
after the end is copied only where an earlier one may refer to it.

Encoded anew, pictures become H.264 as a person sees them: upright, with square pixels, in BT.709; the first stream of
sound becomes AAC. The frames are those on screen in the stretch, each for as long as in the file. Of H.264 the ends
alone are encoded anew where they can be joined to what lies between.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
from av.bitstream import BitStreamFilterContext
from av.codec.context import Flags
from av.packet import Packet as AnyPacket
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType, VideoFrame

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.handover.frames import SAME_TIME_S, FileFacts, FrameRate, read_facts, slack_of
from evenreel.media import open_video
from evenreel.media.encode import add_h264, encoded, even_sided
from evenreel.media.opening import FFMPEG_ERRORS, choose_stream, codec_name, copy_options, open_file, packets_of
from evenreel.media.sampling import GivenTimes
from evenreel.media.video import JOINABLE, WITHOUT_PTS, Source, still_jpeg, time_base_of
from evenreel.media.workers import Message
from evenreel.types import FloatArray

if TYPE_CHECKING:
    from typing import TypeAlias

    from av.audio.stream import AudioStream
    from av.container import InputContainer, OutputContainer
    from av.stream import Stream
    from av.video.stream import VideoStream

    Packet: TypeAlias = AnyPacket[Stream]

ANY = "matroska"  # which holds nearly every codec
SUFFIXES = {"mp4": ".mp4", "mov": ".mov", "matroska": ".mkv", "mpegts": ".ts", "flv": ".flv", "ogg": ".ogv"}
_REORDER_S = Fraction(1)  # containers seek by decoding time; a key frame is shown at most this much later
_TICK = 500
_DISK = {28, 30, 13, 27, 5, 122}  # errors of a disk: full, read-only, not permitted, too large, failing, over a quota


def copy_stretch(
    path: str,
    out: str,
    stretch: tuple[Fraction, Fraction],
    formats: Sequence[str],
    limits: MediaLimits,
    timecode_at: Callable[[Fraction], str | None],
) -> Iterator[Message]:
    """Copy a stretch of a file into a file of the first format that can hold its codecs."""
    with closing(Source(path, limits, 1)) as source:
        clock, slack_s = source.clock, slack_of(source.stream)
        start = clock.timestamp(float(stretch[0] + slack_s - SAME_TIME_S))  # on screen then
        until = clock.timestamp(float(stretch[1] - slack_s - SAME_TIME_S)) + 1  # the first after the end
        if source.container.format.name in WITHOUT_PTS:
            raise UncopyableError("its container does not say when pictures are shown")
    key = yield from _key_frame(path, (start, until), limits)
    tags = {"timecode": timecode} if (timecode := timecode_at(Fraction(clock.seconds(key)))) else {}
    for place, name in enumerate(formats):
        try:
            end, left_out = yield from _copied(path, out, name, (key, until), tags, limits)
        except _UnfitError as error:
            if place + 1 < len(formats):
                continue
            raise UncopyableError(f"its streams fit into no container ({error})") from error
        span_s = {"starts_s": clock.seconds(key), "ends_s": clock.seconds(end)}
        yield {"format": name, **span_s, "left_out": left_out}, None
        return


class UncopyableError(Exception):
    """The packets of a stretch cannot be copied, with the reason."""


class _UnfitError(Exception):
    """A format cannot hold what is to be copied."""


def _seek(container: InputContainer, stream: VideoStream, timestamp: int) -> bool:
    """Go to before a timestamp; where the file may be several that were joined, or cannot be sought, do nothing."""
    if container.format.name in JOINABLE:
        return False
    try:
        container.seek(timestamp - int(_REORDER_S / time_base_of(stream)), stream=stream)
    except FFMPEG_ERRORS:
        return False
    return True


def _key_frame(
    path: str, bounds: tuple[int, int], limits: MediaLimits, *, from_start: bool = False
) -> Generator[Message, None, int]:
    """Timestamp of the key frame that a cut begins with; yields signs of life."""
    start, until = bounds
    with open_file(path, copy_options(limits)) as container:
        stream = choose_stream(container, limits)
        sought = not from_start and _seek(container, stream, start)
        found, first, last = None, None, None
        for number, packet in enumerate(packets_of(container, stream)):
            if packet.is_discard:
                continue
            at = _shown_at(packet)
            if packet.is_keyframe and first is None:
                first = at
            if packet.is_keyframe and at <= start:
                found = at
            reached = at if packet.dts is None else packet.dts
            if last is not None and (last - reached) * time_base_of(stream) > _REORDER_S:
                raise UncopyableError("its timestamps step back on the way")  # recordings joined end to end
            last = reached
            if reached > start:
                break
            if number % _TICK == 0:
                yield {}, None
    if found is None and sought:
        return (yield from _key_frame(path, bounds, limits, from_start=True))
    found = first if found is None else found  # the stretch may begin before the first picture
    if found is None or found >= until:
        raise UncopyableError("it has no key frame to begin with")
    return found


def _shown_at(packet: Packet | VideoFrame) -> int:
    if packet.pts is None:
        raise UncopyableError("its packets do not say when they are shown")
    return packet.pts


def _copied(
    path: str, out: str, form: str, bounds: tuple[int, int], tags: Mapping[str, str], limits: MediaLimits
) -> Generator[Message, None, tuple[int, list[str]]]:
    """Copy packets from the timestamp of a key frame to another timestamp, into a file of a format.

    Returns the end of the last picture that was copied, and the kinds of streams that do not fit into the format.
    """
    with open_file(path, copy_options(limits)) as container:
        stream = choose_stream(container, limits)
        _seek(container, stream, bounds[0])
        pictures = _Pictures(*bounds)
        try:
            with av.open(out, "w", format=form) as target:
                targets, left_out = _add_streams(target, container, stream, tags)
                yield from _mux(container, stream, pictures, targets, target)
        except OSError as error:
            raise cannot_write(error) from error
        except FFMPEG_ERRORS as error:
            raise UncopyableError(f"its packets do not fit into {form} ({error})") from error
    if not pictures.began:
        raise UncopyableError("its key frame is not found when the file is read again")
    return pictures.end, left_out


def _add_streams(
    target: OutputContainer, container: InputContainer, stream: VideoStream, tags: Mapping[str, str]
) -> tuple[dict[int, Stream], list[str]]:
    """Streams of the target by the index of the source's, and kinds of streams that do not fit."""
    left_out = list[str]()
    targets: dict[int, Stream] = {}
    try:
        for one in (stream, *container.streams.audio):
            if one.codec_context is not None and one.codec_context.name in target.supported_codecs:
                targets[one.index] = target.add_stream_from_template(one)
            elif one is stream:
                raise _UnfitError(f"{target.format.name} holds no {codec_name(stream)}")
            else:
                left_out = ["sound"]
        if left_out and target.format.name != ANY:
            raise _UnfitError(f"{target.format.name} holds not all of its sound")
        target.metadata.update(tags)
        target.start_encoding()
    except FFMPEG_ERRORS as error:
        if getattr(error, "errno", None) in _DISK:
            raise
        raise _UnfitError(str(error)) from error
    return targets, left_out


def _mux(
    container: InputContainer,
    stream: VideoStream,
    pictures: _Pictures,
    targets: Mapping[int, Stream],
    target: OutputContainer,
) -> Iterator[Message]:
    zero_s, until_s = pictures.key * time_base_of(stream), pictures.until * time_base_of(stream)
    open_ends = set(targets)
    streams = [container.streams[index] for index in targets]
    for number, packet in enumerate(packets_of(container, *streams)):
        if packet.is_discard:
            continue
        index, at = packet.stream.index, packet.dts if packet.pts is None else packet.pts
        begins_s = (at or 0) * time_base_of(packet.stream)
        if index == stream.index:
            ready = pictures.take(packet)
            if pictures.ended:
                open_ends.discard(index)
        else:
            length_s = (packet.duration or 0) * time_base_of(packet.stream)
            ready = [packet] if begins_s + length_s > zero_s and begins_s < until_s else []
            if begins_s >= until_s:
                open_ends.discard(index)
        shift = round(zero_s / time_base_of(packet.stream))
        for one in ready:
            one.pts = None if one.pts is None else one.pts - shift
            one.dts = None if one.dts is None else one.dts - shift
            one.stream = targets[index]
            target.mux_one(one)
        if not open_ends or (pictures.ended and begins_s >= until_s + _REORDER_S):  # sound has ended too
            break
        if number % _TICK == 0:
            yield {}, None


class _Pictures:
    """Chooses the packets of pictures: from the key frame on, none shown before it, none needless after the end."""

    def __init__(self, key: int, until: int) -> None:
        self.key, self.until = key, until
        self._held: list[Packet] = []  # shown after the end; copied only where a wanted one follows
        self.began = self.ended = False  # whether the key frame has come; whether no later packet can hold a picture
        self.end = key  # end of the last picture that was chosen

    def take(self, packet: Packet) -> list[Packet]:
        at = _shown_at(packet)
        if not self.began:
            self.began = packet.is_keyframe and at == self.key
        if not self.began or at < self.key or self.ended:
            return []
        if packet.dts is not None and packet.dts >= self.until:
            self.ended = True
            return []
        if at >= self.until:
            self._held.append(packet)
            return []
        ready, self._held = [*self._held, packet], []
        self.end = max(self.end, *(one.pts + (one.duration or 0) for one in ready if one.pts is not None))
        return ready


def cannot_write(error: OSError) -> MediaError:
    why = (os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)).lower()
    return MediaError("failed", f"its cut cannot be written ({why}); make room or choose another place")


def formats_for(container: str, suffix: str) -> list[str]:
    """List the formats to try for a cut of a file: its own, then one that holds nearly everything."""
    own = container if container in SUFFIXES else "mp4"
    return list(dict.fromkeys(("mov" if own == "mp4" and suffix.lower() == ".mov" else own, ANY)))


CODEC: Final = "aac"
LAYOUTS = ("mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1")
"""The usual layout of 1, 2, ... channels, which sound gets that does not say where its channels belong."""
OTHER_LAYOUTS = frozenset(("3.0", "quad", "5.0(side)", "5.1(side)", "7.0"))  # what the encoder takes too
_BEFORE_S = Fraction(1)
# Blocks whose times differ by no more from where the last one ended follow it: containers round times, to a
# millisecond some of them, and what changes the rate holds some samples back.
_ROUNDED_S = Fraction(1, 1000)


def layout_for(name: str, channels: int) -> str:
    """Choose the layout in which sound of a layout is encoded; more channels than the encoder takes are mixed down."""
    if name in LAYOUTS or name in OTHER_LAYOUTS:
        return name
    if channels <= len(LAYOUTS):
        return LAYOUTS[max(channels, 1) - 1]
    return "stereo" if name.endswith("channels") else "5.1"


class EncodedSound:
    """The first stream of sound of a file, encoded as AAC from a start to an end, to the sample."""

    def __init__(self, container: InputContainer, zero_s: Fraction, target: OutputContainer) -> None:
        self._container, self._zero_s, self._target = container, zero_s, target
        self._source = container.streams.audio[0]
        layout = self._source.layout
        self._layout, given = layout_for(layout.name, layout.nb_channels), self._source.rate
        self._rate = min(av.Codec(CODEC, "w").audio_rates or [given], key=lambda rate: abs(rate - given))
        self._stream: AudioStream = target.add_stream(CODEC, rate=self._rate, layout=self._layout)
        self._resampler = av.AudioResampler(format="fltp", layout=self._layout, rate=self._rate)
        self._given = 0  # samples
        self.missing = False  # whether there is sound in the file and nothing of it could be decoded

    @staticmethod
    def of(path: str, limits: MediaLimits, target: OutputContainer) -> EncodedSound | None:
        """The sound of a file; None where there is none, or none that may be decoded."""
        with closing(Source(path, limits, 1)) as source:
            zero_s = -Fraction(source.clock.seconds(0)).limit_denominator(1_000_000)
        container = open_file(path, copy_options(limits))
        try:
            if container.streams.audio and container.streams.audio[0].codec_context is not None:
                return EncodedSound(container, zero_s, target)
        except FFMPEG_ERRORS:
            pass
        container.close()
        return None

    def close(self) -> None:
        self._container.close()

    def encode(self, start_s: Fraction, end_s: Fraction) -> Iterator[Message]:
        """Encode what is heard between two times of the player's timeline; yields signs of life."""
        count = math.floor((end_s - start_s) * self._rate)
        rounded_s = max(_ROUNDED_S, 2 * time_base_of(self._source))
        rounded = math.ceil(rounded_s * self._rate)
        for at_s, samples in self._decoded(start_s):
            first = round((at_s - start_s) * self._rate)
            if self._given and abs(first - self._given) <= rounded:
                first = self._given
            if first >= count:
                break
            if first > self._given:  # a gap
                self._put(np.zeros((len(samples), first - self._given), np.float32))
            self._put(samples[:, max(0, self._given - first) : count - first])
            yield {}, None
        self._target.mux(self._stream.encode(None))

    def _decoded(self, start_s: Fraction) -> Iterator[tuple[Fraction, FloatArray]]:
        """Times on the player's timeline, and samples (channels, N)."""
        time_base = time_base_of(self._source)
        self.missing = True
        with contextlib.suppress(*FFMPEG_ERRORS):  # it cannot be sought: AVI refuses what lies before its beginning
            before = math.floor((start_s + self._zero_s - _BEFORE_S) / time_base)
            self._container.seek(max(0, before), stream=self._source)
        try:
            for frame in self._container.decode(self._source):
                if frame.pts is None:
                    continue
                at_s = frame.pts * time_base - self._zero_s
                for made in self._resampler.resample(frame):
                    self.missing = False
                    yield at_s, np.asarray(made.to_ndarray(), np.float32)
        except FFMPEG_ERRORS:  # damaged from here on
            return

    def _put(self, samples: FloatArray) -> None:
        if not samples.shape[1]:
            return
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), "fltp", self._layout)
        frame.sample_rate, frame.pts, frame.time_base = self._rate, self._given, Fraction(1, self._rate)
        self._target.mux(self._stream.encode(frame))
        self._given += samples.shape[1]


FORM = "mp4"
OPTIONS = {"preset": "medium", "crf": "18"}
TICKS = 90_000  # in a second, of the clock of a film whose frame rate varies
_FASTEST = 240  # frames a second that such a film is looked at


def encode_stretch(
    path: str, out: str, stretch: tuple[Fraction, Fraction], facts: FileFacts, limits: MediaLimits
) -> Iterator[Message]:
    """Encode pictures and sound of a stretch of a file as an mp4 file; yields a sign of life a frame."""
    span_s, clock = stretch, Fraction(TICKS)
    times_s = [stretch[0] + Fraction(n, _FASTEST) for n in range(math.ceil((stretch[1] - stretch[0]) * _FASTEST))]
    if facts.steady:  # whole frames, each looked at in its middle
        (first, stop, span_s), clock = _steadily(stretch, facts), facts.own_fps
        times_s = [facts.offset_s + (number + Fraction(1, 2)) / clock for number in range(first, stop)]
    given, most = GivenTimes(list(map(float, times_s))), max(limits.max_frames, len(times_s) + 1)
    stream, sound, last_pts = None, None, -1
    try:
        with av.open(out, "w", format=FORM, options={"movflags": "+faststart"}) as target:
            if timecode := facts.timecode_at(stretch[0]):
                target.metadata["timecode"] = timecode
            with open_video(path, replace(limits, max_frames=most), threads=2) as video:
                for frame in video.frames(given):
                    pixels = even_sided(frame.pixels)
                    if stream is None:
                        size = pixels.shape[1], pixels.shape[0]
                        stream = add_h264(target, size, facts.own_fps, clock, OPTIONS)
                        sound = EncodedSound.of(path, limits, target)
                    if (stream.height, stream.width) != pixels.shape[:2]:
                        why = "the size of its pictures changes in the stretch, which is not encoded"
                        raise MediaError("failed", why)
                    last_pts = max(round((Fraction(frame.time_s) - span_s[0]) * clock), last_pts + 1)
                    target.mux(encoded(stream, pixels, last_pts, clock))
                    yield {}, None
            if stream is None:
                raise MediaError("no_frames", "no picture of the stretch can be decoded")
            for packet in stream.encode(None):
                if packet.pts == last_pts:  # the last picture stays to the end of the stretch
                    packet.duration = max(1, round((span_s[1] - span_s[0]) * clock) - last_pts)
                target.mux_one(packet)
            yield from _with_sound(sound, span_s)
    except OSError as error:
        raise cannot_write(error) from error


IDR, SPS, PPS, DELIMITER = 5, 7, 8, 9  # types of NAL units
PROFILES = {66: "baseline", 77: "main", 100: "high"}  # of pictures 4:2:0 with 8 bits, by what x264 calls them
START = b"\0\0\0\1"  # of a NAL unit
_RARE = "its form of H.264 is rare"
_ALIKE = "width height pix_fmt sample_aspect_ratio color_range colorspace color_primaries color_trc"


def join_stretch(
    path: str, out: str, stretch: tuple[Fraction, Fraction], facts: FileFacts, limits: MediaLimits
) -> Iterator[Message]:
    """Cut a stretch of H.264 to the frame, as an mp4 file: encode its ends, and copy what lies between.

    Pictures of two encoders can stand in one track where each names parameter sets of an id of its own, and both sets
    are in the file's one `avcC` box (ISO/IEC 14496-15, 5.3.3). A player changes from one to the other at an IDR
    picture, and needs nothing from within the stream.
    """
    if not facts.steady:
        raise UncopyableError("its frame rate varies")
    (first, stop, span_s), fps = _steadily(stretch, facts), facts.own_fps
    with closing(Source(path, limits, 1)) as source:
        begin = source.clock.timestamp(source.clock.offset_s)
    try:
        with (
            open_file(path, copy_options(limits)) as container,
            av.open(out, "w", format=FORM, options={"movflags": "+faststart"}) as target,
        ):
            film = _JoinedFilm(container, choose_stream(container, limits), begin, fps)
            middle, end, delay = yield from film.middle(first, stop)
            parts = film.encoded(range(first, middle.start)), film.copied(middle), film.encoded(range(middle.stop, end))
            if timecode := facts.timecode_at(stretch[0]):
                target.metadata["timecode"] = timecode
            stream, sound = film.add_to(target), EncodedSound.of(path, limits, target)
            for place, (number, units, is_key) in enumerate(itertools.chain(*parts)):
                kept = [START + unit for unit in units if kind_of(unit) not in {SPS, PPS, DELIMITER}]
                packet = AnyPacket(b"".join(kept))
                packet.time_base, packet.duration, packet.is_keyframe = 1 / fps, 1, is_key
                packet.pts, packet.dts, packet.stream = number - first, place - delay, stream
                target.mux_one(packet)
                yield {}, None
            for said, _ in _with_sound(sound, span_s):
                yield said and said | {"copied": [middle.start, middle.stop]}, None
    except OSError as error:
        raise cannot_write(error) from error
    except FFMPEG_ERRORS as error:
        raise UncopyableError("it is damaged, or its pictures do not fit together") from error


class _JoinedFilm:
    """A film whose pictures are numbered from the first on, at a steady rate.

    A part of a cut comes as the number of each picture, the NAL units of its packet, and whether that is a key frame.
    """

    def __init__(self, container: InputContainer, stream: VideoStream, begin: int, fps: Fraction) -> None:
        self._container, self._stream, self._begin, self._fps = container, stream, begin, fps
        self._sets: list[bytes] = []  # of parameters, for what is copied
        codec = stream.codec_context
        if codec.name != "h264" or container.format.name in JOINABLE | WITHOUT_PTS:
            raise UncopyableError("only H.264 in mp4, mov and Matroska is copied in part")
        if codec.width % 2 or codec.height % 2 or codec.pix_fmt not in {"yuv420p", "yuvj420p"}:
            raise UncopyableError(_RARE)

    def middle(self, first: int, stop: int) -> Generator[Message, None, tuple[range, int, int]]:
        """Find what can be copied, the end of the pictures, and by how many places one is read before it is shown.

        The copy begins with an IDR picture, past which none after it looks back. It ends with the last packet with
        which all pictures are there up to the last one shown: none of them needs one that is left out.
        """
        seen, start, end, top, delay = set[int](), stop, 0, 0, 1
        for number, units, _ in self._read(first):
            if not seen and number < stop:
                if number < first or IDR not in map(kind_of, units):
                    continue
                start, top, self._sets = number, number, [unit for unit in units if kind_of(unit) in {SPS, PPS}]
            if number < start or number in seen or start + len(seen) >= stop:
                break
            delay, top = max(delay, len(seen) - (number - start)), max(top, number)
            seen.add(number)
            if top - start + 1 == len(seen):
                end = top + 1
            yield {}, None
        else:  # the film ends before the stretch does
            stop = min(stop, top + 1)
        if end <= start:
            raise UncopyableError("no closed group of pictures begins in it")
        return range(start, end), stop, delay

    def add_to(self, target: OutputContainer) -> VideoStream:
        """Add a stream that is described as the film's, with the parameter sets of the ends beside its own."""
        stream = target.add_stream_from_template(self._stream)
        sets = self._sets + _units(self._encoder().extradata or b"")
        sps = sorted((unit for unit in sets if kind_of(unit) == SPS), key=lambda unit: unit[3], reverse=True)
        if len({unit[1] for unit in sps}) != 1:  # of profiles; the first unit's level, the highest, is the file's
            raise UncopyableError(_RARE)
        sets = [*sps, *(unit for unit in sets if kind_of(unit) == PPS)]
        stream.codec_context.extradata, stream.time_base = b"".join(START + unit for unit in sets), 1 / self._fps
        return stream

    def copied(self, part: range) -> Iterator[tuple[int, list[bytes], bool]]:
        from_start = itertools.dropwhile(lambda packet: packet[0] != part.start, self._read(part.start))
        for packet in itertools.islice(from_start, len(part)):
            if any(kind_of(unit) in {SPS, PPS} and unit not in self._sets for unit in packet[1]):
                raise UncopyableError("its parameter sets change on the way")
            yield packet

    def encoded(self, part: range) -> Iterator[tuple[int, list[bytes], bool]]:
        """Decode and encode pictures; they are not converted on the way."""
        if not part:
            return
        encoder = self._encoder()
        self._seek(part.start)
        frames = (frame for frame in self._container.decode(self._stream) if self._number(frame) >= part.start)
        for number in (*part, None):
            frame = None if number is None else next(frames, None)
            if number is not None:
                if frame is None or self._number(frame) != number or frame.is_corrupt or frame.interlaced_frame:
                    raise UncopyableError("a picture at its ends is missing, damaged or interlaced")
                frame.pts, frame.time_base, frame.pict_type = number, 1 / self._fps, PictureType.NONE
            for packet in encoder.encode(frame):
                yield _shown_at(packet), _units(packet), packet.is_keyframe

    def _encoder(self) -> VideoCodecContext:
        profiles = {unit[1] for unit in self._sets if kind_of(unit) == SPS}
        taken = {first_number(unit[4 if kind_of(unit) == SPS else 1 :]) for unit in self._sets}
        profile, free = PROFILES.get(min(profiles, default=0)), set(range(1, 32)) - taken  # x264 takes ids up to 31
        if profile is None or not free:
            raise UncopyableError(_RARE)
        encoder = VideoCodecContext.create("libx264", "w")
        for name in _ALIKE.split():
            if (value := getattr(self._stream.codec_context, name)) is not None:
                setattr(encoder, name, value)
        encoder.options = {**OPTIONS, "crf": "14", "profile": profile}
        encoder.options |= {"x264-params": f"sps-id={min(free)}:b-pyramid=none:stitchable=1"}
        encoder.time_base, encoder.framerate = 1 / self._fps, self._fps
        encoder.flags |= Flags.global_header  # its parameter sets do not come with its packets
        encoder.open()
        return encoder

    def _read(self, number: int) -> Iterator[tuple[int, list[bytes], bool]]:
        """Read packets from before a picture on; those of IDR pictures have their parameter sets with them."""
        self._seek(number)
        with_starts = BitStreamFilterContext("h264_mp4toannexb", self._stream)
        for read in packets_of(self._container, self._stream):
            if read.is_discard:
                raise UncopyableError("a part of it is hidden by an edit list")
            for packet in with_starts.filter(read):
                yield self._number(packet), _units(packet), packet.is_keyframe

    def _seek(self, number: int) -> None:
        at = self._begin + math.floor(number / self._fps / time_base_of(self._stream))
        if not _seek(self._container, self._stream, at):
            raise UncopyableError("it cannot be sought")

    def _number(self, one: Packet | VideoFrame) -> int:
        exact = (_shown_at(one) - self._begin) * time_base_of(self._stream) * self._fps
        if abs(exact - round(exact)) > Fraction(1, 4):
            raise UncopyableError("its pictures do not all follow at one rate")
        return round(exact)


def _units(packet: Packet | bytes) -> list[bytes]:
    """The NAL units after start codes; none of them ends with 0."""
    return [unit for part in bytes(packet).split(START[1:])[1:] if (unit := part.rstrip(b"\0"))]


def kind_of(unit: bytes) -> int:
    return unit[0] & 31


def first_number(data: bytes) -> int:
    """The unsigned Exp-Golomb number (ITU-T H.264, 9.1) that some bytes begin with, such as a parameter set's id."""
    bits = "".join(f"{byte:08b}" for byte in data[:8])
    zeros = bits.index("1")
    return int(bits[zeros : 2 * zeros + 1], 2) - 1


def _steadily(stretch: tuple[Fraction, Fraction], facts: FileFacts) -> tuple[int, int, tuple[Fraction, Fraction]]:
    """Numbers of the first frame of a stretch of a steady film and of the first one after it, and when they begin."""
    rate, offset_s = FrameRate(facts.own_fps), facts.offset_s
    first = max(0, rate.frame_at(stretch[0] - offset_s, facts.slack_s))
    stop = max(first + 1, rate.frame_after(stretch[1] - offset_s, facts.slack_s))
    return first, stop, (offset_s + first / rate.fps, offset_s + stop / rate.fps)


def _with_sound(sound: EncodedSound | None, span_s: tuple[Fraction, Fraction]) -> Iterator[Message]:
    """Encode the sound of a cut, and tell what the cut is."""
    if sound is not None:
        with closing(sound):
            yield from sound.encode(*span_s)
    left_out = ["sound"] if sound is not None and sound.missing else []
    yield {"format": FORM, "starts_s": float(span_s[0]), "ends_s": float(span_s[1]), "left_out": left_out}, None


class CutReader:
    """Worker that answers a task by what it has, with messages of the function that it names.

    - `{"facts": path}`: `read_facts`, a message.
    - `{"copy": path, "out", "stretch", "formats", "facts"}`: `copy_stretch`.
    - `{"encode": path, "out", "stretch", "facts"}`: `join_stretch`. Where packets cannot be copied, both are
      `encode_stretch`, whose last message then says `why`.
    - `{"still": path, "time_s", "width"}`: the bytes of a JPEG.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        if "stretch" in task:
            yield from self._cut(task, FileFacts.from_json(task["facts"]))
        elif "facts" in task:
            yield read_facts(task["facts"], self._limits).to_json(), None
        else:
            yield {}, still_jpeg(task["still"], GivenTimes((task["time_s"],)), task["width"], self._limits)

    def _cut(self, task: dict[str, Any], facts: FileFacts) -> Iterator[Message]:
        stretch = Fraction(task["stretch"][0]), Fraction(task["stretch"][1])
        path, out = task.get("copy") or task["encode"], task["out"]
        try:
            if "copy" in task:
                yield from copy_stretch(path, out, stretch, task["formats"], self._limits, facts.timecode_at)
            else:
                yield from join_stretch(path, out, stretch, facts, self._limits)
        except UncopyableError as error:
            for header, _ in encode_stretch(path, out, stretch, facts, self._limits):
                yield {**header, "why": str(error)}, None
