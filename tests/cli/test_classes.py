"""`evenreel corpus classes` as a person types it: once in a real process, then by its `main` in this one."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from evenreel.cli.corpus.classes import ClassOptions, find_classes
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.errors import CorpusError, UsageError
from tests.cli.test_library_commands import evenreel, here, printed_json

TEXTS = ["cut tomato", "a man chops two tomatoes", "turn on the tap", "a sofa"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    captions = pl.DataFrame({"caption_id": list("0123"), "clip_id": ["a", "a", "b", "b"], "text": TEXTS})
    save_corpus(make_corpus(pl.DataFrame({"clip_id": ["a", "b", "silent"]}), captions), folder)
    return folder


def names(folder: Path, kind: str) -> list[str]:
    table = pl.read_parquet(folder / "classes.parquet").filter(pl.col("kind") == kind).sort("number")
    return table["name"].to_list()


def test_captions_and_clips_get_the_classes_of_their_words(corpus: Path) -> None:
    done = evenreel("corpus", "classes", corpus, "--tagger", "pattern")
    assert (done.returncode, done.stderr) == (0, "")
    assert "classes of verbs: cut, turn on" in done.stdout
    found = load_corpus(corpus)
    verbs, nouns = names(corpus, "verb"), names(corpus, "noun")
    assert [[verbs[number] for number in one] for one in found.captions["verb_classes"]] == [
        ["cut"], ["cut"], ["turn on"], []
    ]  # fmt: skip
    assert [{nouns[number] for number in one} for one in found.clips["noun_classes"]] == [
        {"tomato", "man"}, {"tap", "sofa"}, set()
    ]  # fmt: skip
    assert set(pl.read_parquet(corpus / "classes.parquet")["tagger"]) == {f"pattern (textblob {textblob_version()})"}


def textblob_version() -> str:
    from importlib.metadata import version

    return version("textblob")


def test_classes_that_are_there_are_kept_unless_asked(corpus: Path) -> None:
    assert here("corpus", "classes", corpus).returncode == 0
    before = load_corpus(corpus).captions
    done = here("corpus", "classes", corpus, "--min-captions", "2")
    assert done.returncode == 2
    assert "--replace" in done.stderr
    assert load_corpus(corpus).captions.equals(before)
    assert printed_json(here("corpus", "classes", corpus, "--min-captions", "2", "--replace", "--json"))["verbs"] == [
        "cut"
    ]


def test_a_share_and_synonyms_of_ones_own(corpus: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("noun: vegetable, tomato\n", encoding="utf-8")
    assert here("corpus", "classes", corpus, "--synonyms", own, "--share", "1").returncode == 0
    nouns = names(corpus, "noun")
    assert [[nouns[number] for number in one] for one in load_corpus(corpus).clips["noun_classes"]] == [
        ["vegetable"], [], []
    ]  # fmt: skip


def test_captions_that_are_not_english_are_noted(tmp_path: Path) -> None:
    texts = ["мужчина режет помидоры", "женщина играет на гитаре", "a dog runs"]
    captions = pl.DataFrame({"caption_id": list("012"), "clip_id": "a", "text": texts})
    save_corpus(make_corpus(pl.DataFrame({"clip_id": ["a"]}), captions), tmp_path)
    done = here("corpus", "classes", tmp_path, "--tagger", "pattern")
    assert done.returncode == 0
    assert "note: the dictionary does not know 78% of the nouns" in done.stdout
    again = printed_json(here("corpus", "classes", tmp_path, "--tagger", "pattern", "--replace", "--json"))
    assert again["unknown_share"] == pytest.approx(7 / 9)


def test_options_are_checked_before_the_work(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("captions were tagged")

    monkeypatch.setattr("evenreel.cli.corpus.classes._tagged", refuse)
    with pytest.raises(UsageError, match="more than 0 and at most 1"):
        ClassOptions("pattern", share=1.5)
    with pytest.raises(CorpusError, match="cannot be read"):
        find_classes(corpus, ClassOptions("pattern", synonyms=corpus / "missing.txt"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--tagger", "best"], "choose auto, pattern or spacy"),
        (["--share", "0"], "more than 0 and at most 1"),
        (["--synonyms", "missing.txt"], "cannot be read"),
    ],
)
def test_wrong_options_leave_the_corpus_alone(corpus: Path, options: list[str], sentence: str) -> None:
    done = here("corpus", "classes", corpus, *options)
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
    assert not (corpus / "classes.parquet").exists()
    assert load_corpus(corpus).captions["verb_classes"].is_null().all()
