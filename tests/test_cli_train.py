"""`evenreel train` as it is typed: a recipe in, a run folder with everything in it out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from click.testing import Result
from typer.testing import CliRunner

from evenreel.checkpoint import load_matcher
from evenreel.cli.app import app
from evenreel.corpus import load_corpus
from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.features import FeatureSettings, compute_features
from tests.training.conftest import BROKEN, clip_folder, corpus_folder

__all__ = ["clip_folder", "corpus_folder"]


def evenreel(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "evenreel", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def here(*words: str | Path) -> Result:
    """The command in this process, which has its imports behind it."""
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture(scope="module")
def recipe_file(corpus_folder: Path, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    settings = FeatureSettings(rule="3 midpoints", read_text=False, videos=corpus_folder, workers=1)
    encoder = load_encoder(str(clip_folder), device="cpu")
    compute_features(load_corpus(corpus_folder), folder / "features", encoder, settings)
    values: dict[str, Any] = {
        "name": "tests/small",
        "about": "Written for a test.",
        "data": {"corpus": str(corpus_folder), "features": str(folder / "features")},
        "matcher": {"name": "wti"},
        "adapter": {"kind": "linear"},
        "optimiser": {"lr": 0.001},
        "loop": {"batch_size": 4, "epochs": 2, "device": "cpu"},
        "selection": {"metric": "MRR"},
        "records": {"every_steps": 1, "tensorboard": False},
    }
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_a_run_from_its_recipe_to_its_checkpoint(recipe_file: Path, tmp_path: Path, clip_folder: Path) -> None:
    done = evenreel("train", recipe_file, "--set", "loop.epochs=3", "--out", tmp_path / "run", "--json")
    assert done.returncode == 3, done.stderr  # one clip was set aside
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert [(one["clip_id"], one["reason"]) for one in result["set_aside"]] == [(BROKEN, "not_media")]
    assert 0 < result["validation"]["MRR"] <= 100
    pretrained = load_matcher(str(tmp_path / "run" / "checkpoint"))
    assert pretrained.about.encoder.weights_hash == load_encoder(str(clip_folder), device="cpu").weights_hash
    assert pretrained.about.corpus
    assert pretrained.about.inputs.frames == 3
    assert pretrained.about.inputs.words is not None
    assert "epochs: 3" in pretrained.about.recipe
    page = (tmp_path / "run" / "curves.html").read_text()
    assert "Training of tests/small" in page
    assert BROKEN in (tmp_path / "run" / "set_aside.csv").read_text()


def test_a_run_is_not_begun_twice_but_resumed(recipe_file: Path, tmp_path: Path) -> None:
    first = here("train", recipe_file, "--out", tmp_path / "run")
    assert first.exit_code == 3, first.output
    assert "Trained in" in first.stdout
    assert "best on validation" in first.stdout
    again = here("train", recipe_file, "--out", tmp_path / "run")
    assert isinstance(again.exception, UsageError)
    assert "add --resume" in str(again.exception)
    resumed = here("train", recipe_file, "--out", tmp_path / "run", "--resume")
    assert (resumed.exit_code, resumed.stdout) == (3, first.stdout)


def test_trained_towers_go_into_the_checkpoint(
    recipe_file: Path, tmp_path: Path, clip_folder: Path, corpus_folder: Path
) -> None:
    backbone = f"backbone={{model: {clip_folder}, rule: 3 midpoints}}"
    changes = [backbone, "data.features=null", "optimiser.backbone_lr=0.001"]
    words = [word for change in changes for word in ("--set", change)]
    done = here("train", recipe_file, *words, "--out", tmp_path / "run", "--json")
    assert done.exit_code == 3, done.output
    trained = load_encoder(str(tmp_path / "run" / "checkpoint" / "encoder"), device="cpu")
    before = load_encoder(str(clip_folder), device="cpu")
    assert not torch.equal(
        torch.from_numpy(trained.encode_text(["a dog"]).sentence),
        torch.from_numpy(before.encode_text(["a dog"]).sentence),
    )
    pretrained = load_matcher(str(tmp_path / "run" / "checkpoint"))
    assert pretrained.about.encoder.weights_hash == trained.weights_hash


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no/such/recipe"], "There is no recipe 'no/such/recipe', neither a file nor one of the package: "),
        (["RECIPE", "--set", "optimiser.rate=1"], "There is no setting optimiser.rate; there are lr, "),
        (["RECIPE", "--set", "selection.metric=best"], "'best'"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence(recipe_file: Path, words: list[str], sentence: str) -> None:
    done = here("train", *[str(recipe_file) if word == "RECIPE" else word for word in words])
    assert isinstance(done.exception, UsageError)
    assert sentence in str(done.exception)
