"""Three levels of similarity against the definition, phrase by phrase and frame by frame."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evenreel.matchers.hgr import PhraseTexts, PhraseVideos, attended_cosines, frames_of, phrase_similarity
from evenreel.similarity import interaction
from evenreel.similarity.tiles import gather_rows, take_rows

DIMENSION, SHARPNESS = 6, 4.0

counts = st.lists(st.integers(0, 3), min_size=5, max_size=5)


def texts(verbs: list[int], nouns: list[int], seed: int = 0) -> PhraseTexts:
    """Captions with so many verbs and nouns, in any of four places."""
    make = torch.Generator().manual_seed(seed)
    (verb_vectors, verb_mask), (noun_vectors, noun_mask) = (phrases(level, make) for level in (verbs, nouns))
    sentence = F.normalize(torch.randn(len(verbs), DIMENSION, generator=make, dtype=torch.float64), dim=-1)
    return PhraseTexts(sentence, verb_vectors, verb_mask, noun_vectors, noun_mask)


def phrases(real: list[int], make: torch.Generator) -> tuple[Tensor, Tensor]:
    mask = torch.arange(4) < torch.tensor(real)[:, None]
    mask = torch.stack([row[torch.randperm(4, generator=make)] for row in mask])
    vectors = F.normalize(torch.randn(*mask.shape, DIMENSION, generator=make, dtype=torch.float64), dim=-1)
    return vectors.masked_fill(~mask[..., None], 0.0), mask


def videos(lengths: list[int], seed: int = 1) -> tuple[PhraseVideos, Tensor, Tensor]:
    """Videos of so many frames, and the vectors of the two levels, with numbers that count for nothing as padding."""
    make = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    levels = 3 * torch.randn(2, *mask.shape, DIMENSION, generator=make, dtype=torch.float64)
    video = F.normalize(torch.randn(len(lengths), DIMENSION, generator=make, dtype=torch.float64), dim=-1)
    return PhraseVideos(video, mask, *frames_of(levels[0], mask), *frames_of(levels[1], mask)), levels[0], levels[1]


def slow(text: PhraseTexts, video: PhraseVideos, *levels: Tensor) -> Tensor:
    """The definition with loops over captions, videos, phrases and frames."""
    table = torch.zeros(len(text.sentence), len(video.video), dtype=torch.float64)
    for q in range(len(table)):
        own = [text.verbs[q][text.verb_mask[q]], text.nouns[q][text.noun_mask[q]]]
        for v in range(table.shape[1]):
            frames = [[list(map(float, frame)) for frame in level[v][video.frame_mask[v]]] for level in levels]
            scores = [float(text.sentence[q] @ video.video[v])]
            for level in range(2):
                found = [slow_phrase(list(map(float, phrase)), frames[level]) for phrase in own[level]]
                scores.append(sum(found) / len(found) if found else 0.0)
            table[q, v] = sum(scores) / 3
    return table


def slow_phrase(phrase: list[float], frames: list[list[float]]) -> float:
    positive = [max(0.0, cosine(phrase, frame)) for frame in frames]
    norm = math.sqrt(sum(one * one for one in positive)) or 1.0
    raised = [math.exp(SHARPNESS * one / norm) for one in positive]
    attended = [
        sum(weight / sum(raised) * frame[place] for weight, frame in zip(raised, frames, strict=True))
        for place in range(len(phrase))
    ]
    return cosine(phrase, attended)


def cosine(one: list[float], other: list[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


@given(counts, counts, st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 99))
@settings(max_examples=8)
def test_as_the_definition_says(verbs: list[int], nouns: list[int], lengths: list[int], seed: int) -> None:
    text, (video, *levels) = texts(verbs, nouns, seed), videos(lengths, seed + 1)
    scores = phrase_similarity(text, video, SHARPNESS)
    torch.testing.assert_close(scores, slow(text, video, *levels), atol=1e-12, rtol=0)


def test_where_all_is_unlike() -> None:
    """No cosine is positive, so that attention is equal, and none of it goes to the padding, whose product is 0."""
    text, (video, *_) = texts([2, 1], [1, 3]), videos([2, 4])
    levels = -(0.3 + torch.rand(2, 2, 4, DIMENSION, dtype=torch.float64, generator=torch.Generator().manual_seed(3)))
    text = text._replace(verbs=text.verbs.abs(), nouns=text.nouns.abs())
    away = (frames_of(level, video.frame_mask) for level in levels)
    video = PhraseVideos(video.video, video.frame_mask, *next(away), *next(away))
    scores = phrase_similarity(text, video, SHARPNESS)
    torch.testing.assert_close(scores, slow(text, video, *levels), atol=1e-12, rtol=0)
    assert (3 * scores - text.sentence @ video.video.T < -0.5).all()


def test_a_caption_without_phrases_has_a_third_of_its_sentence() -> None:
    text, (video, *_) = texts([0, 0], [0, 0]), videos([2, 1])
    expected = text.sentence @ video.video.T / 3
    torch.testing.assert_close(phrase_similarity(text, video, SHARPNESS), expected)
    none = text._replace(verbs=text.verbs[:, :0], verb_mask=text.verb_mask[:, :0])
    torch.testing.assert_close(phrase_similarity(none, video, SHARPNESS), expected)


def test_chunks_of_any_size_give_the_table_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    text, (video, *_) = texts([1, 0, 3, 2, 0], [2, 0, 3, 1, 1]), videos([3, 1, 4, 2])
    whole = phrase_similarity(text, video, SHARPNESS)
    monkeypatch.setattr(interaction, "chunk_tokens", lambda _: 5)
    torch.testing.assert_close(phrase_similarity(text, video, SHARPNESS), whole, atol=1e-12, rtol=0)


def test_states_are_gathered_and_cut() -> None:
    text, (video, *_) = texts([1, 0, 3], [2, 0, 3]), videos([3, 1])
    parts = [(slice(0, 1), take_rows(text, slice(0, 1))), (slice(1, 3), take_rows(text, slice(1, 3)))]
    seen = [(slice(1, 2), one_frame(video)), (slice(0, 1), take_rows(video, slice(0, 1)))]
    scores = phrase_similarity(gather_rows(3, parts), gather_rows(2, seen), SHARPNESS)
    torch.testing.assert_close(scores, phrase_similarity(text, video, SHARPNESS))


def one_frame(video: PhraseVideos) -> Any:
    """The second video, cut to its one frame."""
    own = take_rows(video, slice(1, 2))
    cut = {name: tensor[:, :1] for name, tensor in own._asdict().items() if name != "video"}
    grams = {name: tensor[..., :1] for name, tensor in cut.items() if name.endswith("gram")}
    return own._replace(**cut)._replace(**grams)


def test_gradients_are_finite_and_those_of_the_definition() -> None:
    """Also of attention at equal weights, where a norm is 0, and of padding."""
    text, (video, verbs, nouns) = texts([2, 0], [1, 1]), videos([1, 3])
    verbs[0, 0] = -4 * text.verbs[0, int(text.verb_mask[0].int().argmax())]

    def of(verbs: Tensor, nouns: Tensor) -> Tensor:
        levels = *frames_of(verbs, video.frame_mask), *frames_of(nouns, video.frame_mask)
        return phrase_similarity(text, PhraseVideos(video.video, video.frame_mask, *levels), SHARPNESS)

    inputs = [level.requires_grad_() for level in (verbs, nouns)]
    assert torch.autograd.gradcheck(of, inputs, atol=1e-6)
    of(*inputs).sum().backward()
    for level in inputs:
        assert level.grad is not None
        assert level.grad.isfinite().all()
        assert not level.grad[~video.frame_mask].any()


def test_single_precision_is_enough_where_frames_are_next_to_equal() -> None:
    """The length of a sum that the Gram matrix gives loses nothing where nothing cancels."""
    make = torch.Generator().manual_seed(0)
    text, (video, *_) = texts([3] * 5, [3] * 5), videos([20] * 4)
    shape = (2, 4, 20, DIMENSION)
    levels = torch.randn(2, 1, 1, DIMENSION, generator=make, dtype=torch.float64) + 1e-3 * torch.randn(
        shape, generator=make, dtype=torch.float64
    )
    seen = PhraseVideos(*video[:2], *(part for level in levels for part in frames_of(level, video.frame_mask)))
    rough = phrase_similarity(single(text), single(seen), SHARPNESS)
    torch.testing.assert_close(rough.double(), phrase_similarity(text, seen, SHARPNESS), atol=1e-6, rtol=0)


def test_frames_that_cancel_out_are_like_nothing_and_have_gentle_slopes() -> None:
    """Each of them is followed by its opposite but for some rounding, and the phrase looks at all alike."""
    make = torch.Generator().manual_seed(0)
    frames = torch.randn(40, 1, DIMENSION, generator=make)
    opposite = -frames * (1 + 1e-7 * torch.randn(frames.shape, generator=make))
    vectors = torch.cat([frames, opposite], dim=1).requires_grad_()
    phrase = F.normalize(torch.randn(3, DIMENSION, generator=make), dim=-1)
    real = torch.ones(40, 2, dtype=torch.bool)
    found = attended_cosines(phrase, frames_of(vectors, real), real, sharpness=0.0)
    found.sum().backward()
    assert found.abs().max() < 0.01
    assert vectors.grad is not None
    assert vectors.grad.abs().max() < 1e5


def single(state: Any) -> Any:
    return type(state)(*(tensor if tensor.dtype == torch.bool else tensor.float() for tensor in state))
