"""Recognition of speech: from the sound of a clip to utterances with their words and times."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from evenreel.config import MediaLimits
from evenreel.errors import UsageError
from evenreel.media.languages import language_tag, same_language
from evenreel.media.sound import SoundBlock, open_sound
from evenreel.speech.stretches import SpeechStretch, join_pieces
from evenreel.speech.utterances import SpokenWord, Utterance
from evenreel.speech.voice import VoiceDetector, VoiceRule, find_pieces
from evenreel.types import FloatArray

_SURE = 0.5  # from here on the language that a model detects is believed
_LEAST = 0.1  # what a model is less sure of is what it makes of music or noise
_APART_S = 1.0  # words of two pieces that are further apart are two utterances


@dataclass(frozen=True)
class HeardWord:
    """A word as a model gives it.

    Attributes:
        text: the word with the space before it, where its language has one.
        start_s: when it begins, in seconds from the start of what the model was given.
        end_s: when it ends.
        confidence: how sure the model is, from 0 to 1; None where it does not say.
    """

    text: str
    start_s: float
    end_s: float
    confidence: float | None = None


@dataclass(frozen=True)
class Heard:
    """What a model heard in a stretch.

    Attributes:
        segments: words of each segment; of a model without times one word for all.
        language: language as a BCP 47 tag; None where the model does not say.
        language_confidence: how sure the model is of the language, from 0 to 1.
    """

    segments: tuple[tuple[HeardWord, ...], ...]
    language: str | None = None
    language_confidence: float = 1.0


class SpeechModel(Protocol):
    """Protocol of a model that writes down a stretch of speech.

    Attributes:
        speech_id: name it can be loaded by again; a hub id comes with its commit.
        weights_hash: SHA-256 of its files.
        languages: languages that it hears, as BCP 47 tags; empty where it does not say.
        stretch_s: speech it is best given at a time, in seconds; 0 for each piece by itself.
        has_words: whether its words have times of their own.
    """

    speech_id: str
    languages: tuple[str, ...]
    stretch_s: float
    has_words: bool

    @property
    def weights_hash(self) -> str:
        """Return the SHA-256 of the model's files."""

    def hear(self, samples: FloatArray, language: str | None) -> Heard:
        """Write down what is said in (N,) samples at 16 kHz; without a language it is detected."""


class SpeechReader:
    """Reader of what is said: voice activity first, and a model for what is spoken only.

    Memory does not grow with the length of the sound, and no word is cut in two: the sound is cut in silence.

    Args:
        model: model that writes stretches of speech down.
        rule: rule by which speech is found.
    """

    def __init__(self, model: SpeechModel, rule: VoiceRule | None = None) -> None:
        self.model = model
        self._rule = rule or VoiceRule()
        self._detector = VoiceDetector()

    def read(self, blocks: Iterable[SoundBlock], language: str | None = None) -> Iterator[Utterance]:
        """Yield what is said in a sound, in rising time.

        Args:
            blocks: sound in rising time (`evenreel.media.open_sound`).
            language: language that is spoken, as a BCP 47 tag; None to have it detected.

        Raises:
            UsageError: the model does not hear this language.
        """
        given = self.check_language(language)
        known = given
        for stretch in join_pieces(find_pieces(blocks, self._detector, self._rule), self.model.stretch_s):
            heard = self.model.hear(stretch.samples, given)
            if given is None and heard.language_confidence >= _SURE:
                known = heard.language
            elif known is not None and heard.language != known:  # too little is said to tell: as before
                heard = self.model.hear(stretch.samples, known)
            yield from utterances_of(heard, stretch, has_words=self.model.has_words)

    def check_language(self, language: str | None) -> str | None:
        """Return the model's own tag of a language; None for none.

        Raises:
            UsageError: the model does not hear it.
        """
        if language is None:
            return None
        heard = self.model.languages
        tag = language_tag(language)
        found = next((known for known in heard if same_language(known, tag)), None if heard else tag)
        if found is None:
            known = ", ".join(sorted(heard)) or "any language by its tag, such as en or pt-BR"
            raise UsageError(
                f"The speech model {self.model.speech_id} does not hear the language {language!r}; it hears {known}."
            )
        return found


