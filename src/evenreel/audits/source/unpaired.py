"""Measures of source bias without pairs: how irrelevant real clips are ranked beside irrelevant generated ones.

For each caption, every real clip that is not relevant is compared with every generated clip that is not: the share of
comparisons that the real one wins, ties half, is a two-sample U-statistic (Mann and Whitney 1947), and its mean over
captions one of three samples. It is a sum over the real clips of their mean ranks, so it is tested, and its interval
made, by permuting which clips are real while every clip keeps its ranks (`evenreel.audits.exchange`): only
sums over captions are kept, and scores are read in bands, once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import CACHED_BYTES, Flags, row_bands
from evenreel.audits.exchange import (
    ClipProperty,
    exchange_test,
    inverted_interval,
    inverted_share,
    queries_part,
    widened,
)
from evenreel.audits.inputs import OrderedRows, as_inputs
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source.gallery import EVERY_GROUP, SourceGallery
from evenreel.corpus.accepted import CorpusLike
from evenreel.evaluation.accepted import ScoresLike
from evenreel.evaluation.results import Interval

FIRST_PLACES = (1, 5, 10, 20)
"""Depths of which the share of generated clips is told."""

NEUTRAL = 50.0
"""Percent of meetings that real clips win where there is no preference."""


@dataclass(frozen=True)
class Preference:
    """Rate at which real clips are ranked above generated ones where neither answers the caption.

    Attributes:
        real, generated: number of clips of each kind.
        captions: number of captions for which both kinds have a clip that is not relevant.
        drawn: number of independent clips of the rarer kind: those of one video count once.
        share: share of comparisons that the real clip wins, in percent; 50 is neutral. NaN where there is no such
            caption.
        p_value: two-sided p value of a share of 50; None where there is no interval.
    """

    real: int
    generated: int
    captions: int
    drawn: int
    share: Interval
    p_value: float | None


@dataclass(frozen=True)
class Exposure:
    """Share of generated clips among the first clips of rankings.

    Attributes:
        gallery: percentage of the gallery's clips that are generated.
        shown: percentage of the first k clips that are generated, mean over captions, by k; equal scores count with
            their mean over all orders, and clips that score minus infinity are left out.
        captions: number of captions.
    """

    gallery: float
    shown: dict[int, Interval]
    captions: int


@dataclass(frozen=True, eq=False)
class Unpaired:
    """Measures of source bias that need no pairs.

    Attributes:
        preferences: preference against all generated clips under `EVERY_GROUP`, then against each group where there are
            several.
        exposure: exposure of all generated clips.
        notices: sentences on what was left out.
    """

    preferences: dict[str, Preference]
    exposure: Exposure
    notices: tuple[str, ...] = ()


def measure_unpaired(scores: ScoresLike, corpus: CorpusLike, settings: AuditSettings | None = None) -> Unpaired:
    """Measure source bias in a gallery with real and generated clips, for captions inside or outside the corpus.

    Clips that answer a caption are left out of its comparisons: its own clip, the mirrors of that, and the real clip of
    a mirror. A caption outside the corpus has none.

    Args:
        scores: scores of captions and clips; clips that the corpus does not have are left out with a notice.
        corpus: corpus with the source of clips.
        settings: confidence, and how much is read at once.

    Raises:
        CorpusError: the scores hold no real or no generated clip of the corpus.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    gallery = SourceGallery.of(scores, corpus, settings.cluster)
    tallies = {name: _WinTally(gallery, generated, settings) for name, generated in gallery.generated.items()}
    exposure = _ExposureTally(gallery, settings)
    for rows, block in row_bands(gallery.scores, min(settings.band_bytes, CACHED_BYTES)):
        ordered = OrderedRows.of(block[:, gallery.columns])
        exposure.add(rows, ordered)
        for tally in tallies.values():
            tally.add(rows, ordered)
    return Unpaired({name: tally.preference() for name, tally in tallies.items()}, exposure.result(), gallery.notices)


