"""Subtitle files as utterances: SubRip (`.srt`), WebVTT (`.vtt`), SubStation (`.ass`, `.ssa`), from bytes of any kind.

One cue is one utterance. Left out are cues without a letter or digit (`♪`), drawings and comments of SubStation, and
the same words at the same times once more, as layers of SubStation have them. What stands in brackets
(`[door slams]`) stays: subtitles for the hard of hearing say so what is heard.
"""

from __future__ import annotations

import html
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evenreel.errors import MediaError
from evenreel.speech.encodings import decode
from evenreel.speech.utterances import SpeechSource, Utterance
from evenreel.wording import count, is_printable

if TYPE_CHECKING:
    from pysubs2 import SSAEvent

SUFFIXES = (".srt", ".vtt", ".ass", ".ssa")
"""What the names of subtitle files end in."""

LARGEST_BYTES = 10 * 2**20
"""Size of the largest subtitle file that is read; two hours of film are some 100 kB, an hour of styled karaoke 5 MB."""

MOST_CUES = 100_000
"""Number of cues that one file or stream may have."""

LONGEST_CUE = 5_000
"""Number of characters in a cue past which its end was lost, and what follows it is not read as its words."""

Format = Literal["srt", "vtt", "ass", "ssa"]

_ARROW = "-->"
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<\d[\d:.]*>|</>|\{\\[^{}]*\}")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]*)>")
_EVENT = re.compile(r"^[ \t]*(?:Dialogue|Comment):.*$", re.MULTILINE)
_BLANKS = re.compile(r"\n{3,}")
_GAP = re.compile(r"\n(?:[ \t]*\n)+")
_LAST_NUMBER = re.compile(r"(?:^|\n)[ \t]*\d+[ \t]*\n?$")
_NUMBER = 0  # stands before the times of a cue, so that no words are taken for it
_SRT_TIMES = re.compile(r"\s*(-?)((?:\d\d?:){2}\d\d?[.,]\d{1,3})\s*-->\s*((?:\d\d?:){2}\d\d?[.,]\d{1,3})(?!\d)")
_VTT_TIMES = re.compile(r"\s*(-?)((?:\d{1,4}:)?\d\d:\d\d\.\d{3})\s*-->\s*((?:\d{1,4}:)?\d\d:\d\d\.\d{3})(?!\d)")


@dataclass(frozen=True)
class Subtitles:
    """What a subtitle file or stream says.

    Attributes:
        utterances: its cues in the order of their times.
        notes: sentences on what was left out or is doubtful; none where it is as it should be.
        pictures: number of streams of pictures beside it that are still to be read.
    """

    utterances: tuple[Utterance, ...]
    notes: tuple[str, ...] = ()
    pictures: int = 0


@dataclass(frozen=True)
class Cue:
    """A cue as it is written.

    Attributes:
        start_s: when it is shown first, in seconds.
        end_s: when it is shown last, in seconds.
        text: its words, with tags where its format has them.
        speaker: who speaks, where a field of its own says so.
    """

    start_s: float
    end_s: float
    text: str
    speaker: str | None = None


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
    cues, broken = _substation_cues(text, form) if form in {"ass", "ssa"} else _timed_cues(text, form)
    return utterances_of(cues, form, broken, doubt=doubt, source="sidecar", language=language)


def too_large(size: int) -> MediaError:
    """Make the error for a subtitle file of so many bytes."""
    return MediaError(
        "too_large",
        f"the subtitle file has {size / 2**20:,.0f} MiB; at most {LARGEST_BYTES / 2**20:,.0f} MiB are read, so split "
        "it, or leave out its pictures and fonts",
    )


def too_many_cues(number: int) -> MediaError:
    """Make the error for subtitles of so many cues."""
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
    """Make utterances of cues: tags off, one line each, in order, each once.

    Args:
        cues: the cues, in any order.
        form: the format that their texts are written in.
        broken: number of cues that could not be read at all.
        source: where they are from.
        language: language as a BCP 47 tag; None where it is not known.
        doubt: a part of a sentence on what else is wrong with them.

    Raises:
        MediaError: no cue has a time and words (not_media).
    """
    found: dict[Utterance, None] = {}
    total = broken
    for cue in cues:
        total += 1
        if cue.end_s < max(cue.start_s, 0.0) or len(cue.text) > LONGEST_CUE:
            broken += 1
            continue
        text, speaker = _plain(cue, form)
        if any(map(str.isalnum, text)):
            start_s = max(0.0, cue.start_s)
            found[Utterance(text, start_s, cue.end_s, source, language, speaker=speaker)] = None
    if not found:
        raise MediaError("not_media", "no cue with a time and words is in the subtitles")
    notes = [f"{broken:,} of {count(total, 'cue')} could not be read and were left out"] if broken else []
    ordered = sorted(found, key=lambda one: (one.start_s, one.end_s))
    return Subtitles(tuple(ordered), (*notes, *([doubt] if doubt else [])))


