"""What is said in a clip; subtitle files: SubRip (`.srt`), WebVTT (`.vtt`), SubStation (`.ass`, `.ssa`).

One cue is one utterance, of the lines that are new in it: a line that rolls up is said once. Left out are cues without
a letter or digit (`♪`), drawings and comments of SubStation, and the same words at the same times once more.

Each is read by its own grammar here: the parsers of pysubs2, srt and webvtt-py each take a line of words with two times
or an arrow in it for the times of a cue, or lose the words before it.
"""

from __future__ import annotations

import codecs
import contextlib
import html
import itertools
import math
import os
import re
import stat
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from evenreel.errors import MediaError
from evenreel.files import is_printable, name_key
from evenreel.media.sampling import language_tag
from evenreel.media.workers import Worker, unreadable
from evenreel.types import Shown
from evenreel.wording import count, seconds_of

SpeechSource = Literal["sidecar", "stream", "recognised"]
"""Where an utterance is from: a subtitle file beside the video, a subtitle stream inside it, or a speech model."""


@dataclass(frozen=True)
class SpokenWord:
    """A word that is said.

    Attributes:
        text: the word as written by its source, without spaces around it.
        start_s: when it begins, in seconds of the clip's own clock.
        end_s: when it ends.
        confidence: how sure the speech model is of it, from 0 to 1; None where nothing says so.
    """

    text: str
    start_s: float
    end_s: float
    confidence: float | None = None


@dataclass(frozen=True)
class Utterance:
    """A stretch of speech: a subtitle's cue, or a segment of a speech model.

    Attributes:
        text: what is said, in one line.
        start_s: when it begins, in seconds of the clip's own clock.
        end_s: when it ends.
        source: where it is from.
        language: language as a BCP 47 tag such as `en` or `pt-BR`; None where it is not known.
        confidence: how sure the speech model is, or the recogniser of subtitles in pictures, from 0 to 1; None for
            subtitles of text.
        speaker: who speaks, where the source says so.
        words: its words with their times; empty where the source has none.
    """

    text: str
    start_s: float
    end_s: float
    source: SpeechSource
    language: str | None = None
    confidence: float | None = None
    speaker: str | None = None
    words: tuple[SpokenWord, ...] = ()


Stamp = tuple[int, int, int]
"""Size of a file in bytes, and the times in nanoseconds at which its content and its entry were changed."""


@dataclass(frozen=True)
class Transcript(Shown):
    """What one source says of a clip.

    A clip whose streams were looked at has a transcript of source `stream` for each that says something, else one
    without utterances; one more says that its streams of pictures were not read, or could not be.

    Attributes:
        source: a subtitle file beside the video, a subtitle stream inside it, or a speech model.
        origin: path of the subtitle file, number of the stream among those that say something (`NO_STREAM`, `UNREAD`
            and `UNREADABLE` where nothing is said), or name of the model.
        utterances: what is said, in the order of its times.
        language: language as a BCP 47 tag; None where it is not known.
        stamp: stamp of the subtitle file; None for another source.
        problem: sentence on why there are no utterances; None where nothing is wrong.
    """

    source: SpeechSource
    origin: str
    utterances: tuple[Utterance, ...] = ()
    language: str | None = None
    stamp: Stamp | None = None
    problem: str | None = None


# What is known of a clip's streams: none says anything (the origin is empty in a shard of before streams of pictures
# were looked for); those of pictures were left out, as text on screen was; those cannot be read, with the problem.
NO_STREAM = Transcript("stream", "none")
UNREAD = Transcript("stream", "unread", problem="its subtitles are pictures, and no text in pictures was to be read")
UNREADABLE = Transcript("stream", "pictures")


def streams_known(rows: Collection[tuple[str, str | None]], *, pictures: bool, retry: bool) -> bool:
    """Return whether nothing is to be looked for in a clip's streams."""
    behind = {""} | ({UNREAD.origin} if pictures else set())
    return bool(rows) and not any(
        origin in behind or (retry and problem and origin != UNREAD.origin) for origin, problem in rows
    )


