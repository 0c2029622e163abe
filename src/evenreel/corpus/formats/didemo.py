"""DiDeMo for paragraph retrieval: a video's descriptions, joined, are its one caption.

Official: `SPLIT_data.json` [{`video`, `description`, `times`}], with `SPLIT_list.txt` where not every video counts.
Table: `didemo_SPLIT_label.csv` with `success, video_path, starts, ends, text, formatted_data`, joined already.
Annotators saw the first 30 seconds; the field reads the seconds 0 to 31, and so do the clips here. Names are without
their extension, which repositories write differently. (Hendricks et al. 2017.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.given_files import ReleaseFiles, csv_rows, field, number, read_json, read_lines, stem, typed
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

OFFICIAL = {"train": 8362, "val": 1062, "test": 1004}
WINDOW_S = (0.0, 31.0)


def read_didemo(paths: Sequence[Path]) -> Imported:
    """Read DiDeMo for paragraph retrieval, from its official files or from the tables `didemo_SPLIT_label.csv`."""
    given = ReleaseFiles("DiDeMo", paths)
    draft = Draft("DiDeMo")
    for split in OFFICIAL:
        names = (f"{split}_data.json", f"*didemo_{split}*.csv", f"{split}_label.csv")
        listed = given.one(f"{split}_list.txt")
        if path := given.one(*names):
            if path.suffix == ".csv":
                _read_table(draft, split, path)
            else:
                _read_json(draft, split, path, listed)
    if not draft.clips:
        raise CorpusError(given.lacks("train_data.json or didemo_train_label.csv, or those of val or test,"))
    draft.expect(OFFICIAL)
    draft.notices += given.unread()
    return draft.finish()


def _read_table(draft: Draft, split: str, path: Path) -> None:
    failed = []
    for where, row in csv_rows(path, ("video_path", "text")):
        name = stem(row["video_path"])
        if row.get("success", "True") != "True":
            failed.append(name)
            continue
        window = (_seconds(row.get("starts"), where, 0), _seconds(row.get("ends"), where, 1))
        draft.clip(name, _columns(row["video_path"], split, window), where)
        draft.caption(name, row["text"])
    draft.leave_out(f"videos of {path.name} are left out because the file says they could not be read", failed)


def _read_json(draft: Draft, split: str, path: Path, listed: Path | None) -> None:
    told: dict[str, list[str]] = {}
    written: dict[str, str] = {}
    for n, row in enumerate(typed(read_json(path), list, str(path)), start=1):
        where = f"{path.name}, entry {n},"
        video = field(row, "video", str, where)
        written.setdefault(stem(video), video)
        told.setdefault(stem(video), []).append(field(row, "description", str, where).strip())
    wanted = list(dict.fromkeys(map(stem, read_lines(listed)))) if listed else list(told)
    for name in wanted:
        if name in told:
            draft.clip(name, _columns(written[name], split, WINDOW_S), f"{path.name}, {name},")
            draft.caption(name, " ".join(told[name]))
    if listed:
        draft.leave_out(f"videos of {listed.name} have no description", [one for one in wanted if one not in told])
        draft.leave_out(f"videos of {path.name} are not in {listed.name}", sorted(set(told) - set(wanted)))


def _seconds(written: str | None, where: str, side: int) -> float:
    """The number in `tensor([[31]])`, or the field's window where the column is missing."""
    if written is None:
        return WINDOW_S[side]
    return number(re.sub(r"^tensor\(\[+(.*?)\]+\)$", r"\1", written.strip()), where)


def _columns(video: str, split: str, window: tuple[float, float]) -> dict[str, Any]:
    start, end = window
    file = video.strip().replace("\\", "/").rpartition("/")[2]
    return {"path": file, "start_s": start, "end_s": end, "split": split}
