"""The decoder sees what was written before and all that it writes from, and no more."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from evenreel.errors import UsageError
from evenreel.matchers.bima import BimaSettings, CaptionDecoder, Reduction, WrittenCaptions
from tests.matchers.examples import DIMENSION, disturb

SETTINGS = BimaSettings(max_words=6, heads=2)


@pytest.fixture(scope="module")
def decoder() -> Any:
    torch.manual_seed(0)
    return disturb(CaptionDecoder(DIMENSION, 9, SETTINGS)).double().eval()


def source(seed: int = 0) -> tuple[Tensor, Tensor]:
    vectors = torch.randn(2, 3, DIMENSION, generator=torch.Generator().manual_seed(seed)).double()
    return vectors, torch.tensor([[True, True, True], [True, False, False]])


@torch.no_grad()
def test_a_later_word_changes_no_earlier_state(decoder: Any) -> None:
    before = torch.tensor([[0, 3, 4, 5], [0, 6, 7, 8]])
    states = decoder(before, *source())
    for place in range(1, 4):
        other = before.clone()
        other[:, place:] = 2
        changed = decoder(other, *source())
        torch.testing.assert_close(changed[:, :place], states[:, :place], atol=1e-12, rtol=0)
        assert (changed[:, place] - states[:, place]).abs().max() > 1e-3


@torch.no_grad()
def test_padding_of_the_source_takes_no_part(decoder: Any) -> None:
    before = torch.tensor([[0, 3], [0, 6]])
    vectors, mask = source()
    junk = torch.where(mask[..., None], vectors, 100.0)
    torch.testing.assert_close(decoder(before, junk, mask), decoder(before, vectors, mask), atol=1e-12, rtol=0)
    turned = vectors.clone()
    turned[0, 2] = -turned[0, 2]
    assert (decoder(before, turned, mask) - decoder(before, vectors, mask))[0].abs().max() > 1e-4


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@torch.no_grad()
def test_captions_word_by_word(decoder: Any, reduction: Reduction) -> None:
    """Each caption alone, cut after every word, without padding."""
    before, after = torch.tensor([[0, 3, 4], [0, 5, 1]]), torch.tensor([[3, 4, 1], [5, 1, 1]])
    lengths, (vectors, mask) = (3, 2), source()
    written = WrittenCaptions(before, after, torch.arange(3) < torch.tensor(lengths)[:, None])
    rows = []
    for row, length in enumerate(lengths):
        costs = []
        for place in range(length):
            seen = vectors[row : row + 1, mask[row]]
            state = decoder(before[row : row + 1, : place + 1], seen, torch.ones(seen.shape[:2], dtype=torch.bool))
            logits = decoder.words.weight @ state[0, -1]
            costs.append(math.log(sum(math.exp(float(one)) for one in logits)) - float(logits[after[row, place]]))
        rows.append(sum(costs) / (length if reduction == "mean" else 1))
    assert decoder.nll(written, vectors, mask, reduction).item() == pytest.approx(sum(rows) / 2, abs=1e-5)


def test_at_the_start_it_knows_next_to_nothing() -> None:
    """Nor does it write the word again that it has just read."""
    torch.manual_seed(0)
    fresh = CaptionDecoder(64, 50, BimaSettings(max_words=6))
    numbers = torch.randint(50, (8, 6))
    vectors, mask = torch.randn(8, 4, 64), torch.ones(8, 4, dtype=torch.bool)
    cost = fresh.nll(WrittenCaptions(numbers, numbers, torch.ones(8, 6, dtype=torch.bool)), vectors, mask, "mean")
    assert cost.item() == pytest.approx(math.log(50), abs=0.5)


def test_heads_that_do_not_divide_the_features() -> None:
    with pytest.raises(UsageError, match="Features of length 16 cannot be split among 3 attention heads"):
        CaptionDecoder(DIMENSION, 9, BimaSettings(max_words=6, heads=3))
