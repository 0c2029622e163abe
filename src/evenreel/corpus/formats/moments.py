"""Readers of benchmarks whose captions describe moments of longer videos."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.imported import (
    Draft,
    Imported,
    csv_rows,
    entries,
    json_field,
    json_lines,
    number,
    optional,
    pair,
    stem,
    typed,
)
from evenreel.errors import CorpusError

# QVHighlights: queries about 150-second clips of videos, with all of their moments and ratings of every two seconds.
#
# `highlight_train_release.jsonl`, `highlight_val_release.jsonl`, `highlight_test_with_gt.jsonl`: a query a line with
# `qid`, `query`, `vid` (VIDEO_START_END), `duration`, `relevant_windows`, `relevant_clip_ids` and `saliency_scores`,
# 0 to 4 by three people. (Lei et al. 2021.)

QVHIGHLIGHTS_FILES = {
    "train": "highlight_train_release.jsonl",
    "val": "highlight_val_release.jsonl",
    "test": "highlight_test_with_gt.jsonl",
}
QVHIGHLIGHTS_QUERIES = {"train": 7218, "val": 1550, "test": 1542}
RATED_S = 2.0
RATERS = 3
_PART = re.compile(r"(?P<video>.+)_(?P<start>\d+(?:\.\d+)?)_(?P<end>\d+(?:\.\d+)?)")


def read_qvhighlights(paths: Sequence[Path]) -> Imported:
    """Read QVHighlights for moment retrieval and highlight detection.

    The captions' columns are `windows`, moments (start, end) in seconds of the clip, and `ratings` of every two
    seconds.
    """
    draft = Draft("QVHighlights", paths)
    for split, path in draft.by_split(QVHIGHLIGHTS_FILES).items():
        queries = 0
        for where, entry in json_lines(path):
            name, duration_s = json_field(entry, "vid", str, where), json_field(entry, "duration", float, where)
            part = _PART.fullmatch(name)
            times = {"start_s": float(part["start"]), "end_s": float(part["end"])} if part else {}
            _clip(draft, name, {"path": f"{part['video'] if part else name}.mp4", "split": split, **times}, where)
            windows = json_field(entry, "relevant_windows", list, where)
            columns: dict[str, Any] = {
                "caption_id": str(json_field(entry, "qid", int, where)),
                "windows": [list(pair(one, float, f"{where} relevant_windows")) for one in windows],
            }
            rated = optional(entry, "saliency_scores", list, where)
            if rated is not None:
                columns["ratings"] = _ratings(entry, rated, duration_s, where)
            draft.caption(name, json_field(entry, "query", str, where), columns)
            queries += 1
        _expect_queries(draft, split, queries, QVHIGHLIGHTS_QUERIES[split])
    return draft.finish(needs="highlight_val_release.jsonl, or that of train or highlight_test_with_gt.jsonl,")


def _clip(draft: Draft, name: str, columns: Mapping[str, Any], where: str) -> None:
    """Add a clip where it is new: several queries are about each."""
    if name not in draft.clips:
        draft.clip(name, columns, where)


def _expect_queries(draft: Draft, split: str, queries: int, official: int) -> None:
    if queries != official:
        draft.note(f"The split {split} has {queries:,} queries (officially {official:,}).")


def _ratings(entry: Mapping[str, Any], rated: list[Any], duration_s: float, where: str) -> list[list[int]]:
    """Ratings of all stretches of a clip; those that no window has are 0."""
    places = json_field(entry, "relevant_clip_ids", list, where)
    table = [[0] * RATERS for _ in range(int(duration_s / RATED_S))]
    for place, ratings in zip(places, rated, strict=False):
        if not 0 <= typed(place, int, f"{where} relevant_clip_ids") < len(table):
            raise CorpusError(f"{where} rates stretch {place} of a clip that has {len(table)}.")
        table[place] = [typed(one, int, f"{where} saliency_scores") for one in typed(ratings, list, where)]
    return table


# DiDeMo for moments: descriptions of one moment of a video, placed by four people or more.
#
# `SPLIT_data.json`: [{`video`, `description`, `times`, `num_segments`, `annotation_id`}], where a time is the first and
# the last of the six segments of five seconds. The three people who agree best count. (Hendricks et al. 2017.)

DIDEMO_QUERIES = {"train": 33005, "val": 4180, "test": 4021}
SEGMENT_S = 5.0
AGREEING = 3
"""People who count, those that agree best with a prediction."""


def read_didemo_moments(paths: Sequence[Path]) -> Imported:
    """Read DiDeMo for moment retrieval.

    The captions' column `windows` has the moment (start, end) in seconds that each annotator gave; the column
    `agreeing` is 3, the number of annotators that count, those who agree best with a prediction.
    """
    draft = Draft("DiDeMo moments", paths)
    for split, path in draft.by_split({split: f"{split}_data.json" for split in DIDEMO_QUERIES}).items():
        queries = 0
        for where, entry in entries(path):
            file, segments = json_field(entry, "video", str, where), json_field(entry, "num_segments", int, where)
            end_s = segments * SEGMENT_S
            _clip(draft, stem(file), {"path": file, "start_s": 0.0, "end_s": end_s, "split": split}, where)
            windows = []
            for time in json_field(entry, "times", list, where):
                first, last = pair(time, int, f"{where} times")
                if not 0 <= first <= last < segments:
                    raise CorpusError(f"{where} has a moment of segments {first} to {last} in a video of {segments}.")
                windows.append([first * SEGMENT_S, (last + 1) * SEGMENT_S])
            number = str(json_field(entry, "annotation_id", int, where))
            columns = {"caption_id": number, "windows": windows, "agreeing": AGREEING}
            draft.caption(stem(file), json_field(entry, "description", str, where), columns)
            queries += 1
        _expect_queries(draft, split, queries, DIDEMO_QUERIES[split])
    return draft.finish(needs="train_data.json, val_data.json or test_data.json")


# TVR: queries about moments of clips of television shows, by what is seen, what is said, or both.
#
# `tvr_SPLIT_release.jsonl`: a query a line with `desc_id`, `desc`, `type` (`v`, `t` or `vt`), `vid_name`, `duration`
# and `ts`, its window in seconds; the public test split has none. (Lei et al. 2020.)

TVR_FILES = {
    "train": "tvr_train_release.jsonl",
    "val": "tvr_val_release.jsonl",
    "test": "tvr_test_public_release.jsonl",
}
TVR_OFFICIAL = {"train": 17435, "val": 2179, "test": 1089}


def read_tvr(paths: Sequence[Path]) -> Imported:
    """Read TVR for moment retrieval.

    The captions' column `windows` has the moment (start, end) in seconds; `asks_for` is `v`, `t` or `vt`: whether the
    query is about what is seen, what is said, or both.
    """
    draft = Draft("TVR", paths)
    files = draft.by_split(TVR_FILES)
    for split, path in files.items():
        for where, entry in json_lines(path):
            name, end_s = json_field(entry, "vid_name", str, where), json_field(entry, "duration", float, where)
            _clip(draft, name, {"path": f"{name}.mp4", "start_s": 0.0, "end_s": end_s, "split": split}, where)
            window = optional(entry, "ts", list, where)
            columns = {
                "caption_id": str(json_field(entry, "desc_id", int, where)),
                "windows": [] if window is None else [list(pair(window, float, f"{where} ts"))],
                "asks_for": optional(entry, "type", str, where),
            }
            draft.caption(name, json_field(entry, "desc", str, where), columns)
    official = {split: TVR_OFFICIAL[split] for split in files}
    return draft.finish(official, needs="tvr_val_release.jsonl, or that of train or test_public,")


# Charades-STA and ActivityNet Captions, test queries whose moments five people placed anew.
#
# `charades_test_NN.csv`, `activitynet_test_NN.csv`: `HITId, video_id, description, start, end`, a row a person; start
# and end are percent of the video. Any of the five answers counts. (Otani et al. 2020.)


def read_reannotated_moments(paths: Sequence[Path]) -> Imported:
    """Read the re-annotated moments of Charades-STA or ActivityNet Captions.

    The files give no durations: a clip runs from 0 to 100, so the captions' `windows` (start, end) are percent of it.
    The column `agreeing` is 1, since any one of the five annotators' windows counts.
    """
    draft = Draft("moments annotated anew", paths)
    asked: dict[str, tuple[str, str, list[list[float]]]] = {}
    for path in draft.all("charades_test_*.csv", "activitynet_test_*.csv"):
        for where, row in csv_rows(path, ("HITId", "video_id", "description", "start", "end")):
            name = stem(row["video_id"])
            _clip(draft, name, {"path": row["video_id"], "start_s": 0.0, "end_s": 100.0, "split": "test"}, where)
            query = asked.setdefault(row["HITId"], (name, row["description"], []))
            query[2].append([number(row["start"], where), number(row["end"], where)])
    for caption_id, (name, text, windows) in asked.items():
        draft.caption(name, text, {"caption_id": caption_id, "windows": windows, "agreeing": 1})
    draft.note("Windows are percent of a video, since the files say no durations; give predictions in percent too.")
    return draft.finish(needs="charades_test_00.csv or activitynet_test_00.csv, or others of their kind,")
