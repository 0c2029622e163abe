"""Checkpoints of the hub: fetched once, only what is safe, pinned, refused in clear words; the example of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from evenreel.checkpoint import load_matcher
from evenreel.errors import CheckpointError, UsageError
from tests.encoders.hub import COMMIT, Hub

from .conftest import scores

PAGE = Path(__file__).resolve().parents[2] / "docs" / "checkpoints.md"


@pytest.fixture
def hub(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The saved checkpoint as `org/tiny`, with things in it that nobody may touch."""
    (saved / "pytorch_model.bin").write_bytes(b"a pickle")
    (saved / "modeling_evil.py").write_text("raise SystemExit")
    served = Hub(saved)
    for variable in ("HF_HUB_OFFLINE", "EVENREEL_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", served.address)
    template = served.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    yield served
    served.shutdown()
    served.server_close()


def test_it_is_fetched_once_and_safe_files_only(hub: Hub, saved: Path) -> None:
    first = load_matcher("org/tiny")
    assert torch.equal(scores(first), scores(load_matcher(saved)))
    fetched = {line.rsplit("/", 1)[1] for line in hub.requests if "/resolve/" in line}
    assert fetched == {"config.json", "model.safetensors", "README.md"}
    hub.requests.clear()
    load_matcher(f"org/tiny@{COMMIT}")
    assert hub.requests == []


def test_offline_with_an_empty_cache(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENREEL_OFFLINE", "1")
    with pytest.raises(CheckpointError, match="the network is switched off"):
        load_matcher("org/tiny")
    assert hub.requests == []


def test_a_checkpoint_that_is_not_there(hub: Hub) -> None:
    with pytest.raises(CheckpointError, match="no model of that name"):
        load_matcher("org/other")


def test_two_revisions(hub: Hub) -> None:
    with pytest.raises(UsageError, match="goes with a hub id without one"):
        load_matcher("org/tiny@main", revision="other")


def test_the_whole_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (whole,) = (block for block in blocks if "assert" in block)
    exec(whole, {})
    assert (tmp_path / "checkpoint" / "README.md").is_file()
