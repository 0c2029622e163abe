"""Voice-over of misleading words on clips: a voice says what describes another clip, or syllables as a control.

What is said in a clip misleads a search by speech as words on a picture mislead one that reads;
`evenreel.audits.overlay` says how far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

import numpy as np

from evenreel.corpus.distractors import VOICEOVER, VOICEOVER_OF, VOICEOVERS, VoiceoverName
from evenreel.edits.lending import captions_of, lend_words, mark_lenders, shortened
from evenreel.errors import UsageError
from evenreel.language.scramble import babbled
from evenreel.speech.synthesis import NO_ESPEAK, VOICES, WORDS_PER_MINUTE, can_speak, speak_text
from evenreel.types import Corpus, FloatArray, Pixels

MOST_LETTERS = 300
"""Of the words that are lent, about twenty seconds; what is beyond is left out."""

OWN_SOUND = 0.1
"""How loud the clip's own sound stays while the voice speaks, as a share."""


@dataclass(frozen=True)
class VoiceoverSettings:
    """Settings of saying misleading words in clips.

    Attributes:
        edit: `voiceover`, the first caption of another clip; `voiceover-control`, as many syllables in its place.
        seed: seed of the distractors, of the voices and of the control's syllables.

    Raises:
        UsageError: there is no such edit.
    """

    edit: VoiceoverName = VOICEOVER
    seed: int = 0

    def __post_init__(self) -> None:
        if self.edit not in VOICEOVERS:
            raise UsageError(f"There is no edit {self.edit!r} of sound; there are: {', '.join(VOICEOVERS)}.")


@dataclass(frozen=True)
class VoiceoverWords:
    """Misleading words to say in clips, taken from other clips.

    Attributes:
        words: words to say, by clip id.
        distractors: id of the clip that the words are from, by clip id.
        shortened: number of clips whose words are cut to `MOST_LETTERS`.
        silent: number of clips without any word, which are no distractors.
    """

    words: Mapping[str, str]
    distractors: Mapping[str, str]
    shortened: int = 0
    silent: int = 0

    @property
    def notices(self) -> Iterator[str]:
        """Iterate over notices about the words, a sentence each."""
        clips = len(self.words)
        yield f"Over {clips:,} clips a voice says another clip's first caption, as far as the clip is long enough."
        if self.shortened:
            yield f"{self.shortened:,} of {clips:,} clips lend no more than the first {MOST_LETTERS} letters."
        if self.silent:
            yield f"{self.silent:,} of {clips:,} clips have no words that could be said; they lend none."

    def mark(self, corpus: Corpus, edit: VoiceoverName) -> Corpus:
        """Return a corpus with a column that names each clip's distractor; without the column for the control."""
        return mark_lenders(corpus, self.distractors if edit == VOICEOVER else None, VOICEOVER_OF)


def spoken_words(corpus: Corpus, seed: int = 0) -> VoiceoverWords:
    """Assign each clip the first caption of another clip of its split, see `evenreel.edits.lending.lend_words`."""
    if not can_speak():
        raise UsageError(f"{NO_ESPEAK}.")
    whole = {clip: _sayable(some[0]) if some else "" for clip, some in captions_of(corpus).items()}
    said = {clip: shortened(text, MOST_LETTERS) for clip, text in whole.items()}
    distractors = lend_words(corpus, said, seed, _nothing_to_say)
    return VoiceoverWords(
        {own: said[other] for own, other in distractors.items()},
        distractors,
        shortened=sum(said[clip] != text for clip, text in whole.items()),
        silent=sum(not text for text in said.values()),
    )


class Voiceover:
    """Edit of clips that lays a voice over their sound (`evenreel.edits.edited_clips.ClipEdit`).

    Args:
        words: words of each clip, by clip id.
        settings: whether the words or syllables are said.
    """

    def __init__(self, words: Mapping[str, str], settings: VoiceoverSettings) -> None:
        self._words, self._settings = words, settings

    @property
    def described(self) -> dict[str, Any]:
        """Return what identifies the edit and is the same for all clips, ready for JSON."""
        voice = {"voices": [*VOICES], "words_per_minute": WORDS_PER_MINUTE, "own_sound": OWN_SOUND}
        return {**asdict(self._settings), **voice}

    def described_of(self, clip_id: str) -> list[str]:
        """Return what identifies the edit of one clip beyond `described`, such as its words."""
        return [self._words[clip_id]]

    def __call__(self, clip_id: str, pixels: Pixels) -> Pixels:
        """Return the frames (T, 3, H, W) of a clip, which stay as they are."""
        return pixels

    def edit_sound(self, clip_id: str, sound: FloatArray) -> FloatArray:
        """Return the sound (N,) of a clip at 16 kHz with a voice from its beginning on, cut where the clip ends."""
        said, random = self._words[clip_id], np.random.default_rng([self._settings.seed, crc32(clip_id.encode())])
        voice = VOICES[int(random.integers(len(VOICES)))]
        if self._settings.edit != VOICEOVER:
            said = babbled(said, random)
        spoken = speak_text(said, voice)[: len(sound)]
        mixed = sound.copy()
        mixed[: len(spoken)] = OWN_SOUND * sound[: len(spoken)] + spoken
        return np.clip(mixed, -1, 1).astype(np.float32)


def _sayable(text: str) -> str:
    """Return a text with single spaces; nothing where it has no word."""
    return " ".join(text.split()) if any(letter.isalnum() for letter in text) else ""


def _nothing_to_say(split: str, clips: int) -> str:
    of = f"the split {split!r}" if split else "the corpus"
    return f"Not one of the {clips:,} clips of {of} has a caption that could be said over another; give captions."
