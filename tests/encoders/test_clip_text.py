"""The text tower that is read without transformers gives what transformers gives, bit for bit, or stands back."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenreel.encoders import load_encoder
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.clip_text import open_clip_text
from evenreel.encoders.clip_tokens import open_clip_tokens
from evenreel.encoders.encoder import TowerEncoder
from evenreel.encoders.sources import BUILTIN_FOLDER
from evenreel.encoders.tower_loading import TextFirstTowers
from evenreel.encoders.towers import Towers
from evenreel.errors import EncoderError
from tests.encoders.test_encoder import frames
from tests.tiny_checkpoints import tiny_clip

CPU = torch.device("cpu")
CAPTIONS = ["a red ball", "the dog runs over the bridge", "Blue TRAIN!", "", "a ball " * 60]
PIECES = [
    *("a", "red", "ball", "don't", "it'LL", "12345", "#hash...", "!!??", "\u00fc", "E\u0301", "\u0130\u00df\ufb01"),
    *("\U0001f388", "\u6771\u4eac", "\u00a0", "\t", "\x00", "<|endoftext|>", "<|STARTOFTEXT|>x", "z<|startoftext|>"),
]
captions = st.lists(
    st.one_of(st.lists(st.sampled_from(PIECES), max_size=90).map(" ".join), st.text(max_size=30)),
    min_size=1,
    max_size=5,
)


def changed(folder: Path, name: str, change: Callable[[dict[str, Any]], object]) -> Path:
    """The folder, with a change in one of its JSON files."""
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module", params=["builtin", "tiny", "early end", "gelu", "half", "as openai writes them"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kinds of CLIP's checkpoints."""
    place = tmp_path_factory.mktemp("clip")
    if request.param == "builtin":
        without = shutil.ignore_patterns("*.onnx")  # with its graphs it would not be read by torch
        return Path(shutil.copytree(BUILTIN_FOLDER, place / "model", ignore=without))
    tiny_clip(place)
    if request.param == "early end":
        changed(place, "config.json", lambda config: config["text_config"].update(eos_token_id=2))
    elif request.param == "gelu":
        changed(place, "config.json", lambda config: config["text_config"].update(hidden_act="gelu"))
    elif request.param == "half":
        from safetensors.torch import load_file, save_file

        weights = {name: tensor.half() for name, tensor in load_file(place / "model.safetensors").items()}
        save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    elif request.param == "as openai writes them":
        changed(place, "tokenizer.json", _as_openai)
    return place


def _as_openai(rules: dict[str, Any]) -> None:
    """The rules of openai/clip-vit-base-patch32, which name no marks and let the first mark be normalised."""
    split, letters = rules["pre_tokenizer"]["pretokenizers"]
    split["pattern"]["Regex"] = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    letters.pop("use_regex")
    rules["added_tokens"][0]["normalized"] = True
    rules.update(truncation=None, padding=None)


@pytest.fixture(scope="module")
def both(folder: Path) -> tuple[TowerEncoder, TowerEncoder]:
    """The encoder with its text tower alone, and as transformers loads it."""
    first, whole = (load_encoder(str(folder), device="cpu", text_first=alone) for alone in (True, False))
    assert isinstance(first._towers, TextFirstTowers) and isinstance(whole._towers, Towers)
    return first, whole


@given(texts=captions)
def test_captions_have_the_features_of_transformers_bit_for_bit(
    both: tuple[TowerEncoder, TowerEncoder], texts: list[str]
) -> None:
    alone, whole = (encoder.encode_text(texts) for encoder in both)
    assert np.array_equal(alone.words, whole.words)
    assert np.array_equal(alone.word_mask, whole.word_mask)
    assert np.array_equal(alone.sentence, whole.sentence)
    assert both[0].truncated(texts) == both[1].truncated(texts)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_so_do_batches_in_any_precision(folder: Path, precision: str) -> None:
    both = [load_encoder(str(folder), device="cpu", precision=precision, text_first=one) for one in (True, False)]
    for texts in (CAPTIONS, CAPTIONS[:1], CAPTIONS * 9):
        alone, whole = (encoder.encode_text(texts) for encoder in both)
        assert np.array_equal(alone.words, whole.words)
        assert np.array_equal(alone.sentence, whole.sentence)


