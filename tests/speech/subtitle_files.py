"""Writes subtitle files of known cues, and reads them as other programs do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import ass
import av
import srt
import webvtt
from av.stream import Disposition

Spoken = tuple[float, float, str]
"""Start and end in seconds, and words in one line."""

FRENCH = ("Où est passée la clé de la maison ?", "Elle était là hier, près de l'entrée.", "Cherchons-la à deux.")
RUSSIAN = ("Где ключ от старого дома?", "Мы ждали поезд до самой ночи.", "Скажи ей, что я вернусь завтра.")
JAPANESE = ("駅で会いましょう。", "明日の朝は雨が降るでしょう。", "その鍵はどこにありますか。")
ENCODINGS = {
    "utf-8": FRENCH,
    "utf-8-sig": JAPANESE,
    "utf-16": RUSSIAN,
    "cp1252": FRENCH,
    "cp1251": RUSSIAN,
    "shift_jis": JAPANESE,
}
"""Encodings, each with lines that were written in it."""

FORMATS = (".srt", ".vtt", ".ass", ".ssa")
_HEADS = {
    ".srt": "",
    ".vtt": "WEBVTT - a title\n\nSTYLE\n::cue { color: lime }\n\nNOTE written\nfor a test\n\n",
    ".ass": (
        "[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\n"
        "Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic,"
        " Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL,"
        " MarginR, MarginV, Encoding\n"
        "Style: Default,Arial,20,&H00FFFFFF,&H000000FF,&H00000000,&H00000000,0,0,0,0,100,100,0,0,1,2,2,2,10,10,10,1\n\n"
        "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    ),
    ".ssa": (
        "[Script Info]\nScriptType: v4.00\n\n[V4 Styles]\n"
        "Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, TertiaryColour, BackColour, Bold, Italic,"
        " BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, AlphaLevel, Encoding\n"
        "Style: Default,Arial,20,16777215,65535,65535,0,0,0,1,2,2,2,10,10,10,0,1\n\n"
        "[Events]\nFormat: Marked, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    ),
}


@dataclass(frozen=True)
class Line:
    """A cue to write; its words may hold line breaks."""

    start_ms: int
    end_ms: int
    words: str
    speaker: str = ""


def written(suffix: str, lines: list[Line]) -> str:
    """The text of a subtitle file in the form of a suffix, with italics, and with names where the form has them."""
    makers = {".srt": _srt, ".vtt": _vtt, ".ass": _ass, ".ssa": _ssa}
    return _HEADS[suffix] + "".join(makers[suffix](number, line) for number, line in enumerate(lines, 1))


def _clock(ms: int, mark: str) -> str:
    return f"{ms // 3_600_000:02d}:{ms // 60_000 % 60:02d}:{ms // 1000 % 60:02d}{mark}{ms % 1000:03d}"


def _srt(number: int, line: Line) -> str:
    return f"{number}\n{_clock(line.start_ms, ',')} --> {_clock(line.end_ms, ',')}\n<i>{line.words}</i>\n\n"


def _vtt(number: int, line: Line) -> str:
    voice = f"<v {line.speaker}>" if line.speaker else ""
    times = f"{_clock(line.start_ms, '.')} --> {_clock(line.end_ms, '.')} align:start position:0%"
    return f"cue {number}\n{times}\n{voice}<i>{line.words}</i>\n\n"


def _ass(number: int, line: Line, first: str = "0") -> str:
    times = f"{_clock(line.start_ms, '.')[1:-1]},{_clock(line.end_ms, '.')[1:-1]}"
    words = line.words.replace("\n", r"\N")
    return f"Dialogue: {first},{times},Default,{line.speaker},0,0,0,,{{\\i1}}{words}{{\\i0}}\n"


def _ssa(number: int, line: Line) -> str:
    return _ass(number, line, "Marked=0")


def reference_cues(path: Path, text: str) -> list[Spoken]:
    """The cues of a file by another program: the libraries srt, webvtt-py and ass, and FFmpeg for SubStation 4.

    Args:
        path: where the text may be written, in UTF-8; its suffix says what it is.
        text: the text, with lines that end in a line feed.
    """
    path.write_text(text, encoding="utf-8")
    if path.suffix == ".srt":
        found = [(c.start.total_seconds(), c.end.total_seconds(), _bare(c.content)) for c in srt.parse(text)]
    elif path.suffix == ".vtt":
        found = [(_seconds(c.start), _seconds(c.end), c.text) for c in webvtt.read(str(path)).captions]
    elif path.suffix == ".ass":
        found = [
            (e.start.total_seconds(), e.end.total_seconds(), _bare(e.text)) for e in ass.parse(text.split("\n")).events
        ]
    else:
        found = _by_ffmpeg(path)
    return [(start_s, end_s, " ".join(words.split())) for start_s, end_s, words in found]


def _seconds(clock: str) -> float:
    hours, minutes, seconds = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def _bare(words: str) -> str:
    for tag in ("<i>", "</i>", r"{\i1}", r"{\i0}"):
        words = words.replace(tag, "")
    return words.replace(r"\N", "\n")


def _by_ffmpeg(path: Path) -> list[Spoken]:
    with av.open(str(path)) as container:
        stream = container.streams.subtitles[0]
        packets = [packet for packet in container.demux(stream) if packet.size]
        return [
            (
                float(packet.pts * packet.time_base),
                float((packet.pts + packet.duration) * packet.time_base),
                _bare(bytes(packet).decode().split(",", 8)[8]),
            )
            for packet in packets
        ]


def film_with_subtitles(
    path: Path,
    subtitles: Sequence[tuple[Path, str]],
    first_ms: int = 0,
    spoken: str = "",
    add: Callable[[av.container.OutputContainer], Iterable[av.Packet]] = lambda container: (),
    length_s: int = 3,
) -> Path:
    """A film with a stream for each subtitle file, which FFmpeg reads, and its language.

    Args:
        path: the film; its suffix says the container.
        subtitles: subtitle files in UTF-8 with the languages of their streams, after `forced ` where they are forced.
        first_ms: timestamp of the first frame; the cues are as much later.
        spoken: words of one stream of mov_text more, in second 1 to 2.
        add: adds more streams, and returns their packets.
        length_s: length of the film.
    """
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        readers = [av.open(str(file)) for file, _ in subtitles]
        copies = [container.add_stream_from_template(reader.streams[0]) for reader in readers]
        for copy, (_, language) in zip(copies, subtitles, strict=True):
            copy.metadata["language"] = language.removeprefix("forced ")
            if language.startswith("forced "):
                copy.disposition = Disposition.forced
        more = add(container)
        timed = container.add_stream("mov_text") if spoken else None
        if timed is not None:
            timed.codec_context.subtitle_header = _HEADS[".ass"].encode()
        for number in range(length_s * 25):
            frame = av.VideoFrame(64, 48, "yuv420p")
            frame.pts, frame.time_base = first_ms + number * 40, Fraction(1, 1000)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        for reader, copy in zip(readers, copies, strict=True):
            for packet in reader.demux(reader.streams[0]):
                if packet.size:
                    _shift(packet, first_ms)
                    packet.stream = copy
                    container.mux(packet)
            reader.close()
        if timed is not None:
            words = spoken.encode()
            packet = av.Packet(len(words).to_bytes(2, "big") + words)
            packet.time_base = Fraction(1, 1000)
            packet.pts = packet.dts = first_ms + 1000
            packet.duration = 1000
            packet.stream = timed
            container.mux(packet)
        for packet in more:
            container.mux(packet)
    return path


def _shift(packet: av.Packet, by_ms: int) -> None:
    by = round(Fraction(by_ms, 1000) / packet.time_base)
    packet.pts, packet.dts = packet.pts + by, packet.dts + by
