"""Every shipped recipe of towers runs to its first step on its benchmark in miniature, from the videos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenreel.checkpoint import About, EncoderNote, Inputs, Pretrained, load_matcher, save_pretrained
from evenreel.corpus import load_corpus, load_texts, select
from evenreel.encoders import load_encoder
from evenreel.features import FeatureSettings, compute_features
from evenreel.features.scene_elements import embed, save_embedded
from evenreel.language.scene_elements import mine
from evenreel.training.batches import TrainingInputs
from evenreel.training.loop import RunHooks, TrainedModel, facts_of, train
from evenreel.training.material import load_material
from evenreel.training.recipe import Recipe, find_recipe, load_recipe
from evenreel.types import ScoreBlocks
from tests.features.test_sets import words_table
from tests.tiny_checkpoints import tiny_clip

from .conftest import Miniatures
from .test_shipped import BIMA, READING, TOWERS
from .tiny_benchmarks import TRAIN


@pytest.fixture(scope="session")
def places(miniatures: Miniatures) -> Path:
    """A folder with the benchmarks and the tiny CLIP."""
    tiny_clip(miniatures.root / "clip")
    return miniatures.root


def shortened(name: str, places: Path) -> Recipe:
    """The recipe as it is shipped, but for where things are, how much is done, and on what."""
    benchmark = places / name.partition("/")[0]
    elements = []
    if name in BIMA:
        folder = seen(benchmark, places / "clip", "clip4clip 32")
        elements = [f"data.pretrained_features={folder}", f"matcher.settings.elements={folder / 'elements'}"]
    if name in READING:
        elements = [f"data.on_screen={read(benchmark, places / 'clip', '12 midpoints')}"]
    return load_recipe(
        find_recipe(name),
        [
            *elements,
            f"data.corpus={benchmark / 'corpus'}",
            f"data.videos={benchmark / 'videos'}",
            f"backbone.model={places / 'clip'}",
            "loop.epochs=null",
            "loop.steps=1",
            "loop.batch_size=4",
            "loop.workers=0",
            "loop.device=cpu",
            "records.tensorboard=false",
        ],
    )


def seen(benchmark: Path, model: Path, rule: str) -> Path:
    """Features by the towers as they are, with a dictionary of the training captions beside them."""
    corpus, encoder, folder = load_corpus(benchmark / "corpus"), load_encoder(str(model)), benchmark / "features"
    settings = FeatureSettings(rule, read_text=False, videos=benchmark / "videos", workers=1)
    compute_features(corpus, folder, encoder, settings)
    texts = select(corpus, split="train").captions["text"].to_list()
    save_embedded(embed(mine(texts), encoder), folder / "elements")
    return folder


def read(benchmark: Path, model: Path, rule: str) -> Path:
    """Features with the words that the benchmark ships, or with none."""
    corpus, folder = load_corpus(benchmark / "corpus"), benchmark / "read"
    texts = load_texts(benchmark / "corpus")
    words = words_table([]) if texts is None else texts
    settings = FeatureSettings(rule, videos=benchmark / "videos", workers=1)
    compute_features(corpus, folder, load_encoder(str(model)), settings, words=words)
    return folder


def each() -> Iterator[Any]:
    """On a change each matcher on one benchmark, and each benchmark with one matcher."""
    for name in TOWERS:
        if name not in BIMA or name == "msrvtt-9k/bima":
            quick = name.startswith(("msrvtt-9k/", "ghost/")) or name.endswith("/mean_pool") or name == "vitevqa/tcd"
            yield name if quick else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", each())
def test_it_runs_to_its_first_step(name: str, places: Path, tmp_path: Path) -> None:
    recipe = shortened(name, places)
    loaded = load_material(recipe, verdicts=places / "verdicts.jsonl")  # of recipes that read the same clips alike
    assert loaded.set_aside == ()
    assert loaded.selected is not None
    assert 0 < loaded.selected.clips.height < TRAIN
    assert ("seen" in facts_of(loaded)) == (recipe.data.pretrained_features is not None), (
        "a run remembers what elements hang on"
    )
    assert ("on_screen" in facts_of(loaded)) == (name in READING)
    measured: list[ScoreBlocks] = []

    def measure(scores: ScoreBlocks) -> dict[str, float]:
        measured.append(scores)
        return {recipe.selection.metric: 50.0}

    trained = train(recipe, loaded, tmp_path / "run", RunHooks(measure=measure))
    assert trained.step == 1
    assert trained.progress.best_step == 1
    assert [len(scores.caption_ids) for scores in measured] == [loaded.selected.captions.height]
    if name.startswith("msrvtt-9k"):  # there is a recipe of each matcher
        save(recipe, loaded, trained, tmp_path / "checkpoint")
        assert load_matcher(tmp_path / "checkpoint").spec.name == recipe.matcher.name


def save(recipe: Recipe, loaded: TrainingInputs, trained: TrainedModel, folder: Path) -> None:
    encoder = EncoderNote(loaded.encoder.encoder_id, loaded.encoder.weights_hash, loaded.dimension)
    about = About(encoder, Inputs(rule=recipe.backbone.rule if recipe.backbone else None), recipe.about)
    towers = trained.towers.towers if trained.towers else None
    save_pretrained(folder, Pretrained(trained.matcher, trained.spec, about), towers)