def test_it_is_the_same_encoder(both: tuple[TowerEncoder, TowerEncoder]) -> None:
    alone, whole = ((one.encoder_id, one.weights_hash, one.dimension, one.device, one.precision) for one in both)
    assert alone == whole


def test_the_rest_is_read_for_the_first_frame(folder: Path) -> None:
    encoder = load_encoder(str(folder), device="cpu", text_first=True)
    expected = load_encoder(str(folder), device="cpu").encode_windows(frames(3)[:, None])
    assert "whole" not in vars(encoder._towers)
    assert np.array_equal(encoder.encode_windows(frames(3)[:, None]), expected)
    assert np.array_equal(encoder.encode_patches(frames(2)), load_encoder(str(folder)).encode_patches(frames(2)))


REFUSED: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "settings in the early form": ("config.json", lambda one: one.update(text_config_dict={"hidden_size": 32})),
    "another attention": ("config.json", lambda one: one["text_config"].update(is_causal=False)),
    "an activation": ("config.json", lambda one: one["text_config"].update(hidden_act="silu")),
    "a missing size": ("config.json", lambda one: one["text_config"].pop("hidden_size")),
    "other sizes than the weights": ("config.json", lambda one: one["text_config"].update(vocab_size=99)),
    "heads that do not divide": ("config.json", lambda one: one["text_config"].update(num_attention_heads=5)),
    "no settings of text": ("config.json", lambda one: one.update(text_config=None)),
    "another tokenizer": ("tokenizer_config.json", lambda one: one.update(tokenizer_class="BertTokenizer")),
    "words in capitals": ("tokenizer.json", lambda one: one["normalizer"]["normalizers"].pop()),
    "other pieces": ("tokenizer.json", lambda one: one["model"].update(end_of_word_suffix="</s>")),
    "other words": ("tokenizer.json", lambda one: one["pre_tokenizer"]["pretokenizers"].pop(0)),
    "no marks": ("tokenizer.json", lambda one: one.update(post_processor=None)),
    "a word more": (
        "tokenizer.json",
        lambda one: one["added_tokens"].append({**one["added_tokens"][0], "content": "<new>", "id": 9}),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_does_not_know_is_left_to_transformers(case: str, tmp_path: Path) -> None:
    folder = changed(tiny_clip(tmp_path), *REFUSED[case])
    assert open_clip_text(open_checkpoint(folder), CPU, "float32") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"normalizer": 1}', b"[" * 100_000])
def test_a_tokenizer_that_is_none_is_left_to_transformers(content: bytes, tmp_path: Path) -> None:
    (tiny_clip(tmp_path) / "tokenizer.json").write_bytes(content)
    assert open_clip_tokens(tmp_path) is None


def test_tokens_that_were_added_are_left_to_transformers(tmp_path: Path) -> None:
    (tiny_clip(tmp_path) / "added_tokens.json").write_text('{"<new>": 700}')
    assert open_clip_tokens(tmp_path) is None


def test_siglip_is_left_to_transformers(checkpoints: dict[str, Path]) -> None:
    encoder = load_encoder(str(checkpoints["siglip"]), device="cpu", text_first=True)
    assert isinstance(encoder._towers, Towers)


def test_weights_that_lack_a_tensor_are_refused_as_ever(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(tiny_clip(tmp_path) / "model.safetensors")
    weights.pop("text_model.encoder.layers.1.mlp.fc1.bias")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EncoderError, match=r"lack 1 tensors of the model, text_model.encoder.layers.1.mlp.fc1.bias"):
        load_encoder(str(tmp_path), device="cpu", text_first=True)


def test_tokens_beyond_the_vocabulary_are_one_sentence(tmp_path: Path) -> None:
    changed(tiny_clip(tmp_path), "tokenizer.json", lambda rules: rules["model"]["vocab"].update(zebra=9_999))
    encoder = load_encoder(str(tmp_path), device="cpu", text_first=True)
    encoder._towers.text.tokenizer._tokenizer.add_tokens(["zebra"])
    with pytest.raises(EncoderError, match="do not belong together"):
        encoder.encode_text(["a zebra"])


def test_words_are_read_without_transformers() -> None:
    code = (
        "import sys\n"
        "from evenreel.encoders import load_encoder\n"
        "load_encoder('builtin', device='cpu', text_first=True).encode_text(['a red ball'])\n"
        "sys.exit('transformers' if 'transformers' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
