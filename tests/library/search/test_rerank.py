from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained
from evenreel.checkpoint.architecture import build
from evenreel.cli.show_library import show_result
from evenreel.encoders.trainable import tokenise
from evenreel.errors import CheckpointError, LibraryError, UsageError
from evenreel.features.load import graphs_of
from evenreel.features.windows import EMPTY, with_windows
from evenreel.features.word_changes import WordChanges
from evenreel.library import open_library
from evenreel.library.search.query import Query
from evenreel.library.search.rerank import PARTS, Reranker, StoredClip, check_encoder, middles
from evenreel.library.search.result import Hit, SearchResult
from evenreel.library.search.searcher import Searcher, ranks_of
from evenreel.library.store.catalog import SCHEMA_VERSION
from evenreel.matchers import MATCHERS, PairBatch, TextBatch, VideoBatch
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.matcher import Limits
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.similarity.tiles import tensors_of
from evenreel.types import FloatArray, TextEmbedding, TextTrack
from tests.features.test_shards import make_shard
from tests.library.fakes import DIMENSION, SUBJECTS, Library, WordsEncoder, encode, finish, paths
from tests.matchers.examples import SETTINGS, disturb, video_rows

BOX = (0.0, 0.0, 1.0, 1.0)


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

    @property
    def clips(self) -> dict[str, VideoBatch]:
        """What it was given of each clip, one row."""
        return {clip_id: video_rows(video, [row]) for video in self.seen for row, clip_id in enumerate(video.ids)}


def pretrained(matcher: nn.Module | None = None, inputs: Inputs | None = None, digest: str = "words-1") -> Pretrained:
    note = EncoderNote("words", digest, DIMENSION)
    return Pretrained(matcher or LastFrame(), MatcherSpec("mean_pool"), About(note, inputs or Inputs()))  # type: ignore[arg-type]


def reranker_of(matcher: nn.Module, inputs: Inputs | None = None) -> Reranker:
    return Reranker(pretrained(matcher, inputs), WordsEncoder())


def stored(clip_id: str, count: int, signs: int = 0) -> StoredClip:
    frames = np.stack([encode(f"frame {clip_id} {number}") for number in range(count)]).astype(np.float16)
    starts_s = np.arange(float(count))
    tracks = tuple(TextTrack(f"SIGN {number}", 0.9, number, number, BOX) for number in range(signs))
    return StoredClip(clip_id, frames, starts_s + 0.5, np.stack([starts_s, starts_s + 1], axis=1), tracks)


