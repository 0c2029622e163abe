"""YouCook2: a clip is a segment of a cooking video, with one sentence.

Official: `youcookii_annotations_trainval.json`, `database` {video: {`subset`, `recipe_type`, `annotations`:
[{`id`, `segment`, `sentence`}]}}. Table: `validation_youcook.csv` with `end, start, task, text, video_id`. The files
are `SUBSET/RECIPE/VIDEO.mp4` in both. (Zhou et al. 2018; the table is that of MIL-NCE, Miech et al. 2020.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.given_files import ReleaseFiles, csv_rows, field, number, optional, read_json, typed
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

SPLITS = {"training": "train", "validation": "val", "testing": "test"}
TABLE_CLIPS = 3350


def read_youcook2(paths: Sequence[Path]) -> Imported:
    """Read YouCook2 from its official annotations or from `validation_youcook.csv`.

    A clip is called `VIDEO_N`: the Nth annotated segment of a video, from 0.
    """
    given = ReleaseFiles("YouCook2", paths)
    draft = Draft("YouCook2")
    path = given.need("youcook*_annotations_trainval*.json", "validation_youcook.csv", "training_youcook.csv")
    for segments in given.all("youcook*_annotations_test*.json"):
        draft.note(f"{segments.name} has no sentences and is not read.", split="test")
    if path.suffix == ".csv":
        subset = path.name.lower().partition("_")[0]
        _read_table(draft, subset, path)
        draft.expect({"val": TABLE_CLIPS} if subset == "validation" else {})
    else:
        for video, entry in field(read_json(path), "database", dict, str(path)).items():
            _read_video(draft, video, entry, f"{path.name}, {video},")
    draft.notices += given.unread()
    return draft.finish()


def _read_table(draft: Draft, subset: str, path: Path) -> None:
    seen: Counter[str] = Counter()
    for where, row in csv_rows(path, ("end", "start", "task", "text", "video_id")):
        video = row["video_id"]
        times = number(row["start"], where), number(row["end"], where)
        name = f"{video}_{seen[video]}"
        seen[video] += 1
        draft.clip(name, _columns(subset, row["task"], video, times), where)
        draft.caption(name, row["text"])


def _read_video(draft: Draft, video: str, entry: Any, where: str) -> None:
    subset = field(entry, "subset", str, where)
    if subset not in SPLITS:
        raise CorpusError(f"{where} field subset, is {subset!r}; it must be one of {', '.join(SPLITS)}.")
    recipe = optional(entry, "recipe_type", str, where) or ""
    for n, segment in enumerate(optional(entry, "annotations", list, where) or []):
        place = f"{where} segment {n},"
        times = [typed(one, float, place) for one in field(segment, "segment", list, place)]
        if len(times) != 2:
            raise CorpusError(f"{place} has {len(times)} times; a segment has a start and an end.")
        draft.clip(f"{video}_{n}", _columns(subset, recipe, video, (times[0], times[1])), place)
        draft.caption(f"{video}_{n}", field(segment, "sentence", str, place))


def _columns(subset: str, recipe: str, video: str, times: tuple[float, float]) -> dict[str, Any]:
    return {
        "path": "/".join(part for part in (subset, recipe, f"{video}.mp4") if part),
        "start_s": times[0],
        "end_s": times[1],
        "split": SPLITS[subset],
        "recipe": recipe or None,
    }
