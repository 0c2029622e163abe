"""On-screen text through towers in training: what they read and learn from it, and that scoring reads the same."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.cli.train import inputs_of
from evenreel.corpus import load_corpus, save_texts, select
from evenreel.encoders.trainable import TokenIds
from evenreel.errors import CorpusError, FeaturesError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FoundClips, find_clips
from evenreel.features.windows import TEMPLATE
from evenreel.matchers import build_matcher
from evenreel.training.batches import WindowTokens
from evenreel.training.loop import RunHooks, train
from evenreel.training.material import load_material
from evenreel.training.module import RetrievalModule
from evenreel.training.pixels import PixelExamples
from evenreel.training.recipe import Recipe, recipe_from, recipe_text
from evenreel.types import ScoreBlocks, Scores
from tests.tiny_checkpoints import WORDS, tiny_siglip
from tests.training.loop.test_run import figures_of, weights_of
from tests.training.small_material import small_recipe
from tests.training.small_signs import RULE, SIGNS, WINDOWS, signs_of

AMONG_FRAMES = {"kind": "none", "windows": True}


@pytest.fixture(scope="module")
def signs(corpus_folder: Path, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return signs_of(corpus_folder, clip_folder, tmp_path_factory.mktemp("signs") / "features")


def reading(corpus: Path, model: Path, signs: Path | None, **changes: Any) -> Recipe:
    backbone = {"model": str(model), "train": False, "rule": RULE, **changes.pop("backbone", {})}
    read = {"on_screen": None if signs is None else str(signs)} | changes.pop("data", {})
    data = {"corpus": str(corpus), "features": None} | read
    settings = {"adapter": AMONG_FRAMES, "loop": {"batch_size": 4, "epochs": 2}} | changes
    return small_recipe(data=data, backbone=backbone, **settings)


def examples_of(recipe: Recipe) -> PixelExamples:
    examples = load_material(recipe).examples
    assert isinstance(examples, PixelExamples)
    return examples


def said(windows: WindowTokens) -> list[list[list[int]]]:
    """The token ids of each window."""
    sentences = [ids[mask].tolist() for ids, mask in zip(*windows.sentences, strict=True)]
    return [[sentences[row] for row in clip] for clip in windows.rows.tolist()]


# What is read --------------------------------------------------------------------------------------------------------


def test_a_batch_holds_each_sentence_once_and_only_its_own(corpus_folder: Path, clip_folder: Path, signs: Path) -> None:
    material = load_material(reading(corpus_folder, clip_folder, signs))
    examples = material.examples
    assert isinstance(examples, PixelExamples) and material.towers is not None
    ids = examples.pairs.clip_ids
    batch = examples.videos(np.array([ids.index("v4"), ids.index("v2"), ids.index("v0"), ids.index("v2")]))
    assert batch.windows is not None
    tokens = material.towers.towers.tokenizer
    nothing, bridge, ball = tokens(["", *(TEMPLATE.format(words=words) for words in ("bridge", "RED BALL"))])[
        "input_ids"
    ]
    assert said(batch.windows) == [[nothing] * 4, [bridge] * 4, [ball, ball, bridge, bridge], [bridge] * 4]
    assert len(batch.windows.sentences.ids) == 3, "nothing, the bridge, the ball"
    assert batch.windows.mask.tolist() == [[False] * 4, [True] * 4, [True] * 4, [True] * 4]
    assert torch.equal(batch.windows.confidence > 0, batch.windows.mask)
    lengths = batch.windows.sentences.mask.sum(1)
    assert batch.windows.sentences.ids.shape[1] == int(lengths.max()), "padding of other batches takes no room"


@given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=5), st.data())
def test_some_clips_say_what_they_say_among_all(said: list[list[int]], data: st.DataObject) -> None:
    random = np.random.default_rng(0)
    lengths = np.array([2, 3, 7, 4, 5, 3])
    mask = torch.from_numpy(np.arange(9) < lengths[:, None])
    ids = torch.from_numpy(random.integers(1, 99, mask.shape)).masked_fill(~mask, 0)
    rows = torch.tensor(said)
    windows = WindowTokens(TokenIds(ids, mask), rows, rows / 10, "ocr")
    clips = data.draw(st.lists(st.integers(0, len(said) - 1), min_size=1))
    part = windows.of(np.array(clips))
    for place, clip in enumerate(clips):
        for window, sentence in enumerate(said[clip]):
            own = part.sentences.ids[part.rows[place, window]][part.sentences.mask[part.rows[place, window]]]
            assert torch.equal(own, ids[sentence][mask[sentence]])
            assert bool(part.mask[place, window]) == (sentence > 0)
            assert part.confidence[place, window] == pytest.approx(sentence / 10)
    assert len(part.sentences.ids) == len({0, *(sentence for clip in clips for sentence in said[clip])})
    assert replace(windows, full_length=True).of(np.array(clips)).sentences.ids.shape[1] == 9


def test_texts_are_made_for_the_tower_that_reads_them(
    corpus_folder: Path, clip_folder: Path, signs: Path, tmp_path: Path
) -> None:
    """The features of another encoder, whose tokenizer takes other words of a long sign, say the same to this tower."""
    long = SIGNS.with_columns(
        pl.col("text").replace("train 7", " ".join(f"{word}{n}" for n in range(4) for word in WORDS))
    )
    by_siglip = tiny_siglip(tmp_path / "siglip")
    folders = [tmp_path / "clip features", tmp_path / "siglip features"]
    for folder, model in zip(folders, (clip_folder, by_siglip), strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.training.small_signs.SIGNS", long)
            signs_of(corpus_folder, model, folder)
    found = [find_clips(folder, select(load_corpus(corpus_folder), split="val")) for folder in folders]
    stored = [one.shards()[0]["v6"].window_texts for one in found if isinstance(one, FoundClips)]
    assert stored[0] != stored[1], "else the two take the same words"
    read = [examples_of(reading(corpus_folder, clip_folder, folder)).windows for folder in folders]
    assert read[0] is not None and read[1] is not None
    assert read[0].digest() == read[1].digest()
    by_other = examples_of(reading(corpus_folder, by_siglip, folders[0])).windows
    assert by_other is not None
    assert by_other.sentences.ids.shape[1] == 64, "as SigLIP reads"


def test_words_may_be_changed_where_the_model_is_selected_alone(
    corpus_folder: Path, clip_folder: Path, signs: Path
) -> None:
    words = {"ratio": 0.0, "splits": "evaluated"}
    material = load_material(reading(corpus_folder, clip_folder, signs, data={"words": words}))
    assert isinstance(material.examples, PixelExamples) and isinstance(material.validation, PixelExamples)
    learned, selected = material.examples.windows, material.validation.windows
    assert learned is not None and selected is not None
    assert learned.mask.any() and not selected.mask.any()
    told = load_material(reading(corpus_folder, clip_folder, signs, data={"words": {"empty": "caption"}}))
    assert isinstance(told.examples, PixelExamples) and told.examples.windows is not None
    assert told.examples.windows.mask.all()
    assert told.source["on_screen"] != material.source["on_screen"]


def test_a_recipe_that_reads_nothing_is_as_before(corpus_folder: Path, clip_folder: Path) -> None:
    recipe = reading(corpus_folder, clip_folder, None, adapter=None)
    loaded = load_material(recipe)
    assert isinstance(loaded.examples, PixelExamples)
    assert loaded.examples.windows is None
    assert "on_screen" not in loaded.source
    assert (loaded.encoder.windows, inputs_of(recipe, loaded).windows) == (None, None)


# What is learned -----------------------------------------------------------------------------------------------------


CHANGED = {"ratio": 0.6, "char_errors": 0.3, "empty": "caption"}


@pytest.mark.parametrize(("matcher", "words"), [("mean_pool", None), ("tcd", CHANGED)])
def test_with_frozen_towers_it_is_training_on_features(
    matcher: str, words: dict[str, Any] | None, corpus_folder: Path, clip_folder: Path, signs: Path, tmp_path: Path
) -> None:
    """On stored features as far as float16 rounds, as without on-screen text; also where words are changed."""
    adapter = {"kind": "linear", "windows": matcher == "mean_pool"}
    settings: dict[str, Any] = {"matcher": {"name": matcher}, "adapter": adapter, "optimiser": {"eps": 1e-3}}
    towers = reading(corpus_folder, clip_folder, signs, data={"words": words}, **settings)
    data = {"corpus": str(corpus_folder), "features": str(signs), "words": words}
    stored = small_recipe(data=data, loop={"batch_size": 4, "epochs": 2}, **settings)
    ends = {}
    for name, recipe in (("towers", towers), ("stored", stored)):
        ends[name] = weights_of(train(recipe, replace(load_material(recipe), validation=None), tmp_path / name))
    for name, tensor in ends["towers"].items():
        torch.testing.assert_close(ends["stored"][name], tensor, rtol=1e-2, atol=1e-2, msg=name)
    losses = [list(figures_of(tmp_path / name, "loss/contrastive").values()) for name in ("towers", "stored")]
    assert losses[1] == pytest.approx(losses[0], abs=2e-2)


def test_the_text_tower_learns_from_what_is_written(corpus_folder: Path, clip_folder: Path, signs: Path) -> None:
    """Also where nothing is: then there is a gradient, of 0, for other devices wait for one."""
    recipe = reading(corpus_folder, clip_folder, signs, backbone={"train": True, "gradient_checkpointing": True})
    material = load_material(recipe)
    module = RetrievalModule(build_matcher("mean_pool", 16), material.towers, recipe, 1)
    module.train()
    assert material.towers is not None
    weight = material.towers.model.text_projection.weight
    sizes = []
    for name in ("v0", "v4"):
        rows = np.array([material.examples.pairs.clip_ids.index(name)])
        video = module.video_features(material.examples.videos(rows))
        assert video.on_screen is not None
        assert video.on_screen.windows.shape == (1, WINDOWS, 16)
        norms = video.on_screen.windows.norm(dim=-1)
        torch.testing.assert_close(norms, video.on_screen.mask.float())
        module.zero_grad(set_to_none=True)
        (video.on_screen.windows * torch.arange(16.0)).sum().backward()
        assert weight.grad is not None
        sizes.append(float(weight.grad.norm()))
    assert sizes[0] > 0
    assert sizes[1] == 0


# Scoring -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("matcher", [pytest.param("mean_pool", marks=pytest.mark.slow), "tcd"])
def test_the_checkpoint_scores_as_it_did_in_training(
    matcher: str, corpus_folder: Path, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`train`, then `features` with the towers of the checkpoint and `score`, as the model card says it."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for file in corpus_folder.iterdir():
        (corpus / file.name).symlink_to(file)
    save_texts(SIGNS, corpus)
    signs = signs_of(corpus, clip_folder, tmp_path / "features")
    recipe = reading(
        corpus,
        clip_folder,
        signs,
        backbone={"train": True},
        matcher={"name": matcher},
        adapter=AMONG_FRAMES if matcher == "mean_pool" else None,
        optimiser={"lr": 0.01, "backbone_lr": 1e-2},
    )
    (tmp_path / "small.yaml").write_text(recipe_text(recipe))
    kept: dict[str, np.ndarray[Any, Any]] = {}

    def remember(self: Any, scores: ScoreBlocks) -> dict[str, float]:
        whole = slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids))
        kept["scores"] = np.array(scores.block(*whole))
        return {"R@1": float(len(kept))}  # the first evaluation is the best

    monkeypatch.setattr("evenreel.training.loop.SelectionMeasure.__call__", remember)
    runner = CliRunner()
    run = tmp_path / "run"
    trained = runner.invoke(app, ["train", str(tmp_path / "small.yaml"), "--set", "loop.epochs=1", "--out", str(run)])
    assert trained.exit_code == 3, trained.output
    card = (run / "checkpoint" / "README.md").read_text()
    assert f"the on-screen text of {WINDOWS} windows (words of the corpus)" in card
    command = f"evenreel features CORPUS --model CHECKPOINT/encoder --rule '{RULE}' --windows {WINDOWS} --words corpus"
    assert command in card
    own = {"CORPUS": str(corpus), "CHECKPOINT/encoder": str(run / "checkpoint" / "encoder")}
    words = [own.get(word, word) for word in shlex.split(command)[1:]]
    made = runner.invoke(app, [*words, "--out", str(tmp_path / "own")])
    assert made.exit_code == 3, made.output
    score = ["score", str(run / "checkpoint"), str(corpus), "--features", str(tmp_path / "own"), "--split", "val"]
    searched, found = select(load_corpus(corpus), split="val"), {}
    for name, options in (("read", []), ("unread", ["--ocr-ratio", "0"])):
        scored = runner.invoke(app, [*score, *options, "--out", str(tmp_path / f"{name}.npz")])
        assert scored.exit_code == 0, scored.output
        scores = load_scores(tmp_path / f"{name}.npz", searched)
        assert isinstance(scores, Scores)
        found[name] = scores.values
    np.testing.assert_allclose(found["read"], kept["scores"], atol=2e-3)
    assert np.abs(found["unread"] - kept["scores"]).max() > 1e-2, "what is written should count"


def test_the_recipe_of_the_docs_is_one() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    text = next(
        text for text in re.findall(r"^```yaml\n(.+?)^```", page, re.MULTILINE | re.DOTALL) if "on_screen" in text
    )
    recipe = recipe_from(yaml.safe_load(text))
    assert recipe.backbone is not None and recipe.data.on_screen is not None
    features, made = re.findall(r"^evenreel features .+", page[: page.index(text)], re.MULTILINE)[-2:]
    assert f"--rule '{recipe.backbone.rule}'" in features and features.endswith(f"--out {recipe.data.on_screen}")
    options = features.partition(" --rule")[2].rpartition(" --out")[0]
    assert options in made, "what is scored is read as what was learned from"


# What is refused -----------------------------------------------------------------------------------------------------


def test_a_rule_that_the_text_was_not_read_by(corpus_folder: Path, clip_folder: Path, signs: Path) -> None:
    with pytest.raises(FeaturesError, match=r"holds features by '3 midpoints, words of the corpus', not by what is"):
        load_material(reading(corpus_folder, clip_folder, signs, backbone={"rule": "2 midpoints"}))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"adapter": None}, "data.on_screen is given, and the matcher mean_pool reads no on-screen text; set it"),
        (
            {"adapter": None, "matcher": {"name": "tcd"}, "data": {"on_screen": None}},
            "The matcher tcd reads on-screen text, and the backbone is given none; name a folder",
        ),
        ({"matcher": {"name": "x_clip", "settings": {"max_frames": 6}}}, "has 7 frames and on-screen windows"),
    ],
)
def test_text_that_nobody_reads_or_nobody_gives(
    settings: dict[str, Any],
    sentence: str,
    corpus_folder: Path,
    clip_folder: Path,
    signs: Path,
    tmp_path: Path,
) -> None:
    recipe = reading(corpus_folder, clip_folder, signs, **settings)
    with pytest.raises(UsageError, match=sentence):
        train(recipe, load_material(recipe), tmp_path / "run")


def test_other_words_are_other_data(corpus_folder: Path, clip_folder: Path, signs: Path, tmp_path: Path) -> None:
    recipe = reading(corpus_folder, clip_folder, signs)
    measure = RunHooks(measure=lambda scores: {"R@1": 1.0})
    train(recipe, load_material(recipe), tmp_path / "run", measure)
    edited = SIGNS.with_columns(pl.col("text").replace("bridge", "train"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.training.small_signs.SIGNS", edited)
        elsewhere = reading(corpus_folder, clip_folder, signs_of(corpus_folder, clip_folder, tmp_path / "other"))
    assert elsewhere != recipe
    with pytest.raises(CorpusError, match=r"begun with other data: on_screen was [0-9a-f]{8}"):
        train(elsewhere, load_material(elsewhere), tmp_path / "run", replace(measure, resume=True))
