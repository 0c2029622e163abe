"""Members are the trainings that one would do by hand, wherever and however often they were broken off."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenreel.checkpoint.architecture import build, module
from evenreel.debias.frame_length import prior_weights
from evenreel.errors import CorpusError, UsageError
from evenreel.matchers.scoring import matcher_scores
from evenreel.training.batches import TrainingInputs
from evenreel.training.loop import RunHooks, TrainedModel, TrainingError, train
from evenreel.training.members import described, divided, shares, train_recipe
from evenreel.training.recipe import Members
from evenreel.training.run_folder import LAST, METRICS
from evenreel.training.splits import ClipLengths
from evenreel.types import RoleGraph, RoleNode
from tests.training.small_material import (
    DIMENSION,
    recall_at_1,
    small_examples,
    small_material,
    small_recipe,
    tower_material,
)
from tests.training.train_once import CONTEXT, start

CLIPS = 32
FRAMES = np.array([*range(10, 34), *range(100, 108)], np.float64)[np.random.default_rng(1).permutation(CLIPS)]
"""24 clips shorter than their mean of 42, and 8 that are longer."""

SHORT = FRAMES.mean() > FRAMES
ONE = {"epochs": 1}
Changes = Mapping[str, Any]


def long_material() -> TrainingInputs:
    return replace(small_material(), lengths=ClipLengths(FRAMES, "frames"))


def states(trained: TrainedModel) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in module(trained.matcher).state_dict().items()}


def by_hand(folder: Path, kept: np.ndarray[Any, np.dtype[np.bool_]], **changes: Changes) -> TrainedModel:
    """A plain training on some clips, whose captions have the same numbers."""
    examples = small_examples()
    examples = replace(examples, pairs=examples.pairs.taken(kept))
    material = replace(small_material(), examples=examples)
    return train(small_recipe(**changes), material, folder, RunHooks(recall_at_1))


@settings(max_examples=20)
@given(
    st.lists(st.integers(1, 9), min_size=4, max_size=40),
    st.sampled_from(
        [
            Members(count=2, split="equal"),
            Members(count=4, split="equal"),
            Members(count=2, fraction=0.7),
            Members(count=3, fraction=0.5, longest_first=True),
        ]
    ),
)
def test_each_pair_is_in_one_stratum(lengths: list[int], members: Members) -> None:
    assume(len(set(lengths)) > 1)
    pairs = small_examples(len(lengths), captions_each=2).pairs
    known = ClipLengths(np.array(lengths, np.float64), "seconds")
    numbers = divided(pairs, known, members, 0)
    parts = [pairs.taken(numbers[pairs.clips] == number) for number in range(members.count)]
    captions = np.concatenate([part.captions for part in parts])
    assert sorted(captions.tolist()) == sorted(pairs.captions.tolist())
    for part in parts:
        assert np.array_equal(part.captions // 2, part.clips)
    strata = described(pairs, known, numbers)
    assert [one.captions for one in strata] == [len(part) for part in parts] == [2 * one.clips for one in strata]
    ends = [(one.shortest, one.longest) for one in strata]
    assert all(low <= high for low, high in ends)
    ends = ends[::-1] if members.longest_first else ends
    assert all(before[1] <= after[0] for before, after in pairwise(ends))


@pytest.mark.parametrize("longest_first", [False, True])
def test_without_a_fraction_clips_are_divided_at_their_mean(longest_first: bool) -> None:
    pairs = small_examples().pairs
    numbers = divided(pairs, ClipLengths(FRAMES, "frames"), Members(longest_first=longest_first), 0)
    assert np.array_equal(numbers == int(longest_first), SHORT)


@settings(max_examples=20)
@given(st.integers(2, 4), st.sampled_from([None, 0.25, 0.7]), st.integers(0, 9))
def test_random_strata_are_as_large_as_those_by_length(count: int, fraction: float | None, seed: int) -> None:
    pairs, known = small_examples().pairs, ClipLengths(FRAMES, "frames")
    drawn = Members(count=count, split="random", fraction=fraction)
    by_length = replace(drawn, split="equal" if fraction is None else "adjusted")
    numbers, control = divided(pairs, known, by_length, seed), divided(pairs, known, drawn, seed)
    assert np.bincount(control).tolist() == np.bincount(numbers).tolist()
    assert np.array_equal(control, divided(pairs, known, drawn, seed))
    assert not np.array_equal(control, divided(pairs, known, drawn, seed + 1))


def test_random_strata_know_nothing_of_length() -> None:
    """The mean rank of the clips of a stratum is that of all, within four standard errors, over 200 seeds."""
    pairs, known = small_examples().pairs, ClipLengths(FRAMES, "frames")
    ranks = FRAMES.argsort().argsort()
    means = [ranks[divided(pairs, known, Members(split="random"), seed) == 0].mean() for seed in range(200)]
    assert abs(np.mean(means) - ranks.mean()) < 4 * np.std(means) / 200**0.5


@pytest.mark.parametrize("longest_first", [False, True])
def test_clips_that_length_cannot_divide(longest_first: bool) -> None:
    pairs, members = small_examples().pairs, Members(longest_first=longest_first)
    alike = ClipLengths(np.full(CLIPS, 3.3), "seconds")  # whose mean is none of them, by rounding
    with pytest.raises(UsageError, match=r"All 32 training clips are 3.3 seconds long, so length divides nothing"):
        divided(pairs, alike, members, 0)
    unknown = ClipLengths(np.where(SHORT, FRAMES, np.nan), "frames")
    with pytest.raises(UsageError, match=r"The length of 8 of 32 training clips is not known, .* give the corpus"):
        divided(pairs, unknown, members, 0)


def test_clips_without_a_caption_are_in_no_stratum() -> None:
    pairs = small_examples().pairs
    pairs = pairs.taken(pairs.clips % 2 == 0)
    numbers = divided(pairs, ClipLengths(FRAMES, "frames"), Members(split="thresholds", thresholds=(42.0,)), 0)
    assert np.array_equal(numbers, np.where(np.arange(CLIPS) % 2, -1, FRAMES >= 42))


@settings(max_examples=20)
@given(st.integers(1, 1000), st.lists(st.integers(1, 50), min_size=1, max_size=6))
def test_steps_are_dealt_by_size(steps: int, counts: list[int]) -> None:
    dealt = shares(steps, counts)
    assert min(dealt) >= 1
    for share, count in zip(dealt, counts, strict=True):
        assert abs(share - steps * count / sum(counts)) <= 1
    if min(steps * count / sum(counts) for count in counts) >= 1:
        assert sum(dealt) == steps


def test_members_are_the_trainings_of_their_clips(tmp_path: Path) -> None:
    trained = train_recipe(small_recipe(members={}), long_material(), tmp_path / "run", RunHooks(recall_at_1))
    hand = [by_hand(tmp_path / "short", SHORT), by_hand(tmp_path / "long", ~SHORT)]
    assert [states(one) for one in trained.members] == [states(one) for one in hand]
    assert [one.figures for one in trained.members] == [one.figures for one in hand]
    assert [(one.clips, one.shortest, one.longest) for one in trained.strata] == [(24, 10, 33), (8, 100, 107)]
    assert trained.step == sum(one.step for one in hand)
    scores = [scores_of(one) for one in hand]
    np.testing.assert_allclose(scores_of(trained), 0.75 * scores[0] + 0.25 * scores[1], atol=1e-6)
    assert trained.figures == {"validation/R@1": recall_at_1(all_scores(trained))["R@1"]}


def all_scores(trained: TrainedModel) -> Any:
    examples = small_examples()
    return matcher_scores(trained.matcher, examples.text_features, examples.video_features)


def scores_of(trained: TrainedModel) -> Any:
    return all_scores(trained).block(slice(0, CLIPS), slice(0, CLIPS))


def test_the_spec_builds_what_was_trained(tmp_path: Path) -> None:
    recipe = small_recipe(members={"split": "equal", "count": 3}, loop=ONE)
    trained = train_recipe(recipe, long_material(), tmp_path / "run")
    built = module(build(trained.spec, DIMENSION))
    built.load_state_dict(module(trained.matcher).state_dict())
    built.eval()
    assert np.array_equal(scores_of(replace(trained, matcher=built)), scores_of(trained))  # type: ignore[arg-type]


def test_one_member_alone_is_its_plain_matcher(tmp_path: Path) -> None:
    recipes = [small_recipe(members=members, loop=ONE) for members in ({}, {"only": 2})]
    whole, alone = (
        train_recipe(recipe, long_material(), tmp_path / name, RunHooks(recall_at_1))
        for recipe, name in zip(recipes, ("run", "alone"), strict=True)
    )
    assert states(alone) == states(whole.members[1])
    assert alone.spec == whole.members[1].spec
    assert [one.number for one in alone.strata] == [2]
    written = [place / "recipe.yaml" for place in (tmp_path / "run" / "members" / "2", tmp_path / "alone")]
    assert written[0].read_text() == written[1].read_text()


def test_members_of_other_seeds_learn_from_all_clips(tmp_path: Path) -> None:
    recipe = small_recipe(members={"by": "seed"}, loop={"seed": 4, "epochs": 1})
    trained = train_recipe(recipe, small_material(), tmp_path / "run", RunHooks(recall_at_1))
    every = np.ones(CLIPS, np.bool_)
    hand = [by_hand(tmp_path / str(seed), every, loop={"seed": seed, "epochs": 1}) for seed in (4, 5)]
    assert [states(one) for one in trained.members] == [states(one) for one in hand]
    assert trained.strata == ()
    assert trained.spec.settings["weights"] == (0.5, 0.5)


def test_steps_are_shared_so_that_all_cost_what_one_would(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    outside = RunHooks(watch=lambda step, steps, figures: told.append((step, steps)))
    recipe = small_recipe(members={}, loop={"epochs": None, "steps": 12})
    trained = train_recipe(recipe, long_material(), tmp_path / "run", outside)
    assert [one.step for one in trained.members] == [9, 3]
    assert told == [(step, 12) for step in range(1, 13)]
    assert "steps: 12" in (tmp_path / "run" / "members" / "1" / "recipe.yaml").read_text()


@pytest.mark.parametrize("loop", [{"epochs": None, "steps": 12}, {"epochs": 3}])
def test_each_stratum_may_take_as_many_steps_as_all_clips_would(tmp_path: Path, loop: Changes) -> None:
    """4 batches of all clips an epoch: 12 steps, however they are counted, evaluated after as many as those are."""
    told: list[tuple[int, int]] = []
    outside = RunHooks(recall_at_1, watch=lambda step, steps, figures: told.append((step, steps)))
    recipe = small_recipe(members={"steps": "full"}, loop=loop, selection={"patience": None})
    trained = train_recipe(recipe, long_material(), tmp_path / "run", outside)
    assert told == [(step, 24) for step in range(1, 25)]
    hand = by_hand(
        tmp_path / "short", SHORT, loop={"epochs": None, "steps": 12}, selection={"every_steps": 4, "patience": None}
    )
    assert states(trained.members[0]) == states(hand)
    assert trained.members[0].figures == hand.figures


def test_members_that_begin_with_a_training_on_all_clips(tmp_path: Path) -> None:
    trained = train_recipe(small_recipe(members={"begin": "full"}, loop=ONE), long_material(), tmp_path / "run")
    full = train(small_recipe(loop=ONE), small_material(), tmp_path / "full")
    assert (tmp_path / "run" / "members" / "all" / LAST).is_file()
    examples = small_examples()
    material = TrainingInputs(
        replace(examples, pairs=examples.pairs.taken(SHORT)), DIMENSION, start=module(full.matcher).state_dict()
    )
    tuned = train(small_recipe(loop=ONE), material, tmp_path / "tuned")
    assert states(trained.members[0]) == states(tuned)


def test_weights_and_scales_are_learned_on_the_validation_split(tmp_path: Path) -> None:
    recipe = small_recipe(members={"fusion": "learned", "standardise": True}, loop={"epochs": 8})
    trained = train_recipe(recipe, long_material(), tmp_path / "run", RunHooks(recall_at_1))
    scores = [scores_of(one) for one in trained.members]
    fusion = trained.spec.settings
    assert fusion["means"] == pytest.approx([float(one.mean()) for one in scores], abs=1e-5)
    assert fusion["scales"] == pytest.approx([float(one.std()) for one in scores], abs=1e-5)
    assert sum(fusion["weights"]) == pytest.approx(1)
    assert fusion["weights"] != pytest.approx(prior_weights([24, 8]))
    other = small_recipe(members={"fusion": "uniform"}, loop={"epochs": 8})
    again = train_recipe(other, long_material(), tmp_path / "run", RunHooks(recall_at_1, resume=True))
    assert states(again) == states(trained)
    assert again.spec.settings == {"weights": (0.5, 0.5), "means": (), "scales": ()}
    assert "fusion: uniform" in (tmp_path / "run" / "recipe.yaml").read_text(), "what it is now"


def test_each_member_has_the_words_of_all_strata(tmp_path: Path) -> None:
    words = ["cut" if short else "take" for short in SHORT]
    graphs = tuple(RoleGraph((word,), (RoleNode("NOUN", (0,)),)) for word in words)
    examples = small_examples()
    examples = replace(examples, text_features=replace(examples.text_features, graphs=graphs))
    hgr = {"name": "hgr", "settings": {"size": 8, "word_size": 4}}
    for members in ({}, {"only": 2}):
        recipe = small_recipe(matcher=hgr, adapter=None, members=members, loop=ONE)
        material = replace(small_material(examples), lengths=ClipLengths(FRAMES, "frames"))
        trained = train_recipe(recipe, material, tmp_path / str(len(members)))
        for one in trained.members or (trained,):
            assert one.spec.settings["vocabulary"] == ("cut", "take")


def test_what_cannot_be_done_is_said_in_a_sentence(tmp_path: Path) -> None:
    sized = small_recipe(members={}, loop={"batch_size": 16})
    with pytest.raises(CorpusError, match=r"Stratum 2 of 2 has 8 captions, fewer than loop.batch_size=16"):
        train_recipe(sized, long_material(), tmp_path / "small")
    alone = small_recipe(members={"only": 1}, loop={"batch_size": 16, "epochs": 1})
    assert train_recipe(alone, long_material(), tmp_path / "alone").step == 1, "that is about the other stratum"
    with pytest.raises(UsageError, match="Members by length need the lengths of the clips"):
        train_recipe(small_recipe(members={}), small_material(), tmp_path / "unknown")
    with pytest.raises(UsageError, match="the measure cannot be sent to one"):
        outside = RunHooks(lambda scores: {**recall_at_1(scores)})
        train_recipe(small_recipe(members={"at_once": 2}), long_material(), tmp_path / "local", outside)


def test_members_over_towers_are_not_taken_for_one_matcher(clip_folder: Path, tmp_path: Path) -> None:
    """Whoever calls from Python would get towers that every member has trained further."""
    recipe = small_recipe(
        members={"by": "seed"}, adapter=None, data={"features": None}, backbone={"model": str(clip_folder)}
    )
    with pytest.raises(UsageError, match="have an encoder each, so they become no single matcher: train them one by"):
        train_recipe(recipe, tower_material(clip_folder), tmp_path / "run")


def run(folder: Path, changes: Changes, resume: bool = False, killed_after: int | None = None) -> None:
    """Train members; after some steps, of whatever training, the process may be killed."""
    told: list[int] = []

    def watch(step: int, steps: int, figures: Mapping[str, float]) -> None:
        told.append(step)
        if len(told) == killed_after:
            signal.raise_signal(signal.SIGKILL)

    train_recipe(small_recipe(**changes), long_material(), folder, RunHooks(recall_at_1, watch=watch, resume=resume))


SETTINGS: dict[str, Any] = {"members": {"begin": "full"}, "records": {"save_every_steps": 2}}
"""12 steps on all clips, then 9 and 3 on the strata."""


@pytest.mark.slow
def test_what_is_killed_goes_on_with_the_member_it_was_at(tmp_path: Path) -> None:
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    for number, (killed_after, over) in enumerate([(15, ("all",)), (8, ("all", "1"))]):  # in member 1, then in 2
        before = last_written(broken, over[:-1])
        process = start(run, broken, SETTINGS, number > 0, killed_after)
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
        assert last_written(broken, over[:-1]) == before
        assert len(list(broken.glob("members/*"))) == len(over) + 1
    with pytest.raises(UsageError, match="holds a run already; add --resume"):
        run(broken, SETTINGS)
    run(broken, SETTINGS, resume=True)
    run(whole, SETTINGS)
    assert metrics(broken) == metrics(whole)


def last_written(folder: Path, names: tuple[str, ...]) -> list[int]:
    """When the last checkpoints of some members were written."""
    return [(folder / "members" / name / LAST).stat().st_mtime_ns for name in names]


def metrics(folder: Path) -> dict[str, bytes]:
    """The figures of each member, and the last state of its weights."""
    states = {place.parent.parent.name: torch.load(place, weights_only=True) for place in folder.rglob(LAST.name)}
    rows = {str(place.relative_to(folder)): place.read_bytes() for place in folder.rglob(METRICS.name)}
    for name, state in states.items():
        rows |= {f"{name} {key}": weights.numpy().tobytes() for key, weights in state["state_dict"].items()}
    return rows


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that have their imports behind them."""
    monkeypatch.setattr("evenreel.training.members.CONTEXT", CONTEXT)


