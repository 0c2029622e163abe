"""A user's own tables and data sets of the Hugging Face hub."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import numpy as np
import polars as pl
import pytest

from evenreel.audits import measure_length
from evenreel.corpus import FORMATS, Imported, save_corpus
from evenreel.errors import CorpusError
from evenreel.evaluation import EvaluationSettings, evaluate
from tests.corpus.formats.test_official import splits, texts, write

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


def test_what_is_one_value_a_clip_belongs_to_the_clip(tmp_path: Path) -> None:
    """Where a clip has several captions; the length, which audits and figures read, in any case."""
    several = "clip_id,text,duration_s,place,annotator\na,one,2.5,Rome,kim\na,two,2.5,Rome,lee\nb,three,9,Oslo,lee\n"
    one = "clip_id,text,duration_s,place\na,one,2.5,Rome\nb,three,9,Oslo\n"
    for rows, own, stays in ((several, ["duration_s", "place"], ["annotator"]), (one, ["duration_s"], ["place"])):
        corpus = FORMATS["table"]([write(tmp_path, {"mine.csv": rows}) / "mine.csv"]).corpus
        assert corpus.clips.columns[-len(own) :] == own
        assert corpus.captions.columns[5:] == stays
        assert corpus.clips["duration_s"].to_list() == [2.5, 9.0]
        found = measure_length(np.eye(corpus.captions.height, 2), corpus)
        assert (found.data.unit, found.data.whole.tolist()) == ("seconds", [2.5, 9.0])
        asked = EvaluationSettings(by=("seconds",), resamples=0)
        groups = evaluate(np.eye(corpus.captions.height, 2), corpus, asked).directions["t2v"].by["seconds"].groups
        assert [group.name for group in groups] == ["2.5", "9.0"]
    for value, sentence in (
        ("long", "column duration_s, is 'long'; it must be a number"),
        ("-1", "is -1.0; a time is"),
    ):
        with pytest.raises(CorpusError, match=sentence):
            FORMATS["table"]([write(tmp_path, {"mine.csv": one.replace("2.5", value)}) / "mine.csv"])


PICTURES = ROWS.with_columns(picture=pl.lit(b"\x00" * 100))
WRITERS = {
    "csv": ROWS.write_csv,
    "tsv": lambda path: ROWS.write_csv(path, separator="\t"),
    "jsonl": ROWS.write_ndjson,
    "parquet": PICTURES.write_parquet,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_table_says_the_same(kind: str, tmp_path: Path) -> None:
    WRITERS[kind](tmp_path / f"mine.{kind}")
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


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "json"])
def test_hazard_223_a_clip_without_captions_stays_and_ids_are_as_written(kind: str, tmp_path: Path) -> None:
    rows = pl.DataFrame({"video_id": [12.0, 13.0, 14.0], "captions": [["one cat"], [], None]})
    {"parquet": rows.write_parquet, "jsonl": rows.write_ndjson, "json": rows.write_json}[kind](tmp_path / f"t.{kind}")
    done = FORMATS["table"]([tmp_path / f"t.{kind}"])
    assert done.corpus.clips["clip_id"].to_list() == ["12", "13", "14"]
    assert done.corpus.captions.select("caption_id", "text").rows() == [("12#0", "one cat")]
    assert [notice.sentence[:10] for notice in done.notices] == ["2 rows of "]


def test_what_is_wrong_is_named_by_its_row_in_the_file(tmp_path: Path) -> None:
    lines = ['{"video_id": "a", "captions": ["one", "two", "three"]}', '{"video_id": "", "captions": ["four"]}']
    for name, words in (
        ("t.jsonl", "row 2 after the header, names no clip"),
        ("t.json", "in each line.* name it .jsonl"),
    ):
        with pytest.raises(CorpusError, match=words):
            FORMATS["table"]([write(tmp_path, {name: "\n".join(lines)}) / name])


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


def test_columns_are_called_differently_in_two_files(tmp_path: Path) -> None:
    files = {
        "train.csv": "video,caption,kind\nx/a.mp4,one,long\n",
        "test.csv": "clip_id,text\nb,two\n",
        "val.jsonl": '{"video_id": "c", "sentences": ["three", "four"]}\n',
    }
    done = FORMATS["table"]([write(tmp_path, files)])
    assert texts(done) == {"a": ["one"], "b": ["two"], "c": ["three", "four"]}
    assert splits(done) == {"a": "train", "b": "test", "c": "val"}
    assert dict(done.corpus.clips.select("clip_id", "path").iter_rows()) == {"a": "x/a.mp4", "b": None, "c": None}
    assert done.corpus.captions.columns[-1] == "kind"


def test_columns_of_two_kinds_that_no_column_can_hold(tmp_path: Path) -> None:
    files = {"a.jsonl": '{"clip_id": "a", "text": "b", "x": [1]}', "b.jsonl": '{"clip_id": "b", "text": "c", "x": "1"}'}
    with pytest.raises(CorpusError, match=r"a.jsonl, .*b.jsonl hold a column in two kinds"):
        FORMATS["table"]([write(tmp_path, files)])


def test_classes_of_a_row_are_the_captions_and_together_the_clips(tmp_path: Path) -> None:
    table = 'clip_id,text,verb_classes,noun_classes\na,one,[1],\na,two,"[3, 1]",\nb,three,,[]\n'
    corpus = FORMATS["table"]([write(tmp_path, {"mine.csv": table})]).corpus
    assert corpus.captions.select("verb_classes", "noun_classes").rows() == [([1], None), ([3, 1], None), (None, [])]
    assert corpus.clips.select("verb_classes", "noun_classes").rows() == [([1, 3], None), (None, [])]


VINDLU = [{"video": "video1.mp4", "caption": "one"}, {"video": "video1.mp4", "caption": "two"}]


@pytest.mark.parametrize("name", ["table", "hugging-face"])
def test_a_json_list_of_objects_is_a_table(name: str, tmp_path: Path) -> None:
    files = {"msrvtt_train.json": VINDLU, "dataset_info.json": {"features": {}}}
    done = [FORMATS[name]([path]) for path in (write(tmp_path, files), tmp_path / "msrvtt_train.json")]
    assert [texts(one) for one in done] == [{"video1": ["one", "two"]}] * 2
    assert [splits(one) for one in done] == [{"video1": "train"}] * 2
    with pytest.raises(CorpusError, match="dataset_info.json is .*; it must be a list"):
        FORMATS[name]([tmp_path / "dataset_info.json"])


def test_json_beside_tables_is_no_table_of_a_folder(tmp_path: Path) -> None:
    folder = write(tmp_path, {"mine.csv": "clip_id,text\na,one\n", "more.json": VINDLU})
    assert texts(FORMATS["table"]([folder])) == {"a": ["one"]}
    assert texts(FORMATS["table"]([folder, folder / "more.json"])) == {"a": ["one"], "video1": ["one", "two"]}


def test_a_corpus_folder_is_read_as_a_corpus(tmp_path: Path) -> None:
    first = FORMATS["table"]([write(tmp_path / "in", {"mine.csv": "clip_id,text\na,one\nb,two\n"})])
    folder = tmp_path / "corpus"
    save_corpus(first.corpus, folder)
    for name in ("texts", "classes"):
        pl.DataFrame({"clip_id": ["a"], "text": ["SALE"]}).write_parquet(folder / f"{name}.parquet")
    again = FORMATS["table"]([folder])
    assert (texts(again), again.notices) == (texts(first), ())
    write(folder, {"more.csv": "clip_id,text\nc,three\n"})
    done = FORMATS["table"]([folder])
    assert texts(done) == texts(first)
    assert [notice.sentence[-65:] for notice in done.notices] == [
        "more.csv: not read, because the two tables of a corpus are there."
    ]


@pytest.mark.parametrize("names", [("clips.csv", "clips.parquet", "captions.csv"), ("train.csv", "train.parquet")])
def test_two_tables_of_one_stem_are_refused(names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        ROWS.write_csv(tmp_path / name) if name.endswith("csv") else ROWS.write_parquet(tmp_path / name)
    with pytest.raises(CorpusError, match="2 files could be it"):
        FORMATS["table"]([tmp_path])


def test_captions_given_twice_are_counted(tmp_path: Path) -> None:
    done = FORMATS["table"]([write(tmp_path, {"mine.csv": "clip_id,text\na,one\na,one\nb,one\n"})])
    assert [notice.sentence for notice in done.notices] == [
        "1 captions say the same as another of their clip; they are kept."
    ]


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


@pytest.mark.parametrize("made", [snapshot, saved_to_disk])
def test_a_snapshot_of_the_hub_and_a_folder_that_datasets_saved(made: Callable[[Path], Path], tmp_path: Path) -> None:
    assert holds_both_splits(FORMATS["hugging-face"]([made(tmp_path)]))


def test_a_hub_id_is_downloaded_without_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the main branch has no table, the hub's own parquet branch has."""
    asked = []

    def stub(repo_id: str, *, repo_type: str, revision: str, allow_patterns: list[str]) -> str:
        asked.append((repo_id, repo_type, revision))
        assert all(not pattern.endswith(".py") for pattern in allow_patterns)
        assert {"*.json", "*.parquet"} <= set(allow_patterns)
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


