"""A corpus on disk: what is saved is loaded, and what is broken is said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
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


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """The step-th write or rename of the next save does not happen, nor anything after it."""
    left = iter(range(step))

    def until_then(action: Callable[..., object]) -> Callable[..., object]:
        def one(*arguments: object, **options: object) -> object:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return action(*arguments, **options)

        return one

    monkeypatch.setattr(pl.DataFrame, "write_parquet", until_then(pl.DataFrame.write_parquet))
    monkeypatch.setattr(Path, "replace", until_then(Path.replace))


@pytest.mark.parametrize(("step", "loaded"), [(0, "a"), (1, "a"), (2, "a"), (3, "ab"), (4, "ab")])
@pytest.mark.parametrize("again", range(6))
def test_a_corpus_outlives_a_crash_of_a_save_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, loaded: str, again: int
) -> None:
    """And a second crash of the next save; the new clips with the old captions would make a valid corpus too."""
    save_corpus(corpus_of("a"), tmp_path)
    crash_at(monkeypatch, step)
    with pytest.raises(KeyboardInterrupt) if step < 4 else contextlib.nullcontext():
        save_corpus(corpus_of("a", "b"), tmp_path)
    monkeypatch.undo()
    found = load_corpus(tmp_path)
    assert "".join(found.clips["clip_id"]) == "".join(found.captions["clip_id"]) == loaded
    crash_at(monkeypatch, again)
    with contextlib.suppress(KeyboardInterrupt):
        save_corpus(corpus_of("a", "b", "c"), tmp_path)
    monkeypatch.undo()
    found = load_corpus(tmp_path)
    assert "".join(found.clips["clip_id"]) == "".join(found.captions["clip_id"])
    assert "".join(found.clips["clip_id"]) in (loaded, "abc")


def test_a_first_save_that_ended_between_the_two_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crash_at(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        save_corpus(corpus_of("a"), tmp_path)
    monkeypatch.undo()
    assert load_corpus(tmp_path).captions["clip_id"].to_list() == ["a"]


def test_captions_of_other_clips_are_noticed(tmp_path: Path) -> None:
    save_corpus(corpus_of("a"), tmp_path / "one")
    save_corpus(corpus_of("a", "b"), tmp_path / "two")
    (tmp_path / "two" / "clips.parquet").replace(tmp_path / "one" / "clips.parquet")
    with pytest.raises(CorpusError, match=r"is half of one save and half of another .* import it again\."):
        load_corpus(tmp_path / "one")
    save_corpus(corpus_of("a", "b"), tmp_path / "one")
    assert load_corpus(tmp_path / "one").clips["clip_id"].to_list() == ["a", "b"]


def test_tables_that_another_program_wrote_are_read(tmp_path: Path) -> None:
    corpus = corpus_of("a")
    corpus.clips.write_parquet(tmp_path / "clips.parquet")
    corpus.captions.write_parquet(tmp_path / "captions.parquet")
    assert load_corpus(tmp_path).captions.equals(corpus.captions)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CorpusError, match="The corpus cannot be written to .*file"):
        save_corpus(corpus_of("a"), tmp_path / "file")
