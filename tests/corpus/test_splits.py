"""Parts of a corpus: the clips asked for with their captions, and splits that keep a video together."""

from __future__ import annotations

from collections import Counter, defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import make_corpus, select, split_corpus
from evenreel.errors import CorpusError
from evenreel.types import Corpus


@pytest.fixture
def corpus() -> Corpus:
    return make_corpus(
        pl.DataFrame(
            {
                "clip_id": ["a", "b", "c", "d"],
                "split": ["train", "test", "train", None],
                "source": ["camera", "camera", "model", "model"],
            }
        ),
        pl.DataFrame({"caption_id": list("12345"), "clip_id": list("abbca"), "text": "a ball"}),
    )


def ids(corpus: Corpus) -> tuple[list[str], list[str]]:
    return corpus.clips["clip_id"].to_list(), corpus.captions["caption_id"].to_list()


def test_a_split_comes_with_its_captions_in_their_order(corpus: Corpus) -> None:
    assert ids(select(corpus, split="train")) == (["a", "c"], ["1", "4", "5"])
    assert ids(select(corpus, split="test")) == (["b"], ["2", "3"])


def test_a_condition_and_a_split_both_hold(corpus: Corpus) -> None:
    assert ids(select(corpus, where=pl.col("source") == "model")) == (["c", "d"], ["4"])
    assert ids(select(corpus, split="train", where=pl.col("source") == "model")) == (["c"], ["4"])
    assert ids(select(corpus)) == ids(corpus)


def test_nothing_left_is_an_error_that_lists_the_splits(corpus: Corpus) -> None:
    with pytest.raises(CorpusError, match=r"No clip is left \(split 'val'\); the splits are: test, train\."):
        select(corpus, split="val")
    with pytest.raises(CorpusError, match=r"No clip is left \(condition [^,]*\); the splits are"):
        select(corpus, where=pl.col("source") == "drone")
    with pytest.raises(CorpusError, match=r"No clip is left \(split 'test', condition .*\); the splits are"):
        select(corpus, split="test", where=pl.col("source") == "drone")
    no_splits = make_corpus(pl.DataFrame({"clip_id": ["a"]}), corpus.captions.head(0))
    with pytest.raises(CorpusError, match="the splits are: none"):
        select(no_splits, split="train")


def test_an_unknown_column_is_an_error(corpus: Corpus) -> None:
    with pytest.raises(CorpusError, match="cannot be selected by"):
        select(corpus, where=pl.col("weather") == "rain")


def many(videos: int, clips_each: int = 1) -> Corpus:
    rows = [(f"{v}-{c}", f"{v}.mp4") for v in range(videos) for c in range(clips_each)]
    table = pl.DataFrame(rows, schema=["clip_id", "path"], orient="row")
    captions = pl.DataFrame({"caption_id": table["clip_id"], "clip_id": table["clip_id"], "text": "a ball"})
    return make_corpus(table, captions)


@given(
    st.integers(1, 30),
    st.integers(1, 4),
    st.lists(st.integers(0, 10), min_size=1, max_size=4).filter(any),
    st.integers(0, 2**32 - 1),
)
def test_splits_keep_videos_whole_and_their_shares(videos: int, clips_each: int, parts: list[int], seed: int) -> None:
    shares = {f"part {number}": part / sum(parts) for number, part in enumerate(parts)}
    corpus = many(videos, clips_each)
    found = split_corpus(corpus, shares, seed)
    assert found.clips.drop("split").equals(corpus.clips.drop("split"))
    of_video = defaultdict(set)
    for path, split in found.clips.select("path", "split").iter_rows():
        of_video[path].add(split)
    assert all(len(splits) == 1 for splits in of_video.values())
    counts = Counter(next(iter(splits)) for splits in of_video.values())
    assert sum(counts.values()) == videos
    assert set(counts) <= set(shares)
    for name, share in shares.items():
        assert abs(counts[name] - share * videos) <= 1


def test_the_seed_alone_decides() -> None:
    corpus, shares = many(200), {"train": 0.8, "test": 0.2}
    first = split_corpus(corpus, shares, 7).clips["split"]
    assert first.equals(split_corpus(corpus, shares, 7).clips["split"])
    assert not first.equals(split_corpus(corpus, shares, 8).clips["split"])
    assert Counter(first) == {"train": 160, "test": 40}


def test_a_clip_without_a_path_is_a_video_of_its_own() -> None:
    corpus = make_corpus(pl.DataFrame({"clip_id": [str(i) for i in range(50)]}), many(1).captions.head(0))
    assert Counter(split_corpus(corpus, {"a": 0.5, "b": 0.5}, 0).clips["split"]) == {"a": 25, "b": 25}


@pytest.mark.parametrize("seed", range(20))
def test_a_generated_clip_stays_with_its_real_one_and_its_video(seed: int) -> None:
    """Also through others: g1 mirrors a, of the video of b, which g2 mirrors; g3 and g4 mirror one that is gone."""
    table = pl.DataFrame(
        {
            "clip_id": ["a", "b", "g1", "g2", "g3", "g4", "v", "w"],
            "path": ["v", "v", "g1.mp4", None, None, None, "x", "x"],
            "pair_id": [None, None, "a", "b", "gone", "gone", None, None],
        }
    )
    found = split_corpus(make_corpus(table, many(1).captions.head(0)), {"one": 0.34, "two": 0.33, "three": 0.33}, seed)
    a, b, g1, g2, g3, g4, v, w = found.clips["split"]
    assert a == b == g1 == g2
    assert g3 == g4
    assert v == w  # a clip's id is no path of another
    assert len({a, g3, v}) == 3


@pytest.mark.parametrize("shares", [{}, {"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": 0.6, "b": 0.6}, {"a": float("nan")}])
def test_shares_that_are_none_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(CorpusError, match=r"The shares of the splits are .*; they must not be negative and sum to 1\."):
        split_corpus(many(3), shares, 0)
