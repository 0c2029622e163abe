"""What one source says of a clip, as records and as plain data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from evenreel.media.languages import language_tag
from evenreel.speech.utterances import SpeechSource, SpokenWord, Utterance

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

UNREADABLE = Transcript("stream", "pictures")
"""Says with its problem that a clip's streams of pictures cannot be read."""


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
    """Return a transcript as plain data for JSON."""
    record = {name: getattr(transcript, name) for name in ("source", "origin", "language", "stamp", "problem")}
    return record | {"utterances": [_said(utterance) for utterance in transcript.utterances]}


def transcript_of(record: dict[str, Any]) -> Transcript:
    """Make a transcript of what `transcript_record` returned."""
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
