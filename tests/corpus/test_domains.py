"""Two corpora as one: whose clips are learned from, what is renamed, and what the official files give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import FORMATS, load_corpus, load_texts, make_corpus, save_corpus, save_texts
from evenreel.corpus.domains import (
    DomainPair,
    DomainSide,
    beside_published,
    domain_counts,
    load_source,
    load_target,
    pair_domains,
    save_pair,
)
from evenreel.corpus.on_screen import make_texts
from evenreel.corpus.tables import CLASS_NAMES, save_class_names
from evenreel.errors import CorpusError
from evenreel.types import Corpus

NAMES = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=5, unique=True)


def corpus(clips: dict[str, Any], texts: Sequence[tuple[str, str]] = (), **columns: Any) -> Corpus:
    """Clips by their splits, and captions, `ID#N` each."""
    rows = {"clip_id": list(clips), "split": list(clips.values())} | columns
    told = Counter[str]()
    captions = []
    for clip, text in texts:
        captions.append({"caption_id": f"{clip}#{told[clip]}", "clip_id": clip, "text": text})
        told[clip] += 1
    schema = {"caption_id": pl.String, "clip_id": pl.String, "text": pl.String}
    return make_corpus(pl.DataFrame(rows), pl.DataFrame(captions, schema=schema))


SOURCE = corpus(
    {"a": "train", "b": "train", "c": "val", "d": "test"},
    [("a", "a man sings"), ("a", "A dog  runs"), ("b", "a car"), ("c", "rain"), ("d", "snow")],
    path=["a.mp4", "b.mp4", "c.mp4", "d.mp4"],
    domain=["music", "cars", None, None],
    minutes=[1.0, 2.0, 3.0, 4.0],
)
TARGET = corpus(
    {"a": "test", "x": "test", "y": "val", "z": "train"},
    [("a", "a dog runs"), ("a", "an owl"), ("x", "the owl runs"), ("y", "fog"), ("z", "hail")],
    path=["a.gif", "x.gif", "y.gif", "z.gif"],
    url=["u", "v", "w", "x"],
)


def sides(**changes: Any) -> tuple[DomainSide, DomainSide]:
    source = DomainSide("source", SOURCE, changes.pop("source", {"train": "train", "val": "val"}))
    return source, DomainSide("target", TARGET, changes.pop("target", {"test": "test"}))


def test_the_source_is_learned_from_and_the_target_is_the_test_split() -> None:
    pair = pair_domains(*sides())
    rows = pair.corpus.clips.select("clip_id", "split", "domain", "subdomain", "path").rows()
    assert rows == [
        ("source/a", "train", "source", "music", "a.mp4"),
        ("b", "train", "source", "cars", "b.mp4"),
        ("c", "val", "source", None, "c.mp4"),
        ("a", "test", "target", None, "a.gif"),
        ("x", "test", "target", None, "x.gif"),
    ]
    assert pair.corpus.captions.select("caption_id", "clip_id", "text").rows() == [
        ("source/a#0", "source/a", "a man sings"),
        ("source/a#1", "source/a", "A dog  runs"),
        ("b#0", "b", "a car"),
        ("c#0", "c", "rain"),
        ("a#0", "a", "a dog runs"),
        ("a#1", "a", "an owl"),
        ("x#0", "x", "the owl runs"),
    ]
    assert pair.corpus.clips["minutes"].to_list() == [1, 2, 3, None, None]
    assert pair.corpus.clips["url"].to_list() == [None, None, None, "u", "v"]
    assert [notice.sentence for notice in pair.notices] == [
        "1 clips and 2 captions of the source are called as some of the target, and source/ID here (a, a#0, a#1). If "
        "they are the same videos, the target is not new to a model that learns from the source."
    ]


def test_other_splits_have_names_of_their_own() -> None:
    pair = pair_domains(*sides(source={"test": "source_test"}, target={"test": "test", "val": "target_val"}))
    assert pair.corpus.clips.select("clip_id", "split").rows() == [
        ("d", "source_test"), ("a", "test"), ("x", "test"), ("y", "target_val"),
    ]  # fmt: skip


def test_what_they_have_in_common_by_hand() -> None:
    """Source: a man sings dog runs car rain; target: a dog runs an owl the, of which a, dog and runs are known."""
    counts = domain_counts(pair_domains(*sides()).corpus)
    assert counts.to_json() == {
        "source": {"clips": 3, "captions": 4},
        "target": {"clips": 2, "captions": 3},
        "shared_captions": 1,
        "source_words": 7,
        "target_words": 6,
        "shared_words": 3,
        "known_percent": 50.0,
        "known_in_text_percent": 50.0,  # a dog runs, runs: 4 of 8
    }


@given(NAMES, NAMES, st.data())
def test_every_clip_is_there_once_and_pairs_stay_pairs(
    first: list[str], second: list[str], data: st.DataObject
) -> None:
    """Whatever ids they share; a clip mirrors the clip of its own corpus that it mirrored."""
    made = []
    for domain, names in (("source", first), ("target", second)):
        mirrors = data.draw(st.lists(st.none() | st.sampled_from(names), min_size=len(names), max_size=len(names)))
        own = corpus(dict.fromkeys(names, "test"), [(name, domain) for name in names], pair_id=mirrors)
        made.append(DomainSide(domain, own, {"test": "train" if domain == "source" else "test"}))
    joined = pair_domains(*made).corpus
    for side in made:
        of = joined.clips.filter(pl.col("domain") == side.domain)
        now = dict(zip(side.corpus.clips["clip_id"], of["clip_id"], strict=True))
        assert of["pair_id"].to_list() == [name and now[name] for name in side.corpus.clips["pair_id"]]
        texts = joined.captions.filter(pl.col("text") == side.domain)
        assert texts["clip_id"].to_list() == list(now.values())
        assert side.domain == "source" or now == {name: name for name in second}
    assert joined.clips["clip_id"].n_unique() == len(first) + len(second)


def test_paths_that_both_have_are_told_and_can_be_told_apart(tmp_path: Path) -> None:
    one = corpus({"a": "train"}, path=["clips/1.mp4"])
    other = corpus({"b": "test"}, path=["clips/1.mp4"])
    source, target = DomainSide("source", one, {"train": "train"}), DomainSide("target", other, {"test": "test"})
    assert [notice.sentence[:67] for notice in pair_domains(source, target).notices] == [
        "1 paths are those of a source clip and of a target clip (clips/1.mp"
    ]
    apart = pair_domains(
        DomainSide("source", one, {"train": "train"}, tmp_path / "one"),
        DomainSide("target", other, {"test": "test"}, tmp_path),
    )
    assert apart.notices == ()
    assert apart.corpus.clips["path"].to_list() == [
        str(tmp_path / "one" / "clips" / "1.mp4"), str(tmp_path / "clips" / "1.mp4"),
    ]  # fmt: skip


def test_corpora_without_splits_are_taken_whole() -> None:
    source, target = corpus({"a": None, "b": None}), corpus({"c": None})
    pair = pair_domains(
        DomainSide("source", source, {"train": "train"}), DomainSide("target", target, {"test": "test"})
    )
    assert pair.corpus.clips["split"].to_list() == ["train", "train", "test"]
    assert [notice.sentence for notice in pair.notices] == [
        "The source has no splits, so all of it is the split train.",
        "The target has no splits, so all of it is the split test.",
    ]
    with pytest.raises(CorpusError, match="The target has no splits, so no test and val can be taken of it"):
        pair_domains(sides()[0], DomainSide("target", target, {"test": "test", "val": "target_val"}))


def classed(folder: Path, name: str, split: str, names: tuple[list[str], list[str]] | None) -> Path:
    clips = pl.DataFrame({"clip_id": [name], "split": [split], "verb_classes": [[0]]})
    captions = pl.DataFrame({"caption_id": [name], "clip_id": [name], "text": ["x"], "noun_classes": [[1]]})
    save_corpus(make_corpus(clips, captions), folder / name)
    if names:
        save_class_names(folder / name, *names, "tagger")
    return folder / name


def paired(source: Path, target: Path) -> DomainPair:
    return pair_domains(load_source(source), load_target(target))


def test_classes_are_kept_where_they_mean_the_same(tmp_path: Path) -> None:
    names, others = (["run"], ["dog", "cat"]), (["run"], ["cat", "dog"])
    same = paired(classed(tmp_path, "a", "train", names), classed(tmp_path, "b", "test", names))
    save_pair(same, tmp_path / "out")
    assert (tmp_path / "out" / CLASS_NAMES).is_file()
    assert load_corpus(tmp_path / "out").captions["noun_classes"].to_list() == [[1], [1]]

    for unlike in (others, None):
        other = paired(tmp_path / "a", classed(tmp_path, "c", "test", unlike))
        assert [notice.left_out for notice in other.notices] == [True]
        save_pair(other, tmp_path / "out")
        assert not (tmp_path / "out" / CLASS_NAMES).exists()
        assert load_corpus(tmp_path / "out").clips["verb_classes"].to_list() == [None, None]

    unnamed = paired(classed(tmp_path, "d", "train", None), classed(tmp_path, "e", "test", None))
    assert [(notice.left_out, notice.sentence[:43]) for notice in unnamed.notices] == [
        (False, "The classes of both are taken to be of one ")
    ]
    assert unnamed.corpus.clips["verb_classes"].to_list() == [[0], [0]]


def test_words_on_screen_go_with_their_clips(tmp_path: Path) -> None:
    for name, one in (("source", SOURCE), ("target", TARGET)):
        save_corpus(one, tmp_path / name)
        save_texts(
            make_texts([{"clip_id": clip, "text": name} for clip in ("a", one.clips["clip_id"][3])]), tmp_path / name
        )
    save_pair(paired(tmp_path / "source", tmp_path / "target"), tmp_path / "out")
    texts = load_texts(tmp_path / "out")
    assert texts is not None
    assert texts.select("clip_id", "text").rows() == [
        ("source/a", "source"),
        ("a", "target"),
    ]  # no clip of other splits


def test_nothing_is_tested_that_was_learned_from(tmp_path: Path) -> None:
    save_corpus(SOURCE, tmp_path / "a")
    with pytest.raises(
        CorpusError, match=r"both the split 'val' of .*; a model would be tested on what it learned from"
    ):
        pair_domains(load_source(tmp_path / "a"), load_target(tmp_path / "a", "val"))
    with pytest.raises(CorpusError, match="cannot be tested on and chosen by"):
        load_target(tmp_path / "a", "val", "val")
    pair = pair_domains(load_source(tmp_path / "a"), load_target(tmp_path / "a"))  # another split of the same corpus
    assert pair.corpus.clips["domain"].to_list() == ["source", "source", "source", "target"]
    save_corpus(corpus({"a": "target_val", "b": "train"}), tmp_path / "pair")  # such as one made before
    with pytest.raises(CorpusError, match="both clips of the source and of the target would be the split 'target_val'"):
        pair_domains(
            load_source(tmp_path / "pair", ["train", "target_val"]), load_target(tmp_path / "a", "test", "val")
        )
    save_corpus(corpus({"a": None}), tmp_path / "b")
    with pytest.raises(CorpusError, match="Source and target are both all of"):
        pair_domains(load_source(tmp_path / "b"), load_target(tmp_path / "b"))


def test_what_cannot_be_joined_is_one_sentence() -> None:
    with pytest.raises(
        CorpusError, match=r"The source has no split 'training'; it has: train, val, test. Name one with"
    ):
        pair_domains(*sides(source={"training": "train"}))
    with pytest.raises(CorpusError, match="target has no split 'dev'; it has: test, val, train. .* --target-val"):
        pair_domains(*sides(target={"test": "test", "dev": "target_val"}))
    unlike = corpus({"a": "test"}, minutes=[["long"]])
    with pytest.raises(CorpusError, match=r"columns of one name that hold different things \(minutes\)"):
        pair_domains(sides()[0], DomainSide("target", unlike, {"test": "test"}))


def test_video2gif_of_the_official_files(shared_data: Path, tmp_path: Path) -> None:
    """MSR-VTT and the test GIFs of TGIF; captions of both are in files too large to be there."""
    for name, format_name in (("msrvtt", "msrvtt-7k"), ("tgif", "tgif")):
        save_corpus(FORMATS[format_name]([shared_data / name]).corpus, tmp_path / name)
    pair = paired(tmp_path / "msrvtt", tmp_path / "tgif")
    assert Counter(pair.corpus.clips.select("split", "domain").rows()) == {
        ("train", "source"): 7010,
        ("test", "target"): 11360,
    }
    gifs = (shared_data / "tgif" / "test.txt").read_text().split()
    named = [address.rsplit("/", 1)[1] for address in gifs]
    assert pair.corpus.clips.filter(pl.col("domain") == "target")["path"].to_list() == named
    assert pair.notices == ()
    assert [(one.sentence, one.left_out) for one in beside_published("video2gif", pair.corpus)] == [
        ("The split train has 7,010 clips, that of video2gif has 6,513.", False)
    ]
    fewer = Corpus(pair.corpus.clips.tail(11000), pair.corpus.captions)
    assert [(one.sentence, one.left_out) for one in beside_published("video2gif", fewer)] == [
        ("The split test has 11,000 clips, that of video2gif has 11,360.", True)
    ]
    with pytest.raises(CorpusError, match="published as 'life2movie'; there are: video2gif"):
        list(beside_published("life2movie", pair.corpus))
