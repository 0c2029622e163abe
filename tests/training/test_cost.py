"""What a recipe's matcher costs: the figures of the published table, formulas written out, and seconds an epoch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from torch import nn

from evenreel.checkpoint.architecture import module
from evenreel.errors import UsageError
from evenreel.matchers import MATCHERS, build_matcher
from evenreel.matchers.matcher import LearnedFrom
from evenreel.similarity.tiles import mapped
from evenreel.training.cost import (
    NOUNS,
    VERBS,
    Cost,
    EpochTime,
    Shape,
    Times,
    _captions,
    _count_multiply_adds,
    _videos,
    matcher_cost,
    measured_times,
    recipe_cost,
)
from evenreel.training.recipe import MatcherChoice
from evenreel.training.splits import ClipLengths
from tests.in_process import run_here
from tests.matchers.examples import DIMENSION, SETTINGS, small
from tests.training.small_material import small_material, small_recipe

SMALL = Shape(DIMENSION, batch=6, frames=3, words=12)


def test_the_published_figures_of_hgr() -> None:
    """Frame-length bias, table 5: 3.15 M and 10.25 M parameters, 4.03 G multiply-adds for a batch of 64 clips."""
    size, batch, frames, words = 1024, 64, 20, 30
    vocabulary = {"vocabulary": ("cut", "tomato")}
    cost = matcher_cost(build_matcher("hgr", 1024, vocabulary), Shape(1024, batch, frames, words))
    assert cost.videos.parameters == 3_149_825
    assert cost.captions.parameters == 10_248_193
    assert cost.parameters == 3_149_825 + 10_248_193
    assert cost.embeddings == 3 * 300 + 16 * size
    maps = batch * frames * (3 * size**2 + size)
    assert maps == pytest.approx(4.028e9, rel=1e-4)
    pooling, products_of_frames = batch * frames * size, 2 * batch * frames**2 * size
    assert cost.videos.multiply_adds == maps + pooling + products_of_frames
    recurrent = words * 2 * 3 * size * (300 + size)
    nodes = 1 + VERBS + NOUNS
    graph = nodes * (2 * size * size // 2 + size**2) + nodes**2 * (size // 2 + size)
    assert cost.captions.multiply_adds == batch * (recurrent + 2 * words * size + graph)


def test_attention_is_counted() -> None:
    """A block of CLIP4Clip's transformer: four maps of D x D, a network of 8 D x D, and frames with frames twice."""
    layers, frames, batch = 2, 3, 6
    cost = matcher_cost(small("temporal"), SMALL)
    maps = frames * 12 * DIMENSION**2 + 2 * frames**2 * DIMENSION
    assert cost.videos.multiply_adds == pytest.approx(batch * layers * maps, rel=0.01)
    assert cost.videos.multiply_adds >= batch * layers * maps


def test_pairs_are_counted_one_by_one() -> None:
    cost = matcher_cost(build_matcher("wti", DIMENSION), SMALL)
    words, frames = SMALL.words, SMALL.frames
    assert cost.pair_multiply_adds == words * frames * DIMENSION + words + frames
    assert cost.captions.multiply_adds == SMALL.batch * words * (DIMENSION**2 + DIMENSION)
    assert cost.captions.row_bytes == words * (4 * DIMENSION + 1 + 4)


def test_what_is_done_once_for_a_caption_is_no_part_of_a_pair() -> None:
    """T-MASS scores words of a caption: a gallery of many clips does not make a pair dearer or cheaper."""
    matcher = small("t_mass")
    text, video = (
        mapped(state, lambda rows: rows.repeat_interleave(16, 0))
        for state in (matcher.encode_text(_captions(SMALL)), matcher.encode_video(_videos(SMALL, windows=False)))
    )
    many = _count_multiply_adds(lambda: matcher.score(text, video))[1] / 32**2
    assert matcher_cost(matcher, SMALL).pair_multiply_adds == pytest.approx(many, rel=0.01)


def of_the_loss(matcher: nn.Module) -> int:
    """Parameters that no score depends on: its scale, decoders and bias of captions of bima, calibration of tcd."""
    only = ("logit_scale", "captioner.", "text_decoder.", "bias.", "calibration.")
    return sum(weight.numel() for name, weight in matcher.named_parameters() if name.startswith(only))


@pytest.mark.parametrize("name", MATCHERS)
def test_every_matcher_has_all_its_parameters_in_its_cost(name: str) -> None:
    matcher = small(name)
    cost = matcher_cost(matcher, SMALL)
    assert cost.training_parameters == of_the_loss(module(matcher))
    whole = cost.parameters + cost.embeddings + cost.training_parameters
    assert whole == sum(one.numel() for one in module(matcher).parameters())
    parts = cost.captions.parameters + cost.videos.parameters + cost.pair_parameters
    assert parts >= cost.parameters  # those of both sides twice
    twice = matcher_cost(matcher, replace(SMALL, batch=2 * SMALL.batch))
    assert twice.videos.multiply_adds == 2 * cost.videos.multiply_adds
    assert twice.pair_multiply_adds == cost.pair_multiply_adds


def test_windows_are_counted_where_they_are_read() -> None:
    more = replace(SMALL, windows=2 * SMALL.windows)
    for name, reads in (("wti", False), ("tcd", True)):
        few, many = (recipe_cost(small_recipe(matcher={"name": name}), shape).whole for shape in (SMALL, more))
        assert (many.videos.multiply_adds > few.videos.multiply_adds) == reads
        assert (many.pair_multiply_adds > few.pair_multiply_adds) == reads


