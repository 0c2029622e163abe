"""Models in ONNX form: words, times and confidences that are worked out by hand from what a graph is told to say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from evenreel.errors import EncoderError, UsageError
from evenreel.media.sound import SAMPLE_RATE
from evenreel.speech import load_speech_reader
from evenreel.speech.recogniser import OnnxSpeechModel
from tests.speech.loud import blocks_of, hear_what_is_loud
from tests.speech.speech_models import FRAME_S, write_onnx

VOCABULARY = ("▁hel", "lo", "▁you", "▁there", ".", "▁bye")
SPOKEN = {5: "▁hel", 7: "lo", 10: "▁you", 12: ".", 14: "▁there", 40: "▁bye"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_onnx(tmp_path / "model", SPOKEN, vocabulary=VOCABULARY)


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


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "no config.json that names its type"),
        ({"model_type": "clip"}, "cannot be loaded"),
        ({"model_type": "nemo-conformer-tdt"}, "cannot be loaded"),  # whose graphs are others
        ([], "no config.json that names its type"),
    ],
)
def test_another_kind_of_model_is_one_sentence(folder: Path, config: object, said: str) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(EncoderError, match=said) as caught:
        load_speech_reader(str(folder))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


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
    with pytest.raises(EncoderError, match="cannot be loaded") as caught:
        load_speech_reader(str(folder))
    assert "\n" not in str(caught.value)


def test_it_runs_on_the_cpu(folder: Path) -> None:
    with pytest.raises(UsageError, match="runs on the CPU here"):
        load_speech_reader(str(folder), device="cuda")
