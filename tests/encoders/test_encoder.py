"""What an encoder takes and gives: frames and captions checked, batches that halve, no feature that is no number."""

from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evenreel.encoders import load_encoder
from evenreel.encoders.towers import TowerEncoder, Towers
from evenreel.errors import EncoderError, UsageError
from evenreel.types import Encoder, Pixels
from tests.tiny_checkpoints import SIDE

CAPTIONS = ["a red ball", "the dog runs over the bridge", "Blue TRAIN!", "", "a ball " * 60]
LIMITS = {"clip": 77, "siglip": 64}


def frames(count: int = 5, height: int = SIDE, width: int = SIDE) -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (count, 3, height, width), dtype=np.uint8)


def test_it_is_an_encoder(encoder: TowerEncoder, checkpoints: dict[str, Path], family: str) -> None:
    as_protocol: Encoder = encoder
    assert as_protocol.encoder_id == str(checkpoints[family].resolve())
    assert as_protocol.dimension == {"clip": 16, "siglip": 32}[family]
    assert len(as_protocol.weights_hash) == 64
    assert encoder.device == "cpu"


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


def test_tokens_beyond_the_vocabulary_are_one_sentence(encoder: TowerEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder._towers.model.config.text_config, "vocab_size", 3)
    with pytest.raises(EncoderError, match="tokenizer and the weights .* do not belong together"):
        encoder.encode_text(["a red ball"])


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
        ({"precision": "int8"}, "'int8' is not one of float32, bfloat16, float16"),
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