def score(reranker: Reranker, clips: Sequence[StoredClip], text: str = "dog beach") -> FloatArray:
    """One query, whose words are its sentence, and clips of a library that never changes."""
    query = WordsEncoder().encode_text([text])
    by_id = {clip.clip_id: clip for clip in clips}
    return reranker.judge(text, query, list(by_id), by_id.__getitem__, None).scores


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Clip n shows subject n, and at its end subject n + 1."""
    made = Library(tmp_path)
    for number, subject in enumerate(SUBJECTS):
        made.add_clip(f"c{number}", [f"filler{number}", subject, subject, SUBJECTS[(number + 1) % len(SUBJECTS)]])
        made.add_file(f"/v/{number}.mp4", f"c{number}", {"source": "camera" if number % 2 else "sora"})
    return made


def test_the_matcher_orders_the_shortlist(library: Library) -> None:
    searcher = finish(library)
    before = searcher.search(Query("dog beach", k=6))
    after = searcher.search(Query("dog beach", k=6, reranker=reranker_of(LastFrame()), rerank_depth=6))
    assert set(paths(before)[:2]) == {"/v/0.mp4", "/v/1.mp4"}  # both show a dog
    assert paths(after)[0] == "/v/0.mp4"  # this one at its end
    ends = {f"/v/{n}.mp4": float(encode(SUBJECTS[(n + 1) % 6]) @ encode("dog beach")) for n in range(6)}
    assert paths(after) == sorted(ends, key=lambda path: -ends[path])
    for rank, hit in enumerate(after.hits, start=1):
        own = next(one for one in before.hits if one.path == hit.path)
        assert hit.score == pytest.approx(1 / (60 + rank))
        assert hit.scores == {"seen": own.scores["seen"], "reranked": pytest.approx(ends[hit.path], abs=2e-3)}
        assert (hit.weaker, hit.above_nonsense, hit.moments) == (own.weaker, own.above_nonsense, own.moments)


def test_what_the_matcher_knows_of_a_test_split_is_a_notice(library: Library) -> None:
    about = replace(pretrained().about, uses=("class lengths of the split test",))
    reranker = Reranker(replace(pretrained(), about=about), WordsEncoder())
    notices = finish(library).search(Query("dog beach", reranker=reranker)).notices
    assert "The matcher that re-ranks was trained with class lengths of the split test." in notices


def test_a_shortlist_of_k_holds_the_library_s_first_k(library: Library) -> None:
    searcher = finish(library)
    before = paths(searcher.search(Query("dog beach", k=6)))
    for k in range(1, 7):
        after = searcher.search(Query("dog beach", k=k, reranker=reranker_of(LastFrame()), rerank_depth=1))
        assert set(paths(after)) == set(before[:k])
        assert all("reranked" in hit.scores for hit in after.hits)


def test_a_deeper_shortlist_finds_what_the_first_k_do_not_hold(library: Library) -> None:
    """The clip that ends with a guitar is not the first for the library, which a matcher of depth 1 cannot change."""
    searcher = finish(library)
    query = "guitar concert"
    first = paths(searcher.search(Query(query, k=1)))
    deep = paths(searcher.search(Query(query, k=1, reranker=reranker_of(LastFrame()), rerank_depth=6)))
    flat = paths(searcher.search(Query(query, k=1, reranker=reranker_of(LastFrame()), rerank_depth=1)))
    assert deep == ["/v/2.mp4"]
    assert flat == first


def test_equal_clips_share_a_rank_and_go_by_path(tmp_path: Path) -> None:
    library = Library(tmp_path)
    for number in range(3):
        library.add_clip(f"c{number}", ["dog beach"])
        library.add_file(f"/v/{number}.mp4", f"c{number}")
    result = finish(library).search(Query("dog beach", reranker=reranker_of(LastFrame()), rerank_depth=10))
    assert paths(result) == ["/v/0.mp4", "/v/1.mp4", "/v/2.mp4"]
    assert {hit.score for hit in result.hits} == {1 / 61}


def test_words_on_screen_stay_first_and_are_fused(library: Library) -> None:
    library.add_track("c4", "DOG BEACH")
    result = finish(library).search(Query("dog beach", reranker=reranker_of(LastFrame()), rerank_depth=6))
    assert paths(result)[:2] == ["/v/4.mp4", "/v/0.mp4"]
    assert set(result.hits[0].scores) == {"seen", "on_screen", "reranked"}
    place = sorted((-hit.scores["reranked"], hit.path) for hit in result.hits).index(
        (-result.hits[0].scores["reranked"], "/v/4.mp4")
    )
    assert result.hits[0].score == pytest.approx(1 / 61 + 1 / (61 + place))


def test_only_words_found_means_nothing_to_re_rank(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.add_clip("talk")
    library.add_file("/v/talk.mp4", "talk", {"caption": "dog beach"})
    found = finish(library).search(Query("dog beach", reranker=reranker_of(LastFrame()), rerank_depth=5))
    assert paths(found) == ["/v/talk.mp4"]


def test_it_is_given_the_stored_features_with_their_times(library: Library) -> None:
    library.add_clip("short", ["dog beach"])
    library.add_file("/v/short.mp4", "short")
    matcher = LastFrame()
    finish(library).search(Query("dog beach", reranker=reranker_of(matcher), rerank_depth=9))
    video = matcher.clips["c2"]
    seen = ("filler2", "snow mountain", "snow mountain", "guitar concert")
    np.testing.assert_allclose(video.frames[0], np.stack([encode(caption) for caption in seen]), atol=1e-3)
    assert video.times_s.tolist() == [[0.5, 1.5, 2.5, 3.5]]
    assert matcher.clips["short"].frame_mask.tolist() == [[True]]
    np.testing.assert_allclose(matcher.read[0].sentence[0], encode("dog beach"), atol=1e-6)


def test_it_is_given_no_more_than_it_was_trained_on() -> None:
    matcher = LastFrame()
    score(reranker_of(matcher, Inputs(frames=3)), [stored("long", 10)])
    assert matcher.clips["long"].times_s.tolist() == [[1.5, 5.5, 8.5]]


@pytest.mark.parametrize("most", [3, 7, 8, 9, None])
def test_a_long_query_is_cut_as_training_cuts_captions(most: int | None) -> None:
    ids = torch.arange(8)[None]
    tokens = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    towers: Any = SimpleNamespace(tokens=lambda _: tokens, family=SimpleNamespace(padded=False))
    words = np.tile(ids[..., None].numpy(), DIMENSION).astype(np.float32)
    query = TextEmbedding(words, np.ones((1, 8), np.bool_), encode("dog")[None])
    matcher, clip = LastFrame(), stored("c", 1)
    reranker_of(matcher, Inputs(words=most)).judge("dog", query, ["c"], lambda _: clip, None)
    assert matcher.read[0].words[..., 0].tolist() == tokenise(towers, ["dog"], most or 99).ids.tolist()
    np.testing.assert_array_equal(matcher.read[0].sentence, query.sentence)


def test_a_matcher_that_reads_role_graphs_gets_that_of_the_query(library: Library) -> None:
    matcher = LastFrame()
    matcher.limits = Limits(DIMENSION, graphs=True)
    finish(library).search(Query("a dog runs", reranker=reranker_of(matcher, Inputs(words=1)), rerank_depth=6))
    assert matcher.read[0].graphs == tuple(graphs_of(["a dog runs"]))
    plain = LastFrame()
    finish(library).search(Query("a dog runs", reranker=reranker_of(plain), rerank_depth=6))
    assert plain.read[0].graphs is None


def test_it_is_given_what_is_written_in_each_window(library: Library) -> None:
    library.add_track("c1", "WET DOG", start_s=0.0, end_s=1.5)
    library.add_track("c1", "BEACH", start_s=1.0, end_s=3.5)
    matcher, wordless = LastFrame(), LastFrame()
    finish(library).search(Query("dog beach", reranker=reranker_of(matcher, Inputs(windows=2)), rerank_depth=6))
    finish(library).search(Query("dog beach", reranker=reranker_of(wordless), rerank_depth=6))
    assert all(video.on_screen is None for video in wordless.seen)
    video = matcher.clips["c1"]
    assert video.on_screen is not None
    expected = [encode(f"There are scene texts: {words} in this frame.") for words in ("WET DOG BEACH", "BEACH")]
    np.testing.assert_allclose(video.on_screen.windows[0], np.stack(expected), atol=1e-3)
    masks = {clip_id: given.on_screen.mask for clip_id, given in matcher.clips.items()}
    assert {clip_id for clip_id, mask in masks.items() if mask is not None and mask.any()} == {"c1"}


def test_windows_are_those_of_features() -> None:
    """Eight windows over four frames: the sign of one frame is in both windows that the frame stands for."""
    frames, spans_s = stored("c", 4).frames, np.stack([np.arange(4.0), np.arange(1.0, 5.0)], axis=1)
    signs = (TextTrack("GATE", 0.9, 1.5, 1.5, BOX), TextTrack("WAY OUT", 0.8, 0.5, 2.5, BOX))
    shard = replace(make_shard(4), frames=frames, times_s=spans_s.mean(1), spans_s=spans_s, tracks=signs)
    made = with_windows(shard, 8, WordsEncoder())
    matcher = LastFrame()
    score(reranker_of(matcher, Inputs(windows=8)), [StoredClip("c", frames, shard.times_s, spans_s, signs)])
    given = matcher.clips["c"]
    assert given.on_screen is not None
    assert made.window_texts is not None
    assert [text.count("GATE") for text in made.window_texts] == [0, 0, 1, 1, 0, 0, 0, 0]
    assert given.on_screen.mask[0].tolist() == [bool(text) for text in made.window_texts]
    np.testing.assert_array_equal(given.on_screen.windows[0], made.windows)


def test_windows_without_text_say_so_where_the_matcher_was_trained_so() -> None:
    encoder, matcher, told = WordsEncoder(), LastFrame(), Inputs(windows=2, word_changes=WordChanges(empty="caption"))
    signs = (TextTrack("GATE", 0.75, 0.5, 0.5, BOX),)
    score(reranker_of(matcher, told), [stored("c", 4)._replace(tracks=signs), stored("d", 4)])
    for clip_id, empty in (("c", [False, True]), ("d", [True, True])):
        given = matcher.clips[clip_id]
        assert given.on_screen is not None and given.on_screen.confidence is not None
        assert given.on_screen.mask.tolist() == [[True, True]]
        expected = encoder.encode_text([EMPTY]).sentence[0].astype(np.float16)
        assert [np.array_equal(row, expected) for row in given.on_screen.windows[0]] == empty
        assert given.on_screen.confidence.tolist() == [[1.0 if none else 0.75 for none in empty]]


def test_a_second_query_encodes_no_clip_again(library: Library) -> None:
    library.add_track("c1", "WET DOG")
    searcher, matcher, encoder = finish(library), LastFrame(), WordsEncoder()
    reranker = Reranker(pretrained(matcher, Inputs(windows=2)), encoder)
    for text in ("dog beach", "blue boat"):
        searcher.search(Query(text, reranker=reranker, rerank_depth=6))
    assert (len(matcher.read), len(matcher.seen), encoder.captions_encoded) == (2, 2, 1)  # with and without signs


def test_what_is_kept_is_forgotten_when_the_library_changes(library: Library) -> None:
    searcher, matcher = finish(library), LastFrame()
    query = Query("dog beach", reranker=reranker_of(matcher, Inputs(windows=1)), rerank_depth=6)
    searcher.search(query)
    library.add_track("c1", "WET DOG")
    searcher.search(query)
    mask = matcher.clips["c1"].on_screen.mask
    assert mask is not None
    assert mask.tolist() == [[True]]


def test_a_library_keeps_the_clips_of_its_last_matcher(library: Library, tmp_path: Path) -> None:
    finish(library)
    meta = {"schema_version": str(SCHEMA_VERSION), "encoder_id": "words", "weights_hash": "words-1"}
    rows = [*meta.items(), ("dimension", str(DIMENSION))]
    library.connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", rows)
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as file:
        library.connection.backup(file)
    matcher = LastFrame()
    one, other = pretrained(matcher), pretrained()
    with open_library(tmp_path, encoder=WordsEncoder()) as opened:
        for depth, rerank in ((6, one), (3, one), (6, other), (6, one)):
            opened.search("dog beach", k=3, rerank=rerank, rerank_depth=depth)
    assert len(matcher.seen) == 2


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20))
def test_ranks_count_the_better_ones(values: list[int]) -> None:
    found = ranks_of(np.array(values, np.float32), np.ones(len(values), np.bool_))
    assert found.tolist() == [1 + sum(other > value for other in values) for value in values]


def test_another_encoder_s_matcher_is_refused() -> None:
    with pytest.raises(LibraryError, match="trained on features of words, the library was made with clip"):
        check_encoder(pretrained(digest="another"), "clip", "words-1")


def test_a_depth_of_nothing_is_refused_and_a_picture_is_not_re_ranked() -> None:
    with pytest.raises(UsageError, match="number of clips to re-rank is 0"):
        Query("dog beach", reranker=reranker_of(LastFrame()), rerank_depth=0)
    with pytest.raises(UsageError, match="cannot be used with a picture"):
        Query(image=encode("dog"), reranker=reranker_of(LastFrame()), rerank_depth=5)


def test_a_library_searched_by_words_only_is_not_re_ranked(library: Library) -> None:
    finish(library)
    searcher = Searcher(library.connection, lambda _: None, lambda: None)
    with pytest.raises(UsageError, match="without vision"):
        searcher.search(Query("dog beach", reranker=reranker_of(LastFrame()), rerank_depth=5))


def test_scores_that_are_no_numbers_are_refused(library: Library) -> None:
    class Broken(LastFrame):
        def score(self, text: Values, video: Values) -> Tensor:
            return super().score(text, video) * float("nan")

    with pytest.raises(CheckpointError, match="not a number"):
        finish(library).search(Query("dog beach", reranker=reranker_of(Broken())))


def test_a_catalog_that_lost_a_moment_is_said_to(library: Library) -> None:
    searcher = finish(library)
    library.connection.execute("DELETE FROM moments WHERE clip_id = 'c3' AND number = 2")
    with pytest.raises(LibraryError, match="3 moments of clip c3 but 4 vectors"):
        searcher.search(Query("dog beach", k=1, reranker=reranker_of(LastFrame()), rerank_depth=6))


class Parted(LastFrame):
    """The last frame is what is seen; half of that is what is read, and both together are the mean of the two."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def part_scores(self, text: Values, video: Values) -> dict[str, Tensor]:
        self.asked += 1
        seen = text.values @ video.values.T
        return {"video": seen, "ocr": seen / 2, "hybrid": 0.75 * seen}

    def score(self, text: Values, video: Values) -> Tensor:
        raise AssertionError("the score is the mean of the parts, and nothing is scored twice")


