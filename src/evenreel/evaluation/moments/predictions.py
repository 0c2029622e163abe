"""Predictions of moments: windows for each query, and ratings of stretches of its clip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.config import as_path
from evenreel.corpus.imported import json_lines, typed
from evenreel.documents import brief
from evenreel.errors import CorpusError, ScoresError
from evenreel.types import Shown

RankedWindows = NDArray[np.float64]
"""(M, 2) start and end of windows in seconds of the clip, the likeliest first."""
_IDS = ("caption_id", "query_id", "qid", "desc_id")
_WINDOWS, _RATINGS = "pred_relevant_windows", "pred_saliency_scores"


@dataclass(frozen=True, eq=False)
class MomentPredictions(Shown):
    """Windows that a system predicts for queries, and ratings of stretches of clips.

    Attributes:
        windows: (M, 2) start and end in seconds, the likeliest first, by query id.
        ratings: (S,) scores of the stretches of the clip, the higher the better, by query id; empty where a system
            gives none.
        clips: clip of each window, by query id, where a system searched all clips (video corpus moment retrieval);
            empty where each query's own clip was searched.
    """

    windows: Mapping[str, RankedWindows]
    ratings: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    clips: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def load_predictions(path: str | PathLike[str]) -> MomentPredictions:
    """Load predicted moments from a JSON Lines file, a query a line, in the form of QVHighlights' submissions.

    A line has the id of a caption (`caption_id`, `query_id`, `qid` or `desc_id`), `pred_relevant_windows`, a list of
    [start, end] or [start, end, score] in seconds of the clip, and perhaps `pred_saliency_scores`. With scores windows
    are ordered by them, equal ones as they stand. Where all clips were searched, each begins with its clip: [clip_id,
    start, end] or [clip_id, start, end, score].

    Raises:
        ScoresError: the file cannot be read, a line is no such object or names a query again, or a window ends before
            it starts.
    """
    path = as_path(path, "path")
    windows: dict[str, RankedWindows] = {}
    ratings: dict[str, NDArray[np.float64]] = {}
    clips: dict[str, tuple[str, ...]] = {}
    try:
        for where, entry in json_lines(path):
            name = _id_of(entry, where)
            if name in windows:
                raise ScoresError(f"{where} answers query {name!r} again; a query has one line.")
            windows[name], named = _ranked(entry.get(_WINDOWS), f"{where} query {name!r},")
            if named:
                clips[name] = named
            if entry.get(_RATINGS) is not None:
                ratings[name] = _numbers(entry[_RATINGS], f"{where} query {name!r}, {_RATINGS},")
    except CorpusError as error:
        raise ScoresError(*error.args) from error
    if not windows:
        raise ScoresError(f"{path} has no predictions.")
    plain = [name for name in windows if len(windows[name]) and name not in clips]
    if clips and plain:
        raise ScoresError(
            f"{path} says of some windows which clip they are in, not of those of query {plain[0]!r}; say it of all."
        )
    return MomentPredictions(windows, ratings, clips)


def _id_of(entry: Mapping[str, Any], where: str) -> str:
    for key in _IDS:
        if entry.get(key) is not None:
            return str(entry[key])
    raise ScoresError(f"{where} has no id of a query; give one of {', '.join(_IDS)}.")


def _ranked(rows: Any, where: str) -> tuple[RankedWindows, tuple[str, ...]]:
    """Windows in the order of their scores, where they have any, and the clip of each, where that is said."""
    if not isinstance(rows, list) or any(not isinstance(row, list) for row in rows):
        raise ScoresError(f"{where} needs {_WINDOWS}, a list of [start, end] or [start, end, score].")
    clips = [row[0] for row in rows if row and isinstance(row[0], str)]
    if clips and len(clips) < len(rows):
        raise ScoresError(f"{where} says of some windows which clip they are in; say it of all, or of none.")
    times = [row[1:] for row in rows] if clips else rows
    if any(len(row) not in (2, 3) for row in times):
        raise ScoresError(
            f"{where} needs {_WINDOWS}, a list of [start, end] or [start, end, score], or of [clip_id, start, end] or "
            "[clip_id, start, end, score]."
        )
    if len({len(row) for row in times}) > 1:
        raise ScoresError(f"{where} has windows with a score and windows without; give all of them one, or none.")
    if not rows:
        return np.empty((0, 2)), ()
    table = np.array([_numbers(row, where) for row in times])
    wrong = table[:, 1] < table[:, 0]
    if wrong.any():
        start, end = table[int(np.argmax(wrong)), :2]
        raise ScoresError(f"{where} has a window from {start:g} to {end:g} s, which ends before it starts.")
    order = np.argsort(-table[:, 2], kind="stable") if table.shape[1] == 3 else np.arange(len(table))
    return table[order, :2], tuple(clips[row] for row in order) if clips else ()


def _numbers(values: object, where: str) -> NDArray[np.float64]:
    """Finite numbers of a list."""
    found = np.array([typed(one, float, where) for one in typed(values, list, where)], np.float64)
    if not np.isfinite(found).all():
        raise ScoresError(f"{where} has {brief(values)}; give finite numbers.")
    return found
