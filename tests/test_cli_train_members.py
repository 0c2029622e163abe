"""`evenreel train` with trimming and members as it is typed, and what the scores of such a matcher say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from evenreel.checkpoint import load_matcher
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FeatureSettings, compute_features
from tests.test_cli_train import here
from tests.training.conftest import clip_folder, corpus_folder

__all__ = ["clip_folder", "corpus_folder"]

FRAMES = (10, 20, 30, 99, 80, 90, 40, 50, 200, 200)
"""Of six clips to learn from, of which the one of 99 cannot be read, two to select on and two of a test split."""

USES = "class lengths of the split test"


@pytest.fixture(scope="module")
def recipe_file(corpus_folder: Path, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    corpus = load_corpus(corpus_folder)
    one = pl.lit([0], pl.List(pl.Int32))
    splits = pl.Series(["train"] * 6 + ["val"] * 2 + ["test"] * 2)
    columns = {"frame_count": pl.Series(FRAMES), "split": splits, "verb_classes": one, "noun_classes": one}
    save_corpus(make_corpus(corpus.clips.with_columns(**columns), corpus.captions), folder / "corpus")
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=corpus_folder, workers=1)
    encoder = load_encoder(str(clip_folder), device="cpu")
    compute_features(load_corpus(folder / "corpus"), folder / "features", encoder, settings)
    values: dict[str, Any] = {
        "name": "tests/lengths",
        "data": {"corpus": str(folder / "corpus"), "features": str(folder / "features")},
        "matcher": {"name": "wti"},
        "adapter": {"kind": "linear"},
        "trim": {"margin": 10, "least": 5, "target": "test"},
        "members": {"fusion": "uniform"},
        "loop": {"batch_size": 4, "epochs": 2, "device": "cpu"},
        "records": {"tensorboard": False},
    }
    path = folder / "lengths.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_a_run_of_members_from_its_recipe_to_the_figures_of_its_scores(recipe_file: Path, tmp_path: Path) -> None:
    """The shortest clip is left out; of the others that can be read two are shorter than their mean, and two longer."""
    run, scores = tmp_path / "run", tmp_path / "scores.npz"
    done = here("train", recipe_file, "--out", run)
    assert done.exit_code == 3, done.output  # one clip was set aside
    said = " ".join(done.stdout.split())
    for part in (
        "2 members became one matcher, with the weights 0.5 + 0.5.",
        "Left out for their length: 1 of 6 training clips",
        "Member 1 learned from 2 clips of 20 to 30 frames, 4 captions.",
        "Member 2 learned from 2 clips of 80 to 90 frames, 4 captions.",
        "member 1: the weights are those of step",
        "searching with it encodes each video 2 times",
        f"It was trained with {USES}",
    ):
        assert part in said, part
    card = (run / "checkpoint" / "README.md").read_text()
    for part in (USES, "- Member 2 learned from 2 clips of 80 to 90 frames", "Each video is encoded 2 times"):
        assert part in card, part
    assert load_matcher(run / "checkpoint").about.uses == (USES,)
    page = (run / "curves.html").read_text()
    assert "(member 1)" in page
    assert "2 members became one matcher, with R@1" in page
    corpus, features = recipe_file.parent / "corpus", recipe_file.parent / "features"
    words = ("score", run / "checkpoint", corpus, "--features", features, "--split", "test", "--out")
    assert USES in here(*words, scores).stdout
    assert isinstance(here(*words, tmp_path / "scores.npy").exception, UsageError)
    assert load_scores(scores, load_corpus(corpus), partial=True).uses == (USES,)
    told = here("evaluate", scores, "--corpus", corpus, "--split", "test").stdout
    assert f"These scores use {USES}" in " ".join(told.split())
    assert json.loads(here(*words, scores, "--json").stdout)["uses"] == [USES]


def test_a_run_of_members_is_resumed_with_another_fusion(recipe_file: Path, tmp_path: Path) -> None:
    words = ("train", recipe_file, "--out", tmp_path / "run")
    first = here(*words, "--json")
    result = json.loads(first.stdout)
    assert [one["clips"] for one in result["strata"]] == [2, 2]
    assert result["encodings"] == {"captions": 2, "videos": 2}
    assert isinstance(here(*words).exception, UsageError)
    again = json.loads(here(*words, "--resume", "--set", "members.fusion=prior", "--json").stdout)
    assert again == result
    other = here(*words, "--resume", "--set", "members.count=3")
    assert "members.count was 2 and is 3" in str(other.exception)


def test_one_stratum_alone_and_heads(recipe_file: Path, tmp_path: Path) -> None:
    alone = here("train", recipe_file, "--set", "members.only=2", "--out", tmp_path / "alone")
    assert "It learned from stratum 2 alone: 2 clips of 80 to 90 frames, 4 captions." in " ".join(alone.stdout.split())
    changes = ("--set", "members.form=heads", "--set", "trim=null")
    heads = here("train", recipe_file, *changes, "--out", tmp_path / "heads")
    said = " ".join(heads.stdout.split())
    assert "Head 1 learned from 3 clips of 10 to 30 frames, 6 captions." in said
    assert "searching with it encodes each caption 2 times, each video once" in said
    assert USES not in said
    begun = ("--set", "trim=null", "--set", "members=null", "--set", f"start={tmp_path / 'alone' / 'checkpoint'}")
    later = json.loads(here("train", recipe_file, *begun, "--out", tmp_path / "later", "--json").stdout)
    assert later["uses"] == [USES], "what a checkpoint knows, its successor knows too"
