"""Reversed in Time: videos and the same played backwards, each with captions that are wrong for the other.

`test.json`, `train.json`, `val.json`: {video: {`forward_captions`, `reverse_captions`, `forward_rewrites`,
`reverse_rewrites`, `temporal`, `reverse`}}. (Du et al. 2024.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.given_files import ReleaseFiles, field, optional, read_json, texts, typed
from evenreel.corpus.imported import Draft, Imported
from evenreel.corpus.order_twins import ORDER_OF
from evenreel.errors import CorpusError

SPLITS = ("train", "val", "test")
REVERSED = "_reverse"
"""Behind the name of a video that is played backwards."""


def read_rtime(paths: Sequence[Path]) -> Imported:
    """Read RTime (Reversed in Time), videos and the same videos played backwards.

    The ids of clips played backwards end in `_reverse`, their column `backwards` is true, and `order_of` names the clip
    that they are played backwards of, for the audit `order`.
    """
    given = ReleaseFiles("RTime", paths)
    draft = Draft("RTime")
    for split in SPLITS:
        if path := given.one(f"{split}.json"):
            for name, entry in typed(read_json(path), dict, str(path)).items():
                _add(draft, split, name, typed(entry, dict, f"{path.name}, {name},"), f"{path.name}, {name},")
    if not draft.clips:
        raise CorpusError(given.lacks("train.json, val.json or test.json"))
    draft.note("Rewritten captions are not read: they say what the first ones say, in other words.")
    draft.notices += given.unread()
    return draft.finish()


def _add(draft: Draft, split: str, name: str, entry: Mapping[str, Any], where: str) -> None:
    for way, ending in (("forward", ""), ("reverse", REVERSED)):
        captions = optional(entry, f"{way}_captions", list, where)
        if captions is None:
            continue
        clip = f"{name}{ending}"
        shot = name if ending and entry.get("forward_captions") is not None else None
        columns = {
            "path": f"{clip}.mp4", "split": split, "backwards": bool(ending), "same_scene": name, ORDER_OF: shot,
        }  # fmt: skip
        draft.clip(clip, columns, where)
        for text in texts(field(entry, f"{way}_captions", list, where), where):
            draft.caption(clip, text)
