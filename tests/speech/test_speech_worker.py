"""Recognition in a worker that can be killed: the same as in this process, and one file's trouble is its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenreel.config import MediaLimits
from evenreel.errors import EncoderError, EvenreelError, MediaError
from evenreel.media.sound import SAMPLE_RATE
from evenreel.media.workers import Worker
from evenreel.planted import Entity, Scene, SpokenSentence, write_scene
from evenreel.speech import can_speak, load_speech_reader, read_speech
from evenreel.speech.speech_worker import recognise_with, speech_worker
from tests.sound_files import Track, write_sound
from tests.speech.speech_models import write_onnx, write_whisper


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    told = {3: "▁hel", 4: "lo", 9: "▁you"}
    return write_onnx(tmp_path_factory.mktemp("models") / "told", told, vocabulary=("▁hel", "lo", "▁you"))


@pytest.fixture
def worker(model: Path) -> Iterator[Worker]:
    with closing(speech_worker(str(model))) as found:
        yield found


@pytest.mark.skipif(not can_speak(), reason="espeak-ng is not here (pip install espeakng-loader)")
def test_a_worker_hears_what_is_heard_here(worker: Worker, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    spoken = SpokenSentence("A yellow ring moves to the left.", start_s=1.5)
    ring = Entity("ring", "yellow", "large")
    write_scene(path, Scene((ring,), "sways", "beach", width=64, height=48, spoken=(spoken,)))
    found = recognise_with(worker, path)
    assert found == read_speech(path, load_speech_reader(str(model)))
    (said,) = found.utterances
    assert said.text == "hello you"
    assert [word.text for word in said.words] == ["hello", "you"]
    assert said.start_s == pytest.approx(1.5 - 0.4 + 3 * 0.08, abs=0.3)


def test_a_film_without_sound_is_its_own_trouble(worker: Worker, tmp_path: Path) -> None:
    silent = write_sound(tmp_path / "a.mp4", [])
    quiet = write_sound(tmp_path / "b.mkv", [Track(np.zeros(SAMPLE_RATE, np.float32), codec="flac")] * 2)
    for _ in range(2):
        with pytest.raises(MediaError, match="no sound stream") as caught:
            recognise_with(worker, silent)
        assert caught.value.reason == "no_sound"
        found = recognise_with(worker, quiet)
        assert found.utterances == ()
        assert found.notes == ("2 sound streams; number 1 of them is used",)


def test_a_language_that_the_model_does_not_hear_is_told_before_any_file(tmp_path: Path) -> None:
    folder = write_whisper(tmp_path / "model")
    with closing(speech_worker(str(folder), language="de")) as worker:
        with pytest.raises(EvenreelError, match="does not hear the language 'de'; it hears en") as caught:
            recognise_with(worker, tmp_path / "none.mp4")
        assert not isinstance(caught.value, MediaError)


def test_a_model_that_there_is_not_is_told_before_any_worker(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="is no model of speech"):
        speech_worker(str(tmp_path))


def test_a_worker_may_take_what_its_model_needs(model: Path) -> None:
    limits = MediaLimits(stall_timeout_s=5, memory_bytes=2**30)
    with closing(speech_worker(str(model), limits=limits)) as worker:
        size = sum(path.stat().st_size for path in model.iterdir())
        assert worker._limits == replace(limits, stall_timeout_s=600.0, memory_bytes=2**30 + 3 * size)
