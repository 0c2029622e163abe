"""A corpus on disk: what is saved is loaded, and what is broken is said."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.errors import CorpusError
from evenreel.types import Corpus


def corpus_of(*clip_ids: str) -> Corpus:
    return make_corpus(
        pl.DataFrame({"clip_id": clip_ids, "fps": 25.0, "verb_classes": [[1, 2]] * len(clip_ids), "own": "kept"}),
        pl.DataFrame({"caption_id": [f"q{one}" for one in clip_ids], "clip_id": clip_ids, "text": "a ball — é"}),
    )


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    corpus = corpus_of("a", "b")
    save_corpus(corpus, tmp_path / "new" / "corpus")
    again = load_corpus(tmp_path / "new" / "corpus")
    assert again.clips.equals(corpus.clips)
    assert again.captions.equals(corpus.captions)
    assert again.clips.schema == corpus.clips.schema


def test_saving_again_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    save_corpus(corpus_of("a", "b"), tmp_path)
    save_corpus(corpus_of("c"), tmp_path)
    assert load_corpus(tmp_path).clips["clip_id"].to_list() == ["c"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["captions.parquet", "clips.parquet"]


@pytest.mark.parametrize("name", ["clips.parquet", "captions.parquet"])
def test_a_missing_table_is_named(tmp_path: Path, name: str) -> None:
    save_corpus(corpus_of("a"), tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(CorpusError, match=f"There is no corpus in .*: {name} is missing; make one with"):
        load_corpus(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no table at all" * 10])
def test_a_broken_table_is_said_to_be_unreadable(tmp_path: Path, content: bytes) -> None:
    save_corpus(corpus_of("a"), tmp_path)
    (tmp_path / "captions.parquet").write_bytes(content)
    with pytest.raises(CorpusError, match=r"The corpus in .* cannot be read .* import it again\."):
        load_corpus(tmp_path)


def test_a_table_cut_off_anywhere_is_never_taken_for_a_corpus(tmp_path: Path) -> None:
    save_corpus(corpus_of("a", "b"), tmp_path)
    whole = (tmp_path / "clips.parquet").read_bytes()
    for length in range(0, len(whole), 97):
        (tmp_path / "clips.parquet").write_bytes(whole[:length])
        with pytest.raises(CorpusError):
            load_corpus(tmp_path)


def test_a_rule_broken_on_disk_is_told_with_the_folder(tmp_path: Path) -> None:
    save_corpus(corpus_of("a"), tmp_path)
    pl.DataFrame({"caption_id": ["0"], "clip_id": ["z"], "text": ["a"]}).write_parquet(tmp_path / "captions.parquet")
    with pytest.raises(CorpusError, match=r"breaks its rules:\nRow 1 of captions, column clip_id, names 'z'") as caught:
        load_corpus(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_crash_while_writing_leaves_the_old_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_corpus(corpus_of("a"), tmp_path)
    write, written = pl.DataFrame.write_parquet, []

    def write_one_then_die(table: pl.DataFrame, path: Path, **options: object) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(path)
        write(table, path, **options)

    monkeypatch.setattr(pl.DataFrame, "write_parquet", write_one_then_die)
    with pytest.raises(KeyboardInterrupt):
        save_corpus(corpus_of("b", "c"), tmp_path)
    assert load_corpus(tmp_path).clips["clip_id"].to_list() == ["a"]


def test_a_crash_between_the_two_tables_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the new clips and the old captions would make a valid corpus."""
    save_corpus(corpus_of("a"), tmp_path)
    replace, replaced = Path.replace, []

    def replace_one_then_die(path: Path, target: Path) -> Path:
        if replaced:
            raise KeyboardInterrupt
        replaced.append(path)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replace_one_then_die)
    with pytest.raises(KeyboardInterrupt):
        save_corpus(corpus_of("a", "b"), tmp_path)
    monkeypatch.undo()
    with pytest.raises(CorpusError, match=r"is half of one save and half of another .* import it again\."):
        load_corpus(tmp_path)
    save_corpus(corpus_of("a", "b"), tmp_path)
    assert load_corpus(tmp_path).clips["clip_id"].to_list() == ["a", "b"]


def test_tables_that_another_program_wrote_are_read(tmp_path: Path) -> None:
    corpus = corpus_of("a")
    corpus.clips.write_parquet(tmp_path / "clips.parquet")
    corpus.captions.write_parquet(tmp_path / "captions.parquet")
    assert load_corpus(tmp_path).captions.equals(corpus.captions)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CorpusError, match="The corpus cannot be written to .*file"):
        save_corpus(corpus_of("a"), tmp_path / "file")
