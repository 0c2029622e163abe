"""What is said, written as subtitles or as text."""

from __future__ import annotations

import html
from collections.abc import Iterable

from evenreel.speech.utterances import Utterance


def as_srt(utterances: Iterable[Utterance]) -> str:
    """Write utterances as SubRip; speakers stand before their words."""
    cues = []
    for number, one in enumerate(utterances, 1):
        times = f"{_clock(one.start_s, ',')} --> {_clock(one.end_s, ',')}"
        said = f"{one.speaker}: {one.text}" if one.speaker else one.text
        cues.append(f"{number}\n{times}\n{said.replace('-->', '->')}\n")
    return "\n".join(cues)


def as_vtt(utterances: Iterable[Utterance]) -> str:
    """Write utterances as WebVTT; speakers are voices."""
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