def test_hits_tell_the_parts_and_their_mean(library: Library) -> None:
    matcher = Parted()
    result = finish(library).search(Query("dog beach", k=6, reranker=reranker_of(matcher), rerank_depth=4))
    assert matcher.asked == 1
    for hit in result.hits:
        shown = SUBJECTS[(int(hit.clip_id[1]) + 1) % len(SUBJECTS)]  # in its last frame
        seen = float(encode(shown) @ encode("dog beach"))
        assert hit.parts == pytest.approx({"seen": seen, "on_screen": seen / 2, "both": 0.75 * seen}, abs=2e-3)
        assert hit.scores["reranked"] == pytest.approx(np.mean(list(hit.parts.values())), abs=2e-3)
    assert paths(result)[0] == "/v/0.mp4"


def test_only_what_was_re_ranked_has_parts(library: Library) -> None:
    library.add_clip("talk")
    library.add_file("/v/talk.mp4", "talk", {"caption": "dog beach"})
    result = finish(library).search(Query("dog beach", reranker=reranker_of(Parted()), rerank_depth=20))
    assert set(next(hit.scores for hit in result.hits if hit.clip_id == "talk")) == {"about"}, "it keeps its words"
    assert {hit.clip_id: bool(hit.parts) for hit in result.hits} == {
        **{f"c{number}": True for number in range(6)},
        "talk": False,
    }


