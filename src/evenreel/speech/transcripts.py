"""What one source says of a clip, as records and as plain data."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evenreel.media.sampling import language_tag

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
class Transcript:
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


NO_STREAM = Transcript("stream", "none")
"""Says that a clip's streams were looked at, and none says anything. Its origin is empty in a shard of before streams
of pictures were looked for."""

UNREAD = Transcript("stream", "unread", problem="its subtitles are pictures, and no text in pictures was to be read")
"""Says that a clip's streams of pictures were left out, as its text on screen was."""

UNREADABLE = Transcript("stream", "pictures")  # says with its problem that a clip's streams of pictures cannot be read


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
    record = {name: getattr(transcript, name) for name in ("source", "origin", "language", "stamp", "problem")}
    return record | {"utterances": [_said(utterance) for utterance in transcript.utterances]}


def transcript_of(record: dict[str, Any]) -> Transcript:
    source, stamp = record["source"], record["stamp"]
    return Transcript(
        source,
        record["origin"],
        tuple(utterance({"source": source, **said}) for said in record["utterances"]),
        record["language"],
        None if stamp is None else (stamp[0], stamp[1], stamp[2]),
        record["problem"],
    )


def utterance(fields: dict[str, Any]) -> Utterance:
    """Make an utterance of the fields that JSON has of it, with lists for tuples; those without a value may lack."""
    return Utterance(**{**fields, "words": tuple(SpokenWord(**word) for word in fields.get("words", ()))})


def _said(utterance: Utterance) -> dict[str, Any]:
    """The fields of an utterance that have a value, but for its source."""
    return {name: value for name, value in asdict(utterance).items() if name != "source" and value not in (None, ())}


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
