"""A matcher orders the first clips of an answer anew: which, in what order, from which features; what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained
from evenreel.errors import CheckpointError, LibraryError, UsageError
from evenreel.library.query import Query
from evenreel.library.rerank import Reranker, StoredClip, check_encoder, middles, ranks
from evenreel.library.search import Searcher
from evenreel.matchers import PairBatch, TextBatch, VideoBatch, build_matcher
from evenreel.matchers.matcher import Limits
from evenreel.types import TextEmbedding

from .fakes import DIMENSION, SUBJECTS, Library, WordsEncoder, encode, finish, paths


class Values(NamedTuple):
    values: Tensor


class LastFrame(nn.Module):
    """Likes clips whose last frame shows the query: a thing that the best frame of a clip does not tell."""

    logit_scale = torch.tensor(0.0)
    limits = Limits(DIMENSION)

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[VideoBatch] = []
        self.read: list[TextBatch] = []

    def encode_text(self, text: TextBatch) -> Values:
        self.read.append(text)
        return Values(text.sentence)

    def encode_video(self, video: VideoBatch) -> Values:
        self.seen.append(video)
        last = video.frame_mask.sum(1) - 1
        return Values(video.frames[torch.arange(len(last)), last])

    def score(self, text: Values, video: Values) -> Tensor:
        return text.values @ video.values.T

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        raise NotImplementedError("it has nothing to learn")


def pretrained(matcher: nn.Module | None = None, inputs: Inputs | None = None, digest: str = "words-1") -> Pretrained:
    note = EncoderNote("words", digest, DIMENSION)
    return Pretrained(matcher or LastFrame(), MatcherSpec("mean_pool"), About(note, inputs or Inputs()))  # type: ignore[arg-type]


def reranker_of(matcher: nn.Module, depth: int, inputs: Inputs | None = None) -> Reranker:
    return Reranker(pretrained(matcher, inputs), WordsEncoder(), depth)


def reranker(depth: int) -> Reranker:
    return reranker_of(LastFrame(), depth)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Clip n shows subject n, and at its end subject n + 1."""
    made = Library(tmp_path)
    for number, subject in enumerate(SUBJECTS):
        made.add_clip(f"c{number}", [f"filler{number}", subject, subject, SUBJECTS[(number + 1) % len(SUBJECTS)]])
        made.add_file(f"/v/{number}.mp4", f"c{number}", {"source": "camera" if number % 2 else "sora"})
    return made


# The order


def test_the_matcher_orders_the_shortlist(library: Library) -> None:
    searcher = finish(library)
    before = searcher.search(Query("dog beach", k=6))
    after = searcher.search(Query("dog beach", k=6, reranker=reranker(6)))
    assert set(paths(before)[:2]) == {"/v/0.mp4", "/v/1.mp4"}  # both show a dog
    assert paths(after)[0] == "/v/0.mp4"  # this one at its end
    ends = {f"/v/{n}.mp4": float(encode(SUBJECTS[(n + 1) % 6]) @ encode("dog beach")) for n in range(6)}
    assert paths(after) == sorted(ends, key=lambda path: -ends[path])
    for rank, hit in enumerate(after.hits, start=1):
        assert hit.score == pytest.approx(1 / (60 + rank))
        assert hit.scores["reranked"] == pytest.approx(ends[hit.path], abs=2e-3)
        assert hit.scores["seen"] == {hit.path: hit.scores["seen"] for hit in before.hits}[hit.path]


def test_a_shortlist_of_k_holds_the_library_s_first_k(library: Library) -> None:
    searcher = finish(library)
    before = paths(searcher.search(Query("dog beach", k=6)))
    for k in range(1, 7):
        after = searcher.search(Query("dog beach", k=k, reranker=reranker(1)))
        assert set(paths(after)) == set(before[:k])
        assert all("reranked" in hit.scores for hit in after.hits)


def test_a_deeper_shortlist_finds_what_the_first_k_do_not_hold(library: Library) -> None:
    """The clip that ends with a guitar is not the first for the library, which a matcher of depth 1 cannot change."""
    searcher = finish(library)
    query = "guitar concert"
    first = paths(searcher.search(Query(query, k=1)))
    deep = paths(searcher.search(Query(query, k=1, reranker=reranker(6))))
    flat = paths(searcher.search(Query(query, k=1, reranker=reranker(1))))
    assert deep == ["/v/2.mp4"]
    assert flat == first


def test_the_depth_is_at_least_k(library: Library) -> None:
    matcher = LastFrame()
    finish(library).search(Query("dog beach", k=5, reranker=reranker_of(matcher, 2)))
    assert len(matcher.seen[0].ids) == 5