@pytest.mark.parametrize("matcher", [LastFrame(), MeanPool(DIMENSION, MeanPoolSettings())])
def test_a_matcher_without_parts_tells_none(library: Library, matcher: torch.nn.Module) -> None:
    for one in (matcher, Adapted(matcher, DIMENSION, AdapterSettings()).eval()):  # type: ignore[arg-type]
        hits = finish(library).search(Query("dog beach", reranker=reranker_of(one))).hits
        assert all("reranked" in hit.scores and hit.parts == {} for hit in hits)


def test_parts_are_a_clip_s_own_beside_any_others() -> None:
    clips = [stored(f"clip{number}", 1 + number % 3) for number in range(20)]
    by_id = {clip.clip_id: clip for clip in clips}
    query = ("dog beach", WordsEncoder().encode_text(["dog beach"]))
    alone = {
        clip_id: reranker_of(Parted()).judge(*query, [clip_id], by_id.__getitem__, None).of(0) for clip_id in by_id
    }
    judged = reranker_of(Parted()).judge(*query, list(by_id), by_id.__getitem__, None)
    assert {clip_id: judged.of(place) for place, clip_id in enumerate(by_id)} == alone


def test_clips_in_which_nobody_read_are_a_notice(library: Library) -> None:
    """As after `evenreel index --no-ocr`; a matcher that reads no text does not mind."""
    reads = Query("dog beach", reranker=reranker_of(LastFrame(), Inputs(windows=2)), rerank_depth=6)
    searcher = finish(library)
    assert not [notice for notice in searcher.search(reads).notices if "on-screen" in notice]
    library.connection.execute("UPDATE clips SET has_text = 0 WHERE clip_id IN ('c1', 'c2')")
    (notice,) = [one for one in searcher.search(reads).notices if "on-screen" in one]
    assert "which was not read in 2 of the 6 clips that it ordered" in notice
    library.connection.execute("UPDATE clips SET has_text = 0")
    (notice,) = [one for one in searcher.search(reads).notices if "on-screen" in one]
    assert "which was read in none of the clips that it ordered; `evenreel index` without --no-ocr" in notice
    blind = Query("dog beach", reranker=reranker_of(LastFrame()), rerank_depth=6)
    assert not [one for one in searcher.search(blind).notices if "on-screen" in one]


