"""A matcher that learns from a stream: it sees no answer, forgets on `reset`, and leaves the source as it was."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from evenreel.adaptation.adapted import Resources, TestTimeMatcher
from evenreel.adaptation.baselines import TTTObjective, TTTSettings, source_statistics
from evenreel.adaptation.run import adapt
from evenreel.adaptation.safety import Drift, MeanChange, MeanShift, Quality, QualityVerdict, compared
from evenreel.adaptation.stream import QueryStream, joined, taken
from evenreel.adaptation.titan import (
    UNSAFE,
    AdaptSettings,
    CounterfactualSettings,
    MatchSettings,
    QueryWindow,
    SafetySettings,
    naive,
    pseudo_pairs,
    scored,
)
from evenreel.adaptation.titan_correction import CausalSettings, FitSettings, new_correction
from evenreel.errors import UsageError
from evenreel.language.taggers import PatternTagger
from evenreel.losses import info_nce
from evenreel.matchers import Matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.matchers.scoring import matcher_scores
from evenreel.matchers.wti import Wti, WtiSettings
from evenreel.types import OnScreen, TextFeatures, VideoFeatures

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


def stream_of(seed: int, queries: int = 30, clips: int = 12) -> QueryStream:
    rng = np.random.default_rng(seed)
    times_s = np.tile(np.arange(2.0), (clips, 1))
    videos = VideoFeatures(
        tuple(f"v{row}" for row in range(clips)), unit(rng, clips, 2, D), np.ones((clips, 2), np.bool_), times_s
    )
    sentences = tuple(f"a {'red' if row % 3 else 'blue'} ball rolls {row}" for row in range(queries))
    return QueryStream(captions(rng, queries), sentences, videos)


def source(*, shared: bool = False) -> Adapted:
    torch.manual_seed(0)
    matcher = Adapted(MeanPool(D, MeanPoolSettings(0.1)), D, AdapterSettings(kind="mlp", shared=shared))
    for weight in matcher.parameters():
        weight.data += 0.05 * torch.randn_like(weight)
    return matcher.eval()


def model_of(
    stream: QueryStream, settings: AdaptSettings = PLAIN, resources: Resources | None = None
) -> TestTimeMatcher:
    return TestTimeMatcher(source(), stream.videos, settings, resources)


def weights(matcher: Any) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in matcher.parameters()]


def equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize(("protocol", "times"), [("offline", [None]), ("online", [1, 2, 3])])
def test_drift_is_asked_for_once_offline_and_each_time_more_strictly_online(
    protocol: Any, times: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, asked = stream_of(5), []

    def answer(captions: MeanShift, clips: MeanShift, confidence: float, time: int | None = None) -> Drift:
        asked.append(time)
        return Drift(captions, clips, found=False)

    monkeypatch.setattr("evenreel.adaptation.adapted.drift_of", answer)
    statistics = source_statistics(*(torch.from_numpy(unit(np.random.default_rng(0), 40, D)) for _ in range(2)))
    settings = replace(PLAIN, protocol=protocol, batch_size=10, epochs=3, safety=SafetySettings())
    report = adapt(model_of(stream, settings, Resources(statistics=statistics)), stream).report
    assert asked == times
    assert not report.kept and not any(step.pairs for step in report.steps)


@pytest.mark.parametrize("protocol", ["offline", "online"])
def test_the_source_stays_as_it_is(protocol: Any) -> None:
    stream, matcher = stream_of(1), source()
    before = weights(matcher)
    model = TestTimeMatcher(matcher, stream.videos, replace(PLAIN, protocol=protocol))
    found = adapt(model, stream, keep=True)
    assert equal(before, weights(matcher)) and equal(before, weights(model.source))
    assert not equal(before, weights(found.matcher)) and found.report.kept and found.report.moved > 0


def all_resources() -> Resources:
    """A reader, a tagger, a correction that chooses at random, and queues that remember."""
    rows = np.random.default_rng(0)
    statistics = source_statistics(*(torch.from_numpy(unit(rows, 40, D)) for _ in range(2)))
    return Resources(
        encode=lambda texts: captions(np.random.default_rng(len(texts)), len(texts), 100),
        tagger=PatternTagger(),
        correction=new_correction(D, torch.from_numpy(unit(rows, 5, D)), CausalSettings(eta=4), 0),
        confounders=torch.from_numpy(unit(rows, 6, D)),
        statistics=statistics,
        objective=lambda: TTTObjective(statistics, TTTSettings(queue=20), torch.Generator().manual_seed(0)),
    )


EVERY_PART = {
    "plain": {"safety": replace(UNSAFE, teacher=0.5)},
    "titan": {
        "causal": True,
        "causal_fit": FitSettings(5, lr=1e-2, batch_size=8),
        "counterfactuals": CounterfactualSettings(beta=2, theta=0.9),
        "safety": SafetySettings(drift=False),
    },
    "ttt": {"objective": "ttt"},
}


@pytest.mark.parametrize("protocol", ["offline", "online"])
@pytest.mark.parametrize("parts", list(EVERY_PART))
def test_reset_makes_the_order_of_streams_irrelevant(protocol: Any, parts: str) -> None:
    first, second = stream_of(1), stream_of(2)
    second = replace(second, videos=first.videos)
    settings, resources = replace(PLAIN, protocol=protocol, **EVERY_PART[parts]), all_resources()  # type: ignore[arg-type]
    model = model_of(first, settings, resources)
    assert adapt(model, first).report.moved > 0
    after_another = copy.deepcopy(adapt(model, second, keep=True))
    alone = adapt(model_of(first, settings, all_resources()), second, keep=True)
    assert after_another.report == alone.report
    assert equal(weights(after_another.matcher), weights(alone.matcher))
    if protocol == "online":
        assert np.array_equal(after_another.scores.values, alone.scores.values)  # type: ignore[union-attr]
    for name, weight in all_resources().correction.state_dict().items():  # type: ignore[union-attr]
        assert torch.equal(resources.correction.state_dict()[name], weight)  # type: ignore[union-attr]


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
        learned = model.ranked(texts)
    np.testing.assert_array_equal(asked["after"], learned)
    np.testing.assert_array_equal(asked["before"], model.ranked_by_source(texts))
    assert not np.array_equal(asked["before"], asked["after"])


def test_with_maps_of_captions_alone_clips_stay_as_they_are_encoded() -> None:
    stream = stream_of(7)
    model = model_of(stream, replace(PLAIN, learns="text", protocol="online"))
    adapt(model, stream)
    assert model.gallery is model._at_source  # nothing was encoded again
    anew = matcher_scores(model.served, stream.texts, stream.videos).score_all().values
    np.testing.assert_array_equal(model.ranked(stream.texts), anew)
    assert not np.array_equal(model.ranked(stream.texts), model.ranked_by_source(stream.texts))


def test_the_map_of_captions_maps_what_stands_on_screen_too() -> None:
    stream, rng = stream_of(7), np.random.default_rng(7)
    windows, mask = unit(rng, 12, 2, D), np.ones((12, 2), np.bool_)
    videos = replace(stream.videos, on_screen=OnScreen(windows, mask))
    stream, settings = replace(stream, videos=videos), replace(PLAIN, learns="text", protocol="online")
    reads = Adapted(MeanPool(D, MeanPoolSettings(0.1)), D, AdapterSettings(windows=True))
    for matcher, stays in ((reads, False), (source(), True)):
        model = TestTimeMatcher(matcher, videos, settings)
        adapt(model, stream)
        anew = matcher_scores(model.served, stream.texts, videos).score_all().values
        np.testing.assert_array_equal(model.ranked(stream.texts), anew)
        assert (model.gallery is model._at_source) == stays


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


@pytest.mark.parametrize("objective", ["ttt", "ttt_flow"])
def test_an_objective_that_moves_the_adapter_takes_one_that_may_learn(objective: Any) -> None:
    """Refused when the model is made, not at the first batch."""
    stream, resources = stream_of(8), Resources(objective=lambda: lambda matcher, text, video: {})
    settings = replace(PLAIN, objective=objective)
    for learns in ("all", "auto"):
        with pytest.raises(UsageError, match=f"The objective {objective} moves nothing but the adapter"):
            TestTimeMatcher(Wti(D, WtiSettings()), stream.videos, replace(settings, learns=learns), resources)
    behind = Adapted(Wti(D, WtiSettings()), D, AdapterSettings(kind="none", windows=True))
    with pytest.raises(UsageError, match="moves nothing but the adapter"):
        TestTimeMatcher(behind, stream.videos, settings, resources)
    for learns in ("all", "auto", "heads", "text"):
        TestTimeMatcher(source(), stream.videos, replace(settings, learns=learns), resources)


def test_ranks_are_counted_among_all_that_were_seen_or_in_the_batch() -> None:
    stream = stream_of(9, queries=90)
    alike = stream.texts.sentence + np.float32(0.7)  # all go to a few clips, so that ranks in columns matter
    stream = replace(stream, texts=replace(stream.texts, sentence=alike / np.linalg.norm(alike, axis=1, keepdims=True)))
    labels = {}
    for name, how in (("bank", {"ranks": "bank"}), ("batch", {"ranks": "batch"}), ("small", {"bank": 10})):
        model = model_of(stream, replace(PLAIN, protocol="online", lr=1e-12, **how))  # type: ignore[arg-type]
        adapt(model, stream)
        labels[name] = dict(model.steps[-1].labels)
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
    assert labels["bank"] != labels["batch"] == labels["small"], "a bank forgets the queries of long ago"


def test_counterfactual_captions_are_learned_from_beside_the_queries() -> None:
    stream = stream_of(11)

    def encode(texts: Any) -> TextFeatures:
        return captions(np.random.default_rng(len(texts)), len(texts), 100)

    settings = replace(PLAIN, counterfactuals=CounterfactualSettings(beta=2, theta=0.9), batch_size=200)
    report = adapt(model_of(stream, settings, Resources(encode=encode, tagger=PatternTagger())), stream).report
    assert report.steps[0].counterfactual > 0
    assert report.steps[0].pairs == 30 + report.steps[0].counterfactual
    assert len(report.steps[0].labels) == 30
    with pytest.raises(UsageError, match="text tower"):
        model_of(stream, settings)


def test_the_correction_chooses_among_the_likeliest_clips_and_the_rematched_one() -> None:
    stream, settings = stream_of(11, queries=40), replace(PLAIN, causal=True, causal_fit=FitSettings(20, lr=1e-4))
    model, seen = model_of(stream, settings, all_resources()), QueryWindow(stream.texts, stream.sentences)
    here = all_resources().for_stream(settings)
    plain, corrected = (
        pseudo_pairs(model.source, seen, np.arange(40), model.gallery, replace(settings, causal=causal), here).columns
        for causal in (False, True)
    )
    scores = model.ranked_by_source(stream.texts)
    for row, (before, after) in enumerate(zip(plain, corrected, strict=True)):
        likeliest = sorted(range(12), key=lambda clip, row=row: -scores[row, clip])
        assert after in {before, *[clip for clip in likeliest if clip != before][:3]}  # eta is 4
    assert (plain != corrected).any() and (plain != scores.argmax(1)).any()


def blind_resources(eta: int = 10) -> Resources:
    """A correction that judges pairs without any relation to the cosine, which pseudo-labels go by."""
    resources = replace(all_resources(), correction=new_correction(D, torch.eye(D), CausalSettings(eta=eta), 0))
    make = torch.Generator().manual_seed(1)
    for weight in resources.correction.judge.parameters():  # type: ignore[union-attr]
        weight.data = torch.randn(weight.shape, generator=make)
    return resources


@pytest.mark.parametrize("protocol", ["offline", "online"])
def test_the_report_says_whether_the_target_stage_learned_its_labels(protocol: Any) -> None:
    """Of ten candidates the label is about the fifth by a correction that knows nothing; trained it is the first."""
    stream = stream_of(11, queries=40, clips=24)
    settings = replace(PLAIN, causal=True, protocol=protocol, batch_size=20)
    ranks = {}
    for steps in (0, 300):
        fit = FitSettings(steps, lr=1e-2, batch_size=16)
        report = adapt(model_of(stream, replace(settings, causal_fit=fit), blind_resources()), stream).report
        ranks[steps] = [step.label_rank for step in report.steps]
        assert len(ranks[steps]) == (1 if protocol == "offline" else 2)
    for untrained, trained in zip(ranks[0], ranks[300], strict=True):
        assert untrained is not None and trained is not None
        assert untrained.candidates == trained.candidates == 10
        assert untrained.before == untrained.after == pytest.approx(5.5, abs=1.5)
        assert untrained.relabelled > 0.6
        assert trained.after < 1.3
        assert trained.relabelled < 0.2
    assert ranks[0][0].before == ranks[300][0].before  # type: ignore[union-attr]
    plain = adapt(model_of(stream, replace(settings, causal=False)), stream).report
    assert [step.label_rank for step in plain.steps] == [None] * len(plain.steps)


def test_the_seed_of_the_target_stage_is_added_to_that_of_the_whole() -> None:
    stream, found = stream_of(11, queries=40), []
    for seed, own in ((1, 2), (3, 0), (1, 0)):
        settings = replace(PLAIN, causal=True, seed=seed, causal_fit=FitSettings(5, lr=1e-2, batch_size=8, seed=own))
        stage = blind_resources().for_stream(settings).target
        assert stage is not None
        candidates = np.stack([np.random.default_rng(row).permutation(12)[:4] for row in range(40)])
        stage.learn(
            torch.from_numpy(stream.texts.sentence), torch.from_numpy(unit(np.random.default_rng(0), 12, D)), candidates
        )
        found.append(weights(stage.correction))
    assert equal(found[0], found[1]) and not equal(found[0], found[2])


def test_of_the_labels_those_are_kept_whose_query_and_clip_rank_each_other_highest() -> None:
    stream = stream_of(13)
    settings = replace(PLAIN, safety=replace(UNSAFE, keep=0.5))
    assert adapt(model_of(stream, settings), stream).report.steps[0].pairs == 15
    model, seen = model_of(stream), QueryWindow(stream.texts, stream.sentences)
    pairs = pseudo_pairs(model.source, seen, np.arange(30), model.gallery, PLAIN, Resources().for_stream(PLAIN))
    scores = model.ranked_by_source(stream.texts)
    doubt = []
    for row, clip in enumerate(pairs.columns):
        better_clips = sum(other > scores[row, clip] for other in scores[row])
        better_queries = sum(other > scores[row, clip] for other in scores[:, clip])
        doubt.append(2 + better_clips + better_queries)
    assert pairs.doubt.tolist() == doubt and len(set(doubt)) > 4
    surest = sorted(sorted(range(30), key=lambda row: doubt[row])[:15])  # sorting keeps the first of equals
    kept = pairs.kept(0.5)
    assert kept.texts.ids == tuple(f"q{row}" for row in surest) and kept.queries == 15
    assert kept.columns.tolist() == [int(pairs.columns[row]) for row in surest]


def test_a_single_pair_is_nothing_to_learn_from() -> None:
    """There is no other to tell it from: no step is taken, and nothing is called adapted."""
    stream = stream_of(13)
    few = replace(stream, texts=taken(stream.texts, np.arange(2)), sentences=stream.sentences[:2])
    hub = np.tile(few.texts.sentence[:1], (2, 1)) + np.array([[0], [0.1]], np.float32) * few.texts.sentence[1:]
    few = replace(few, texts=replace(few.texts, sentence=hub / np.linalg.norm(hub, axis=1, keepdims=True)))
    found = adapt(model_of(few, replace(PLAIN, matching=MatchSettings(match="mutual_nn"))), few)
    assert [step.pairs for step in found.report.steps] == [1] and not found.report.steps[0].loss
    assert not found.report.kept and found.report.moved == 0
    assert found.report.sentence == "Left as it was: there was nothing to learn from."


def test_without_proof_of_a_rise_the_source_is_served() -> None:
    stream = stream_of(14)
    for protocol in ("offline", "online"):
        settings = replace(PLAIN, protocol=protocol, safety=SafetySettings(drift=False, confidence=0.9999))
        found = adapt(model_of(stream, settings), stream, keep=True)
        assert not found.report.kept and found.report.sentence.startswith("Left as it was")
        assert equal(weights(found.matcher), weights(source())) and found.report.first_changed == 0


def test_online_the_source_answers_again_where_the_adapted_model_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers as soon as it is better and for as long; it learns all the while."""
    said = iter([False, True, False])
    judged: list[int] = []

    def verdict(new: Quality, old: Quality, confidence: float) -> QualityVerdict:
        judged.append(len(new.agreement))
        assert len(old.agreement) == len(new.agreement) and confidence == 0.95
        return replace(compared(new, old, confidence), better=next(said))

    monkeypatch.setattr("evenreel.adaptation.adapted.compared", verdict)
    stream = stream_of(14, queries=40)
    model = model_of(stream, replace(PLAIN, protocol="online", safety=SafetySettings(drift=False)))
    moved = [weights(model.teacher)]
    answers = []
    for rows in stream.batches(10):
        texts = taken(stream.texts, rows)
        found = model.see(texts, [stream.sentences[row] for row in rows])
        answers.append(bool(np.array_equal(found, model.ranked_by_source(texts))))
        moved.append(weights(model.teacher))
    assert [step.served for step in model.steps] == ["source", "source", "adapted", "source"]
    assert answers == [True, True, False, True]
    assert judged == [10, 20, 30]  # all that came after the first batch was learned from, each before it was
    assert not any(equal(one, other) for one, other in pairwise(moved))


