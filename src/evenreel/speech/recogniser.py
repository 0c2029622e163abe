"""Recognition of speech: from the sound of a clip to utterances with their words and times.

Voice activity comes first, by the detector that faster-whisper brings, and a model hears what is spoken only. The
models' own filters are not used: faster-whisper's holds the sound of a whole film and tells its language once,
onnx-asr's is a model that would have to be downloaded.
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from evenreel.config import MediaLimits, allowed_threads
from evenreel.documents import parse_json
from evenreel.errors import EncoderError, UsageError
from evenreel.extras import HUB_ID, Told, cached_folder, fetch, installed, located, named_folder
from evenreel.media.sampling import language_tag, same_language
from evenreel.media.workers import Message, Worker
from evenreel.speech.subtitles import SpokenWord, Utterance, utterance
from evenreel.types import FloatArray, Shown

if TYPE_CHECKING:
    from faster_whisper.transcribe import Segment

    from evenreel.media.sound import SoundBlock

SAMPLE_RATE = 16_000  # of the sound that models of speech hear, as `evenreel.media.sound` gives it
PART_S = 300  # sound that is held and looked through at a time
PIECE_S = 30.0  # longest stretch of speech that is not cut in a pause; what Whisper hears at a time
_OPEN_S = 3  # a piece that ends nearer to the end of a part may go on: the detector waits for 2 s of silence
_FOLLOWS_S = 1e-3  # blocks that are no further apart are one sound
_SURE = 0.5  # from here on the language that a model detects is believed
_LEAST = 0.1  # what a model is less sure of is what it makes of music or noise
_APART_S = 1.0  # words of two pieces that are further apart are two utterances


class Heard(NamedTuple):
    """What a model heard in a stretch, in seconds of it; words have the space before them where a language has one."""

    segments: tuple[tuple[SpokenWord, ...], ...]  # of a model without times one word for all
    language: str | None = None  # as a BCP 47 tag; None where the model does not say
    language_confidence: float = 1.0


class SpeechModel(Protocol):
    speech_id: str  # name it can be loaded by again; a hub id comes with its commit
    languages: tuple[str, ...]  # that it hears, as BCP 47 tags; empty where it does not say
    stretch_s: float  # speech it is best given at a time; 0 for each piece by itself
    has_words: bool  # whether its words have times of their own

    def hear(self, samples: FloatArray, language: str | None) -> Heard:
        """Write down (N,) samples at 16 kHz, in a language or one that it detects."""


class SpeechPiece(NamedTuple):
    start_s: float  # on the clip's own clock
    samples: FloatArray  # (N,) at 16 kHz, in which somebody speaks

    @property
    def length_s(self) -> float:
        return len(self.samples) / SAMPLE_RATE


def find_pieces(blocks: Iterable[SoundBlock]) -> Iterator[SpeechPiece]:
    """Yield the pieces of a sound in which somebody speaks, cut in silence if there is any; `PART_S` of it are held."""
    from faster_whisper.vad import VadOptions, get_speech_timestamps

    rule = VadOptions(max_speech_duration_s=PIECE_S)
    held, start_s = np.zeros(0, np.float32), 0.0
    for block in chain(blocks, [None]):
        ended = block is None or abs(block.start_s - start_s - len(held) / SAMPLE_RATE) > _FOLLOWS_S
        if len(held) and (ended or len(held) >= PART_S * SAMPLE_RATE):
            spans = [(span["start"], span["end"]) for span in get_speech_timestamps(held, rule)]
            if not ended:
                goes_on = spans and spans[-1][1] > len(held) - _OPEN_S * SAMPLE_RATE
                kept = spans.pop()[0] if goes_on else len(held) - SAMPLE_RATE
            for first, last in spans:
                yield SpeechPiece(start_s + first / SAMPLE_RATE, held[first:last].copy())
            if not ended:
                held, start_s = held[kept:].copy(), start_s + kept / SAMPLE_RATE
        if block is not None:
            if ended:
                held, start_s = np.zeros(0, np.float32), block.start_s
            held = np.concatenate([held, block.samples])


def stretches_of(pieces: Iterable[SpeechPiece], most_s: float) -> Iterator[list[SpeechPiece]]:
    """Yield pieces with at most so many seconds of speech together; one that is longer is a stretch of its own."""
    held: list[SpeechPiece] = []
    for piece in pieces:
        if held and sum(one.length_s for one in held) + piece.length_s > most_s:
            yield held
            held = []
        held.append(piece)
    if held:
        yield held


class SpeechReader:
    """Reader of what is said: voice activity first, and a model for what is spoken only.

    Memory does not grow with the length of the sound, and no word is cut in two: the sound is cut in silence.

    Args:
        model: model that writes stretches of speech down.
    """

    def __init__(self, model: SpeechModel) -> None:
        self.model = model

    def read(self, blocks: Iterable[SoundBlock], language: str | None = None) -> Iterator[Utterance]:
        """Yield what is said in a sound, in rising time.

        Args:
            blocks: sound in rising time (`evenreel.media.open_sound`).
            language: language that is spoken, as a BCP 47 tag; None to have it detected.

        Raises:
            UsageError: the model does not hear this language.
        """
        given = known = self.check_language(language)
        for stretch in stretches_of(find_pieces(blocks), self.model.stretch_s):
            samples = np.concatenate([piece.samples for piece in stretch])
            heard = self.model.hear(samples, given)
            if given is None and heard.language_confidence >= _SURE:
                known = heard.language
            elif known is not None and heard.language != known:  # too little is said to tell: as before
                heard = self.model.hear(samples, known)
            yield from utterances_of(heard, stretch, has_words=self.model.has_words)

    def check_language(self, language: str | None) -> str | None:
        """Return the model's own tag of a language, which it must hear; None for none."""
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


