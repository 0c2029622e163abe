from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import constants

from evenreel.errors import DownloadError, EncoderError, UsageError
from evenreel.media.sound import SAMPLE_RATE
from evenreel.planted.voices import SpokenSentence, speak
from evenreel.speech import VOICES, SpeechReader, Utterance, load_speech_reader, recogniser
from evenreel.speech.recogniser import OnnxSpeechModel, WhisperModel, known_speech_models, speech_model_here
from evenreel.types import FloatArray
from tests.encoders.hub import COMMIT, Hub, serving
from tests.speech.loud import blocks_of, hear_what_is_loud
from tests.speech.speech_models import FRAME_S, write_onnx, write_whisper

VOCABULARY = ("▁a",)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture
def serve(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Hub]]:
    with serving(monkeypatch) as start:
        yield start


def refusal(folder: Path, said: str = "cannot be loaded") -> str:
    with pytest.raises(EncoderError, match=said) as caught:
        load_speech_reader(str(folder))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["ctranslate2", "onnx"])
def test_a_model_that_is_named_is_fetched_once_and_without_what_is_not_needed(
    tmp_path: Path, serve: Callable[[Path], Hub], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whisper = kind == "ctranslate2"
    source = tmp_path / "source"
    folder = write_whisper(source) if whisper else write_onnx(source, {3: "▁a"}, vocabulary=VOCABULARY)
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "evil.py").write_text("raise SystemExit")
    hub = serve(folder)
    assert not speech_model_here("org/tiny")
    reader = load_speech_reader("org/tiny")
    assert reader.model.speech_id == f"org/tiny@{COMMIT}"
    assert not any("pytorch_model" in request or "evil" in request for request in hub.requests)
    hub.requests.clear()
    monkeypatch.setenv("EVENREEL_OFFLINE", "1")
    assert load_speech_reader(f"org/tiny@{COMMIT}").model.speech_id == reader.model.speech_id
    assert speech_model_here("org/tiny")
    assert hub.requests == []


def test_nothing_is_fetched_where_the_network_is_switched_off(cache: Path) -> None:
    with pytest.raises(DownloadError, match="faster-whisper-tiny.en .*the network is switched off.*leave --speech out"):
        load_speech_reader("tiny.en")


@pytest.mark.parametrize("name", ["nothing", "../x/y", "", "a/b/c", "no\0where", "--x/y"])
def test_a_name_that_means_nothing_is_one_sentence(cache: Path, name: str) -> None:
    with pytest.raises(EncoderError, match="neither a folder that exists, nor a hub id") as caught:
        load_speech_reader(name)
    assert "tiny.en" in str(caught.value)


def test_a_folder_of_another_kind_is_one_sentence(tmp_path: Path) -> None:
    refusal(tmp_path, r"lacks config\.json, model\.bin, tokenizer\.json, vocabulary\.json")
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    refusal(tmp_path, "ct2-transformers-converter --model")


@pytest.mark.parametrize("package", ["faster_whisper", "ctranslate2", "onnx_asr"])
def test_a_missing_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setattr(recogniser, "installed", lambda name: name != package)
    refusal(tmp_path, rf"needs {package}.*pip install 'evenreel\[speech\]'")


def test_every_known_model_has_a_name_and_an_id_of_its_own() -> None:
    known: list[Any] = [*known_speech_models()]
    assert len({model.name for model in known}) == len({model.id for model in known}) == len(known)
    assert all(model.licence and model.size_mb > 0 and model.id.count("/") == 1 for model in known)


ONNX_VOCABULARY = ("▁hel", "lo", "▁you", "▁there", ".", "▁bye")
SPOKEN = {5: "▁hel", 7: "lo", 10: "▁you", 12: ".", 14: "▁there", 40: "▁bye"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "model", SPOKEN, vocabulary=ONNX_VOCABULARY)


def quiet(length_s: float) -> np.ndarray:
    return np.zeros(round(length_s * SAMPLE_RATE), np.float32)


