"""BiMa in training: what it finds before, what it writes down, and what a run that goes on has to find again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evenreel.checkpoint import About, EncoderNote, Pretrained, load_matcher, save_pretrained
from evenreel.checkpoint.architecture import kept_weights
from evenreel.errors import CorpusError, UsageError
from evenreel.features.scene_elements import EmbeddedDictionary, save_embedded
from evenreel.language.scene_elements import given
from evenreel.training import material as material_module
from evenreel.training import recipe_from
from evenreel.training.batches import Batches, Order, TrainingInputs
from evenreel.training.loop import RunHooks, TrainedModel, train
from evenreel.training.recipe import Recipe
from evenreel.training.run_folder import METRICS
from evenreel.training.splits import EncoderUsed
from tests.training.small_material import DIMENSION, CutShortError, figures_of, small_examples, weights_of

HASH = "0123456789abcdef0123"
DECODERS = ("captioner.", "text_decoder.")


def write_elements(folder: Path, *entities: str) -> None:
    """What `evenreel elements` writes: so many entities, and three activities."""
    rng = np.random.default_rng(len(entities[0]))
    rows = rng.standard_normal((len(entities) + 3, DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cut = len(entities)
    dictionary = given(entities, ["run", "throw", "sleep"])
    save_embedded(EmbeddedDictionary(dictionary, rows[:cut], rows[cut:], "an encoder", HASH), folder)


def recipe_of(elements: Path, lr: float = 0.01) -> Recipe:
    """Six steps, saved after every second."""
    settings = {"elements": str(elements), "kappa": 2, "heads": 2, "decoder_layers": 1, "dropout": 0.1}
    return recipe_from(
        {
            "name": "small",
            "data": {"corpus": "corpus", "features": "features"},
            "matcher": {"name": "bima", "settings": settings},
            "optimiser": {"lr": lr},
            "loop": {"batch_size": 8, "steps": 6, "epochs": None, "device": "cpu"},
            "records": {"every_steps": 1, "tensorboard": False, "save_every_steps": 2},
        }
    )


def learning() -> TrainingInputs:
    return TrainingInputs(small_examples(16), DIMENSION, weights_hash=HASH)


@pytest.fixture(scope="module")
def elements(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elements")
    write_elements(folder, "dog", "ball", "grass")
    return folder


@pytest.fixture(scope="module")
def whole(elements: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, TrainedModel]]:
    """A run that was left alone."""
    folder = tmp_path_factory.mktemp("whole")
    yield folder, train(recipe_of(elements), learning(), folder)


def cut_short_after_3(step: int, steps: int, figures: Mapping[str, float]) -> None:
    if step == 3:
        raise CutShortError


def test_what_it_learns_is_written_down(whole: tuple[Path, TrainedModel]) -> None:
    folder, _ = whole
    assert all(len(figures_of(folder, f"loss/{name}")) == 6 for name in ("nce", "cap", "rec", "kl"))
    kl, cost = figures_of(folder, "bias/kl"), figures_of(folder, "loss/kl")
    assert (kl[1], figures_of(folder, "bias/active_units")[1], figures_of(folder, "bias/sigma")[1]) == (0, 0, 1)
    assert kl[6] > 0
    assert cost == pytest.approx({step: 1e-4 * value for step, value in kl.items()})


def test_a_resumed_run_ends_where_one_does_that_was_left_alone(
    elements: Path, whole: tuple[Path, TrainedModel], tmp_path: Path
) -> None:
    """To the bit, its decoders and the noise of its bias included, and wherever its elements lie by then."""
    folder, moved = tmp_path / "run", tmp_path / "moved"
    with pytest.raises(CutShortError):
        train(recipe_of(elements), learning(), folder, RunHooks(watch=cut_short_after_3))
    shutil.copytree(elements, moved)
    again = weights_of(train(recipe_of(moved), learning(), folder, RunHooks(resume=True)))
    assert any(name.startswith(DECODERS) for name in again)
    assert all(torch.equal(tensor, again[name]) for name, tensor in weights_of(whole[1]).items())
    assert (folder / METRICS).read_bytes() == (whole[0] / METRICS).read_bytes()


def test_a_run_does_not_go_on_with_another_dictionary(tmp_path: Path) -> None:
    """Vectors are in its checkpoint; phrases that were made anew would be named wrongly by them."""
    write_elements(tmp_path / "elements", "dog", "ball")
    recipe = recipe_of(tmp_path / "elements")
    with pytest.raises(CutShortError):
        train(recipe, learning(), tmp_path / "run", RunHooks(watch=cut_short_after_3))
    write_elements(tmp_path / "elements", "cat", "ball")
    with pytest.raises(
        CorpusError, match=r"begun with other data: matcher\.entities was \w{8}\.\.\. and is \w{8}\.\.\.;"
    ):
        train(recipe, learning(), tmp_path / "run", RunHooks(resume=True))


def test_decoders_that_a_checkpoint_lacks_begin_as_the_seed_says(
    elements: Path, whole: tuple[Path, TrainedModel], tmp_path: Path
) -> None:
    """At a rate of 0 all else stays as the checkpoint has it."""
    trained, still = whole[1], recipe_of(elements, lr=0.0)
    about = About(EncoderNote("an encoder", HASH, DIMENSION))
    save_pretrained(tmp_path / "checkpoint", Pretrained(trained.matcher, trained.spec, about))
    loaded: Any = load_matcher(tmp_path / "checkpoint").matcher
    assert (loaded.captioner, loaded.text_decoder) == (None, None)
    start = kept_weights(loaded)
    assert start.keys() == loaded.state_dict().keys()
    material = replace(learning(), start=start, start_spec=trained.spec)
    begun = weights_of(train(still, material, tmp_path / "begun"))
    fresh = weights_of(train(still, learning(), tmp_path / "fresh"))
    for name, tensor in begun.items():
        assert torch.equal(tensor, (fresh if name.startswith(DECODERS) else start)[name]), name


def test_each_device_has_the_captions_of_the_whole_batch() -> None:
    """In the order that features of all devices are joined in: decoders write the caption of their own words."""
    examples, order = small_examples(16), Order(16, 8, seed=0)
    whole, *halves = (Batches(examples, order, part)[1] for part in ((0, 1), (0, 2), (1, 2)))
    assert whole.sentences == tuple(f"text {name.removeprefix('c')}" for name in whole.caption_ids)
    assert sum((half.text.ids for half in halves), ()) == whole.text.ids == whole.caption_ids
    assert all(half.sentences == whole.sentences for half in halves)


def test_training_does_not_begin_where_elements_would_be_selected_by_other_towers(
    whole: tuple[Path, TrainedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    note = EncoderNote("clip", HASH, DIMENSION, before="another")
    pretrained = Pretrained(whole[1].matcher, whole[1].spec, About(note))
    monkeypatch.setattr(material_module, "load_matcher", lambda name: pretrained)
    with pytest.raises(UsageError, match="by how clip saw clips before it was trained further.* train anew from clip"):
        material_module.load_start("runs/bima/checkpoint", EncoderUsed("clip", HASH, "every 1 s"), ())