def _format(text: str, suffix: str) -> Format:
    """The format of a text, by what only one of them has; else that of its name."""
    if text.lstrip().startswith("WEBVTT"):
        return "vtt"
    if event := _EVENT.search(text):
        return "ssa" if "marked=" in event[0][:30].lower() else "ass"
    first = next((line for line in text.split("\n") if _ARROW in line), "")
    return "vtt" if suffix.lower() == ".vtt" and not _SRT_TIMES.match(first) else "srt"


def _timed_cues(text: str, form: Format) -> tuple[list[Cue], int]:
    """Cues under a line with an arrow, and how many of such lines say no times."""
    arrows = sum(_ARROW in line for line in text.split("\n"))
    if arrows > MOST_CUES:
        raise too_many_cues(arrows)
    checked = "\n".join(_checked(line, form) if _ARROW in line else line for line in text.split("\n"))
    blocks = _blocks(checked) if form == "vtt" else [_BLANKS.sub("\n\n", checked)]
    events = _parsed("".join(f"{block}\n\n{_NUMBER}\n" for block in blocks), form)
    cues = [_cue(event, _own_words(event.text)) for event in events]
    return cues, arrows - len(events)


def _checked(line: str, form: Format) -> str:
    """A line of times as the parser is to find it: a start below zero is zero; what is no two times has none."""
    times = _VTT_TIMES.match(line) if form == "vtt" else _SRT_TIMES.match(line)
    if times is None:
        return _ARROW
    zero = "00:00:00.000" if form == "vtt" else "00:00:00,000"
    return f"{zero if times[1] else times[2]} {_ARROW} {times[3]}"


def _blocks(text: str) -> Iterator[str]:
    """The cues of WebVTT from their times on: without their names, and what is no cue."""
    for block in _GAP.split(text):
        before, arrow, _ = block.partition(_ARROW)
        if arrow:
            yield block[before.rfind("\n") + 1 :]


def _own_words(written: str) -> str:
    """The words of a cue without those of a broken one that follows it."""
    text = written.replace(r"\N", "\n")
    before, arrow, _ = text.partition(_ARROW)
    return _LAST_NUMBER.sub("", before[: before.rfind("\n") + 1]) if arrow else text


def _substation_cues(text: str, form: Format) -> tuple[list[Cue], int]:
    """The dialogue of SubStation, and how many of its lines cannot be read; styles and fonts are not looked at."""
    lines = _EVENT.findall(text)
    if len(lines) > MOST_CUES:
        raise too_many_cues(len(lines))
    events: list[SSAEvent] = []
    broken = 0
    try:
        events = _parsed("\n".join(lines), form)
    except ValueError:  # one line that cannot be read is an error of the whole
        for line in lines:
            try:
                events += _parsed(line, form)
            except ValueError:
                broken += 1
    return [_cue(event, event.text, event.name.strip()) for event in events if event.is_text], broken


def _parsed(text: str, form: Format) -> list[SSAEvent]:
    from pysubs2 import SSAFile

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # margins that are no numbers
        if form in {"ass", "ssa"}:
            return list(SSAFile.from_string(text, format_=form))
        return list(SSAFile.from_string(text, format_=form, keep_html_tags=True))


def _cue(event: SSAEvent, text: str, speaker: str = "") -> Cue:
    return Cue(event.start / 1000, event.end / 1000, text, speaker or None)


def _plain(cue: Cue, form: Format) -> tuple[str, str | None]:
    """Words and speaker without tags, each in one line."""
    if form in {"ass", "ssa"}:
        return one_line(_without_overrides(cue.text)), one_line(cue.speaker or "") or None
    text, voices = cue.text, _VOICE.findall(cue.text) if form == "vtt" else []
    text = _TAG.sub("", text)
    if form == "vtt":
        text, voices = html.unescape(text), [html.unescape(name) for name in voices]
    speakers = dict.fromkeys(filter(None, map(one_line, voices)))
    return one_line(text), ", ".join(speakers) or None


def _without_overrides(text: str) -> str:
    from pysubs2 import SSAEvent

    return SSAEvent(text=text).plaintext


def one_line(text: str) -> str:
    """Return a text as one line, with single spaces, without control characters."""
    return " ".join("".join(_kept(text)).split())


def _kept(text: str) -> Iterator[str]:
    """Characters that are no control or direction marks; white space stays for what it parts."""
    return (character for character in text if character.isspace() or is_printable(character))
