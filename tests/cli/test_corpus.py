"""`evenreel corpus import`, `info` and `classes` as a person types them."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

import polars as pl
import pytest

from evenreel.corpus import FORMATS, load_corpus, load_texts, make_corpus, save_corpus
from evenreel.corpus.summary import lengths_s
from evenreel.corpus.tables import save_class_names
from tests.cli.test_library_commands import here, printed_json
from tests.corpus.formats.test_official import textvr, write

TABLE = "clip_id,text,split,domain,start_s,end_s,frame_count,fps,verb_classes,annotator\n" + (
    'a,one,train,games,0,4,,,"[1, 2]",kim\n'
    'a,two,train,games,0,4,,,"[1, 2]",lee\n'
    "b,three,train,sports,,,100,50,[2],kim\n"
    "c,four,test,sports,,,,,,kim\n"
)

SIGN = {"text": "SALE [red]", "score": 0.9, "tracks": {"1": [0] * 10}}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(tmp_path / "in", {"mine.csv": TABLE}) / "mine.csv"


def test_import_writes_a_corpus_and_says_what_it_holds(table: Path, tmp_path: Path) -> None:
    done = here("corpus", "import", "table", table, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("out: 3 clips, 4 captions\n  train: 2 clips, 3 captions\n  test: 1 clip, 1 caption\n")
    assert load_corpus(tmp_path / "out").captions["annotator"].to_list() == ["kim", "lee", "kim", "kim"]


def test_import_over_another_corpus_says_so_and_leaves_nothing_of_it(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    here("corpus", "import", "table", table, "--out", out)
    save_class_names(out, ["run"], ["dog"], "tagger")
    done = here("corpus", "import", "table", table, "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    told = " ".join(done.stdout.split())
    assert f"note: What was in {out} is replaced: captions.parquet, classes.parquet, clips.parquet." in told
    assert sorted(path.name for path in out.iterdir()) == ["captions.parquet", "clips.parquet"]


def test_import_as_json_and_one_split(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = printed_json(here("corpus", "import", "table", table, "--out", out, "--split", "test", "--json"))
    assert (told["clips"], told["splits"], told["notices"]) == (1, {"test": {"clips": 1, "captions": 1}}, [])


def test_what_cannot_be_imported_or_read_is_a_sentence(table: Path, tmp_path: Path) -> None:
    rows = "caption_id,clip_id,text,start_s,end_s\n0,a,x,3,2\n0,a,y,3,2\n"
    broken = write(tmp_path / "broken", {"b.csv": rows}) / "b.csv"
    for words, status, sentence in (
        (("table", table, "--split", "tset"), 1, "the splits are: test, train"),
        (("msrvt", tmp_path), 2, f"There is no format 'msrvt'; there are: {', '.join(FORMATS)}."),
        (("msvd", tmp_path), 1, "MSVD needs captions_msvd.json"),
        (("table", broken), 1, "caption_id, is '0' as in row 1"),
        (("table", broken), 1, "ends after it starts"),
    ):
        done = here("corpus", "import", *words, "--out", tmp_path / "out")
        assert (done.returncode, done.stdout) == (status, "") and sentence in done.stderr
        assert not (tmp_path / "out").exists()
    assert "clips.parquet is missing" in here("corpus", "info", tmp_path).stderr


def test_what_is_left_out_is_said_and_is_exit_status_3(tmp_path: Path) -> None:
    rows = [textvr("Games/[bold]a.mp4", "A sale.", "Games/a.json"), textvr("Games/b.mp4", "Salt.", "Games/b.json")]
    write(tmp_path / "in", {"TextVR_test.json": rows, "Games/a.json": {"0": SIGN}})
    done = here("corpus", "import", "textvr", tmp_path / "in", "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines()[0].endswith("2 clips, 2 captions, 1 sign on screen")
    assert "  left out: 1 clips have no file of words on screen (Games/b)." in done.stdout
    texts = load_texts(tmp_path / "out")
    assert texts is not None
    assert texts["text"].to_list() == ["SALE [red]"]
    again = here(
        "corpus", "import", "textvr", tmp_path / "in" / "TextVR_test.json", "--out", tmp_path / "out", "--json"
    )
    assert again.returncode == 3
    assert [notice["left_out"] for notice in json.loads(again.stdout)["notices"]] == [False, True, False]
    assert load_texts(tmp_path / "out") is None  # the words of the corpus before are gone with it


def test_notices_of_a_split_that_is_not_kept_do_not_count(tmp_path: Path) -> None:
    rows = "".join(f"ret{n},msr{n},video{n},a person talks\n" for n in range(1000))
    files = {
        "MSRVTT_JSFUSION_test.csv": f"key,vid_key,video_id,sentence\n{rows}",
        "MSRVTT_train.9k.csv": "video_id\nx\n",
    }
    write(tmp_path / "in", files)
    whole = here("corpus", "import", "msrvtt-1ka", tmp_path / "in", "--out", tmp_path / "out")
    assert whole.returncode == 3 and "1 of its 9,000 official clips" in whole.stdout
    part = here("corpus", "import", "msrvtt-1ka", tmp_path / "in", "--out", tmp_path / "part", "--split", "test")
    assert (part.returncode, part.stdout.count("\n")) == (0, 2)


def test_info(table: Path, tmp_path: Path) -> None:
    here("corpus", "import", "table", table, "--out", tmp_path / "out")
    done = here("corpus", "info", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        "captions a clip: 1 to 2, median 1",
        "length in seconds: 2 to 4, median 3 (known of 2 of 3 clips)",
        "domain: sports 2, games 1",
        "classes: 2 of verbs, 0 of nouns",
    ):
        assert line in done.stdout
    told = printed_json(here("corpus", "info", tmp_path / "out", "--json"))
    assert told["sources"] == {"(none)": 3}
    assert told["length_s"] == {"least": 2, "median": 3, "greatest": 4, "known": 2}
    assert told["texts"] is None


def test_lengths_come_from_times_else_the_annotation_else_the_frames() -> None:
    columns = ["clip_id", "start_s", "end_s", "duration_s", "frame_count", "fps"]
    rows = [("a", 1.0, 3.5, 9.0, None, None), ("b", None, None, 9.0, 50, 25.0), ("c", None, None, None, 50, 25.0)]
    clips = pl.DataFrame([*rows, ("d", None, None, None, 50, None)], columns, orient="row")
    captions = pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String})
    assert lengths_s(make_corpus(clips, captions).clips).to_list() == [2.5, 9.0, 2.0, None]


def test_the_page_lists_the_formats_that_there_are() -> None:
    page = Path(__file__).parents[2] / "docs" / "corpora.md"
    section = page.read_text(encoding="utf-8").partition("## Formats")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `([\w-]+)` \|", section, flags=re.MULTILINE)
    assert named == list(FORMATS)


TEXTS = ["cut tomato", "a man chops two tomatoes", "turn on the tap", "a sofa"]


@pytest.fixture
def worded(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    captions = pl.DataFrame({"caption_id": list("0123"), "clip_id": ["a", "a", "b", "b"], "text": TEXTS})
    save_corpus(make_corpus(pl.DataFrame({"clip_id": ["a", "b", "silent"]}), captions), folder)
    return folder


def names(folder: Path, kind: str) -> list[str]:
    table = pl.read_parquet(folder / "classes.parquet").filter(pl.col("kind") == kind).sort("number")
    return table["name"].to_list()


def test_captions_and_clips_get_the_classes_of_their_words(worded: Path) -> None:
    done = here("corpus", "classes", worded, "--tagger", "pattern")
    assert (done.returncode, done.stderr) == (0, "")
    assert "classes of verbs: cut, turn on" in done.stdout
    found = load_corpus(worded)
    verbs, nouns = names(worded, "verb"), names(worded, "noun")
    assert [[verbs[number] for number in one] for one in found.captions["verb_classes"]] == [
        ["cut"], ["cut"], ["turn on"], []
    ]  # fmt: skip
    assert [{nouns[number] for number in one} for one in found.clips["noun_classes"]] == [
        {"tomato", "man"}, {"tap", "sofa"}, set()
    ]  # fmt: skip
    tagger = f"pattern (textblob {version('textblob')})"
    assert set(pl.read_parquet(worded / "classes.parquet")["tagger"]) == {tagger}


def test_classes_that_are_there_are_kept_unless_asked(worded: Path) -> None:
    assert here("corpus", "classes", worded).returncode == 0
    before = load_corpus(worded).captions
    done = here("corpus", "classes", worded, "--min-captions", "2")
    assert done.returncode == 2 and "--replace" in done.stderr
    assert load_corpus(worded).captions.equals(before)
    assert printed_json(here("corpus", "classes", worded, "--min-captions", "2", "--replace", "--json"))["verbs"] == [
        "cut"
    ]


def test_a_share_and_synonyms_of_ones_own(worded: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("noun: vegetable, tomato\n", encoding="utf-8")
    assert here("corpus", "classes", worded, "--synonyms", own, "--share", "1").returncode == 0
    nouns = names(worded, "noun")
    assert [[nouns[number] for number in one] for one in load_corpus(worded).clips["noun_classes"]] == [
        ["vegetable"], [], []
    ]  # fmt: skip


def test_captions_that_are_not_english_are_noted(tmp_path: Path) -> None:
    texts = ["мужчина режет помидоры", "женщина играет на гитаре", "a dog runs"]
    captions = pl.DataFrame({"caption_id": list("012"), "clip_id": "a", "text": texts})
    save_corpus(make_corpus(pl.DataFrame({"clip_id": ["a"]}), captions), tmp_path)
    done = here("corpus", "classes", tmp_path, "--tagger", "pattern")
    assert done.returncode == 0 and "note: the dictionary does not know 78% of the nouns" in done.stdout
    again = printed_json(here("corpus", "classes", tmp_path, "--tagger", "pattern", "--replace", "--json"))
    assert again["unknown_share"] == pytest.approx(7 / 9)


def test_wrong_options_leave_the_corpus_alone(worded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.cli.corpus.command._tagged", lambda *_: pytest.fail("captions were tagged"))
    for option, value, sentence in (
        ("--tagger", "best", "choose auto, pattern or spacy"),
        ("--share", "0", "more than 0 and at most 1"),
        ("--share", "1.5", "more than 0 and at most 1"),
        ("--synonyms", "missing.txt", "cannot be read"),
    ):
        done = here("corpus", "classes", worded, option, value)
        assert done.returncode in (1, 2) and sentence in done.stderr
    assert not (worded / "classes.parquet").exists()
    assert load_corpus(worded).captions["verb_classes"].is_null().all()
