"""QVHighlights: queries about 150-second clips of videos, with all of their moments and ratings of every two seconds.

`highlight_train_release.jsonl`, `highlight_val_release.jsonl`, `highlight_test_with_gt.jsonl`: a query a line with
`qid`, `query`, `vid` (VIDEO_START_END), `duration`, `relevant_windows`, `relevant_clip_ids` and `saliency_scores`, 0 to
4 by three people. (Lei et al. 2021.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.given_files import ReleaseFiles, field, json_lines, optional, pair, typed
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

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
    name, duration_s = field(entry, "vid", str, where), field(entry, "duration", float, where)
    if name not in draft.clips:
        draft.clip(name, _columns(name, split), where)
    columns = {"caption_id": str(field(entry, "qid", int, where)), "windows": _windows(entry, where)}
    rated = optional(entry, "saliency_scores", list, where)
    if rated is not None:
        columns["ratings"] = _ratings(entry, rated, duration_s, where)
    draft.caption(name, field(entry, "query", str, where), columns)
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
    windows = field(entry, "relevant_windows", list, where)
    return [list(pair(one, float, f"{where} relevant_windows")) for one in windows]


def _ratings(entry: Mapping[str, Any], rated: list[Any], duration_s: float, where: str) -> list[list[int]]:
    """Ratings of all stretches of a clip; those that no window has are 0."""
    places = field(entry, "relevant_clip_ids", list, where)
    table = [[0] * RATERS for _ in range(int(duration_s / RATED_S))]
    for place, ratings in zip(places, rated, strict=False):
        if not 0 <= typed(place, int, f"{where} relevant_clip_ids") < len(table):
            raise CorpusError(f"{where} rates stretch {place} of a clip that has {len(table)}.")
        table[place] = [typed(one, int, f"{where} saliency_scores") for one in typed(ratings, list, where)]
    return table