def utterances_of(heard: Heard, stretch: list[SpeechPiece], *, has_words: bool) -> Iterator[Utterance]:
    """Yield what a model heard in a stretch on the clip's clock; words of pieces far apart are two utterances."""
    begins_s = np.cumsum([0.0, *(piece.length_s for piece in stretch[:-1])])

    def placed(word: SpokenWord) -> tuple[int, SpokenWord]:
        """The piece that a word is heard in, which it does not leave, and the word on the clip's clock."""
        middle_s = (word.start_s + word.end_s) / 2
        place = max(0, int(np.searchsorted(begins_s, middle_s, "right")) - 1)
        piece = stretch[place]
        shift_s, ends_s = piece.start_s - begins_s[place], piece.start_s + piece.length_s
        times = [min(max(piece.start_s, at_s + shift_s), ends_s) for at_s in (word.start_s, word.end_s)]
        start_s, end_s = (round(float(at_s), 3) for at_s in times)
        return place, replace(word, start_s=start_s, end_s=max(start_s, end_s))

    for segment in heard.segments:
        parts: list[list[SpokenWord]] = []
        before = -1
        for place, word in map(placed, segment):
            if parts and (place == before or word.start_s - parts[-1][-1].end_s < _APART_S):
                parts[-1].append(word)
            else:
                parts.append([word])
            before = place
        for part in parts:
            text = " ".join("".join(word.text for word in part).split())
            words = tuple(replace(word, text=word.text.strip()) for word in part if word.text.strip())
            sure = [word.confidence for word in words if word.confidence is not None]
            confidence = sum(sure) / len(sure) if sure else None
            if text and (confidence is None or confidence >= _LEAST):
                start_s, end_s = words[0].start_s, max(word.end_s for word in words)
                words = words if has_words else ()
                yield Utterance(text, start_s, end_s, "recognised", heard.language, confidence, words=words)


