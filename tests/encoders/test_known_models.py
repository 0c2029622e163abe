"""The table of known models: names, licences, and that nothing in it contradicts what is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from evenreel.config import DEFAULT_MODEL
from evenreel.encoders import load_encoder, loading
from evenreel.encoders.loading import (
    BUILTIN_FOLDER,
    check_licence,
    folder_here,
    known_models,
    locate,
    measure_speed,
    model_id,
)
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import EncoderError, UsageError
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule


def test_the_table_is_whole() -> None:
    table = known_models()
    ids = [model.id for model in table.models]
    assert len(set(ids)) == len(ids)
    assert {model.name for model in table.models if model.name} == set(table.names) == {"default", "fast", "best"}
    assert {figure.source for model in table.models for figure in model.figures} == set(table.sources)
    assert all(model.licence and model.kind in {"pictures", "windows", "embedder"} for model in table.models)


def test_the_default_is_the_model_of_that_name() -> None:
    assert model_id("default") == DEFAULT_MODEL
    assert model_id(DEFAULT_MODEL) == DEFAULT_MODEL
    assert model_id("some/other") == "some/other"


def test_what_is_said_of_the_builtin_model_is_true(builtin: TowerEncoder) -> None:
    found = known_models().find("builtin")
    assert found is not None
    assert found.dimension == builtin.dimension
    size = sum(path.stat().st_size for path in BUILTIN_FOLDER.iterdir()) / 1e6
    assert found.size_mb == pytest.approx(size, abs=0.5)
    header = (BUILTIN_FOLDER / "model.safetensors").read_bytes()
    tensors = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])
    count = sum(np.prod(tensor["shape"]) for name, tensor in tensors.items() if name != "__metadata__")
    assert found.parameters_m == pytest.approx(count / 1e6, abs=0.05)


def test_a_name_is_understood_wherever_a_model_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def fetch(repository: str, *_: object) -> Path:
        asked.append(repository)
        return tmp_path

    monkeypatch.setattr(loading, "fetch", fetch)
    with caplog.at_level("WARNING", "evenreel"):
        for name in ("fast", "best"):
            locate(name)
    assert list(dict.fromkeys(asked)) == ["google/siglip2-base-patch32-256", "timm/PE-Core-B-16"]
    assert "the model 'best' is timm/PE-Core-B-16" in caplog.messages


def test_a_folder_called_like_a_name_is_reached_by_its_path(
    checkpoints: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "best").symlink_to(checkpoints["clip"])
    monkeypatch.chdir(tmp_path)
    assert load_encoder("./best").weights_hash == load_encoder(str(checkpoints["clip"])).weights_hash


def test_a_licence_that_forbids_commercial_use_has_to_be_accepted() -> None:
    refused = [model.id for model in known_models().models if model.non_commercial]
    assert refused
    for name in (refused[0], f"{refused[0]}@main"):
        with pytest.raises(UsageError, match=r"forbids commercial use; read it on https://.*, and give --accept-li"):
            check_licence(name, accepted=False)
        check_licence(name, accepted=True)
    for name in ("builtin", "default", "some/other", "/a/folder"):
        check_licence(name, accepted=False)


def test_what_is_on_this_machine_is_found_without_a_download(
    checkpoints: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(loading, "fetch", lambda *_: pytest.fail("something was fetched"))
    assert folder_here("builtin") == BUILTIN_FOLDER
    assert folder_here(str(checkpoints["clip"])) == checkpoints["clip"]
    assert folder_here("org/none") is None
    assert folder_here("best") is None
    with pytest.raises(EncoderError, match="one of the names that `evenreel models` lists"):
        folder_here("nothing")


class Counted:
    """An encoder on a clock of its own: a frame takes 10 ms, a caption 2."""

    encoder_id, weights_hash, dimension = "counted", "", 4

    def __init__(self, window: WindowRule) -> None:
        self.window, self.now = window, 0.0

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        self.now += pixels.shape[0] * pixels.shape[1] * 0.010
        return np.zeros((len(pixels), 4), np.float32)

    def encode_text(self, captions: list[str]) -> TextEmbedding:
        self.now += len(captions) * 0.002
        none = np.zeros((0, 0, 4), np.float32)
        return TextEmbedding(none, np.zeros((0, 0), np.bool_), none.reshape(0, 4))

    def truncated(self, captions: list[str]) -> list[bool]:
        return [False] * len(captions)


@pytest.mark.parametrize("window", [WindowRule(), WindowRule(frames=8, span_s=8.0, stride_s=4.0)])
def test_speed_is_frames_and_captions_a_second(window: WindowRule, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Counted(window)
    monkeypatch.setattr("time.perf_counter", lambda: encoder.now)
    speed = measure_speed(encoder)  # type: ignore[arg-type]
    assert (speed.frames_per_s, speed.captions_per_s) == pytest.approx((100.0, 500.0))
