"""From features to figures: encoded in batches, scored in tiles, evaluated without the whole table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

import evenreel
from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.matchers import MATCHERS, TextBatch, build_matcher, scoring
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.matchers.matcher import Limits
from evenreel.matchers.scoring import encode_texts, encode_videos, matcher_scores
from evenreel.similarity.interaction import TokenVectors
from evenreel.types import Corpus, TextFeatures, VideoFeatures
from tests.matchers.examples import graph

DIMENSION = 8


def features(count: int) -> tuple[TextFeatures, VideoFeatures]:
    """Captions and videos of several lengths; each caption names a frame of the video at its place."""
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(count, 4, DIMENSION))
    frames /= np.linalg.norm(frames, axis=-1, keepdims=True)
    frame_mask = np.arange(4) < rng.integers(1, 5, count)[:, None]
    word_mask = np.arange(5) < rng.integers(1, 6, count)[:, None]
    words = frames[:, :1] + 0.3 * rng.normal(size=(count, 5, DIMENSION))
    sentence = words.mean(1) / np.linalg.norm(words.mean(1), axis=-1, keepdims=True)
    return (
        TextFeatures(
            tuple(f"c{row}" for row in range(count)),
            words * word_mask[..., None],
            word_mask,
            sentence,
            tuple(graph(length, row) for row, length in enumerate(word_mask.sum(1))),
        ),
        VideoFeatures(
            tuple(f"v{row}" for row in range(count)),
            frames * frame_mask[..., None],
            frame_mask,
            np.arange(4) * frame_mask.astype(np.float64),
        ),
    )


def longest_last(side: Any) -> Any:
    """The captions or videos in the order of their lengths."""
    mask = side.word_mask if isinstance(side, TextFeatures) else side.frame_mask
    order = mask.sum(1).argsort(kind="stable")
    given: dict[str, Any] = {name: array[order] for name, array in vars(side).items() if isinstance(array, np.ndarray)}
    if isinstance(side, TextFeatures) and side.graphs is not None:
        given["graphs"] = tuple(side.graphs[row] for row in order)
    return replace(side, ids=tuple(side.ids[row] for row in order), **given)


def corpus(texts: TextFeatures, videos: VideoFeatures) -> Corpus:
    clips = pl.DataFrame({"clip_id": list(videos.ids), "split": ["test"] * len(videos.ids)})
    captions = pl.DataFrame({"caption_id": list(texts.ids), "clip_id": list(videos.ids), "text": list(texts.ids)})
    return make_corpus(clips, captions)


@pytest.mark.parametrize("name", MATCHERS)
def test_batches_and_tiles_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest rows are in the last batch, so that the state has to have room for them from the first on."""
    texts, videos = (longest_last(side) for side in features(23))
    matcher = build_matcher(name, DIMENSION, {"size": 8, "dropout": 0, "graph_dropout": 0} if name == "hgr" else None)
    with torch.no_grad():
        at_once = matcher.score(
            matcher.encode_text(text_batch(texts)), matcher.encode_video(video_batch(videos))
        ).numpy()
    monkeypatch.setattr(scoring, "ROWS_A_BATCH", 5)
    monkeypatch.setattr("evenreel.similarity.tiles.tile_shape", lambda *_: (7, 4))
    scores = matcher_scores(matcher, texts, videos).score_all()
    np.testing.assert_allclose(scores.values, at_once, atol=1e-5)
    assert (scores.caption_ids, scores.video_ids) == (texts.ids, videos.ids)
    assert matcher.training  # it is left as it was


def test_the_longest_come_first() -> None:
    """The first batch makes room for all; a state that grows is there twice for a moment."""
    seen: list[int] = []

    class Watched(nn.Module):
        limits = Limits(DIMENSION)

        def encode_text(self, text: TextBatch) -> TokenVectors:
            seen.append(text.words.shape[1])
            return TokenVectors(text.words, text.word_mask, text.words[..., 0])

    texts, _ = features(300)
    encode_texts(Watched(), longest_last(texts))  # type: ignore[arg-type]  # all that encoding needs
    assert len(seen) == 5
    assert seen == sorted(seen, reverse=True)
    assert seen[0] > seen[-1]


def test_evaluation_reads_tiles() -> None:
    texts, videos = features(40)
    scores = matcher_scores(build_matcher("wti", DIMENSION), texts, videos)
    from_tiles = evenreel.evaluate(scores, corpus(texts, videos))
    from_table = evenreel.evaluate(scores.score_all(), corpus(texts, videos))
    for direction, found in from_tiles.directions.items():
        np.testing.assert_array_equal(found.first_rank, from_table.directions[direction].first_rank)
        assert found.summary["R@1"].value > 50


def test_states_can_be_trained_on_and_stay_in_main_memory() -> None:
    texts, videos = features(3)
    matcher = build_matcher("wti", DIMENSION)
    states = encode_texts(matcher, texts).state, encode_videos(matcher, videos).state
    matcher.score(
        *(state._replace(vectors=state.vectors.clone().requires_grad_()) for state in states)
    ).sum().backward()
    assert all(tensor.device.type == "cpu" for state in states for tensor in state)


def test_what_cannot_be_scored() -> None:
    texts, videos = features(3)
    matcher = build_matcher("wti", DIMENSION)
    narrow = TextFeatures(texts.ids, texts.words[..., :6], texts.word_mask, texts.sentence[..., :6])
    with pytest.raises(UsageError, match="features of words have 6 numbers, but this matcher was built for 8"):
        matcher_scores(matcher, narrow, videos)
    none = TextFeatures((), texts.words[:0], texts.word_mask[:0], texts.sentence[:0])
    with pytest.raises(UsageError, match="There are 0 captions and 3 videos"):
        matcher_scores(matcher, none, videos)
