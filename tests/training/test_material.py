"""What a recipe loads: trimmed, weighed, with backgrounds, relevance and graphs; the matcher that is fitted to it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from torch import Tensor

from evenreel.checkpoint import MatcherSpec, load_features_for, load_matcher
from evenreel.cli.train import inputs_of
from evenreel.corpus import class_relevance, load_corpus, make_corpus, save_corpus, select
from evenreel.debias.backgrounds import estimated_backgrounds
from evenreel.debias.habits import WithoutHabits
from evenreel.debias.likeness import likeness_weights
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import StoredSettings, store_features
from evenreel.features.load import graphs_of
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.batches import PairBatch
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.matchers.scoring import matcher_scores
from evenreel.training import Recipe
from evenreel.training.batches import Batches, Draw, FeatureExamples, Order, TrainingBatch, TrainingInputs, pairs_of
from evenreel.training.loop import RunHooks, train
from evenreel.training.material import (
    drawn_alike,
    fitted_spec,
    length_polynomials,
    load_material,
    mean_frames,
    spec_of,
    with_backgrounds,
)
from evenreel.training.module import RetrievalModule
from evenreel.training.recipe import BackgroundExchange, RecipeError, Trim, load_recipe, uses_of
from evenreel.training.splits import mirrors_of, trimmed_corpus
from evenreel.types import Corpus, RoleGraph, RoleNode, VideoFeatures
from tests.in_process import run_here
from tests.training.small_material import (
    DIMENSION,
    REAL,
    figures_of,
    mirrored_corpus,
    mirrored_examples,
    small_corpus,
    small_examples,
    small_material,
    small_recipe,
)


def corpus_of(prefix: str, clips: list[tuple[int, list[int], list[int]]]) -> Corpus:
    """Clips of (frames, verbs, nouns), each with one caption."""
    names = [f"{prefix}{number}" for number in range(len(clips))]
    table = pl.DataFrame(
        {
            "clip_id": names,
            "frame_count": [frames for frames, _, _ in clips],
            "verb_classes": [verbs for _, verbs, _ in clips],
            "noun_classes": [nouns for _, _, nouns in clips],
        }
    )
    captions = pl.DataFrame({"caption_id": [f"c-{name}" for name in names], "clip_id": names, "text": names})
    return make_corpus(table, captions)


LEARNED = corpus_of(
    "t", [(10, [0], [0]), (20, [0], [0]), (90, [0], [0]), (30, [1], [1]), (40, [1], [1]), (7, [2], [2])]
)
TARGET = corpus_of("v", [(80, [0], [0]), (100, [0], [0]), (35, [1], [1]), (5, [3], [3])])


def test_a_class_is_trimmed_to_its_mean_elsewhere() -> None:
    """Class <0, 0> has mean 40 in training and 90 elsewhere: both short clips go; <1, 1> fits, <2, 2> is not there."""
    found = trimmed_corpus(LEARNED, TARGET, Trim(margin=10, least=1), seed=0)
    assert found.corpus.clips["clip_id"].to_list() == ["t2", "t3", "t4", "t5"]
    assert found.corpus.captions["clip_id"].to_list() == ["t2", "t3", "t4", "t5"]
    assert (found.clips, found.classes) == (2, 1)
    assert found.sentence == (
        "Left out for their length: 2 of 6 training clips (33.3%; classes that are trimmed: 1; margin 10 frames; clips "
        "that a class keeps at least: 1)."
    )


def test_as_many_are_drawn_at_random_by_the_seed() -> None:
    kept = [
        trimmed_corpus(LEARNED, TARGET, Trim("random", margin=10, least=1), seed).corpus.clips["clip_id"].to_list()
        for seed in range(20)
    ]
    assert {len(one) for one in kept} == {4}
    assert len({tuple(one) for one in kept}) > 5
    again = trimmed_corpus(LEARNED, TARGET, Trim("random", margin=10, least=1), 3)
    assert again.corpus.clips["clip_id"].to_list() == kept[3]
    assert again.sentence.startswith("Left out at random, as many as for their length: 2 of 6 training clips (33.3%;")


def test_a_clip_of_two_actions_goes_with_one_of_them() -> None:
    """Its length counts half for each: 20 for verb 0, which is to last 90, and 20 for verb 1, which is not trimmed."""
    learned = corpus_of("t", [(40, [0, 1], [0]), (95, [0], [0]), (20, [1], [0])])
    target = corpus_of("v", [(90, [0], [0]), (20, [1], [0])])
    found = trimmed_corpus(learned, target, Trim(margin=10, least=1), seed=0)
    assert found.corpus.clips["clip_id"].to_list() == ["t1", "t2"]
    assert (found.clips, found.classes) == (1, 1)


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ({"frame_count": pl.lit(None, pl.Int64)}, "of 10 clips is not known, and trim compares lengths"),
        ({"verb_classes": pl.lit([], pl.List(pl.Int32))}, "No clip has a verb class"),
    ],
)
def test_what_nobody_knows_of_clips_is_asked_for(column: dict[str, pl.Expr], sentence: str) -> None:
    learned, target = (Corpus(one.clips.with_columns(**column), one.captions) for one in (LEARNED, TARGET))
    with pytest.raises(CorpusError, match=sentence):
        trimmed_corpus(learned, target, Trim(), seed=0)


@pytest.mark.parametrize(("target", "uses"), [(None, ()), ("val", ()), ("test", ("class lengths of the split test",))])
def test_a_model_says_what_it_knows_of_a_test_split(target: str | None, uses: tuple[str, ...]) -> None:
    assert uses_of(small_recipe(trim={"target": target})) == uses
    assert uses_of(small_recipe()) == ()


def searched_like(examples: FeatureExamples, rows: slice) -> VideoFeatures:
    """Some clips of the examples once more, as those that are searched."""
    videos = examples.video_features
    return VideoFeatures(videos.ids[rows], videos.frames[rows], videos.frame_mask[rows], videos.times_s[rows])


def test_captions_weigh_what_their_clip_does_times_what_they_weighed() -> None:
    plain = small_examples(captions_each=2)
    known = np.where(np.arange(64) < 2, 3.0, 1.0)
    searched = searched_like(plain, slice(0, 8))
    found, said = drawn_alike(replace(plain, pairs=replace(plain.pairs, weights=known)), searched)
    own = likeness_weights(mean_frames(plain.video_features), mean_frames(searched))
    expected = [own[clip] * one for clip, one in zip(plain.pairs.clips, known, strict=True)]
    assert found.pairs.weights == pytest.approx(np.array(expected) / np.mean(expected))
    assert found.pairs.weights is not None and found.pairs.digest() != plain.pairs.digest()
    assert own[:8].mean() > 1 > own[8:].mean()
    worth = 32**2 / (own**2).sum()
    assert said == (
        f"Clips are drawn up to {own.max():.1f} times as often as on average, the more often the more they are like "
        f"the 8 clips that will be searched; that is worth {worth:.0f} clips drawn alike."
    )
    other = VideoFeatures(("a",), np.ones((1, 1, 3), np.float32), np.ones((1, 1), bool), np.zeros((1, 1)))
    with pytest.raises(UsageError, match="have 16 numbers and those of `likeness` 3"):
        drawn_alike(plain, other)


def test_habits_are_those_of_the_clips_that_are_drawn(tmp_path: Path) -> None:
    """The first 32 captions differ along one direction within a clip, the last 32 along another; these are drawn."""
    plain, rng = small_examples(clips=64), np.random.default_rng(1)
    habits = np.linalg.qr(rng.standard_normal((DIMENSION, 2)))[0].T
    rows = np.repeat(np.arange(32), 2)
    shown = rng.standard_normal((32, DIMENSION))[rows] + 0.05 * rng.standard_normal((64, DIMENSION))
    written = shown + rng.standard_normal((64, 1)) * habits[np.arange(64) // 32]
    sentence = written / np.linalg.norm(written, axis=1, keepdims=True)
    texts = replace(plain.text_features, sentence=sentence.astype(np.float32))
    weights = np.where(np.arange(64) < 32, 0.0, 2.0)
    examples = replace(plain, text_features=texts, pairs=replace(plain.pairs, clips=rows, weights=weights))
    matcher = train(small_recipe(without_habits={"beyond": 20.0}), small_material(examples), tmp_path).matcher
    assert isinstance(matcher, WithoutHabits)
    kept = (torch.from_numpy(habits).float() @ matcher.kept).norm(dim=1)
    assert kept[0] > 0.9 and kept[1] < 0.2


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Clips around two places, half of them to learn from; those of the second place are searched."""
    folder, corpus = tmp_path_factory.mktemp("likeness"), small_corpus(36)
    number = pl.col("clip_id").str.slice(1).cast(pl.Int64)
    split = pl.when(number < 24).then(pl.lit("train")).otherwise(pl.lit("test"))
    corpus = make_corpus(corpus.clips.with_columns(split=split), corpus.captions)
    save_corpus(corpus, folder / "corpus")
    save_corpus(select(corpus, split="test"), folder / "elsewhere")
    for row, name in enumerate(corpus.clips["clip_id"]):
        np.save(folder / f"{name}.npy", np.random.default_rng(row).standard_normal((3, 4)) + 3 * (row >= 12))
    for name in ("features", "other"):
        store_features(corpus, folder / name, StoredSettings(name, {"rgb": [folder]}))
    data = {"corpus": str(folder / "corpus"), "features": str(folder / "features"), "validation": None}
    hgr = {"name": "hgr", "settings": {"size": 8, "word_size": 4}}  # needs no vectors of captions
    return small_recipe(data=data, matcher=hgr, likeness={})


