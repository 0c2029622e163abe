"""Statistics of a planted bias: the association of the two things that it pairs, in each split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.planted.length import LENGTHS
from evenreel.planted.plan import SPLITS, PlantedClip, PlantedCorpus, Split
from evenreel.planted.vocabulary import annotators
from evenreel.types import CAMERA, Shown


@dataclass(frozen=True)
class PlantedStatistics(Shown):
    """Strength of a planted bias in one split of a corpus, as counted.

    Attributes:
        split: name of the split.
        count: number of clips, or of captions where the bias is in them.
        planted_share: share of `count`, 0 to 1, that shows what the bias plants. By bias, `visual` or `length`: clips
            with the background or length paired with their shape or activity; `textual`: captions by the annotator
            paired with the shape, or, where test captions are by new annotators, by any of those in training; `source`:
            generated clips; `domain`: clips of the source domain; else clips of a group that differs in its on-screen
            word alone. Where things are paired it is above 0 by chance.
        association: Cramer's V of the two things that the bias pairs, 0 for none to 1; None where it pairs nothing.
        information_bits: mutual information of the two things, in bits.
        chance_bits: mean mutual information of independent things in a sample of this size, in bits.
        mean_length_s: mean length of the clips, in seconds.
        lengths_s: mean length of clips by activity, in seconds, for `length`.
    """

    split: Split
    count: int
    planted_share: float
    association: float | None
    information_bits: float | None
    chance_bits: float | None
    mean_length_s: float
    lengths_s: dict[str, float]


def planted_statistics(plan: PlantedCorpus) -> tuple[PlantedStatistics, ...]:
    """Compute statistics of a planted bias in each split that has clips.

    >>> from evenreel.planted import plan_corpus
    >>> train, val, test = planted_statistics(plan_corpus("visual", 1.0, clips=400))
    >>> train.planted_share, train.association, round(test.planted_share, 1)
    (1.0, 1.0, 0.1)
    """
    return tuple(_of_split(plan, name) for name in SPLITS if plan.split(name))


def cramers_v(table: NDArray[np.int64]) -> float:
    """Compute Cramer's V, an association of 0 to 1, of a table of counts (1946): sqrt(chi2 / (n min(r - 1, c - 1))).

    >>> cramers_v(np.array([[5, 0], [0, 5]])), cramers_v(np.array([[5, 5], [5, 5]]))
    (1.0, 0.0)
    """
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    chi_square = ((table - expected) ** 2 / expected).sum()
    freedom = min(table.shape) - 1
    return float(np.sqrt(chi_square / (table.sum() * freedom))) if freedom else 0.0


def mutual_information_bits(table: NDArray[np.int64]) -> float:
    """Compute the mutual information of a table's rows and columns: sum p(r, c) log2(p(r, c) / (p(r) p(c))), in bits.

    >>> mutual_information_bits(np.array([[5, 0], [0, 5]]))
    1.0
    """
    joint = table / table.sum()
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    there = joint > 0
    return float((joint[there] * np.log2(joint[there] / apart[there])).sum())


def chance_bits(table: NDArray[np.int64]) -> float:
    """Compute the mutual information that independent things have by chance, (r - 1)(c - 1) / (2 n ln 2), in bits.

    (Miller 1955; n is the sum of the table of counts, r and c its numbers of rows and columns.)
    """
    rows, columns = int(table.any(axis=1).sum()), int(table.any(axis=0).sum())
    return float((rows - 1) * (columns - 1) / (2 * table.sum() * np.log(2)))


def _of_split(plan: PlantedCorpus, split: Split) -> PlantedStatistics:
    clips = plan.split(split)
    pairs = [pair for clip in clips for pair in _pairs(plan, clip)]
    table = _table(pairs) if pairs else None
    agreeing = [_agrees(plan, *pair) for pair in pairs] or [_is_planted(plan, clip) for clip in clips]
    return PlantedStatistics(
        split=split,
        count=len(agreeing),
        planted_share=float(np.mean(agreeing)),
        association=None if table is None else cramers_v(table),
        information_bits=None if table is None else mutual_information_bits(table),
        chance_bits=None if table is None else chance_bits(table),
        mean_length_s=float(np.mean([clip.scene.duration_s for clip in clips])),
        lengths_s=_lengths(clips) if plan.bias == "length" else {},
    )


def _pairs(plan: PlantedCorpus, clip: PlantedClip) -> list[tuple[str, str]]:
    """What the bias pairs, as a clip shows it: nothing for biases without partners."""
    scene = clip.scene
    if plan.bias == "visual":
        return [(scene.subject.shape, scene.background)]
    if plan.bias == "textual":
        return [(scene.subject.shape, caption.annotator or "") for caption in clip.shot.captions]
    if plan.bias == "length":
        short = scene.duration_s <= plan.settings.short_s[1]
        return [(scene.activity, LENGTHS[0 if short else 1])]
    return []


def _agrees(plan: PlantedCorpus, first: str, second: str) -> bool:
    return second in annotators() if plan.settings.harder.new_annotators else plan.partners[first] == second


def _is_planted(plan: PlantedCorpus, clip: PlantedClip) -> bool:
    if plan.bias == "source":
        return clip.shot.source != CAMERA
    return clip.shot.domain == "source" if plan.bias == "domain" else bool(clip.shot.follows)


def _table(pairs: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
    """How often each first goes with each second."""
    firsts, rows = np.unique([first for first, _ in pairs], return_inverse=True)
    seconds, columns = np.unique([second for _, second in pairs], return_inverse=True)
    table = np.zeros((len(firsts), len(seconds)), dtype=np.int64)
    np.add.at(table, (rows, columns), 1)
    return table


def _lengths(clips: Sequence[PlantedClip]) -> dict[str, float]:
    lengths: dict[str, list[float]] = {}
    for clip in clips:
        lengths.setdefault(clip.scene.activity, []).append(clip.scene.duration_s)
    return {activity: float(np.mean(lengths[activity])) for activity in sorted(lengths)}