def is_in(transcript: Transcript, language: str | None) -> bool:
    """Return whether a transcript is in a language, wherever that is spoken: `pt` takes `pt-BR` too; None takes any."""
    wanted, known = language_tag(language), transcript.language
    return language is None or (known is not None and wanted in {known, known.partition("-")[0]})


def transcript_record(transcript: Transcript) -> dict[str, Any]:
    """A transcript as JSON has it: of utterances the fields that have a value, but for their source."""
    record = {name: getattr(transcript, name) for name in ("source", "origin", "language", "stamp", "problem")}
    said = [
        {name: value for name, value in asdict(one).items() if name != "source" and value not in (None, ())}
        for one in transcript.utterances
    ]
    return {**record, "utterances": said}


def transcript_of(record: dict[str, Any]) -> Transcript:
    stamp = None if record["stamp"] is None else tuple(record["stamp"])
    said = tuple(utterance({"source": record["source"], **one}) for one in record["utterances"])
    return Transcript(**{**record, "utterances": said, "stamp": stamp})


def utterance(fields: dict[str, Any]) -> Utterance:
    """Make an utterance of the fields that JSON has of it, with lists for tuples; those without a value may lack."""
    return Utterance(**{**fields, "words": tuple(SpokenWord(**word) for word in fields.get("words", ()))})


def within(said: Iterable[Utterance], end_s: float | None) -> tuple[Utterance, ...]:
    """Utterances that start before a clip's end, each at its end at the latest; None where that is not known."""

    def ended(one: Any) -> Any:
        return replace(one, end_s=min(one.end_s, last_s))

    last_s = math.inf if end_s is None else end_s
    inside = (replace(one, words=tuple(ended(w) for w in one.words if w.start_s < last_s)) for one in said)
    return tuple(ended(one) for one in inside if one.start_s < last_s)


def said_once(transcripts: Iterable[Transcript]) -> Iterator[tuple[int, Utterance]]:
    """Each utterance with the number of its transcript; one that was told before, in no other language, is left out."""
    known: dict[tuple[str, int], list[Utterance]] = defaultdict(list)
    for number, transcript in enumerate(transcripts):
        for one in transcript.utterances:
            tick = int(one.start_s / _SAME_S)
            near = itertools.chain.from_iterable(known.get((one.text, tick + step), ()) for step in (-1, 0, 1))
            if not any(_is_same(one, other) for other in near):
                known[one.text, tick].append(one)
                yield number, one


def _is_same(one: Utterance, other: Utterance) -> bool:
    near = max(abs(one.start_s - other.start_s), abs(one.end_s - other.end_s)) <= _SAME_S
    return near and (one.language == other.language or None in (one.language, other.language))


_SAME_S = 0.1  # by which the times of a cue differ at most that two subtitles both have
SUFFIXES = (".srt", ".vtt", ".ass", ".ssa")  # what the names of subtitle files end in
LARGEST_BYTES = 10 * 2**20  # two hours of film are some 100 kB, an hour of styled karaoke 5 MB
MOST_CUES = 100_000  # of one file or stream
LONGEST_CUE = 5_000  # characters; the end of a longer one was lost

