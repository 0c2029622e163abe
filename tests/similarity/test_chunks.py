"""Chunks cover a table once, whatever the lengths."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from evenreel.similarity import interaction
from evenreel.similarity.interaction import TableSide, in_chunks, lengths


class Numbered(NamedTuple):
    numbers: Tensor
    mask: Tensor


def side(sizes: list[int], seen: list[int]) -> TableSide:
    mask = torch.arange(9) < torch.tensor(sizes)[:, None]

    def cut(rows: Numbered, longest: int) -> Numbered:
        assert longest == int(rows.mask.sum(1).max())
        seen.append(len(rows.numbers) * longest)
        return rows

    return TableSide(Numbered(torch.arange(len(sizes)), mask), mask, cut)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(9, 40),
)
def test_every_pair_is_scored_in_its_place(captions: list[int], videos: list[int], limit: int) -> None:
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interaction, "chunk_tokens", lambda _: limit)
        table = in_chunks(
            lambda text, video: 100 * text.numbers[:, None] + video.numbers, side(captions, seen), side(videos, seen)
        )
    assert table.tolist() == [[100 * q + v for v in range(len(videos))] for q in range(len(captions))]
    assert max(seen) <= limit


def test_lengths_reach_to_the_last_real_item() -> None:
    assert lengths(torch.tensor([[False, True, False], [True, True, True]])).tolist() == [2, 3]
