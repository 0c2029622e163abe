"""A matcher behind which captions have no habits of wording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from evenreel.debias.without_habits import HabitRemoval, WithoutHabits
from evenreel.errors import UsageError
from evenreel.matchers.batches import TextBatch, text_batch
from evenreel.training.batches import FeatureExamples
from evenreel.training.loop import train
from tests.training.small_material import DIMENSION, small_examples, small_material, small_recipe

RECIPE = {"without_habits": {"beyond": 20.0}}
"""Few captions: differences by chance are larger in some directions than in others, but not as large as habits."""


def examples() -> tuple[FeatureExamples, np.ndarray]:
    """Two captions of each clip: what it shows, and a habit along one direction in words and sentence."""
    plain, rng = small_examples(clips=64), np.random.default_rng(1)
    habit = rng.standard_normal(DIMENSION)
    habit /= np.linalg.norm(habit)
    texts, rows = plain.text_features, np.repeat(np.arange(32), 2)
    shown = rng.standard_normal((32, DIMENSION))[rows] + 0.05 * rng.standard_normal((64, DIMENSION))
    written = shown + rng.standard_normal((64, 1)) * habit
    words = np.where(texts.word_mask[..., None], texts.words + written[:, None], 0)
    sentence = written / np.linalg.norm(written, axis=1, keepdims=True)
    features = replace(texts, words=words.astype(np.float32), sentence=sentence.astype(np.float32))
    return replace(plain, text_features=features, pairs=replace(plain.pairs, clips=rows)), habit


def test_the_habit_is_found_before_the_first_step_and_taken_out_of_words_and_sentences(tmp_path: Path) -> None:
    learned, habit = examples()
    trained = train(small_recipe(**RECIPE), small_material(learned), tmp_path)
    matcher = trained.matcher
    assert isinstance(matcher, WithoutHabits) and trained.spec.name == "without_habits"
    assert trained.spec.wrapped[0].name == "adapted"
    text = text_batch(learned.text_features, np.arange(8))
    cleared, along = matcher.cleared(text), torch.from_numpy(habit).float()
    for before, after in ((text.sentence, cleared.sentence), (text.words, cleared.words)):
        assert (after @ along).abs().mean() < 0.1 * (before.float() @ along).abs().mean()
    assert torch.allclose(cleared.sentence.norm(dim=-1), torch.ones(8), atol=1e-5)
    assert not cleared.words[~text.word_mask].any()
    assert torch.trace(matcher.kept).item() == pytest.approx(DIMENSION - 1, abs=1e-4)


def test_before_it_is_fitted_it_is_the_matcher_as_it_is() -> None:
    learned, _ = examples()
    text = text_batch(learned.text_features, np.arange(4))

    class Heard:
        limits = None

        def encode_text(self, text: TextBatch) -> TextBatch:
            return text

    heard = WithoutHabits(Heard(), DIMENSION, HabitRemoval()).encode_text(text)  # type: ignore[arg-type]
    assert torch.allclose(heard.sentence, text.sentence, atol=1e-6)


def test_captions_that_stand_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="captions share a clip"):
        train(small_recipe(**RECIPE), small_material(small_examples(clips=64)), tmp_path)
