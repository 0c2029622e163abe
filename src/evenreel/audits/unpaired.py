"""Source bias where nothing is paired: does a real clip that answers nothing stand above a generated one that does not?

For each caption, every real clip that is not relevant meets every generated clip that is not: the share of meetings
that the real one wins, ties half, is a two-sample U-statistic (Mann and Whitney 1947), and its mean over captions one
of three samples. Its interval comes from the projection on single captions and clips (Hoeffding 1948), with Student's t
and the degrees of freedom of Welch 1947: only their means are kept, so scores are read in bands, once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from evenreel.audits.gallery import EVERY_GROUP, Gallery
from evenreel.audits.ordered_rows import Marks, OrderedRows
from evenreel.audits.pairs import row_bands
from evenreel.audits.result import AuditSettings, checked_settings
from evenreel.audits.samples import mean_interval
from evenreel.evaluation.results import Interval
from evenreel.types import Corpus, ScoreBlocks

FIRST_PLACES = (1, 5, 10, 20)
"""Depths of which the share of generated clips is told."""


@dataclass(frozen=True)
class Preference:
    """How real and generated clips that answer nothing stand to one another.

    Attributes:
        real, generated: how many clips there are of each kind.
        captions: how many were asked of which both kinds have a clip that is not relevant.
        share: meetings that the real clip wins, in percent; 50 is neutral. NaN where no caption could be asked.
        p_value: two-sided, that it is 50; None where there is no interval.
    """

    real: int
    generated: int
    captions: int
    share: Interval
    p_value: float | None


@dataclass(frozen=True)
class Exposure:
    """Who is shown.

    Attributes:
        gallery: share of the gallery that is generated, in percent.
        shown: by depth k, the share of the first k that is generated, in percent, mean over captions; equal scores
            count with their mean over all orders, and what scores minus infinity is not shown. Intervals are of samples
            of captions.
        captions: how many there are.
    """

    gallery: float
    shown: dict[int, Interval]
    captions: int


@dataclass(frozen=True, eq=False)
class Unpaired:
    """What one pass over the scores tells of their sources.

    Attributes:
        preferences: of all generated clips under `EVERY_GROUP`, then of each group alone where there are several.
        exposure: of all generated clips.
        notices: sentences on what was left out.
    """

    preferences: dict[str, Preference]
    exposure: Exposure
    notices: tuple[str, ...] = ()


def measure_unpaired(scores: ScoreBlocks, corpus: Corpus, settings: AuditSettings | None = None) -> Unpaired:
    """Measure sources in any gallery with real and generated clips, for captions that the corpus knows or not.

    Clips that answer a caption take no part in its meetings: its own clip, the mirrors of that, and the real clip of a
    mirror. A caption that is not in the corpus has none.

    Args:
        scores: of captions and clips; clips that the corpus does not have are left out with a notice.
        corpus: which says what is generated.
        settings: confidence, and how much is read at once.

    Raises:
        CorpusError: the scores hold no real or no generated clip of the corpus.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
    settings = checked_settings(scores, corpus, settings)
    gallery = Gallery.of(scores, corpus)
    tallies = {name: _Tally(gallery, generated) for name, generated in gallery.generated.items()}
    exposure = _ExposureTally(gallery.generated[EVERY_GROUP], len(gallery.caption_scene))
    for rows, block in row_bands(gallery.scores, settings.band_bytes):
        ordered = OrderedRows.of(block[:, gallery.columns])
        relevant = ordered.placed(gallery.relevant(rows))
        exposure.add(rows, ordered)
        for tally in tallies.values():
            tally.add(rows, ordered, relevant)
    return Unpaired(
        {name: tally.preference(settings.confidence) for name, tally in tallies.items()},
        exposure.result(gallery.caption_scene, settings),
        gallery.notices,
    )