def configurations(folder: Path, *, split_folders: bool) -> Path:
    """A data set with two configurations, as the hub converts it or as its owner laid it out."""
    for config, split in (("train_9k", "train"), ("test_1k", "test")):
        name = f"{split}/0000.parquet" if split_folders else f"{split}-00000-of-00001.parquet"
        (folder / config / name).parent.mkdir(parents=True)
        ROWS.write_parquet(folder / config / name)
    return folder


@pytest.mark.parametrize("split_folders", [True, False])
def test_several_configurations_are_refused_and_one_is_read(split_folders: bool, tmp_path: Path) -> None:
    folder = configurations(tmp_path, split_folders=split_folders)
    with pytest.raises(CorpusError, match="has several configurations: test_1k, train_9k; give one of them by"):
        FORMATS["hugging-face"]([folder])
    assert splits(FORMATS["hugging-face"]([folder / "train_9k"])) == {"a": "train", "b": "train"}


def test_configurations_that_only_the_card_tells(tmp_path: Path) -> None:
    card = "---\nconfigs:\n- config_name: train_9k\n  data_files: a.json\n- config_name: 'train_7k'\n---\n"
    files = {"README.md": card, "train_9k.json": VINDLU, "train_7k.json": VINDLU[:1]}
    with pytest.raises(CorpusError, match="has several configurations: train_7k, train_9k; give one of them by"):
        FORMATS["hugging-face"]([write(tmp_path, files)])
    assert texts(FORMATS["hugging-face"]([tmp_path / "train_9k.json"])) == {"video1": ["one", "two"]}


