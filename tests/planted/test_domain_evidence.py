"""What the rows of two drawn domains stand on: a text tower for queries that lose a word."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.evidence.domain import METHODS, ROWS, WordMeans
from evenreel.adaptation.stream import QueryStream
from evenreel.types import TextFeatures, VideoFeatures


def stream() -> QueryStream:
    rng = np.random.default_rng(0)
    words = rng.standard_normal((3, 2, 4)).astype(np.float16)
    texts = TextFeatures(("a", "b", "c"), words, np.ones((3, 2), np.bool_), words.astype(np.float32).mean(1))
    frames = np.ones((2, 1, 4), np.float16)
    videos = VideoFeatures(("v", "w"), frames, np.ones((2, 1), np.bool_), np.zeros((2, 1)))
    return QueryStream(texts, ("verb1 noun1", "verb1 noun2", "verb2 noun1"), videos)


def test_a_word_is_read_as_the_mean_of_what_the_log_has_for_it() -> None:
    log = stream()
    read = WordMeans(log).read(["verb1", "verb2 noun1"])
    one = (log.texts.words[0, 0].astype(float) + log.texts.words[1, 0]) / 2
    assert read.words[0, 0] == pytest.approx(one / np.linalg.norm(one), abs=2e-3)
    assert read.word_mask.tolist() == [[True, False], [True, True]]
    assert read.sentence[0] == pytest.approx(one / np.linalg.norm(one), abs=2e-3)
    both = sum(read.words[1].astype(float))
    assert read.sentence[1] == pytest.approx(both / np.linalg.norm(both), abs=2e-3)


def test_verbs_and_nouns_are_told_by_their_names() -> None:
    (tokens,) = WordMeans(stream()).tag(["verb2 noun1"])
    assert [(token.text, token.part) for token in tokens] == [("verb2", "verb"), ("noun1", "noun")]


def test_every_method_has_a_row_and_one_is_recommended() -> None:
    assert set(METHODS) == {name for name, row in ROWS.items() if row.kind in ("published", "ours")}
    assert [name for name, row in ROWS.items() if row.chosen] == ["rotation and Sinkhorn normalisation"]
