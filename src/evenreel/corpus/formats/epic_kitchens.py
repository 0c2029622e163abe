"""EPIC-KITCHENS-100 multi-instance retrieval: segments of kitchen videos with verb and noun classes.

`EPIC_100_retrieval_SPLIT.csv` has a row a segment, `EPIC_100_retrieval_SPLIT_sentence.csv` the captions,
`EPIC_100_video_info.csv` the frame rates. Where the large train table is missing, the re-timed `rulstm_training.csv`
(no header: narration, video, first and last frame at 30 fps, verb, noun, action) stands in for it.
(Damen et al. 2022.)

A caption belongs to the segment of its `narration_id` and has that row's classes. In the test set, six of the last
seven captions carry other words than their segment's narration: the published order shifted the words by one row,
while relevance is computed by `narration_id`. The caption keeps its words, and the segment's are in the clip's column
`narration`. `frame_count` is last minus first frame, as the field counts it, and `fps` is the rate of these numbers: 60
a second also for the five test videos whose files have another rate, which is in `video_fps`. `annotated_fps` is the
rate of the official frame numbers, which re-timed ones are brought back to where lengths are compared
(`evenreel.corpus.actions.clip_lengths`). Relevance matrices are pickles and are not read:
`evenreel.corpus.class_relevance` computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.imported import Draft, Imported, csv_rows, number, parse_json, typed, whole
from evenreel.errors import CorpusError

OFFICIAL = {"train": 67217, "test": 9668}
RETIMED = {"train": ("rulstm_training.csv", "training.csv"), "test": ("rulstm_validation.csv", "validation.csv")}
RETIMED_FPS = 30.0
FPS, EXTENSION_FPS = 60.0, 50.0
"""Rates of the official frame numbers: of videos of EPIC-KITCHENS-55, whatever their files have, and of later ones."""

SEGMENT_COLUMNS = (
    "narration_id", "video_id", "start_timestamp", "stop_timestamp", "start_frame", "stop_frame", "narration",
    "verb_class", "all_noun_classes",
)  # fmt: skip
RETIMED_COLUMNS = ("narration_id", "video_id", "start_frame", "stop_frame", "verb_class", "noun_class", "action")


def read_epic_kitchens(paths: Sequence[Path]) -> Imported:
    """Read the annotations of EPIC-KITCHENS-100 multi-instance retrieval.

    The clips' columns `start_frame` and `stop_frame` number the frames of a segment in its video.
    """
    draft = Draft("EPIC-KITCHENS-100", paths)
    rates = draft.one("EPIC_100_video_info.csv")
    if rates is None:
        draft.note("EPIC_100_video_info.csv was not given: the column video_fps is empty.", left_out=True)
    rows = csv_rows(rates, ("video_id", "fps")) if rates else ()
    file_rates = {row["video_id"]: number(row["fps"], where) for where, row in rows}
    for split in OFFICIAL:
        segments = draft.one(f"EPIC_100_retrieval_{split}.csv")
        retimed = draft.one(*RETIMED[split])
        sentences = draft.one(f"EPIC_100_retrieval_{split}_sentence.csv")
        if segments:
            _read_segments(draft, split, segments, file_rates)
        elif retimed:
            _read_retimed(draft, split, retimed, file_rates)
        if segments or retimed:
            _read_captions(draft, split, sentences, own_words=split == "train" and segments is not None)
    needs = "EPIC_100_retrieval_test.csv or EPIC_100_retrieval_train.csv"
    return draft.finish(OFFICIAL, needs=needs, all_captioned=False)


def _read_segments(draft: Draft, split: str, path: Path, file_rates: dict[str, float]) -> None:
    last: dict[str, tuple[float, int]] = {}
    names = []
    for where, row in csv_rows(path, SEGMENT_COLUMNS):
        columns = _shared(row, split, where, file_rates) | {
            "start_s": _seconds(row["start_timestamp"], where),
            "end_s": _seconds(row["stop_timestamp"], where),
            "noun_classes": _classes(row["all_noun_classes"], where),
            "narration": row["narration"],
        }
        video, end = row["video_id"], (columns["end_s"], columns["stop_frame"])
        last[video] = max(end, last.get(video, end))
        names.append((row["narration_id"], video))
        draft.clip(row["narration_id"], columns, where)
    for name, video in names:
        draft.clips[name]["fps"] = draft.clips[name]["annotated_fps"] = _numbering_rate(*last[video])


def _numbering_rate(end_s: float, frame: int) -> float | None:
    """Frames a second of the frame numbers, which are whole rates, from a video's last time and frame.

    >>> _numbering_rate(123.26, 7395), _numbering_rate(0.0, 1)
    (60.0, None)
    """
    return float(round(frame / end_s)) if end_s > 0 else None


def _official_rate(video: str) -> float:
    """Frames a second of the official frame numbers, from the name: those of the extension have three digits.

    >>> _official_rate("P01_01"), _official_rate("P01_101")
    (60.0, 50.0)
    """
    return EXTENSION_FPS if len(video.partition("_")[2]) > 2 else FPS


def _read_retimed(draft: Draft, split: str, path: Path, file_rates: dict[str, float]) -> None:
    for where, row in csv_rows(path, RETIMED_COLUMNS, header=False):
        columns = _shared(row, split, where, file_rates)
        columns |= {
            "start_s": columns["start_frame"] / RETIMED_FPS,
            "end_s": columns["stop_frame"] / RETIMED_FPS,
            "fps": RETIMED_FPS,
            "annotated_fps": _official_rate(row["video_id"]),
            "noun_classes": [whole(row["noun_class"], where)],
        }
        draft.clip(row["narration_id"], columns, where)
    draft.note(
        f"The {split} segments are those of {path.name}: frames at 30 a second, and one noun class each unless a "
        "caption lists more.",
        split=split,
    )


def _shared(row: dict[str, str], split: str, where: str, file_rates: dict[str, float]) -> dict[str, Any]:
    """Columns that both tables of segments give."""
    video = row["video_id"]
    start, stop = whole(row["start_frame"], where), whole(row["stop_frame"], where)
    participant = video.partition("_")[0]
    return {
        "path": f"{participant}/videos/{video}.MP4",
        "frame_count": stop - start,
        "split": split,
        "verb_classes": [whole(row["verb_class"], where)],
        "participant": participant,
        "start_frame": start,
        "stop_frame": stop,
        "video_fps": file_rates.get(video),
    }


def _read_captions(draft: Draft, split: str, path: Path | None, *, own_words: bool) -> None:
    if own_words:
        for name, clip in [(name, clip) for name, clip in draft.clips.items() if clip["split"] == split]:
            _caption(draft, name, clip["narration"])
        draft.note("Every train segment has its own narration as a caption, equal ones included.", split=split)
    elif path is None:
        lacking = f"EPIC_100_retrieval_{split}_sentence.csv was not given, and it has the captions."
        draft.note(lacking, left_out=True, split=split)
    else:
        _read_sentences(draft, split, path)
        if split == "train":  # the train table has a narration for every segment; the test set shares its captions
            told = {row["clip_id"] for row in draft.captions}
            silent = [name for name, clip in draft.clips.items() if clip["split"] == split and name not in told]
            draft.leave_out(f"clips of {split} have no caption without EPIC_100_retrieval_train.csv", silent, split)


def _read_sentences(draft: Draft, split: str, path: Path) -> None:
    other_words = []
    for where, row in csv_rows(path, ("narration_id", "narration")):
        name = row["narration_id"]
        clip = draft.clips.get(name, {})
        if "noun_classes" in row and clip:
            clip["noun_classes"] = _classes(row["noun_classes"], where)
        if clip.get("narration", row["narration"]) != row["narration"]:
            other_words.append(name)
        _caption(draft, name, row["narration"])
    if other_words:
        draft.note(
            f"{len(other_words)} {split} captions have other words than the narration of their segment, and keep "
            f"them with the segment's classes: {', '.join(other_words)}.",
            split=split,
        )


def _caption(draft: Draft, name: str, text: str) -> None:
    clip = draft.clips.get(name, {})
    classes = {kind: clip.get(kind) for kind in ("verb_classes", "noun_classes")}
    draft.caption(name, text, {"caption_id": name} | classes)


def _seconds(stamp: str, where: str) -> float:
    """Seconds of `HH:MM:SS.ss`.

    >>> _seconds("00:01:02.50", "")
    62.5
    """
    parts = stamp.split(":")
    if len(parts) != 3:
        raise CorpusError(f"{where} has the time {stamp!r}; it must be HH:MM:SS.ss.")
    hours, minutes, seconds = (number(part, where) for part in parts)
    return round(hours * 3600 + minutes * 60 + seconds, 3)


def _classes(written: str, where: str) -> list[int]:
    """Numbers of `[13, 3]`."""
    value = parse_json(written, f"{where}, the list {written!r},")
    return [typed(one, int, f"{where}, the list {written!r},") for one in typed(value, list, where)]
