"""Real clips and their mirrors: which belong together, and corpora with a share of mirrors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import counterparts, groups_of, is_generated, only_paired, with_generated
from evenreel.errors import CorpusError
from evenreel.types import CAMERA, Corpus

GROUPS = ("sora text", "sora video", "open")


@dataclass(frozen=True)
class Row:
    """A clip of a small corpus."""

    clip_id: str
    source: str | None = CAMERA
    pair_id: str | None = None
    setting: str | None = None
    split: str = "train"


def corpus_of(*rows: Row, captions: int = 2) -> Corpus:
    """Clips as they are given, each with captions that name it; generated ones have one of their own."""
    clips = pl.DataFrame([vars(row) for row in rows], infer_schema_length=None)
    said = [(f"{row.clip_id}#{n}", row.clip_id) for row in rows for n in range(captions if row.pair_id is None else 1)]
    ids, owners = zip(*said, strict=True)
    return make_corpus(
        clips, pl.DataFrame({"caption_id": ids, "clip_id": owners, "text": [f"about {o}" for o in owners]})
    )


def mirror(of: str, group: str = "sora text", split: str = "train") -> Row:
    source, _, setting = group.partition(" ")
    return Row(f"{of}@{group}", source, of, setting or None, split)


def ids(corpus: Corpus) -> list[str]:
    return corpus.clips["clip_id"].to_list()


def mirrors_in(corpus: Corpus) -> set[str]:
    return set(corpus.clips.filter(is_generated())["clip_id"])


@st.composite
def corpora(draw: st.DrawFn, *, full: bool = False) -> Corpus:
    """Real clips in two splits, each with mirrors of some groups (of the first, if `full`), in any order."""
    count = draw(st.integers(1, 8))
    rows = []
    for number in range(count):
        split = draw(st.sampled_from(["train", "test"]))
        made = draw(st.sets(st.sampled_from(GROUPS)))
        rows.append(Row(f"c{number}", draw(st.sampled_from([CAMERA, None])), split=split))
        rows += [
            mirror(f"c{number}", group, split) for group in GROUPS if group in made or (full and group == GROUPS[0])
        ]
    return corpus_of(*draw(st.permutations(rows)), captions=draw(st.integers(0, 2)) or 1)


def test_pairs_are_those_of_which_both_clips_are_there() -> None:
    corpus = corpus_of(
        mirror("a"),
        Row("a"),
        mirror("gone"),
        mirror("a", "open"),
        Row("nameless", None, "a"),
        Row("copy of a mirror", "sora", "a@open"),
        Row("another take", CAMERA, "a"),
    )
    assert counterparts(corpus).rows() == [
        ("a", "a@sora text", "sora text"),
        ("a", "a@open", "open"),
        ("a", "nameless", "generated"),
    ]
    assert counterparts(corpus, "open")["generated_id"].to_list() == ["a@open"]
    assert groups_of(corpus) == {
        "a@sora text": "sora text",
        "gone@sora text": "sora text",
        "a@open": "open",
        "nameless": "generated",
        "copy of a mirror": "sora",
    }


def test_a_corpus_that_says_nothing_of_generators_has_no_pair() -> None:
    corpus = make_corpus(pl.DataFrame({"clip_id": ["a"]}), pl.DataFrame({"caption_id": [], "clip_id": [], "text": []}))
    assert counterparts(corpus).height == 0
    assert groups_of(corpus) == {}
    assert ids(with_generated(corpus, 0.0, 0)) == ["a"]


@pytest.mark.parametrize("word", ["camera", "real", "Real", None])
def test_a_clip_that_is_called_real_is_from_no_generator(word: str | None) -> None:
    clips = pl.DataFrame({"clip_id": ["a", "b"], "source": [word, "generated"]})
    corpus = make_corpus(clips, pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["a ball"]}))
    assert groups_of(corpus) == {"b": "generated"}


def test_a_mirror_takes_the_place_and_the_captions_of_its_clip() -> None:
    corpus = corpus_of(mirror("b"), Row("a"), Row("b"), mirror("a"))
    done = with_generated(corpus, 1.0, 0)
    assert ids(done) == ["a@sora text", "b@sora text"]
    assert done.captions.select("caption_id", "clip_id", "text").rows() == [
        ("a#0", "a@sora text", "about a"),
        ("a#1", "a@sora text", "about a"),
        ("b#0", "b@sora text", "about b"),
        ("b#1", "b@sora text", "about b"),
    ]


@settings(max_examples=10)
@given(corpora(full=True), st.floats(0, 1), st.floats(0, 1), st.integers(0, 5))
def test_the_clips_replaced_at_one_share_are_replaced_at_a_larger_one(
    corpus: Corpus, one: float, other: float, seed: int
) -> None:
    less, more = (mirrors_in(with_generated(corpus, share, seed, GROUPS[0])) for share in sorted((one, other)))
    assert less <= more


@settings(max_examples=10)
@given(corpora(full=True), st.floats(0, 1), st.integers(0, 5))
def test_numbers_order_and_answers_stay(corpus: Corpus, share: float, seed: int) -> None:
    done = with_generated(corpus, share, seed, GROUPS[0])
    real = corpus.clips.filter(~is_generated())
    told = corpus.captions.filter(pl.col("clip_id").is_in(real["clip_id"].implode()))
    taken = done.clips.filter(is_generated())
    assert taken.height == round(share * real.height)
    assert set(taken["setting"]) <= {"text"}
    shown = done.clips.select(pl.when(is_generated()).then("pair_id").otherwise("clip_id"))
    assert shown.to_series().to_list() == real["clip_id"].to_list()
    assert done.clips["split"].to_list() == real["split"].to_list()
    assert done.captions["caption_id"].to_list() == told["caption_id"].to_list()
    shows = {row["clip_id"]: row["pair_id"] or row["clip_id"] for row in done.clips.iter_rows(named=True)}
    assert [shows[clip_id] for clip_id in done.captions["clip_id"]] == told["clip_id"].to_list()


@settings(max_examples=10)
@given(corpora(), st.integers(0, 3))
def test_without_a_share_the_real_clips_are_left_and_nothing_of_their_mirrors(corpus: Corpus, seed: int) -> None:
    done = with_generated(corpus, 0.0, seed)
    assert done.clips.equals(corpus.clips.filter(~is_generated()))
    assert set(done.captions["clip_id"]) <= set(ids(done))


@settings(max_examples=10)
@given(corpora(full=True), st.floats(0, 1))
def test_one_split_changes_as_it_would_alone_and_the_others_do_not(corpus: Corpus, share: float) -> None:
    split = corpus.clips["split"][0]
    done = with_generated(corpus, share, 1, GROUPS[0], split=split)
    assert done.clips.filter(pl.col("split") != split).equals(corpus.clips.filter(pl.col("split") != split))
    inside = pl.col("clip_id").is_in(corpus.clips.filter(pl.col("split") == split)["clip_id"].implode())
    part = make_corpus(corpus.clips.filter(inside), corpus.captions.filter(inside))
    alone = with_generated(part, share, 1, GROUPS[0])
    assert done.clips.filter(pl.col("split") == split).equals(alone.clips)
    others = Counter(corpus.captions.filter(~inside)["clip_id"])
    assert Counter(done.captions["clip_id"]) == Counter(alone.captions["clip_id"]) + others


def test_clips_without_a_mirror_stay_and_count_in_the_share() -> None:
    corpus = corpus_of(Row("a"), Row("b"), Row("c"), Row("d"), mirror("a"), mirror("c"))
    assert set(ids(with_generated(corpus, 0.5, 0))) == {"a@sora text", "b", "c@sora text", "d"}
    with pytest.raises(CorpusError, match=r"3 of 4 clips are to be generated ones, but only 2 have a counterpart"):
        with_generated(corpus, 0.75, 0)
    paired = only_paired(corpus)
    assert ids(paired) == ["a", "c", "a@sora text", "c@sora text"]
    assert set(ids(with_generated(paired, 1.0, 0))) == {"a@sora text", "c@sora text"}


def test_only_paired_keeps_one_group_and_other_splits() -> None:
    corpus = corpus_of(
        Row("a"), mirror("a"), mirror("a", "open"), Row("b"), mirror("b", "open"), Row("c", split="test"), Row("d")
    )
    assert ids(only_paired(corpus, "sora text", split="train")) == ["a", "a@sora text", "c"]
    assert ids(only_paired(corpus, "open")) == ["a", "a@open", "b", "b@open"]
    assert set(only_paired(corpus, "open").captions["clip_id"]) == {"a", "a@open", "b", "b@open"}


def test_of_two_mirrors_of_one_group_the_first_is_taken() -> None:
    corpus = corpus_of(Row("a"), Row("second", "sora", "a"), Row("first", "sora", "a"))
    assert ids(with_generated(corpus, 1.0, 0)) == ["second"]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(CorpusError, match="must be between 0 and 1"):
        with_generated(corpus_of(Row("a"), mirror("a")), share, 0)


def test_groups_are_named_where_there_are_several() -> None:
    corpus = corpus_of(Row("a"), mirror("a"), mirror("a", "open"))
    with pytest.raises(CorpusError, match="generated clips of sora text, open; name the group"):
        with_generated(corpus, 1.0, 0)
    with pytest.raises(CorpusError, match=r"counterpart of 'opne'; there are: sora text, open\."):
        with_generated(corpus, 0.0, 0, "opne")
    with pytest.raises(CorpusError, match="the splits are: train"):
        with_generated(corpus, 1.0, 0, "open", split="trian")
    with pytest.raises(CorpusError, match="No clip has a generated counterpart"):
        only_paired(corpus_of(Row("a")))
