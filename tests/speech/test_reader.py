"""From sound to utterances: times across pieces and stretches, languages, and files with odd sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import MediaError, UsageError
from evenreel.media.sound import SAMPLE_RATE
from evenreel.speech.reader import Heard, HeardWord, SpeechReader, read_speech, utterances_of
from evenreel.speech.stretches import SpeechStretch, join_pieces
from evenreel.speech.voice import WINDOW, SpeechPiece, VoiceDetector
from evenreel.types import FloatArray
from tests.sound_files import Track, burst_times, bursts, write_sound
from tests.speech.test_voice import blocks_of


class LoudDetector(VoiceDetector):
    """Takes whatever is loud for speech."""

    def __init__(self) -> None:
        pass

    def forget(self) -> None:
        """Nothing is remembered."""

    def chances(self, samples: FloatArray) -> FloatArray:
        return (np.abs(samples.reshape(-1, WINDOW)).max(axis=1, initial=0) > 0.1).astype(np.float32)


class BurstModel:
    """Hears a word of a tenth of a second for each burst, all of a stretch as one segment."""

    speech_id, weights_hash, has_words = "bursts", "0", True
    languages: tuple[str, ...] = ("en", "de", "pt")

    def __init__(self, stretch_s: float = 30.0, told: list[tuple[str, float]] | None = None) -> None:
        self.stretch_s = stretch_s
        self.told = told
        self.given: list[tuple[int, str | None]] = []

    def hear(self, samples: FloatArray, language: str | None) -> Heard:
        self.given.append((len(samples), language))
        words = tuple(HeardWord(" beep", time, time + 0.1, 0.5) for time in burst_times(samples))
        detected, sureness = self.told[len(self.given) - 1] if self.told and language is None else (language, 1.0)
        return Heard((words,) if words else (), detected, sureness)


def reader_with(model: BurstModel, monkeypatch: pytest.MonkeyPatch) -> SpeechReader:
    monkeypatch.setattr("evenreel.speech.reader.VoiceDetector", LoudDetector)
    return SpeechReader(model)


@given(st.lists(st.floats(0.3, 9.0), min_size=1, max_size=9), st.sampled_from([0.0, 5.0, 30.0]))
def test_every_word_comes_at_its_own_time_however_it_is_cut_and_joined(gaps: list[float], stretch_s: float) -> None:
    times = [round(float(time), 2) for time in np.cumsum(gaps)]
    samples = bursts(times, times[-1] + 1.0)
    model = BurstModel(stretch_s)
    with pytest.MonkeyPatch.context() as patch:
        found = list(reader_with(model, patch).read(blocks_of(samples, range(0, len(samples), 70_000))))
    words = [word for utterance in found for word in utterance.words]
    assert [word.start_s for word in words] == pytest.approx(times, abs=0.002)
    assert all(word.text == "beep" for word in words)
    for utterance in found:
        starts = [word.start_s for word in utterance.words]
        assert utterance.text == " ".join(["beep"] * len(starts))
        assert (utterance.start_s, utterance.end_s) == (starts[0], utterance.words[-1].end_s)
        assert max(np.diff(starts), default=0) < 2.2, "what is said far apart is not one utterance"
    assert sum(length for length, _ in model.given) <= len(samples)


def test_stretches_are_filled_up_and_never_longer_than_asked_for() -> None:
    lengths_s = [10, 10, 10, 1, 40, 5]
    pieces = [
        SpeechPiece(100.0 * k, np.full(length * SAMPLE_RATE, k, np.float32)) for k, length in enumerate(lengths_s)
    ]
    found = [[piece.start_s for piece in stretch.pieces] for stretch in join_pieces(pieces, 30.0)]
    assert found == [[0, 100, 200], [300], [400], [500]]
    apart = [[piece.start_s for piece in stretch.pieces] for stretch in join_pieces(pieces, 0.0)]
    assert apart == [[0], [100], [200], [300], [400], [500]]


def test_a_language_that_is_hardly_heard_is_that_of_what_was_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = bursts([1.0, 11.0, 21.0, 31.0], 40.0)
    model = BurstModel(0.0, [("de", 0.9), ("en", 0.2), ("de", 0.9), ("en", 0.8), ("de", 0.3)])
    found = list(reader_with(model, monkeypatch).read(blocks_of(samples)))
    assert [utterance.language for utterance in found] == ["de", "de", "en", "en"]
    assert [language for _, language in model.given] == [None, None, "de", None, None, "en"]


def test_a_language_is_given_in_the_models_own_name_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BurstModel()
    reader = reader_with(model, monkeypatch)
    assert list(reader.read(blocks_of(bursts([1.0], 3.0)), "pt-BR"))
    assert model.given[-1][1] == "pt"
    for wrong in ("fr", "nonsense"):
        with pytest.raises(UsageError, match=f"does not hear the language '{wrong}'; it hears de, en, pt"):
            list(reader.read(blocks_of(bursts([1.0], 3.0)), wrong))


def test_a_segment_over_two_pieces_that_are_apart_is_two_utterances() -> None:
    pieces = (
        SpeechPiece(10.0, np.zeros(SAMPLE_RATE, np.float32)),
        SpeechPiece(600.0, np.zeros(SAMPLE_RATE, np.float32)),
    )
    words = (HeardWord(" one", 0.1, 0.5, 0.8), HeardWord(" two", 0.6, 1.1, 0.4), HeardWord(" three", 1.2, 1.6, None))
    first, second = utterances_of(Heard((words,), "en"), SpeechStretch(pieces), has_words=True)
    assert (first.text, first.start_s, first.end_s, first.confidence) == ("one two", 10.1, 11.0, pytest.approx(0.6))
    assert (second.text, second.start_s, second.end_s, second.confidence) == ("three", 600.2, 600.6, None)
    assert first.words[1].end_s == 11.0, "a word does not last beyond its piece"


def test_what_a_model_is_hardly_sure_of_is_left_out() -> None:
    pieces = (SpeechPiece(0.0, np.zeros(9 * SAMPLE_RATE, np.float32)),)
    segments = tuple((HeardWord(f" {sure}", start, start + 1, sure),) for start, sure in enumerate((0.05, 0.1, 0.9)))
    found = utterances_of(Heard(segments, "en"), SpeechStretch(pieces), has_words=True)
    assert [one.text for one in found] == ["0.1", "0.9"]


def test_languages_without_spaces_are_joined_without() -> None:
    pieces = (SpeechPiece(0.0, np.zeros(SAMPLE_RATE, np.float32)),)
    words = (HeardWord("今日", 0.1, 0.2), HeardWord("は", 0.2, 0.3))
    (found,) = utterances_of(Heard((words,), "ja"), SpeechStretch(pieces), has_words=True)
    assert found.text == "今日は"
    assert [word.text for word in found.words] == ["今日", "は"]


# -- files -----------------------------------------------------------------------------------------------


def test_a_file_is_read_on_the_clock_of_its_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    track = Track(bursts([0.5, 4.0], 6.0, 48_000), 48_000, "libopus", start_s=1.0)
    path = write_sound(tmp_path / "a.mkv", [track], pictures_from_s=0.4, pictures_s=6)
    found = read_speech(path, reader_with(BurstModel(), monkeypatch))
    assert [word.start_s for utterance in found.utterances for word in utterance.words] == pytest.approx(
        [1.1, 4.6], abs=0.03
    )
    assert found.notes == ()


def test_a_film_without_sound_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MediaError, match="it has no sound stream") as caught:
        read_speech(write_sound(tmp_path / "a.mp4", []), reader_with(BurstModel(), monkeypatch))
    assert caught.value.reason == "no_sound"


def test_sound_that_is_mostly_damage_gives_what_can_be_read_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.media.test_sound import spoilt

    whole = write_sound(tmp_path / "whole.mp4", [Track(bursts([0.1], 5.0, 48_000), 48_000)], pictures_s=5)
    found = read_speech(spoilt(whole, tmp_path / "most.mp4", each=2), reader_with(BurstModel(), monkeypatch))
    assert any("at most 25% is accepted" in note for note in found.notes)
    assert isinstance(found.utterances, tuple)


def test_a_file_of_silence_says_nothing_and_costs_the_model_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_sound(tmp_path / "a.mkv", [Track(np.zeros(60 * SAMPLE_RATE, np.float32), codec="flac")])
    model = BurstModel()
    assert read_speech(path, reader_with(model, monkeypatch)).utterances == ()
    assert model.given == []
