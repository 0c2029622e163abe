"""The term against single pairs scored one by one, and what it holds in memory; levels of sources."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import sources_of
from evenreel.debias.source import (
    MIN_CLIPS,
    PRESETS,
    Debiased,
    SourceDebias,
    levelled,
    paired_scores,
    recognised_sources,
    source_levels,
)
from evenreel.errors import UsageError
from evenreel.matchers import MATCHERS, Counterparts, PairBatch, TextBatch, VideoBatch, build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.types import Corpus, ScoreNotes, Scores
from tests.matchers.examples import (
    DIMENSION,
    SETTINGS,
    captions,
    disturb,
    read_videos,
    small,
    text_rows,
    trained,
    video_rows,
    videos,
)

KINDS = [*MATCHERS, "mean_pool+mlp", "wti+windows"]
LEARNING = [name for name in KINDS if name != "mean_pool"]
"""Matchers whose scores depend on parameters."""

PRESENT = torch.tensor([True, True, False, True, True])
GENERATED = torch.tensor([False, True, False, False, True])


def mirrored(name: str = "") -> PairBatch:
    """Five captions; the third has no counterpart, the second and the last have a generated video as their own."""
    own, other = videos(), videos(lengths=(3, 4, 1, 2, 4), seed=5)
    if name.endswith("windows"):
        own, other = read_videos(own), read_videos(other, seed=6)
    same = torch.eye(5, dtype=torch.bool)
    texts = ("a red ball", "a dog", "the dog", "a blue train", "a park")
    return PairBatch(captions(), own, same, Counterparts(other, PRESENT, GENERATED), texts=texts)


def one_score(matcher: Any, text: TextBatch, video: VideoBatch, row: int) -> float:
    state = matcher.encode_video(video_rows(video, [row]))
    return float(matcher.score(matcher.encode_text(text_rows(text, [row])), state))


def by_pairs(matcher: Any, batch: PairBatch, settings: SourceDebias) -> float:
    """The term of a whole batch, a pair at a time, in evaluation mode."""
    other = batch.counterpart
    assert other is not None
    factor = float(matcher.logit_scale.detach().exp()) if settings.on == "logit" else 1.0
    costs = []
    with torch.no_grad():
        for row in range(5):
            if not other.present[row]:
                continue
            own, mirror = (factor * one_score(matcher, batch.text, video, row) for video in (batch.video, other.video))
            gap = own - mirror if other.generated[row] else mirror - own
            costs.append(abs(gap) if settings.form == "neutral" else max(0.0, gap + settings.margin))
    return settings.weight * sum(costs) / (len(costs) if settings.reduction == "mean" else 1)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    "settings",
    [PRESETS["paper"], replace(PRESETS["release"], share=1.0), PRESETS["neutral"], SourceDebias("hinge", margin=0.2)],
    ids=["paper", "release", "neutral", "margin"],
)
def test_against_single_pairs(name: str, settings: SourceDebias) -> None:
    matcher, batch = trained(name), mirrored(name)
    terms = Debiased(matcher, settings).loss(batch)
    assert terms["source"].item() == pytest.approx(by_pairs(matcher, batch, settings), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_the_other_terms_and_the_scores_are_the_matchers_own(name: str) -> None:
    matcher, batch = trained(name).train(), mirrored(name)
    debiased = Debiased(matcher, SourceDebias())
    torch.manual_seed(1)
    alone = matcher.loss(batch)
    torch.manual_seed(1)
    terms = debiased.loss(batch)
    assert [*terms] == [*alone, "source"]
    assert all(torch.equal(terms[one], alone[one]) for one in alone)
    text, video = debiased.encode_text(batch.text), debiased.encode_video(batch.video)
    assert torch.equal(debiased.score(text, video), matcher.score(text, video))
    assert (debiased.limits, debiased.logit_scale) == (matcher.limits, matcher.logit_scale)


@pytest.mark.parametrize("name", LEARNING)
def test_its_slope_is_that_of_the_scores(name: str) -> None:
    """Scores are not always trained through: here by a step along and against a random change of all parameters."""
    matcher, batch = trained(name, dtype=torch.float64), mirrored(name)
    parameters = [one for one in matcher.parameters() if one.requires_grad]
    make = torch.Generator().manual_seed(3)
    change = [torch.randn(one.shape, generator=make, dtype=torch.float64) for one in parameters]
    text = replace(batch.text, words=batch.text.words.double(), sentence=batch.text.sentence.double())
    video = replace(batch.video, frames=batch.video.frames.double())
    if (read := video.on_screen) is not None:
        video = replace(video, on_screen=replace(read, windows=read.windows.double()))

    def total() -> Tensor:
        scores = paired_scores(matcher, matcher.encode_text(text), matcher.encode_video(video))
        return (scores * torch.arange(1, 6)).sum()

    slopes = torch.autograd.grad(total(), parameters, allow_unused=True)
    expected = sum(float((slope * one).sum()) for slope, one in zip(slopes, change, strict=True) if slope is not None)
    ends = []
    with torch.no_grad():
        for step in (1e-6, -2e-6):
            for parameter, one in zip(parameters, change, strict=True):
                parameter.add_(step * one)
            ends.append(float(total()))
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_a_clip_without_counterpart_has_no_part(name: str = "mean_pool+mlp") -> None:
    matcher, batch = trained(name), mirrored(name)
    other = batch.counterpart
    assert other is not None
    frames = other.video.frames.clone().requires_grad_()
    term = Debiased(matcher, SourceDebias()).loss(with_frames(batch, frames))["source"]
    torch.autograd.backward(term)
    assert frames.grad is not None
    assert (frames.grad[2] == 0).all()
    assert (frames.grad[0] != 0).any()
    none = replace(batch, counterpart=replace(other, present=torch.zeros(5, dtype=torch.bool)))
    assert Debiased(matcher, SourceDebias()).loss(none)["source"] == 0


def with_frames(batch: PairBatch, frames: Tensor) -> PairBatch:
    other = batch.counterpart
    assert other is not None
    return replace(batch, counterpart=replace(other, video=replace(other.video, frames=frames)))


@given(share=st.sampled_from([0.2, 0.5, 0.7]), seed=st.integers(0, 99))
def test_a_share_of_the_batch_takes_part(share: float, seed: int) -> None:
    debiased = Debiased(small("mean_pool"), SourceDebias(share=share))
    torch.manual_seed(seed)
    drawn = [debiased._sampled_pairs(torch.ones(20, dtype=torch.bool)) for _ in range(2)]
    assert [int(kept.sum()) for kept in drawn] == [round(20 * share)] * 2
    assert not torch.equal(*drawn), "every step has its own"
    absent = torch.arange(20) < 10
    assert not (debiased._sampled_pairs(absent) & ~absent).any()


@pytest.mark.parametrize("name", ["mean_pool+mlp", "temporal", "x_pool", "t_mass"])
def test_what_training_draws_at_random_is_no_gap(name: str) -> None:
    """Neither dropout nor the noise of T-MASS; afterwards the matcher is in training mode as before."""
    plain, _, kind = name.partition("+")
    matcher: Any = build_matcher(plain, DIMENSION, {**SETTINGS.get(plain, {}), **drops(plain)})
    if kind:
        matcher = Adapted(matcher, DIMENSION, AdapterSettings(kind="mlp", dropout=0.5))
    debiased = Debiased(disturb(matcher).train(), SourceDebias())
    terms = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        terms.append(debiased.loss(mirrored()))
    assert torch.equal(terms[0]["source"], terms[1]["source"])
    assert terms[0][next(iter(terms[0]))] != terms[1][next(iter(terms[1]))], "the matcher's own loss is random"
    assert all(part.training for part in matcher.modules())


def drops(name: str) -> dict[str, float]:
    return {} if name == "mean_pool" else {"dropout": 0.5}


def test_the_gap_is_calculated_in_full_precision() -> None:
    debiased = Debiased(trained("mean_pool+mlp"), SourceDebias())
    exact = debiased.loss(mirrored())["source"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = debiased.loss(mirrored())["source"]
    assert torch.equal(low, exact)


def test_the_logit_scale_does_not_learn_from_it() -> None:
    matcher = trained("mean_pool+mlp")
    torch.autograd.backward(Debiased(matcher, SourceDebias()).loss(mirrored())["source"])
    assert matcher.logit_scale.grad is None


def test_adapters_around_it_map_both_videos() -> None:
    """The other way round than training has it: the same term."""
    inside, batch = trained("mean_pool+mlp"), mirrored()
    outside = trained("mean_pool+mlp")
    outside.matcher = Debiased(outside.matcher, SourceDebias())
    expected = Debiased(inside, SourceDebias()).loss(batch)
    assert outside.loss(batch) == expected


def test_it_holds_no_vector_for_every_pair() -> None:
    """For the gradient, of 32 captions and 256 numbers a vector; if all pairs were scored, 2.1 times as much."""
    matcher = build_matcher("t_mass", 256)
    rows = F.normalize(torch.randn(32, 4, 256, generator=torch.Generator().manual_seed(0)), dim=-1)
    real, names = torch.ones(32, 4, dtype=torch.bool), tuple(map(str, range(32)))
    video = VideoBatch(names, rows, real, torch.zeros(32, 4))
    text, present = TextBatch(names, rows, real, rows[:, 0]), torch.ones(32, dtype=torch.bool)
    batch = PairBatch(text, video, torch.eye(32, dtype=torch.bool))
    with held_for_gradients() as alone:
        matcher.loss(batch)
    with held_for_gradients() as both:
        Debiased(matcher, SourceDebias()).loss(replace(batch, counterpart=Counterparts(video, present, ~present)))
    assert sum(alone.values()) > 4 * 32 * 32 * 256, "its own loss does"
    assert sum(both.values()) < 1.9 * sum(alone.values())


@contextmanager
def held_for_gradients() -> Iterator[dict[int, int]]:
    """Bytes of each storage that the gradient needs."""
    held: dict[int, int] = {}
    kept = []

    def note(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        kept.append(tensor)  # so that no other tensor gets its place
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield held


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"weight": -1.0}, "The setting weight of debias is -1.0; it must be a number of at least 0"),
        ({"share": 0.0}, "The setting share of debias is 0.0; it must be a number above 0 and at most 1"),
        ({"share": float("nan")}, "The setting share of debias is nan"),
        ({"form": "squared"}, "The setting form of debias is 'squared'; it must be hinge or neutral"),
        ({"form": "neutral", "margin": 0.1}, "debias.margin is of the form hinge"),
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        SourceDebias(**settings)


def test_a_batch_without_counterparts() -> None:
    with pytest.raises(UsageError, match="needs the counterparts of the videos"):
        Debiased(small("mean_pool"), SourceDebias()).loss(replace(mirrored(), counterpart=None))


def collection(sources: list[str | None]) -> Corpus:
    """A caption for each clip."""
    ids = [f"clip {number}" for number in range(len(sources))]
    clips = pl.DataFrame({"clip_id": ids, "source": pl.Series(sources, dtype=pl.String)})
    return make_corpus(clips, pl.DataFrame({"caption_id": [f"of {one}" for one in ids], "clip_id": ids, "text": ids}))


def scored(corpus: Corpus, seed: int = 0, lead: float = 1.0) -> Scores:
    """Random scores, in which generated clips lead."""
    values = np.random.default_rng(seed).normal(size=(corpus.captions.height, corpus.clips.height)).astype(np.float32)
    values += np.float32(lead) * ~corpus.clips["source"].is_in(["camera"]).fill_null(value=True).to_numpy()
    return Scores(values, tuple(corpus.captions["caption_id"]), tuple(corpus.clips["clip_id"]), ScoreNotes(("words",)))


MIXED = collection(["camera", "sora", None, "wan", "sora"] * MIN_CLIPS)


def test_levels_are_differences_of_means_over_own_clips() -> None:
    scores, sources = scored(MIXED), sources_of(MIXED)
    own: dict[str, list[float]] = {}
    for row, clip in enumerate(scores.video_ids):
        own.setdefault(sources[clip], []).append(float(scores.values[row, row]))
    means = {name: sum(found) / len(found) for name, found in own.items()}
    levels = source_levels(scores, MIXED, sources)
    assert levels == {name: pytest.approx(means[name] - means["camera"]) for name in ("sora", "wan")}


def test_with_pairs_the_level_is_the_mean_lead_of_mirrors() -> None:
    clips = pl.DataFrame(
        {
            "clip_id": [f"{side} {number}" for side in ("real", "made") for number in range(MIN_CLIPS)],
            "source": ["camera"] * MIN_CLIPS + ["sora"] * MIN_CLIPS,
            "pair_id": [None] * MIN_CLIPS + [f"real {number}" for number in range(MIN_CLIPS)],
        }
    )
    half = MIN_CLIPS // 2  # of the captions half belong to real clips, half to mirrors
    own = [f"{'real' if number < half else 'made'} {number}" for number in range(MIN_CLIPS)]
    captions = pl.DataFrame({"caption_id": [f"of {one}" for one in own], "clip_id": own, "text": own})
    corpus = make_corpus(clips, captions)
    scores = scored(corpus)
    leads = [scores.values[number, MIN_CLIPS + number] - scores.values[number, number] for number in range(MIN_CLIPS)]
    assert source_levels(scores, corpus, sources_of(corpus)) == {"sora": pytest.approx(float(np.mean(leads)), abs=1e-6)}


def test_what_is_levelled_has_no_levels_left_and_real_clips_keep_their_scores() -> None:
    scores, sources = scored(MIXED), sources_of(MIXED)
    after = levelled(scores, source_levels(scores, MIXED, sources), sources)
    assert source_levels(after, MIXED, sources) == {name: pytest.approx(0, abs=1e-6) for name in ("sora", "wan")}
    whole = after.block(slice(0, 100), slice(0, 100))
    real = [column for column, clip in enumerate(after.video_ids) if sources[clip] == "camera"]
    assert np.array_equal(whole[:, real], scores.values[:, real])
    assert np.array_equal(after.block(slice(3, 9), slice(5, 40)), whole[3:9, 5:40])
    assert after.about.uses == ("words", "the source of clips, levelled on held-out captions")


def test_a_generator_whose_right_answers_are_behind_is_not_lifted() -> None:
    scores, sources = scored(MIXED, lead=-1.0), sources_of(MIXED)
    wan = np.array([sources[clip] == "wan" for clip in scores.video_ids])
    levels = source_levels(Scores(scores.values + 3 * wan, scores.caption_ids, scores.video_ids), MIXED, sources)
    assert levels["sora"] == 0 and levels["wan"] > 1
    everything = slice(0, 100), slice(0, 100)
    after = levelled(scores, source_levels(scores, MIXED, sources), sources)
    assert np.array_equal(after.block(*everything), scores.values)


def test_a_clip_of_an_unknown_source_keeps_its_scores() -> None:
    scores = scored(MIXED)
    after = levelled(scores, {"sora": 1.0}, {"clip 1": "sora", "clip 2": "veo"})
    moved = np.zeros(100, np.float32)
    moved[1] = 1
    assert np.array_equal(after.block(slice(0, 100), slice(0, 100)), scores.values - moved)


def test_too_few_captions_are_refused() -> None:
    few = collection(["camera"] * 30 + ["sora"] * (MIN_CLIPS - 1))
    with pytest.raises(UsageError, match=f"{MIN_CLIPS} of one generator; there are 30 of camera, 19 of sora"):
        source_levels(scored(few), few, sources_of(few))
    with pytest.raises(UsageError, match="there are none"):
        source_levels(scored(few), few, {})


def test_sources_are_recognised_by_what_a_generators_clips_share() -> None:
    rng = np.random.default_rng(0)
    frames, traces = rng.normal(size=(600, 20)), rng.normal(size=(3, 20)) * 3
    made = rng.choice(3, size=600, p=[0.05, 0.8, 0.15])
    names = np.array(["camera", "sora", "wan"])[made]
    frames = (frames + traces[made]).astype(np.float32)
    found = recognised_sources(frames[:400], names[:400].tolist(), frames[400:])
    assert np.mean(np.array(found) == names[400:]) > 0.95
    with pytest.raises(UsageError, match="two at least"):
        recognised_sources(frames[:5], ["camera"] * 5, frames)
    with pytest.raises(UsageError, match="1 of camera, 39 of sora"):
        recognised_sources(frames[:40], ["camera"] + ["sora"] * 39, frames)
