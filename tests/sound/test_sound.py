"""A model of sounds gives the vectors of transformers' own parts; sound is cut into windows on the clip's clock."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import EncoderError, MediaError
from evenreel.media.sound import SoundBlock
from evenreel.sound import SoundWindows, cut_windows, load_sound_encoder, read_sounds, sound_model_here, sound_worker
from tests.sound.clap_models import RATE, TONES, tone, write_clap
from tests.sound_files import Track, write_sound
from tests.tiny_checkpoints import tiny_clip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clap(tmp_path_factory.mktemp("clap"), listens=True)


def test_vectors_are_those_of_a_plain_loop_over_transformers_own_parts(folder: Path) -> None:
    from transformers import ClapModel, ClapProcessor

    encoder, sentences = load_sound_encoder(str(folder), device="cpu"), ["a dog", "rain of the high beep nothing"]
    windows = [tone(440.0, length_s, seed=1) for length_s in (10.0, 10.0, 7.3, 0.4, 10.0, 2.0, 9.9, 10.0, 4.0)]
    model, processor = ClapModel.from_pretrained(folder).eval(), ClapProcessor.from_pretrained(folder)
    with torch.no_grad():
        given = [processor(audio=window, sampling_rate=RATE, return_tensors="pt") for window in windows]
        heard = [model.get_audio_features(**one).pooler_output[0] for one in given]
        given = [processor(text=one, return_tensors="pt") for one in sentences]
        read = [model.get_text_features(**one).pooler_output[0] for one in given]
    unit = [[(row / row.norm()).numpy() for row in rows] for rows in (heard, read)]
    found = encoder.encode_sound(windows)
    assert found.shape == (len(windows), encoder.dimension)
    np.testing.assert_allclose(found, unit[0], atol=2e-5)
    text = encoder.encode_text(sentences)
    np.testing.assert_allclose(text.sentence, unit[1], atol=2e-5)


def test_a_fusing_model_gives_a_window_the_same_vector_beside_any_others(tmp_path: Path) -> None:
    encoder = load_sound_encoder(str(write_clap(tmp_path / "fusing", fusion=True)), device="cpu")
    windows = [tone(pitch, 10.0) for pitch in (200.0, 1000.0, 3000.0)]
    alone = np.concatenate([encoder.encode_sound([one]) for one in windows])
    np.testing.assert_allclose(encoder.encode_sound(windows), alone, atol=1e-5)


def test_a_long_sentence_is_cut_and_told(folder: Path) -> None:
    encoder = load_sound_encoder(str(folder), device="cpu")
    long = " ".join(["dog"] * 31 + ["rain"])
    assert encoder.truncated(["a dog", long]) == [False, True]
    both = encoder.encode_text([long, long.replace("rain", "beep")]).sentence
    np.testing.assert_array_equal(both[0], both[1])  # what differs is behind the end


def test_the_digest_changes_with_weights_and_settings(folder: Path, tmp_path: Path) -> None:
    known = load_sound_encoder(str(folder), device="cpu").weights_hash
    other = shutil.copytree(folder, tmp_path / "copy")
    assert load_sound_encoder(str(other), device="cpu").weights_hash == known
    settings = json.loads((other / "processor_config.json").read_text())
    settings["feature_extractor"]["frequency_min"] = 60
    (other / "processor_config.json").write_text(json.dumps(settings))
    assert load_sound_encoder(str(other), device="cpu").weights_hash != known


def test_what_is_no_model_of_sounds_is_refused_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    clip = tmp_path / "clip"
    tiny_clip(clip)
    with pytest.raises(EncoderError, match="is of the kind 'clip'; the kinds .* are clap"):
        load_sound_encoder(str(clip))
    cut = shutil.copytree(folder, tmp_path / "cut")
    (cut / "model.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"has no model\.safetensors"):
        load_sound_encoder(str(cut))
    with pytest.raises(EncoderError):
        load_sound_encoder(str(tmp_path / "nowhere"))
    with pytest.raises(EncoderError, match="must have 1 to 480000 samples"):
        load_sound_encoder(str(folder), device="cpu").encode_sound([np.zeros(480_001, np.float32)])
    assert sound_model_here(str(folder))
    assert not sound_model_here(str(clip))
    assert not sound_model_here(str(tmp_path / "nowhere"))


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


def test_a_beep_is_in_the_windows_that_hold_it(tmp_path: Path, folder: Path) -> None:
    encoder = load_sound_encoder(str(folder), device="cpu")
    samples = np.concatenate([tone(0.0, 12.0, 44_100), tone(3_000.0, 10.0, 44_100), tone(0.0, 2.9, 44_100)])
    path = write_sound(tmp_path / "a.mkv", [Track(samples, rate=44_100, codec="flac")])
    with closing(sound_worker(encoder.windows)) as worker:
        found = read_sounds(worker, path, encoder)
    np.testing.assert_allclose(found.spans_s, [[0.0, 10.0], [5.0, 15.0], [10.0, 20.0], [15.0, 24.9]], atol=0.01)
    scores = found.vectors @ encoder.encode_text(list(TONES)).sentence[2]
    assert scores.argmax() in (2, 3)
    assert scores[2] > scores[0] + 0.2


def test_sound_that_cannot_be_heard_is_one_sentence(tmp_path: Path, folder: Path) -> None:
    encoder = load_sound_encoder(str(folder), device="cpu")
    mute = write_sound(tmp_path / "mute.mkv", [])
    silent = write_sound(tmp_path / "silent.mkv", [Track(np.zeros(96_000, np.float32), rate=48_000, codec="flac")])
    with closing(sound_worker(encoder.windows)) as worker:
        for path, sentence in ((mute, "it has no sound stream"), (silent, "its sound is silent throughout")):
            with pytest.raises(MediaError, match=f"^{sentence}$"):
                read_sounds(worker, path, encoder)