def test_a_hit_says_that_nothing_was_read_on_it(library: Library) -> None:
    """Whether nobody looked, or nothing is written; where no matcher tells what it read, nobody asks."""
    library.add_track("c1", "WET DOG")
    searcher = finish(library)
    result = searcher.search(Query("dog beach", k=6, reranker=reranker_of(Parted()), rerank_depth=6))
    assert {hit.clip_id: hit.none_read for hit in result.hits} == {f"c{number}": number != 1 for number in range(6)}
    assert not any(hit.none_read for hit in searcher.search(Query("dog beach", k=6)).hits)


HIT = Hit(
    "c1", "/v/1.mp4", 0.02, False, 0.97, 0.0, {"seen": 0.3, "reranked": 0.45}, (), (), 4.0,
    parts={"seen": 0.25, "on_screen": 0.75, "both": 0.35},
)  # fmt: skip


def test_a_terminal_says_where_nothing_was_read_and_shows_no_minus_before_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = {"seen": 0.25, "on_screen": -0.0019, "both": -0.35}
    hit = replace(HIT, parts=parts, scores={"seen": -0.004, "reranked": -0.001}, none_read=True)
    show_result(SearchResult("gate", (hit,), 1), as_json=False)
    told = capsys.readouterr().out
    assert "matcher: visual match 0.25, words on screen 0.00 (none read), both together -0.35; mean 0.00" in told
    assert "-0.00" not in told


