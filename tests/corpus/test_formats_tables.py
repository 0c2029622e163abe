"""A user's own tables and data sets of the Hugging Face hub."""

from __future__ import annotations

import json
from pathlib import Path

import huggingface_hub
import polars as pl
import pytest

from evenreel.corpus import FORMATS, Imported
from evenreel.errors import CorpusError
from tests.corpus.test_formats_official import splits, texts, write

ROWS = pl.DataFrame(
    {"video": ["x/a.mp4", "x/b.mp4", "x/a.mp4"], "caption": ["one", "two", "three"], "stars": [1, 2, 3]}
)


def test_a_csv_with_standard_columns_and_own_ones(tmp_path: Path) -> None:
    table = (
        "video_id,sentence,split,start_s,verb_classes,annotator\n"
        'a,a dog runs,train,1.5,"[1, 2]",kim\nb,a cat,test,,,lee\na,the dog,train,1.5,"[1, 2]",lee\n'
    )
    done = FORMATS["table"]([write(tmp_path, {"mine.csv": table}) / "mine.csv"])
    assert done.corpus.clips.select("clip_id", "split", "start_s", "verb_classes").rows() == [
        ("a", "train", 1.5, [1, 2]),
        ("b", "test", None, None),
    ]
    assert done.corpus.captions.select("caption_id", "text", "annotator").rows() == [
        ("a#0", "a dog runs", "kim"),
        ("b#0", "a cat", "lee"),
        ("a#1", "the dog", "lee"),
    ]
    assert done.notices == ()


def as_csv(folder: Path) -> None:
    ROWS.write_csv(folder / "mine.csv")


def as_tsv(folder: Path) -> None:
    ROWS.write_csv(folder / "mine.tsv", separator="\t")


def as_jsonl(folder: Path) -> None:
    ROWS.write_ndjson(folder / "mine.jsonl")


def as_parquet(folder: Path) -> None:
    stored = ROWS.with_columns(picture=pl.lit(b"\x00" * 100))
    stored.write_parquet(folder / "mine.parquet")


@pytest.mark.parametrize("write_table", [as_csv, as_tsv, as_jsonl, as_parquet])
def test_every_kind_of_table_says_the_same(write_table: object, tmp_path: Path) -> None:
    assert callable(write_table)
    write_table(tmp_path)
    done = FORMATS["table"]([tmp_path])
    assert texts(done) == {"a": ["one", "three"], "b": ["two"]}
    assert done.corpus.clips["path"].to_list() == ["x/a.mp4", "x/b.mp4"]
    assert "picture" not in done.corpus.captions.columns


def test_files_of_one_name_in_two_folders_stay_two_clips(tmp_path: Path) -> None:
    table = "path,text\nx/a.mp4,one\ny/a.mp4,two\n"
    done = FORMATS["table"]([write(tmp_path, {"mine.csv": table})])
    assert texts(done) == {"x/a.mp4": ["one"], "y/a.mp4": ["two"]}


def test_a_list_of_captions_is_one_caption_each_and_file_names_give_splits(tmp_path: Path) -> None:
    files = {
        "train.jsonl": '{"videoID": "a", "enCap": ["one", "two"]}\n',
        "validation.jsonl": '{"videoID": "b", "enCap": ["three", ""]}\n',
    }
    done = FORMATS["table"]([write(tmp_path, files)])
    assert texts(done) == {"a": ["one", "two"], "b": ["three"]}
    assert splits(done) == {"a": "train", "b": "val"}
    assert [notice.left_out for notice in done.notices] == [True]
    assert done.notices[0].sentence.startswith("1 rows of ")


def test_a_corpus_as_two_tables(tmp_path: Path) -> None:
    files = {
        "clips.csv": "clip_id,frame_count,noun_classes\na,10,[3]\nb,20,\n",
        "captions.csv": "caption_id,clip_id,text\nq,b,two\n",
    }
    done = FORMATS["table"]([write(tmp_path, files)])
    assert done.corpus.clips.select("clip_id", "frame_count", "noun_classes").rows() == [
        ("a", 10, [3]),
        ("b", 20, None),
    ]
    assert texts(done) == {"b": ["two"]}


def snapshot(folder: Path) -> Path:
    """A data set as the hub has it: parquet files called after their split, with the videos inside."""
    (folder / "data").mkdir(parents=True)
    for split, row in (("train", ROWS[:2]), ("test", ROWS.with_columns(video=pl.lit("x/c.mp4"))[2:])):
        video = row.select(pl.struct(pl.lit(b"\x00").alias("bytes"), pl.col("video").alias("path")).alias("video"))
        row.drop("video").hstack(video).write_parquet(folder / "data" / f"{split}-00000-of-00001.parquet")
    return folder


def saved_to_disk(folder: Path) -> Path:
    """A data set as `datasets` 5.2 saves it: arrow streams, each split with a state that names its files."""
    for split, row in (("train", ROWS[:2]), ("test", ROWS.with_columns(video=pl.lit("x/c.mp4"))[2:])):
        (folder / split).mkdir(parents=True)
        row.write_ipc_stream(folder / split / "data-00000-of-00001.arrow")
        state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_fingerprint": "x", "_split": None}
        (folder / split / "state.json").write_text(json.dumps(state))
        (folder / split / "cache-1.arrow").write_bytes(b"left by a filter")
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    return folder


def holds_both_splits(done: Imported) -> bool:
    return splits(done) == {"a": "train", "b": "train", "c": "test"} and texts(done)["c"] == ["three"]


def test_a_snapshot_of_the_hub(tmp_path: Path) -> None:
    assert holds_both_splits(FORMATS["hugging-face"]([snapshot(tmp_path)]))


def test_a_folder_that_datasets_saved(tmp_path: Path) -> None:
    assert holds_both_splits(FORMATS["hugging-face"]([saved_to_disk(tmp_path)]))


def test_a_hub_id_is_downloaded_without_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the main branch has no table, the hub's own parquet branch has."""
    asked = []

    def stub(repo_id: str, *, repo_type: str, revision: str, allow_patterns: list[str]) -> str:
        asked.append((repo_id, repo_type, revision))
        assert all(not pattern.endswith(".py") for pattern in allow_patterns)
        folder = tmp_path / revision.replace("/", "_")
        return str(folder.mkdir() or folder if revision == "main" else snapshot(folder))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", stub)
    done = FORMATS["hugging-face"]([Path("someone/clips")])
    assert holds_both_splits(done)
    assert asked == [("someone/clips", "dataset", "main"), ("someone/clips", "dataset", "refs/convert/parquet")]


def test_a_hub_id_without_a_network_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(CorpusError, match=r"someone/clips cannot be downloaded \(.*\); check its id and the network"):
        FORMATS["hugging-face"]([Path("someone/clips")])


@pytest.mark.parametrize("name", ["one", "/a/b/c", "a b/c"])
def test_what_is_neither_a_folder_nor_an_id(name: str) -> None:
    with pytest.raises(CorpusError, match="neither a folder or table that exists nor a hub id"):
        FORMATS["hugging-face"]([Path(name)])


def test_one_data_set_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="one folder or one id; 2 were given"):
        FORMATS["hugging-face"]([tmp_path, tmp_path])
    with pytest.raises(CorpusError, match="holds no table"):
        FORMATS["hugging-face"]([tmp_path])
