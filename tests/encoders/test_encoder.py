from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from transformers import CLIPImageProcessorPil, SiglipImageProcessorPil

from evenreel.edits.removal import PatchMask
from evenreel.encoders import load_encoder
from evenreel.encoders.checkpoint import FAMILIES, Preprocessing, read_preprocessing
from evenreel.encoders.towers import TowerEncoder, Towers
from evenreel.errors import EncoderError, UsageError
from evenreel.types import Encoder, Pixels
from tests.each import of_each
from tests.tiny_checkpoints import SIDE

CAPTIONS = ["a red ball", "the dog runs over the bridge", "Blue TRAIN!", "", "a ball " * 60]
LIMITS = {"clip": 77, "siglip": 64}


def frames(count: int = 5, height: int = SIDE, width: int = SIDE) -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (count, 3, height, width), dtype=np.uint8)


def test_rows_have_unit_length_and_are_the_same_again(encoder: TowerEncoder) -> None:
    pixels = frames()[:, None]
    rows = encoder.encode_windows(pixels)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert rows.tobytes() == encoder.encode_windows(pixels).tobytes()
    np.testing.assert_allclose(np.linalg.norm(encoder.encode_text(CAPTIONS).sentence, axis=1), 1, atol=1e-6)


def test_nothing_in_nothing_out(encoder: TowerEncoder) -> None:
    assert encoder.encode_windows(frames(0)[:, None]).shape == (0, encoder.dimension)
    none = encoder.encode_text([])
    assert none.words.shape == (0, 0, encoder.dimension)
    assert (none.word_mask.shape, none.sentence.shape) == ((0, 0), (0, encoder.dimension))
    assert encoder.truncated([]) == []


@pytest.mark.parametrize(
    "pixels",
    [frames().astype(np.float32), frames()[0], frames().transpose(0, 2, 3, 1), np.zeros((1, 3, 0, 5), np.uint8)],
    ids=["floats", "one frame", "channels last", "no rows"],
)
def test_input_of_another_form_is_refused(builtin: Encoder, encoder: TowerEncoder, pixels: Any) -> None:
    for one in (builtin, encoder):
        with pytest.raises(UsageError, match=r"Frames are \(N, T, 3, H, W\) uint8, not"):
            one.encode_windows(pixels[:, None])
        with pytest.raises(UsageError, match="takes single pictures, and these have 2 frames"):
            one.encode_windows(np.stack([frames(2), frames(2)]))
        with pytest.raises(UsageError, match="a sequence of strings"):
            one.encode_text("a red ball")


def test_long_captions_are_cut_and_said_to_be(encoder: TowerEncoder, family: str) -> None:
    limit = LIMITS[family]
    assert isinstance(encoder._towers, Towers)
    tokenizer = encoder._towers.tokenizer
    marks = len(tokenizer("")["input_ids"])
    captions = ["a " * count for count in (limit // 2 - marks, limit + 1, 10 * limit)]
    assert encoder.truncated(captions) == [False, True, True]
    assert encoder.encode_text(captions).word_mask.sum(axis=1).max() == limit
    if family == "clip":  # a sentence is read off the mark at its end, which a cut keeps
        assert encoder._towers.tokens(["ball " * 200])["input_ids"][0, -1] == tokenizer.eos_token_id


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "🚂 日本 \u202e", "\x1b[31m", "it's  \t\n"])
def test_any_string_is_a_caption(encoder: TowerEncoder, text: str) -> None:
    assert np.isfinite(encoder.encode_text([text]).sentence).all()


