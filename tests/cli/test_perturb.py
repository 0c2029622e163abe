"""`evenreel perturb` as it is typed: captions change, ids and clips do not."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.errors import CorpusError, UsageError
from tests.cli.test_library_commands import here

TEXTS = ["In this video we see a man who runs.", "a dog jumps, as one can see", "a video."]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("perturb")
    ids = ["a", "b", "c"]
    clips = pl.DataFrame({"clip_id": ids, "path": [f"{one}.mp4" for one in ids], "split": ["test", "test", "val"]})
    captions = {"caption_id": ["0", "1", "2"], "clip_id": ids, "text": TEXTS, "writer": ["x", "y", "z"]}
    save_corpus(make_corpus(clips, pl.DataFrame(captions)), place / "corpus")
    (place / "words.csv").write_text('caption_id,paraphrase\n1,"a hound leaps, high"\n')
    (place / "bare.csv").write_text("caption_id,words\n1,x\n")
    (place / "twice.csv").write_text("caption_id,paraphrase\n1,x\n1,y\n")
    (place / "other.csv").write_text("caption_id,paraphrase\n9,x\n")
    (place / "empty.csv").write_text("caption_id,paraphrase\n0,x\n1, \n")
    return place


def perturbed(place: Path, out: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["perturb", str(place / "corpus"), "--out", str(out), *words])


def texts(folder: Path) -> list[str]:
    return load_corpus(folder).captions["text"].to_list()


def test_style_is_removed_and_everything_else_stays(place: Path, tmp_path: Path) -> None:
    done = here("perturb", place / "corpus", "--edit", "style-removed", "--out", tmp_path / "new", COLUMNS="200")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"  {TEXTS[0]}\n  became a man who runs\n" in done.stdout
    assert "In 1 caption nothing is to be changed beyond capital and full stop" in done.stdout
    clean, after = load_corpus(place / "corpus"), load_corpus(tmp_path / "new")
    assert after.clips.equals(clean.clips)
    assert after.captions.drop("text").equals(clean.captions.drop("text")[:2])
    assert after.captions["text"].to_list() == ["a man who runs", "a dog jumps"]


def test_captions_that_stay_as_they_were_are_kept_on_request(place: Path, tmp_path: Path) -> None:
    asked = ("--edit", "style-removed", "--json")
    kept = perturbed(place, tmp_path / "all", *asked, "--keep-unchanged")
    expected = {"corpus": str(tmp_path / "all"), "captions": 3, "changed": 2, "left_out": 0}
    assert json.loads(kept.stdout) == expected
    assert texts(tmp_path / "all") == ["a man who runs", "a dog jumps", TEXTS[2]]
    none = perturbed(place, tmp_path / "none", *asked, "--split", "val")
    assert isinstance(none.exception, CorpusError) and "In none of the 1 captions" in str(none.exception)
    over = perturbed(place, place / "corpus", "--edit", "control").exception
    assert isinstance(over, CorpusError) and "is the corpus itself" in str(over)


def test_other_edits_and_one_split(place: Path, tmp_path: Path) -> None:
    for edit, expected in {
        "content-removed": ["In this video we see something.", "something, as one can see"],
        "style-swapped": ["a man who runs, as one can see", "In this video we see a dog jumps."],
        "control": ["in this video we see a man who runs", "A dog jumps, as one can see."],
    }.items():
        assert perturbed(place, tmp_path / edit, "--edit", edit, "--split", "test").exit_code == 0
        assert texts(tmp_path / edit) == expected


def test_paraphrases_come_from_a_table_or_from_patterns(place: Path, tmp_path: Path) -> None:
    asked = ("--edit", "paraphrased")
    assert perturbed(place, tmp_path / "a", *asked, "--paraphrases", str(place / "words.csv")).exit_code == 0
    assert texts(tmp_path / "a") == ["a hound leaps, high"]
    assert perturbed(place, tmp_path / "b", *asked, "--pattern", "so: {caption}").exit_code == 0
    assert texts(tmp_path / "b") == [f"so: i{TEXTS[0][1:]}", f"so: {TEXTS[1]}", f"so: {TEXTS[2]}"]


WRONG = [
    ("--edit style", UsageError, "'style' is no edit of captions; there are: style-removed, style-swapped"),
    ("--edit paraphrased", UsageError, "goes with either --pattern or --paraphrases; give one of the two"),
    ("--edit control --pattern {caption}", UsageError, "go with --edit paraphrased; leave them out"),
    ("--edit paraphrased --pattern x", UsageError, "has {caption} 0 times; write it once"),
    ("--edit style-removed --tagger nltk", UsageError, "There is no tagger 'nltk'"),
    ("--edit paraphrased --paraphrases none.csv", CorpusError, "none.csv"),
    ("--edit paraphrased --paraphrases bare.csv", CorpusError, "bare.csv has no column 'paraphrase'"),
    ("--edit paraphrased --paraphrases twice.csv", CorpusError, "names captions twice (1); give each one row"),
    ("--edit paraphrased --paraphrases other.csv", CorpusError, "names captions that are not in the corpus (9)"),
    ("--edit paraphrased --paraphrases empty.csv", CorpusError, "Row 2 of empty.csv lacks caption_id or paraphrase"),
]


def test_what_is_wrong_is_said_in_a_sentence(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(place)
    for words, error, sentence in WRONG:
        done = perturbed(place, tmp_path / "new", *words.split())
        assert isinstance(done.exception, error) and sentence in str(done.exception), words
    assert not (tmp_path / "new").exists()
