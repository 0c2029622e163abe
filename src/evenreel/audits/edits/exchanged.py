"""Recall lost by edits of other clips, where every caption sees the same other clips.

An edit that makes a clip a hub takes the first place from many captions at once, so samples of captions, among the same
edited clips, report a loss where an edit does nothing on average. Without an effect it does not matter which of a
clip's two versions is called the edited one: exchanging them for some clips, for all captions at once, makes another
sample of the same kind (Fisher 1935), from which intervals are inverted (`evenreel.audits.exchange`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column
from evenreel.audits.edits.perturbed import AS_IS, Perturbed
from evenreel.audits.exchange import counted, drawn_flips
from evenreel.audits.settings import AuditSettings

Counts = NDArray[np.float32]

DEPTHS = (1, 5, 10)
"""Of the recall that is lost."""


def lost_recall(
    perturbed: Perturbed, edit: str, placings: Mapping[str, tuple[bool, bool]], settings: AuditSettings
) -> dict[str, Column]:
    """Compute the recall lost by an edit, (K, 1 + B) by placing: as measured, and with versions exchanged B times.

    Recall is at the K depths of `DEPTHS`, in percentage points.

    Args:
        perturbed: scores of captions and clips, as they are and after edits.
        edit: name of the edit.
        placings: pairs by name: whether the own clip's score is the edited one, and whether the others' are.
        settings: `resamples`, `seed`, and how much is read at once.

    Raises:
        ScoresError: a score is NaN.
    """
    flips = drawn_flips(int(perturbed.cluster.max()) + 1, settings)[:, perturbed.cluster]  # (1 + B, V)
    swapped = np.ascontiguousarray(flips.T, dtype=np.float32)
    lost = {placing: np.zeros((len(DEPTHS), len(flips))) for placing in placings}
    for held in perturbed.bands(settings.band_bytes, len(flips)):
        found = _Standing.of(perturbed, edit, held, swapped)
        before = found.recalls(of_own=False, of_others=False)
        for placing, (of_own, of_others) in placings.items():
            lost[placing] += (before - found.recalls(of_own=of_own, of_others=of_others)).sum(axis=1)
    return {placing: sums / len(perturbed.own) for placing, sums in lost.items()}


@dataclass(frozen=True, eq=False)
class _Standing:
    """Where the own clips of b captions stand in 1 + B samples.

    Attributes:
        counts: by whose score it is, as it is and after the edit, then by the others, those called as they are and
            those called edited, then above and equal: (b, 1 + B).
        swapped: (b, 1 + B) whether the versions of the own clip are exchanged.
        retrieved: (2, b, 1) whether the own clip is retrieved, as it is and after the edit.
    """

    counts: list[list[tuple[Counts, Counts]]]
    swapped: NDArray[np.bool_]
    retrieved: NDArray[np.bool_]

    @classmethod
    def of(cls, perturbed: Perturbed, edit: str, held: slice, swapped: Counts) -> _Standing:
        """Place the own clips of some captions; `swapped` (V, 1 + B) says which clips' versions are exchanged."""
        rows, own = np.arange(held.stop - held.start), perturbed.own[held]
        blocks = [perturbed.versions[name].block(held).astype(np.float64) for name in (AS_IS, edit)]
        scores = [block[rows, own] for block in blocks]
        for block in blocks:
            block[rows, own] = -np.inf  # the own clip is none of the others
        retrieved = np.array(scores)[:, :, None] > -np.inf
        as_is, edited = blocks
        return cls([counted(as_is, edited, score, swapped) for score in scores], swapped[own] > 0, retrieved)

    def recalls(self, *, of_own: bool, of_others: bool) -> NDArray[np.float64]:
        """(K, b, 1 + B) chance in percent to be among the first, where own or other clips are those called edited."""
        edited = self.swapped != of_own
        above, equal = (
            np.where(edited, *(self.counts[one][of_others][kind] for one in (1, 0))).astype(np.float64)
            for kind in (0, 1)
        )
        found = np.where(edited, self.retrieved[1], self.retrieved[0])
        return np.stack([100 * found * np.clip((depth - above) / (equal + 1.0), 0, 1) for depth in DEPTHS])