def test_a_recipe_draws_clips_by_likeness_and_says_so(recipe: Recipe) -> None:
    loaded = load_material(recipe)
    weights = loaded.examples.pairs.weights
    assert weights is not None and weights[:12].max() < weights[12:].min()
    assert len(loaded.notes) == 1 and "like the 12 clips that will be searched" in loaded.notes[0]
    assert loaded.uses == ("frames of searched clips",)
    plain = load_material(replace(recipe, likeness=None))
    assert (plain.notes, plain.uses, plain.examples.pairs.weights) == ((), (), None)


def test_clips_of_another_corpus_are_of_the_same_encoder(recipe: Recipe) -> None:
    folder = Path(recipe.data.corpus).parent
    assert recipe.likeness is not None
    elsewhere = replace(recipe.likeness, split=None, corpus=str(folder / "elsewhere"))
    weights = [
        load_material(replace(recipe, likeness=one)).examples.pairs.weights for one in (recipe.likeness, elsewhere)
    ]
    assert np.array_equal(*weights)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="are of different encoders"):
        load_material(replace(recipe, likeness=replace(elsewhere, features=str(folder / "other"))))


def exchanging(share: float = 1.0) -> FeatureExamples:
    return with_backgrounds(small_examples(), BackgroundExchange(4, share), 0)


