"""Readers on the real official files: counts, and values checked against the files by other means."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import polars as pl

from evenreel.corpus import FORMATS, Imported, class_relevance


def counts(done: Imported) -> tuple[dict[str, int], dict[str, int]]:
    """Clips and captions of each split."""
    split_of = dict(done.corpus.clips.select("clip_id", "split").iter_rows())
    captions = Counter(split_of[clip] for clip in done.corpus.captions["clip_id"])
    return dict(Counter(split_of.values())), dict(captions)


def left_out(done: Imported) -> list[str]:
    return [notice.sentence for notice in done.notices if notice.left_out]


def test_msvd(shared_data: Path) -> None:
    done = FORMATS["msvd"]([shared_data / "msvd"])
    clips, captions = counts(done)
    assert clips == {"train": 1200, "val": 100, "test": 670}
    assert captions == {"train": 48774, "val": 4290, "test": 27763}
    written = json.loads((shared_data / "msvd" / "captions_msvd.json").read_text())
    tested = (shared_data / "msvd" / "test_list.txt").read_text().split()
    again = sum(len(told) - len({text.strip() for text in told}) for told in (written[name] for name in tested))
    assert left_out(done) == []
    assert done.notices[0].sentence.startswith(f"{again:,} captions of test say the same as another of their clip")
    of_clip = done.corpus.captions.filter(pl.col("clip_id") == "fr9H1WLcF1A_326_336")["text"].to_list()
    assert of_clip == [text.strip() for text in written["fr9H1WLcF1A_326_336"]]
    assert done.corpus.clips.filter(pl.col("clip_id") == "fr9H1WLcF1A_326_336")["duration_s"].item() == 10


def test_msrvtt_1ka_without_the_large_file(shared_data: Path) -> None:
    done = FORMATS["msrvtt-1ka"]([shared_data / "msrvtt"])
    assert counts(done) == ({"train": 9000, "test": 1000}, {"test": 1000})
    assert done.corpus.captions["text"].n_unique() == 995
    assert left_out(done) == [
        "Neither MSRVTT_data.json nor another form of it was given, and it has the captions to train on."
    ]


def test_msrvtt_7k(shared_data: Path) -> None:
    clips, _ = counts(FORMATS["msrvtt-7k"]([shared_data / "msrvtt"]))
    assert clips == {"train": 7010, "test": 1000}


def test_didemo(shared_data: Path) -> None:
    done = FORMATS["didemo"]([shared_data / "didemo"])
    assert counts(done) == ({"val": 1062, "test": 1004}, {"val": 1062, "test": 1004})
    assert done.corpus.clips.select(pl.col("start_s", "end_s").unique()).row(0) == (0, 31)
    assert left_out(done) == []


def test_youcook2(shared_data: Path) -> None:
    done = FORMATS["youcook2"]([shared_data / "youcook2"])
    assert counts(done) == ({"val": 3350}, {"val": 3350})
    with (shared_data / "youcook2" / "validation_youcook.csv").open(encoding="utf-8") as file:
        seconds = sum(int(row["end"]) - int(row["start"]) for row in csv.DictReader(file))
    assert done.corpus.clips.select((pl.col("end_s") - pl.col("start_s")).sum()).item() == seconds


def test_tgif_has_addresses_but_its_sentences_are_elsewhere(shared_data: Path) -> None:
    done = FORMATS["tgif"]([shared_data / "tgif"])
    assert counts(done) == ({"test": 11360}, {})
    assert left_out(done) == ["tgif-v1.0.tsv was not given, and it has the captions."]


def test_textvr(shared_data: Path) -> None:
    done = FORMATS["textvr"]([shared_data / "textvr"])
    assert counts(done) == ({"test": 2727}, {"test": 2727})
    assert done.corpus.clips["domain"].n_unique() == 8
    assert done.corpus.clips["duration_s"].is_null().sum() == 1244  # written as 0
    assert done.texts is None


def test_the_manifest_of_the_clips_is_a_table(shared_data: Path) -> None:
    done = FORMATS["table"]([shared_data / "videos" / "manifest.csv"])
    with (shared_data / "videos" / "manifest.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert done.corpus.clips["path"].to_list() == [row["path"] for row in rows]
    assert done.corpus.clips["source"].to_list() == [row["source"] for row in rows]
    assert done.corpus.captions["text"].to_list() == [row["caption"] for row in rows]


def test_epic_kitchens_counts(epic_kitchens: Imported) -> None:
    assert counts(epic_kitchens) == ({"train": 67217, "test": 9668}, {"train": 15989, "test": 3842})
    assert [sentence[:37] for sentence in left_out(epic_kitchens)] == [
        f"{67217 - 15989:,} clips of train have no caption"
    ]


def test_epic_kitchens_lengths_are_those_of_the_frame_length_paper(epic_kitchens: Imported) -> None:
    """Take + rubbish: 4 test clips of 305.5 frames, 95 train clips; train frames are re-timed to 30 a second."""
    take_rubbish = epic_kitchens.corpus.clips.filter(
        (pl.col("verb_classes").list.first() == 0) & (pl.col("noun_classes").list.first() == 54)
    )
    test = take_rubbish.filter(pl.col("split") == "test")["frame_count"]
    assert (len(test), test.mean()) == (4, 305.5)
    assert take_rubbish.filter(pl.col("split") == "train").height == 95


def test_epic_kitchens_times_fit_its_frames(epic_kitchens: Imported) -> None:
    """Time stamps and frame numbers of a segment are two writings of one thing, whatever the file's own rate."""
    test = epic_kitchens.corpus.clips.filter(pl.col("split") == "test")
    assert (test["stop_frame"] - test["end_s"] * test["fps"]).abs().max() <= 1
    assert test["fps"].unique().to_list() == [60.0]
    assert set(test["video_fps"].round(2).unique()) == {29.97, 47.95, 59.94, 90.0}


