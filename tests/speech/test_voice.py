"""Where somebody speaks: the streamed detector and rule against faster-whisper's own, which hold the whole sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.errors import EncoderError
from evenreel.media.sound import SAMPLE_RATE, SoundBlock
from evenreel.speech import can_speak, speak_text, voice
from evenreel.speech.voice import WINDOW, SpeechPiece, VoiceDetector, VoiceRule, find_pieces
from evenreel.types import FloatArray

RULE = VoiceRule()
WITHOUT_CUTS = replace(RULE, most_s=1e6, longest_s=1e6)


class ToldDetector(VoiceDetector):
    """Gives the chances that it was told, window by window."""

    def __init__(self, chances: Sequence[float]) -> None:
        self._told = np.asarray(chances, np.float32)
        self._next = 0

    def forget(self) -> None:
        """Nothing is remembered."""

    def chances(self, samples: FloatArray) -> FloatArray:
        first, self._next = self._next, self._next + len(samples) // WINDOW
        return self._told[first : self._next]


def blocks_of(samples: FloatArray, cuts: Sequence[int] = (), start_s: float = 0.0) -> Iterator[SoundBlock]:
    places = [0, *sorted({cut for cut in cuts if 0 < cut < len(samples)}), len(samples)]
    for first, last in pairwise(places):
        yield SoundBlock(start_s + first / SAMPLE_RATE, samples[first:last])


def places(pieces: Sequence[SpeechPiece]) -> list[tuple[int, int]]:
    return [(round(piece.start_s * SAMPLE_RATE), round(piece.end_s * SAMPLE_RATE)) for piece in pieces]


CHANCES = st.lists(
    st.tuples(st.sampled_from([0.01, 0.2, 0.4, 0.45, 0.6, 0.95]), st.integers(1, 90)), min_size=1, max_size=12
).map(lambda runs: [chance for chance, length in runs for _ in range(length)])
CUTS = st.lists(st.integers(0, 400_000), max_size=6)


@given(CHANCES, CUTS)
def test_pieces_are_those_that_the_engine_finds_in_the_whole_sound(chances: list[float], cuts: list[int]) -> None:
    from faster_whisper import vad

    samples = np.arange(len(chances) * WINDOW, dtype=np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vad, "get_vad_model", lambda: lambda audio: np.asarray(chances))
        expected = vad.get_speech_timestamps(samples, vad.VadOptions())
    found = list(find_pieces(blocks_of(samples, cuts), ToldDetector(chances), WITHOUT_CUTS))
    assert places(found) == [(one["start"], one["end"]) for one in expected]
    for piece, (first, last) in zip(found, places(found), strict=True):
        np.testing.assert_array_equal(piece.samples, samples[first:last])


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), CUTS)
def test_the_streamed_detector_gives_the_chances_of_the_whole_sound(seed: int, cuts: list[int]) -> None:
    from faster_whisper.vad import get_vad_model

    random = np.random.default_rng(seed)
    loudness = np.repeat(random.uniform(0, 0.5, 40), 4 * WINDOW)
    samples = (random.normal(0, 1, len(loudness)) * loudness).astype(np.float32)
    detector = VoiceDetector()
    whole = [0, *sorted({cut // WINDOW * WINDOW for cut in cuts if 0 < cut < len(samples)}), len(samples)]
    found = [detector.chances(samples[first:last]) for first, last in pairwise(whole)]
    expected = get_vad_model()(samples.copy()).reshape(-1)
    # The engine writes zeros over the end of the last window before it looks at that one.
    np.testing.assert_allclose(np.concatenate(found)[:-1], expected[:-1], atol=1e-4)


@given(CHANCES.map(lambda chances: chances * 4))
def test_long_speech_is_cut_in_pauses_only(chances: list[float]) -> None:
    rule = replace(RULE, most_s=6.0, longest_s=20.0)
    samples = np.zeros(len(chances) * WINDOW, np.float32)
    found = places(list(find_pieces(blocks_of(samples), ToldDetector(chances), rule)))
    uncut = places(list(find_pieces(blocks_of(samples), ToldDetector(chances), replace(rule, most_s=1e6))))
    pauses = np.array([chance < rule.threshold for chance in chances])
    margin = int(rule.margin_s * SAMPLE_RATE)
    for first, last in uncut:
        # A piece after a cut may go on for longer than the whole did: what is loud enough to begin is judged anew.
        inside = [(max(begin, first), min(end, last)) for begin, end in found if begin < last and end > first]
        heard = np.zeros(last - first, bool)
        for begin, end in inside:
            assert not heard[begin - first : end - first].any(), "pieces overlap"
            heard[begin - first : end - first] = True
            assert end - begin <= rule.longest_s * SAMPLE_RATE + 2 * margin + WINDOW
        for window in np.flatnonzero(~pauses):
            place = window * WINDOW
            if first <= place < last:
                assert heard[place - first : place - first + WINDOW].all(), "speech is lost"
        for _, end in inside[:-1]:
            window = min(end // WINDOW, len(chances) - 1)
            long_without_pause = end - first >= (rule.longest_s - 10) * SAMPLE_RATE
            assert pauses[max(0, window - 1) : window + 1].any() or long_without_pause


def test_a_cut_in_a_pause_that_is_just_beginning_leaves_the_next_word_whole() -> None:
    chances = [0.9] * 184 + [0.01] * 6 + [0.9] * 50
    rule = replace(RULE, most_s=6.0)  # 187 windows, in the middle of the pause
    found = places(list(find_pieces(blocks_of(np.zeros(240 * WINDOW, np.float32)), ToldDetector(chances), rule)))
    assert len(found) == 2
    assert 184 * WINDOW <= found[0][1] <= found[1][0] <= 190 * WINDOW


def test_speech_without_any_pause_is_cut_where_it_is_least_likely() -> None:
    chances = [0.9] * 2000
    chances[1800] = 0.6
    rule = replace(RULE, most_s=10, longest_s=60)  # 1,875 windows
    found = places(list(find_pieces(blocks_of(np.zeros(2000 * WINDOW, np.float32)), ToldDetector(chances), rule)))
    assert found == [(0, 1800 * WINDOW), (1800 * WINDOW, 2000 * WINDOW)]


def test_a_gap_in_the_sound_ends_a_piece_and_times_go_on_behind_it() -> None:
    blocks = [*blocks_of(np.ones(100 * WINDOW, np.float32)), *blocks_of(np.ones(50 * WINDOW, np.float32), (), 60.0)]
    found = list(find_pieces(blocks, ToldDetector([0.9] * 150), RULE))
    assert [(piece.start_s, len(piece.samples)) for piece in found] == [(0, 100 * WINDOW), (60, 50 * WINDOW)]


def test_silence_and_noise_hold_no_speech_and_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    look = voice._Run._look

    def noted(run: voice._Run, samples: FloatArray) -> Iterator[SpeechPiece]:
        held.append(len(run._held))
        return look(run, samples)

    monkeypatch.setattr(voice._Run, "_look", noted)
    noise = np.random.default_rng(0).normal(0, 0.1, 60 * SAMPLE_RATE).astype(np.float32)
    samples = np.concatenate([np.zeros(240 * SAMPLE_RATE, np.float32), noise])
    blocks = blocks_of(samples, range(0, len(samples), 10 * SAMPLE_RATE))
    assert list(find_pieces(blocks, VoiceDetector(), RULE)) == []
    assert max(held) <= 11 * SAMPLE_RATE


def test_what_is_said_is_found_where_it_is_said() -> None:
    if not can_speak():
        pytest.skip("espeak-ng is not here (pip install espeakng-loader)")
    spoken = speak_text("A small red circle moves slowly to the left of the picture.")
    silence = np.zeros(4 * SAMPLE_RATE, np.float32)
    found = list(find_pieces(blocks_of(np.concatenate([silence, spoken, silence, spoken])), VoiceDetector(), RULE))
    begins = [4.0, 8.0 + len(spoken) / SAMPLE_RATE]
    assert len(found) == 2
    for piece, begin in zip(found, begins, strict=True):
        assert piece.start_s == pytest.approx(begin - 0.4, abs=0.4)
        assert piece.end_s == pytest.approx(begin + len(spoken) / SAMPLE_RATE + 0.2, abs=0.5)


def test_without_the_wheel_of_the_detector_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice, "importlib", SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None)))
    with pytest.raises(EncoderError, match=r"pip install 'evenreel\[speech\]'"):
        VoiceDetector()