def test_equal_clips_share_a_rank_and_go_by_path(tmp_path: Path) -> None:
    library = Library(tmp_path)
    for number in range(3):
        library.add_clip(f"c{number}", ["dog beach"])
        library.add_file(f"/v/{number}.mp4", f"c{number}")
    result = finish(library).search(Query("dog beach", reranker=reranker(10)))
    assert paths(result) == ["/v/0.mp4", "/v/1.mp4", "/v/2.mp4"]
    assert {hit.score for hit in result.hits} == {1 / 61}


def test_filters_hold(library: Library) -> None:
    matcher = LastFrame()
    result = finish(library).search(Query("dog beach", where="source = 'camera'", reranker=reranker_of(matcher, 9)))
    assert set(paths(result)) == {"/v/1.mp4", "/v/3.mp4", "/v/5.mp4"}
    assert set(matcher.seen[0].ids) == {"c1", "c3", "c5"}


def test_words_on_screen_stay_first_and_are_fused(library: Library) -> None:
    library.add_track("c4", "DOG BEACH")
    result = finish(library).search(Query("dog beach", reranker=reranker(6)))
    assert paths(result)[:2] == ["/v/4.mp4", "/v/0.mp4"]
    assert set(result.hits[0].scores) == {"seen", "on_screen", "reranked"}
    place = sorted((-hit.scores["reranked"], hit.path) for hit in result.hits).index(
        (-result.hits[0].scores["reranked"], "/v/4.mp4")
    )
    assert result.hits[0].score == pytest.approx(1 / 61 + 1 / (61 + place))


def test_a_clip_without_frames_keeps_its_words(library: Library) -> None:
    library.add_clip("talk")
    library.add_file("/v/talk.mp4", "talk", {"caption": "dog beach"})
    result = finish(library).search(Query("dog beach", reranker=reranker(20)))
    talk = next(hit for hit in result.hits if hit.path == "/v/talk.mp4")
    assert set(talk.scores) == {"about"}