def test_members_at_once_end_as_those_in_sequence(tmp_path: Path, forked: None) -> None:
    told: list[tuple[int, int]] = []
    outside = RunHooks(recall_at_1, watch=lambda step, steps, figures: told.append((step, steps)))
    together, apart = (small_recipe(members=members, loop=ONE) for members in ({"at_once": 2}, {}))
    first = train_recipe(together, long_material(), tmp_path / "together", outside)
    assert told[-1] == (4, 4)
    second = train_recipe(apart, long_material(), tmp_path / "apart", outside)
    assert states(first) == states(second)
    assert metrics(tmp_path / "together") == metrics(tmp_path / "apart")
    assert first.figures == second.figures


def test_what_fails_in_a_process_is_said_here(tmp_path: Path, forked: None) -> None:
    recipe = small_recipe(members={"at_once": 2}, selection={"metric": "R@5"})
    with pytest.raises(TrainingError, match="selection.metric is 'R@5'; measured are R@1"):
        train_recipe(recipe, long_material(), tmp_path / "run", RunHooks(recall_at_1))


def killed(scores: Any) -> dict[str, float]:
    """A measure that nobody survives."""
    signal.raise_signal(signal.SIGKILL)
    return {}


def test_a_process_that_ends_without_a_word(tmp_path: Path, forked: None) -> None:
    recipe = small_recipe(members={"at_once": 2})
    with pytest.raises(TrainingError, match=r"The process that trained member [12] came to an end by itself"):
        train_recipe(recipe, long_material(), tmp_path / "run", RunHooks(killed))