Format = Literal["srt", "vtt", "ass", "ssa"]
_ARROW = "-->"
_CLOCK = r"((?:\d{1,3}:)?\d\d?:\d\d?[.,]\d{1,3})(?!\d)"
_HEAD = re.compile(
    rf"^[ \t]*(?:(-?){_CLOCK}[ \t]*[-–—]{{1,3}}>[ \t]*{_CLOCK}|-?\d+:.*{_ARROW}).*$", re.ASCII | re.MULTILINE
)
_NUMBER = re.compile(r"(?:\n[ \t]*\d+[ \t]*\n|\n[ \t]*\n[ \t]*\d+\s*)\Z")  # of the cue that follows
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<\d[\d:.]*>|</>|\{\\[^{}]*\}")
_REFERENCE = re.compile(r"&#?\w+;")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]*)>")
_EVENT = re.compile(r"^[ \t]*(?:Dialogue|Comment):.*$", re.MULTILINE)
_SHORT_CLOCK = r"(\d{1,3}:\d\d?:\d\d?(?:[.,]\d{1,3})?)"
_DIALOGUE = re.compile(
    rf"\s*Dialogue:[^,]*,\s*{_SHORT_CLOCK}\s*,\s*{_SHORT_CLOCK}\s*,[^,]*,([^,]*),(?:[^,]*,){{4}}(.*)", re.ASCII
)
_OVERRIDE = re.compile(r"\{[^}]*\}")
_DRAWING = re.compile(r"\\p[1-9]")
_MOST_ROWS = 4  # that roll up at a time
_APART_S = 0.05  # between two cues of which one goes on with the other's lines
_FLASH_S = 0.1  # of a cue that nobody reads


@dataclass(frozen=True)
class Subtitles(Shown):
    """What a subtitle file or stream says.

    Attributes:
        utterances: its cues in the order of their times.
        notes: sentences on what was left out or is doubtful; none where it is as it should be.
        pictures: number of streams of pictures beside it that are still to be read.
    """

    utterances: tuple[Utterance, ...]
    notes: tuple[str, ...] = ()
    pictures: int = 0


class Cue(NamedTuple):
    start_s: float
    end_s: float
    text: str  # with tags where its format has them
    speaker: str | None = None  # who speaks, where a field of its own says so


def parse_subtitles(data: bytes, suffix: str, language: str | None = None) -> Subtitles:
    """Parse the content of a subtitle file; what it is is told by its content before its name.

    Args:
        data: content of the file.
        suffix: what its name ends in, one of `SUFFIXES`.
        language: language of the utterances as a BCP 47 tag; None where it is not known.

    Raises:
        MediaError: it is empty, larger than `LARGEST_BYTES`, has more cues than `MOST_CUES`, or no cue at all.
    """
    if len(data) > LARGEST_BYTES:
        raise too_large(len(data))
    text, doubt = decode(data)
    if not text.strip():
        raise MediaError("empty", "the subtitle file is empty; copy it again")
    form = _format(text, suffix)
    cues, broken = _substation_cues(text) if form in {"ass", "ssa"} else _timed_cues(text, form)
    return utterances_of(cues, form, broken, doubt=doubt, source="sidecar", language=language)


def too_large(size: int) -> MediaError:
    return MediaError(
        "too_large",
        f"the subtitle file has {size / 2**20:,.0f} MiB; at most {LARGEST_BYTES / 2**20:,.0f} MiB are read, so split "
        "it, or leave out its pictures and fonts",
    )


def too_many_cues(number: int) -> MediaError:
    return MediaError("too_large", f"the subtitles have {number:,} cues; at most {MOST_CUES:,} are read, so split them")


def utterances_of(
    cues: Iterable[Cue],
    form: Format,
    broken: int = 0,
    *,
    source: SpeechSource,
    language: str | None = None,
    doubt: str | None = None,
) -> Subtitles:
    """Make utterances of cues: tags off, one line each, in order, each once."""
    given, found = list(cues), list[Utterance]()
    whole = [cue for cue in given if cue.end_s >= max(cue.start_s, 0.0) and len(cue.text) <= LONGEST_CUE]
    total, broken = len(given) + broken, len(given) + broken - len(whole)
    before, shown = Cue(0.0, -1.0, ""), list[str]()
    for cue in sorted(whole, key=lambda one: (one.start_s, one.end_s)):
        lines, speaker = _plain(cue, form)
        rolled = _rolled(before, shown, cue, lines)
        text, start_s = " ".join(lines[rolled:]), max(0.0, cue.start_s)
        if any(map(str.isalnum, text)):
            found.append(Utterance(text, start_s, cue.end_s, source, language, speaker=speaker))
        elif rolled and found:  # what was said is shown for longer
            found[-1] = replace(found[-1], end_s=max(found[-1].end_s, cue.end_s))
        before, shown = cue, lines
    if not found:
        raise MediaError("not_media", "no cue with a time and words is in the subtitles")
    notes = [f"{broken:,} of {count(total, 'cue')} could not be read and were left out"] if broken else []
    ordered = sorted(dict.fromkeys(found), key=lambda one: (one.start_s, one.end_s))
    return Subtitles(tuple(ordered), (*notes, *([doubt] if doubt else [])))