class _WinTally:
    """Shares of meetings won by real clips, and what each clip would add to their mean as a real one."""

    def __init__(self, gallery: SourceGallery, generated: Flags, settings: AuditSettings) -> None:
        self._gallery, self._settings = gallery, settings
        self._generated = generated
        self._there = np.flatnonzero(gallery.real | generated)
        self._real = _property(gallery, gallery.real, self._there)
        self._probes = self._real.probes(settings.seed)
        self._pull = np.zeros(len(self._there))
        self._own = np.full((len(gallery.caption_scene), 1 + len(self._probes)), np.nan)

    def add(self, rows: slice, ordered: OrderedRows) -> None:
        """Let the clips meet that do not answer some captions.

        With ranks among the m real and n generated ones that meet, the share that real ones win is 1/2 more than the
        sum over real clips of (rank - (m + n + 1) / 2) / (m n).
        """
        answers = self._gallery.relevant(rows)
        real, generated = self._gallery.real & ~answers, self._generated & ~answers
        meetings = real.sum(axis=1) * generated.sum(axis=1)
        meeting = ordered.placed((real | generated) & (meetings > 0)[:, None])
        count = meeting.sum(axis=1, keepdims=True)
        above = np.where(meeting, ordered.beaten(meeting) - count / 2, 0.0)  # a rank is half more than what it beats
        added = np.empty_like(above)
        np.put_along_axis(added, ordered.order, 100 * above / np.maximum(meetings, 1)[:, None], axis=1)
        added = added[meetings > 0][:, self._there]
        self._pull += added.sum(axis=0)
        self._own[rows][meetings > 0] = added @ np.vstack([self._real.values, self._probes]).T

    def preference(self) -> Preference:
        """What was seen in all."""
        asked = ~np.isnan(self._own[:, 0])
        drawn = min(len(np.unique(self._gallery.clip_drawn[kind])) for kind in (self._gallery.real, self._generated))
        counts = int(self._gallery.real.sum()), int(self._generated.sum()), int(asked.sum()), drawn
        if not asked.any():
            return Preference(*counts, Interval(float("nan")), None)
        sums = NEUTRAL + self._real.sums(self._pull / asked.sum(), self._settings)
        part = queries_part(self._own[:, 0], self._own[:, 1:], self._gallery.caption_drawn)
        samples = widened(sums, NEUTRAL, part)
        share = inverted_interval(samples, self._settings, NEUTRAL, (0.0, 100.0))
        return Preference(*counts, share, exchange_test(samples, NEUTRAL))


class _ExposureTally:
    """How often each clip is among the first, and so which share of the first places generated clips take."""

    def __init__(self, gallery: SourceGallery, settings: AuditSettings) -> None:
        generated = gallery.generated[EVERY_GROUP]
        self._gallery, self._settings = gallery, settings
        self._generated = _property(gallery, generated, np.arange(len(generated)))
        self._probes = self._generated.probes(settings.seed)
        self._depths = [depth for depth in FIRST_PLACES if depth < len(generated)]
        self._places = np.zeros((len(self._depths), len(generated)))
        self._own = np.full((len(self._depths), len(gallery.caption_scene), 1 + len(self._probes)), np.nan)

    def add(self, rows: slice, ordered: OrderedRows) -> None:
        """Some captions more; those that are shown nothing have no share."""
        shown = ordered.shown(1) > 0
        for number, depth in enumerate(self._depths):
            columns, shares = ordered.first(depth)
            part = 100 * shares / np.maximum(ordered.shown(depth), 1)[:, None]
            self._places[number] += np.bincount(columns.ravel(), part.ravel(), self._places.shape[1])
            values = np.vstack([self._generated.values, self._probes])
            self._own[number, rows] = np.where(shown, [(part * one[columns]).sum(axis=1) for one in values], np.nan).T

    def result(self) -> Exposure:
        """Means over the captions that are shown anything."""
        share, found = 100 * float(self._generated.values.mean()), {}
        for depth, places, own in zip(self._depths, self._places, self._own, strict=True):
            asked = int((~np.isnan(own[:, 0])).sum())
            if asked:
                sums = self._generated.sums(places / asked, self._settings)
                drawn = widened(sums, share, queries_part(own[:, 0], own[:, 1:], self._gallery.caption_drawn))
                found[depth] = inverted_share(drawn, self._settings, share)
        return Exposure(share, found, self._own.shape[1])


def _property(gallery: SourceGallery, marks: Flags, there: NDArray[np.intp]) -> ClipProperty:
    """Mark some clips; all may change places, those of a pair or a video among themselves."""
    rank = np.empty(len(gallery.order), np.int64)
    rank[gallery.order] = np.arange(len(rank))
    values = marks[there].astype(np.float64)
    return ClipProperty(values, np.zeros(len(there), np.int64), gallery.clip_drawn[there], np.argsort(rank[there]))
