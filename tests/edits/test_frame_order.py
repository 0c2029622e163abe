"""Frames in another order: what moves, what stays, and the same as editing the video before it is encoded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.edits.frame_order import reordered, sees_order, single_frame
from evenreel.edits.settings import FrameOrder, OneFrame, OrderStage
from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.matchers import build_matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.planted import PlantSettings, SceneRanges, draw_frame, plan_corpus, video_features
from evenreel.planted.features import text_features
from evenreel.planted.plan import PlantedClip
from evenreel.types import Encoder, OnScreen, VideoFeatures
from tests.matchers.examples import disturb

ORDERS: tuple[FrameOrder, ...] = ("original", "random", "reversed")
STAGES: tuple[OrderStage, ...] = ("sampled", "video")
masks = st.lists(st.lists(st.booleans(), min_size=6, max_size=6).filter(any), min_size=1, max_size=4)
seeds = st.integers(0, 2**40)


def numbered(mask: list[list[bool]]) -> VideoFeatures:
    """Clips whose frames, at any places, are numbers from 1 on."""
    real = np.array(mask)
    values = np.where(real, np.arange(real.size).reshape(real.shape) + 1, 0)
    ids = tuple(f"clip {row}" for row in range(len(real)))
    windows = np.ones((*real.shape, 2), np.float16)
    return VideoFeatures(ids, np.stack([values, -values], 2), real, 0.5 * values, OnScreen(windows, real))


def of_length(*lengths: int) -> VideoFeatures:
    return numbered([[place < length for place in range(max(lengths))] for length in lengths])


def shown(videos: VideoFeatures, row: int = 0) -> list[int]:
    """The numbers of a clip's frames in the order that a matcher is given them in."""
    numbers: list[int] = videos.frames[row, videos.frame_mask[row], 0].tolist()
    return numbers


def same(one: VideoFeatures, other: VideoFeatures) -> bool:
    pairs: list[tuple[Any, Any]] = [
        (getattr(one, name), getattr(other, name)) for name in ("frames", "frame_mask", "times_s")
    ]
    return one.ids == other.ids and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


# What holds for all -------------------------------------------------------------------------------------------------


@given(masks, st.sampled_from(ORDERS), seeds)
def test_only_the_real_frames_move(mask: list[list[bool]], order: FrameOrder, seed: int) -> None:
    before = numbered(mask)
    after = reordered(before, order, seed=seed)
    assert same(replace(after, frames=before.frames), before)
    assert after.on_screen is before.on_screen is not None
    assert not after.frames[~before.frame_mask].any()
    assert (after.frames[..., 0] == -after.frames[..., 1]).all()  # frames stay whole
    for row in range(len(mask)):
        assert sorted(shown(after, row)) == shown(before, row)
        if sum(mask[row]) == 1:
            assert shown(after, row) == shown(before, row)


@given(masks)
def test_reversed_twice_is_the_original(mask: list[list[bool]]) -> None:
    before = numbered(mask)
    once = reordered(before, "reversed")
    assert [shown(once, row)[::-1] for row in range(len(mask))] == [shown(before, row) for row in range(len(mask))]
    assert same(reordered(once, "reversed"), before)


@given(masks, seeds, st.sampled_from([*STAGES]), st.sampled_from([1, 3, 9]))
def test_a_clip_moves_the_same_way_whatever_surrounds_it(
    mask: list[list[bool]], seed: int, stage: OrderStage, take: int
) -> None:
    """Other clips, their order, and padding anywhere between its frames change nothing."""
    before = numbered(mask)
    after = reordered(before, "random", stage=stage, take=take, seed=seed)
    for row, clip_id in enumerate(before.ids):
        real = before.frame_mask[row]
        frames, times_s = before.frames[row, real][None], before.times_s[row, real][None]
        alone = VideoFeatures((clip_id,), frames, np.ones((1, real.sum()), np.bool_), times_s)
        assert shown(reordered(alone, "random", stage=stage, take=take, seed=seed)) == shown(after, row)


@given(masks, seeds, st.sampled_from(["random", "reversed"]))
def test_the_clips_that_are_not_named_stay(mask: list[list[bool]], seed: int, order: FrameOrder) -> None:
    before = numbered(mask)
    after = reordered(before, order, seed=seed, only={"clip 0", "no clip of these"})
    assert shown(after) == shown(reordered(before, order, seed=seed))
    assert after.frames[1:].tobytes() == before.frames[1:].tobytes()


@given(masks, st.integers(1, 8), st.sampled_from(STAGES))
def test_frames_that_are_taken_are_the_midpoints(mask: list[list[bool]], take: int, stage: OrderStage) -> None:
    before = numbered(mask)
    after = reordered(before, "original", take=take, stage=stage)
    for row in range(len(mask)):
        all_of_it = shown(before, row)
        moments = [(part + 0.5) * len(all_of_it) / take for part in range(take)]
        taken = list(dict.fromkeys(all_of_it[int(moment + 1e-9)] for moment in moments))
        assert shown(after, row) == taken
        assert after.times_s[row, after.frame_mask[row]].tolist() == [0.5 * number for number in taken]
    assert after.frame_mask.shape[1] == min(take, max(map(sum, mask)))
    assert not after.frames[~after.frame_mask].any() and not after.times_s[~after.frame_mask].any()