def test_a_lower_precision_is_close(checkpoints: dict[str, Path], family: str) -> None:
    pixels = frames(3, 50, 40)[:, None]
    exact, rough = (load_encoder(str(checkpoints[family]), precision=name) for name in ("float32", "bfloat16"))
    similarity = (exact.encode_windows(pixels) * rough.encode_windows(pixels)).sum(axis=1)
    assert 0.99 < similarity.min() < 1
    assert rough.encode_text(CAPTIONS).sentence.dtype == np.float32
    assert rough.weights_hash == exact.weights_hash


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"precision": "int4"}, "'int4' is not one of auto, float32, bfloat16, float16, int8"),
        ({"precision": "float16", "device": "cpu"}, "float16 needs a GPU"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here"),
        ({"device": "cuda:99"}, "device 'cuda:99' cannot be used here"),
        ({"batch_size": 0}, "batch size is 0"),
    ],
)
def test_options_that_cannot_be_met_are_refused(
    checkpoints: dict[str, Path], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        load_encoder(str(checkpoints["clip"]), **options)


def test_batches_halve_when_memory_runs_out(
    encoder: TowerEncoder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = encoder.encode_windows(frames(9)[:, None])
    real, sizes, most = Towers.window_features, list[int](), 2

    def small_only(self: Towers, pixels: Pixels) -> torch.Tensor:
        sizes.append(len(pixels))
        if len(pixels) > most:
            raise torch.OutOfMemoryError
        return real(self, pixels)

    monkeypatch.setattr(Towers, "window_features", small_only)
    with caplog.at_level(logging.WARNING, "evenreel"):
        np.testing.assert_allclose(encoder.encode_windows(frames(9)[:, None]), expected, atol=2e-6)
    assert sizes == [9, 9, 8, 4, 2, 2, 2, 2, 1]  # the batch goes 32, 16, 8, 4, 2
    assert encoder.batch_size == 2
    assert "memory ran out, going on with 2 at a time" in caplog.text
    most = 0
    with pytest.raises(EncoderError, match="does not suffice to encode a single frame"):
        encoder.encode_windows(frames(3)[:, None])


@pytest.mark.parametrize("trouble", [torch.OutOfMemoryError, getattr(torch, "AcceleratorError", RuntimeError)])
def test_a_gpu_that_fails_is_replaced_by_the_cpu_and_no_frame_is_lost(
    encoder: TowerEncoder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, trouble: type[Exception]
) -> None:
    if trouble is RuntimeError:
        pytest.skip("torch before 2.8 has no such error")
    expected, expected_text = encoder.encode_windows(frames(5)[:, None]), encoder.encode_text(CAPTIONS).sentence
    real = Towers.window_features

    def no_gpu(self: Towers, pixels: Pixels) -> torch.Tensor:
        if self.device.type == "cuda":
            raise trouble("CUDA error: unspecified launch failure")
        return real(self, pixels)

    monkeypatch.setattr(Towers, "window_features", no_gpu)
    encoder._towers = dataclasses.replace(encoder._towers, device=torch.device("cuda"), precision="float16")
    with caplog.at_level(logging.WARNING, "evenreel"):
        np.testing.assert_allclose(encoder.encode_windows(frames(5)[:, None]), expected, atol=2e-6)
    assert encoder.device == "cpu"
    assert "the device cuda fails" in caplog.text
    np.testing.assert_allclose(encoder.encode_text(CAPTIONS).sentence, expected_text, atol=2e-6)


TOO_LARGE = """
import resource, sys
import numpy as np
import psutil
from evenreel.encoders import load_encoder

encoder = load_encoder("builtin", device=sys.argv[1], batch_size=2048)
pixels = np.random.default_rng(0).integers(0, 256, (1024, 1, 3, 16, 16), dtype=np.uint8)
some = encoder.encode_windows(pixels[:32])
encoder.encode_text(["a red ball"])
used = psutil.Process().memory_info().vms
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), -1))
found = encoder.encode_windows(pixels)
np.testing.assert_allclose(found[:32], some, atol=2e-6)
print(len(found), encoder.batch_size < 2048)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is one of Linux")
@pytest.mark.parametrize("device", ["auto", pytest.param("cpu:0", marks=pytest.mark.slow)])  # ONNX Runtime, torch
def test_batches_halve_where_memory_really_runs_out(device: str) -> None:
    done = subprocess.run([sys.executable, "-c", TOO_LARGE, device], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1024", "True"]
    assert "memory ran out, going on with 1024 at a time" in done.stderr


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_a_feature_that_is_no_number_never_leaves(
    encoder: TowerEncoder, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    seen, read = Towers.window_features, Towers.text_features

    def spoiled(self: Towers, pixels: Pixels) -> torch.Tensor:
        rows = seen(self, pixels).clone()
        rows[1] = value
        return rows

    def spoiled_text(self: Towers, ids: Any, mask: Any) -> tuple[torch.Tensor, torch.Tensor]:
        words, sentence = read(self, ids, mask)
        return words, sentence * value

    monkeypatch.setattr(Towers, "window_features", spoiled)
    monkeypatch.setattr(Towers, "text_features", spoiled_text)
    with pytest.raises(EncoderError, match="not a number, or zero, for a frame"):
        encoder.encode_windows(frames(3)[:, None])
    with pytest.raises(EncoderError, match="not a number, or zero, for a caption"):
        encoder.encode_text(["a red ball"])


ORACLES: dict[str, Any] = {"clip": CLIPImageProcessorPil, "siglip": SiglipImageProcessorPil}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "clip": ("clip", {}),
    "clip bilinear 336": ("clip", {"size": {"shortest_edge": 336}, "crop_size": 336, "resample": 2}),
    "clip old form": ("clip", {"size": 64, "crop_size": 64, "resample": 3, "do_center_crop": True}),
    "clip squashed": ("clip", {"size": {"height": 48, "width": 64}, "do_center_crop": False}),
    "clip wider cut than picture": ("clip", {"size": {"shortest_edge": 48}, "crop_size": 65}),
    "clip cut only": ("clip", {"do_resize": False, "crop_size": {"height": 50, "width": 31}}),
    "clip bare": ("clip", {"do_normalize": False, "do_rescale": False}),
    "siglip": ("siglip", {}),
    "siglip 2": ("siglip", {"size": {"height": 256, "width": 256}, "resample": 2}),
    "siglip oblong": ("siglip", {"size": {"height": 40, "width": 70}}),
}
SHAPES = [(224, 224), (240, 320), (100, 37), (37, 53), (225, 223), (1080, 1920), (721, 1281), (3, 500), (500, 3)]
SHAPES += [(1, 1), (16, 17), (640, 360), (900, 300)]


def noise(height: int, width: int) -> Pixels:
    """Black and white at random: the picture on which filters overshoot most."""
    return (np.random.default_rng(0).integers(0, 2, (3, height, width)) * 255).astype(np.uint8)


def difference(pixels: Pixels, name: str) -> float:
    """Largest difference to the oracle, in steps of 1/255 before normalisation."""
    family, settings = SETTINGS[name]
    oracle = ORACLES[family](**settings)
    expected = oracle(pixels, return_tensors="np", input_data_format="channels_first")["pixel_values"][0]
    how = read_preprocessing(settings, FAMILIES[family])
    found = how.prepare(pixels[None])[0]
    assert found.shape == expected.shape and found.dtype == np.float32
    return float((np.abs(found - expected) * np.array(how.std)[:, None, None] / how.scale).max())


@of_each(product(SETTINGS, SHAPES))
def test_at_most_one_step_from_the_processor(name: str, shape: tuple[int, int]) -> None:
    assert difference(noise(*shape), name) <= 1.001


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_at_most_one_step_on_real_frames(name: str, real_clips: Path) -> None:
    frames = [frame for path in sorted(real_clips.glob("*.*")) if (frame := first_frame(path)) is not None]
    assert len(frames) >= 10
    assert max(difference(frame, name) for frame in frames) <= 1.001


def first_frame(path: Path) -> Pixels | None:
    try:
        with av.open(str(path)) as container:
            picture = next(container.decode(video=0)).to_ndarray(format="rgb24")
    except (av.FFmpegError, IndexError, StopIteration):
        return None
    return np.ascontiguousarray(picture.transpose(2, 0, 1))


@given(height=st.integers(1, 90), width=st.integers(1, 90), crop=st.integers(1, 90))
def test_what_is_seen_is_what_changes_the_result(height: int, width: int, crop: int) -> None:
    how = read_preprocessing({"size": {"shortest_edge": 24}, "crop_size": crop}, FAMILIES["clip"])
    left, top, right, bottom = how.seen_box(height, width)
    assert 0 <= left < right <= width and 0 <= top < bottom <= height
    inside = np.zeros((1, 3, height, width), np.uint8)
    around = 2 * max(1.0, min(height, width) / 24) + 1  # a cubic filter reaches two pixels of the smaller picture
    rows, columns = (
        slice(max(0, int(low - around)), int(high + around) + 1) for low, high in ((top, bottom), (left, right))
    )
    inside[..., rows, columns] = 255
    made = how.resize(inside)
    assert made.shape == (1, 3, crop, crop)
    assert made[..., crop // 2, crop // 2].min() == 255


def test_a_frame_of_extreme_shape_takes_no_memory_for_what_is_cut_away() -> None:
    pixels = noise(1, 16_000)  # resized whole it would be 224 x 3 584 000
    assert read_preprocessing({}, FAMILIES["clip"]).resize(pixels[None]).shape == (1, 3, 224, 224)


def test_settings_that_are_not_given_are_those_of_the_family() -> None:
    clip, siglip = FAMILIES["clip"], FAMILIES["siglip"]
    assert read_preprocessing({"crop_size": None, "resample": None}, clip) == read_preprocessing({}, clip)
    halves = (0.5, 0.5, 0.5)
    assert read_preprocessing({}, siglip) == Preprocessing(None, (224, 224), None, 3, 1 / 255, halves, halves)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"resample": 1}, "resizes with filter 1"),
        ({"do_pad": True}, "pads pictures"),
        ({"size": {"longest_edge": 5}}, "make no sense"),
        ({"size": {"shortest_edge": 0}}, "make no sense"),
        ({"size": "large"}, "make no sense"),
        ({"image_mean": [0.5]}, "make no sense"),
        ({"image_std": [0.5, 0.0, 0.5]}, "make no sense"),
        ({"image_std": [0.5, "x", float("nan")]}, "make no sense"),
        ({"do_center_crop": False}, "varying size"),
        ({"do_resize": False, "do_center_crop": False}, "varying size"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(EncoderError, match=sentence):
        read_preprocessing(settings, FAMILIES["clip"])


GRID = SIDE // 8


def one_patch_left(model: Any, inputs: torch.Tensor, patch: int) -> torch.Tensor:
    """By the tower's own attention, from which all other tokens are hidden."""
    if hasattr(model, "visual_projection"):
        vision, layer = model.vision_model, model.vision_model.encoder.layers[-1]
        tokens = vision(pixel_values=inputs, output_hidden_states=True).hidden_states[-2]
        hidden = torch.full((1, 1, *[tokens.shape[1]] * 2), -torch.inf)
        hidden[..., patch + 1] = 0.0
        attended = layer.self_attn(layer.layer_norm1(tokens), hidden)[0][:, 0]
        return model.visual_projection(  # type: ignore[no-any-return]
            vision.post_layernorm(attended + layer.mlp(layer.layer_norm2(attended)))
        )
    tokens, head = model.vision_model(pixel_values=inputs).last_hidden_state, model.vision_model.head
    hidden = torch.arange(tokens.shape[1])[None].expand(len(tokens), -1) != patch
    attended = head.attention(head.probe.expand(len(tokens), -1, -1), tokens, tokens, key_padding_mask=hidden)[0]
    return (attended + head.mlp(head.layernorm(attended)))[:, 0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("whole", [False, True])
def test_a_patch_is_what_attention_gives_that_sees_nothing_else(encoder: TowerEncoder, whole: bool) -> None:
    pixels = frames(3, 40, 56)
    towers = encoder._towers
    preprocessing = towers.preprocessing
    squeezed = replace(preprocessing, shortest_edge=None, resized=(SIDE, SIDE), crop=None)
    inputs = torch.from_numpy((squeezed if whole else preprocessing).prepare(pixels))
    with torch.inference_mode():
        slow = [F.normalize(one_patch_left(towers.model, inputs, patch), dim=-1) for patch in range(GRID * GRID)]
    found = encoder.encode_patches(pixels, whole=whole)
    assert found.shape == (3, GRID, GRID, encoder.dimension) and found.dtype == np.float32
    np.testing.assert_allclose(found.reshape(3, GRID * GRID, -1), torch.stack(slow, 1).numpy(), atol=2e-5)


def test_patches_do_not_depend_on_the_batch(encoder: TowerEncoder) -> None:
    pixels = frames(3, 40, 56)
    alone = np.concatenate([encoder.encode_patches(pixels[row : row + 1]) for row in range(3)])
    np.testing.assert_allclose(encoder.encode_patches(pixels), alone, atol=1e-5)
    assert encoder.encode_patches(pixels[:0]).shape == (0, GRID, GRID, encoder.dimension)
    with pytest.raises(UsageError, match="Frames are"):
        encoder.encode_patches(pixels[0])


def test_the_part_that_the_tower_sees(checkpoints: dict[str, Path]) -> None:
    """CLIP cuts the middle square out; outside of it nothing can be changed that the tower would see."""
    clip, siglip = (load_encoder(str(checkpoints[family]), device="cpu") for family in ("clip", "siglip"))
    assert clip.seen_box(64, 128) == (32.0, 0.0, 96.0, 64.0)
    assert clip.seen_box(96, 64) == (0.0, 16.0, 64.0, 80.0)
    assert siglip.seen_box(64, 128) == (0.0, 0.0, 128.0, 64.0)
    pixels = frames(2, 64, 128)
    outside = pixels.copy()
    outside[..., :28], outside[..., 100:] = 0, 255  # a filter of the resizing reaches a little further
    np.testing.assert_array_equal(clip.encode_patches(outside), clip.encode_patches(pixels))


def test_the_named_thing_is_found_where_it_is(builtin: TowerEncoder, circles: tuple[Pixels, PatchMask]) -> None:
    """The patch that fits `a red circle` best lies on it in most scenes; one of nine patches does."""
    pictures, on_it = circles
    fit = builtin.encode_patches(pictures) @ builtin.encode_text(["a red circle"]).sentence[0]
    best = fit.reshape(len(pictures), -1).argmax(axis=1)
    hits = on_it.reshape(len(pictures), -1)[np.arange(len(pictures)), best]
    assert hits.mean() > 4 * on_it.mean()