def test_epic_kitchens_captions_with_other_words_have_their_segments_classes(epic_kitchens: Imported) -> None:
    row = epic_kitchens.corpus.captions.filter(pl.col("caption_id") == "P22_04_144").row(0, named=True)
    clip = epic_kitchens.corpus.clips.filter(pl.col("clip_id") == "P22_04_144").row(0, named=True)
    assert (row["text"], clip["narration"]) == ("wash cooker", "cut slice")
    assert row["noun_classes"] == clip["noun_classes"]
    assert (
        sum(
            "P22_04_144" in notice.sentence and "6 test captions" in notice.sentence for notice in epic_kitchens.notices
        )
        == 1
    )


def test_epic_kitchens_relevance(epic_kitchens: Imported) -> None:
    """11.4 % of the pairs are relevant to some degree, 0.17 % wholly."""
    test = epic_kitchens.corpus.clips.filter(pl.col("split") == "test")["clip_id"].to_list()
    captions = epic_kitchens.corpus.captions.filter(pl.col("clip_id").is_in(test))["caption_id"].to_list()
    relevance = class_relevance(epic_kitchens.corpus, captions, test)
    some = whole = 0
    for start in range(0, len(captions), 1000):
        block = relevance.block(slice(start, start + 1000), slice(0, len(test)))
        some += int((block > 0).sum())
        whole += int((block == 1).sum())
    pairs = len(captions) * len(test)
    assert round(100 * some / pairs, 1) == 11.4
    assert round(100 * whole / pairs, 2) == 0.17


def test_moments(shared_data: Path) -> None:
    """Lines, rows and windows of each release, counted in its files by other means."""
    tvr = FORMATS["tvr"]([shared_data / "tvr"])
    lines = [json.loads(line) for line in (shared_data / "tvr" / "tvr_val_release.jsonl").read_text().splitlines()]
    assert counts(tvr) == ({"val": len({line["vid_name"] for line in lines})}, {"val": len(lines)})
    assert tvr.corpus.captions["windows"].list.first().to_list() == [line["ts"] for line in lines]
    anew = FORMATS["moments-annotated-anew"]([shared_data / "charades_activitynet_reannotated"])
    assert counts(anew)[1] == {"test": 2268}
    assert anew.corpus.captions["windows"].list.len().unique().to_list() == [5]
    didemo = FORMATS["didemo-moments"]([shared_data / "didemo_moments"])
    assert counts(didemo)[1] == {"val": 4180, "test": 4021}
    backwards = FORMATS["rtime"]([shared_data / "rtime"]).corpus.clips["backwards"]
    assert (len(backwards), int(backwards.sum())) == (2000, 1000)


def test_multivent(shared_data: Path) -> None:
    done = FORMATS["multivent-2"]([shared_data / "multivent_2"])
    lines = (shared_data / "multivent_2" / "multivent_2_j.jsonl").read_text().splitlines()
    assert counts(done) == ({"test": 108432}, {"test": 1361})
    assert 1361 + done.corpus.captions["other_clips"].list.len().sum() == len(lines)