class WhisperModel:
    """Whisper by faster-whisper, from a folder in CTranslate2's form; nothing is sampled."""

    stretch_s = PIECE_S
    has_words = True

    def __init__(self, folder: Path, speech_id: str, device: str = "auto") -> None:
        import ctranslate2
        from faster_whisper import WhisperModel as Engine

        self.speech_id = speech_id
        if device == "auto":
            device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        kind = "float32" if device == "cpu" else "default"
        try:
            self._engine: Any = Engine(
                str(folder), device, compute_type=kind, cpu_threads=allowed_threads(), local_files_only=True
            )
        except Exception as error:  # CTranslate2, tokenizers and JSON have a class each for files they cannot read
            raise _unreadable(folder, error, "a Whisper model in CTranslate2's form") from error
        codes = self._engine.supported_languages
        self._codes = {tag: code for code in codes if (tag := language_tag(code)) is not None}
        self.languages = tuple(self._codes)

    def hear(self, samples: FloatArray, language: str | None) -> Heard:
        """Write down what is said; what repeats itself is written down again without."""
        try:
            segments, info = self._run(samples, language)
            if any(segment.compression_ratio > 2.4 for segment in segments):  # faster-whisper's own limit
                segments, info = self._run(samples, info.language, no_repeat_ngram_size=3)
        except RuntimeError as error:
            raise _failed(self.speech_id, error) from error
        spoken = (
            tuple(SpokenWord(word.word, float(word.start), float(word.end), float(word.probability)) for word in words)
            for words in (segment.words or () for segment in segments)
        )
        return Heard(tuple(filter(None, spoken)), language_tag(info.language), float(info.language_probability))

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


_WORD_S = 0.24  # a word lasts at most this much longer than the start of its last token
_PAUSE_S = 0.8  # words that are further apart are two segments
_LONGEST_S = 20.0  # a segment is no longer, whatever is said
_ENDS = (".", "?", "!", "。", "？", "！", "…")


class OnnxSpeechModel:
    """Model in ONNX form by onnx-asr (Parakeet, Canary, GigaAM, Whisper and others), from a folder, on the CPU."""

    stretch_s = 0.0
    languages: tuple[str, ...] = ()

    def __init__(self, folder: Path, speech_id: str) -> None:
        self.speech_id = speech_id
        kind = model_type(folder)
        if kind is None:
            raise EncoderError(
                f'The speech model in {folder} has no config.json that names its type ("model_type": '
                '"nemo-conformer-tdt" for Parakeet); take the whole folder of a model that onnx-asr reads.'
            )
        import onnx_asr
        import onnxruntime
        from onnx_asr.utils import ModelFileNotFoundError

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = allowed_threads(), 1
        options.log_severity_level = 3
        given: dict[str, Any] = {"sess_options": options, "providers": ["CPUExecutionProvider"]}
        try:
            try:
                loaded = onnx_asr.load_model(kind, folder, **given)
            except ModelFileNotFoundError:
                loaded = onnx_asr.load_model(kind, folder, quantization="int8", **given)
        except Exception as error:  # onnxruntime's own classes are not public, and files can be anything
            raise _unreadable(folder, error, "a model in a form that onnx-asr reads") from error
        self._model: Any = loaded.with_timestamps()
        self.has_words = "whisper" not in kind and "aed" not in kind  # these two give no times, and take a language

    def hear(self, samples: FloatArray, language: str | None) -> Heard:
        """Write down what is said; only some models are told the language."""
        told = {"language": language.partition("-")[0]} if language and not self.has_words else {}
        try:
            found = self._model.recognize(samples, sample_rate=SAMPLE_RATE, **told)
        except Exception as error:  # onnxruntime's own classes are not public; a language without token is a KeyError
            raise _failed(self.speech_id, error) from error
        if found.tokens is None or found.timestamps is None:
            whole = SpokenWord(found.text, 0.0, len(samples) / SAMPLE_RATE)
            return Heard(((whole,),) if found.text.strip() else (), language)
        return Heard(tuple(_segments(list(_words(found)))), language)


def _words(found: Any) -> Iterator[SpokenWord]:
    """Words of a result: a token that begins with a space begins a word."""
    sure = found.logprobs or [None] * len(found.tokens)
    groups: list[list[tuple[str, float, float | None]]] = []
    for token in zip(found.tokens, found.timestamps, sure, strict=True):
        if groups and not token[0].startswith(" "):
            groups[-1].append(token)
        else:
            groups.append([token])
    for place, group in enumerate(groups):
        latest_s = group[-1][1] + _WORD_S
        next_s = groups[place + 1][0][1] if place + 1 < len(groups) else latest_s
        chances = [math.exp(min(0.0, chance)) for _, _, chance in group if chance is not None]
        confidence = sum(chances) / len(chances) if chances else None
        yield SpokenWord("".join(token for token, _, _ in group), group[0][1], min(next_s, latest_s), confidence)


