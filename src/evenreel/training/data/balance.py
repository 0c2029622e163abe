"""Weights of training pairs by which the class of a clip says nothing of its length (`evenreel.debias.balance`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.corpus.actions import Unit, actions_of, clip_lengths
from evenreel.debias.balance import balanced_weights, shared_information
from evenreel.debias.strata import equal_strata
from evenreel.errors import UsageError
from evenreel.training.data.pairs import Pairs
from evenreel.training.recipe.sections import LengthBalance
from evenreel.types import Corpus

NO_CLASS = -1


@dataclass(frozen=True)
class Balanced:
    """Effect of weights that balance the lengths of classes, on the clips of a training split.

    Attributes:
        strata: number of strata (ranges) of length.
        before: share of the entropy of the strata that the classes determine where each clip counts once, 0 to 1.
        after: the same under the weights; more than 0 where a class has no clip in a stratum, or a weight was cut.
        heaviest: largest weight, as a multiple of the mean weight.
    """

    strata: int
    before: float
    after: float
    heaviest: float

    @property
    def sentence(self) -> str:
        """Sentence for the model card on the weights and their effect."""
        return (
            f"Clips are drawn up to {self.heaviest:.1f} times as often as on average, so that classes hold "
            f"{100 * self.after:.1f} % of the information on {self.strata} strata of length instead of "
            f"{100 * self.before:.1f} %."
        )


def balanced(pairs: Pairs, corpus: Corpus, balance: LengthBalance) -> tuple[Pairs, Balanced]:
    """Weight training pairs so that classes have the same lengths; a clip of several actions counts with its first.

    Args:
        pairs: pairs of the training split.
        corpus: the training split, with classes of verbs and nouns and with lengths.
        balance: settings of the strata and of the largest weight.

    Raises:
        CorpusError: no clip has a verb class.
        UsageError: the length of a clip is not known, all have one length, or there are fewer clips than strata.
    """
    place = {clip_id: row for row, clip_id in enumerate(corpus.clips["clip_id"])}
    rows = np.array([place[clip_id] for clip_id in pairs.clip_ids])
    clips = np.unique(pairs.clips)
    lengths, unit = clip_lengths(corpus)
    _check_lengths(lengths[rows[clips]], unit)
    strata = np.empty(len(clips), np.int64)
    for number, stratum in enumerate(equal_strata(lengths[rows[clips]], balance.strata)):
        strata[stratum] = number
    classes = _first_classes(corpus)[rows[clips]]
    weights = balanced_weights(strata, classes, balance.most)
    before, after = (shared_information(strata, classes, one) for one in (np.ones(len(clips)), weights))
    of_clip = np.zeros(len(pairs.clip_ids))
    of_clip[clips] = weights
    drawn = of_clip[pairs.clips]
    summary = Balanced(balance.strata, before, after, float(weights.max()))
    return replace(pairs, weights=drawn / drawn.mean()), summary


def _check_lengths(lengths: NDArray[np.float64], unit: Unit) -> None:
    if unknown := int(np.count_nonzero(~np.isfinite(lengths))):
        raise UsageError(
            f"The length of {unknown:,} of {len(lengths):,} training clips is not known, and balance needs all: give "
            "the corpus frame_count, or start_s and end_s, of all clips; or set balance to null."
        )
    if lengths.min() == lengths.max():
        raise UsageError(
            f"All {len(lengths):,} training clips are {lengths[0]:g} {unit} long, so there is nothing to balance: set "
            "balance to null."
        )


def _first_classes(corpus: Corpus) -> Indices:
    """(V,) number of the first action of each clip; `NO_CLASS` where it has none."""
    actions = actions_of(corpus)
    classes = np.full(corpus.clips.height, NO_CLASS)
    clips, first = np.unique(actions.clips, return_index=True)
    classes[clips] = actions.classes[first]
    return classes
