"""Sound is cut into windows on the clip's clock, whatever the blocks are, and read in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import MediaError
from evenreel.media.sound import SoundBlock
from evenreel.sound import (
    SoundWindow,
    SoundWindows,
    cut_windows,
    load_sound_encoder,
    read_sounds,
    sound_worker,
)
from tests.sound.clap_models import TONES, tone, write_clap
from tests.sound_files import Track, write_sound

SMALL = SoundWindows(sample_rate=10, length=10, hop=5)


def by_hand(stretches: list[tuple[float, list[float]]]) -> Iterator[tuple[float, list[float]]]:
    """Every half window from the start of each stretch on, until a window reaches its end."""
    for start_s, samples in stretches:
        for first in range(0, len(samples), SMALL.hop):
            yield start_s + first / SMALL.sample_rate, samples[first : first + SMALL.length]
            if first + SMALL.length >= len(samples):
                break


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=3),
    st.lists(st.integers(1, 17), min_size=1, max_size=6),
)
def test_windows_are_those_cut_by_hand_whatever_the_blocks(shape: list[tuple[int, int]], steps: list[int]) -> None:
    stretches, blocks, now = list[tuple[float, list[float]]](), list[SoundBlock](), 0
    for length, gap in shape:
        samples = [float(now + place) for place in range(length)]
        stretches.append((now / 10, samples))
        first, turn = 0, 0
        while first < length:
            step = steps[turn % len(steps)]
            blocks.append(SoundBlock((now + first) / 10, np.array(samples[first : first + step], np.float32), 10))
            first, turn = first + step, turn + 1
        now += length + gap
    found = list(cut_windows(blocks, SMALL))
    assert [(round(one.start_s, 6), one.samples.tolist()) for one in found] == [
        (round(start_s, 6), samples) for start_s, samples in by_hand(stretches)
    ]
    assert all(one.end_s == pytest.approx(one.start_s + len(one.samples) / 10) for one in found)


def test_what_is_silent_is_told() -> None:
    assert SoundWindow(0.0, 1.0, np.full(10, 1e-5, np.float32)).is_silent
    assert not SoundWindow(0.0, 1.0, np.full(10, 1e-3, np.float32)).is_silent


@pytest.fixture(scope="module")
def clap(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_clap(tmp_path_factory.mktemp("clap"), listens=True))


def test_a_beep_is_in_the_windows_that_hold_it(tmp_path: Path, clap: str) -> None:
    encoder = load_sound_encoder(clap, device="cpu")
    samples = np.concatenate([tone(0.0, 12.0), tone(3_000.0, 10.0), tone(0.0, 3.0)])
    path = write_sound(tmp_path / "a.mkv", [Track(samples, rate=48_000, codec="flac")])
    with closing(sound_worker(encoder.windows)) as worker:
        found = read_sounds(worker, path, encoder)
    assert found.spans_s.tolist() == [[0.0, 10.0], [5.0, 15.0], [10.0, 20.0], [15.0, 25.0]]
    scores = found.vectors @ encoder.encode_text(list(TONES)).sentence[2]
    assert scores.argmax() in (2, 3)
    assert scores[2] > scores[0] + 0.2


def test_sound_that_cannot_be_heard_is_one_sentence(tmp_path: Path, clap: str) -> None:
    encoder = load_sound_encoder(clap, device="cpu")
    mute = write_sound(tmp_path / "mute.mkv", [])
    silent = write_sound(tmp_path / "silent.mkv", [Track(np.zeros(96_000, np.float32), rate=48_000, codec="flac")])
    with closing(sound_worker(encoder.windows)) as worker:
        for path, sentence in ((mute, "it has no sound stream"), (silent, "its sound is silent throughout")):
            with pytest.raises(MediaError, match=f"^{sentence}$"):
                read_sounds(worker, path, encoder)


@pytest.mark.parametrize(("rate", "layout"), [(8_000, "mono"), (48_000, "5.1")])
def test_any_rate_and_layout_becomes_one_channel_at_the_models_rate(
    tmp_path: Path, clap: str, rate: int, layout: str
) -> None:
    encoder, one = load_sound_encoder(clap, device="cpu"), tone(1_000.0, 6.0, rate)
    samples = one if layout == "mono" else np.stack([one] * 6)
    path = write_sound(tmp_path / "a.mkv", [Track(samples, rate=rate, codec="flac", layout=layout)])
    with closing(sound_worker(encoder.windows)) as worker:
        found = read_sounds(worker, path, encoder)
    assert found.spans_s[0].tolist() == pytest.approx([0.0, 6.0], abs=0.01)
    assert (encoder.encode_text(list(TONES)).sentence @ found.vectors[0]).argmax() == 1
