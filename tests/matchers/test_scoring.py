"""From features to figures: encoded in batches, scored in tiles, evaluated without the whole table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

import evenreel
from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.matchers import MATCHERS, TextBatch, build_matcher, scoring
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.batches import row_lengths, text_batch, video_batch
from evenreel.matchers.matcher import Limits, Matcher, check_lengths
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.matchers.scoring import (
    coarse_scorer,
    encode_texts,
    encode_videos,
    matcher_scores,
    score_shortlists,
    score_with_parts,
)
from evenreel.similarity.interaction import TokenVectors
from evenreel.similarity.tiles import LEAST_BUDGET_BYTES, Encoded, MatcherScores, take_rows
from evenreel.types import Corpus, OnScreen, TextFeatures, VideoFeatures
from tests.matchers.examples import (
    DIMENSION,
    captions,
    graph,
    read_videos,
    small,
    text_features,
    video_features,
    videos,
)

NARROW = 8


def features(count: int) -> tuple[TextFeatures, VideoFeatures]:
    """Captions and videos of several lengths; each caption names a frame of the video at its place."""
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(count, 4, NARROW))
    frames /= np.linalg.norm(frames, axis=-1, keepdims=True)
    frame_mask = np.arange(4) < rng.integers(1, 5, count)[:, None]
    word_mask = np.arange(5) < rng.integers(1, 6, count)[:, None]
    words = frames[:, :1] + 0.3 * rng.normal(size=(count, 5, NARROW))
    sentence = words.mean(1) / np.linalg.norm(words.mean(1), axis=-1, keepdims=True)
    return (
        TextFeatures(
            tuple(f"c{row}" for row in range(count)),
            words * word_mask[..., None],
            word_mask,
            sentence,
            tuple(graph(length, row) for row, length in enumerate(word_mask.sum(1))),
        ),
        VideoFeatures(
            tuple(f"v{row}" for row in range(count)),
            frames * frame_mask[..., None],
            frame_mask,
            np.arange(4) * frame_mask.astype(np.float64),
        ),
    )


def longest_last(side: Any) -> Any:
    """The captions or videos in the order of their lengths."""
    mask = side.word_mask if isinstance(side, TextFeatures) else side.frame_mask
    order = mask.sum(1).argsort(kind="stable")
    given: dict[str, Any] = {name: array[order] for name, array in vars(side).items() if isinstance(array, np.ndarray)}
    if isinstance(side, TextFeatures) and side.graphs is not None:
        given["graphs"] = tuple(side.graphs[row] for row in order)
    return replace(side, ids=tuple(side.ids[row] for row in order), **given)


def corpus(texts: TextFeatures, videos: VideoFeatures) -> Corpus:
    clips = pl.DataFrame({"clip_id": list(videos.ids), "split": ["test"] * len(videos.ids)})
    captions = pl.DataFrame({"caption_id": list(texts.ids), "clip_id": list(videos.ids), "text": list(texts.ids)})
    return make_corpus(clips, captions)


@pytest.mark.parametrize("name", MATCHERS)
def test_batches_and_tiles_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest rows are in the last batch, so that the state has to have room for them from the first on."""
    texts, videos = (longest_last(side) for side in features(23))
    matcher = build_matcher(name, NARROW, {"size": 8, "dropout": 0, "graph_dropout": 0} if name == "hgr" else None)
    with torch.no_grad():
        at_once = matcher.score(
            matcher.encode_text(text_batch(texts)), matcher.encode_video(video_batch(videos))
        ).numpy()
    monkeypatch.setattr(scoring, "ROWS_A_BATCH", 5)
    monkeypatch.setattr("evenreel.similarity.tiles.tile_shape", lambda *_: (7, 4))
    scores = matcher_scores(matcher, texts, videos).score_all()
    np.testing.assert_allclose(scores.values, at_once, atol=1e-5)
    assert (scores.caption_ids, scores.video_ids) == (texts.ids, videos.ids)
    assert matcher.training  # it is left as it was