def test_only_words_found_means_nothing_to_re_rank(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.add_clip("talk")
    library.add_file("/v/talk.mp4", "talk", {"caption": "dog beach"})
    assert paths(finish(library).search(Query("dog beach", reranker=reranker(5)))) == ["/v/talk.mp4"]


def test_confidence_and_moments_stay_the_library_s(library: Library) -> None:
    searcher = finish(library)
    before = {hit.path: hit for hit in searcher.search(Query("dog beach", k=6)).hits}
    for hit in searcher.search(Query("dog beach", k=6, reranker=reranker(6))).hits:
        assert (hit.confidence, hit.moments) == (before[hit.path].confidence, before[hit.path].moments)


# What the matcher is given


def test_it_is_given_the_stored_features_with_their_times(library: Library) -> None:
    library.add_clip("short", ["dog beach"])
    library.add_file("/v/short.mp4", "short")
    matcher = LastFrame()
    finish(library).search(Query("dog beach", reranker=reranker_of(matcher, 9)))
    video = matcher.seen[0]
    row = video.ids.index("c2")
    expected = np.stack(
        [encode(caption) for caption in ("filler2", "snow mountain", "snow mountain", "guitar concert")]
    )
    np.testing.assert_allclose(video.frames[row], expected, atol=1e-3)
    assert video.times_s[row].tolist() == [0.5, 1.5, 2.5, 3.5]
    short = video.ids.index("short")
    assert video.frame_mask[short].tolist() == [True, False, False, False]
    np.testing.assert_allclose(matcher.read[0].sentence[0], encode("dog beach"), atol=1e-6)


def test_it_is_given_no_more_than_it_was_trained_on() -> None:
    matcher = LastFrame()
    frames = np.stack([encode(f"frame {number}") for number in range(10)]).astype(np.float16)
    words = np.stack([encode(f"word {number}") for number in range(7)])[None]
    query = TextEmbedding(words, np.ones((1, 7), np.bool_), words[:, 0])
    clip = StoredClip("long", frames, np.arange(10.0), 10.0)
    reranker_of(matcher, 1, Inputs(frames=3, words=5)).scores(query, [clip])
    assert matcher.seen[0].times_s.tolist() == [[1.0, 5.0, 8.0]]
    assert matcher.read[0].words.shape[1] == 5


def test_it_is_given_no_windows_where_it_was_trained_without(library: Library) -> None:
    library.add_track("c1", "DOG")
    matcher = LastFrame()
    finish(library).search(Query("dog beach", reranker=reranker_of(matcher, 6)))
    assert matcher.seen[0].windows is None


def test_it_is_given_what_is_written_in_each_window(library: Library) -> None:
    """The clip lasts 4 s; two windows of 2 s."""
    library.add_track("c1", "WET DOG", start_s=0.0, end_s=1.5)
    library.add_track("c1", "BEACH", start_s=1.0, end_s=3.5)
    matcher = LastFrame()
    finish(library).search(Query("dog beach", k=6, reranker=reranker_of(matcher, 6, Inputs(windows=2))))
    video = matcher.seen[0]
    assert video.windows is not None
    assert video.window_mask is not None
    row = video.ids.index("c1")
    expected = [
        encode("There are scene texts: WET DOG BEACH in this frame."),
        encode("There are scene texts: BEACH in this frame."),
    ]
    np.testing.assert_allclose(video.windows[row], np.stack(expected), atol=1e-3)
    assert video.window_mask.sum(1).tolist() == [2 if clip_id == "c1" else 0 for clip_id in video.ids]


def test_windows_of_a_library_without_writing_are_empty(library: Library) -> None:
    matcher = LastFrame()
    finish(library).search(Query("dog beach", k=6, reranker=reranker_of(matcher, 6, Inputs(windows=3))))
    assert matcher.seen[0].window_mask is not None
    assert not matcher.seen[0].window_mask.any()
    assert matcher.seen[0].windows is not None
    assert matcher.seen[0].windows.shape == (6, 3, DIMENSION)


@pytest.mark.parametrize("name", ["mean_pool", "temporal", "x_clip"])
def test_the_scores_are_those_of_one_clip_alone(name: str) -> None:
    """Neither padding nor the other clips of the shortlist matter."""
    torch.manual_seed(0)
    matcher = build_matcher(name, DIMENSION).eval()  # type: ignore[attr-defined]
    by_name = reranker_of(matcher, 5, Inputs(frames=12, words=32))
    query = TextEmbedding(encode("dog beach")[None, None], np.ones((1, 1), np.bool_), encode("dog beach")[None])
    clips = [
        StoredClip(
            str(count),
            np.stack([encode(f"frame {n}") for n in range(count)]).astype(np.float16),
            np.arange(float(count)),
            float(count),
        )
        for count in (1, 4, 30)
    ]
    together = by_name.scores(query, clips)
    alone = [by_name.scores(query, [clip])[0] for clip in clips]
    np.testing.assert_allclose(together, alone, atol=2e-5)


@given(count=st.integers(1, 200), most=st.integers(1, 40))
def test_middles_are_spread_evenly_and_in_order(count: int, most: int) -> None:
    chosen = middles(count, most)
    assert len(chosen) == min(count, most)
    assert (np.diff(chosen) > 0).all()
    assert 0 <= chosen[0] <= chosen[-1] < count
    if count > most:  # each is the middle of its stretch, to within a frame
        assert np.abs(chosen + 0.5 - (np.arange(most) + 0.5) * count / most).max() <= 0.5


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20))
def test_ranks_count_the_better_ones(values: list[int]) -> None:
    assert ranks(np.array(values, np.float32)) == [1 + sum(other > value for other in values) for value in values]


# What is refused


def test_another_encoder_s_matcher_is_refused() -> None:
    with pytest.raises(LibraryError, match="trained on features of words, the library was made with clip"):
        check_encoder(pretrained(digest="another"), "clip", "words-1")


def test_a_depth_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="number of clips to re-rank is 0"):
        reranker(0)


def test_a_picture_is_not_re_ranked() -> None:
    with pytest.raises(UsageError, match="cannot be used with a picture"):
        Query(image=encode("dog"), reranker=reranker(5))


def test_a_library_searched_by_words_only_is_not_re_ranked(library: Library) -> None:
    finish(library)
    searcher = Searcher(library.connection, lambda _: None, None)
    with pytest.raises(UsageError, match="without vision"):
        searcher.search(Query("dog beach", reranker=reranker(5)))


def test_scores_that_are_no_numbers_are_refused(library: Library) -> None:
    class Broken(LastFrame):
        def score(self, text: Values, video: Values) -> Tensor:
            return super().score(text, video) * float("nan")

    with pytest.raises(CheckpointError, match="not a number"):
        finish(library).search(Query("dog beach", reranker=reranker_of(Broken(), 5)))


def test_a_catalog_that_lost_a_moment_is_said_to(library: Library) -> None:
    searcher = finish(library)
    library.connection.execute("DELETE FROM moments WHERE clip_id = 'c3' AND number = 2")
    with pytest.raises(LibraryError, match="3 moments of clip c3 but 4 vectors"):
        searcher.search(Query("dog beach", k=1, reranker=reranker(6)))
