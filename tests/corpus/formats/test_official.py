"""Readers on small files in the official form, written here by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import FORMATS, Imported, own_clip
from evenreel.errors import CorpusError


def write(folder: Path, files: Mapping[str, Any]) -> Path:
    """Files by name: text as it is, anything else as JSON."""
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return folder


def read(name: str, folder: Path, files: Mapping[str, Any]) -> Imported:
    return FORMATS[name]([write(folder, files)])


def texts(done: Imported) -> dict[str, list[str]]:
    return dict(done.corpus.captions.group_by("clip_id", maintain_order=True).agg("text").iter_rows())


def splits(done: Imported) -> dict[str, str]:
    return dict(done.corpus.clips.select("clip_id", "split").iter_rows())


def said(done: Imported, *words: str) -> bool:
    """Some one notice has all these words."""
    return any(all(word in notice.sentence for word in words) for notice in done.notices)


def one(done: Imported, clip: str) -> dict[str, Any]:
    return done.corpus.clips.filter(pl.col("clip_id") == clip).row(0, named=True)


MSRVTT = {
    "videos": [
        {"video_id": "video0", "category": 9, "split": "train", "start time": 137.72, "end time": 149.44},
        {"video_id": "video6513", "category": 0, "split": "validate", "start time": 0, "end time": 10},
        {"video_id": "video9770", "category": 19, "split": "test", "start time": 1.5, "end time": 12},
    ],
    "sentences": [
        {"video_id": "video0", "caption": "a car is shown", "sen_id": 0},
        {"video_id": "video9770", "caption": "a person talks", "sen_id": 1},
        {"video_id": "video0", "caption": "a man drives ", "sen_id": 2},
        {"video_id": "video6513", "caption": "music", "sen_id": 3},
    ],
}


def test_msrvtt_in_full(tmp_path: Path) -> None:
    done = read("msrvtt", tmp_path, {"MSRVTT_data.json": MSRVTT})
    assert splits(done) == {"video0": "train", "video6513": "val", "video9770": "test"}
    assert texts(done)["video0"] == ["a car is shown", "a man drives"]
    clip = one(done, "video0")
    assert (clip["path"], clip["domain"], round(clip["duration_s"], 2)) == ("video0.mp4", "vehicles", 11.72)
    assert clip["start_s"] is None  # the times are those of the whole YouTube video
    assert said(done, "train", "1 of its 6,513")


OFFICIAL = {"train_val_videodatainfo.json": MSRVTT, "test_videodatainfo.json": {"sentences": []}}


def test_msrvtt_as_it_was_published(tmp_path: Path) -> None:
    assert texts(read("msrvtt", tmp_path, OFFICIAL))["video0"] == ["a car is shown", "a man drives"]


def test_captions_that_repeat_another_of_their_clip_are_counted(tmp_path: Path) -> None:
    sentences = [*MSRVTT["sentences"], {"video_id": "video0", "caption": "a car is shown "}]
    done = read("msrvtt", tmp_path, {"MSRVTT_data.json": MSRVTT | {"sentences": sentences}})
    assert texts(done)["video0"] == ["a car is shown", "a man drives", "a car is shown"]
    assert [
        (notice.sentence, notice.left_out, notice.split) for notice in done.notices if "say" in notice.sentence
    ] == [("1 captions of train say the same as another of their clip; they are kept.", False, "train")]


def test_msrvtt_in_the_other_form_has_its_splits_by_number(tmp_path: Path) -> None:
    rows = [{"image_id": f"video{n}", "caption": "words"} for n in (0, 6512, 6513, 7009, 7010, 9999)]
    done = read("msrvtt", tmp_path, {"MSR_VTT.json": {"annotations": rows, "images": []}})
    assert list(splits(done).values()) == ["train", "train", "val", "val", "test", "test"]


def test_msrvtt_1ka_takes_one_caption_to_test_and_all_to_train(tmp_path: Path) -> None:
    files = {
        "MSRVTT_data.json": MSRVTT,
        "MSRVTT_train.9k.csv": "video_id\nvideo0\nvideo7\n",
        "MSRVTT_JSFUSION_test.csv": "key,vid_key,video_id,sentence\nret0,msr9770,video9770,someone is speaking\n",
    }
    done = read("msrvtt-1ka", tmp_path, files)
    assert texts(done) == {"video9770": ["someone is speaking"], "video0": ["a car is shown", "a man drives"]}
    assert said(done, "1 clips of train have no caption", "video7")


def test_lsmdc(tmp_path: Path) -> None:
    dropped = "1012_Unbreakable_00.05.16.065-00.05.21.941"
    kept = "0001_American_Beauty_00.00.51.926-00.00.54.129"
    row = "00.00.51.926\t00.00.54.129\t00.00.51.926\t00.00.54.129"
    files = {
        "LSMDC16_annos_training.csv": f'{kept}\t{row}\tSomeone says "hi.\n{kept}\t{row}\tHe turns, and goes.\n',
        "LSMDC16_challenge_1000_publictect.csv": f"{dropped}\t{row}\tA man waits.\r\n",
    }
    done = read("lsmdc", tmp_path, files)
    assert texts(done) == {kept: ['Someone says "hi.', "He turns, and goes."], dropped: ["A man waits."]}
    assert splits(done) == {kept: "train", dropped: "test"}
    assert one(done, kept)["path"] == f"0001_American_Beauty/{kept}.avi"
    assert one(done, kept)["duration_s"] == 2.203
    assert one(done, dropped)["left_out_by"] == "X-Pool, T-MASS"
    assert said(done, "1 clips that T-MASS, X-Pool leave out are kept")


def test_lsmdc_with_a_tab_at_the_end_of_a_line(tmp_path: Path) -> None:
    row = "0003_CASABLANCA_00.00.01.000-00.00.02.000\t0\t1\t0\t1\tSomeone waits.\t\n"
    done = read("lsmdc", tmp_path, {"LSMDC16_annos_val.csv": row})
    assert texts(done) == {"0003_CASABLANCA_00.00.01.000-00.00.02.000": ["Someone waits."]}


def test_activitynet_joins_sentences_and_names_alike(tmp_path: Path) -> None:
    said_of = ["A woman sits. ", " She rows."]
    entry = {"duration": 82.73, "timestamps": [[0.83, 19.86], [17.37, 60]], "sentences": said_of}
    files = {
        "train.json": {"v_aaa": entry, "v_bbb": entry},
        "train_ids.json": ["v_aaa", "v_gone"],
        "val_1.json": {"-ccc": entry},
        "val_ids.json": ["v_-ccc.mp4"],
        "val_2.json": {"v_-ccc": entry},
    }
    done = read("activitynet", tmp_path, files)
    assert texts(done) == {"v_aaa": ["A woman sits. She rows."], "v_-ccc": ["A woman sits. She rows."]}
    assert done.corpus.captions["timestamps"][0].to_list() == [[0.83, 19.86], [17.37, 60.0]]
    assert one(done, "v_-ccc")["duration_s"] == 82.73
    assert said(done, "train_ids.json", "v_gone")
    assert said(done, "not in train_ids.json", "v_bbb")
    assert said(done, "1 names were given the official 'v_'")
    assert said(done, "val_2.json", "not read")


DIDEMO = [
    {"video": "12@N04_1_2.mov", "description": "a dog runs", "times": [[0, 0]], "dl_link": "x"},
    {"video": "34@N00_5_6.AVI", "description": "a cat sits.", "times": [[1, 1]], "dl_link": "x"},
    {"video": "12@N04_1_2.mov", "description": "the dog stops", "times": [[2, 2]], "dl_link": "x"},
]


@pytest.mark.parametrize("extension", ["", ".mov"])
def test_didemo_json_with_a_list_in_either_form(tmp_path: Path, extension: str) -> None:
    files = {"test_data.json": DIDEMO, "test_list.txt": f"12@N04_1_2{extension}\n99@N00_7_8{extension}\n"}
    done = read("didemo", tmp_path, files)
    assert texts(done) == {"12@N04_1_2": ["a dog runs the dog stops"]}
    clip = one(done, "12@N04_1_2")
    assert (clip["path"], clip["start_s"], clip["end_s"], clip["split"]) == ("12@N04_1_2.mov", 0, 31, "test")
    assert said(done, "have no description", "99@N00_7_8")
    assert said(done, "not in test_list.txt", "34@N00_5_6")


def test_didemo_table_leaves_failures_out(tmp_path: Path) -> None:
    header = "success,video_path,starts,ends,text,formatted_data\n"
    rows = (
        'True,/a/b/12@N04_1_2.mov,tensor([[0]]),tensor([[31]]),"a dog\nruns",x\n'
        "False,/a/b/34@N00_5_6.avi,tensor([0]),tensor([31]),a cat,x\n"
    )
    done = read("didemo", tmp_path, {"didemo_val_label.csv": header + rows})
    assert texts(done) == {"12@N04_1_2": ["a dog\nruns"]}
    assert said(done, "could not be read", "34@N00_5_6")


def test_vatex_official_form(tmp_path: Path) -> None:
    row = {"videoID": "Ptf_2VRj-V0_000122_000132", "enCap": ["A man skis.", "Someone skis."], "chCap": ["一", "二"]}
    done = read(
        "vatex", tmp_path, {"vatex_training_v1.0.json": [row], "vatex_private_test_without_annotations.json": []}
    )
    assert texts(done) == {row["videoID"]: row["enCap"]}
    assert one(done, row["videoID"])["duration_s"] == 10
    assert said(done, "2 Chinese captions")


def test_vatex_as_retrieval_codebases_have_it(tmp_path: Path) -> None:
    files = {
        "ref_captions.json": {"a_000001_000011": ["one", "two"], "b_000001_000011": ["three"], "stray": ["four"]},
        "train_list.txt": "a_000001_000011\n",
        "test_list.txt": "b_000001_000011\nc_000001_000011\n",
    }
    done = read("vatex", tmp_path, files)
    assert texts(done) == {"a_000001_000011": ["one", "two"], "b_000001_000011": ["three"]}
    assert said(done, "1 captions are left out because their clip is not listed", "stray#0")
    assert said(done, "1 clips of test have no caption", "c_000001_000011")


def test_vatex_lists_are_not_needed_beside_the_official_files(tmp_path: Path) -> None:
    official = [{"videoID": "a_000001_000011", "enCap": ["one"]}]
    write(tmp_path, {"vatex_training_v1.0.json": official, "ref_captions.json": {}, "val_list.txt": "b"})
    done = FORMATS["vatex"]([tmp_path, tmp_path / "ref_captions.json"])
    beside = [notice for notice in done.notices if "not needed beside" in notice.sentence]
    assert [notice.sentence for notice in beside] == [
        "ref_captions.json is not needed beside vatex_training_v1.0.json, and is skipped."
    ]
    assert not beside[0].left_out


def test_youcook2_json(tmp_path: Path) -> None:
    told = [(0, [47, 60], "pick the ends off"), (1, [67, 89.5], "combine")]
    rows = [{"id": number, "segment": segment, "sentence": text} for number, segment, text in told]
    video = {"subset": "validation", "recipe_type": "226", "annotations": rows}
    done = read("youcook2", tmp_path, {"youcookii_annotations_trainval.json": {"database": {"xHr8X2Wpmno": video}}})
    assert texts(done) == {"xHr8X2Wpmno_0": ["pick the ends off"], "xHr8X2Wpmno_1": ["combine"]}
    clip = one(done, "xHr8X2Wpmno_1")
    assert (clip["path"], clip["start_s"], clip["end_s"], clip["split"]) == (
        "validation/226/xHr8X2Wpmno.mp4", 67, 89.5, "val",
    )  # fmt: skip


def test_youcook2_beside_the_segments_of_its_test_set(tmp_path: Path) -> None:
    trained = {"subset": "training", "recipe_type": "2", "annotations": [{"segment": [1, 2], "sentence": "cut"}]}
    tested = {"recipe_type": "3", "annotations": [{"segment": [1, 2], "id": 0}]}
    files = {
        "youcookii_annotations_trainval.json": {"database": {"x": trained}},
        "youcookii_annotations_test_segments_only.json": {"database": {"y": tested}},
    }
    done = read("youcook2", tmp_path, files)
    assert texts(done) == {"x_0": ["cut"]}
    assert said(done, "youcookii_annotations_test_segments_only.json", "has no sentences")


def test_tgif_sentences(tmp_path: Path) -> None:
    base = "https://38.media.tumblr.com/0f/tumblr_"
    files = {
        "tgif-v1.0.tsv": f'{base}a_500.gif\t"a man" glares\n{base}b_400.gif\ta cat\n{base}a_500.gif\t"he stares\n',
        "test.txt": f"{base}a_500.gif\n",
    }
    done = read("tgif", tmp_path, files)
    assert texts(done) == {"tumblr_a_500": ['"a man" glares', '"he stares']}
    assert one(done, "tumblr_a_500")["url"] == f"{base}a_500.gif"
    assert said(done, "1 captions of tgif-v1.0.tsv belong to splits that were not given")


def textvr(name: str, caption: str, words: str) -> dict[str, Any]:
    info = {"source": "vitvr_batch4", "split": "test", "Kwai_OCR": words}
    captions = [{"caption": caption, "caption_info": {"duration": 10.0, "desc_id": 1}}]
    return {"path": name, "captions_info": captions, "videos_info": info}


def test_textvr_with_its_words_on_screen(tmp_path: Path) -> None:
    boxes = {"12": [0, 0, 10, 0, 10, 4, 0, 4, 1, 1], "15": [2, 2, 12, 2, 12, 6, 2, 6, 1, 1]}
    sign = {"text": "SALE", "score": "0.9", "tracks": boxes, "recommend_box": 12}
    files = {
        "TextVR_test.json": [
            textvr("Games/a b.mp4", "A sale.", "Games/a b.json"),
            textvr("Cooking/c.mp4", "Salt.", "X/c.json"),
        ],
        "Kwai_VideoOCR/Games/a b.json": {"0": sign, "1": sign | {"text": " "}},
    }
    done = read("textvr", tmp_path, files)
    assert texts(done) == {"Games/a b": ["A sale."], "Cooking/c": ["Salt."]}
    assert one(done, "Games/a b")["domain"] == "Games"
    assert done.texts is not None
    assert done.texts.rows() == [("Games/a b", "SALE", 0.9, 12, 15, [1.0, 1.0, 11.0, 5.0])]
    assert said(done, "have no file of words on screen", "Cooking/c")


def vitevqa(number: int, video: str, answers: list[str] | None) -> dict[str, Any]:
    row = {"question": "What is the MPH?", "source1": "Single frame", "source2": "Text", "video_id": video}
    row |= {"video_width": 1280, "video_height": 720, "question_id": number}
    return row if answers is None else row | {"answers": answers}


def test_m4_vitevqa(tmp_path: Path) -> None:
    head = {"dataset_type": "t1s1val", "dataset_name": "vtvqa", "dataset_version": "0.0.2"}
    files = {
        "ViteVQA_0.0.2_t1s1val.json": head
        | {"data": [vitevqa(20011, "04666", ["20", "twenty"]), vitevqa(7, "04666", [])]},
        "ViteVQA_0.0.2_t1s1test.json": head | {"data": [vitevqa(8, "00107", None)]},
        "video_ocr/04666.json": {"1": [], "2": [{"points": [10, 10, 50, 10, 50, 30, 10, 30], "ocr": "20 MPH"}]},
    }
    done = read("m4-vitevqa", tmp_path, files)
    assert texts(done) == {"04666": ["What is the MPH? 20", "What is the MPH?"], "00107": ["What is the MPH?"]}
    assert done.corpus.captions["caption_id"].to_list() == ["20011", "7", "8"]
    assert done.corpus.captions["answers"].to_list() == [["20", "twenty"], [], []]
    assert one(done, "04666")["width"] == 1280
    assert done.texts is not None
    assert done.texts.rows() == [("04666", "20 MPH", None, 2, 2, [10.0, 10.0, 50.0, 30.0])]


def test_m4_vitevqa_words_are_those_of_the_folder_video_ocr(tmp_path: Path) -> None:
    files = {
        "ViteVQA_0.0.2_t1s1val.json": {"data": [vitevqa(1, "04666", ["20"])]},
        "other/04666.json": {"1": "no words"},
        "video_ocr/04666.json": {"1": [{"points": [1, 2, 3, 4], "ocr": "20"}]},
    }
    done = read("m4-vitevqa", tmp_path, files)
    assert done.texts is not None
    assert done.texts["text"].to_list() == ["20"]


QUESTIONS = {"data": [vitevqa(1, "04666", ["20"])]}
ENTRY = {"duration": 8, "timestamps": [[0, 8]], "sentences": ["A woman sits."]}
TESTED = "key,vid_key,video_id,sentence\nret0,msr9770,video9770,someone is speaking\n"


@pytest.mark.parametrize(
    ("name", "files", "words"),
    [
        ("msrvtt", OFFICIAL | {"MSRVTT_data.json": MSRVTT}, "3 files could be it .*MSRVTT_data.json, .*is meant"),
        (
            "msrvtt-7k",
            {"MSRVTT_train.7k.csv": "video_id\nvideo9770\n", "MSRVTT_JSFUSION_test.csv": TESTED},
            r"MSRVTT_train.7k.csv, line 2 names the clip 'video9770', as .*line 2 does",
        ),
        ("activitynet", {"train.json": {"v_a": ENTRY, "a": ENTRY}}, "names the video v_a twice, as 'v_a' and as 'a'"),
        (
            "m4-vitevqa",
            {"ViteVQA_0.0.2_t1s1val.json": QUESTIONS, "ViteVQA_0.0.2_t1s2test.json": QUESTIONS},
            "t1s1, t1s2, whose splits share videos",
        ),
        (
            "m4-vitevqa",
            {"ViteVQA_0.0.2_t1s1val.json": QUESTIONS, "video_ocr/04666.json": {}, "old/video_ocr/04666.json": {}},
            "2 files could be it",
        ),
    ],
)
def test_what_is_there_twice_is_refused(name: str, files: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=words):
        read(name, tmp_path, files)


GRAPH: list[Any] = [
    {
        "0": {"role": "ROOT", "spans": list(range(5)), "words": ["a", "man", "plays", "a", "guitar"]},
        "1": {"role": "V", "spans": [2], "words": ["plays"]},
        "2": {"role": "ARG0", "spans": [0, 1], "words": ["a", "man"]},
        "3": {"role": "ARG1", "spans": [3, 4], "words": ["a", "guitar"]},
    },
    [["0", "1", "V"], ["1", "2", "ARG0"], ["1", "3", "ARG1"]],
]


@pytest.mark.parametrize("kind", ["U", "S"])
def test_hgr_role_graphs(tmp_path: Path, kind: str) -> None:
    files = {
        "RET/ref_captions.json": {"video1": ["a man plays a guitar", "music"], "video2": ["a man plays a guitar"]},
        "RET/sent2rolegraph.augment.json": {"a man plays a guitar": GRAPH},
    }
    write(tmp_path, files)
    np.save(tmp_path / "trn_names.npy", np.array(["video1"], dtype=kind))
    np.save(tmp_path / "tst_names.npy", np.array(["video2"], dtype=kind))
    done = FORMATS["hgr"]([tmp_path])
    assert splits(done) == {"video1": "train", "video2": "test"}
    row = done.corpus.captions.row(0, named=True)
    assert (row["verbs"], row["nouns"]) == (["plays"], ["a man", "a guitar"])
    assert json.loads(row["role_graph"]) == GRAPH
    assert said(done, "1 captions have no role graph", "music")


def test_hgr_names_that_are_pickled_are_not_opened(tmp_path: Path) -> None:
    write(tmp_path, {"ref_captions.json": {"video1": ["music"]}})
    np.save(tmp_path / "trn_names.npy", np.array(["video1"], dtype=object), allow_pickle=True)
    with pytest.raises(CorpusError, match=r"is a pickle, which can run code.*trn_names\.txt, one a line"):
        FORMATS["hgr"]([tmp_path])
    (tmp_path / "trn_names.npy").unlink()
    write(tmp_path, {"trn_names.txt": "video1\n"})
    assert splits(FORMATS["hgr"]([tmp_path])) == {"video1": "train"}


EPIC = (
    "narration_id,video_id,start_timestamp,stop_timestamp,start_frame,stop_frame,narration,verb_class,"
    "all_noun_classes\n"
)


def test_epic_kitchens_train_table_has_a_caption_a_segment(tmp_path: Path) -> None:
    rows = (
        'P01_101_0,P01_101,00:00:01.00,00:00:02.00,50,100,take the plate,0,"[2, 13]"\n'
        "P01_101_1,P01_101,01:00:00.00,01:00:04.00,180000,180200,take the plate,0,[2]\n"
    )
    files = {
        "EPIC_100_retrieval_train.csv": EPIC + rows,
        "EPIC_100_retrieval_train_sentence.csv": "narration_id,narration\nP01_101_0,take the plate\n",
        "EPIC_100_video_info.csv": "video_id,duration,fps,resolution\nP01_101,4000,50.0,1920x1080\n",
    }
    done = read("epic-kitchens-100", tmp_path, files)
    assert texts(done) == {"P01_101_0": ["take the plate"], "P01_101_1": ["take the plate"]}
    clip = one(done, "P01_101_1")
    place = "P01/videos/P01_101.MP4"
    assert (clip["start_s"], clip["frame_count"], clip["fps"], clip["path"]) == (3600, 200, 50, place)
    assert done.corpus.captions["noun_classes"].to_list() == [[2, 13], [2]]


def test_retimed_segments_stand_in_for_the_large_table(tmp_path: Path) -> None:
    """Without a table of sentences, and with one that lacks a segment."""
    files = {"training.csv": "P01_01_0,P01_01,4,101,3,3,2413\nP01_01_1,P01_01,131,185,6,114,3331\n"}
    done = read("epic-kitchens-100", tmp_path, files)
    assert one(done, "P01_01_1")["frame_count"] == 54
    assert one(done, "P01_01_1")["fps"] == 30
    assert said(done, "EPIC_100_retrieval_train_sentence.csv was not given")
    files["EPIC_100_retrieval_train_sentence.csv"] = "narration_id,narration\nP01_01_0,take plate\n"
    done = read("epic-kitchens-100", tmp_path, files)
    (silent,) = [notice for notice in done.notices if notice.sentence.startswith("1 clips of train have no caption")]
    assert (silent.left_out, silent.split) == (True, "train") and "P01_01_1" in silent.sentence


QVHIGHLIGHT = {
    "qid": 5, "query": "A girl cooks.", "duration": 150, "vid": "abc_210.0_360.0", "relevant_clip_ids": [1, 3],
    "saliency_scores": [[1, 2, 3], [4, 4, 4]], "relevant_windows": [[2, 4], [6, 8]],
}  # fmt: skip


def test_qvhighlights(tmp_path: Path) -> None:
    other = QVHIGHLIGHT | {"qid": 6, "query": "She laughs.", "relevant_windows": [[0, 150]]}
    files = {"highlight_val_release.jsonl": "\n".join(json.dumps(one) for one in (QVHIGHLIGHT, other))}
    done = read("qvhighlights", tmp_path, files)
    assert one(done, "abc_210.0_360.0")["path"] == "abc.mp4" and one(done, "abc_210.0_360.0")["start_s"] == 210
    captions = done.corpus.captions
    assert captions["caption_id"].to_list() == ["5", "6"]
    assert captions["windows"].to_list() == [[[2, 4], [6, 8]], [[0, 150]]]
    rated = captions["ratings"].to_list()[0]
    assert len(rated) == 75 and rated[1] == [1, 2, 3] and rated[3] == [4, 4, 4] and rated[2] == [0, 0, 0]
    assert said(done, "2 queries (officially 1,550)")


DIDEMO_MOMENT = {
    "annotation_id": 3, "video": "12@N00_1.mov", "description": "a dog jumps", "num_segments": 6,
    "times": [[0, 0], [0, 1], [5, 5], [0, 0]],
}  # fmt: skip


def test_didemo_moments(tmp_path: Path) -> None:
    done = read("didemo-moments", tmp_path, {"val_data.json": [DIDEMO_MOMENT]})
    assert done.corpus.captions["windows"].to_list() == [[[0, 5], [0, 10], [25, 30], [0, 5]]]
    assert done.corpus.captions["agreeing"].to_list() == [3]
    assert one(done, "12@N00_1")["end_s"] == 30


def test_tvr(tmp_path: Path) -> None:
    line = {"vid_name": "a_01", "duration": 61.5, "ts": [1.5, 3], "desc": "She waits.", "type": "vt", "desc_id": 9}
    done = read("tvr", tmp_path, {"tvr_val_release.jsonl": json.dumps(line)})
    captions = done.corpus.captions.select("caption_id", "windows", "asks_for")
    assert captions.rows() == [("9", [[1.5, 3.0]], "vt")]


def test_moments_annotated_anew(tmp_path: Path) -> None:
    rows = (
        "HITId,video_id,description,start,end\nh,a.mp4,she sits,0,10\nh,a.mp4,she sits,5,20\ng,a.mp4,she goes,50,100\n"
    )
    done = read("moments-annotated-anew", tmp_path, {"charades_test_00.csv": rows})
    captions = done.corpus.captions.select("caption_id", "clip_id", "windows", "agreeing")
    assert captions.rows() == [("h", "a", [[0, 10], [5, 20]], 1), ("g", "a", [[50, 100]], 1)]
    assert said(done, "percent of a video")


def test_multivent_has_every_relevant_video_of_a_query(tmp_path: Path) -> None:
    judged = [("q", "v1", 1), ("q", "v3", 1), ("q", "v2", 0), ("q", "v0", -2), ("r", "v2", 1)]
    lines = "# judged twice\n" + "\n".join(
        json.dumps({"query_id": q, "doc_id": v, "relevance": r}) for q, v, r in judged
    )
    files = {"multivent_2_q.csv": "Query_id,query\nq,a storm\nr,a march\ns,nothing\n"}
    files |= {"multivent_2_j.jsonl": lines, "multivent_2_ids.csv": "id\nv0\nv1\nv2\nv3\n"}
    done = read("multivent-2", tmp_path, files)
    found = own_clip(done.corpus, ["q", "r"], ["v0", "v1", "v2", "v3"]).block(slice(0, 2), slice(0, 4))
    assert found.tolist() == [[0, 1, 0, 1], [0, 0, 1, 0]]
    assert said(done, "queries have no relevant video", "s")
    assert said(done, "1 judgement of a grade below 0")


RTIME = {
    "temporal": True, "reverse": True, "forward_captions": ["It opens."], "reverse_captions": ["It closes."],
    "forward_rewrites": ["It is opened."], "reverse_rewrites": [],
}  # fmt: skip


def test_reversed_in_time(tmp_path: Path) -> None:
    done = read("rtime", tmp_path, {"test.json": {"7": RTIME, "8": RTIME | {"reverse_captions": None}}})
    assert texts(done) == {"7": ["It opens."], "7_reverse": ["It closes."], "8": ["It opens."]}
    assert one(done, "7_reverse")["backwards"] and not one(done, "7")["backwards"]
    assert [one(done, clip)["order_of"] for clip in ("7", "7_reverse", "8")] == [None, "7", None]