def test_the_longest_come_first() -> None:
    """The first batch makes room for all; a state that grows is there twice for a moment."""
    seen: list[int] = []

    class Watched(nn.Module):
        limits = Limits(NARROW)

        def encode_text(self, text: TextBatch) -> TokenVectors:
            seen.append(text.words.shape[1])
            return TokenVectors(text.words, text.word_mask, text.words[..., 0])

    texts, _ = features(300)
    encode_texts(Watched(), longest_last(texts))  # type: ignore[arg-type]  # all that encoding needs
    assert len(seen) == 5
    assert seen == sorted(seen, reverse=True)
    assert seen[0] > seen[-1]


def test_evaluation_reads_tiles() -> None:
    texts, videos = features(40)
    scores = matcher_scores(build_matcher("wti", NARROW), texts, videos)
    from_tiles = evenreel.evaluate(scores, corpus(texts, videos))
    from_table = evenreel.evaluate(scores.score_all(), corpus(texts, videos))
    for direction, found in from_tiles.directions.items():
        np.testing.assert_array_equal(found.first_rank, from_table.directions[direction].first_rank)
        assert found.summary["R@1"].value > 50


def test_states_can_be_trained_on_and_stay_in_main_memory() -> None:
    texts, videos = features(3)
    matcher = build_matcher("wti", NARROW)
    states = encode_texts(matcher, texts).state, encode_videos(matcher, videos).state
    matcher.score(
        *(state._replace(vectors=state.vectors.clone().requires_grad_()) for state in states)
    ).sum().backward()
    assert all(tensor.device.type == "cpu" for state in states for tensor in state)


# What a matcher cannot take is refused in a sentence, the same by every matcher


TEXTS, VIDEOS = text_features(captions()), video_features(read_videos(videos()))


def masked(features: Any, field: str, row: int) -> Any:
    """The captions or videos, of which one has nothing real."""
    mask = getattr(features, field).copy()
    mask[row] = False
    return replace(features, **{field: mask})


def spoilt(features: Any, field: str, row: int, value: float = np.nan) -> Any:
    """The captions or videos, of which one has a number that is none."""
    values = getattr(features, field).copy()
    values[row].flat[0] = value
    return replace(features, **{field: values})


def of_windows(change: Callable[[OnScreen[NDArray[Any]]], Any]) -> VideoFeatures:
    assert VIDEOS.on_screen is not None
    return replace(VIDEOS, on_screen=change(VIDEOS.on_screen))


def narrow(features: Any, field: str, size: int = 6) -> Any:
    return replace(features, **{field: getattr(features, field)[..., :size]})


UNREAD = narrow(narrow(TEXTS, "words", 0), "sentence", 0)
NO_NUMBERS, OTHERS = "are not all finite numbers; compute them", "have 6 numbers, .* built for 16; compute"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (masked(VIDEOS, "frame_mask", 3), r"The video video3 has no frame; leave it out\."),
        (masked(TEXTS, "word_mask", 2), r"The caption caption2 has no word; leave it out\."),
        *((spoilt(VIDEOS, "frames", 1, one), f"features of the video video1 {NO_NUMBERS}") for one in (np.nan, np.inf)),
        (of_windows(lambda read: spoilt(read, "windows", 1)), f"features of the video video1 {NO_NUMBERS}"),
        *((spoilt(TEXTS, one, 4), f"features of the caption caption4 {NO_NUMBERS}") for one in ("words", "sentence")),
        *((narrow(TEXTS, one), f"features of (words|sentences) {OTHERS}") for one in ("words", "sentence")),
        (narrow(VIDEOS, "frames"), f"features of frames {OTHERS}"),
        (of_windows(lambda read: narrow(read, "windows")), f"features of on-screen windows {OTHERS}"),
        (UNREAD, "No text tower has read these captions .* takes features of words; use one"),
    ],
)
@pytest.mark.parametrize("name", ["mean_pool", "tcd"])
def test_features_that_no_matcher_can_take(name: str, given: Any, said: str) -> None:
    """Also where the matcher does not look at them."""
    encode: Any = encode_texts if isinstance(given, TextFeatures) else encode_videos
    with pytest.raises(UsageError, match=said):
        encode(small(name), given)


