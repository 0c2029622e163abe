"""What is wrong with a file is one sentence with the file, the row and the remedy; nothing else is ever raised."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenreel.corpus import FORMATS
from evenreel.corpus.formats.captions import cut_length_s
from evenreel.corpus.imported import ReleaseFiles, csv_rows, read_lines, stem
from evenreel.errors import CorpusError
from tests.corpus.formats.test_official import (
    DIDEMO,
    DIDEMO_MOMENT,
    EPIC,
    GRAPH,
    MSRVTT,
    QVHIGHLIGHT,
    RTIME,
    textvr,
    vitevqa,
    write,
)

YOUCOOK2 = "end,start,task,text,video_id\n"
ENTRY = {"duration": 8, "timestamps": [[0, 8]], "sentences": ["A woman sits."]}
SEGMENTS = {"subset": "training", "recipe_type": "2", "annotations": [{"segment": [1, 2], "sentence": "cut"}]}
SIGN = {"text": "SALE", "score": 0.5, "tracks": {"1": [0] * 10}}
JSON_FILES: dict[str, dict[str, Any]] = {
    "msvd": {"captions_msvd.json": {"a": ["one"]}, "train_list.txt": "a\n"},
    "msrvtt": {"MSRVTT_data.json": {part: rows[:1] for part, rows in MSRVTT.items()}},
    "activitynet": {"train.json": {"v_a": ENTRY}, "train_ids.json": ["v_a"]},
    "didemo": {"test_data.json": DIDEMO[:1]},
    "vatex": {"vatex_training_v1.0.json": [{"videoID": "a_000001_000011", "enCap": ["one"], "chCap": ["x"]}]},
    "youcook2": {"youcookii_annotations_trainval.json": {"database": {"x": SEGMENTS}}},
    "textvr": {"TextVR_test.json": [textvr("Games/a.mp4", "A sale.", "Games/a.json")], "Games/a.json": {"0": SIGN}},
    "m4-vitevqa": {
        "ViteVQA_0.0.2_t2val.json": {"data": [vitevqa(1, "00001", ["20"])]},
        "video_ocr/00001.json": {"1": [{"points": [1, 2, 3, 4], "ocr": "20"}]},
    },
    "didemo-moments": {"val_data.json": [DIDEMO_MOMENT]},
    "rtime": {"test.json": {"7": RTIME}},
    "table": {"mine.json": [{"clip_id": "a", "text": "b", "start_s": 1, "frame_count": 3, "verb_classes": [1]}]},
    "hugging-face": {"train/state.json": {"_data_files": [{"filename": "x.arrow"}]}},
    "hgr": {
        "ref_captions.json": {"v": ["a"]},
        "trn_names.json": ["v"],
        "sent2rolegraph.augment.json": {"a": [{"0": GRAPH[0]["0"], "1": GRAPH[0]["1"]}, [["0", "1", "V"]]]},
    },
}
"""Sound files of each format that is JSON, to break."""


def one_error(name: str, *paths: Path) -> str:
    with pytest.raises(CorpusError) as raised:
        FORMATS[name](list(paths))
    return str(raised.value)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "hugging-face"])
def test_an_empty_folder_says_which_files_are_needed(name: str, tmp_path: Path) -> None:
    sentence = one_error(name, tmp_path)
    assert "needs" in sentence
    assert str(tmp_path) in sentence


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "hugging-face"])
def test_a_path_that_is_not_there(name: str, tmp_path: Path) -> None:
    assert "nowhere does not exist" in one_error(name, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "file", "content", "words"),
    [
        ("msvd", "captions_msvd.json", '{"a": ["b"', "captions_msvd.json is not JSON: .* at line 1, column 11"),
        ("msvd", "captions_msvd.json", {"a": "a dog"}, r"captions_msvd.json, a, is 'a dog'; it must be a list"),
        ("msvd", "captions_msvd.json", {"a": ["x", 5]}, r"captions_msvd.json, a, entry 2, is 5; it must be text"),
        ("msvd", "captions_msvd.json", ["a"], r"captions_msvd.json is \['a'\]; it must be an object"),
        ("msrvtt", "MSRVTT_data.json", {"sentences": [{"caption": "x"}]}, "sentences entry 1, has no field video_id"),
        ("msrvtt", "MSRVTT_data.json", {}, "MSRVTT_data.json has no field sentences; it has: none"),
        ("msrvtt-1ka", "MSRVTT_JSFUSION_test.csv", "key,video_id\n", "has no column sentence; it has: key, video_id"),
        ("msrvtt-1ka", "MSRVTT_JSFUSION_test.csv", "", "is empty; it must be a table with video_id, sentence"),
        ("msrvtt-1ka", "MSRVTT_train.9k.csv", "video_id\nvideo1\nvideo2,x\n", "line 3, has 2 values for 1 columns"),
        ("msrvtt-7k", "MSRVTT_train.7k.csv", "video_id\nvideo1\nvideo1\n", "line 3 names the clip 'video1', as"),
        ("lsmdc", "LSMDC16_annos_val.csv", "a\tb\tc\n", "line 1, has 3 values between tabs; a row has 6"),
        ("didemo", "didemo_val_label.csv", 'video_path,text\n"a', "line 2, is no table row"),
        ("didemo", "didemo_val_label.csv", "video_path,starts,text\na,tensor([[x]]),b\n", "2 has 'x' where a number"),
        ("didemo-moments", "val_data.json", [DIDEMO_MOMENT | {"times": [[2, 6]]}], "segments 2 to 6 in a video of 6"),
        ("qvhighlights", "highlight_val_release.jsonl", "{", "highlight_val_release.jsonl, line 1 is not JSON"),
        ("qvhighlights", "highlight_val_release.jsonl", "[]", r"line 1 is \[\]; it must be an object"),
        ("qvhighlights", "highlight_val_release.jsonl",
         json.dumps(QVHIGHLIGHT | {"relevant_clip_ids": [75]}), "line 1, rates stretch 75 of a clip that has 75"),
        ("tvr", "tvr_val_release.jsonl", '{"vid_name": "a"}', "line 1, has no field duration"),
        ("multivent-2", "multivent_2_q.csv", "Query_id,query\n", "MultiVENT 2.0 needs multivent_2_j.jsonl"),
        ("moments-annotated-anew", "charades_test_00.csv", "HITId,video_id,description,start,end\na,b.mp4,c,x,9\n",
         "line 2 has 'x' where a number"),
        ("youcook2", "validation_youcook.csv", YOUCOOK2 + "x,1,2,cut,v\n", "line 2 has 'x' where a number"),
        ("youcook2", "validation_youcook.csv", YOUCOOK2 + "1,5,2,cut,v\n", "column end_s, is 1.0, not after"),
        ("tgif", "tgif-v1.0.tsv", "https://a/b.gif a man\n", "line 1, has 1 values between tabs; a row has 2"),
        ("textvr", "TextVR_test.json", [{"path": "a.mp4"}], "entry 1, has no field videos_info"),
        ("hgr", "ref_captions.json", {"a": ["b"]}, "needs trn_names.npy, val_names.npy or tst_names.npy"),
        ("epic-kitchens-100", "EPIC_100_retrieval_test.csv", EPIC + "a,P01_1,0,1,2,3,x,4,[5]\n", "the time '0'; it"),
        (
            "epic-kitchens-100",
            "EPIC_100_retrieval_test.csv",
            EPIC + "a,P01_1,00:00:00.0,00:00:01.0,2,3,x,4,5]\n",
            r"line 2, the list '5\]', is not JSON",
        ),
        ("table", "mine.csv", "clip,words\na,b\n", "mine.csv has none of the columns clip_id, .*; it has: clip, words"),
        ("table", "mine.csv", "clip_id,text\na,b,c\n", "mine.csv, line 2, has 3 values for 2 columns"),
        ("table", "mine.csv", "clip_id,text\n", "mine.csv has no row"),
        ("table", "mine.csv", "clip_id;text\na;b, c\n",
         "mine.csv has one column, 'clip_id;text': its values seem to be separated by semicolons; save it with commas"),
        ("table", "mine.csv", "clip_id\ttext\na\tb\n", "seem to be separated by tabs; name it .tsv"),
        ("table", "mine.tsv", "clip_id,text\na,b\n", "seem to be separated by commas; name it .csv"),
        ("youcook2", "validation_youcook.csv", "end;start;task;text;video_id\n", "separated by semicolons"),
        ("table", "mine.csv", "clip_id,clip_id,text\na,a,b\n", "has two columns of one name"),
        ("table", "mine.jsonl", '{"clip_id": "a", "text": "b"}\n{"clip_id"\n', "mine.jsonl, line 2, is not JSON"),
        ("table", "mine.jsonl", "[1]\n", r"mine.jsonl, line 1, is \[1\]; it must be an object"),
        ("table", "mine.csv", "clip_id,text,start_s\na,b,soon\n", "column start_s, is 'soon'; it must be a number"),
        ("table", "mine.csv", "clip_id,text,split\na,b,train\na,c,test\n", "the clip 'a' two values of split"),
        ("table", "mine.csv", "clip_id,text,verb_classes\na,b,3\n", "Row 1, column verb_classes, is 3; it must be"),
        ("table", "mine.csv", "clip_id,text\na,b\n,c\n", "mine.csv, row 2 after the header, names no clip in clip_id"),
        ("table", "mine.csv", "caption_id,clip_id,text\n1,a,b\n1,a,c\n", "every caption_id is unique"),
        ("table", "m.jsonl", '{"path":"a","text":["b"]}\n{"path":"c","text":"d"}', "field text, .* before it a list"),
        ("table", "m.jsonl", '{"path":"a","text":{"b":1}}', "The column text of .* holds Struct.*; it must hold text"),
        ("table", "m.jsonl", '{"path":"a","text":7}', "The column text of .* holds Int64; it must hold text"),
        ("table", "m.jsonl", '{"video_id":["a"],"text":"b"}', "The column video_id of .*m.jsonl holds List"),
        ("table", "m.jsonl", '{"clip_id":"a","text":"b","start_s":{}}', "The column start_s of .* holds Struct"),
        ("table", "m.jsonl", '{"clip_id":"a","text":"b","verb_classes":{}}', "The column verb_classes of .* Struct"),
        ("table", "m.json", {"a": 1}, "needs a table"),
        ("table", "m.json", [1], "m.json, entry 1, is 1; it must be an object"),
        ("table", "mine.parquet", "no parquet", "mine.parquet cannot be read as parquet"),
    ],
)  # fmt: skip
def test_the_sentence_names_file_and_row(name: str, file: str, content: Any, words: str, tmp_path: Path) -> None:
    write(tmp_path, {file: content, **({"train_list.txt": "a\n"} if name == "msvd" else {})})
    with pytest.raises(CorpusError, match=words):
        FORMATS[name]([tmp_path])


def test_several_broken_rules_are_several_sentences(tmp_path: Path) -> None:
    table = YOUCOOK2 + "1,5,2,cut,v\n1,5,2,cut,w\n"
    with pytest.raises(CorpusError) as raised:
        FORMATS["youcook2"]([write(tmp_path, {"validation_youcook.csv": table})])
    assert raised.value.args[0] == "The files of YouCook2 make no sound corpus:"
    assert [sentence[:6] for sentence in raised.value.args[1:]] == ["Row 1 ", "Row 2 "]


def test_half_a_character_is_refused_and_a_whole_one_read(tmp_path: Path) -> None:
    write(tmp_path, {"captions_msvd.json": '{"a": ["\\ud83d\\ude00"]}', "train_list.txt": "a"})
    assert FORMATS["msvd"]([tmp_path]).corpus.captions["text"].to_list() == ["\U0001f600"]
    write(tmp_path, {"captions_msvd.json": '{"a": ["\\ud83d"]}'})
    assert r"captions_msvd.json has half of a character, '\ud83d', in its text" in one_error("msvd", tmp_path)


def test_text_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "LSMDC16_annos_val.csv").write_bytes("caf\xe9".encode("latin-1"))
    assert "is not UTF-8 text (byte 3); save it as UTF-8" in one_error("lsmdc", tmp_path)


def test_json_without_end(tmp_path: Path) -> None:
    write(tmp_path, {"captions_msvd.json": "[" * 100_000, "train_list.txt": "a"})
    assert "captions_msvd.json is JSON that cannot be read" in one_error("msvd", tmp_path)


def test_two_files_of_one_name(tmp_path: Path) -> None:
    write(tmp_path, {"a/train_list.txt": "x", "b/train_list.txt": "y", "captions_msvd.json": {}})
    sentence = one_error("msvd", tmp_path)
    assert "MSVD has one train_list.txt, but 2 files could be it" in sentence
    assert "give the one that is meant by its path" in sentence


class Bomb:
    """Opening its pickle would leave a file behind."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return exec, (f"open({str(self.place)!r}, 'w').close()",)