class _Tally:
    """Shares of meetings won by real clips, with the mean of each caption and each clip that the interval needs."""

    def __init__(self, gallery: Gallery, generated: Marks) -> None:
        self._gallery = gallery
        self._generated = generated
        self._caption_means = np.full(len(gallery.caption_scene), np.nan)
        self._clip_sums = np.zeros(len(generated))
        self._clip_counts = np.zeros(len(generated), np.int64)

    def add(self, rows: slice, ordered: OrderedRows, asked_for: Marks) -> None:
        """Let the clips meet that do not answer some captions; `asked_for` marks the (b, V) places of those that do."""
        real = ordered.placed(self._gallery.real) & ~asked_for
        generated = ordered.placed(self._generated) & ~asked_for
        reals, made = real.sum(axis=1), generated.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):  # captions without a meeting are left out below
            share = real * (ordered.beaten(generated) / made[:, None])
            self._caption_means[rows] = share.sum(axis=1) / reals
            share += generated * (1 - ordered.beaten(real) / reals[:, None])
        met = (reals > 0) & (made > 0)
        columns, count = ordered.order[met].ravel(), len(self._clip_sums)
        self._clip_sums += np.bincount(columns, share[met].ravel(), count)
        self._clip_counts += np.bincount(columns, (real | generated)[met].ravel(), count).astype(np.int64)

    def preference(self, confidence: float) -> Preference:
        """What was seen in all."""
        gallery, asked = self._gallery, ~np.isnan(self._caption_means)
        counts = int(gallery.real.sum()), int(self._generated.sum()), int(asked.sum())
        if not asked.any():
            return Preference(*counts, Interval(float("nan")), None)
        share = float(self._caption_means[asked].mean())
        spread = self._spread(share, asked)
        if spread is None:
            return Preference(*counts, Interval(100 * share), None)
        error, freedom = spread
        reach = float(stdtrit(freedom, (1 + confidence) / 2)) * error
        low, high = max(0.0, share - reach), min(1.0, share + reach)
        p = 2 * float(stdtr(freedom, -abs(share - 0.5) / error)) if error else None
        return Preference(*counts, Interval(100 * share, 100 * low, 100 * high), p)

    def _spread(self, share: float, asked: Marks) -> tuple[float, float] | None:
        """Standard error and degrees of freedom, from what each scene adds; None where one is all there is of a kind.

        A caption adds (its mean - share) / captions, a clip (its mean - share) / clips of its kind; the captions, the
        real clip and the mirror of a scene count together. The degrees of freedom are Welch's of the three kinds.
        """
        gallery, met = self._gallery, self._clip_counts > 0
        means = np.divide(self._clip_sums, self._clip_counts, out=np.zeros(len(met)), where=met)
        added = np.zeros(1 + max(gallery.clip_scene.max(), gallery.caption_scene.max()))
        variances, spare = [], []
        for members, scenes, values in (
            (asked, gallery.caption_scene, self._caption_means),
            (gallery.real & met, gallery.clip_scene, means),
            (self._generated & met, gallery.clip_scene, means),
        ):
            count = len(np.unique(scenes[members]))
            if count < 2:
                return None
            parts = (values[members] - share) / members.sum() * np.sqrt(count / (count - 1))
            own = np.bincount(scenes[members], parts, len(added))
            added += own
            variances.append((own**2).sum())
            spare.append(count - 1)
        scale = float(np.sum(variances))
        freedom = scale**2 / float((np.square(variances) / spare).sum()) if scale else float(min(spare))
        return float(np.sqrt((added**2).sum())), freedom


class _ExposureTally:
    """Shares of the first places that generated clips take."""

    def __init__(self, generated: Marks, captions: int) -> None:
        self._generated = generated
        self._depths = [depth for depth in FIRST_PLACES if depth < len(generated)]
        self._shares = np.full((len(self._depths), captions), np.nan)

    def add(self, rows: slice, ordered: OrderedRows) -> None:
        """Some captions more; those that are shown nothing have no share."""
        found = ordered.among_first(ordered.placed(self._generated), self._depths)
        with np.errstate(invalid="ignore", divide="ignore"):
            self._shares[:, rows] = found / [ordered.shown(depth) for depth in self._depths]

    def result(self, scenes: NDArray[np.int64], settings: AuditSettings) -> Exposure:
        """Means over the captions that are shown anything; `scenes` (Q,) says which captions are drawn together."""
        some = bool(self._depths) and not np.isnan(self._shares[0]).all()
        shown = (mean_interval(100 * shares, scenes, settings) for shares in self._shares) if some else ()
        return Exposure(
            100 * float(self._generated.mean()),
            dict(zip(self._depths, shown, strict=False)),
            self._shares.shape[1],
        )
