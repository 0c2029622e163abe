"""Where a model of speech is found: a folder, the hub's cache, the hub when it is named; or one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from evenreel.errors import EncoderError
from evenreel.speech import load_speech_reader, recogniser
from evenreel.speech.recogniser import known_speech_models, speech_model_here
from tests.encoders.hub import COMMIT, Hub
from tests.speech.speech_models import write_onnx, write_whisper

VOCABULARY = ("▁a",)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture
def serve(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Hub]]:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("EVENREEL_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    hubs: list[Hub] = []

    def start(folder: Path) -> Hub:
        hubs.append(Hub(folder))
        template = hubs[-1].address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", hubs[-1].address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        return hubs[-1]

    yield start
    for hub in hubs:
        hub.shutdown()
        hub.server_close()


@pytest.mark.parametrize("kind", ["ctranslate2", "onnx"])
def test_a_model_that_is_named_is_fetched_once_and_without_what_is_not_needed(
    tmp_path: Path, serve: Callable[[Path], Hub], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whisper = kind == "ctranslate2"
    source = tmp_path / "source"
    folder = write_whisper(source) if whisper else write_onnx(source, {3: "▁a"}, vocabulary=VOCABULARY)
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "evil.py").write_text("raise SystemExit")
    hub = serve(folder)
    assert not speech_model_here("org/tiny")
    reader = load_speech_reader("org/tiny")
    assert reader.model.speech_id == f"org/tiny@{COMMIT}"
    assert not any("pytorch_model" in request or "evil" in request for request in hub.requests)
    hub.requests.clear()
    monkeypatch.setenv("EVENREEL_OFFLINE", "1")
    assert load_speech_reader(f"org/tiny@{COMMIT}").model.speech_id == reader.model.speech_id
    assert speech_model_here("org/tiny")
    assert hub.requests == []


def test_nothing_is_fetched_where_the_network_is_switched_off(cache: Path) -> None:
    with pytest.raises(EncoderError, match="the network is switched off") as caught:
        load_speech_reader("tiny.en")
    assert "Systran/faster-whisper-tiny.en" in str(caught.value)
    assert "hf download" in str(caught.value)


@pytest.mark.parametrize("name", ["nothing", "../x/y", "", "a/b/c", "no\0where", "--x/y"])
def test_a_name_that_means_nothing_is_one_sentence(cache: Path, name: str) -> None:
    with pytest.raises(EncoderError, match="neither a folder that exists, nor a hub id") as caught:
        load_speech_reader(name)
    assert "tiny.en" in str(caught.value)


def test_a_folder_of_another_kind_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"lacks config\.json, model\.bin, tokenizer\.json, vocabulary\.json"):
        load_speech_reader(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(EncoderError, match="ct2-transformers-converter --model"):
        load_speech_reader(str(tmp_path))


@pytest.mark.parametrize("package", ["faster_whisper", "ctranslate2", "onnx_asr"])
def test_a_missing_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setattr(recogniser, "installed", lambda name: name != package)
    with pytest.raises(EncoderError, match=rf"needs {package}.*pip install 'evenreel\[speech\]'"):
        load_speech_reader(str(tmp_path))


def test_every_known_model_has_a_name_and_an_id_of_its_own() -> None:
    known: list[Any] = [*known_speech_models()]
    assert len({model.name for model in known}) == len({model.id for model in known}) == len(known)
    assert all(model.licence and model.size_mb > 0 and model.id.count("/") == 1 for model in known)