@pytest.mark.parametrize("name", ["{split}/{split}-00000.csv", "{split}/0000.csv", "{split}_9k/0000.csv"])
def test_folders_of_splits_are_no_configurations(name: str, tmp_path: Path) -> None:
    for split, clip in (("train", "a"), ("test", "b")):
        write(tmp_path, {name.format(split=split): f"clip_id,text\n{clip},one\n"})
    assert splits(FORMATS["hugging-face"]([tmp_path])) == {"a": "train", "b": "test"}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ([], r"state.json is \[\]; it must be an object"),
        ({"_data_files": [{}]}, "_data_files entry 1, has no field filename"),
        ({"_data_files": [{"filename": "../x.arrow"}]}, "entry 1, names '../x.arrow', which is no file of its folder"),
        ({"_data_files": [{"filename": "x\0.arrow"}]}, "cannot be read as an arrow stream"),
        ({"_data_files": [{"filename": ".."}]}, "which is no file of its folder"),
    ],
)
def test_a_broken_state_of_a_saved_folder(state: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=words):
        FORMATS["hugging-face"]([write(tmp_path, {"train/state.json": state})])


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    folder = write(tmp_path, {"notes.txt": "x"})
    with pytest.raises(CorpusError, match="notes.txt is no table"):
        FORMATS["hugging-face"]([folder / "notes.txt"])
