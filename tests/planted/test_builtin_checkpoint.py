"""The encoder inside the package: small, in transformers' form, right about what it was trained to see."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import evenreel
from evenreel.encoders import load_encoder
from evenreel.planted import Entity, Scene, SceneRanges, SignBoard, caption, draw_frame, sample_scene, vocabulary
from evenreel.types import Encoder
from scripts.builtin_encoder.frames import shrink
from scripts.builtin_encoder.model import DEVIATION, MEAN

CHECKPOINT = Path(evenreel.__file__).parent / "encoders/builtin/checkpoint"
JUDGED = ("colour", "shape", "background")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder("builtin")


@cache
def _unseen(count: int) -> list[Scene]:
    rng = np.random.default_rng(20_260_101)
    return [sample_scene(rng, SceneRanges(sign_share=0.3)) for _ in range(count)]


def _first(encoder: Encoder, captions: list[str], scenes: list[Scene], frames: int = 4) -> list[Scene]:
    """The scene whose mean over frames fits each caption best."""
    times = (np.arange(frames) + 0.5) / frames
    pixels = np.stack([draw_frame(scene, part * scene.duration_s) for scene in scenes for part in times])
    video = encoder.encode_windows(pixels.transpose(0, 3, 1, 2)[:, None]).reshape(len(scenes), frames, -1)
    scores = np.einsum("qd,vtd->qv", encoder.encode_text(captions).sentence, video)
    return [scenes[n] for n in scores.argmax(axis=1)]


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in CHECKPOINT.iterdir()) <= 8 * 2**20


def test_it_has_the_parts_that_transformers_reads_and_no_pickle() -> None:
    names = {path.name for path in CHECKPOINT.iterdir()}
    assert {"config.json", "model.safetensors", "preprocessor_config.json", "tokenizer.json", "README.md"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]
    assert json.loads((CHECKPOINT / "config.json").read_text())["architectures"] == ["CLIPModel"]


def test_the_first_video_has_what_the_caption_names(encoder: Encoder) -> None:
    """150 unseen clips; the share on 500 is in the model card."""
    scenes, rng = _unseen(150), np.random.default_rng(1)
    first = _first(encoder, [caption(scene, rng, JUDGED) for scene in scenes], scenes)
    for name, least in (("background", 0.97), ("colour", 0.85), ("shape", 0.85)):
        share = np.mean([a.attributes[name] == b.attributes[name] for a, b in zip(scenes, first, strict=True)])
        assert share >= least, f"{name}: {share:.2f}"


def test_it_does_not_read(encoder: Encoder) -> None:
    """Of two pictures that differ in their sign alone, it prefers the one that says the query about as often as not."""
    rng = np.random.default_rng(2)
    words = [*vocabulary.colours(), *vocabulary.shapes(), *(w.lower() for w in vocabulary.sign_words()[:8])]
    pairs = [rng.choice(len(words), 2, replace=False) for _ in range(120)]
    signed = [
        draw_frame(replace(scene, signs=(SignBoard(words[n].upper(), height=0.13),)), 1.0)
        for scene, pair in zip(_unseen(120), pairs, strict=True)
        for n in pair
    ]
    frames = encoder.encode_windows(np.stack(signed).transpose(0, 3, 1, 2)[:, None]).reshape(120, 2, -1)
    text = encoder.encode_text([words[pair[0]] for pair in pairs]).sentence
    scores = np.einsum("qd,qtd->qt", text, frames)
    share = np.mean(scores[:, 0] > scores[:, 1])
    # three standard deviations of 120 fair coins
    assert abs(share - 0.5) < 3 * 0.5 / np.sqrt(120)


@pytest.mark.parametrize("text", ["Æther naïve 日本 🙂", "", "RED STAR!!!", "hyundai", "word " * 500])
def test_any_text_can_be_encoded(encoder: Encoder, text: str) -> None:
    sentence = encoder.encode_text([text]).sentence
    assert np.isfinite(sentence).all()
    assert np.allclose(np.linalg.norm(sentence, axis=1), 1, atol=1e-4)


def test_each_word_of_the_grammar_is_one_token() -> None:
    from transformers import CLIPTokenizer

    tokenizer = CLIPTokenizer.from_pretrained(CHECKPOINT)
    rng = np.random.default_rng(4)
    for scene in _unseen(50):
        text = caption(scene, rng, JUDGED)
        words = text.replace(",", " ,").replace("-", " - ").split()
        assert len(tokenizer(text)["input_ids"]) == len(words) + 2


def test_training_shrinks_frames_as_the_checkpoint_says() -> None:
    from transformers import CLIPImageProcessor

    processor = CLIPImageProcessor.from_pretrained(CHECKPOINT)
    for width, height in ((320, 240), (256, 256), (214, 120), (160, 120)):
        scene = Scene((Entity("star", "red", "large"),), "rests", "city", width=width, height=height)
        picture = Image.fromarray(draw_frame(scene, 0.0))
        theirs = np.asarray(processor(picture, return_tensors="np")["pixel_values"][0])
        ours = (shrink(picture) / 255.0 - MEAN) / DEVIATION
        assert np.abs(theirs - ours).max() < 1e-5
