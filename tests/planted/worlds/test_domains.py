"""Two domains of features: what a clip of the source is beside the same clip of the target, and what is asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from benchmarks.worlds import SplitSizes, annotated_clips
from evenreel.planted.worlds import DomainSettings, WordShares, WorldSettings, domain_maps, draw_domains, draw_queries
from tests.planted.worlds.tables import made_up_table

if TYPE_CHECKING:
    from evenreel.corpus import Imported
    from evenreel.planted.worlds import FeatureWorld

SMALL = DomainSettings(world=WorldSettings(dimension=16, frames=3, word_shares=WordShares(lasting=0.0)))
CLIPS = annotated_clips(made_up_table(), SplitSizes(300, 30, 80), 0)


def drawn(strength: float, settings: DomainSettings = SMALL) -> FeatureWorld:
    return draw_domains(CLIPS, strength, 0, settings)


def test_the_test_split_is_the_target_and_the_same_at_every_strength() -> None:
    biased, free = drawn(0.9).split("test"), drawn(0.0).split("test")
    assert biased.videos.frames.tobytes() == free.videos.frames.tobytes()
    assert biased.texts.words.tobytes() == free.texts.words.tobytes()
    assert biased.texts.sentence.tobytes() == free.texts.sentence.tobytes()
    assert set(biased.corpus.clips["domain"]) == {"target"}


def test_training_and_validation_clips_are_of_the_source_with_the_strength() -> None:
    for split, count in (("train", 300), ("val", 30)):
        domains = drawn(0.9).split(split).corpus.clips["domain"]
        assert (domains == "source").sum() == pytest.approx(0.9 * count, abs=4 * (0.09 * count) ** 0.5)
        assert set(drawn(0.0).split(split).corpus.clips["domain"]) == {"target"}
        fewer = drawn(0.5).split(split).corpus.clips["domain"]
        assert not ((fewer == "source") & (domains == "target")).any()


def test_target_clips_do_not_depend_on_the_strength() -> None:
    biased, free = drawn(0.6), drawn(0.0)
    kept = (biased.corpus.clips["domain"] == "target").to_numpy()
    assert 0 < np.sum(~kept) < len(kept)
    assert np.array_equal(biased.videos.frames[kept], free.videos.frames[kept])
    assert np.array_equal(biased.texts.words[kept], free.texts.words[kept])


def test_a_source_clip_is_the_told_one_through_another_camera_and_other_words() -> None:
    source, target = drawn(1.0), drawn(1.0, SMALL.told)
    assert source.corpus.captions.equals(target.corpus.captions)
    look, common, wording = domain_maps(SMALL, 0)
    for row in range(0, 330, 37):
        for moment in range(3):
            x = target.videos.frames[row, moment].astype(float)
            seen = np.sqrt(0.8) * sum(x[own] * look[own] for own in range(16)) + np.sqrt(0.2) * common
            assert source.videos.frames[row, moment] == pytest.approx(seen / np.linalg.norm(seen), abs=2e-3)
        means = [sum(y[own] * wording[own] for own in range(16)) for y in target.texts.words[row].astype(float)]
        assert source.texts.words[row] == pytest.approx(np.array(means), abs=2e-3)
        whole = means[0] + means[1]
        assert source.texts.sentence[row] == pytest.approx(whole / np.linalg.norm(whole), abs=2e-3)


def test_maps_turn_and_damp_as_many_directions_as_they_say() -> None:
    settings = replace(SMALL, turned=0.5, turn=60.0, damped=0.25, damping=0.3, wording=20.0)
    look, common, wording = (one.astype(float) for one in domain_maps(settings, 3))
    assert np.sort(np.linalg.svd(look)[1]) == pytest.approx([0.3] * 4 + [1.0] * 12, abs=1e-5)
    angles = np.sort(np.abs(np.angle(np.linalg.eigvals(look), deg=True)))
    assert angles == pytest.approx([0.0] * 8 + [60.0] * 8, abs=1e-2)
    assert np.linalg.norm(common) == pytest.approx(1)
    assert wording @ wording.T == pytest.approx(np.eye(16), abs=1e-5)
    rows = np.random.default_rng(0).standard_normal((5, 16))
    cosines = (rows * (rows @ wording)).sum(1) / (rows**2).sum(1)
    assert cosines == pytest.approx(np.full(5, np.cos(np.deg2rad(20))), abs=1e-5)


def test_source_clips_show_actions_of_training_clips_by_frequencies_of_their_own() -> None:
    table = {row[0]: row[1:] for row in CLIPS.select("clip_id", "verb", "noun").iter_rows()}
    learned = CLIPS.filter(pl.col("split") == "train")
    actions = set(learned.select("verb", "noun").iter_rows())
    counts = []
    for spread in (0.0, 3.0):
        clips = drawn(1.0, replace(SMALL, frequencies=spread)).corpus.clips
        shown = clips.select("clip_id", "split", pl.col("verb_classes").list[0], pl.col("noun_classes").list[0])
        for clip, split, verb, noun in shown.iter_rows():
            assert (verb, noun) in actions if split == "train" else (verb, noun) == table[clip]
        counts.append(Counter(noun for _, split, _, noun in shown.iter_rows() if split == "train"))
    assert max(counts[0].values()) < 60 < max(counts[1].values())


def test_few_clips_are_asked_for_often() -> None:
    clips = CLIPS.filter(pl.col("split") == "test")
    log = draw_queries(clips, 20_000, 0, SMALL)
    asked = sorted(Counter(log.clips.tolist()).values(), reverse=True)
    harmonic = sum(1 / rank for rank in range(1, clips.height + 1))
    for rank in (1, 2, 5):
        expected = 20_000 / harmonic / rank
        assert asked[rank - 1] == pytest.approx(expected, abs=4 * expected**0.5)
    alike = Counter(draw_queries(clips, 20_000, 0, SMALL, exponent=0.0).clips.tolist())
    assert max(alike.values()) < 1.4 * min(alike.values())


def test_a_query_is_worded_as_captions_of_its_clip_and_by_someone_else() -> None:
    world, clips = drawn(0.9).split("test"), CLIPS.filter(pl.col("split") == "test")
    log = draw_queries(clips, 400, 0, SMALL)
    assert log.texts.words.shape == (400, 2, 16) and len(set(log.texts.ids)) == 400
    cosines = log.texts.sentence @ world.texts.sentence.T
    own = cosines[np.arange(400), log.clips]
    assert own.mean() > np.delete(cosines, 0, axis=1).mean() + 0.1 and own.max() < 0.9999
    same = [row for row in range(400) if log.clips[row] == log.clips[0]]
    assert len(same) == len({log.texts.words[row].tobytes() for row in same})


def test_kitchens(epic_kitchens: Imported) -> None:
    clips = annotated_clips(epic_kitchens.corpus, SplitSizes(400, 50, 100), 0)
    world = draw_domains(clips, 0.9, 0, SMALL)
    assert (world.split("train").corpus.clips["domain"] == "source").mean() == pytest.approx(0.9, abs=0.06)
    assert set(world.split("test").corpus.clips["domain"]) == {"target"}
