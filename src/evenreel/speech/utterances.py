"""Records of what is said in a clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
