"""A drawn world of signs: groups that differ in nothing but a word, and windows that are misread each for itself."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest

from benchmarks.worlds import (
    GROUP,
    SIGN_CLASSES,
    SignSettings,
    SplitSizes,
    annotated_clips,
    draw_signs,
    draw_signs_world,
    with_named_words,
)
from evenreel.planted.worlds import FeatureWorld, FrameShares, Stream, WordShares, WorldSettings, normals, rotation
from tests.planted.worlds.tables import made_up_table, unit

FRAMES = FrameShares(action=0.3, instance=0.2, background=0.1, length=0.0, time=0.0)
SMALL = SignSettings(words=16, scenes=WorldSettings(24, 6, frame_shares=FRAMES, word_shares=WordShares(lasting=0.0)))
CLIPS = annotated_clips(made_up_table(), SplitSizes(300, 40, 40), 0)


def world(strength: float, settings: SignSettings = SMALL) -> FeatureWorld:
    return draw_signs_world(CLIPS, strength, 3, settings)


def test_clips_of_a_group_differ_in_nothing_but_their_signs() -> None:
    train = world(1.0).split("train")
    clips, captions = train.corpus.clips, train.corpus.captions
    assert clips["named"].all()
    for first in range(0, clips.height, GROUP):
        group = slice(first, first + GROUP)
        assert clips[group].select("path", "verb_classes").n_unique() == 1
        assert clips[group]["noun_classes"].list.first().n_unique() == 1
        named = captions[group]["noun_classes"].list.last().to_list()
        assert len(set(named)) == GROUP
        for own, shown in zip(named, clips[group]["noun_classes"].to_list(), strict=True):
            assert set(shown) & set(named) == {own}  # nobody else of the group shows what a caption names
        assert train.texts.words[group, :2, :].std(axis=0).max() < 0.2  # but for the noise of each caption


def test_without_a_bias_all_clips_are_their_own_and_no_caption_names_a_sign() -> None:
    free = world(0.0)
    assert free.corpus.clips["path"].to_list() == CLIPS["path"].to_list()
    assert not free.corpus.clips["named"].any()
    assert not free.texts.word_mask[:, 2].any() and free.texts.word_mask[:, :2].all()
    assert free.corpus.captions["noun_classes"].list.len().max() == 1
    assert np.allclose(np.linalg.norm(free.texts.sentence, axis=1), 1, atol=1e-3)


def test_the_shares_of_groups_and_of_windows_are_those_of_the_settings() -> None:
    splits = pl.Series(["train"] * 20_000)
    drawn = draw_signs(splits, 0.9, SignSettings(), 0)
    right = drawn.read == drawn.up
    assert drawn.named.mean() == pytest.approx(0.9, abs=0.02)
    assert drawn.written.mean() == pytest.approx(0.8, abs=0.01)
    assert right.mean() == pytest.approx(0.7, abs=0.01)
    assert (drawn.read < 0).mean() == pytest.approx(0.15, abs=0.01)
    sure, unsure = drawn.confidence[drawn.written & right], drawn.confidence[drawn.written & ~right]
    assert sure.mean() == pytest.approx(4 / 6, abs=0.01) and unsure.mean() == pytest.approx(2 / 5, abs=0.01)
    assert (drawn.confidence == 0).mean() == pytest.approx(0.2, abs=0.01)
    times = (drawn.up == drawn.signs[:, None]).sum(1)
    assert times.min() == times.max() == 2  # one sign of three, in six moments
    first_alone = right[:, 0].mean()  # misread each for itself
    assert (right[:, 0] & right[:, 1]).mean() == pytest.approx(first_alone**2, abs=0.02)


def test_clips_in_a_group_at_one_strength_are_in_it_at_every_higher_one() -> None:
    weak, strong = (world(strength) for strength in (0.3, 0.8))
    assert not (weak.corpus.clips["named"] & ~strong.corpus.clips["named"]).any()
    assert (weak.corpus.clips["sign"] == strong.corpus.clips["sign"]).all()


def test_a_frame_is_the_sum_of_the_formula() -> None:
    drawn = world(1.0)
    signs = draw_signs(CLIPS["split"], 1.0, SMALL, 3)
    verbs, nouns = (normals(3, part, (100, 24)) for part in (Stream.VERBS, Stream.NOUNS))
    marks, looks = normals(3, Stream.SIGN_WORDS, (16, 24)), normals(3, Stream.INSTANCES, (CLIPS.height, 24))
    videos, noise = normals(3, Stream.VIDEOS, (20, 24)), normals(3, Stream.FRAME_NOISE, (CLIPS.height, 6, 24))
    mean = unit(normals(3, Stream.MEANS, (2, 24))[0].tolist())
    names = sorted(set(drawn.corpus.clips["path"]))
    for row in (0, 1, 7):
        verb, noun, path = CLIPS[int(signs.scenes[row])].select("verb", "noun", "path").row(0)
        for moment in (0, 5):
            vector = []
            for d in range(24):
                own = math.sqrt(0.3 / 2) * (verbs[verb, d] + nouns[noun, d])
                own += math.sqrt(0.2) * looks[signs.scenes[row], d] + math.sqrt(0.1) * videos[names.index(path), d]
                own += math.sqrt(0.05) * marks[signs.up[row, moment], d] + math.sqrt(0.35) * noise[row, moment, d]
                vector.append(math.sqrt(0.5) * own + math.sqrt(0.5) * mean[d])
            assert drawn.videos.frames[row, moment].tolist() == pytest.approx(unit(vector), abs=1e-3)


def test_a_window_says_the_word_that_was_read() -> None:
    drawn = world(0.9)
    signs = draw_signs(CLIPS["split"], 0.9, SMALL, 3)
    on_screen = drawn.videos.on_screen
    assert on_screen is not None
    noise = normals(3, Stream.WINDOW_NOISE, (CLIPS.height, 6, 24))
    marks, turned, mean = normals(3, Stream.SIGN_WORDS, (16, 24)), rotation(24, 3), normals(3, Stream.MEANS, (2, 24))[1]
    kinds: Counter[str] = Counter()
    for row in range(30):
        for moment in range(6):
            found, word = on_screen.windows[row, moment], int(signs.read[row, moment])
            if not on_screen.mask[row, moment]:
                assert not found.any()
                continue
            kinds["nothing" if word < 0 else "right" if word == signs.up[row, moment] else "another"] += 1
            vector = []
            for d in range(24):
                own = float(noise[row, moment, d])
                if word >= 0:
                    seen = sum(marks[word, e] * turned[e, d] for e in range(24))
                    meaning = math.sqrt(0.3) * marks[word, d] + math.sqrt(0.7) * seen
                    own = math.sqrt(0.8) * meaning + math.sqrt(0.2) * own
                vector.append(math.sqrt(0.5) * own + math.sqrt(0.5) * unit(mean.tolist())[d])
            assert found.tolist() == pytest.approx(unit(vector), abs=1e-3)
    assert set(kinds) == {"nothing", "right", "another"}


def test_the_named_words_stand_in_every_window() -> None:
    told = with_named_words(world(0.8).split("train"), 3, SMALL)
    on_screen, clips = told.videos.on_screen, told.corpus.clips
    named, signs = clips["named"].to_numpy(), clips["sign"].to_numpy()
    assert on_screen is not None and not named.all()
    assert (on_screen.mask == named[:, None]).all() and not on_screen.windows[~named].any()
    windows = on_screen.windows[named].astype(np.float32)
    assert np.allclose(windows, windows[:, :1])
    alike = windows[:, 0] @ windows[:, 0].T
    same = signs[named][:, None] == signs[named]
    assert alike[same].min() > 0.99 > alike[~same].max()
    nearest = (told.texts.words[named, 2].astype(np.float32) @ windows[:, 0].T).argmax(1)
    assert (signs[named][nearest] == signs[named]).mean() > 0.95


def test_classes_of_signs_begin_behind_those_of_nouns() -> None:
    shown = world(0.9).corpus.clips["noun_classes"].list.slice(1).explode()
    assert shown.min() >= SIGN_CLASSES and shown.max() < SIGN_CLASSES + 16