def test_frames_move_by_the_difference_of_two_backgrounds_and_padding_stays_zero() -> None:
    examples, rows = exchanging(), np.array([0, 2, 3, 5, 5])
    found = examples.backgrounds
    assert found is not None
    plain, changed = examples.videos(rows), examples.videos(rows, Draw(3, 7))
    means = {tuple(row) for row in np.round(found.means, 4).tolist()}
    for place, row in enumerate(rows):
        mask = plain.frame_mask[place]
        unit = torch.nn.functional.normalize(plain.frames[place][mask].float(), dim=-1)
        moved = (changed.frames[place][mask] - unit).numpy()
        assert np.ptp(moved, axis=0).max() < 1e-5
        assert tuple(np.round(found.means[found.clusters[row]] + moved[0], 4).tolist()) in means
        assert not changed.frames[place][~mask].any()
    again, other = examples.videos(rows, Draw(3, 7)), examples.videos(rows, Draw(3, 8))
    assert torch.equal(again.frames, changed.frames) and not torch.equal(other.frames, changed.frames)


def test_validation_and_a_share_of_nothing_leave_clips_as_they_are() -> None:
    rows = np.arange(4)
    examples = exchanging()
    assert torch.equal(examples.videos(rows).frames, small_examples().videos(rows).frames)
    kept = exchanging(0.0).videos(rows, Draw(0, 0))
    unit = torch.nn.functional.normalize(examples.videos(rows).frames.float(), dim=-1)
    assert torch.allclose(kept.frames, unit * kept.frame_mask[..., None], atol=1e-6)


def test_the_mean_frame_leaves_padding_out() -> None:
    videos = small_examples().video_features
    for row, mean in enumerate(mean_frames(videos)):
        real = [frame / np.linalg.norm(frame) for frame in videos.frames[row][videos.frame_mask[row]].astype(float)]
        assert mean == pytest.approx(sum(real) / len(real), abs=1e-6)