def _rolled(before: Cue, shown: list[str], cue: Cue, lines: list[str]) -> int:
    """How many lines at a cue's top are those at the bottom of the cue before it, which it follows at once.

    The very same cue once more is said again, unless it is too short to be.
    """
    if not before.start_s < cue.start_s <= before.end_s + _APART_S:
        return 0
    if lines == shown and cue.end_s - cue.start_s > _FLASH_S:
        return 0
    most = min(_MOST_ROWS, len(lines), len(shown))
    return next((rows for rows in range(most, 0, -1) if shown[-rows:] == lines[:rows]), 0)


def _format(text: str, suffix: str) -> Format:
    """The format of a text, by what only one of them has; else that of its name."""
    if text.lstrip().startswith("WEBVTT"):
        return "vtt"
    if event := _EVENT.search(text):
        return "ssa" if "marked=" in event[0][:30].lower() else "ass"
    first = next((line for line in text.split("\n") if _ARROW in line), "")
    return "vtt" if suffix.lower() == ".vtt" and "," not in first.partition(_ARROW)[0] else "srt"


def _timed_cues(text: str, form: Format) -> tuple[list[Cue], int]:
    """Cues under a line of times, and how many of such lines say none; any other line with an arrow is of words.

    A cue of WebVTT ends at an empty line, one of SubRip above the number of the next. A start below zero is zero.
    """
    heads = list(_HEAD.finditer(text))
    if len(heads) > MOST_CUES:
        raise too_many_cues(len(heads))
    cues = []
    for head, after in itertools.zip_longest(heads, heads[1:]):
        if head[2]:
            words = text[head.end() : after and after.start()]
            words = words.partition("\n\n")[0] if form == "vtt" else _NUMBER.sub("", words) if after else words
            cues.append(Cue(0.0 if head[1] else _seconds(head[2]), _seconds(head[3]), words))
    return cues, len(heads) - len(cues)


def _seconds(clock: str) -> float:
    return round(seconds_of(clock.replace(",", ".")) or 0.0, 3)


def _substation_cues(text: str) -> tuple[list[Cue], int]:
    """The dialogue of SubStation, and how many of its lines cannot be read; styles and fonts are not looked at."""
    lines = [line for line in _EVENT.findall(text) if line.lstrip().startswith("Dialogue")]
    if len(lines) > MOST_CUES:
        raise too_many_cues(len(lines))
    events = [_DIALOGUE.fullmatch(line) for line in lines]
    cues = [Cue(_seconds(one[1]), _seconds(one[2]), one[4], one[3]) for one in events if one]
    return cues, len(events) - len(cues)


def _plain(cue: Cue, form: Format) -> tuple[list[str], str | None]:
    """Lines with words and the speaker, without tags."""
    if form in {"ass", "ssa"}:
        if any(map(_DRAWING.search, _OVERRIDE.findall(cue.text))):
            return [], None
        text, speakers = _OVERRIDE.sub("", cue.text).replace(r"\h", " ").replace(r"\n", "\n"), [cue.speaker or ""]
    else:
        text = _unescaped(_TAG.sub("", cue.text))
        speakers = _VOICE.findall(cue.text) if form == "vtt" else []
    names = dict.fromkeys(filter(None, (one_line(_unescaped(name)) for name in speakers)))
    return list(filter(None, map(one_line, text.replace(r"\N", "\n").split("\n")))), ", ".join(names) or None