def utterances_of(heard: Heard, stretch: SpeechStretch, *, has_words: bool) -> Iterator[Utterance]:
    """Yield what a model heard in a stretch on the clip's clock; words of pieces that are apart become two utterances.

    What the model is less than a tenth sure of is left out.
    """
    for segment in heard.segments:
        parts = [
            [(word, _spoken(word, stretch, piece)) for word in words]
            for piece, words in groupby(segment, lambda word: stretch.piece_at((word.start_s + word.end_s) / 2))
        ]
        for part in _joined(parts):
            text = " ".join("".join(word.text for word, _ in part).split())
            spoken = tuple(found for _, found in part if found.text)
            if text:
                found = _utterance(text, spoken, heard.language, has_words)
                if found.confidence is None or found.confidence >= _LEAST:
                    yield found


_Part = list[tuple[HeardWord, SpokenWord]]


def _joined(parts: list[_Part]) -> list[_Part]:
    found: list[_Part] = []
    for part in parts:
        if found and part[0][1].start_s - found[-1][-1][1].end_s < _APART_S:
            found[-1] = found[-1] + part
        else:
            found.append(part)
    return found


def _spoken(word: HeardWord, stretch: SpeechStretch, piece: int) -> SpokenWord:
    start_s, end_s = (round(stretch.clip_time_s(time_s, piece), 3) for time_s in (word.start_s, word.end_s))
    return SpokenWord(word.text.strip(), start_s, max(start_s, end_s), word.confidence)


def _utterance(text: str, words: tuple[SpokenWord, ...], language: str | None, has_words: bool) -> Utterance:
    sure = [word.confidence for word in words if word.confidence is not None]
    return Utterance(
        text=text,
        start_s=words[0].start_s,
        end_s=max(word.end_s for word in words),
        source="recognised",
        language=language,
        confidence=sum(sure) / len(sure) if sure else None,
        words=words if has_words else (),
    )


@dataclass(frozen=True)
class ClipSpeech:
    """What is said in a clip.

    Attributes:
        utterances: what is said, in rising time.
        notes: sentences about what is unusual in the sound.
    """

    utterances: tuple[Utterance, ...]
    notes: tuple[str, ...] = ()


def read_speech(
    path: str | os.PathLike[str],
    reader: SpeechReader,
    *,
    language: str | None = None,
    limits: MediaLimits | None = None,
) -> ClipSpeech:
    """Recognise what is said in a video file.

    Sound that is damaged further than the limits accept gives what can be read of it, with a note.

    Args:
        path: a local video file.
        reader: reader with its model (`evenreel.speech.load_speech_reader`).
        language: language that is spoken and of the sound stream that is wanted, as a BCP 47 tag; None to have it
            detected in the stream that the file holds for the default.
        limits: limits on damage; None for the defaults of `MediaLimits`.

    Raises:
        MediaError: the file or its sound cannot be used; `reason` says why in a word, the message in a sentence.
        UsageError: the model does not hear this language.
    """
    notes: list[str] = []
    found = tuple(hear_file(path, reader, notes, language=language, limits=limits))
    return ClipSpeech(found, tuple(notes))


def hear_file(
    path: str | os.PathLike[str],
    reader: SpeechReader,
    notes: list[str],
    *,
    language: str | None = None,
    limits: MediaLimits | None = None,
) -> Iterator[Utterance]:
    """Yield what is said in a video file as it is recognised; see `read_speech`."""
    with open_sound(path, limits, language=language) as sound:
        yield from reader.read(sound.readable_blocks(), language)
        notes += sound.notes