def test_held_out_queries_are_ranked_a_bank_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(matcher: Any, texts: TextFeatures, videos: Any) -> Any:
        asked.append(len(texts.ids))
        return scored(matcher, texts, videos)

    monkeypatch.setattr("evenreel.adaptation.adapted.scored", counted)
    stream = stream_of(14, queries=40)
    model = model_of(stream, replace(PLAIN, bank=12, safety=SafetySettings(drift=False, held_out=0.5)))
    model.learn(stream)
    assert asked == [10] * 4  # 20 held out, in two parts, by both models
    assert model.steps[-1].verdict is not None and [step.verdict for step in model.steps[:-1]] == [None]


def test_a_teacher_follows_each_step_of_the_optimiser() -> None:
    stream, old = stream_of(15, queries=10), weights(source())
    one, two = (weights(adapt(model_of(stream, replace(PLAIN, steps=steps)), stream).matcher) for steps in (1, 2))
    slow = adapt(model_of(stream, replace(PLAIN, steps=2, safety=replace(UNSAFE, teacher=0.75))), stream)
    for kept, first, second, start in zip(weights(slow.matcher), one, two, old, strict=True):
        torch.testing.assert_close(kept, 0.75 * (0.75 * start + 0.25 * first) + 0.25 * second)


def test_streams_are_refused_that_have_nothing_to_learn_from() -> None:
    stream = stream_of(16)
    with pytest.raises(UsageError, match="two of each"):
        QueryStream(taken(stream.texts, np.arange(1)), stream.sentences[:1], stream.videos)
    with pytest.raises(UsageError, match="29 sentences"):
        QueryStream(stream.texts, stream.sentences[:29], stream.videos)
    model = model_of(stream)
    for count in (29, 0):
        with pytest.raises(UsageError, match=f"^{count} sentences came with features of 30 queries"):
            model.see(stream.texts, stream.sentences[:count])
    others = replace(stream.videos, ids=stream.videos.ids[::-1])
    with pytest.raises(UsageError, match="The 12 clips of the stream are not the 12 that the model was made with"):
        adapt(model, replace(stream, videos=others))
    with pytest.raises(UsageError, match="held_out is 0"):
        SafetySettings(held_out=0.0)
    with pytest.raises(UsageError, match="batch_size"):
        AdaptSettings(batch_size=1)


