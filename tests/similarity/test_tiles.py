"""Tiles: the same numbers as at once, within the memory that was given, and the matcher left as it was."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from evenreel.errors import UsageError
from evenreel.similarity import tiles
from evenreel.similarity.tiles import (
    Costs,
    Encoded,
    MatcherScores,
    evaluating,
    gather_rows,
    mapped,
    move,
    row_bytes,
    row_count,
    take_rows,
    tensors_of,
    tile_shape,
)


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


def encoded(count: int, seed: int, name: str = "c") -> Encoded:
    make = torch.Generator().manual_seed(seed)
    return Encoded(tuple(f"{name}{row}" for row in range(count)), Rows(torch.randn(count, 3, generator=make)))


@pytest.fixture
def tiles_of_4_by_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "tile_shape", lambda *_: (4, 3))


def expected(texts: Encoded, videos: Encoded) -> NDArray[np.float32]:
    table: NDArray[np.float32] = 2 * texts.state.vectors.numpy() @ videos.state.vectors.numpy().T
    return table


@pytest.mark.usefixtures("tiles_of_4_by_3")
@pytest.mark.parametrize("budget", [tiles.DEFAULT_BUDGET_BYTES, 100])
def test_any_block_is_a_part_of_the_whole(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the table is kept or, for want of memory, is not."""
    monkeypatch.setattr(tiles, "LEAST_BUDGET_BYTES", 0)
    texts, videos, dot = encoded(11, 0), encoded(8, 1, "v"), Dot()
    scores, table = MatcherScores(dot, texts, videos, budget), expected(texts, videos)
    whole = scores.score_all()
    np.testing.assert_allclose(whole.values, table, rtol=1e-5, atol=1e-6)
    assert (whole.caption_ids, whole.video_ids) == (texts.ids, videos.ids)
    assert (list(scores.caption_ids), list(scores.video_ids)) == (list(texts.ids), list(videos.ids))
    assert dot.seen == [(rows, columns) for rows in (4, 4, 3) for columns in (3, 3, 2)]
    for rows, columns in (
        (slice(2, 9), slice(1, 5)),
        (slice(2, 2), slice(1, 5)),
        (slice(0, 99), slice(5, 9)),
        (slice(None), slice(3)),
        (slice(-4, -1), slice(-3, None)),
        (slice(7, 3), slice(0, 8)),
    ):
        block = scores.block(rows, columns)
        assert block.shape == table[rows, columns].shape
        np.testing.assert_allclose(block, table[rows, columns], rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("tiles_of_4_by_3")
def test_both_directions_of_an_evaluation_score_each_pair_once() -> None:
    texts, videos, dot = encoded(11, 0), encoded(8, 1, "v"), Dot()
    scores = MatcherScores(dot, texts, videos)
    scores.block(slice(2, 5), slice(0, 1))
    assert sum(rows * columns for rows, columns in dot.seen) == 3 * 8  # whole rows, and no others
    for start in range(0, 11, 2):
        scores.block(slice(start, start + 2), slice(0, 8))
    for start in range(0, 8, 2):
        scores.block(slice(0, 11), slice(start, start + 2))
    assert sum(rows * columns for rows, columns in dot.seen) == 11 * 8


def test_what_a_reader_does_to_a_block_is_not_seen_by_the_next() -> None:
    scores = MatcherScores(Dot(), encoded(4, 0), encoded(3, 1, "v"))
    first = scores.score_all().values.copy()
    scores.block(slice(0, 4), slice(0, 3))[:] = np.nan
    np.testing.assert_array_equal(scores.score_all().values, first)


def test_blocks_have_no_steps() -> None:
    with pytest.raises(UsageError, match="in steps of 2; ask for a block without a step"):
        MatcherScores(Dot(), encoded(4, 0), encoded(3, 1, "v")).block(slice(0, 4, 2), slice(0, 3))


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


def test_tiles_take_what_the_budget_leaves() -> None:
    """Four tables of a tile, its rows and columns twice, a matcher's chunks and a table that is kept."""
    for size in (1000, 4000):
        dot = Dot()
        scores = MatcherScores(dot, encoded(size, 0), encoded(size, 1, "v"), tiles.LEAST_BUDGET_BYTES)
        scores.block(slice(0, 1), slice(0, 1))
        captions, videos = scores._tile
        kept = 4 * size**2 if 4 * size**2 <= tiles.LEAST_BUDGET_BYTES // 4 else 0
        taken = 16 * captions * videos + 2 * 12 * (captions + videos) + tiles.CHUNK_BYTES + kept
        assert taken <= tiles.LEAST_BUDGET_BYTES
        assert max(captions, videos) == size or taken > 0.99 * tiles.LEAST_BUDGET_BYTES


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


# States are cut, gathered and moved row by row


class State(NamedTuple):
    vectors: Tensor
    mask: Tensor
    square: Tensor
    number: Tensor


def state(rows: int, length: int) -> State:
    return State(
        torch.ones(rows, length, 3),
        torch.ones(rows, length, dtype=torch.bool),
        torch.ones(rows, length, length, dtype=torch.float64),
        torch.arange(rows),
    )


def test_parts_of_several_lengths_are_gathered_with_zeros_after_the_shorter() -> None:
    whole = gather_rows(3, [(slice(0, 2), state(2, 2)), (slice(2, 4), state(1, 3))])
    assert [tensor.shape for tensor in whole] == [(3, 3, 3), (3, 3), (3, 3, 3), (3,)]
    assert whole.mask.tolist() == [[True, True, False], [True, True, False], [True, True, True]]
    assert whole.square[0].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert whole.vectors[:, 2].sum(1).tolist() == [0, 0, 3]
    assert whole.number.tolist() == [0, 1, 0]
    assert isinstance(whole, State)


def test_parts_come_in_any_order() -> None:
    parts = [(slice(0, 2), state(2, 2)), (slice(2, 3), state(1, 3)), (slice(3, 5), state(2, 1))]
    for one, other in zip(gather_rows(5, parts), gather_rows(5, reversed(parts)), strict=True):
        torch.testing.assert_close(one, other)
    assert gather_rows(0, []) == ()


def test_rows_are_counted_cut_weighed_and_moved() -> None:
    whole = state(4, 2)
    assert row_count(whole) == 4
    assert take_rows(whole, slice(1, 3)).number.tolist() == [1, 2]
    assert row_bytes(whole) == 2 * 3 * 4 + 2 * 1 + 2 * 2 * 8 + 8
    assert move(whole, "meta").vectors.device.type == "meta"


def nested(rows: int, length: int) -> Any:
    """The state of a matcher around two others, one of which is around another."""
    return state(rows, length), (state(rows, length + 1)._replace(number=torch.arange(rows) + 10),)


def test_states_of_states_are_counted_cut_weighed_and_moved() -> None:
    whole = nested(4, 2)
    assert row_count(whole) == 4
    cut = take_rows(whole, slice(1, 3))
    assert (cut[0].number.tolist(), cut[1][0].number.tolist()) == ([1, 2], [11, 12])
    assert row_bytes(whole) == row_bytes(state(1, 2)) + row_bytes(state(1, 3))
    assert {tensor.device.type for tensor in tensors_of(move(whole, "meta"))} == {"meta"}
    assert [type(part) for part in (cut, cut[0], cut[1], cut[1][0])] == [tuple, State, tuple, State]


@given(sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=4))
def test_states_of_states_are_gathered_as_each_of_them_alone(sizes: list[tuple[int, int]]) -> None:
    ends = torch.tensor([0, *(rows for rows, _ in sizes)]).cumsum(0).tolist()
    places = [slice(start, stop) for start, stop in pairwise(ends)]
    parts = [nested(*size) for size in sizes]
    whole = gather_rows(ends[-1], zip(places, parts, strict=True))
    for found, alone in ((whole[0], [part[0] for part in parts]), (whole[1][0], [part[1][0] for part in parts])):
        for one, other in zip(found, gather_rows(ends[-1], zip(places, alone, strict=True)), strict=True):
            assert torch.equal(one, other)


def test_a_state_is_mapped_as_what_it_is() -> None:
    doubled = mapped(nested(2, 1), lambda tensor: tensor + tensor)
    assert doubled[1][0].number.tolist() == [20, 22]
    assert type(doubled[0]) is State


@pytest.mark.parametrize("whole", [state(3, 2), nested(3, 2)])
def test_rows_are_views(whole: Any) -> None:
    """A tile of a large state takes no memory of its own."""
    for tensor, cut in zip(tensors_of(whole), tensors_of(take_rows(whole, slice(1, 2))), strict=True):
        assert cut.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
