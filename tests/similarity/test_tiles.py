"""Tiles: the same numbers as at once, within the memory that was given, and the matcher left as it was."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from evenreel.errors import UsageError
from evenreel.similarity import tiles
from evenreel.similarity.states import Encoded
from evenreel.similarity.tiles import Costs, MatcherScores, evaluating, tile_shape


class Rows(NamedTuple):
    vectors: Tensor


class Dot(nn.Module):
    """Products of vectors, that remembers its tiles; in training mode it gives nonsense."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.0))
        self.seen: list[tuple[int, int]] = []

    def score(self, text: Any, video: Any) -> Tensor:
        assert not self.training
        self.seen.append((len(text.vectors), len(video.vectors)))
        return self.factor * text.vectors @ video.vectors.T


class SparingDot(Dot):
    def pair_bytes(self, text: Any, video: Any) -> int:
        return 8


def encoded(count: int, seed: int, name: str = "c") -> Encoded:
    make = torch.Generator().manual_seed(seed)
    return Encoded(tuple(f"{name}{row}" for row in range(count)), Rows(torch.randn(count, 3, generator=make)))


def test_any_block_is_a_part_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, videos, dot = encoded(11, 0), encoded(8, 1, "v"), Dot()
    monkeypatch.setattr(tiles, "tile_shape", lambda *_: (4, 3))
    scores = MatcherScores(dot, texts, videos)
    expected = 2 * texts.state.vectors.numpy() @ videos.state.vectors.numpy().T
    whole = scores.score_all()
    np.testing.assert_allclose(whole.values, expected, rtol=1e-5, atol=1e-6)
    assert (whole.caption_ids, whole.video_ids) == (texts.ids, videos.ids)
    assert (list(scores.caption_ids), list(scores.video_ids)) == (list(texts.ids), list(videos.ids))
    assert dot.seen == [(rows, columns) for rows in (4, 4, 3) for columns in (3, 3, 2)]
    np.testing.assert_allclose(scores.block(slice(2, 9), slice(1, 5)), expected[2:9, 1:5], rtol=1e-5, atol=1e-6)
    assert scores.block(slice(2, 2), slice(1, 5)).shape == (0, 4)


@given(
    st.tuples(st.integers(1, 3000), st.integers(1, 3000)),
    st.builds(Costs, st.integers(1, 5000), st.integers(0, 50_000), st.integers(0, 50_000)),
    st.integers(2**20, 2**26),
)
def test_a_tile_keeps_to_the_budget_and_uses_it(size: tuple[int, int], costs: Costs, budget: int) -> None:
    rows, columns = tile_shape(size, costs, budget)

    def cost(rows: int, columns: int) -> int:
        return rows * columns * costs.pair + rows * costs.caption + columns * costs.video

    assert 1 <= rows <= size[0]
    assert 1 <= columns <= size[1]
    assert cost(rows, columns) <= budget
    assert columns == size[1] or cost(rows, columns + 1) > budget
    assert rows == size[0] or cost(rows + 1, columns) > budget or columns < size[1]


def test_a_matcher_that_spares_memory_has_larger_tiles() -> None:
    texts, videos = encoded(4000, 0), encoded(4000, 1, "v")
    plain, sparing = Dot(), SparingDot()
    plain_scores, sparing_scores = (MatcherScores(dot, texts, videos, 2**27) for dot in (plain, sparing))
    np.testing.assert_allclose(plain_scores.score_all().values, sparing_scores.score_all().values, rtol=1e-5, atol=1e-6)
    assert max(sparing.seen) > max(plain.seen)
    assert all(rows * columns * 48 <= 2**26 for rows, columns in plain.seen)


def test_every_part_of_a_module_is_left_in_its_mode() -> None:
    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    module[1].eval()
    with pytest.raises(KeyError), evaluating(module):
        assert not any(part.training for part in module.modules())
        raise KeyError
    assert [part.training for part in module.modules()] == [True, True, False, False]


def test_nothing_to_score_and_nothing_to_score_with() -> None:
    some, none = encoded(2, 0), encoded(0, 0)
    with pytest.raises(UsageError, match="There are 0 captions and 2 videos"):
        MatcherScores(Dot(), none, some)
    with pytest.raises(UsageError, match="given 100 bytes of memory; it takes at least 134,217,728"):
        MatcherScores(Dot(), some, some, budget_bytes=100)
