"""TVR: queries about moments of clips of television shows, by what is seen, what is said, or both.

`tvr_SPLIT_release.jsonl`: a query a line with `desc_id`, `desc`, `type` (`v`, `t` or `vt`), `vid_name`, `duration` and
`ts`, its window in seconds; the public test split has none. (Lei et al. 2020.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.given_files import ReleaseFiles, field, json_lines, optional, pair
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

FILES = {
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
    files = {split: path for split, name in FILES.items() if (path := given.one(name))}
    for split, path in files.items():
        for where, entry in json_lines(path):
            _add(draft, split, entry, where)
    if not draft.clips:
        raise CorpusError(given.lacks("tvr_val_release.jsonl, or that of train or test_public,"))
    draft.expect({split: OFFICIAL[split] for split in files})
    draft.notices += given.unread()
    return draft.finish()


def _add(draft: Draft, split: str, entry: Mapping[str, Any], where: str) -> None:
    name, duration_s = field(entry, "vid_name", str, where), field(entry, "duration", float, where)
    if name not in draft.clips:
        draft.clip(name, {"path": f"{name}.mp4", "start_s": 0.0, "end_s": duration_s, "split": split}, where)
    window = optional(entry, "ts", list, where)
    columns = {
        "caption_id": str(field(entry, "desc_id", int, where)),
        "windows": [] if window is None else [list(pair(window, float, f"{where} ts"))],
        "asks_for": optional(entry, "type", str, where),
    }
    draft.caption(name, field(entry, "desc", str, where), columns)