def _unescaped(text: str) -> str:
    return _REFERENCE.sub(lambda found: html.unescape(found[0]), text)


def one_line(text: str) -> str:
    """Join words by single spaces, and leave control characters out."""
    return " ".join("".join(letter for letter in text if letter.isspace() or is_printable(letter)).split())


FOLDERS = frozenset({"sub", "subs", "subtitles"})  # beside a video, in which its subtitles are looked for


class Sidecar(NamedTuple):
    path: str  # absolute
    language: str | None = None  # as a BCP 47 tag, where the name says it


def is_subtitle(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES


def sidecars_of(videos: Iterable[str], subtitles: Iterable[str]) -> dict[str, list[Sidecar]]:
    """Find the subtitle files of videos, all given by absolute path, as players have it.

    A file belongs to a video where its name begins with the video's, whole or without suffix, and goes on with a dot:
    in the same folder (mpv, VLC, Plex, Jellyfin), or in one of `FOLDERS` beside the video (VLC, Kodi, Plex). Of several
    videos it is that with the longest name: `film.part2.srt` is of `film.part2.mkv`, not of `film.mkv`. Capital letters
    do not count, nor how accents are encoded. Between name and suffix may stand, in any order, a language (`en`,
    `pt-BR`, `ger`), `forced`, `sdh` and free words. The last language counts; `hi` is Hindi where it stands alone, and
    `hearing impaired` beside a language.
    """
    named: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for video in videos:
        folder, name = os.path.split(video)
        for own in dict.fromkeys((name_key(name), name_key(os.path.splitext(name)[0]))):
            named[folder, own].append(video)
    found: defaultdict[str, list[Sidecar]] = defaultdict(list)
    for path in sorted(subtitles, key=os.fsencode):
        for video, sidecar in _belonging(path, named):
            found[video].append(sidecar)
    return dict(found)


def _belonging(path: str, named: Mapping[tuple[str, str], list[str]]) -> list[tuple[str, Sidecar]]:
    """The videos that a subtitle file belongs to; several share a name where only their suffixes differ."""
    folder, name = os.path.split(path)
    words = name_key(os.path.splitext(name)[0]).split(".")
    folders = [folder]
    if os.path.basename(folder).lower() in FOLDERS:
        folders.append(os.path.dirname(folder))
    for taken in range(len(words), 0, -1):
        for place in folders:
            if videos := named.get((place, ".".join(words[:taken]))):
                return [(video, Sidecar(path, language_in(words[taken:]))) for video in videos]
    return []


def language_in(words: Iterable[str]) -> str | None:
    """Return the language that words of a file's name say, as a BCP 47 tag; None where there is none.

    >>> language_in(["director's cut", "pt-br", "forced"]), language_in(["en", "hi"]), language_in(["hi"])
    ('pt-BR', 'en', 'hi')
    """
    tags = [tag for word in words if (tag := language_tag(word))]
    spoken = [tag for tag in tags if tag != "hi"] or tags
    return spoken[-1] if spoken else None


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OLD = (
    *("cp1252", "cp1251", "cp932", "gb18030", "cp949", "big5", "koi8_r"),
    *("cp1250", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "euc_jp"),
)  # what subtitles were written in before UTF-8, by Python's names

_LOOKED_AT_BYTES = 2**16
_ZEROS = 0.05  # share of zero bytes in one half from which a text is UTF-16: spaces, digits and line ends have them
_SLIPS = 0.02  # share of damaged characters among those beyond ASCII up to which a text is still UTF-8
_CHARACTER = re.compile(rb"[\x80-\xff]+")


def decode(data: bytes) -> tuple[str, str | None]:
    """Decode the bytes of a subtitle file: by its byte order mark, as UTF-8, as UTF-16, else by likeness."""
    text, doubt = _decoded(data)
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", ""), doubt


def _decoded(data: bytes) -> tuple[str, str | None]:
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", ""))
    if not mark:
        with contextlib.suppress(UnicodeDecodeError):
            if b"\0" not in data:
                return data.decode(), None
        head = data[:_LOOKED_AT_BYTES]
        first, second = head[::2].count(0), head[1::2].count(0)
        beyond = sum(map(len, _CHARACTER.findall(data)))
        # In UTF-16 zero bytes stand in one half of the pairs, and hardly any in the other.
        if max(first, second) >= _ZEROS * len(head) / 2 and min(first, second) <= max(first, second) / 4:
            encoding = "utf-16-be" if first > second else "utf-16-le"
        elif data.decode(errors="replace").count("\ufffd") <= _SLIPS * beyond:
            encoding = "utf-8"
    if encoding:
        text = data[len(mark) :].decode(encoding, errors="replace")
        return text, "some of its letters are damaged" if "\ufffd" in text else None
    from charset_normalizer import from_bytes

    lines = [line for line in data.splitlines() if not line.isascii()]  # times and numbers say nothing of a language
    best = from_bytes(b"\n".join(lines)[:_LOOKED_AT_BYTES], cp_isolation=list(_OLD)).best()
    if best is None:
        return data.decode("cp1252", errors="replace"), "its encoding could not be told"
    return data.decode(best.encoding, errors="replace"), None


def read_sidecar(path: str, language: str | None = None) -> Subtitles:
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise MediaError("unreadable", "it is no regular file; only regular files are read")
        if found.st_size > LARGEST_BYTES:
            raise too_large(found.st_size)
        data = Path(path).read_bytes()
    except OSError as error:
        raise unreadable(error) from error
    return parse_subtitles(data, os.path.splitext(path)[1], language)


def read_with(worker: Worker, path: str, wanted: Mapping[str, Any] | None = None) -> list[Subtitles]:
    """Have a worker of `SubtitleFiles` read a subtitle file, or the streams of a video."""
    messages = worker.run({"path": path, **(wanted or {})})
    return [
        Subtitles(tuple(map(utterance, message["utterances"])), tuple(message["notes"]), message["pictures"])
        for message, _ in messages
        if message["kind"] == "subtitles"
    ]


def as_srt(utterances: Iterable[Utterance]) -> str:
    """Write utterances as SubRip; speakers stand before their words."""
    cues = []
    for number, one in enumerate(utterances, 1):
        times = f"{_clock(one.start_s, ',')} --> {_clock(one.end_s, ',')}"
        said = f"{one.speaker}: {one.text}" if one.speaker else one.text
        cues.append(f"{number}\n{times}\n{said.replace('-->', '->')}\n")
    return "\n".join(cues)


def as_vtt(utterances: Iterable[Utterance]) -> str:
    cues = ["WEBVTT\n"]
    for one in utterances:
        voice = f"<v {html.escape(one.speaker, quote=False)}>" if one.speaker else ""
        times = f"{_clock(one.start_s, '.')} --> {_clock(one.end_s, '.')}"
        cues.append(f"{times}\n{voice}{html.escape(one.text, quote=False)}\n")
    return "\n".join(cues)


def as_text(utterances: Iterable[Utterance]) -> str:
    """Write the words of utterances, a line each; a speaker stands before the first of their lines."""
    lines, speaking = [], None
    for one in utterances:
        lines.append(f"{one.speaker}: {one.text}" if one.speaker not in {None, speaking} else one.text)
        speaking = one.speaker
    return "".join(f"{line}\n" for line in lines)


def _clock(seconds: float, mark: str) -> str:
    """Format seconds to the millisecond: `00:01:02,500`.

    >>> _clock(62.5, ","), _clock(3599.9996, ".")
    ('00:01:02,500', '01:00:00.000')
    """
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{mark}{rest % 1000:03}"
