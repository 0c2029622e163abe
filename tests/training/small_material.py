"""Material of a few kilobytes to train on, features that can be learned from, made from a seed; what runs left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenreel.arrays import Indices
from evenreel.corpus import make_corpus
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.towers import load_towers
from evenreel.encoders.trainable import TokenIds, TrainableTowers, tokenise
from evenreel.training import Recipe, recipe_from
from evenreel.training.batches import Draw, FeatureExamples, Pairs, PixelBatch, TokenBatch, TrainingInputs, pairs_of
from evenreel.training.loop import RunHooks, TrainedModel, train
from evenreel.training.run_folder import LAST, METRICS
from evenreel.training.splits import mirrors_of
from evenreel.types import Corpus, ScoreBlocks, TextFeatures, VideoFeatures
from tests.tiny_checkpoints import SIDE, WORDS

DIMENSION = 16


def small_corpus(clips: int, captions_each: int = 1) -> Corpus:
    names = [f"v{number}" for number in range(clips)]
    owners = [name for name in names for _ in range(captions_each)]
    return make_corpus(
        pl.DataFrame({"clip_id": names}),
        pl.DataFrame(
            {
                "caption_id": [f"c{number}" for number in range(len(owners))],
                "clip_id": owners,
                "text": [f"text {number}" for number in range(len(owners))],
            }
        ),
    )


def small_examples(clips: int = 32, captions_each: int = 1, seed: int = 0) -> FeatureExamples:
    """Captions are their clips, turned by one fixed rotation, with noise; clips have 2 to 4 frames."""
    corpus = small_corpus(clips, captions_each)
    random = np.random.default_rng(seed)
    meaning = random.standard_normal((clips, DIMENSION))
    turned = (meaning @ np.linalg.qr(np.random.default_rng(7).standard_normal((DIMENSION, DIMENSION)))[0]).repeat(
        captions_each, axis=0
    )
    frame_mask = np.arange(4) < random.integers(2, 5, clips)[:, None]
    word_mask = np.arange(6) < random.integers(1, 7, len(turned))[:, None]
    frames = unit(meaning[:, None] + 0.5 * random.standard_normal((clips, 4, DIMENSION))) * frame_mask[..., None]
    words = (turned[:, None] + 0.5 * random.standard_normal((len(turned), 6, DIMENSION))) * word_mask[..., None]
    texts = TextFeatures(tuple(corpus.captions["caption_id"]), words.astype(np.float32), word_mask, unit(words.sum(1)))
    videos = VideoFeatures(tuple(corpus.clips["clip_id"]), frames, frame_mask, np.zeros((clips, 4)))
    return FeatureExamples(pairs_of(corpus, texts.ids, videos.ids), texts, videos)


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def small_recipe(**changes: Mapping[str, Any] | str) -> Recipe:
    """Three epochs of four steps; tables given are merged into the defaults."""
    values: dict[str, Any] = {
        "name": "small",
        "data": {"corpus": "corpus", "features": "features"},
        "matcher": {"name": "mean_pool"},
        "adapter": {"kind": "mlp", "dropout": 0.2},
        "optimiser": {"lr": 0.01},
        "loop": {"batch_size": 8, "epochs": 3, "device": "cpu"},
        "records": {"every_steps": 1, "tensorboard": False},
    }
    for name, change in changes.items():
        values[name] = {**values.get(name, {}), **change} if isinstance(change, Mapping) else change
    return recipe_from(values)


def small_material(examples: FeatureExamples | None = None) -> TrainingInputs:
    """Learned from, and selected on, the same few clips: enough to see that something moves."""
    examples = examples or small_examples()
    return TrainingInputs(examples, DIMENSION, validation=examples)


@dataclass(frozen=True, eq=False)
class PixelsInMemory:
    """Clips of 2 to 4 random pictures and captions of random words; it is an `Examples`."""

    pairs: Pairs
    tokens: TokenIds
    pixels: Tensor
    frame_mask: Tensor

    def texts(self, rows: Indices) -> TokenBatch:
        return TokenBatch(
            tuple(self.pairs.caption_ids[row] for row in rows), TokenIds(*(one[rows] for one in self.tokens))
        )

    def videos(self, rows: Indices, draw: Draw | None = None) -> PixelBatch:
        mask = self.frame_mask[rows]
        mask = mask[:, : int(mask.sum(1).max())]
        pixels = self.pixels[rows][:, : mask.shape[1]][mask]
        return PixelBatch(tuple(self.pairs.clip_ids[row] for row in rows), pixels, mask, torch.zeros(mask.shape))


def tower_material(model: Path, clips: int = 16) -> TrainingInputs:
    """Pixels and tokens for a tiny CLIP that learns."""
    towers = load_towers(open_checkpoint(model), torch.device("cpu"), "float32")
    random = np.random.default_rng(3)
    corpus = small_corpus(clips)
    texts = [" ".join(random.choice(WORDS, random.integers(1, 6))) for _ in range(clips)]
    examples = PixelsInMemory(
        pairs_of(corpus, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list()),
        tokenise(towers, texts, 77),
        torch.from_numpy(random.integers(0, 256, (clips, 4, 3, SIDE, SIDE), dtype=np.uint8)),
        torch.from_numpy(np.arange(4) < random.integers(2, 5, clips)[:, None]),
    )
    return TrainingInputs(examples, towers.dimension, validation=examples, towers=TrainableTowers(towers, train=True))


def recall_at_1(scores: ScoreBlocks) -> dict[str, float]:
    """Captions whose best clip is theirs, in percent; captions and clips are in the same order, one each."""
    size = len(scores.caption_ids)
    best = scores.block(slice(0, size), slice(0, size)).argmax(axis=1)
    return {"R@1": 100.0 * float((best == np.arange(size)).mean())}


def figures_of(folder: Path, name: str) -> dict[int, float]:
    """step -> value."""
    rows = pl.read_csv(folder / "metrics.csv").filter(pl.col("name") == name)
    return dict(zip(rows["step"].to_list(), rows["value"].to_list(), strict=True))


def weights_of(trained: TrainedModel) -> dict[str, torch.Tensor]:
    matcher: Any = trained.matcher
    return {name: tensor.clone() for name, tensor in matcher.state_dict().items()}


class CutShortError(Exception):
    """What ends a run in a test."""


def cut_short_after_7(step: int, steps: int, figures: Mapping[str, float]) -> None:
    if step == 7:
        raise CutShortError


def check_resumed(recipe: Recipe, material: TrainingInputs, folder: Path) -> None:
    """A run that is cut short after its seventh step and resumed ends as one that was left alone, to the bit."""
    train(recipe, material, folder / "whole")
    with pytest.raises(CutShortError):
        train(recipe, material, folder / "broken", RunHooks(watch=cut_short_after_7))
    train(recipe, material, folder / "broken", RunHooks(resume=True))
    weights = [torch.load(folder / name / LAST, weights_only=True)["state_dict"] for name in ("whole", "broken")]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    metrics = [(folder / name / METRICS).read_bytes() for name in ("whole", "broken")]
    assert metrics[0] == metrics[1]


# Real clips and the generated ones that mirror them; the captions sound like the generator ---------------------------

REAL, MIRRORED = 24, 18


def mirrored_corpus(real: int = REAL, mirrored: int = MIRRORED) -> Corpus:
    """`v0` to the last real clip with a caption each, and `g0` and so on, mirrors of the first ones."""
    names = [f"v{number}" for number in range(real)] + [f"g{number}" for number in range(mirrored)]
    clips = pl.DataFrame(
        {
            "clip_id": names,
            "source": ["camera"] * real + ["sora"] * mirrored,
            "pair_id": [None] * real + names[:mirrored],
            "split": ["train"] * len(names),
        }
    )
    captions = pl.DataFrame(
        {
            "caption_id": [f"c{number}" for number in range(real)],
            "clip_id": names[:real],
            "text": [f"text {number}" for number in range(real)],
        }
    )
    return make_corpus(clips, captions)


def mirrored_examples() -> FeatureExamples:
    """Generated clips and captions have a direction in common that real clips do not have."""
    corpus, random = mirrored_corpus(), np.random.default_rng(0)
    meaning = random.standard_normal((REAL, DIMENSION))
    look = 2 * random.standard_normal(DIMENSION)
    real = meaning[:, None] + 0.5 * random.standard_normal((REAL, 3, DIMENSION))
    generated = look + meaning[:MIRRORED, None] + 0.5 * random.standard_normal((MIRRORED, 3, DIMENSION))
    sentence = unit(meaning + look)
    texts = TextFeatures(
        tuple(corpus.captions["caption_id"]), sentence[:, None], np.ones((REAL, 1), np.bool_), sentence
    )
    frames = unit(np.concatenate([real, generated]))
    mask = np.ones(frames.shape[:2], np.bool_)
    videos = VideoFeatures(tuple(corpus.clips["clip_id"]), frames, mask, np.zeros(mask.shape))
    return FeatureExamples(pairs_of(corpus, texts.ids, videos.ids, mirrors_of(corpus)), texts, videos)
