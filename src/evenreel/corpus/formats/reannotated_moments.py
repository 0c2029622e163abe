"""Charades-STA and ActivityNet Captions, test queries whose moments five people placed anew.

`charades_test_NN.csv`, `activitynet_test_NN.csv`: `HITId, video_id, description, start, end`, a row a person; start and
end are percent of the video. Any of the five answers counts. (Otani et al. 2020.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenreel.corpus.given_files import ReleaseFiles, csv_rows, number, stem
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

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