# By hand ------------------------------------------------------------------------------------------------------------


def test_a_whole_video_gives_other_frames_than_its_sample() -> None:
    """Of 1 to 8 in reverse, the midpoints of two halves are 6 and 2; those of 1 to 8 are 3 and 7."""
    eight = of_length(8)
    sampled = reordered(eight, "reversed", take=2)
    whole = reordered(eight, "reversed", take=2, stage="video")
    assert (shown(sampled), shown(whole)) == ([7, 3], [6, 2])
    assert sampled.times_s.tolist() == whole.times_s.tolist() == [[1.5, 3.5]]


def test_others_are_sampled_though_they_do_not_move() -> None:
    two = of_length(8, 8)
    for stage in STAGES:
        after = reordered(two, "reversed", take=2, stage=stage, only=["clip 0"])
        assert shown(after, 1) == [11, 15]


def test_random_orders_are_all_alike_likely() -> None:
    """Three frames have six orders; 600 clips show each about 100 times (five standard deviations are 46)."""
    many = of_length(*[3] * 600)
    places = reordered(many, "random", seed=3).frames[:, :, 0] - many.frames[:, :1, 0]
    found, counts = np.unique(places, axis=0, return_counts=True)
    assert len(found) == 6 and counts.min() > 54 and counts.max() < 146
    assert not np.array_equal(places, reordered(many, "random", seed=4).frames[:, :, 0] - many.frames[:, :1, 0])


@pytest.mark.parametrize(("which", "numbers"), [("first", [1, 6, 11]), ("middle", [3, 8, 11])])
def test_one_frame_of_each(which: OneFrame, numbers: list[int]) -> None:
    videos = of_length(5, 4, 1)
    after = single_frame(videos, which)
    assert after.frames[:, :, 0].tolist() == [[number] for number in numbers]
    assert after.times_s.tolist() == [[number / 2] for number in numbers]
    assert after.frame_mask.all() and after.on_screen is videos.on_screen is not None
    if which == "middle":
        assert same(after, reordered(videos, "original", take=1))


def test_a_random_frame_is_any_of_the_real_ones() -> None:
    found = single_frame(of_length(*[3, 2] * 100), "random", seed=1).frames[:, 0, 0] % 3
    assert np.bincount(found[::2]).min() > 15  # of 33 each
    assert set(found[1::2]) == {1, 2}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"order": "backwards"}, "The order of frames is 'backwards'; it must be one of original, random, reversed."),
        ({"order": "random", "stage": "file"}, "The stage of frames is 'file'; it must be one of sampled, video."),
        ({"order": "random", "take": 0}, "0 frames are to be taken of each clip; take at least 1."),
        ({"order": "random", "stage": "video"}, "only where some of them are taken afterwards; say how many"),
        ({"order": "random", "only": ["a"]}, "None of the 1 clips whose frames are to be moved is among the 2 videos"),
        ({"order": "random", "seed": -1}, "The seed of random frames is -1; it must not be negative."),
    ],
)
def test_what_is_refused(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        reordered(of_length(2, 3), **words)
    with pytest.raises(UsageError, match="The choice of frames is 'best'; it must be one of middle, first, random"):
        single_frame(of_length(2), "best")  # type: ignore[arg-type]


# On clips that were drawn --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder("builtin")


@pytest.fixture(scope="module")
def clips() -> list[PlantedClip]:
    ranges = SceneRanges(duration_s=(0.5, 0.9), sign_share=0.0, width=64, height=64)
    return list(plan_corpus("visual", 0.9, 20, settings=PlantSettings(ranges)).clips[:3])


def test_it_is_as_if_the_video_had_been_edited(encoder: Encoder, clips: list[PlantedClip]) -> None:
    """Its pictures in reverse, four of them taken, and only then encoded."""
    dense = video_features(clips, encoder, f"{max(clip.scene.frame_count for clip in clips)} midpoints")
    assert dense.frame_mask.sum(1).tolist() == [clip.scene.frame_count for clip in clips]
    found = reordered(dense, "reversed", stage="video", take=4)
    for row, clip in enumerate(clips):
        pictures = [draw_frame(clip.scene, frame / clip.scene.fps) for frame in range(clip.scene.frame_count)][::-1]
        taken = [pictures[int((part + 0.5) * len(pictures) / 4)] for part in range(4)]
        expected = encoder.encode_windows(np.stack(taken).transpose(0, 3, 1, 2)[:, None])
        assert np.allclose(found.frames[row], expected, atol=2e-3)


def test_a_mean_over_frames_does_not_see_it_and_a_transformer_does(encoder: Encoder, clips: list[PlantedClip]) -> None:
    videos, texts = video_features(clips, encoder, "6 midpoints"), text_features(clips, encoder)
    turned = reordered(videos, "reversed")
    mean = build_matcher("mean_pool", encoder.dimension)
    temporal = disturb(build_matcher("temporal", encoder.dimension, {"layers": 1, "heads": 2}))
    for matcher, seen in ((mean, False), (temporal, True)):

        def score(some: VideoFeatures, matcher: Any = matcher) -> np.ndarray[Any, Any]:
            return matcher_scores(matcher, texts, some).score_all().values

        assert (np.abs(score(turned) - score(videos)).max() > 1e-5) == seen
        assert sees_order(score, videos) == seen