def test_tokens_become_words_with_times_and_sentences(folder: Path) -> None:
    heard = OnnxSpeechModel(folder, "told").hear(quiet(5.0), None)
    assert [[word.text for word in segment] for segment in heard.segments] == [
        [" hello", " you."],
        [" there"],
        [" bye"],
    ]
    hello, you = heard.segments[0]
    assert (hello.start_s, hello.end_s) == pytest.approx((5 * FRAME_S, 10 * FRAME_S))
    assert (you.start_s, you.end_s) == pytest.approx((10 * FRAME_S, 14 * FRAME_S))
    assert heard.segments[2][0].end_s == pytest.approx(40 * FRAME_S + 0.24)
    assert hello.confidence == pytest.approx(0.5, abs=0.01)


def test_each_piece_is_heard_by_itself_on_the_clips_clock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hear_what_is_loud(monkeypatch)
    reader = load_speech_reader(str(folder))
    samples = quiet(60)
    for begin in (2, 50):
        samples[begin * SAMPLE_RATE : (begin + 1) * SAMPLE_RATE] = 0.5
    found = [(one.text, one.start_s) for one in reader.read(blocks_of(samples))]
    begins = [1.6, 49.6]  # each with 0.4 s before it
    expected = [(text, begin + step * FRAME_S) for begin in begins for text, step in (("hello you.", 5), ("there", 14))]
    assert [text for text, _ in found] == [text for text, _ in expected]
    assert [time for _, time in found] == pytest.approx([time for _, time in expected], abs=0.04)


def test_a_quantised_graph_is_taken_where_there_is_no_other(folder: Path) -> None:
    whole = OnnxSpeechModel(folder, "told")
    (folder / "model.onnx").rename(folder / "model.int8.onnx")
    found = OnnxSpeechModel(folder, "told")
    assert found.hear(quiet(5.0), None) == whole.hear(quiet(5.0), None)


def test_another_kind_of_model_is_one_sentence(folder: Path) -> None:
    for config in ({}, [], {"model_type": "clip"}, {"model_type": "nemo-conformer-tdt"}):  # whose graphs are others
        (folder / "config.json").write_text(json.dumps(config))
        said = "cannot be loaded" if config else "no config.json that names its type"
        assert str(folder) in refusal(folder, said)


@pytest.mark.parametrize("outside", ["../secret.bin", "ABSOLUTE"])
def test_a_graph_that_takes_numbers_from_outside_its_folder_is_refused(folder: Path, outside: str) -> None:
    import onnx

    model = onnx.load(folder / "model.onnx")
    table = next(each for each in model.graph.initializer if each.name == "table")
    (folder.parent / "secret.bin").write_bytes(table.raw_data)
    table.ClearField("raw_data")
    table.data_location = onnx.TensorProto.EXTERNAL
    place = str(folder.parent / "secret.bin") if outside == "ABSOLUTE" else outside
    for key, value in (("location", place), ("offset", "0")):
        entry = table.external_data.add()
        entry.key, entry.value = key, value
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    refusal(folder)


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


def test_it_runs_on_the_cpu(folder: Path) -> None:
    with pytest.raises(UsageError, match="runs on the CPU here"):
        load_speech_reader(str(folder), device="cuda")


def test_a_model_of_english_alone_refuses_another_language(planted: Path) -> None:
    with pytest.raises(UsageError, match="does not hear the language 'de'; it hears en"):
        list(load_speech_reader(str(planted)).read([], "de"))


@pytest.mark.parametrize(
    ("file", "spoil"),
    [("model.bin", lambda data: data[:500]), ("model.bin", lambda _: bytes(5000)), ("tokenizer.json", lambda _: b"{")],
)
def test_a_spoilt_model_is_one_sentence(tmp_path: Path, file: str, spoil: Callable[[bytes], bytes]) -> None:
    folder = write_whisper(tmp_path / "model")
    (folder / file).write_bytes(spoil((folder / file).read_bytes()))
    assert str(folder) in refusal(folder)


# -- real weights ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(whisper: Path) -> SpeechReader:
    logging.getLogger("faster_whisper").setLevel(logging.ERROR)
    return load_speech_reader(str(whisper))


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
