"""Readers of benchmarks whose captions describe moments of longer videos."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.imported import (
    Draft,
    Imported,
    ReleaseFiles,
    csv_rows,
    json_field,
    json_lines,
    number,
    optional,
    pair,
    read_json,
    stem,
    typed,
)
from evenreel.errors import CorpusError

# QVHighlights: queries about 150-second clips of videos, with all of their moments and ratings of every two seconds.
#
# `highlight_train_release.jsonl`, `highlight_val_release.jsonl`, `highlight_test_with_gt.jsonl`: a query a line with
# `qid`, `query`, `vid` (VIDEO_START_END), `duration`, `relevant_windows`, `relevant_clip_ids` and `saliency_scores`,
# 0 to 4 by three people. (Lei et al. 2021.)

FILES = {
    "train": "highlight_train_release.jsonl",
    "val": "highlight_val_release.jsonl",
    "test": "highlight_test_with_gt.jsonl",
}
OFFICIAL_QUERIES = {"train": 7218, "val": 1550, "test": 1542}
RATED_S = 2.0
RATERS = 3
_PART = re.compile(r"(?P<video>.+)_(?P<start>\d+(?:\.\d+)?)_(?P<end>\d+(?:\.\d+)?)")


def read_qvhighlights(paths: Sequence[Path]) -> Imported:
    """Read QVHighlights for moment retrieval and highlight detection.

    The captions' columns are `windows`, moments (start, end) in seconds of the clip, and `ratings` of every two
    seconds.
    """
    given = ReleaseFiles("QVHighlights", paths)
    draft = Draft("QVHighlights")
    for split, name in FILES.items():
        if path := given.one(name):
            queries = sum(_add(draft, split, entry, where) for where, entry in json_lines(path))
            if queries != OFFICIAL_QUERIES[split]:
                draft.note(f"The split {split} has {queries:,} queries (officially {OFFICIAL_QUERIES[split]:,}).")
    if not draft.clips:
        raise CorpusError(given.lacks("highlight_val_release.jsonl, or that of train or highlight_test_with_gt.jsonl,"))
    draft.notices += given.unread()
    return draft.finish()


def _add(draft: Draft, split: str, entry: Mapping[str, Any], where: str) -> bool:
    """Add a query, and its clip where that is new."""
    name, duration_s = json_field(entry, "vid", str, where), json_field(entry, "duration", float, where)
    if name not in draft.clips:
        draft.clip(name, _columns(name, split), where)
    columns = {"caption_id": str(json_field(entry, "qid", int, where)), "windows": _windows(entry, where)}
    rated = optional(entry, "saliency_scores", list, where)
    if rated is not None:
        columns["ratings"] = _ratings(entry, rated, duration_s, where)
    draft.caption(name, json_field(entry, "query", str, where), columns)
    return True


def _columns(name: str, split: str) -> dict[str, Any]:
    part = _PART.fullmatch(name)
    if part is None:
        return {"path": f"{name}.mp4", "split": split}
    return {
        "path": f"{part['video']}.mp4",
        "start_s": float(part["start"]),
        "end_s": float(part["end"]),
        "split": split,
    }


def _windows(entry: Mapping[str, Any], where: str) -> list[list[float]]:
    windows = json_field(entry, "relevant_windows", list, where)
    return [list(pair(one, float, f"{where} relevant_windows")) for one in windows]


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

DIDEMO_MOMENTS_OFFICIAL_QUERIES = {"train": 33005, "val": 4180, "test": 4021}
SEGMENT_S = 5.0
AGREEING = 3
"""People who count, those that agree best with a prediction."""


def read_didemo_moments(paths: Sequence[Path]) -> Imported:
    """Read DiDeMo for moment retrieval.

    The captions' column `windows` has the moment (start, end) in seconds that each annotator gave; the column
    `agreeing` is 3, the number of annotators that count, those who agree best with a prediction.
    """
    given = ReleaseFiles("DiDeMo", paths)
    draft = Draft("DiDeMo moments")
    for split, official in DIDEMO_MOMENTS_OFFICIAL_QUERIES.items():
        if path := given.one(f"{split}_data.json"):
            entries = typed(read_json(path), list, str(path))
            for number, entry in enumerate(entries, start=1):
                _didemo_moments_add(draft, split, entry, f"{path.name}, entry {number},")
            if len(entries) != official:
                draft.note(f"The split {split} has {len(entries):,} queries (officially {official:,}).")
    if not draft.clips:
        raise CorpusError(given.lacks("train_data.json, val_data.json or test_data.json"))
    draft.notices += given.unread()
    return draft.finish()


def _didemo_moments_add(draft: Draft, split: str, entry: Mapping[str, Any], where: str) -> None:
    file = json_field(entry, "video", str, where)
    name, segments = stem(file), json_field(entry, "num_segments", int, where)
    if name not in draft.clips:
        draft.clip(name, {"path": file, "start_s": 0.0, "end_s": segments * SEGMENT_S, "split": split}, where)
    columns = {
        "caption_id": str(json_field(entry, "annotation_id", int, where)),
        "windows": [_window(time, segments, where) for time in json_field(entry, "times", list, where)],
        "agreeing": AGREEING,
    }
    draft.caption(name, json_field(entry, "description", str, where), columns)


def _window(time: object, segments: int, where: str) -> list[float]:
    """Seconds from the start of the first segment to the end of the last."""
    first, last = pair(time, int, f"{where} times")
    if not 0 <= first <= last < segments:
        raise CorpusError(f"{where} has a moment of segments {first} to {last} in a video of {segments}.")
    return [first * SEGMENT_S, (last + 1) * SEGMENT_S]


# TVR: queries about moments of clips of television shows, by what is seen, what is said, or both.
#
# `tvr_SPLIT_release.jsonl`: a query a line with `desc_id`, `desc`, `type` (`v`, `t` or `vt`), `vid_name`, `duration`
# and `ts`, its window in seconds; the public test split has none. (Lei et al. 2020.)

TVR_FILES = {
    "train": "tvr_train_release.jsonl",
    "val": "tvr_val_release.jsonl",
    "test": "tvr_test_public_release.jsonl",
}
OFFICIAL = {"train": 17435, "val": 2179, "test": 1089}


def read_tvr(paths: Sequence[Path]) -> Imported:
    """Read TVR for moment retrieval.

    The captions' column `windows` has the moment (start, end) in seconds; `asks_for` is `v`, `t` or `vt`: whether the
    query is about what is seen, what is said, or both.
    """
    given = ReleaseFiles("TVR", paths)
    draft = Draft("TVR")
    files = {split: path for split, name in TVR_FILES.items() if (path := given.one(name))}
    for split, path in files.items():
        for where, entry in json_lines(path):
            _tvr_add(draft, split, entry, where)
    if not draft.clips:
        raise CorpusError(given.lacks("tvr_val_release.jsonl, or that of train or test_public,"))
    draft.expect({split: OFFICIAL[split] for split in files})
    draft.notices += given.unread()
    return draft.finish()


def _tvr_add(draft: Draft, split: str, entry: Mapping[str, Any], where: str) -> None:
    name, duration_s = json_field(entry, "vid_name", str, where), json_field(entry, "duration", float, where)
    if name not in draft.clips:
        draft.clip(name, {"path": f"{name}.mp4", "start_s": 0.0, "end_s": duration_s, "split": split}, where)
    window = optional(entry, "ts", list, where)
    columns = {
        "caption_id": str(json_field(entry, "desc_id", int, where)),
        "windows": [] if window is None else [list(pair(window, float, f"{where} ts"))],
        "asks_for": optional(entry, "type", str, where),
    }
    draft.caption(name, json_field(entry, "desc", str, where), columns)


# Charades-STA and ActivityNet Captions, test queries whose moments five people placed anew.
#
# `charades_test_NN.csv`, `activitynet_test_NN.csv`: `HITId, video_id, description, start, end`, a row a person; start
# and end are percent of the video. Any of the five answers counts. (Otani et al. 2020.)

PERCENT = 100.0


def read_reannotated_moments(paths: Sequence[Path]) -> Imported:
    """Read the re-annotated moments of Charades-STA or ActivityNet Captions.

    The files give no durations: a clip runs from 0 to 100, so the captions' `windows` (start, end) are percent of it.
    The column `agreeing` is 1, since any one of the five annotators' windows counts.
    """
    given = ReleaseFiles("moments annotated anew", paths)
    draft = Draft("moments annotated anew")
    asked: dict[str, tuple[str, str, list[list[float]]]] = {}
    for path in given.all("charades_test_*.csv", "activitynet_test_*.csv"):
        for where, row in csv_rows(path, ("HITId", "video_id", "description", "start", "end")):
            name = stem(row["video_id"])
            if name not in draft.clips:
                columns = {"path": row["video_id"], "start_s": 0.0, "end_s": PERCENT, "split": "test"}
                draft.clip(name, columns, where)
            query = asked.setdefault(row["HITId"], (name, row["description"], []))
            query[2].append([number(row["start"], where), number(row["end"], where)])
    if not draft.clips:
        raise CorpusError(given.lacks("charades_test_00.csv or activitynet_test_00.csv, or others of their kind,"))
    for caption_id, (name, text, windows) in asked.items():
        draft.caption(name, text, {"caption_id": caption_id, "windows": windows, "agreeing": 1})
    draft.note("Windows are percent of a video, since the files say no durations; give predictions in percent too.")
    draft.notices += given.unread()
    return draft.finish()