def test_json_has_them_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    show_result(SearchResult("gate", (HIT,), 1), as_json=True)
    (hit,) = json.loads(capsys.readouterr().out)["hits"]
    assert hit["parts"] == {"seen": 0.25, "on_screen": 0.75, "both": 0.35}
    assert list(hit["parts"]) == list(PARTS.values())


STRATA = {"ensemble": MatcherSpec("ensemble", {"weights": (0.5, 0.5)}, (MatcherSpec("wti"), MatcherSpec("x_pool")))}
NAMES = [*MATCHERS, *STRATA]


def trained(name: str) -> Pretrained:
    """A matcher that on-screen text takes part in, with weights that are not those it starts with."""
    torch.manual_seed(0)
    built = build(STRATA.get(name) or MatcherSpec(name, SETTINGS.get(name, {})), DIMENSION)
    matcher = disturb(Adapted(built, DIMENSION, AdapterSettings(windows=True)))
    return pretrained(matcher.eval(), Inputs(frames=4, windows=3))


def states_of(chosen: Pretrained, clips: Sequence[StoredClip]) -> list[tuple[Tensor, ...]]:
    by_id = {clip.clip_id: clip for clip in clips}
    return Reranker(chosen, WordsEncoder(), 0).states(list(by_id), by_id.__getitem__)


@pytest.mark.parametrize("name", NAMES)
def test_a_clip_s_state_does_not_depend_on_those_it_is_encoded_with(name: str) -> None:
    """To the last bit, so that what is kept gives the scores of what is encoded anew."""
    clips = [stored(str(number), 1 + number % 5, signs=number % 3) for number in range(23)]
    chosen = trained(name)
    together = states_of(chosen, clips)
    for some in (clips[:1], clips[7:9], clips[::-2], clips[4:]):
        for clip, state in zip(some, states_of(chosen, some), strict=True):
            same = zip(tensors_of(state), tensors_of(together[int(clip.clip_id)]), strict=True)
            assert all(torch.equal(one, other) for one, other in same)


def test_clips_that_were_not_asked_for_the_longest_are_encoded_again() -> None:
    matcher, clips = LastFrame(), {name: stored(name, 2) for name in "abc"}
    (state,) = reranker_of(LastFrame()).states(["a"], clips.__getitem__)
    assert [tensor.untyped_storage().nbytes() for tensor in state] == [tensor.nbytes for tensor in state], "no view"
    reranker = Reranker(pretrained(matcher), WordsEncoder(), cache_bytes=2 * state[0].nbytes)
    encoded = []
    for name in "abacab":
        score(reranker, [clips[name]])
        encoded.append(len(matcher.seen))
    assert encoded == [1, 2, 2, 3, 3, 4], "c takes the place of b, and then b that of c"
    reranker.judge("dog", WordsEncoder().encode_text(["dog"]), ["a"], clips.__getitem__, "another library")
    assert len(matcher.seen) == 5


@given(count=st.integers(1, 200), most=st.integers(1, 40))
def test_middles_are_spread_evenly_and_in_order(count: int, most: int) -> None:
    chosen = middles(count, most)
    assert len(chosen) == min(count, most)
    assert (np.diff(chosen) > 0).all()
    assert 0 <= chosen[0] <= chosen[-1] < count
    if count > most:  # each is the middle of its stretch, to within a frame
        assert np.abs(chosen + 0.5 - (np.arange(most) + 0.5) * count / most).max() <= 0.5