@pytest.mark.parametrize(
    ("name", "file"),
    [("msvd", "raw-captions.pkl"), ("epic-kitchens-100", "caption_relevancy_EPIC_100_retrieval_test.pkl")],
)
def test_pickles_are_never_opened(name: str, file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(pickle.dumps(Bomb(tmp_path / "opened")))
    assert f"{file} is a pickle, which can run code when it is opened, and is never read" in one_error(name, tmp_path)
    assert not (tmp_path / "opened").exists()


def test_a_pickle_that_was_asked_for_is_told_apart_from_what_was_read(tmp_path: Path) -> None:
    write(tmp_path, {"captions_msvd.json": {"a": ["b"]}, "train_list.txt": "a\n", "notes.txt": "x"})
    (tmp_path / "raw-captions.pkl").write_bytes(pickle.dumps(Bomb(tmp_path / "opened")))
    done = FORMATS["msvd"]([tmp_path, tmp_path / "raw-captions.pkl", tmp_path / "notes.txt"])
    said = [notice.sentence for notice in done.notices if notice.left_out]
    assert any(sentence.startswith("raw-captions.pkl is a pickle") for sentence in said)
    assert any("notes.txt is no file that MSVD is read from" in sentence for sentence in said)
    assert not (tmp_path / "opened").exists()


WRONG: list[Any] = [None, True, -1, 10**400, 1.5, float("nan"), "x", "", "9" * 5000, "\ud800"]
WRONG += [[], {}, [1], ["x"], {"a": 1}]


def places(value: Any) -> list[tuple[Any, ...]]:
    """Ways to every value inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, inner in inside for rest in places(inner))]


def put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(copy[place[0]], place[1:], new)
    return copy


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", JSON_FILES)
def test_any_wrong_value_anywhere_is_a_sentence_or_a_corpus(name: str, every: int, tmp_path: Path) -> None:
    files = JSON_FILES[name]
    write(tmp_path, files)
    for file, sound in files.items():
        for place, wrong in list(product(places(sound), WRONG))[::every]:
            write(tmp_path, {file: json.dumps(put(sound, place, wrong))})
            assert reads_or_says(name, tmp_path), (file, place, wrong)
        write(tmp_path, {file: sound})


def reads_or_says(name: str, folder: Path) -> bool:
    """The reader gives a corpus or one sentence; anything else is raised here."""
    try:
        return FORMATS[name]([folder]).corpus.clips.height > 0
    except CorpusError as error:
        return str(error) != ""


@pytest.mark.parametrize("score", ["much", [1]])
def test_a_broken_sign(score: object, tmp_path: Path) -> None:
    sign = SIGN | {"score": score}
    files = JSON_FILES["textvr"] | {"Games/a.json": {"0": sign}}
    assert "a.json, sign 0, has" in one_error("textvr", write(tmp_path, files))


def test_a_broken_role_graph(tmp_path: Path) -> None:
    files = {"ref_captions.json": {"v": ["a"]}, "trn_names.txt": "v", "sent2rolegraph.augment.json": {"a": [GRAPH[0]]}}
    assert "The role graph of 'a' has 1 parts; it must have nodes and edges" in one_error("hgr", write(tmp_path, files))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.lists(st.text("a,\"\n\u2028 'é", max_size=5), min_size=2, max_size=2), max_size=4))
def test_tables_are_read_as_polars_writes_them(rows: list[list[str]], tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"x": [row[0] for row in rows], "y": [row[1] for row in rows]}, schema={"x": pl.String, "y": pl.String}
    )
    frame.write_csv(tmp_path / "t.csv", quote_style="always")
    assert [list(row.values()) for _, row in csv_rows(tmp_path / "t.csv", ("x", "y"))] == rows


def test_files_are_found_whatever_their_case_and_read_once(tmp_path: Path) -> None:
    write(tmp_path, {"Sub/TRAIN_List.TXT": "a\n\n b \r\n"})
    found = ReleaseFiles("MSVD", [tmp_path, tmp_path / "Sub"]).all("train_list.txt")
    assert [path.name for path in found] == ["TRAIN_List.TXT"]
    assert read_lines(found[0]) == ["a", "b"]


@pytest.mark.parametrize("suffix", [".mp4", ".AVI", ".m2ts", ""])
def test_a_stem_keeps_the_dots_of_the_name(suffix: str) -> None:
    name = "1012_Unbreakable_00.05.16.065-00.05.21.941"
    assert stem(f"movies\\x/{name}{suffix}") == name


@pytest.mark.parametrize("digits", [10, 400, 5_000])
def test_times_of_many_digits_in_a_name_are_none(digits: int) -> None:
    assert cut_length_s(f"a_1_{'9' * digits}") is None
    assert cut_length_s("a_1_" + "9" * 9) == 999_999_998.0