def test_weights_that_are_no_numbers_any_more_are_no_model() -> None:
    stream = stream_of(16)
    with pytest.raises(UsageError, match=r"after a step with the learning rate 1e\+37; choose a smaller one"):
        adapt(model_of(stream, replace(PLAIN, lr=1e37)), stream)


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
    assert both.words.dtype == np.float32
    np.testing.assert_array_equal(both.words[:2, :2], short.words)
    assert not both.word_mask[:2, 2].any() and not both.words[:2, 2].any()
    np.testing.assert_array_equal(both.words[2:], second.words)


def test_without_rolling_back_the_adapted_model_is_served_whatever_is_measured() -> None:
    stream = stream_of(18)
    settings = replace(PLAIN, safety=SafetySettings(drift=False, confidence=0.9999, roll_back=False))
    found = adapt(model_of(stream, settings), stream)
    assert found.report.kept and found.report.steps[-1].verdict is not None
    assert found.report.sentence.startswith("Adapted: ")


CHANCE, UP, DOWN = MeanChange(-0.01, -0.03, 0.01), MeanChange(0.02, 0.01, 0.03), MeanChange(-0.02, -0.03, -0.01)
FEW = MeanChange(0.5, -np.inf, np.inf)


@pytest.mark.parametrize(
    ("agreement", "coverage", "entropy", "words"),
    [
        (UP, CHANCE, CHANCE, "rose by 0.020 (0.010 to 0.030)."),
        (UP, DOWN, UP, "rose by 0.020 (0.010 to 0.030), but coverage fell and entropy rose."),
        (DOWN, CHANCE, UP, "fell by 0.020 (0.010 to 0.030), and entropy rose."),
        (CHANCE, CHANCE, CHANCE, "did not rise for sure: by -0.010 (-0.030 to +0.010)."),
        (FEW, UP, CHANCE, "did not rise for sure: by +0.500 (of fewer than 10 queries, so no interval)."),
    ],
)
def test_the_sentence_says_which_way_agreement_went(
    monkeypatch: pytest.MonkeyPatch, agreement: MeanChange, coverage: MeanChange, entropy: MeanChange, words: str
) -> None:
    changes = {"agreement": agreement, "coverage": coverage, "entropy": entropy}
    for better, decision in ((False, "Left as it was"), (True, "Adapted")):
        verdict = QualityVerdict(better, changes)
        monkeypatch.setattr("evenreel.adaptation.adapted.compared", lambda *_, verdict=verdict: verdict)
        stream = stream_of(19)
        report = adapt(model_of(stream, replace(PLAIN, safety=SafetySettings(drift=False))), stream).report
        start = f"{decision}: on queries that it had not learned from, agreement with their first clips "
        assert report.sentence == start + words
