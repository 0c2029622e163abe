"""A matcher that reads captions as role graphs, beside features that others computed: trained, scored, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from evenreel.checkpoint import load_features_for, load_matcher
from evenreel.cli.train import inputs_of
from evenreel.corpus import load_corpus, make_corpus, save_corpus, select
from evenreel.errors import UsageError
from evenreel.evaluation import load_scores
from evenreel.features.graphs import graphs_of
from evenreel.features.stored.store import StoredSettings, store_features
from evenreel.matchers.scoring import matcher_scores
from evenreel.training.batches import FeatureExamples
from evenreel.training.loop import train
from evenreel.training.material import load_material
from evenreel.training.recipe import load_recipe
from tests.in_process import run_here

TEXTS = ("cut the tomato", "a man runs", "wash plates with water", "two dogs bark", "open door", "put cup on table")
GIVEN = [
    {
        "ROOT": {"role": "ROOT", "words": ["a", "man", "runs"]},
        "1": {"role": "V", "spans": [2]},
        "2": {"role": "ARG0", "spans": [0, 1]},
    },
    [["1", "2", "ARG0"]],
]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six clips with a caption each, four to learn from and two to select on; one caption has HGR's own graph."""
    folder = tmp_path_factory.mktemp("graphs")
    ids = [f"v{row}" for row in range(len(TEXTS))]
    clips = pl.DataFrame({"clip_id": ids, "path": ids, "split": ["train"] * 4 + ["val"] * 2})
    own = [None, json.dumps(GIVEN), *[None] * 4]
    captions = pl.DataFrame(
        {"caption_id": [f"c{one}" for one in ids], "clip_id": ids, "text": TEXTS, "role_graph": own}
    )
    corpus = make_corpus(clips, captions)
    save_corpus(corpus, folder / "corpus")
    (folder / "rgb").mkdir()
    random = np.random.default_rng(0)
    for clip_id in ids:
        np.save(folder / "rgb" / f"{clip_id}.npy", random.normal(size=(3, 6)).astype(np.float32))
    store_features(corpus, folder / "features", StoredSettings("rgb", {"rgb": [folder / "rgb"]}))
    content = {
        "name": "small",
        "data": {"corpus": str(folder / "corpus"), "features": str(folder / "features"), "validation": "val"},
        "matcher": {"name": "hgr", "settings": {"size": 8, "word_size": 4, "words_at_least": 1}},
        "loop": {"batch_size": 2, "epochs": 1, "device": "cpu"},
        "records": {"tensorboard": False},
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(content))
    return folder / "small.yaml"


def done(*words: str | Path) -> None:
    said = run_here(*words, environment={})
    assert said.returncode == 0, said.stderr


def test_captions_are_read_alike_in_training_and_in_scoring(recipe: Path, tmp_path: Path) -> None:
    folder = recipe.parent
    done("train", recipe, "--out", tmp_path / "run")
    checkpoint = tmp_path / "run" / "checkpoint"
    asked = ("--features", folder / "features", "--split", "val", "--device", "cpu", "--out", tmp_path / "val.npz")
    done("score", checkpoint, folder / "corpus", *asked)
    pretrained = load_matcher(checkpoint)
    part = select(load_corpus(folder / "corpus"), split="val")
    loaded = load_features_for(pretrained, folder / "features", part)
    assert loaded.texts.graphs == tuple(graphs_of(TEXTS[4:]))
    assert (loaded.notices, pretrained.about.inputs.words) == ((), None)
    expected = matcher_scores(pretrained.matcher, loaded.texts, loaded.videos).score_all().values
    np.testing.assert_array_equal(load_scores(tmp_path / "val.npz", part).block(slice(0, 2), slice(0, 2)), expected)
    known = set(pretrained.spec.settings["vocabulary"])
    assert known == {word for graph in graphs_of(TEXTS[:4]) for word in graph.words}, "of the captions learned from"


def test_the_graphs_are_those_of_the_corpus_and_are_noted(recipe: Path) -> None:
    read = load_recipe(recipe)
    shares: list[float] = []
    loaded = load_material(read, shares.append)
    learned = loaded.examples
    assert isinstance(learned, FeatureExamples) and learned.text_features.graphs is not None
    assert learned.text_features.graphs[1].edges == ((0, 1),)
    assert [graph.words[0] for graph in learned.text_features.graphs] == ["cut", "a", "wash", "two"]
    assert (shares[-1], inputs_of(read, loaded).words) == (1.0, None)
    other = replace(read, data=replace(read.data, train="val", validation=None))
    noted = [load_material(one).source.get("caption_graphs") for one in (read, read, other)]
    assert noted[0] == noted[1] != noted[2]


def test_other_matchers_have_none_and_say_that_nobody_has_read_the_captions(recipe: Path, tmp_path: Path) -> None:
    read = load_recipe(recipe, ["matcher={name: mean_pool}"])
    loaded = load_material(read)
    learned: Any = loaded.examples
    assert learned.text_features.graphs is None
    assert "caption_graphs" not in loaded.source
    with pytest.raises(UsageError, match="No text tower has read these captions"):
        train(read, loaded, tmp_path / "run")