@pytest.mark.parametrize("name", [name for name, entry in MATCHERS.items() if entry.graphs])
def test_features_of_captions_are_not_looked_at_where_graphs_are_read(name: str) -> None:
    unread = narrow(replace(UNREAD, words=UNREAD.words[:, :1]), "word_mask", 1)
    expected, state = (encode_texts(small(name).eval(), texts).state for texts in (TEXTS, unread))
    for own, other in zip(expected, state, strict=True):
        np.testing.assert_array_equal(own, other)
    check_lengths(small(name), unread, VIDEOS)
    with pytest.raises(UsageError, match=r"reads the role graphs of captions, and these have none; add them with"):
        encode_texts(small(name), replace(TEXTS, graphs=None))


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


# Scores of chosen pairs are those of all pairs, and parts cost no second scoring


CAPTIONS, CLIPS = 5, 9


def encoded(matcher: Matcher) -> tuple[Encoded, Encoded]:
    """Captions of 1 to 4 words; clips of 1 to 4 frames and 0 to 3 windows with text."""
    texts = text_features(captions((1, 2, 3, 4, 1)))
    clips = read_videos(videos(tuple(1 + row % 4 for row in range(CLIPS))), tuple(row % 4 for row in range(CLIPS)))
    return encode_texts(matcher, texts), encode_videos(matcher, video_features(clips))


def one(texts: Encoded, row: int) -> Encoded:
    return Encoded(texts.ids[row : row + 1], take_rows(texts.state, slice(row, row + 1)))


@pytest.fixture(params=["mean_pool", "temporal", "wti", "x_clip", "x_pool", "t_mass", "tcd"])
def matcher(request: pytest.FixtureRequest) -> Matcher:
    torch.manual_seed(1)
    built = build_matcher(request.param, DIMENSION)
    built.eval()  # type: ignore[attr-defined]
    return built


def test_chosen_pairs_are_scored_as_among_all(matcher: Matcher) -> None:
    texts, videos = encoded(matcher)
    every = MatcherScores(matcher, texts, videos).score_all().values
    places = np.stack([np.random.default_rng(row).permutation(CLIPS)[:4] for row in range(CAPTIONS)])
    found = score_shortlists(matcher, texts, videos, places)
    np.testing.assert_allclose(found, np.take_along_axis(every, places, axis=1), atol=1e-5)


def test_with_parts_the_score_is_the_matcher_s(matcher: Matcher) -> None:
    texts, videos = encoded(matcher)
    every = MatcherScores(matcher, texts, videos).score_all().values
    for row in range(CAPTIONS):
        found = score_with_parts(matcher, one(texts, row), videos)
        np.testing.assert_allclose(found.values, every[row], atol=1e-5)
        if found.parts:
            np.testing.assert_allclose(np.mean(list(found.parts.values()), axis=0), found.values, atol=1e-5)


class Tiled(MeanPool):
    """Parts that are told apart by a number, and how many clips each call sees."""

    def __init__(self) -> None:
        super().__init__(DIMENSION, MeanPoolSettings())
        self.widths: list[int] = []

    def part_scores(self, text: object, video: object) -> dict[str, Tensor]:
        scores = super().score(text, video)  # type: ignore[arg-type]
        self.widths.append(scores.shape[1])
        return {"video": scores, "ocr": scores + 3.0}


