"""Scores of chosen pairs are those of all pairs, and parts cost no second scoring."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from evenreel.errors import UsageError
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.matchers.scoring import coarse_scorer, encode_texts, encode_videos, score_shortlists, score_with_parts
from evenreel.similarity.tiles import LEAST_BUDGET_BYTES, Encoded, MatcherScores, take_rows
from evenreel.types import OnScreen, TextFeatures, VideoFeatures

DIMENSION, CAPTIONS, CLIPS = 16, 5, 9


def encoded(matcher: Matcher) -> tuple[Encoded, Encoded]:
    """Captions of 1 to 4 words; clips of 1 to 4 frames and 0 to 3 windows with text."""
    random = np.random.default_rng(0)

    def rows(*shape: int) -> np.ndarray:
        values = random.standard_normal((*shape, DIMENSION)).astype(np.float32)
        return values / np.linalg.norm(values, axis=-1, keepdims=True)

    words, frames = np.arange(4) <= np.arange(CAPTIONS)[:, None] % 4, np.arange(4) <= np.arange(CLIPS)[:, None] % 4
    windows = np.arange(3) < np.arange(CLIPS)[:, None] % 4
    texts = TextFeatures(tuple("abcde"), rows(CAPTIONS, 4) * words[..., None], words, rows(CAPTIONS))
    videos = VideoFeatures(
        tuple(f"v{n}" for n in range(CLIPS)), rows(CLIPS, 4) * frames[..., None], frames,
        np.tile(np.arange(4.0), (CLIPS, 1)) * frames, OnScreen(rows(CLIPS, 3) * windows[..., None], windows),
    )  # fmt: skip
    return encode_texts(matcher, texts), encode_videos(matcher, videos)


def one(texts: Encoded, row: int) -> Encoded:
    return Encoded(texts.ids[row : row + 1], take_rows(texts.state, slice(row, row + 1)))


@pytest.fixture(params=["mean_pool", "temporal", "wti", "x_clip", "x_pool", "t_mass", "tcd"])
def matcher(request: pytest.FixtureRequest) -> Matcher:
    torch.manual_seed(1)
    built = build_matcher(request.param, DIMENSION)
    built.eval()  # type: ignore[attr-defined]
    return built


def test_chosen_pairs_are_scored_as_among_all(matcher: Matcher) -> None:
    texts, videos = encoded(matcher)
    every = MatcherScores(matcher, texts, videos).score_all().values
    places = np.stack([np.random.default_rng(row).permutation(CLIPS)[:4] for row in range(CAPTIONS)])
    found = score_shortlists(matcher, texts, videos, places)
    np.testing.assert_allclose(found, np.take_along_axis(every, places, axis=1), atol=1e-5)


def test_with_parts_the_score_is_the_matcher_s(matcher: Matcher) -> None:
    texts, videos = encoded(matcher)
    every = MatcherScores(matcher, texts, videos).score_all().values
    for row in range(CAPTIONS):
        found = score_with_parts(matcher, one(texts, row), videos)
        np.testing.assert_allclose(found.values, every[row], atol=1e-5)
        if found.parts:
            np.testing.assert_allclose(np.mean(list(found.parts.values()), axis=0), found.values, atol=1e-5)


class Tiled(MeanPool):
    """Parts that are told apart by a number, and how many clips each call sees."""

    def __init__(self) -> None:
        super().__init__(DIMENSION, MeanPoolSettings())
        self.widths: list[int] = []

    def part_scores(self, text: object, video: object) -> dict[str, Tensor]:
        scores = super().score(text, video)  # type: ignore[arg-type]
        self.widths.append(scores.shape[1])
        return {"video": scores, "ocr": scores + 3.0}


def test_parts_of_several_tiles_stand_in_the_order_of_the_clips(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Tiled()
    texts, videos = encoded(matcher)
    whole = score_with_parts(matcher, one(texts, 2), videos)
    assert matcher.widths == [CLIPS]
    monkeypatch.setattr("evenreel.similarity.tiles.tile_shape", lambda *_: (1, 2))
    parts = score_with_parts(matcher, one(texts, 2), videos, LEAST_BUDGET_BYTES)
    assert matcher.widths[1:] == [2, 2, 2, 2, 1]
    for name in ("video", "ocr"):
        np.testing.assert_allclose(parts.parts[name], whole.parts[name], atol=1e-6)
    np.testing.assert_allclose(parts.values, whole.parts["video"] + 1.5, atol=1e-6)


def test_what_cannot_be_is_refused() -> None:
    matcher = build_matcher("mean_pool", DIMENSION)
    texts, videos = encoded(matcher)
    with pytest.raises(UsageError, match="of one caption at a time; 5 were given"):
        score_with_parts(matcher, texts, videos)
    with pytest.raises(UsageError, match=r"5 captions and shortlists of shape \(4, 2\)"):
        score_shortlists(matcher, texts, videos, np.zeros((4, 2), np.int64))


class Cheap(MeanPool):
    def coarse(self, text: object, video: object) -> Tensor:
        return -super().score(text, video)  # type: ignore[arg-type]


def test_a_cheap_score_is_the_matcher_s_own() -> None:
    plain, cheap = (made(DIMENSION, MeanPoolSettings()).eval() for made in (MeanPool, Cheap))
    assert coarse_scorer(plain) is None
    assert coarse_scorer(Adapted(plain, DIMENSION, AdapterSettings()).eval()) is None
    texts, videos = encoded(cheap)
    every = MatcherScores(cheap, texts, videos).score_all().values
    for made in (cheap, Adapted(cheap, DIMENSION, AdapterSettings()).eval()):
        scorer = coarse_scorer(made)
        assert scorer is not None
        np.testing.assert_array_equal(MatcherScores(scorer, texts, videos).score_all().values, -every)


def test_an_adapted_matcher_tells_the_parts_of_the_wrapped_one() -> None:
    wrapped = Tiled()
    adapted = Adapted(wrapped, DIMENSION, AdapterSettings()).eval()
    texts, videos = encoded(adapted)
    found = score_with_parts(adapted, one(texts, 1), videos)
    np.testing.assert_allclose(found.parts["ocr"] - found.parts["video"], 3.0, atol=1e-5)
