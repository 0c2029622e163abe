"""Data for the charts of an audit of length bias: distributions of lengths, and the first items of a few queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenreel.arrays import Column
from evenreel.audits.inputs import OrderedRows
from evenreel.audits.length.data import TrainTestClasses
from evenreel.audits.length.first_clips import MAIN
from evenreel.audits.length.measures import LengthMeasures
from evenreel.audits.length.tables import most_affected
from evenreel.corpus.relevance import Relevance
from evenreel.evaluation.ranking import CheckedScores

Groups = dict[str, "Weighted"]

STRIP_DEPTH = 50
_STRIPS = 5


@dataclass(frozen=True, eq=False)
class Weighted:
    """Lengths above 0 (n,), and a weight for each (n,)."""

    lengths: Column
    weights: Column

    @classmethod
    def of(cls, lengths: Column, weights: Column | None = None) -> Weighted:
        """Select the lengths that are known and whose weights are above 0; without weights, all weigh the same."""
        counted = np.ones(len(lengths)) if weights is None else weights
        kept = (lengths > 0) & (counted > 0)
        return cls(lengths[kept], counted[kept])

    def quantiles(self, shares: Sequence[float]) -> Column:
        """Return weighted quantiles: for each share, the smallest length up to which there is at least that weight."""
        order = np.argsort(self.lengths)
        held = np.cumsum(self.weights[order])
        places = np.searchsorted(held, np.array(shares) * held[-1] * (1 - 1e-12))
        return np.asarray(self.lengths[order][np.minimum(places, len(order) - 1)])


@dataclass(frozen=True, eq=False)
class Strip:
    """First items of one query with their relevance, for a strip of a chart.

    Attributes:
        query: words of the query.
        items: words of each of the k items, the best first.
        degrees: (k,) relevance of each item, from 0 to 1.
    """

    query: str
    items: Sequence[str]
    degrees: Column


def all_lengths(measured: LengthMeasures) -> Groups:
    """Return the lengths of training clips, of test clips, and of the clips that rankings return first."""
    data = measured.data
    return _nonempty(
        {
            "training": Weighted.of(data.train_lengths),
            "test" if len(data.train_lengths) else "all": Weighted.of(data.whole),
            "returned first": Weighted.of(data.whole, measured.first.shown),
        }
    )


def histogram_parts(measured: LengthMeasures, scores: CheckedScores, class_: int | None = None) -> dict[str, Groups]:
    """Collect the lengths for histograms: of all clips, and of one class with the clips that its captions find.

    Args:
        measured: measures of one system.
        scores: scores that they are of.
        class_: class to show; None for the most affected one.
    """
    parts = {"all clips": all_lengths(measured)}
    affected, held = most_affected(measured) if class_ is None else [class_], measured.data.classes
    if affected and held is not None:
        parts[f"class: {held.names[affected[0]]}"] = _class_lengths(measured, held, affected[0], scores)
    return parts


def strip_parts(
    measured: LengthMeasures, scores: CheckedScores, captions: Sequence[int] | None = None
) -> dict[str, list[Strip]]:
    """Return the first items, with their relevance, for some captions and for their clips as queries.

    Args:
        measured: measures of one system.
        scores: scores that they are of.
        captions: rows of the captions; None for `strip_captions`.

    Returns:
        Strips of queries by the title of the chart's panel; empty where no relevance is known.
    """
    relevance = measured.data.relevance
    captions = strip_captions(measured) if captions is None else list(captions)
    if relevance is None or not captions:
        return {}
    clips = dict.fromkeys(measured.data.caption_clips[captions].tolist())
    asked = _Asked.of(measured, scores, relevance)
    return {
        "text to video": [asked.strip(row, by_clip=False) for row in captions],
        "video to text": [asked.strip(row, by_clip=True) for row in clips],
    }


def _class_lengths(measured: LengthMeasures, held: TrainTestClasses, class_: int, scores: CheckedScores) -> Groups:
    """Actions of one class in training and in test, and what its captions are shown."""
    own = held.actions.classes == class_
    shown = np.zeros(len(measured.data.lengths))
    for row in np.flatnonzero(measured.data.caption_class == class_).tolist():
        block = scores.block(slice(row, row + 1), slice(0, len(shown)))
        columns, shares = OrderedRows.of(block).first(MAIN)
        shown[columns[0]] += shares[0]
    return _nonempty(
        {
            "training": Weighted.of(held.actions.lengths[own & held.trained]),
            "test": Weighted.of(held.actions.lengths[own & ~held.trained]),
            "returned first": Weighted.of(measured.data.lengths, shown),
        }
    )


def _nonempty(groups: Groups) -> Groups:
    return {name: one for name, one in groups.items() if len(one.lengths)}


def strip_captions(measured: LengthMeasures) -> list[int]:
    """Choose the captions that a chart of first items shows: one of each of the classes that length bias affects most.

    It is a suspected failure if the class has one. Where classes are not known, the first captions are chosen.
    """
    data = measured.data
    suspected = set(measured.failures.suspected.tolist()) if measured.failures else set()
    ranked = np.flatnonzero((data.caption_clips >= 0) & ~np.isnan(measured.first.rank)).tolist()
    ranked.sort(key=lambda row: row not in suspected)  # stable: suspected ones first
    by_class = {int(data.caption_class[row]): row for row in reversed(ranked)}
    affected = [by_class[one] for one in most_affected(measured) if one in by_class]
    return (affected or sorted(ranked))[:_STRIPS]


@dataclass(frozen=True, eq=False)
class _Asked:
    """Scores and relevance, with what captions say and what clips are called by."""

    scores: CheckedScores
    relevance: Relevance
    captions: Sequence[str]
    clips: Sequence[str]

    @classmethod
    def of(cls, measured: LengthMeasures, scores: CheckedScores, relevance: Relevance) -> _Asked:
        corpus = measured.data.corpus
        captions = [text or name for name, text in corpus.captions.select("caption_id", "text").iter_rows()]
        said = dict(corpus.captions.select("clip_id", "text").drop_nulls().reverse().iter_rows())
        return cls(scores, relevance, captions, [said.get(clip, clip) for clip in corpus.clips["clip_id"]])

    def strip(self, query: int, *, by_clip: bool) -> Strip:
        """The first items of a caption among clips, or of a clip among captions."""
        asking, items = (self.clips, self.captions) if by_clip else (self.captions, self.clips)
        one, every = slice(query, query + 1), slice(0, len(items))
        at = (every, one) if by_clip else (one, every)
        values = self.scores.block(*at).ravel().astype(np.float64)
        first = np.argsort(-values, kind="stable")[:STRIP_DEPTH]
        return Strip(asking[query], [items[row] for row in first.tolist()], self.relevance.block(*at).ravel()[first])
