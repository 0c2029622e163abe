"""Models of speech in ONNX form by onnx-asr: Parakeet, Canary, GigaAM, Whisper and others, in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenreel.config import allowed_threads
from evenreel.errors import EncoderError
from evenreel.media.sound import SAMPLE_RATE
from evenreel.speech.reader import Heard, HeardWord
from evenreel.speech.sources import ONNX_WANTED, model_type
from evenreel.speech.weights import folder_hash
from evenreel.types import FloatArray

_HASHED = (*ONNX_WANTED, "*.onnx", "**/*.onnx")
_WORD_S = 0.24  # a word lasts at most this much longer than the start of its last token
_PAUSE_S = 0.8  # words that are further apart are two segments
_LONGEST_S = 20.0  # a segment is no longer, whatever is said
_ENDS = (".", "?", "!", "。", "？", "！", "…")


class OnnxSpeechModel:
    """Model of speech in ONNX form, on the CPU, on the cores that this process may use."""

    stretch_s = 0.0
    languages: tuple[str, ...] = ()

    def __init__(self, folder: Path, speech_id: str) -> None:
        self.speech_id, self._folder = speech_id, folder
        kind = model_type(folder)
        if kind is None:
            raise EncoderError(
                f'The speech model in {folder} has no config.json that names its type ("model_type": '
                '"nemo-conformer-tdt" for Parakeet); take the whole folder of a model that onnx-asr reads.'
            )
        self._model = _load(folder, kind).with_timestamps()
        self.has_words = "whisper" not in kind and "aed" not in kind  # these two give no times
        self._takes_language = not self.has_words

    @property
    def weights_hash(self) -> str:
        """Return the SHA-256 of the model's files."""
        return folder_hash(self._folder, _HASHED)

    def hear(self, samples: FloatArray, language: str | None) -> Heard:
        """Write down what is said in (N,) samples at 16 kHz; only some models are told the language."""
        told = {"language": language.partition("-")[0]} if language and self._takes_language else {}
        try:
            found = self._model.recognize(samples, sample_rate=SAMPLE_RATE, **told)
        except Exception as error:  # onnxruntime's own classes are not public; a language without token is a KeyError
            said = str(error).splitlines()[0] if str(error) else repr(error)
            raise EncoderError(f"The speech model {self.speech_id} failed: {said[:200]}.") from error
        if found.tokens is None or found.timestamps is None:
            whole = HeardWord(found.text, 0.0, len(samples) / SAMPLE_RATE)
            return Heard(((whole,),) if found.text.strip() else (), language)
        words = list(_words(found))
        return Heard(tuple(_segments(words)), language)


def _load(folder: Path, kind: str) -> Any:
    import onnx_asr
    import onnxruntime
    from onnx_asr.utils import ModelFileNotFoundError

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = allowed_threads(), 1
    options.log_severity_level = 3
    lacking: Exception | None = None
    for quantization in (None, "int8"):
        try:
            return onnx_asr.load_model(
                kind, folder, quantization=quantization, sess_options=options, providers=["CPUExecutionProvider"]
            )
        except ModelFileNotFoundError as error:
            lacking = lacking or error
        except Exception as error:  # onnxruntime's own classes are not public, and files can be anything
            raise _unreadable(folder, error) from error
    assert lacking is not None
    raise _unreadable(folder, lacking) from lacking


def _unreadable(folder: Path, error: Exception) -> EncoderError:
    said = str(error).splitlines()[0].rstrip(".") if str(error) else repr(error)
    return EncoderError(
        f"The speech model in {folder} cannot be loaded ({said[:200]}); a model in a form that onnx-asr reads is "
        "wanted, copied whole."
    )


def _words(found: Any) -> Iterator[HeardWord]:
    """Words of a result: a token that begins with a space begins a word."""
    sure = found.logprobs or [None] * len(found.tokens)
    groups: list[list[tuple[str, float, float | None]]] = []
    for token in zip(found.tokens, found.timestamps, sure, strict=True):
        if groups and not token[0].startswith(" "):
            groups[-1].append(token)
        else:
            groups.append([token])
    for place, group in enumerate(groups):
        text, start_s = "".join(token for token, _, _ in group), group[0][1]
        next_s = groups[place + 1][0][1] if place + 1 < len(groups) else group[-1][1] + _WORD_S
        chances = [_chance(chance) for _, _, chance in group if chance is not None]
        confidence = sum(chances) / len(chances) if chances else None
        yield HeardWord(text, start_s, min(next_s, group[-1][1] + _WORD_S), confidence)


def _chance(log_chance: float) -> float:
    import math

    return math.exp(min(0.0, log_chance))


def _segments(words: list[HeardWord]) -> Iterator[tuple[HeardWord, ...]]:
    """Words up to the end of a sentence, a pause, or a length."""
    held: list[HeardWord] = []
    for word in words:
        ended = held and (
            held[-1].text.endswith(_ENDS)
            or word.start_s - held[-1].end_s >= _PAUSE_S
            or word.end_s - held[0].start_s > _LONGEST_S
        )
        if ended:
            yield tuple(held)
            held = []
        held.append(word)
    if held:
        yield tuple(held)
