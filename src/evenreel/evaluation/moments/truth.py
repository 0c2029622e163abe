"""Annotated moments: the windows of a video that answer each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus.folder import CorpusLike, as_corpus
from evenreel.errors import CorpusError
from evenreel.evaluation.moments.windows import Windows
from evenreel.types import Corpus, Shown

WINDOWS, AGREEING, RATINGS = "windows", "agreeing", "ratings"
"""Columns of captions: true windows (list of [start, end] in seconds of the clip); where these are answers of several
people about one moment, how many of them count, those that agree best with a prediction; ratings of the stretches of
the clip (list over stretches of a list over raters, 0 to 4)."""
SLACK_S = 1.0
"""By how many seconds a window may end after its clip: annotations are rounded."""


@dataclass(frozen=True, eq=False)
class MomentTruth(Shown):
    """True windows of Q queries, any of which answers the query.

    Attributes:
        query_ids: Q ids, those of captions.
        clip_ids: clip that each query is about.
        windows: (W_q, 2) windows of each query, in seconds of the clip; W_q is at least 1.
        agreeing: (Q,) number of annotators that count, where a query's windows are several people's answers about one
            moment; 0 where its windows are different moments.
        durations: (Q,) length of the clip in seconds; NaN where it is not known.
        ratings: (S, raters) ratings of the S stretches of the clip, by query id; empty without ratings.
    """

    query_ids: tuple[str, ...]
    clip_ids: tuple[str, ...]
    windows: tuple[Windows, ...]
    agreeing: NDArray[np.int64]
    durations: NDArray[np.float64]
    ratings: Mapping[str, NDArray[np.float64]]

    def between(self, shortest_s: float, longest_s: float) -> MomentTruth:
        """Select windows longer than `shortest_s` and at most `longest_s` seconds, and the queries that have any."""
        kept = [
            one[(one[:, 1] - one[:, 0] > shortest_s) & (one[:, 1] - one[:, 0] <= longest_s)] for one in self.windows
        ]
        return replace(self, windows=tuple(kept)).of([row for row, one in enumerate(kept) if len(one)])

    def of(self, rows: Sequence[int]) -> MomentTruth:
        """Select some queries, by their indices."""
        return replace(
            self,
            query_ids=tuple(self.query_ids[row] for row in rows),
            clip_ids=tuple(self.clip_ids[row] for row in rows),
            windows=tuple(self.windows[row] for row in rows),
            agreeing=self.agreeing[rows],
            durations=self.durations[rows],
        )


def has_windows(corpus: Corpus) -> bool:
    """Return whether any caption of a corpus has an annotated window."""
    captions = corpus.captions
    return WINDOWS in captions.columns and bool((captions[WINDOWS].list.len() > 0).any())


def moment_truth(corpus: CorpusLike) -> MomentTruth:
    """Read the true windows of a corpus's captions.

    Args:
        corpus: captions with the column `windows`, and perhaps `agreeing` and `ratings`, see `CorpusLike`; select the
            split first.

    Raises:
        CorpusError: there is no such column, no caption has a window, or a window ends before it starts, or is outside
            its clip.
    """
    corpus = as_corpus(corpus)
    captions = corpus.captions
    if WINDOWS not in captions.columns:
        raise CorpusError(
            f"Moments are measured by the captions' column {WINDOWS!r}, a list of [start, end] in seconds of the clip, "
            "which this corpus does not have."
        )
    durations = _durations(corpus)
    if not has_windows(corpus):
        raise CorpusError(f"No caption of this corpus has a window in its column {WINDOWS!r}.")
    asked = captions.filter(pl.col(WINDOWS).list.len() > 0)
    windows = []
    for name, clip, rows in asked.select("caption_id", "clip_id", WINDOWS).iter_rows():
        windows.append(_checked(rows, name, durations.get(clip, np.nan)))
    ratings = captions.select("caption_id", RATINGS).iter_rows() if RATINGS in captions.columns else ()
    return MomentTruth(
        tuple(asked["caption_id"]),
        tuple(asked["clip_id"]),
        tuple(windows),
        _agreeing(asked),
        np.array([durations.get(clip, np.nan) for clip in asked["clip_id"]]),
        {name: np.array(rows, np.float64) for name, rows in ratings if rows},
    )


def _agreeing(asked: pl.DataFrame) -> NDArray[np.int64]:
    """(Q,) how many people's windows count; 0 where windows are moments."""
    if AGREEING not in asked.columns:
        return np.zeros(asked.height, np.int64)
    return asked[AGREEING].fill_null(0).to_numpy().astype(np.int64)


def _checked(rows: Sequence[Sequence[float]], name: str, duration_s: float) -> Windows:
    """Windows of a query, which lie in its clip."""
    if any(len(row) != 2 for row in rows):
        raise CorpusError(
            f"Caption {name!r} has a window of {next(len(row) for row in rows if len(row) != 2)} numbers; give "
            "[start, end]."
        )
    windows = np.array(rows, np.float64)
    wrong = ~np.isfinite(windows).all(1) | (windows[:, 1] <= windows[:, 0]) | (windows[:, 0] < 0)
    if wrong.any():
        start, end = windows[int(np.argmax(wrong))]
        raise CorpusError(
            f"Caption {name!r} has a window from {start:g} to {end:g} s; a window ends after it starts, from 0 on."
        )
    if (windows[:, 1] > duration_s + SLACK_S).any():
        end = windows[:, 1].max()
        raise CorpusError(
            f"Caption {name!r} has a window that ends at {end:g} s, but its clip is {duration_s:g} s long."
        )
    return windows


def _durations(corpus: Corpus) -> dict[str, float]:
    """Seconds of each clip that are known."""
    known = corpus.clips
    length = pl.col("end_s") - pl.col("start_s").fill_null(0.0)
    if "duration_s" in known.columns:
        length = pl.coalesce(length, "duration_s")
    return {name: value for name, value in known.select("clip_id", length.alias("s")).iter_rows() if value is not None}
