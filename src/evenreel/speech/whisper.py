"""Whisper by faster-whisper: a model in CTranslate2's form, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenreel.config import allowed_threads
from evenreel.errors import EncoderError
from evenreel.media.languages import language_tag
from evenreel.speech.reader import Heard, HeardWord
from evenreel.speech.sources import WHISPER_WANTED
from evenreel.speech.weights import folder_hash
from evenreel.types import FloatArray

if TYPE_CHECKING:
    from faster_whisper.transcribe import Segment

_REPEATED = 2.4  # text that compresses better than this repeats itself: faster-whisper's own limit
_NO_REPEAT = 3  # words that may not come twice in the same order, when it is written down again


class WhisperModel:
    """Whisper in CTranslate2's form, on the cores that this process may use.

    The same sound gives the same words in every run: nothing is sampled.
    """

    stretch_s = 30.0
    has_words = True

    def __init__(self, folder: Path, speech_id: str, device: str = "auto") -> None:
        import ctranslate2
        from faster_whisper import WhisperModel as Engine

        self.speech_id, self._folder = speech_id, folder
        if device == "auto":
            device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        kind = "float32" if device == "cpu" else "default"
        try:
            self._engine: Any = Engine(
                str(folder), device, compute_type=kind, cpu_threads=allowed_threads(), local_files_only=True
            )
        except Exception as error:  # CTranslate2, tokenizers and JSON have a class each for files they cannot read
            said = str(error).splitlines()[0].rstrip(".") if str(error) else repr(error)
            raise EncoderError(
                f"The speech model in {folder} cannot be loaded ({said[:200]}); a Whisper model in CTranslate2's form "
                "is wanted, copied whole."
            ) from error
        codes = self._engine.supported_languages
        self._codes = {tag: code for code in codes if (tag := language_tag(code)) is not None}
        self.languages = tuple(self._codes)

    @property
    def weights_hash(self) -> str:
        """Return the SHA-256 of the model's files."""
        return folder_hash(self._folder, WHISPER_WANTED)

    def hear(self, samples: FloatArray, language: str | None) -> Heard:
        """Write down what is said in (N,) samples at 16 kHz; without a language it is detected."""
        try:
            segments, info = self._run(samples, language)
            if any(segment.compression_ratio > _REPEATED for segment in segments):
                segments, info = self._run(samples, info.language, no_repeat_ngram_size=_NO_REPEAT)
        except RuntimeError as error:
            raise EncoderError(f"The speech model {self.speech_id} failed: {str(error).splitlines()[0]}.") from error
        spoken = (tuple(_word(word) for word in segment.words or ()) for segment in segments)
        return Heard(
            tuple(words for words in spoken if words), language_tag(info.language), float(info.language_probability)
        )

    def _run(self, samples: FloatArray, language: str | None, **more: int) -> tuple[list[Segment], Any]:
        segments, info = self._engine.transcribe(
            samples,
            language=None if language is None else self._codes.get(language, language),
            word_timestamps=True,
            vad_filter=False,  # only what is spoken comes here
            condition_on_previous_text=False,
            temperature=0.0,
            **more,
        )
        return list(segments), info


def _word(word: Any) -> HeardWord:
    return HeardWord(word.word, float(word.start), float(word.end), float(word.probability))
