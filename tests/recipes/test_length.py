"""The recipes of the paper on frame-length bias: its numbers, every row of its tables, and their first steps."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from evenreel.corpus import save_corpus, select
from evenreel.debias.frame_length import adjusted_strata
from evenreel.features.stored import StoredSettings, store_features
from evenreel.papers import study_recipe
from evenreel.training.material import load_material
from evenreel.training.members import train_recipe
from evenreel.training.recipe import Recipe, find_recipe, load_recipe, shipped_recipes
from tests.papers.class_clips import class_material

NAMES = [name for name in shipped_recipes() if name.startswith("length/")]
DATASETS = ("ek100", "msrvtt-9k", "msrvtt-full", "youcook2")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "length_bias.md"
COMMANDS = re.findall(r"^\| .+ \| `evenreel train (.+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def recipe(name: str) -> Recipe:
    return load_recipe(find_recipe(name))


def test_there_are_two_for_each_dataset() -> None:
    assert [f"length/{dataset}/{row}" for dataset in DATASETS for row in ("backdoor", "baseline")] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_their_numbers_are_the_published_ones(name: str) -> None:
    """The paper: 100 epochs and a margin of 0.2; HGR's code: batches of 64, Adam at 1e-4 without decay or clipping."""
    shipped = study_recipe(name)
    assert (shipped.name, shipped) == (name, recipe(name)), "a study takes them"
    assert (shipped.loop.epochs, shipped.loop.batch_size, shipped.loop.gradient_clip) == (100, 64, 0)
    assert (shipped.optimiser.lr, shipped.optimiser.weight_decay, shipped.schedule.form) == (1e-4, 0, "constant")
    assert (shipped.matcher.name, shipped.matcher.settings["margin"]) == ("hgr", 0.2)
    assert (shipped.members is not None) == name.endswith("backdoor")
    assert shipped.trim is None


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_selected_on_what_is_searched(name: str) -> None:
    """MSR-VTT's first split has one for that; YouCook2's is searched in the paper."""
    data = recipe(name).data
    assert (data.train, data.validation) == ("train", "val" if "msrvtt-full" in name else None)
    assert (data.validation is None) == (data.held_out == 0.05)


@pytest.mark.parametrize(
    ("dataset", "sizes"), [("ek100", (50_282, 16_935)), ("youcook2", (8_000, 2_337)), ("msrvtt-9k", (5_950, 3_050))]
)
def test_the_fraction_gives_the_published_strata(dataset: str, sizes: tuple[int, int]) -> None:
    members = recipe(f"length/{dataset}/backdoor").members
    assert members is not None and members.fraction is not None
    strata = adjusted_strata(np.arange(float(sum(sizes))), members.count, members.fraction)
    assert tuple(map(len, strata)) == sizes


def test_every_row_of_the_page_is_a_recipe() -> None:
    assert len(COMMANDS) > 20
    for command in COMMANDS:
        name, *words = shlex.split(command)
        assert set(words[::2]) <= {"--set"}
        changed = load_recipe(find_recipe(name), words[1::2])
        assert (changed == recipe(name)) == (not words), command


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, three streams of stored features, and word vectors in GloVe's form."""
    folder = tmp_path_factory.mktemp("length")
    corpus, random = class_material().whole, np.random.default_rng(3)
    save_corpus(corpus, folder / "corpus")
    streams = {}
    for name in ("rgb", "flow", "audio"):
        arrays = {clip: random.random((2, 5), np.float32) for clip in corpus.clips["clip_id"]}
        np.savez(folder / f"{name}.npz", **arrays)
        streams[name] = (folder / f"{name}.npz",)
    store_features(corpus, folder / "features", StoredSettings("tbn", streams))
    (folder / "glove.txt").write_text("cut 0.1 0.2 0.3\ntake 1 0 0\n")
    return folder


@pytest.mark.parametrize("row", ["baseline", "backdoor"])
def test_it_runs_to_its_first_steps(row: str, place: Path, tmp_path: Path) -> None:
    changes = [f"data.corpus={place / 'corpus'}", f"data.features={place / 'features'}", "data.held_out=0.2"]
    changes += [f"matcher.settings.vectors={place / 'glove.txt'}", "matcher.settings.word_size=3"]
    changes += ["matcher.settings.size=8", "loop.epochs=null", "loop.steps=2", "loop.batch_size=8", "loop.device=cpu"]
    shipped = load_recipe(find_recipe(f"length/ek100/{row}"), [*changes, "records.tensorboard=false"])
    loaded = load_material(shipped)
    assert loaded.dimension == 15
    assert loaded.selected is not None
    train = select(class_material().whole, split="train").clips.height
    assert 0 < loaded.selected.clips.height < train
    trained = train_recipe(shipped, loaded, tmp_path / "run")
    assert [len(member.strata) for member in trained.members] == [0, 0] if row == "backdoor" else not trained.members
    assert len(trained.strata) == (2 if row == "backdoor" else 0)
