"""What a matcher cannot take is refused in a sentence, the same by every matcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evenreel.errors import UsageError
from evenreel.matchers import MATCHERS, build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.matcher import Limits, check_lengths
from evenreel.matchers.scoring import encode_texts, encode_videos, matcher_scores
from evenreel.types import VideoFeatures
from tests.matchers.examples import DIMENSION, captions, read_videos, small, text_features, video_features, videos

TEXTS, VIDEOS = text_features(captions()), video_features(read_videos(videos()))
every = pytest.mark.parametrize("name", MATCHERS)
reads_features = pytest.mark.parametrize("name", [name for name, entry in MATCHERS.items() if not entry.graphs])
reads_graphs = pytest.mark.parametrize("name", [name for name, entry in MATCHERS.items() if entry.graphs])


def with_vectors(field: str, change: Callable[[NDArray[Any]], NDArray[Any]]) -> VideoFeatures:
    """The videos with their `frames` or `windows` changed."""
    if field == "frames":
        return replace(VIDEOS, frames=change(VIDEOS.frames))
    assert VIDEOS.on_screen is not None
    return replace(VIDEOS, on_screen=replace(VIDEOS.on_screen, windows=change(VIDEOS.on_screen.windows)))


@every
def test_a_video_without_a_frame_is_named(name: str) -> None:
    mask = VIDEOS.frame_mask.copy()
    mask[3] = False
    with pytest.raises(UsageError, match=r"The video video3 has no frame; leave it out\."):
        encode_videos(small(name), replace(VIDEOS, frame_mask=mask))


@reads_features
def test_a_caption_without_a_word_is_named(name: str) -> None:
    mask = TEXTS.word_mask.copy()
    mask[2] = False
    with pytest.raises(UsageError, match=r"The caption caption2 has no word; leave it out\."):
        encode_texts(small(name), replace(TEXTS, word_mask=mask))


@pytest.mark.parametrize("field", ["frames", "windows"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_of_a_video_that_are_no_numbers(field: str, value: float) -> None:
    """Also where the matcher does not look at them."""

    def spoil(values: NDArray[Any]) -> NDArray[Any]:
        spoilt = values.copy()
        spoilt[1, 0, 0] = value
        return spoilt

    with pytest.raises(UsageError, match=r"features of the video video1 are not all finite numbers; compute them"):
        encode_videos(small("mean_pool"), with_vectors(field, spoil))


@pytest.mark.parametrize("field", ["words", "sentence"])
def test_features_of_a_caption_that_are_no_numbers(field: str) -> None:
    spoilt = getattr(TEXTS, field).copy()
    spoilt[4].flat[0] = np.nan
    with pytest.raises(UsageError, match=r"features of the caption caption4 are not all finite numbers; compute them"):
        encode_texts(small("mean_pool"), replace(TEXTS, **{field: spoilt}))


@reads_features
def test_features_of_captions_of_another_length(name: str) -> None:
    for field in ("words", "sentence"):
        with pytest.raises(UsageError, match=r"features of (words|sentences) have 6 numbers, .* built for 16; compute"):
            encode_texts(small(name), replace(TEXTS, **{field: getattr(TEXTS, field)[..., :6]}))


@reads_features
def test_captions_that_no_text_tower_has_read(name: str) -> None:
    with pytest.raises(UsageError, match=r"No text tower has read these captions .* takes features of words; use one"):
        encode_texts(small(name), replace(TEXTS, words=TEXTS.words[..., :0], sentence=TEXTS.sentence[:, :0]))


@reads_graphs
def test_features_of_captions_are_not_looked_at_where_graphs_are_read(name: str) -> None:
    words, mask, sentence = TEXTS.words[:, :1, :0], TEXTS.word_mask[:, :1], TEXTS.sentence[:, :0]
    unread = replace(TEXTS, words=words, word_mask=mask, sentence=sentence)
    expected, state = (encode_texts(small(name).eval(), texts).state for texts in (TEXTS, unread))
    for own, other in zip(expected, state, strict=True):
        np.testing.assert_array_equal(own, other)
    check_lengths(small(name), unread, VIDEOS)
    with pytest.raises(UsageError, match=r"reads the role graphs of captions, and these have none; add them with"):
        encode_texts(small(name), replace(TEXTS, graphs=None))


@every
def test_features_of_another_length(name: str) -> None:
    """Each part of the videos."""
    for field in ("frames", "windows"):
        with pytest.raises(UsageError, match=r"features of (frames|on-screen windows) have 6 .* built for 16; compute"):
            encode_videos(small(name), with_vectors(field, lambda values: values[..., :6]))


def test_the_longest_of_all_is_named_before_anything_runs() -> None:
    matcher = build_matcher("x_clip", DIMENSION, {"max_words": 4, "max_frames": 4, "temporal_layers": 0})
    with pytest.raises(UsageError, match=r"A caption has 5 words, .* built for 4 at most; .* max_words=5 or more"):
        check_lengths(matcher, TEXTS, VIDEOS)
    few = replace(TEXTS, word_mask=TEXTS.word_mask & (np.arange(5) < 4))
    check_lengths(matcher, few, VIDEOS)
    with pytest.raises(UsageError, match="A caption has 5 words"):
        matcher_scores(matcher, TEXTS, VIDEOS)


@pytest.mark.parametrize("name", ["temporal", "x_clip", "t_mass"])
def test_windows_among_the_frames_count(name: str) -> None:
    """Four frames and two windows of one video are six, though no video has more than four frames."""
    for most in (5, 6):
        built = build_matcher(name, DIMENSION, {"max_frames": most})
        check_lengths(built, TEXTS, VIDEOS)
        adapted = Adapted(built, DIMENSION, AdapterSettings(windows=True))
        if most == 6:
            check_lengths(adapted, TEXTS, VIDEOS)
            encode_videos(adapted, VIDEOS)
            continue
        with pytest.raises(UsageError, match=r"6 frames and on-screen windows, .* for 5 at most; .* max_frames=6 or"):
            check_lengths(adapted, TEXTS, VIDEOS)


def test_a_gap_does_not_hide_the_last_item() -> None:
    matcher = build_matcher("t_mass", DIMENSION, {"max_frames": 3})
    gap = replace(VIDEOS, frame_mask=np.array([[True, False, False, True]] * 5))
    for refuse in (lambda: check_lengths(matcher, TEXTS, gap), lambda: encode_videos(matcher, gap)):
        with pytest.raises(UsageError, match=r"A clip has 4 frames, .* max_frames=4 or more"):
            refuse()


def test_matchers_without_places_take_any_length() -> None:
    for name in ("mean_pool", "wti", "x_pool"):
        assert build_matcher(name, DIMENSION).limits == Limits(DIMENSION)
    assert build_matcher("wti", DIMENSION, {"temporal_layers": 1, "max_frames": 7}).limits.frames == 7
