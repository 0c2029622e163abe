"""A matcher that learns from a stream: it sees no answer, forgets on `reset`, and leaves the source as it was."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.counterfactuals import CounterfactualSettings
from evenreel.adaptation.matching import MatchSettings
from evenreel.adaptation.run import adapt
from evenreel.adaptation.settings import UNSAFE, AdaptSettings, SafetySettings, naive
from evenreel.adaptation.stream import Stream, joined, taken
from evenreel.adaptation.titan import Aids
from evenreel.errors import UsageError
from evenreel.language.pattern import PatternTagger
from evenreel.losses import info_nce
from evenreel.matchers import Matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.matchers.scoring import matcher_scores
from evenreel.types import TextFeatures, VideoFeatures

D = 8
PLAIN = AdaptSettings(causal=False, counterfactuals=None, safety=UNSAFE, lr=1e-2, batch_size=10, seed=3)


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    rows = rng.normal(size=shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def captions(rng: np.random.Generator, count: int, first: int = 0) -> TextFeatures:
    mask = np.ones((count, 3), np.bool_)
    mask[::2, 2] = False
    words = unit(rng, count, 3, D) * mask[..., None]
    return TextFeatures(tuple(f"q{first + row}" for row in range(count)), words, mask, unit(rng, count, D))


def stream_of(seed: int, queries: int = 30, clips: int = 12) -> Stream:
    rng = np.random.default_rng(seed)
    times_s = np.tile(np.arange(2.0), (clips, 1))
    videos = VideoFeatures(
        tuple(f"v{row}" for row in range(clips)), unit(rng, clips, 2, D), np.ones((clips, 2), np.bool_), times_s
    )
    sentences = tuple(f"a {'red' if row % 3 else 'blue'} ball rolls {row}" for row in range(queries))
    return Stream(captions(rng, queries), sentences, videos)


def source(*, shared: bool = False) -> Adapted:
    torch.manual_seed(0)
    matcher = Adapted(MeanPool(D, MeanPoolSettings(0.1)), D, AdapterSettings(kind="mlp", shared=shared))
    for weight in matcher.parameters():
        weight.data += 0.05 * torch.randn_like(weight)
    return matcher.eval()


def model_of(stream: Stream, settings: AdaptSettings = PLAIN, aids: Aids | None = None) -> TestTimeMatcher:
    return TestTimeMatcher(source(), stream.videos, settings, aids)


def weights(matcher: Any) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in matcher.parameters()]


def equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("protocol", ["offline", "online"])
def test_the_source_stays_as_it_is(protocol: Any) -> None:
    stream, matcher = stream_of(1), source()
    before = weights(matcher)
    model = TestTimeMatcher(matcher, stream.videos, replace(PLAIN, protocol=protocol))
    found = adapt(model, stream, keep=True)
    assert equal(before, weights(matcher)) and equal(before, weights(model.source))
    assert not equal(before, weights(found.matcher)) and found.report.kept and found.report.moved > 0


@pytest.mark.parametrize("protocol", ["offline", "online"])
def test_reset_makes_the_order_of_streams_irrelevant(protocol: Any) -> None:
    first, second = stream_of(1), stream_of(2)
    second = replace(second, videos=first.videos)
    settings = replace(PLAIN, protocol=protocol, safety=replace(UNSAFE, teacher=0.5))
    model = model_of(first, settings)
    adapt(model, first)
    after_another = copy.deepcopy(adapt(model, second, keep=True))
    alone = adapt(model_of(first, settings), second, keep=True)
    assert equal(weights(after_another.matcher), weights(alone.matcher))
    if protocol == "online":
        assert np.array_equal(after_another.scores.values, alone.scores.values)  # type: ignore[union-attr]
    assert after_another.report.steps == alone.report.steps


def test_it_is_a_matcher_and_scores_as_the_model_that_is_served() -> None:
    stream = stream_of(4)
    model = model_of(stream)
    assert isinstance(model, Matcher)
    for _ in range(2):
        scores = matcher_scores(model, stream.texts, stream.videos).score_all().values
        np.testing.assert_array_equal(scores, model.ranked(stream.texts))
        np.testing.assert_array_equal(
            scores, matcher_scores(model.served, stream.texts, stream.videos).score_all().values
        )
        adapt(model, stream)
    assert not np.array_equal(scores, model.ranked_by_source(stream.texts))


def test_one_step_of_the_naive_labels_is_adam_on_the_loss_of_the_first_clips() -> None:
    stream = stream_of(5, queries=9)
    settings = naive(replace(PLAIN, batch_size=9))
    found = adapt(model_of(stream, settings), stream)
    by_hand = source().requires_grad_(True)
    scores = matcher_scores(by_hand, stream.texts, stream.videos).score_all().values
    firsts = scores.argmax(axis=1)
    assert found.report.steps[0].labels == tuple((f"q{row}", f"v{clip}") for row, clip in enumerate(firsts))
    text = F.normalize(by_hand.adapt_text(text_batch(stream.texts)).sentence, dim=-1)
    frames = by_hand.adapt_video(video_batch(stream.videos, firsts)).frames
    video = F.normalize(frames.mean(1), dim=-1)
    info_nce(text @ video.T, torch.from_numpy(firsts[:, None] == firsts), by_hand.logit_scale.exp()).backward()
    for (name, weight), got in zip(by_hand.named_parameters(), weights(found.matcher), strict=True):
        step = torch.zeros_like(weight)
        if not name.endswith("logit_scale"):
            assert weight.grad is not None
            step = PLAIN.lr * weight.grad / (weight.grad.abs() + 1e-8)  # the first step of Adam
        torch.testing.assert_close(got, weight.detach() - step, atol=2e-4, rtol=0)


def test_before_learning_a_batch_gets_the_ranking_of_the_model_as_it_was() -> None:
    stream = stream_of(6)
    rows = np.arange(10)
    texts, sentences = taken(stream.texts, rows), stream.sentences[:10]
    asked = {}
    for predict in ("before", "after"):
        model = model_of(stream, replace(PLAIN, protocol="online", predict=predict))
        asked[predict] = model.see(texts, sentences)
        np.testing.assert_array_equal(
            model.ranked(texts), asked["after"] if predict == "after" else model.ranked(texts)
        )
    np.testing.assert_array_equal(asked["before"], model.ranked_by_source(texts))
    assert not np.array_equal(asked["before"], asked["after"])


def test_with_maps_of_captions_alone_clips_stay_as_they_are_encoded() -> None:
    stream = stream_of(7)
    model = model_of(stream, replace(PLAIN, learns="text"))
    adapt(model, stream)
    assert torch.equal(model.gallery.vectors, model._at_source.vectors)
    assert not np.array_equal(model.ranked(stream.texts), model.ranked_by_source(stream.texts))


@pytest.mark.parametrize(
    ("learns", "matcher", "word"),
    [
        ("text", source(shared=True), "apart from that of frames"),
        ("heads", MeanPool(D, MeanPoolSettings()), "no adapter"),
        ("norms", source(), "no layer norm"),
        ("all", MeanPool(D, MeanPoolSettings()), "no weights"),
    ],
)
def test_a_matcher_of_which_nothing_may_learn_is_refused(learns: Any, matcher: Any, word: str) -> None:
    stream = stream_of(8)
    with pytest.raises(UsageError, match=word):
        TestTimeMatcher(matcher, stream.videos, replace(PLAIN, learns=learns))


def test_ranks_are_counted_among_all_that_were_seen_or_in_the_batch() -> None:
    stream = stream_of(9, queries=90)
    alike = stream.texts.sentence + np.float32(0.7)  # all go to a few clips, so that ranks in columns matter
    stream = replace(stream, texts=replace(stream.texts, sentence=alike / np.linalg.norm(alike, axis=1, keepdims=True)))
    labels = {}
    for ranks in ("bank", "batch"):
        model = model_of(stream, replace(PLAIN, protocol="online", ranks=ranks, lr=1e-12))
        adapt(model, stream)
        labels[ranks] = dict(model.steps[-1].labels)
    scores = model.ranked_by_source(stream.texts).astype(np.float64)
    for ranks, rows in (("bank", np.arange(90)), ("batch", np.arange(80, 90))):
        part = scores[rows]
        for row in range(80, 90):
            own = scores[row]
            sums = [
                1 + (own > own[clip]).sum() + 1 + (part[:, clip] > own[clip]).sum() for clip in range(part.shape[1])
            ]
            best = min(range(len(sums)), key=lambda clip: (sums[clip], -own[clip]))
            assert labels[ranks][f"q{row}"] == f"v{best}"
    assert labels["bank"] != labels["batch"]


def test_a_bank_forgets_the_queries_of_long_ago() -> None:
    stream = stream_of(10)
    small = model_of(stream, replace(PLAIN, protocol="online", bank=10, lr=1e-12))
    batchwise = model_of(stream, replace(PLAIN, protocol="online", ranks="batch", lr=1e-12))
    assert [step.labels for step in adapt(small, stream).report.steps] == [
        step.labels for step in adapt(batchwise, stream).report.steps
    ]


def test_counterfactual_captions_are_learned_from_beside_the_queries() -> None:
    stream = stream_of(11)

    def encode(texts: Any) -> TextFeatures:
        return captions(np.random.default_rng(len(texts)), len(texts), 100)

    settings = replace(PLAIN, counterfactuals=CounterfactualSettings(beta=2, theta=0.9), batch_size=200)
    report = adapt(model_of(stream, settings, Aids(encode=encode, tagger=PatternTagger())), stream).report
    assert report.steps[0].counterfactual > 0
    assert report.steps[0].pairs == 30 + report.steps[0].counterfactual
    assert len(report.steps[0].labels) == 30
    with pytest.raises(UsageError, match="text tower"):
        model_of(stream, settings)


def test_mutual_neighbours_leave_queries_out() -> None:
    stream = stream_of(12)
    report = adapt(model_of(stream, replace(PLAIN, matching=MatchSettings(match="mutual_nn"))), stream).report
    assert 0 < report.steps[0].pairs == len(report.steps[0].labels) <= 12


def test_of_the_labels_the_surest_are_kept() -> None:
    stream = stream_of(13)
    settings = replace(PLAIN, safety=replace(UNSAFE, keep=0.5))
    assert adapt(model_of(stream, settings), stream).report.steps[0].pairs == 15


def test_without_proof_of_a_rise_the_source_is_served() -> None:
    stream = stream_of(14)
    for protocol in ("offline", "online"):
        settings = replace(PLAIN, protocol=protocol, safety=SafetySettings(drift=False, confidence=0.9999))
        found = adapt(model_of(stream, settings), stream, keep=True)
        assert not found.report.kept and found.report.sentence.startswith("Left as it was")
        assert equal(weights(found.matcher), weights(source())) and found.report.first_changed == 0


def test_a_teacher_is_the_moving_average_of_what_learns() -> None:
    stream = stream_of(15, queries=10)
    plain = adapt(model_of(stream, replace(PLAIN, batch_size=10)), stream)
    slow = adapt(model_of(stream, replace(PLAIN, batch_size=10, safety=replace(UNSAFE, teacher=0.75))), stream)
    for kept, new, old in zip(weights(slow.matcher), weights(plain.matcher), weights(source()), strict=True):
        torch.testing.assert_close(kept, 0.75 * old + 0.25 * new)


def test_a_teacher_follows_each_step_of_the_optimiser() -> None:
    stream, old = stream_of(15, queries=10), weights(source())
    one, two = (weights(adapt(model_of(stream, replace(PLAIN, steps=steps)), stream).matcher) for steps in (1, 2))
    slow = adapt(model_of(stream, replace(PLAIN, steps=2, safety=replace(UNSAFE, teacher=0.75))), stream)
    for kept, first, second, start in zip(weights(slow.matcher), one, two, old, strict=True):
        torch.testing.assert_close(kept, 0.75 * (0.75 * start + 0.25 * first) + 0.25 * second)


def test_streams_are_refused_that_have_nothing_to_learn_from() -> None:
    stream = stream_of(16)
    with pytest.raises(UsageError, match="two of each"):
        Stream(taken(stream.texts, np.arange(1)), stream.sentences[:1], stream.videos)
    with pytest.raises(UsageError, match="29 sentences"):
        Stream(stream.texts, stream.sentences[:29], stream.videos)
    with pytest.raises(UsageError, match="held_out is 0"):
        SafetySettings(held_out=0.0)
    with pytest.raises(UsageError, match="batch_size"):
        AdaptSettings(batch_size=1)


def test_batches_have_every_query_once_and_none_alone() -> None:
    stream = stream_of(17, queries=21)
    rows = list(stream.batches(10))
    assert [len(one) for one in rows] == [10, 11]
    np.testing.assert_array_equal(np.concatenate(rows), np.arange(21))


def test_captions_of_two_lengths_stand_together() -> None:
    rng = np.random.default_rng(0)
    first, second = captions(rng, 2), captions(rng, 3, 2)
    short = replace(first, words=first.words[:, :2], word_mask=first.word_mask[:, :2])
    both = joined(short, second)
    assert both.ids == ("q0", "q1", "q2", "q3", "q4") and both.words.shape == (5, 3, D)
    assert not both.word_mask[:2, 2].any() and not both.words[:2, 2].any()
    np.testing.assert_array_equal(both.words[2:], second.words)


def test_without_rolling_back_the_adapted_model_is_served_whatever_is_measured() -> None:
    stream = stream_of(18)
    settings = replace(PLAIN, safety=SafetySettings(drift=False, confidence=0.9999, roll_back=False))
    found = adapt(model_of(stream, settings), stream)
    assert found.report.kept and found.report.steps[-1].verdict is not None
    assert found.report.sentence.startswith("Adapted: ")
