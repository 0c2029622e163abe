"""What is said in a stretch, as subtitles that begin with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from evenreel.errors import NotFoundError
from evenreel.speech.transcripts import is_in
from evenreel.speech.writing import as_srt, as_vtt

if TYPE_CHECKING:
    from evenreel.speech import Transcript, Utterance

_WRITERS = {"srt": as_srt, "vtt": as_vtt}


def subtitles(
    transcripts: Sequence[Transcript], form: str, span_s: tuple[Fraction, Fraction], language: str | None
) -> str:
    """Write what is said between two times of a clip as subtitles, whose time 0 is the first of them.

    Args:
        transcripts: what is said in the clip, by each source.
        form: `srt` or `vtt`.
        span_s: start and end in seconds.
        language: language of the transcript; None for the first there is.

    Raises:
        NotFoundError: nothing is known of what is said there.
    """
    start_s, end_s = map(float, span_s)
    spoken = [one for one in transcripts if one.utterances and is_in(one, language)]
    if not spoken:
        where = "" if language is None else f" in {language[:40]}"
        raise NotFoundError(f"nothing is known of what is said in it{where}, so there are no subtitles")
    said = [_within(one, start_s, end_s) for one in spoken[0].utterances if one.start_s < end_s and one.end_s > start_s]
    if not said:
        raise NotFoundError("nothing is said in the stretch, so there are no subtitles")
    return _WRITERS[form](said)


def _within(one: Utterance, start_s: float, end_s: float) -> Utterance:
    begins_s, ends_s = max(one.start_s, start_s) - start_s, min(one.end_s, end_s) - start_s
    return replace(one, start_s=begins_s, end_s=ends_s, words=())
