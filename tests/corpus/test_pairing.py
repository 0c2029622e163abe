"""Generated videos found in folders and tables, and put into a corpus."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.corpus.counterparts import (
    FoundVideos,
    GeneratedClip,
    Generator,
    counterparts,
    file_name,
    find_generated,
    pair_clips,
    path_from,
)
from evenreel.corpus.tables import as_cell
from evenreel.errors import CorpusError
from evenreel.types import Corpus

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
