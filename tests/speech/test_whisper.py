"""Whisper in CTranslate2's form: random weights everywhere, and the real tiny.en where it is there."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evenreel.errors import EncoderError, UsageError
from evenreel.media.sound import SAMPLE_RATE
from evenreel.planted.voices import SpokenSentence, sound_of, speak
from evenreel.speech import VOICES, SpeechReader, Utterance, can_speak, load_speech_reader
from evenreel.speech.recogniser import WhisperModel
from evenreel.types import FloatArray
from tests.speech.loud import blocks_of
from tests.speech.speech_models import write_whisper

SENTENCES = (
    "Please close the window before you leave the house.",
    "A red bus stops in front of the old library.",
    "The children are playing in the garden behind the school.",
)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_whisper(tmp_path_factory.mktemp("whisper") / "model")


@pytest.fixture(scope="module")
def noise() -> FloatArray:
    return np.random.default_rng(0).normal(0, 0.1, 4 * SAMPLE_RATE).astype(np.float32)


def test_a_model_is_loaded_from_a_folder_and_hears_the_same_in_every_run(planted: Path, noise: FloatArray) -> None:
    one, other = (WhisperModel(planted, "planted") for _ in range(2))
    heard = one.hear(noise, None)
    assert heard == other.hear(noise, None) == one.hear(noise, None)
    assert heard.language == "en"
    words = [word for segment in heard.segments for word in segment]
    assert words, "random weights say something"
    for word in words:
        assert 0 <= word.start_s <= word.end_s <= 30
        assert word.confidence is not None
        assert 0 <= word.confidence <= 1


def test_what_repeats_itself_is_written_down_again_without(planted: Path, noise: FloatArray) -> None:
    from types import SimpleNamespace

    model = WhisperModel(planted, "planted")
    asked: list[dict[str, object]] = []

    def transcribe(samples: FloatArray, **options: object) -> tuple[list[SimpleNamespace], SimpleNamespace]:
        asked.append(options)
        again = "no_repeat_ngram_size" in options
        word = SimpleNamespace(word=" once" if again else " and on", start=0.0, end=1.0, probability=0.5)
        segment = SimpleNamespace(compression_ratio=1.0 if again else 9.0, words=[word])
        return [segment], SimpleNamespace(language="de", language_probability=0.8)

    model._engine = SimpleNamespace(transcribe=transcribe)
    heard = model.hear(noise, None)
    assert [word.text for word in heard.segments[0]] == [" once"]
    assert [options["language"] for options in asked] == [None, "de"]


def test_a_model_of_english_alone_refuses_another_language(planted: Path) -> None:
    reader = load_speech_reader(str(planted))
    with pytest.raises(UsageError, match="does not hear the language 'de'; it hears en"):
        list(reader.read([], "de"))


def cut(folder: Path) -> None:
    (folder / "model.bin").write_bytes((folder / "model.bin").read_bytes()[:500])


def zeros(folder: Path) -> None:
    (folder / "model.bin").write_bytes(bytes(5000))


def no_json(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")


@pytest.mark.parametrize("spoil", [cut, zeros, no_json])
def test_a_spoilt_model_is_one_sentence(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    folder = write_whisper(tmp_path / "model")
    spoil(folder)
    with pytest.raises(EncoderError, match="cannot be loaded") as caught:
        load_speech_reader(str(folder))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


# -- real weights ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(shared_data: Path) -> SpeechReader:
    folder = shared_data / "whisper_tiny_en"
    if not folder.is_dir():
        pytest.skip(f"the weights of Whisper tiny.en are not at {folder}")
    if not can_speak():
        pytest.skip("espeak-ng is not here (pip install espeakng-loader)")
    logging.getLogger("faster_whisper").setLevel(logging.ERROR)
    return load_speech_reader(str(folder))


def plain(words: str) -> list[str]:
    return re.findall(r"[a-z']+", words.lower())


def hear(reader: SpeechReader, samples: FloatArray) -> list[Utterance]:
    return list(reader.read(blocks_of(samples, range(0, len(samples), 10 * SAMPLE_RATE))))


@pytest.mark.parametrize("voice", VOICES)
def test_sentences_are_heard_where_they_are_said(real: SpeechReader, voice: str) -> None:
    """Each sentence at a time that is known, with half a minute of silence before the last."""
    parts, begins = [], []
    for number, text in enumerate(SENTENCES):
        silence = np.zeros((30 if number == 2 else 3) * SAMPLE_RATE, np.float32)
        begins.append(sum(map(len, parts)) / SAMPLE_RATE + len(silence) / SAMPLE_RATE)
        parts += [silence, speak(SpokenSentence(text, voice))]
    found = hear(real, np.concatenate(parts))
    assert len(found) >= len(SENTENCES)
    right = total = 0
    for text, begin in zip(SENTENCES, begins, strict=True):
        words = [word for one in found for word in one.words if begin - 0.5 <= word.start_s <= begin + 5]
        assert words[0].start_s == pytest.approx(begin, abs=0.8)
        said = {each for word in words for each in plain(word.text)}
        right += sum(word in said for word in plain(text))
        total += len(plain(text))
    assert right >= 0.7 * total
    assert all(one.language == "en" and one.confidence is not None and one.confidence > 0.2 for one in found)


def test_nothing_is_heard_in_silence_hum_and_noise(real: SpeechReader) -> None:
    time_s = np.arange(40 * SAMPLE_RATE) / SAMPLE_RATE
    hum = 0.2 * np.sin(2 * np.pi * 50 * time_s) + 0.1 * np.sin(2 * np.pi * 440 * time_s)
    random = np.random.default_rng(1).normal(0, 0.05, 40 * SAMPLE_RATE)
    for samples in (np.zeros(40 * SAMPLE_RATE), hum, random):
        assert hear(real, samples.astype(np.float32)) == []


def melody(length_s: int, seed: int) -> FloatArray:
    """Two plucked tones of a scale and now and then a drum, four times a second."""
    random = np.random.default_rng(seed)
    sound = np.zeros(length_s * SAMPLE_RATE)
    scale = 220 * 2 ** (np.array([0, 2, 4, 5, 7, 9, 11, 12, 14, 16]) / 12)
    for beat in range(length_s * 4):
        part = sound[beat * SAMPLE_RATE // 4 :][:SAMPLE_RATE]
        time_s = np.arange(len(part)) / SAMPLE_RATE
        for tone in random.choice(scale, 2):
            overtones = [np.sin(2 * np.pi * tone * number * time_s) / number for number in range(1, 6)]
            part += np.sum(overtones, axis=0) * np.exp(-3 * time_s)
        if beat % 2 == 0:
            part += random.normal(0, 1.6, len(part)) * np.exp(-53 * time_s)
    return (0.7 * sound / np.abs(sound).max()).astype(np.float32)


def test_nothing_is_heard_in_music_without_words(real: SpeechReader) -> None:
    for seed in range(4):
        assert hear(real, melody(30, seed)) == []


def test_words_in_noise_are_those_of_the_engine_by_itself(real: SpeechReader) -> None:
    model = real.model
    assert isinstance(model, WhisperModel)
    samples = sound_of([SpokenSentence(SENTENCES[1], VOICES[2], start_s=1.0, snr_db=15)], 6.0, seed=3)
    segments, _ = model._engine.transcribe(samples, vad_filter=True, word_timestamps=True)
    expected = [(word.word.strip(), float(word.start)) for segment in segments for word in segment.words]
    found = [(word.text, word.start_s) for one in hear(real, samples) for word in one.words]
    assert [word for word, _ in found] == [word for word, _ in expected]
    assert [time for _, time in found] == pytest.approx([time for _, time in expected], abs=0.1)