def test_a_background_says_nothing_of_lengths_where_these_are_taken_off_frames() -> None:
    rng, count, size = np.random.default_rng(0), 600, 12
    kinds, lengths = rng.integers(3, size=count), rng.uniform(1, 9, count)
    ranks = (np.argsort(np.argsort(lengths)) + 0.5) / count
    places, along = np.eye(size)[:3], np.eye(size)[3]
    kept = np.where(
        rng.random(count) < 0.9, np.argsort(np.argsort(ranks)) * 3 // count, kinds
    )  # places go with lengths
    frames = places[kept] + np.outer(2 * ranks - 1, along) + 0.01 * rng.standard_normal((count, size))
    frames = (frames / np.linalg.norm(frames, axis=1, keepdims=True))[:, None].astype(np.float32)
    ids = tuple(f"v{row}" for row in range(count))
    times_s = np.stack([np.zeros(count), lengths], axis=1)
    videos = VideoFeatures(ids, frames.repeat(2, axis=1), np.ones((count, 2), np.bool_), times_s)
    clips = np.arange(count)
    ordered = length_polynomials(videos, clips, 3)
    angle = np.arccos(2 * ranks - 1)
    assert ordered == pytest.approx(np.stack([np.cos(k * angle) for k in (1, 2, 3)], axis=1), abs=1e-9)
    noise = rng.standard_normal((count, 4))
    plain, beyond = (
        estimated_backgrounds(
            mean_frames(videos), np.concatenate([noise, length_polynomials(videos, clips, terms)], 1), 3
        )
        for terms in (0, 5)
    )
    assert np.ptp(plain.means @ along) > 0.5  # the place of long clips brings length along
    assert np.ptp(beyond.means @ along) < 0.25


def test_a_training_with_exchanged_backgrounds_differs_and_repeats(tmp_path: Path) -> None:
    recipe = small_recipe()
    weights = []
    for number, examples in enumerate((small_examples(), exchanging(), exchanging())):
        material = replace(small_material(), examples=examples)
        matcher = train(recipe, material, tmp_path / str(number)).matcher
        assert isinstance(matcher, torch.nn.Module)
        weights.append(torch.cat([one.flatten() for one in matcher.state_dict().values()]))
    assert torch.equal(weights[1], weights[2]) and not torch.equal(weights[0], weights[1])


def test_a_recipe_loads_clips_that_exchange_backgrounds_and_needs_vectors_of_captions(tmp_path: Path) -> None:
    corpus = small_corpus(12)
    save_corpus(make_corpus(corpus.clips.with_columns(split=pl.lit("train")), corpus.captions), tmp_path / "corpus")
    for name in corpus.clips["clip_id"]:
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).standard_normal((3, 4)))
    store_features(corpus, tmp_path / "features", StoredSettings("small", {"rgb": [tmp_path]}))
    data = {"corpus": str(tmp_path / "corpus"), "features": str(tmp_path / "features"), "validation": None}
    hgr = {"name": "hgr", "settings": {"size": 8, "word_size": 4}}
    recipe = small_recipe(data=data, matcher=hgr, backgrounds={"clusters": 2})
    with pytest.raises(UsageError, match="Captions have no vectors"):
        load_material(recipe)
    assert load_material(replace(recipe, backgrounds=None)).dimension == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"data": {"features": None}, "backbone": {"model": "builtin"}},
        {"backgrounds": {"clusters": 1}},
        {"backgrounds": {"share": 1.5}},
    ],
)
def test_what_cannot_be_exchanged_is_refused(changes: dict[str, dict[str, object]]) -> None:
    with pytest.raises(RecipeError, match="backgrounds"):
        small_recipe(**{"backgrounds": {}, **changes})


BATCH = 8
GRAPH = '[{"ROOT": {"role": "ROOT", "words": ["cut"]}, "1": {"role": "V", "spans": [0]}}, []]'


class Listening(MeanPool):
    """It keeps the batch that its loss was given."""

    heard: PairBatch

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        self.heard = batch
        return super().loss(batch)


def with_classes() -> Corpus:
    """Clips that mirror others, of three verbs and five nouns."""
    corpus = mirrored_corpus()
    number = pl.col("clip_id").str.slice(1).cast(pl.Int64)
    classes = {"verb_classes": pl.concat_list(number % 3), "noun_classes": pl.concat_list(number % 5, number % 2 + 5)}
    return make_corpus(corpus.clips.with_columns(**classes), corpus.captions.with_columns(**classes))


@pytest.fixture(scope="module")
def examples() -> FeatureExamples:
    plain, corpus = mirrored_examples(), with_classes()
    texts, videos = plain.text_features.ids, plain.video_features.ids
    return replace(plain, pairs=pairs_of(corpus, texts, videos, mirrors_of(corpus), relevance=True))


def batch_of(examples: FeatureExamples, part: tuple[int, int] = (0, 1)) -> TrainingBatch:
    return Batches(examples, Order(REAL, BATCH, 0), part)[0]


