from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from evenreel.encoders import load_encoder
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.errors import EncoderError
from tests.tiny_checkpoints import tiny_siglip
from tests.tiny_families import PICTURE_FAMILIES, tiny_videoprism


def edit(path: Path, **changes: Any) -> None:
    """Change entries of a JSON file; None takes one out."""
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def digest(folder: Path) -> str:
    return open_checkpoint(folder).digest()


class Canary:
    """A pickle that makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, int]]:
        return os.open, (str(self.path), os.O_CREAT)


def lay_traps(folder: Path, canary: Path) -> None:
    """Pickles and code in every place where a careless loader would find them."""
    for name in ("pytorch_model.bin", "model.pt", "adapter_model.bin", "training_args.bin"):
        (folder / name).write_bytes(pickle.dumps(Canary(canary)))
    code = f"open({str(canary)!r}, 'w')\nclass Evil: pass\n"
    for name in ("evil.py", "modeling_evil.py", "tokenization_evil.py", "__init__.py", "setup.py"):
        (folder / name).write_text(code)
    classes = {"AutoConfig": "evil.Evil", "AutoModel": "modeling_evil.Evil", "AutoImageProcessor": "evil.Evil"}
    edit(folder / "config.json", auto_map=classes, attn_implementation="nobody/kernels")
    edit(folder / "preprocessor_config.json", auto_map={"AutoImageProcessor": "evil.Evil"})
    edit(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["tokenization_evil.Evil", None]})
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "nobody/nothing"}))


def test_neither_pickles_nor_code_in_the_folder_are_touched(
    checkpoints: dict[str, Path], clip_copy: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    lay_traps(clip_copy, canary)
    trapped, plain = load_encoder(str(clip_copy)), load_encoder(str(checkpoints["clip"]))
    captions = ["a red ball"]
    np.testing.assert_array_equal(trapped.encode_text(captions).sentence, plain.encode_text(captions).sentence)
    naflex = PICTURE_FAMILIES["siglip2"](tmp_path / "naflex")  # its processor is one of transformers
    lay_traps(naflex, canary)
    load_encoder(str(naflex)).encode_windows(np.zeros((1, 1, 3, 9, 9), np.uint8))
    assert not canary.exists()


def test_a_folder_with_a_pickle_only_is_refused_and_told_how_to_convert(clip_copy: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    lay_traps(clip_copy, canary)
    (clip_copy / "model.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"no model\.safetensors but .*pickle.*convert it once with `python -c"):
        load_encoder(str(clip_copy))
    assert not canary.exists()


@pytest.mark.parametrize("claimed", [0, 1, 2**20, 2**40, 2**63, 2**64 - 1])
def test_a_header_that_lies_about_its_length_is_refused(clip_copy: Path, claimed: int) -> None:
    weights = clip_copy / "model.safetensors"
    weights.write_bytes(struct.pack("<Q", claimed) + weights.read_bytes()[8:])
    with pytest.raises(EncoderError, match=r"weights .*model\.safetensors are cut off or damaged"):
        load_encoder(str(clip_copy))


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "/etc/passwd", "pytorch_model.bin", "", 7, "a/b.safetensors"]
)
def test_a_list_of_weights_cannot_lead_out_of_the_folder(clip_copy: Path, name: Any) -> None:
    shutil.copy(clip_copy / "model.safetensors", clip_copy.parent / "outside.safetensors")
    (clip_copy / "model.safetensors").unlink()
    (clip_copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}))
    with pytest.raises(EncoderError, match="not a safetensors file in its folder"):
        load_encoder(str(clip_copy))


def test_weights_in_several_files_are_read_together(checkpoints: dict[str, Path], clip_copy: Path) -> None:
    tensors = load_file(clip_copy / "model.safetensors")
    (clip_copy / "model.safetensors").unlink()
    names = sorted(tensors)
    halves = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, clip_copy / file)
    listed = {name: file for file, part in halves.items() for name in part}
    (clip_copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))
    whole, split = load_encoder(str(checkpoints["clip"])), load_encoder(str(clip_copy))
    # Not to the bit: where weights lie in memory decides how a processor adds up.
    np.testing.assert_allclose(split.encode_text(["a"]).sentence, whole.encode_text(["a"]).sentence, atol=1e-6)
    (clip_copy / "model-2.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"not complete: model-2\.safetensors missing"):
        load_encoder(str(clip_copy))


@pytest.mark.parametrize("part", ["text", "vision"])
def test_layers_that_nobody_has_weights_for_are_refused_before_they_are_built(
    clip_copy: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = json.loads((clip_copy / "config.json").read_text())[f"{part}_config"]
    edit(clip_copy / "config.json", **{f"{part}_config": {**settings, "num_hidden_layers": 3}})
    with pytest.raises(EncoderError, match=f"lack 16 tensors of the model, {part}_model.encoder.layers.2"):
        load_encoder(str(clip_copy))
    monkeypatch.setattr("evenreel.encoders.towers._load_auto", lambda *_: pytest.fail("a model was built"))
    for layers in (10**6, 10**18):
        edit(clip_copy / "config.json", **{f"{part}_config": {**settings, "num_hidden_layers": layers}})
        with pytest.raises(EncoderError, match=f"say that num_hidden_layers is {layers}, and it has .* tensors"):
            load_encoder(str(clip_copy))


@pytest.mark.parametrize(
    ("file", "changes", "sentence"),
    [
        ("config.json", {"model_type": "blip"}, r"of the kind 'blip'; the kinds \(model_type\) .* are clip, siglip, "),
        ("config.json", {"model_type": "jina", "auto_map": {"AutoModel": "e.E"}}, "'jina' and brings code of its own"),
        ("config.json", {"model_type": None}, "of the kind None"),
        ("config.json", {"eos_token_id": 10**400}, "64 bits are the most that is read"),
        ("config.json", {"projection_dim": 2**20}, "cannot be loaded"),
        ("config.json", {"model_type": ["clip"]}, r"of the kind \['clip'\]"),
        ("config.json", {"quantization_config": {"bits": 4}}, "is quantised"),
        ("config.json", {"text_config": "small"}, "cannot be loaded"),
        ("config.json", {"text_config": {"num_attention_heads": -2}}, "cannot be loaded"),
        ("preprocessor_config.json", {"crop_size": 64}, r"pictures of \(64, 64\), its tower takes 32 x 32"),
        ("preprocessor_config.json", {"resample": 5}, "resizes with filter 5"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(
    clip_copy: Path, file: str, changes: dict[str, Any], sentence: str
) -> None:
    edit(clip_copy / file, **changes)
    with pytest.raises(EncoderError, match=sentence):
        load_encoder(str(clip_copy))


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, '"\\ud800"', b"\xff\xfe"])
@pytest.mark.parametrize("file", ["config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"])
def test_files_that_are_no_settings_are_refused(clip_copy: Path, file: str, content: str | bytes) -> None:
    (clip_copy / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(EncoderError):
        load_encoder(str(clip_copy))


@pytest.mark.parametrize("file", ["config.json", "preprocessor_config.json", "tokenizer.json"])
def test_a_missing_file_is_named(clip_copy: Path, file: str) -> None:
    (clip_copy / file).unlink()
    with pytest.raises(EncoderError, match=rf"not complete: {'its tokenizer' if file == 'tokenizer.json' else file}"):
        load_encoder(str(clip_copy))


def test_the_digest_is_of_the_content_and_not_of_the_folder(checkpoints: dict[str, Path], clip_copy: Path) -> None:
    before = digest(clip_copy)
    assert before == digest(checkpoints["clip"])
    (clip_copy / "README.md").write_text("elsewhere")
    edit(clip_copy / "config.json", _name_or_path="somewhere/else", transformers_version="9")
    assert digest(clip_copy) == before


def test_settings_of_the_newer_form_have_the_digest_of_the_older(clip_copy: Path) -> None:
    before = digest(clip_copy)
    settings = json.loads((clip_copy / "preprocessor_config.json").read_text())
    (clip_copy / "processor_config.json").write_text(json.dumps({"image_processor": settings}))
    (clip_copy / "preprocessor_config.json").unlink()
    assert digest(clip_copy) == before


def _change_a_weight(folder: Path) -> None:
    tensors = {name: tensor.copy() for name, tensor in load_file(folder / "model.safetensors").items()}
    tensors["visual_projection.weight"][0, 0] += 1e-3
    save_file(tensors, folder / "model.safetensors")


CHANGES: dict[str, Callable[[Path], None]] = {
    "a weight": _change_a_weight,
    "mean": lambda folder: edit(folder / "preprocessor_config.json", image_mean=[0.5, 0.5, 0.5]),
    "filter": lambda folder: edit(folder / "preprocessor_config.json", resample=2),
    "activation": lambda folder: edit(folder / "config.json", text_config={"hidden_act": "gelu"}),
    "tokenizer": lambda folder: edit(folder / "tokenizer_config.json", do_lower_case=False),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_changes_features_changes_the_digest(clip_copy: Path, what: str) -> None:
    before = digest(clip_copy)
    CHANGES[what](clip_copy)
    assert digest(clip_copy) != before


@pytest.mark.parametrize("family", ["siglip", "siglip2", "align", "videoprism"])
def test_vectors_of_two_lengths_are_refused_in_a_sentence(family: str, tmp_path: Path) -> None:
    import transformers

    folder = {**PICTURE_FAMILIES, "siglip": tiny_siglip, "videoprism": tiny_videoprism}[family](tmp_path / family)
    config = json.loads((folder / "config.json").read_text())
    if family == "align":
        config |= {"projection_dim": 40}
    else:
        config["vision_config"] |= {"hidden_size": 48}
    built = transformers.CONFIG_MAPPING[family].from_dict(config)
    transformers.AutoModel.from_config(built).save_pretrained(folder)
    with pytest.raises(EncoderError, match=r"captions vectors of \d+ numbers and pictures vectors of \d+, so they can"):
        load_encoder(str(folder), device="cpu").encode_windows(np.zeros((1, 1, 3, 9, 9), np.uint8))


def test_a_word_beyond_the_table_of_words_is_refused_in_a_sentence(clip_copy: Path) -> None:
    rows = json.loads((clip_copy / "config.json").read_text())["text_config"]["vocab_size"]
    tokenizer = json.loads((clip_copy / "tokenizer.json").read_text())
    how = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokenizer["added_tokens"].append({"id": rows, "content": "<new>", "special": True, **how})
    (clip_copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    encoder = load_encoder(str(clip_copy), device="cpu")
    assert encoder.encode_text(["a red ball"]).sentence.shape == (1, 16)
    with pytest.raises(EncoderError, match=r"The tokenizer and the weights in .* do not belong together"):
        encoder.encode_text(["a <new> ball"])
