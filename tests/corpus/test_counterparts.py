"""Real clips and their mirrors: which belong together, how they are found and asked for; who lends words to whom."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.corpus.counterparts import (
    FoundVideos,
    GeneratedClip,
    GenerationRequest,
    Generator,
    assign_distractors,
    captions_of_real,
    counterparts,
    file_name,
    find_generated,
    groups_of,
    is_generated,
    join_captions,
    only_paired,
    pair_clips,
    path_from,
    setting_of,
    with_generated,
    write_prompts,
)
from evenreel.corpus.tables import as_cell, from_cell
from evenreel.errors import CorpusError, UsageError
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


SORA = Generator("sora", "text")


@pytest.fixture
def corpus() -> Corpus:
    clips = pl.DataFrame(
        {
            "clip_id": ["a", "b", "Games/c", "-d"],
            "path": ["real/a.mp4", "real/film.mkv", "real/film.webm", None],
            "split": ["train", "test", "test", None],
            "domain": ["sport", None, "news", None],
            "verb_classes": [[1], [], [2, 3], None],
            "duration_s": [4.0, 5.0, 6.0, 7.0],
        }
    )
    captions = pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "b"], "text": ["one", "two"]})
    return make_corpus(clips, captions)


def files(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"a video")
    return folder


def pairs_of(found: FoundVideos) -> dict[str, str]:
    return {one.clip_id: one.path for one in found.clips}


def test_a_mirror_is_a_row_of_its_own_after_the_others(corpus: Corpus, tmp_path: Path) -> None:
    done = pair_clips(corpus, [GeneratedClip("Games/c", "sora/c.mp4", SORA), GeneratedClip("a", "sora/a.mp4", SORA)])
    assert done.captions.equals(corpus.captions)
    assert done.clips.drop("setting").head(4).drop("source").equals(corpus.clips.drop("source"))
    assert done.clips["source"].to_list() == ["camera"] * 4 + ["sora"] * 2
    assert done.clips.tail(2).drop("frame_count", "fps", "start_s", "end_s", "noun_classes").rows() == [
        ("Games/c@sora-text", "sora/c.mp4", "test", "news", "sora", "Games/c", [2, 3], None, "text"),
        ("a@sora-text", "sora/a.mp4", "train", "sport", "sora", "a", [1], None, "text"),
    ]
    assert counterparts(done)["group"].to_list() == ["sora text", "sora text"]
    save_corpus(done, tmp_path)
    assert load_corpus(tmp_path).clips.equals(done.clips)


def test_groups_are_added_one_after_another(corpus: Corpus) -> None:
    once = pair_clips(corpus, [GeneratedClip("a", "open/a.mp4", Generator("open"))])
    assert "setting" not in once.clips.columns
    assert once.clips["clip_id"].to_list()[-1] == "a@open"
    twice = pair_clips(once, [GeneratedClip("a", "sora/a.mp4", SORA)])
    assert counterparts(twice)["group"].to_list() == ["open", "sora text"]
    assert twice.clips["source"].to_list() == ["camera"] * 4 + ["open", "sora"]
    assert pair_clips(twice, []) is twice


@pytest.mark.parametrize(
    ("clips", "said"),
    [
        ([("zz", "z.mp4", None)], "'zz', which is no clip of the corpus"),
        ([("a@open", "z.mp4", None)], "'a@open', which is a generated clip itself"),
        ([("b", "real/a.mp4", None)], "real/a.mp4 is the video of the clip 'a' already"),
        ([("b", "open/a.mp4", None)], "open/a.mp4 is the video of the clip 'a@open' already"),
        ([("a", "x.mp4", None), ("b", "x.mp4", None)], "x.mp4 is the video of the clip 'a@sora-text' already"),
        ([("a", "x.mp4", None), ("a", "y.webm", "other")], "two mirrors of sora text: x.mp4 and y.webm"),
        ([("a", "x.mp4", "b")], "The id 'b' of x.mp4 is that of another clip"),
    ],
)
def test_what_cannot_be_paired(corpus: Corpus, clips: list[tuple[str, str, str | None]], said: str) -> None:
    before = pair_clips(corpus, [GeneratedClip("a", "open/a.mp4", Generator("open"))])
    with pytest.raises(CorpusError, match=said):
        pair_clips(before, [GeneratedClip(clip_id, path, SORA, own) for clip_id, path, own in clips])


def test_the_same_group_twice_names_the_clip_that_is_there(corpus: Corpus) -> None:
    before = pair_clips(corpus, [GeneratedClip("a", "x.mp4", SORA)])
    with pytest.raises(CorpusError, match="two mirrors of sora text: the clip a@sora-text and y.mp4"):
        pair_clips(before, [GeneratedClip("a", "y.mp4", SORA)])


def test_many_violations_are_counted(corpus: Corpus) -> None:
    with pytest.raises(CorpusError) as caught:
        pair_clips(corpus, [GeneratedClip(f"no{n}", f"{n}.mp4", SORA) for n in range(12)])
    assert len(caught.value.args) == 6
    assert caught.value.args[-1] == "... and 7 more."


def test_videos_are_found_by_the_names_of_clips(corpus: Corpus, tmp_path: Path) -> None:
    folder = files(
        tmp_path / "new", "deep/a.MP4", "Games/c.webm", "-d.mp4", "b.mp4", "notes.txt", ".hidden.mp4", "q.mp4"
    )
    found = find_generated(corpus, folder, tmp_path, SORA)
    assert pairs_of(found) == {
        "a": "new/deep/a.MP4",
        "Games/c": "new/Games/c.webm",
        "-d": "new/-d.mp4",
        "b": "new/b.mp4",
    }
    assert found.strangers == (str(folder / "q.mp4"),)
    assert {one.generator for one in found.clips} == {SORA}


def test_a_video_may_have_the_name_of_the_real_one_or_of_a_prompts_file(corpus: Corpus, tmp_path: Path) -> None:
    alone = make_corpus(corpus.clips.filter(pl.col("clip_id") == "b"), corpus.captions.filter(pl.col("clip_id") == "b"))
    folder = files(tmp_path / "new", "film.mp4")
    assert pairs_of(find_generated(alone, folder, tmp_path / "new", SORA)) == {"b": "film.mp4"}
    encoded = files(tmp_path / "encoded", f"{file_name('Games/c')}.mp4")
    assert list(pairs_of(find_generated(corpus, encoded, tmp_path, SORA))) == ["Games/c"]
    long = make_corpus(pl.DataFrame({"clip_id": ["games/" * 40]}), corpus.captions.clear())
    shortened = files(tmp_path / "shortened", f"{file_name('games/' * 40)}.mp4")
    assert list(pairs_of(find_generated(long, shortened, tmp_path, SORA))) == ["games/" * 40]


def test_a_name_that_several_clips_share_is_not_guessed(corpus: Corpus, tmp_path: Path) -> None:
    folder = files(tmp_path, "film.mp4")
    with pytest.raises(CorpusError, match=r"could mirror 2 clips, whose videos are all called 'film' \(b, Games/c\)"):
        find_generated(corpus, folder, tmp_path, SORA)


def test_a_table_says_which_video_is_whose(corpus: Corpus, tmp_path: Path) -> None:
    files(tmp_path / "new", "1.mp4", "2.mp4", "3.mp4")
    table = tmp_path / "new" / "made.csv"
    table.write_text(
        "clip_id,path,generated_id,source,setting,prompt\n"
        'a,1.mp4,,,,"=1, 2"\n'
        f"{as_cell('-d')},2.mp4,mine,open,image,x\n"
        "b,,,,,not generated\n"
        "zz,3.mp4,,,,x\n"
        "Games/c,4.mp4,,,,x\n"
    )
    found = find_generated(corpus, table, tmp_path / "elsewhere", SORA)
    assert found.clips == (
        GeneratedClip("a", str(tmp_path / "new" / "1.mp4"), SORA),
        GeneratedClip("-d", str(tmp_path / "new" / "2.mp4"), Generator("open", "image"), "mine"),
    )
    assert found.strangers == ("3.mp4 (made.csv, line 5: zz)",)
    assert found.missing == ("4.mp4 (made.csv, line 6: Games/c)",)


def test_who_made_it_must_be_said(corpus: Corpus, tmp_path: Path) -> None:
    files(tmp_path, "a.mp4")
    (tmp_path / "made.csv").write_text("clip_id,path\na,a.mp4\n")
    for place in (tmp_path, tmp_path / "made.csv"):
        with pytest.raises(CorpusError, match="--source"):
            find_generated(corpus, place, tmp_path)
    with pytest.raises(CorpusError, match="does not exist"):
        find_generated(corpus, tmp_path / "gone", tmp_path, SORA)
    (tmp_path / "made.csv").write_text("clip,path\na,a.mp4\n")
    with pytest.raises(CorpusError, match="no column clip_id"):
        find_generated(corpus, tmp_path / "made.csv", tmp_path, SORA)


@pytest.mark.parametrize(("source", "setting"), [("", None), (" ", None), ("camera", "text"), ("sora", " ")])
def test_names_of_generators(source: str, setting: str | None) -> None:
    with pytest.raises(CorpusError, match="generated clips is"):
        Generator(source, setting)


def test_paths_begin_in_the_folder_of_videos_where_they_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert path_from(Path("videos"), Path("videos/new/../x/a.mp4")) == "x/a.mp4"
    assert path_from(Path("videos"), Path("new/a.mp4")) == str(tmp_path / "new" / "a.mp4")
    assert path_from(Path("videos"), tmp_path / "videos" / "a.mp4") == "a.mp4"


@settings(max_examples=10)
@given(
    st.sets(
        st.tuples(st.integers(0, 5), st.sampled_from(["sora", "open"]), st.sampled_from(["text", "image"])),
        min_size=1,
        max_size=4,
    )
)
def test_every_mirror_is_found_again_as_a_counterpart(made: set[tuple[int, str, str]]) -> None:
    """In one go or group by group, whatever the order."""
    clips = pl.DataFrame({"clip_id": [f"c{n}" for n in range(6)], "split": ["train", "test"] * 3})
    captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["c0"], "text": ["x"]})
    start = make_corpus(clips, captions)
    generated = [GeneratedClip(f"c{n}", f"{n}{s}{g}.mp4", Generator(s, g)) for n, s, g in sorted(made)]
    together = pair_clips(start, generated)
    stepwise = start
    for one in reversed(generated):
        stepwise = pair_clips(stepwise, [one])
    wanted = {(one.clip_id, one.own_id, one.generator.group) for one in generated}
    assert set(counterparts(together).rows()) == set(counterparts(stepwise).rows()) == wanted
    splits = dict(together.clips.select("clip_id", "split").iter_rows())
    assert all(splits[mirror] == splits[real] for real, mirror, _ in wanted)


@pytest.mark.parametrize(
    ("captions", "joined"),
    [
        (["a man sings", "a band plays"], "A man sings. A band plays."),
        (["a man sings", "A man  sings. ", "a man sings"], "A man sings."),
        (["a man , a dog ,", "- is it art ?"], "A man, a dog. Is it art?"),
        (["", "  ", "...", "what!"], "What!"),
        (["école", "ÉCOLE"], "École."),
        ([], ""),
    ],
)
def test_distinct_captions_become_a_sentence_each(captions: list[str], joined: str) -> None:
    assert join_captions(captions) == joined


def test_the_first_so_many_distinct_captions() -> None:
    assert join_captions(["a", "A.", "b", "c"], most=2) == "A. B."


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_joining_says_nothing_twice_and_adds_no_word(captions: list[str]) -> None:
    joined = join_captions(captions)
    assert joined == " ".join(joined.split())
    assert not joined.startswith(("=", "+", "-", "@"))
    said = set(re.findall(r"\w+", joined.casefold()))
    assert said <= set(re.findall(r"\w+", " ".join(captions).casefold()))
    assert join_captions([*captions, *captions]) == joined


def test_real_clips_are_asked_for_in_their_order() -> None:
    clips = pl.DataFrame(
        {
            "clip_id": ["b", "a", "m", "silent"],
            "source": [None, "camera", "sora", None],
            "pair_id": [None, None, "a", None],
        }
    )
    captions = pl.DataFrame({"caption_id": list("123"), "clip_id": ["a", "b", "a"], "text": ["x", "y", "z"]})
    corpus = make_corpus(clips, captions)
    assert list(captions_of_real(corpus).items()) == [("b", ["y"]), ("a", ["x", "z"]), ("silent", [])]


def test_settings() -> None:
    assert setting_of("image") == "image"
    with pytest.raises(UsageError, match="there are: text, image, video"):
        setting_of("images")


@given(st.sets(st.text(st.characters(codec="utf-8"), min_size=1, max_size=80)))
def test_names_of_files_differ_and_stay_in_their_folder(clip_ids: set[str]) -> None:
    names = {file_name(clip_id) for clip_id in clip_ids}
    assert len(names) == len(clip_ids)
    for name in names:
        assert Path("folder", f"{name}.mp4").parent == Path("folder")
        assert re.fullmatch(r"[A-Za-z0-9_.~@%-]{1,180}", name)


@given(st.text())
def test_no_cell_is_a_formula_and_each_is_read_as_it_was(text: str) -> None:
    assert not as_cell(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert from_cell(as_cell(text)) == text


def test_the_table_of_prompts(tmp_path: Path) -> None:
    requests = [
        GenerationRequest("-4ws_1", "image", 'A "dog", wet.', tmp_path / "keyframes" / "-4ws_1.png"),
        GenerationRequest("b", "image", "=1+1\nnext", None, tmp_path / "first_halves" / "b.mp4"),
    ]
    write_prompts(tmp_path / "prompts.csv", requests)
    with (tmp_path / "prompts.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["clip_id", "setting", "prompt", "keyframe", "first_half"],
            ["'-4ws_1", "image", 'A "dog", wet.', "keyframes/-4ws_1.png", ""],
            ["b", "image", "'=1+1\nnext", "", "first_halves/b.mp4"],
        ]
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"prompts\.csv cannot be written"):
        write_prompts(tmp_path / "file" / "prompts.csv", requests)


@given(carriers=st.integers(2, 30), distractors=st.integers(2, 30), seed=st.integers(0, 100))
def test_nobody_borrows_from_itself_and_all_lend_about_as_often(carriers: int, distractors: int, seed: int) -> None:
    ids = [f"v{number}" for number in range(max(carriers, distractors))]
    dealt = assign_distractors(ids[:carriers], ids[:distractors], str.__ne__, np.random.default_rng(seed))
    assert [*dealt] == ids[:carriers]
    assert all(carrier != distractor for carrier, distractor in dealt.items())
    counts = Counter(dealt.values())
    often = [counts[one] for one in ids[:distractors]]
    assert max(often) - min(often) <= 2, "one exchange that cannot be made costs one distractor a turn"
    assert set(dealt.values()) <= set(ids[:distractors])


@given(words=st.lists(st.sampled_from("abcd"), min_size=2, max_size=20), seed=st.integers(0, 100))
def test_only_words_that_fit_are_lent(words: list[str], seed: int) -> None:
    """By hand: a clip can borrow where another word than its own is there, so all can but where all have one word."""
    ids = [f"{word}{number}" for number, word in enumerate(words)]

    def fits(one: str, other: str) -> bool:
        return one[0] != other[0]

    if len(set(words)) < 2:
        with pytest.raises(CorpusError, match=f"could be put onto the clip '{ids[0]}'"):
            assign_distractors(ids, ids, fits, np.random.default_rng(seed))
        return
    dealt = assign_distractors(ids, ids, fits, np.random.default_rng(seed))
    assert all(fits(*pair) for pair in dealt.items())


def test_the_same_seed_lends_the_same_and_nobody_to_lend_is_a_sentence() -> None:
    ids = [f"v{number}" for number in range(40)]
    first, again, other = (assign_distractors(ids, ids, str.__ne__, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first == again != other
    with pytest.raises(CorpusError, match="Give a corpus of more clips, or of more words"):
        assign_distractors(ids, [], str.__ne__, np.random.default_rng(0))
