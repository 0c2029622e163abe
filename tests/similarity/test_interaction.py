"""Token interaction against slow loops from its formula."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evenreel.similarity import interaction
from evenreel.similarity.interaction import (
    TableSide,
    TokenVectors,
    attend,
    in_chunks,
    masked_softmax,
    token_interaction,
)

masks = st.lists(st.lists(st.booleans(), min_size=4, max_size=4).filter(any), min_size=1, max_size=6)


def tokens(mask: Tensor, seed: int, dimension: int = 6) -> TokenVectors:
    make = torch.Generator().manual_seed(seed)
    vectors = F.normalize(torch.randn(*mask.shape, dimension, generator=make), dim=-1)
    return TokenVectors(vectors, mask, masked_softmax(torch.randn(mask.shape, generator=make), mask))


def one_way(asking: list[tuple[Tensor, float]], answering: list[tuple[Tensor, float]]) -> float:
    return sum(weight * max(float(token @ other) for other, _ in answering) for token, weight in asking)


def slow(words: TokenVectors, frames: TokenVectors) -> Tensor:
    """One pair after the other, of real tokens only."""

    def real(side: TokenVectors) -> list[list[tuple[Tensor, float]]]:
        return [
            [(vector.double(), float(weight)) for vector, weight, there in zip(*row, strict=True) if there]
            for row in zip(side.vectors, side.weights, side.mask, strict=True)
        ]

    return torch.tensor([[(one_way(q, v) + one_way(v, q)) / 2 for v in real(frames)] for q in real(words)])


@given(word_mask=masks, frame_mask=masks, seed=st.integers(0, 1000))
def test_as_the_formula_says_wherever_the_padding_is(
    word_mask: list[list[bool]], frame_mask: list[list[bool]], seed: int
) -> None:
    words, frames = tokens(torch.tensor(word_mask), seed), tokens(torch.tensor(frame_mask), seed + 1)
    torch.testing.assert_close(token_interaction(words, frames), slow(words, frames), atol=1e-6, rtol=0)


def test_in_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = torch.arange(4) < torch.tensor([[3], [1], [4], [2], [2], [4], [1]])
    words, frames = tokens(mask, 0), tokens(mask.flip(0), 1)
    expected = slow(words, frames)
    for size in (1, 5, 8):
        monkeypatch.setattr(interaction, "chunk_tokens", lambda _, size=size: size)
        torch.testing.assert_close(token_interaction(words, frames), expected, atol=1e-6, rtol=0)


def test_what_lies_in_the_padding_is_of_no_account() -> None:
    mask = torch.tensor([[True, False, True], [True, False, False]])
    words, frames = tokens(mask, 0), tokens(mask, 1)
    spoilt = [side._replace(vectors=side.vectors.masked_fill(~mask[..., None], 100.0)) for side in (words, frames)]
    torch.testing.assert_close(token_interaction(*spoilt), token_interaction(words, frames), atol=0, rtol=0)


def test_gradients_are_those_of_the_formula() -> None:
    """Against PyTorch's own gradient of the masked formula written for all pairs at once, padding included."""
    mask = torch.arange(4) < torch.tensor([[3], [1], [4]])
    words, frames = tokens(mask, 0), tokens(mask.flip(0), 1)
    inputs = [side.vectors.requires_grad_() for side in (words, frames)]
    upstream = torch.randn(3, 3, generator=torch.Generator().manual_seed(2))
    ours = torch.autograd.grad((token_interaction(words, frames) * upstream).sum(), inputs)
    theirs = torch.autograd.grad((masked_with_infinity(words, frames) * upstream).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def masked_with_infinity(words: TokenVectors, frames: TokenVectors) -> Tensor:
    products = torch.einsum("qwd,vfd->qvwf", words.vectors, frames.vectors)
    best_frame = products.masked_fill(~frames.mask[None, :, None, :], float("-inf")).amax(3)
    best_word = products.masked_fill(~words.mask[:, None, :, None], float("-inf")).amax(2)
    return 0.5 * ((words.weights[:, None] * best_frame).sum(-1) + (frames.weights * best_word).sum(-1))


def test_masks_that_multiply_let_padding_win() -> None:
    """The public code multiplies products by 0 or 1: against a video that is unlike, padding is the best frame."""
    word = TokenVectors(torch.tensor([[[1.0, 0.0]]]), torch.tensor([[True]]), torch.tensor([[1.0]]))
    frame = TokenVectors(
        torch.tensor([[[-1.0, 0.0], [0.0, 0.0]]]), torch.tensor([[True, False]]), torch.tensor([[1.0, 0.0]])
    )
    multiplied = torch.einsum("qwd,vfd->qvwf", word.vectors, frame.vectors) * frame.mask[None, :, None, :]
    of_words = (word.weights[:, None] * multiplied.amax(3)).sum(-1)
    of_frames = (frame.weights * multiplied.amax(2)).sum(-1)
    assert (0.5 * (of_words + of_frames)).item() == -0.5
    assert token_interaction(word, frame).item() == -1.0


# Chunks cover a table once, whatever the lengths


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


# Attention over similarities against a slow loop


def slow_of_attention(alike: list[float], mix: list[list[float]], real: list[bool], temperature: float) -> float:
    parts = [part for part, there in enumerate(real) if there]
    raised = {part: math.exp(alike[part] / temperature) for part in parts}
    weights = {part: raised[part] / sum(raised.values()) for part in parts}
    return sum(sum(weights[j] * mix[j][i] for j in parts) * alike[i] for i in parts)


def test_as_the_formula_says() -> None:
    make = torch.Generator().manual_seed(0)
    alike, mix = torch.rand(2, 4, 3, generator=make) - 0.5, torch.randn(5, 5, generator=make)
    real = torch.tensor([[True, True, False, True], [True, False, False, False]])[..., None]
    alike = alike.masked_fill(~real, 0.0)
    expected = [
        [slow_of_attention(alike[row, :, n].tolist(), mix.tolist(), real[row, :, 0].tolist(), 0.1) for n in range(3)]
        for row in range(2)
    ]
    torch.testing.assert_close(attend(alike, mix, real, 0.1), torch.tensor(expected))