def test_parts_of_several_tiles_stand_in_the_order_of_the_clips(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Tiled()
    texts, videos = encoded(matcher)
    whole = score_with_parts(matcher, one(texts, 2), videos)
    assert matcher.widths == [CLIPS]
    monkeypatch.setattr("evenreel.similarity.tiles.tile_shape", lambda *_: (1, 2))
    parts = score_with_parts(matcher, one(texts, 2), videos, LEAST_BUDGET_BYTES)
    assert matcher.widths[1:] == [2, 2, 2, 2, 1]
    for name in ("video", "ocr"):
        np.testing.assert_allclose(parts.parts[name], whole.parts[name], atol=1e-6)
    np.testing.assert_allclose(parts.values, whole.parts["video"] + 1.5, atol=1e-6)


def test_what_cannot_be_is_refused() -> None:
    matcher = build_matcher("mean_pool", DIMENSION)
    texts, videos = encoded(matcher)
    with pytest.raises(UsageError, match="of one caption at a time; 5 were given"):
        score_with_parts(matcher, texts, videos)
    with pytest.raises(UsageError, match=r"5 captions and shortlists of shape \(4, 2\)"):
        score_shortlists(matcher, texts, videos, np.zeros((4, 2), np.int64))
    none = TextFeatures((), TEXTS.words[:0], TEXTS.word_mask[:0], TEXTS.sentence[:0])
    with pytest.raises(UsageError, match="There are 0 captions and 5 videos"):
        matcher_scores(matcher, none, VIDEOS)


class Cheap(MeanPool):
    def coarse(self, text: object, video: object) -> Tensor:
        return -super().score(text, video)  # type: ignore[arg-type]


def test_a_cheap_score_is_the_matcher_s_own() -> None:
    plain, cheap = (made(DIMENSION, MeanPoolSettings()).eval() for made in (MeanPool, Cheap))
    assert coarse_scorer(plain) is None
    assert coarse_scorer(Adapted(plain, DIMENSION, AdapterSettings()).eval()) is None
    texts, videos = encoded(cheap)
    every = MatcherScores(cheap, texts, videos).score_all().values
    for made in (cheap, Adapted(cheap, DIMENSION, AdapterSettings()).eval()):
        scorer = coarse_scorer(made)
        assert scorer is not None
        np.testing.assert_array_equal(MatcherScores(scorer, texts, videos).score_all().values, -every)


def test_an_adapted_matcher_tells_the_parts_of_the_wrapped_one() -> None:
    wrapped = Tiled()
    adapted = Adapted(wrapped, DIMENSION, AdapterSettings()).eval()
    texts, videos = encoded(adapted)
    found = score_with_parts(adapted, one(texts, 1), videos)
    np.testing.assert_allclose(found.parts["ocr"] - found.parts["video"], 3.0, atol=1e-5)


# Batches hold the real items of their rows, wherever these stand, and little else


MASK = np.array([[1, 1, 0, 0, 0], [1, 0, 0, 1, 0], [1, 1, 1, 0, 0]], np.bool_)
VALUES = np.arange(3 * 5 * 2, dtype=np.float32).reshape(3, 5, 2)
BATCHES_TEXTS = TextFeatures(("a", "b", "c"), VALUES, MASK, VALUES[:, 0])
BATCHES_VIDEOS = VideoFeatures(("u", "v", "w"), VALUES, MASK, np.arange(15.0).reshape(3, 5))
SURENESS = np.array([[0.5, 0.25], [0.0, 1.0], [0.0, 0.0]], np.float32)
SURE = replace(BATCHES_VIDEOS, on_screen=OnScreen(VALUES[:, :2], SURENESS > 0, SURENESS))


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5))
def test_a_row_reaches_to_its_last_real_item(rows: list[list[bool]]) -> None:
    expected = [max((place + 1 for place, there in enumerate(row) if there), default=0) for row in rows]
    assert row_lengths(np.array(rows)).tolist() == expected


@pytest.mark.parametrize(("rows", "longest"), [([0], 2), ([0, 1], 4), ([2, 0], 3), ([0, 1, 2], 4)], ids=str)
def test_a_batch_is_cut_behind_the_last_real_item_of_its_rows(rows: list[int], longest: int) -> None:
    text, video = text_batch(BATCHES_TEXTS, np.array(rows)), video_batch(BATCHES_VIDEOS, np.array(rows))
    assert text.words.shape == video.frames.shape == (len(rows), longest, 2)
    assert text.word_mask.tolist() == video.frame_mask.tolist() == MASK[rows, :longest].tolist()
    np.testing.assert_array_equal(text.words.numpy(), VALUES[rows, :longest])
    np.testing.assert_array_equal(video.times_s.numpy(), BATCHES_VIDEOS.times_s[rows, :longest])
    read = video_batch(SURE, np.array(rows)).on_screen
    assert read is not None
    np.testing.assert_array_equal(read.confidence, SURENESS[rows])
    assert video.on_screen is None
    assert text.ids == tuple("abc"[row] for row in rows)
    assert video.ids == tuple("uvw"[row] for row in rows)