def test_they_reach_the_loss_through_the_adapter_and_beside_mirrors(examples: FeatureExamples) -> None:
    matcher = Listening(DIMENSION, MeanPoolSettings())
    adapted = cast("Matcher", Adapted(matcher, DIMENSION, AdapterSettings()))
    mining = small_recipe(debias={"preset": "neutral"})
    batch = batch_of(examples)
    RetrievalModule(adapted, None, mining, 1).training_step(batch, 0)
    degrees = class_relevance(with_classes(), batch.caption_ids, batch.clip_ids, "iou")
    expected = torch.from_numpy(degrees.block(slice(0, BATCH), slice(0, BATCH))).float()
    assert matcher.heard.relevance is not None
    assert torch.equal(matcher.heard.relevance, expected)
    assert len(set(expected.flatten().tolist())) > 3


def test_every_device_has_those_of_the_whole_batch(examples: FeatureExamples) -> None:
    whole = batch_of(examples)
    for device in (0, 1):
        part = batch_of(examples, (device, 2))
        assert len(part.text.ids) == BATCH // 2
        assert part.relevance is not None
        assert torch.equal(part.relevance, cast("Tensor", whole.relevance))


def test_every_device_has_the_role_graphs_of_the_whole_batch(
    examples: FeatureExamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = tuple(RoleGraph((name,)) for name in examples.text_features.ids)
    captions = replace(examples, text_features=replace(examples.text_features, graphs=graphs))
    module = RetrievalModule(cast("Matcher", MeanPool(DIMENSION, MeanPoolSettings())), None, small_recipe(), 1)
    monkeypatch.setattr(module, "_gather", lambda part: torch.stack([part, part]))
    for device in (0, 1):
        text = module.joint_batch(batch_of(captions, (device, 2))).text
        assert text.graphs == tuple(RoleGraph((name,)) for name in text.ids)
    assert batch_of(examples).graphs is None


@pytest.fixture(scope="module")
def mining(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """On features of half of the clips; those of `with_classes`, the other half to be selected on."""
    folder = tmp_path_factory.mktemp("classes")
    corpus = with_classes()
    number = pl.col("clip_id").str.slice(1).cast(pl.Int64)
    split = pl.when(number < REAL // 2).then(pl.lit("train")).otherwise(pl.lit("val"))
    clips = corpus.clips.with_columns(split=split, source=None, pair_id=None)
    corpus = make_corpus(clips, corpus.captions.with_columns(role_graph=pl.lit(GRAPH)))
    save_corpus(corpus, folder / "corpus")
    random = np.random.default_rng(0)
    for name in clips["clip_id"]:
        np.save(folder / f"{name}.npy", random.standard_normal((3, DIMENSION)))
    store_features(corpus, folder / "features", StoredSettings("small", {"rgb": [folder]}))
    return small_recipe(
        data={"corpus": str(folder / "corpus"), "features": str(folder / "features")},
        matcher={"name": "hgr", "settings": {"mining": "ranp", "size": 8, "word_size": 4}},
        adapter={"kind": "linear"},
        loop={"epochs": 1},
    )


def test_a_recipe_that_mines_by_relevance_learns_by_it(mining: Recipe, tmp_path: Path) -> None:
    material = load_material(mining)
    pairs, rows = material.examples.pairs, np.arange(8)
    numbers = [int(pairs.clip_ids[row][1:]) for row in pairs.clips[rows]]
    nouns = [{number % 5, number % 2 + 5} for number in numbers]
    degrees = [
        [((i - j) % 3 == 0) / 2 + len(n & m) / len(n | m) / 2 for j, m in zip(numbers, nouns, strict=True)]
        for i, n in zip(numbers, nouns, strict=True)
    ]
    torch.testing.assert_close(pairs.relevance(rows), torch.tensor(degrees))
    assert material.validation is not None
    assert material.validation.pairs.relevance(rows) is None, "nothing is learned from it"
    train(mining, material, tmp_path)
    assert figures_of(tmp_path, "loss/text_to_video_positive")[1] > 0


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
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_captions_are_read_alike_in_training_and_in_scoring(graph_file: Path, tmp_path: Path) -> None:
    folder = graph_file.parent
    done("train", graph_file, "--out", tmp_path / "run")
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


def test_the_graphs_are_those_of_the_corpus_and_are_noted(graph_file: Path) -> None:
    read = load_recipe(graph_file)
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


def test_other_matchers_have_none_and_say_that_nobody_has_read_the_captions(graph_file: Path, tmp_path: Path) -> None:
    read = load_recipe(graph_file, ["matcher={name: mean_pool}"])
    loaded = load_material(read)
    learned: Any = loaded.examples
    assert learned.text_features.graphs is None
    assert "caption_graphs" not in loaded.source
    with pytest.raises(UsageError, match="No text tower has read these captions"):
        train(read, loaded, tmp_path / "run")


SIZES = {"size": 8, "word_size": 4}


def reading(*words: str) -> FeatureExamples:
    """Sixteen captions of one word each, in turn; two more of the table are those of no clip."""
    examples = small_examples(clips=16)
    graphs = tuple(RoleGraph((words[row % len(words)],), (RoleNode("NOUN", (0,)),)) for row in range(16))
    pairs = replace(examples.pairs, captions=examples.pairs.captions[:-2], clips=examples.pairs.clips[:-2])
    rare = RoleGraph(("never",))
    return replace(
        examples, pairs=pairs, text_features=replace(examples.text_features, graphs=(*graphs[:-2], rare, rare))
    )


def hgr_recipe(**changes: Any) -> Recipe:
    settings = {**SIZES, **changes.pop("settings", {})}
    return small_recipe(matcher={"name": "hgr", "settings": settings}, adapter=None, **changes)


def test_the_vocabulary_is_that_of_the_captions_learned_from() -> None:
    spec = fitted_spec(hgr_recipe(), TrainingInputs(reading("cut", "take", "cut"), DIMENSION))
    assert spec == MatcherSpec("hgr", {**SIZES, "vocabulary": ("cut", "take")})
    assert spec_of(hgr_recipe()) == MatcherSpec("hgr", SIZES), "a recipe stays as it was written"


def test_also_behind_an_adapter_and_not_where_the_recipe_names_one() -> None:
    adapted = replace(hgr_recipe(), adapter=small_recipe().adapter)
    assert fitted_spec(adapted, TrainingInputs(reading("cut"), DIMENSION)).wrapped[0].settings["vocabulary"] == ("cut",)
    given = hgr_recipe(settings={"vocabulary": ["plate"]})
    assert fitted_spec(given, TrainingInputs(reading("cut"), DIMENSION)).settings["vocabulary"] == ("plate",)


def test_a_matcher_that_reads_no_words_is_what_its_recipe_says() -> None:
    assert fitted_spec(small_recipe(), TrainingInputs(small_examples(), DIMENSION)) == spec_of(small_recipe())


def test_captions_that_are_no_graphs_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"hgr reads captions as role graphs .* train it on features \(data.features\)"
    ):
        fitted_spec(hgr_recipe(), TrainingInputs(small_examples(), DIMENSION))


def test_what_goes_on_from_a_checkpoint_keeps_its_words(tmp_path: Path) -> None:
    first = train(hgr_recipe(), TrainingInputs(reading("cut", "take"), DIMENSION), tmp_path / "first")
    weights = {name: tensor.clone() for name, tensor in first.matcher.state_dict().items()}  # type: ignore[attr-defined]
    still = hgr_recipe(optimiser={"lr": 0.0})
    material = TrainingInputs(reading("wash", "take", "fold"), DIMENSION, start=weights, start_spec=first.spec)
    second = train(still, material, tmp_path / "second")
    assert second.spec == first.spec
    empty = hgr_recipe(settings={"vocabulary": []})  # the default, spelt out
    begun = TrainingInputs(reading("wash"), DIMENSION, start_spec=first.spec)
    assert fitted_spec(empty, begun).settings["vocabulary"] == ("cut", "take")
    for name, tensor in second.matcher.state_dict().items():  # type: ignore[attr-defined]
        assert torch.equal(tensor, weights[name])


def test_word_vectors_are_read_when_training_begins_and_never_after(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("cut 1 2 3 4\nplate 5 6 7 8\n")
    still = hgr_recipe(settings={"vectors": str(path)}, optimiser={"lr": 0.0}, records={"save_every_steps": 1})
    material = TrainingInputs(reading("cut", "take"), DIMENSION)
    begun: Any = train(still, material, tmp_path / "run").matcher
    assert begun.texts.words.weight[1].tolist() == [1, 2, 3, 4]
    path.unlink()
    again: Any = train(still, material, tmp_path / "run", RunHooks(resume=True)).matcher
    assert torch.equal(again.texts.words.weight, begun.texts.words.weight)
    with pytest.raises(UsageError, match="cannot be read"):
        train(still, material, tmp_path / "another")
