"""Checkpoints that are damaged, foreign or too new are refused in one sentence that says what to do."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from evenreel.checkpoint import MatcherSpec, load_matcher
from evenreel.checkpoint.architecture import build
from evenreel.errors import CheckpointError, UsageError
from tests.tiny_checkpoints import tiny_clip


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads((folder / "config.json").read_text())
    edit(data)
    (folder / "config.json").write_text(json.dumps(data))


def with_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Other weights, with the digest that goes with them."""
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors")
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    change(folder, lambda data: data.update(weights_sha256=digest))


def refusal(folder: Path | str) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_matcher(folder)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda data: data.update(format=2), "has format 2, this version reads up to 1; update evenreel"),
        (lambda data: data["about"]["encoder"].update(dimension=32), "is (64,) instead of (128,)"),
        (
            lambda data: data["matcher"]["settings"].update(max_frames=10),
            "transformer.positions.weight is (12, 16) instead of (10, 16)",
        ),
        (lambda data: data["matcher"].update(name="telepathy"), "No matcher is called 'telepathy'"),
        (lambda data: data["matcher"].update(name="telepathy"), "use the version of evenreel that it was made by"),
        (  # maps of captions for each stratum of length, which were removed
            lambda data: data.update(matcher={"name": "per_stratum", "settings": {}, "wrapped": [data["matcher"]]}),
            "There is no wrapper 'per_stratum'",
        ),
        (lambda data: data["matcher"]["settings"].update(warp=9), "has no setting 'warp'"),
        *(
            (lambda data, bad=bad: data["matcher"]["settings"].update(layers=bad, heads=bad), "cannot be built")
            for bad in (-1, "many", None, [1])
        ),
    ],
)
def test_a_config_of_another_matcher(saved: Path, edit: Callable[[dict[str, Any]], object], said: str) -> None:
    change(saved, edit)
    assert said in refusal(saved)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda weights: weights.pop("logit_scale"), "do not fit its config.json: logit_scale is missing"),
        (lambda weights: weights.update(extra=torch.zeros(1)), "the matcher has no extra"),
    ],
)
def test_weights_of_another_matcher(saved: Path, edit: Callable[[dict[str, torch.Tensor]], object], said: str) -> None:
    with_weights(saved, edit)
    assert said in refusal(saved)


def test_weights_that_are_damaged_or_cut_off(saved: Path) -> None:
    payload = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(payload[:-3] + bytes([payload[-3] ^ 1]) + payload[-2:])
    assert "are not those that were saved" in refusal(saved)
    (saved / "model.safetensors").write_bytes(payload[:100])
    change(saved, lambda data: data.update(weights_sha256=hashlib.sha256(payload[:100]).hexdigest()))
    assert "cannot be read" in refusal(saved)


@pytest.mark.parametrize(
    "settings", [{"layers": 10**6}, {"layers": 900}, {"max_frames": 2**20}, {"max_frames": 10**12}, {"heads": 10**400}]
)
def test_a_matcher_far_larger_than_its_weights_is_refused_before_it_is_built(
    saved: Path, settings: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = torch.zeros(1).device
    monkeypatch.setattr(nn.Module, "load_state_dict", lambda *_: pytest.fail(f"a matcher was built on {real}"))
    change(saved, lambda data: data["matcher"]["settings"].update(settings))
    assert len(refusal(saved)) < 600


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: data.update(format=10**400),
        lambda data: data["about"]["encoder"].update(dimension=10**400),
        lambda data: data["about"]["inputs"].update(frames=10**400),
        lambda data: data.pop("about"),
        lambda data: data.pop("weights_sha256"),
        lambda data: data.update(matcher=[]),
        lambda data: data.update(matcher=None),
        lambda data: data["matcher"].update(settings=[]),
        lambda data: data["matcher"].update(wrapped=None),
        lambda data: data["about"].pop("encoder"),
        lambda data: data["about"].update(stranger=1),
        lambda data: data["about"]["encoder"].update(dimension="16"),
        lambda data: data["about"]["encoder"].update(dimension=0),
        lambda data: data["about"]["inputs"].update(frames=-1),
        lambda data: data["about"]["inputs"].update(words_from="rumour"),
        lambda data: data["about"]["inputs"].update(word_changes={"ratio": 2}),
        lambda data: data["about"]["inputs"].update(word_changes={"share": 0.5}),
        lambda data: data["about"]["metrics"][0].update(value="high"),
        lambda data: data["about"]["encoder"].update(before=["../elsewhere"]),
    ],
)
def test_a_config_that_was_edited(saved: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    change(saved, edit)
    assert str(saved / "config.json") in refusal(saved)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": "1"}', b"\xff\xfe", b"[" * 100_000])
def test_a_config_that_is_none(saved: Path, content: bytes) -> None:
    (saved / "config.json").write_bytes(content)
    assert str(saved / "config.json") in refusal(saved)


def test_the_folder_of_an_encoder(tmp_path: Path) -> None:
    assert "is not that of a matcher saved by evenreel" in refusal(tiny_clip(tmp_path / "clip"))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file(saved: Path, name: str) -> None:
    (saved / name).unlink()
    assert f"is no checkpoint of a matcher: {name} missing" in refusal(saved)


def test_a_pickle_beside_is_not_touched(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = load_matcher(saved).spec
    (saved / "pytorch_model.bin").write_bytes(b"a pickle")
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was read"))
    assert load_matcher(saved).spec == before


@pytest.mark.parametrize("name", ["nothing here", "./no/such/folder", "../no/such", "", "a/b/c", "org/..name"])
def test_a_name_of_nothing(name: str) -> None:
    assert "neither the folder of a checkpoint nor a hub id" in refusal(name)


def test_a_revision_of_a_folder_and_a_device_that_is_not_there(saved: Path) -> None:
    with pytest.raises(UsageError, match="revision"):
        load_matcher(saved, revision="main")
    with pytest.raises(UsageError, match="cannot be used here"):
        load_matcher(saved, device="cuda:99")


def test_a_saved_folder_may_be_moved(saved: Path, tmp_path: Path) -> None:
    moved = Path(shutil.move(saved, tmp_path / "elsewhere"))
    assert load_matcher(moved).spec.name == "temporal"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (MatcherSpec("adapted"), "goes around one matcher, not 0"),
        (MatcherSpec("adapted", {}, (MatcherSpec("mean_pool"), MatcherSpec("mean_pool"))), "one matcher, not 2"),
        (MatcherSpec("mean_pool", {}, (MatcherSpec("mean_pool"),)), "There is no wrapper 'mean_pool'"),
        (MatcherSpec("adapted", {"warp": 9}, (MatcherSpec("mean_pool"),)), "no setting 'warp'"),
    ],
)
def test_specs_that_build_nothing(spec: MatcherSpec, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build(spec, 16)
