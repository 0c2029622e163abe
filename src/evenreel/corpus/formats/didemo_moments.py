"""DiDeMo for moments: descriptions of one moment of a video, placed by four people or more.

`SPLIT_data.json`: [{`video`, `description`, `times`, `num_segments`, `annotation_id`}], where a time is the first and
the last of the six segments of five seconds. The three people who agree best count. (Hendricks et al. 2017.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.given_files import ReleaseFiles, field, pair, read_json, stem, typed
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

OFFICIAL_QUERIES = {"train": 33005, "val": 4180, "test": 4021}
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
    for split, official in OFFICIAL_QUERIES.items():
        if path := given.one(f"{split}_data.json"):
            entries = typed(read_json(path), list, str(path))
            for number, entry in enumerate(entries, start=1):
                _add(draft, split, entry, f"{path.name}, entry {number},")
            if len(entries) != official:
                draft.note(f"The split {split} has {len(entries):,} queries (officially {official:,}).")
    if not draft.clips:
        raise CorpusError(given.lacks("train_data.json, val_data.json or test_data.json"))
    draft.notices += given.unread()
    return draft.finish()


def _add(draft: Draft, split: str, entry: Mapping[str, Any], where: str) -> None:
    file = field(entry, "video", str, where)
    name, segments = stem(file), field(entry, "num_segments", int, where)
    if name not in draft.clips:
        draft.clip(name, {"path": file, "start_s": 0.0, "end_s": segments * SEGMENT_S, "split": split}, where)
    columns = {
        "caption_id": str(field(entry, "annotation_id", int, where)),
        "windows": [_window(time, segments, where) for time in field(entry, "times", list, where)],
        "agreeing": AGREEING,
    }
    draft.caption(name, field(entry, "description", str, where), columns)


def _window(time: object, segments: int, where: str) -> list[float]:
    """Seconds from the start of the first segment to the end of the last."""
    first, last = pair(time, int, f"{where} times")
    if not 0 <= first <= last < segments:
        raise CorpusError(f"{where} has a moment of segments {first} to {last} in a video of {segments}.")
    return [first * SEGMENT_S, (last + 1) * SEGMENT_S]