def test_an_ensemble_costs_as_much_as_its_members() -> None:
    found = recipe_cost(small_recipe(matcher={"name": "wti"}, members={"count": 3}), SMALL)
    assert found.members == 3
    assert everything(found.whole) == pytest.approx([3 * value for value in everything(found.one)])
    only = recipe_cost(small_recipe(matcher={"name": "wti"}, members={"count": 3, "only": 2}), SMALL)
    assert (only.members, only.whole) == (1, only.one)


def everything(cost: Cost) -> list[float]:
    sides = [value for side in (cost.captions, cost.videos) for value in vars(side).values()]
    return [*sides, cost.pair_multiply_adds, cost.parameters, cost.training_parameters]


AMONG = {"kind": "linear", "windows": True}


@pytest.mark.parametrize(
    ("matcher", "most", "adapter", "shape", "sentence"),
    [
        ("tcd", 3, None, {"windows": 4}, "at most 3 windows, and 4 are asked for; give fewer --windows"),
        ("temporal", 6, AMONG, {"windows": 4}, "at most 6 frames and windows together, and 3 and 4 are asked for"),
        ("temporal", 12, None, {"frames": 13}, "at most 12 frames, and 13 are asked for; give fewer --frames"),
    ],
)
def test_what_is_too_much_is_named_by_its_option(
    matcher: str, most: int, adapter: Any, shape: dict[str, int], sentence: str
) -> None:
    recipe = small_recipe(matcher={"name": matcher, "settings": {"max_frames": most}}, adapter=adapter)
    with pytest.raises(UsageError, match=sentence):
        recipe_cost(recipe, replace(SMALL, **shape))
    fits = {name: size - 1 for name, size in shape.items()}
    assert recipe_cost(recipe, replace(SMALL, **fits)).shape == replace(SMALL, **fits)


@pytest.mark.parametrize("name", ["textvr/tcd", "vitevqa/x_clip"])
def test_shipped_recipes_are_counted_on_the_frames_of_their_rule(name: str) -> None:
    done = run_here("cost", name, "--dimension", "64", "--batch", "1", environment={})
    assert "clips of 12 frames of 64 numbers" in " ".join(done.stdout.split()), done.stderr


def test_an_epoch_is_as_many_steps_as_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.training.cost.WARM_UP_STEPS", 1)
    monkeypatch.setattr("evenreel.training.cost.STEPS", 3)
    recipe = small_recipe(members={"split": "adjusted", "fraction": 0.75}, loop={"batch_size": 8, "epochs": 3})
    material = replace(small_material(), lengths=ClipLengths(np.arange(32.0), "frames"))
    times = measured_times(recipe, material, tmp_path)
    assert [(one.captions, one.steps) for one in (times.alone, *times.members)] == [(32, 4.0), (24, 3.0), (8, 1.0)]
    assert min(one.seconds for one in times.members) > 0


def test_members_in_turn_and_at_once() -> None:
    """The published epochs of EPIC-KITCHENS-100: 305 s for all, 175 s and 69 s for the two strata."""
    times = Times(EpochTime(67_217, 1050, 305.0), (EpochTime(50_282, 785, 175.0), EpochTime(16_935, 264, 69.0)))
    assert times.in_turn_s / times.alone.seconds - 1 == pytest.approx(-0.2)
    assert times.at_once_s == 175.0


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values: dict[str, Any] = {
        "name": "small",
        "data": {"corpus": "nowhere", "features": "nowhere", "validation": "test"},
        "matcher": {"name": "wti"},
        "members": {"count": 2},
    }
    path = tmp_path_factory.mktemp("recipe") / "small.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_what_writes_captions_is_a_cost_of_training_alone() -> None:
    """Also where nobody gives captions to take its words from."""
    plain_recipe = replace(small_recipe(), matcher=MatcherChoice("wti", {}), adapter=None)
    recipe = replace(plain_recipe, matcher=MatcherChoice("bima", {**SETTINGS["bima"], "vocabulary": ()}))
    unread, plain = recipe_cost(recipe, SMALL), recipe_cost(plain_recipe, SMALL)
    assert (unread.words_unread, plain.words_unread) == (True, False)
    rare = replace(recipe.matcher, settings={**recipe.matcher.settings, "words_at_least": 3})
    assert recipe_cost(replace(recipe, matcher=rare), SMALL) == unread
    read = recipe_cost(recipe, SMALL, LearnedFrom(texts=("a red ball", "a dog")))
    assert not read.words_unread
    more = read.one.training_parameters - unread.one.training_parameters
    assert more == 2 * (4 - 1) * DIMENSION  # words that two decoders know, in place of one that stands for all
    assert replace(read.one, training_parameters=0) == replace(unread.one, training_parameters=0)
    content = 2 * (DIMENSION**2 + DIMENSION)
    assert unread.one.captions.parameters == plain.one.captions.parameters + content


def test_the_command_and_what_it_needs(recipe_file: Path) -> None:
    shape = ["--dimension", "16", "--batch", "6", "--frames", "3", "--words", "12"]
    here = run_here("cost", recipe_file, *shape, "--json", environment={})
    found = json.loads(here.stdout)
    assert (found["members"], found["times"], found["shape"]["frames"]) == (2, None, 3)
    assert found["whole"]["parameters"] == 2 * found["one"]["parameters"]
    said = run_here("cost", recipe_file, *shape, environment={}).stdout
    for words in ("one training", "2 matchers, fused", "A gallery of 10,000 such clips takes 4.14 MB, 2.07 MB of one"):
        assert words in said
    bare = run_here("cost", recipe_file, environment={})
    assert (bare.returncode, bare.stdout) == (2, "")
    assert "features of the recipe are not read, so nobody knows their length; give --dimension" in bare.stderr
    both = run_here("cost", recipe_file, "--dimension", "16", "--measure", environment={})
    assert "leave --dimension out" in both.stderr