def _segments(words: list[SpokenWord]) -> Iterator[tuple[SpokenWord, ...]]:
    """Words up to the end of a sentence, a pause, or a length."""
    held: list[SpokenWord] = []
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


def _failed(speech_id: str, error: Exception) -> EncoderError:
    return EncoderError(f"The speech model {speech_id} failed: {_first_line(error)}.")


def _unreadable(folder: Path, error: Exception, wanted: str) -> EncoderError:
    said = _first_line(error)
    return EncoderError(f"The speech model in {folder} cannot be loaded ({said}); {wanted} is wanted, copied whole.")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0].rstrip(".")[:200]


def load_speech_reader(name: str, *, revision: str | None = None, device: str = "auto") -> SpeechReader:
    """Load a model of speech and return a reader that recognises with it; no code of a model is run.

    A model of the hub that is in the cache is used from there without a look at the network; one that is not is
    fetched, as it was named, unless the network is switched off (EVENREEL_OFFLINE or HF_HUB_OFFLINE).

    Args:
        name: short name (`evenreel models --speech`), folder, or hub id `org/name` or `org/name@revision`, of a Whisper
            model in CTranslate2's form or of a model in ONNX form that onnx-asr reads.
        revision: commit, branch or tag of a hub id.
        device: `auto`, `cpu` or `cuda`; models in ONNX form run on the CPU.

    Raises:
        UsageError: the call itself is wrong.
        EncoderError: the model cannot be had or read, is of another kind, or the extra `speech` is not installed.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"The device {device!r} of a speech model is not auto, cpu or cuda.")
    check_extra()
    speech_id, folder = locate_speech_model(name, revision)
    if not is_onnx(folder):
        return SpeechReader(WhisperModel(folder, speech_id, device))
    if device == "cuda":
        raise UsageError(f"The speech model in {folder} is in ONNX form, which runs on the CPU here: --device cpu.")
    return SpeechReader(OnnxSpeechModel(folder, speech_id))


@dataclass(frozen=True)
class ClipSpeech(Shown):
    """What is said in a clip, in rising time, and sentences about what is unusual in its sound."""

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
    from evenreel.media.sound import open_sound

    with open_sound(path, limits, language=language) as sound:
        said = tuple(reader.read(sound.readable_blocks(), language))
        return ClipSpeech(said, tuple(sound.notes))


TARGET = "evenreel.speech.recogniser:SpeechFiles"  # what a `Worker` runs to recognise speech
_STALL_S = 600.0  # a stretch of half a minute by a large model on one core, or many hours of silence
_ROOM = 3  # times its size that a model may take in memory


class SpeechFiles:
    """Worker that answers `{"path"}` of a video with a message for each utterance, and one with its notes."""

    def __init__(self, model: str, device: str = "auto", language: str | None = None) -> None:
        self._reader, self._language = load_speech_reader(model, device=device), language
        self._reader.check_language(language)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        from evenreel.media.sound import open_sound

        with open_sound(task["path"], None, language=self._language) as sound:
            for found in self._reader.read(sound.readable_blocks(), self._language):
                yield {"kind": "utterance", "utterance": asdict(found)}, None
            yield {"kind": "notes", "notes": sound.notes}, None


def speech_worker(
    model: str, *, device: str = "auto", language: str | None = None, limits: MediaLimits | None = None
) -> Worker:
    _, folder = locate_speech_model(model)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    given = limits or MediaLimits()
    stall_s, memory = max(_STALL_S, given.stall_timeout_s), given.memory_bytes + _ROOM * size
    roomy = replace(given, stall_timeout_s=stall_s, memory_bytes=memory)
    return Worker(TARGET, {"model": str(folder), "device": device, "language": language}, roomy)


def recognise_with(worker: Worker, path: str | os.PathLike[str]) -> ClipSpeech:
    """Have a worker of `speech_worker` recognise what is said in a video file."""
    messages = [message for message, _ in worker.run({"path": os.fspath(path)})]
    said = (utterance(message["utterance"]) for message in messages if message["kind"] == "utterance")
    return ClipSpeech(tuple(said), tuple(messages[-1]["notes"]))


@dataclass(frozen=True)
class KnownSpeechModel:
    name: str  # such as `small`
    id: str  # of the hub
    family: str
    size_mb: float
    licence: str
    languages: str  # in words


@functools.cache
def known_speech_models() -> tuple[KnownSpeechModel, ...]:
    given = json.loads((Path(__file__).parent / "models.json").read_text(encoding="utf-8"))
    return tuple(KnownSpeechModel(**row) for row in given["models"])


FILES_WANTED = (
    *("config.json", "preprocessor_config.json", "model.bin", "tokenizer.json", "vocabulary.json", "vocabulary.txt"),
    *("config.yaml", "vocab.txt", "tokens.txt", "vocab.json", "added_tokens.json"),  # and of a model in ONNX form
    *("model.onnx", "encoder-model.onnx", "decoder_joint-model.onnx", "decoder-model.onnx"),
    *("*.onnx.data", "*.onnx_data", "onnx/encoder_model.onnx", "onnx/decoder_model_merged.onnx"),
)


def check_extra() -> None:
    for package in ("faster_whisper", "ctranslate2", "onnx_asr"):
        if not installed(package):
            raise EncoderError(
                f"Hearing speech needs {package}, which is not installed: pip install 'evenreel[speech]'."
            )


def locate_speech_model(name: str, revision: str | None = None, told: Told | None = None) -> tuple[str, Path]:
    """Find the id and the folder of a model, downloading it where it is missing and that is allowed."""

    def fetched(repository: str, wanted: str | None) -> Path:
        return fetch(repository, wanted or "main", FILES_WANTED, _missing, told, "leave --speech out for now")

    name = next((model.id for model in known_speech_models() if model.name == name), name)
    known = ", ".join(model.name for model in known_speech_models())
    nothing = EncoderError(
        f"{name!r} is neither a folder that exists, nor a hub id such as Systran/faster-whisper-small, nor one of "
        f"the names {known}; name one of these."
    )
    speech_id, folder = located(name, revision, fetched, nothing)
    if missing := _missing(folder):
        convert = ""
        if model_type(folder) == "whisper" and not (folder / "model.bin").exists():
            command = f"ct2-transformers-converter --model {folder} --output_dir OUT --copy_files tokenizer.json"
            convert = f" Convert this one: `{command}`."
        raise EncoderError(
            f"{folder} is no model of speech that can be used here: it lacks {', '.join(missing)}. A Whisper model in "
            f"CTranslate2's form is wanted, or one in ONNX form that onnx-asr reads.{convert}"
        )
    return speech_id, folder


def speech_model_here(name: str) -> bool:
    name = next((model.id for model in known_speech_models() if model.name == name), name)
    hub = HUB_ID.fullmatch(name)
    folder = named_folder(name) or (cached_folder(hub["repository"], hub["revision"] or "main") if hub else None)
    return folder is not None and not _missing(folder)


def download_bytes(name: str | None) -> int | None:
    """Return about how much a run with a model of speech (None: with none) downloads; see that of encoders."""
    if name is None or speech_model_here(name):
        return 0
    known = next((model for model in known_speech_models() if name in (model.name, model.id)), None)
    return round(known.size_mb * 1e6) if known else None


def is_onnx(folder: Path) -> bool:
    """Return whether a folder holds a model in ONNX form, and none in CTranslate2's."""
    return not (folder / "model.bin").is_file() and next(folder.rglob("*.onnx"), None) is not None


def _missing(folder: Path) -> list[str]:
    if is_onnx(folder):
        return [] if (folder / "config.json").is_file() else ["config.json"]
    missing = [name for name in ("config.json", "model.bin", "tokenizer.json") if not (folder / name).is_file()]
    if not any((folder / f"vocabulary.{kind}").is_file() for kind in ("json", "txt")):
        missing.append("vocabulary.json")
    return missing


def model_type(folder: Path) -> str | None:
    """Return onnx-asr's type of the model in a folder, as its `config.json` says."""
    try:
        found = parse_json((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    name = found.get("model_type") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None
