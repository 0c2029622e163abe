"""CLAP's vectors are those of transformers' own processor and model, one window at a time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from evenreel.errors import EncoderError
from evenreel.sound import load_sound_encoder, sound_model_here
from tests.sound.clap_models import RATE, TONES, tone, write_clap
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
        heard = [
            model.get_audio_features(**processor(audio=window, sampling_rate=RATE, return_tensors="pt")).pooler_output[
                0
            ]
            for window in windows
        ]
        read = [
            model.get_text_features(**processor(text=one, return_tensors="pt")).pooler_output[0] for one in sentences
        ]
    unit = [[(row / row.norm()).numpy() for row in rows] for rows in (heard, read)]
    found = encoder.encode_sound(windows)
    assert found.shape == (len(windows), encoder.dimension)
    np.testing.assert_allclose(found, unit[0], atol=2e-5)
    text = encoder.encode_text(sentences)
    np.testing.assert_allclose(text.sentence, unit[1], atol=2e-5)
    assert text.words.shape == (2, 1, encoder.dimension)
    assert text.word_mask.all()


def test_a_sentence_meets_the_tone_that_it_names(folder: Path) -> None:
    encoder = load_sound_encoder(str(folder), device="cpu")
    windows = encoder.encode_sound([tone(pitch, 10.0, seed=17) for pitch in TONES.values()])
    assert (encoder.encode_text(list(TONES)).sentence @ windows.T).argmax(1).tolist() == [0, 1, 2, 3]


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
    with pytest.raises(EncoderError, match=r"is of the kind .?clip.?, which hears no sounds; name a CLAP model"):
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
