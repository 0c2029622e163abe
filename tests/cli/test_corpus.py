"""`evenreel corpus` as a person types it: once in a real process, then by its `main` in this one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from evenreel.corpus import FORMATS, load_corpus, load_texts, summarise
from evenreel.corpus.annotation import save_class_names
from evenreel.corpus.summary import lengths_s
from evenreel.corpus.tables import make_corpus
from tests.cli.test_library_commands import evenreel, here, printed_json
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
    done = evenreel("corpus", "import", "table", table, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"Wrote {tmp_path / 'out'}: 3 clips, 4 captions",
        "  train: 2 clips, 3 captions",
        "  test: 1 clip, 1 caption",
    ]
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
    assert printed_json(here("corpus", "import", "table", table, "--out", out, "--split", "test", "--json")) == {
        "corpus": str(out),
        "clips": 1,
        "captions": 1,
        "texts": None,
        "splits": {"test": {"clips": 1, "captions": 1}},
        "notices": [],
    }


def test_a_split_that_is_not_there(table: Path, tmp_path: Path) -> None:
    done = here("corpus", "import", "table", table, "--out", tmp_path / "out", "--split", "tset")
    assert done.returncode == 1
    assert "the splits are: test, train" in done.stderr
    assert not (tmp_path / "out").exists()


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
    assert whole.returncode == 3
    assert "1 of its 9,000 official clips" in whole.stdout
    part = here("corpus", "import", "msrvtt-1ka", tmp_path / "in", "--out", tmp_path / "part", "--split", "test")
    assert (part.returncode, part.stdout.count("\n")) == (0, 2)


def test_an_unknown_format_lists_those_there_are(tmp_path: Path) -> None:
    done = here("corpus", "import", "msrvt", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr == f"evenreel: There is no format 'msrvt'; there are: {', '.join(FORMATS)}.\n"


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    done = here("corpus", "import", "msvd", tmp_path, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("evenreel: MSVD needs captions_msvd.json")
    assert done.stderr.count("\n") == 1


def test_every_broken_rule_has_a_line_of_its_own(tmp_path: Path) -> None:
    table = "caption_id,clip_id,text,start_s,end_s\n0,a,x,3,2\n0,a,y,3,2\n"
    folder = write(tmp_path / "in", {"mine.csv": table})
    done = here("corpus", "import", "table", folder / "mine.csv", "--out", tmp_path / "out")
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert "caption_id, is '0' as in row 1" in first
    assert "ends after it starts" in second


def test_info(table: Path, tmp_path: Path) -> None:
    here("corpus", "import", "table", table, "--out", tmp_path / "out")
    done = here("corpus", "info", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{tmp_path / 'out'}: 3 clips, 4 captions",
        "  train: 2 clips, 3 captions",
        "  test: 1 clip, 1 caption",
        "  captions a clip: 1 to 2, median 1",
        "  length in seconds: 2 to 4, median 3 (known of 2 of 3 clips)",
        "  frames: 100 to 100, median 100 (known of 1 of 3 clips)",
        "  domain: sports 2, games 1",
        "  classes: 2 of verbs, 0 of nouns",
        "  more columns of captions: annotator",
    ]
    told = printed_json(here("corpus", "info", tmp_path / "out", "--json"))
    assert told["sources"] == {"(none)": 3}
    assert told["length_s"] == {"least": 2, "median": 3, "greatest": 4, "known": 2}
    assert told["texts"] is None


def test_info_of_what_is_no_corpus(tmp_path: Path) -> None:
    done = here("corpus", "info", tmp_path)
    assert done.returncode == 1
    assert "clips.parquet is missing; make one with `evenreel corpus import`" in done.stderr


def test_lengths_come_from_times_else_the_annotation_else_the_frames() -> None:
    clips = pl.DataFrame(
        {
            "clip_id": ["a", "b", "c", "d"],
            "start_s": [1.0, None, None, None],
            "end_s": [3.5, None, None, None],
            "duration_s": [9.0, 9.0, None, None],
            "frame_count": [None, 50, 50, 50],
            "fps": [None, 25.0, 25.0, None],
        }
    )
    captions = pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String})
    corpus = make_corpus(clips, captions)
    assert lengths_s(corpus.clips).to_list() == [2.5, 9.0, 2.0, None]
    assert summarise(corpus).captions_a_clip is not None


def test_the_page_lists_the_formats_that_there_are() -> None:
    page = Path(__file__).parents[2] / "docs" / "corpora.md"
    section = page.read_text(encoding="utf-8").partition("## Formats")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `([\w-]+)` \|", section, flags=re.MULTILINE)
    assert named == list(FORMATS)
