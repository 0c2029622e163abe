"""Clusters of clips that are resampled together, since clips of one video are no independent evidence.

Clips of one video share its place, light and people, so a system does well or badly on many of them at once. An
interval over single clips is then too narrow: with a correlation of only 0.02 within a video it holds the truth in 70 %
of cases instead of 95 % for the 9,668 clips of the 138 test videos of EPIC-KITCHENS-100 (`benchmarks/coverage.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.errors import CorpusError
from evenreel.types import Corpus

AUTO, CLIP, VIDEO = "auto", "clip", "video"
"""Names of rules: videos where the corpus shows that clips share them, each clip by itself, videos."""

VIDEO_COLUMNS = ("video_id", "path")
"""Columns that may say which video a clip is cut from; the first that the clips have counts."""

_PLURALS = {CLIP: "clips", VIDEO: "videos"}


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of clips that intervals and tests resample together, such as the clips of one video.

    Attributes:
        number: number of the cluster by clip id.
        word: name for clusters in the plural: `clips`, `videos`, or `values of participant`.
        clips: number of clips.
        column: column that the clusters are made of; empty for clips by themselves.
        alone: number of clips without a value in the column; each is a cluster by itself.
        chosen: whether the rule was chosen by looking at the corpus.
    """

    number: dict[str, int]
    word: str
    clips: int
    column: str = ""
    alone: int = 0
    chosen: bool = False

    @cached_property
    def count(self) -> int:
        """Number of clusters."""
        return len(set(self.number.values()))

    @property
    def by_clip(self) -> bool:
        """Whether each clip is a cluster by itself."""
        return self.word == _PLURALS[CLIP]

    @property
    def notice(self) -> str:
        """Sentence that says what intervals and tests resample, where it is not single clips; else empty."""
        if self.by_clip:
            return ""
        of = f"The {self.clips - self.alone:,} clips{' that say so' if self.alone else ''} are of "
        rest = f"; {self.alone:,} say nothing there, and each stands for itself" if self.alone else ""
        drawn = f"{of}{self.count - self.alone:,} {self.word} (column {self.column!r}){rest}. Intervals and tests draw "
        otherwise = f" To draw clips, say so (--cluster {CLIP})." if self.chosen else ""
        return f"{drawn}these, not clips.{otherwise}"

    def of(self, clips: Sequence[str]) -> NDArray[np.int64]:
        """Return the cluster number (n,) of each clip; a clip that is not in the corpus is a cluster by itself.

        >>> Clusters({"a": 0, "b": 0, "c": 1}, "videos", 3).of(["c", "b", "a", "elsewhere"]).tolist()
        [1, 0, 0, 2]
        """
        strangers = dict.fromkeys(clip for clip in clips if clip not in self.number)
        known = self.number | {clip: place for place, clip in enumerate(strangers, self.count)}
        return np.array([known[clip] for clip in clips], dtype=np.int64)


def clusters_of(corpus: Corpus, cluster: str = AUTO) -> Clusters:
    """Assign the clips of a corpus to clusters that intervals and tests resample together.

    Returns:
        Clusters numbered in the order of their values, whatever the order of the corpus.
    """
    clips = corpus.clips["clip_id"].to_list()
    video = next((name for name in VIDEO_COLUMNS if name in corpus.clips.columns and any(_values(corpus, name))), None)
    if cluster == CLIP or (cluster == AUTO and video is None):
        return Clusters({clip: place for place, clip in enumerate(sorted(clips))}, _PLURALS[CLIP], len(clips))
    if cluster == VIDEO and video is None:
        raise CorpusError(
            f"No clip says which video it is cut from (columns {' and '.join(VIDEO_COLUMNS)}); name another column of "
            f"the clips, or draw clips (--cluster {CLIP})."
        )
    column = video if video is not None and cluster in (AUTO, VIDEO) else cluster
    values = _values(corpus, column)
    named = {clip: (not value, value or clip) for clip, value in zip(clips, values, strict=True)}
    number = {one: place for place, one in enumerate(sorted(set(named.values())))}
    word = _PLURALS[VIDEO] if cluster in (AUTO, VIDEO) else f"values of {column}"
    if cluster == AUTO and len(number) == len(clips):
        word = _PLURALS[CLIP]
    found = {clip: number[one] for clip, one in named.items()}
    return Clusters(found, word, len(clips), column, values.count(""), cluster == AUTO)


def _values(corpus: Corpus, column: str) -> list[str]:
    """A value for each clip, empty where there is none."""
    if column in corpus.clips.columns:
        values = corpus.clips[column]
    elif column in corpus.captions.columns:
        values = _of_captions(corpus, column)
    else:
        raise CorpusError(
            f"Neither clips nor captions have a column {column!r} to draw by; clips have: "
            f"{', '.join(corpus.clips.columns)}."
        )
    known = values.fill_nan(None) if values.dtype.is_float() else values
    return ["" if value is None else str(value) for value in known.to_list()]


def _of_captions(corpus: Corpus, column: str) -> pl.Series:
    """Each clip's value of a column that its captions have."""
    per_clip = corpus.captions.group_by("clip_id", maintain_order=True).agg(pl.col(column).drop_nulls().unique())
    if (mixed := per_clip.filter(pl.col(column).list.len() > 1)).height:
        raise CorpusError(
            f"Captions of clip {mixed['clip_id'][0]!r} differ in {column!r} ({mixed.height:,} such clips), so clips "
            "cannot be drawn by it; put the column into the table of clips."
        )
    only = per_clip.with_columns(pl.col(column).list.first())
    return corpus.clips.select("clip_id").join(only, on="clip_id", how="left", maintain_order="left")[column]
