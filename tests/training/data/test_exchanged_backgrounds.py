"""Training clips exchange their backgrounds, in training alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from evenreel.corpus import make_corpus, save_corpus
from evenreel.debias.backgrounds import estimated_backgrounds
from evenreel.errors import UsageError
from evenreel.features import StoredSettings, store_features
from evenreel.training.batches import Draw, FeatureExamples
from evenreel.training.loop import train
from evenreel.training.material import length_polynomials, load_material, mean_frames, with_backgrounds
from evenreel.training.recipe import BackgroundExchange, RecipeError
from evenreel.types import VideoFeatures
from tests.training.small_material import small_corpus, small_examples, small_material, small_recipe


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
