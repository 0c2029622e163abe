from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import EvenreelError, MediaError, UsageError
from evenreel.media.sound import SAMPLE_RATE
from evenreel.media.workers import Worker
from evenreel.planted import Entity, Scene, SpokenSentence, write_scene
from evenreel.speech import SpeechReader, SpokenWord, can_speak, load_speech_reader, read_speech, recogniser
from evenreel.speech.recogniser import (
    PIECE_S,
    Heard,
    SpeechPiece,
    find_pieces,
    recognise_with,
    speech_worker,
    stretches_of,
    utterances_of,
)
from evenreel.types import FloatArray
from tests.sound_files import Track, burst_times, bursts, write_sound
from tests.speech.loud import WINDOW, blocks_of, hear_what_is_loud, loudness
from tests.speech.speech_models import write_onnx, write_whisper

speaks = pytest.mark.skipif(not can_speak(), reason="espeak-ng is not here (pip install espeakng-loader)")
MARGIN_S, SILENCE_S = 0.4, 2.0

CHANCES = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.95]), st.integers(1, 90)), min_size=1, max_size=12)


@given(CHANCES, st.sampled_from([20, 45, 300]), st.integers(1, 4))
def test_speech_is_in_one_piece_each_however_the_sound_is_parted(
    runs: list[tuple[float, int]], part_s: int, times: int
) -> None:
    chances = [chance for chance, length in runs for _ in range(length)] * times
    samples = np.repeat(np.array(chances, np.float32), WINDOW)
    with pytest.MonkeyPatch.context() as patch:
        hear_what_is_loud(patch)
        patch.setattr(recogniser, "PART_S", max(part_s, 2 * PIECE_S))
        found = list(find_pieces(blocks_of(samples, range(0, len(samples), 70_000))))
    spans = [(round(one.start_s * SAMPLE_RATE), round(one.start_s * SAMPLE_RATE) + len(one.samples)) for one in found]
    heard = np.zeros(len(samples), int)
    for (first, last), piece in zip(spans, found, strict=True):
        np.testing.assert_array_equal(piece.samples, samples[first:last])
        assert piece.length_s <= PIECE_S + WINDOW / SAMPLE_RATE
        heard[first:last] += 1
    assert heard.max(initial=0) <= 1, "pieces overlap"
    loud = np.flatnonzero(samples >= 0.5)
    lost = np.count_nonzero(heard[loud] == 0)
    assert lost <= 2 * WINDOW * len(found), "speech is lost"  # but for what the engine loses where it cuts hard
    for first, last in spans:
        assert loud.size and np.abs(loud - (first + last) // 2).min() <= (last - first) // 2 + SILENCE_S * SAMPLE_RATE


def test_long_speech_is_cut_in_pauses() -> None:
    samples = np.full(120 * SAMPLE_RATE, 0.9, np.float32)
    pauses_s = np.arange(7.0, 120.0, 7.0).tolist()
    for at in pauses_s:
        samples[int(at * SAMPLE_RATE) :][: SAMPLE_RATE // 2] = 0.0
    with pytest.MonkeyPatch.context() as patch:
        hear_what_is_loud(patch)
        patch.setattr(recogniser, "PART_S", 65)
        found = list(find_pieces(blocks_of(samples, range(0, len(samples), 10 * SAMPLE_RATE))))
    assert sum(piece.length_s for piece in found) == pytest.approx(120, abs=0.6 * len(found))
    for one, then in pairwise(found):
        assert min(abs((one.start_s + one.length_s + then.start_s) / 2 - at - 0.25) for at in pauses_s) < 0.3
        assert one.length_s <= PIECE_S


def test_a_word_and_long_silence_are_not_held_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    def noted(samples: FloatArray) -> FloatArray:
        held.append(len(samples))
        return loudness(samples)

    monkeypatch.setattr("faster_whisper.vad.get_vad_model", lambda: noted)
    monkeypatch.setattr(recogniser, "PART_S", 60)
    samples = bursts([1.0, 200.0], 240.0)
    found = list(find_pieces(blocks_of(samples, range(0, len(samples), 10 * SAMPLE_RATE))))
    assert [piece.start_s for piece in found] == pytest.approx([0.6, 199.6], abs=0.04)
    assert max(held) <= 71 * SAMPLE_RATE


def test_a_gap_in_the_sound_ends_a_piece_and_times_go_on_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hear_what_is_loud(monkeypatch)
    blocks = [*blocks_of(np.ones(100 * WINDOW, np.float32)), *blocks_of(np.ones(50 * WINDOW, np.float32), (), 60.0)]
    found = list(find_pieces(blocks))
    assert [(piece.start_s, len(piece.samples)) for piece in found] == [(0, 100 * WINDOW), (60, 50 * WINDOW)]


class BurstModel:
    """Hears a word of a tenth of a second for each burst, all of a stretch as one segment."""

    speech_id, has_words = "bursts", True
    languages: tuple[str, ...] = ("en", "de", "pt")

    def __init__(self, stretch_s: float = 30.0, told: list[tuple[str, float]] | None = None) -> None:
        self.stretch_s = stretch_s
        self.told = told
        self.given: list[tuple[int, str | None]] = []

    def hear(self, samples: FloatArray, language: str | None) -> Heard:
        self.given.append((len(samples), language))
        words = tuple(SpokenWord(" beep", time, time + 0.1, 0.5) for time in burst_times(samples))
        detected, sureness = self.told[len(self.given) - 1] if self.told and language is None else (language, 1.0)
        return Heard((words,) if words else (), detected, sureness)


@pytest.fixture
def loud(monkeypatch: pytest.MonkeyPatch) -> None:
    hear_what_is_loud(monkeypatch)


@given(st.lists(st.floats(0.3, 9.0), min_size=1, max_size=9), st.sampled_from([0.0, 5.0, 30.0]))
def test_every_word_comes_at_its_own_time_however_it_is_cut_and_joined(gaps: list[float], stretch_s: float) -> None:
    times = [round(float(time), 2) for time in np.cumsum(gaps)]
    samples = bursts(times, times[-1] + 1.0)
    model = BurstModel(stretch_s)
    with pytest.MonkeyPatch.context() as patch:
        hear_what_is_loud(patch)
        patch.setattr(recogniser, "PART_S", 10)  # any piece is shorter here
        found = list(SpeechReader(model).read(blocks_of(samples, range(0, len(samples), 70_000))))
    words = [word for utterance in found for word in utterance.words]
    assert [word.start_s for word in words] == pytest.approx(times, abs=0.002)
    assert all(word.text == "beep" for word in words)
    for utterance in found:
        starts = [word.start_s for word in utterance.words]
        assert utterance.text == " ".join(["beep"] * len(starts))
        assert (utterance.start_s, utterance.end_s) == (starts[0], utterance.words[-1].end_s)
        assert max(np.diff(starts), default=0) < 2.2, "what is said far apart is not one utterance"
    assert sum(length for length, _ in model.given) <= len(samples)


def piece(start_s: float, length_s: float = 1.0) -> SpeechPiece:
    return SpeechPiece(start_s, np.zeros(int(length_s * SAMPLE_RATE), np.float32))


def test_stretches_are_filled_up_and_never_longer_than_asked_for() -> None:
    pieces = [piece(100.0 * number, length_s) for number, length_s in enumerate([10, 10, 10, 1, 40, 5])]
    for most_s, expected in ((30.0, [[0, 100, 200], [300], [400], [500]]), (0.0, [[100 * n] for n in range(6)])):
        assert [[one.start_s for one in stretch] for stretch in stretches_of(pieces, most_s)] == expected


@pytest.mark.usefixtures("loud")
def test_a_language_that_is_hardly_heard_is_that_of_what_was_said_before() -> None:
    samples = bursts([1.0, 11.0, 21.0, 31.0], 40.0)
    model = BurstModel(0.0, [("de", 0.9), ("en", 0.2), ("de", 0.9), ("en", 0.8), ("de", 0.3)])
    found = list(SpeechReader(model).read(blocks_of(samples)))
    assert [utterance.language for utterance in found] == ["de", "de", "en", "en"]
    assert [language for _, language in model.given] == [None, None, "de", None, None, "en"]


@pytest.mark.usefixtures("loud")
def test_a_language_is_given_in_the_models_own_name_or_refused() -> None:
    model = BurstModel()
    reader = SpeechReader(model)
    assert list(reader.read(blocks_of(bursts([1.0], 3.0)), "pt-BR"))
    assert model.given[-1][1] == "pt"
    for wrong in ("fr", "nonsense"):
        with pytest.raises(UsageError, match=f"'{wrong}'; it hears de, en, pt"):
            list(reader.read(blocks_of(bursts([1.0], 3.0)), wrong))


def test_a_segment_over_two_pieces_that_are_apart_is_two_utterances() -> None:
    words = (SpokenWord(" one", 0.1, 0.5, 0.8), SpokenWord(" two", 0.6, 1.1, 0.4), SpokenWord(" three", 1.2, 1.6, None))
    first, second = utterances_of(Heard((words,), "en"), [piece(10.0), piece(600.0)], has_words=True)
    assert (first.text, first.start_s, first.end_s, first.confidence) == ("one two", 10.1, 11.0, pytest.approx(0.6))
    assert (second.text, second.start_s, second.end_s, second.confidence) == ("three", 600.2, 600.6, None)
    assert first.words[1].end_s == 11.0, "a word does not last beyond its piece"


def test_what_a_model_is_hardly_sure_of_is_left_out() -> None:
    segments = tuple((SpokenWord(f" {sure}", start, start + 1, sure),) for start, sure in enumerate((0.05, 0.1, 0.9)))
    found = utterances_of(Heard(segments, "en"), [piece(0.0, 9.0)], has_words=True)
    assert [one.text for one in found] == ["0.1", "0.9"]


def test_languages_without_spaces_are_joined_without() -> None:
    words = (SpokenWord("今日", 0.1, 0.2), SpokenWord("は", 0.2, 0.3))
    (found,) = utterances_of(Heard((words,), "ja"), [piece(0.0)], has_words=True)
    assert found.text == "今日は"
    assert [word.text for word in found.words] == ["今日", "は"]


@pytest.mark.usefixtures("loud")
def test_a_file_is_read_on_the_clock_of_its_pictures(tmp_path: Path) -> None:
    track = Track(bursts([0.5, 4.0], 6.0, 48_000), 48_000, "libopus", start_s=1.0)
    path = write_sound(tmp_path / "a.mkv", [track], pictures_from_s=0.4, pictures_s=6)
    found = read_speech(path, SpeechReader(BurstModel()))
    times = [word.start_s for utterance in found.utterances for word in utterance.words]
    assert times == pytest.approx([1.1, 4.6], abs=0.03)
    assert found.notes == ()


@pytest.mark.usefixtures("loud")
def test_sound_that_is_mostly_damage_gives_what_can_be_read_and_says_so(tmp_path: Path) -> None:
    from tests.media.test_sound import spoilt

    whole = write_sound(tmp_path / "whole.mp4", [Track(bursts([0.1], 5.0, 48_000), 48_000)], pictures_s=5)
    found = read_speech(spoilt(whole, tmp_path / "most.mp4", each=2), SpeechReader(BurstModel()))
    assert any("at most 25% is accepted" in note for note in found.notes)
    assert isinstance(found.utterances, tuple)


def test_a_file_of_silence_says_nothing_and_costs_the_model_nothing(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.mkv", [Track(np.zeros(60 * SAMPLE_RATE, np.float32), codec="flac")])
    model = BurstModel()
    assert read_speech(path, SpeechReader(model)).utterances == ()
    assert model.given == []


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = {3: "▁hel", 4: "lo", 9: "▁you"}
    return write_onnx(tmp_path_factory.mktemp("models") / "told", words, vocabulary=("▁hel", "lo", "▁you"))


@pytest.fixture
def worker(told: Path) -> Iterator[Worker]:
    with closing(speech_worker(str(told))) as found:
        yield found


@speaks
def test_a_worker_hears_what_is_heard_here(worker: Worker, told: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    spoken = SpokenSentence("A yellow ring moves to the left.", start_s=1.5)
    ring = Entity("ring", "yellow", "large")
    write_scene(path, Scene((ring,), "sways", "beach", width=64, height=48, spoken=(spoken,)))
    found = recognise_with(worker, path)
    assert found == read_speech(path, load_speech_reader(str(told)))
    (said,) = found.utterances
    assert [word.text for word in said.words] == ["hello", "you"]
    assert said.start_s == pytest.approx(1.5 - MARGIN_S + 3 * 0.08, abs=0.3)


def test_a_film_without_sound_is_its_own_trouble(worker: Worker, tmp_path: Path) -> None:
    silent = write_sound(tmp_path / "a.mp4", [])
    quiet = write_sound(tmp_path / "b.mkv", [Track(np.zeros(SAMPLE_RATE, np.float32), codec="flac")] * 2)
    for _ in range(2):
        with pytest.raises(MediaError) as caught:
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
