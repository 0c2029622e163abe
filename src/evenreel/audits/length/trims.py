"""Numbers of clips in a division or trimming of a training set against frame-length bias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenreel.arrays import Indices
from evenreel.audits.length.data import LengthData
from evenreel.debias.strata import adjusted_strata, equal_strata, strata_at
from evenreel.debias.trimming import PRESETS, Trimming, trimmed
from evenreel.errors import UsageError

SHARE = 50_282.5 / 67_217
"""Of the clips in the first of two strata: the paper's division of EPIC-KITCHENS-100 (0.748)."""

USES_TEST = "uses test statistics"

_FPS = 60
"""Frames a second of the lengths that the presets are for."""


@dataclass(frozen=True)
class Division:
    """Clips of the first and of the second stratum under a rule; None where the lengths do not allow it."""

    rule: str
    sizes: tuple[int, int] | None


@dataclass(frozen=True)
class TrimmedClips:
    """Numbers of clips and of classes that RmvAll removes under a preset."""

    preset: str
    clips: int
    classes: int
    margin: float
    least: int


def divisions(data: LengthData) -> list[Division]:
    """Count the clips of two strata by each rule: equal halves, the paper's share, two mean lengths as thresholds."""
    lengths = data.train_lengths[~np.isnan(data.train_lengths)]
    trained, tested = float(lengths.mean()), float(np.nanmean(data.whole))
    rules: dict[str, Callable[[], list[Indices]]] = {
        "equal halves": lambda: equal_strata(lengths, 2),
        f"a share of {SHARE:.3f} in the first": lambda: adjusted_strata(lengths, 2, SHARE),
        "below the mean length of training clips": lambda: strata_at(lengths, [trained]),
        f"below the mean length of test clips ({USES_TEST})": lambda: strata_at(lengths, [tested]),
    }
    found = []
    for rule, divide in rules.items():
        try:
            first, second = divide()
        except UsageError:  # clips of one length have no second stratum
            found.append(Division(rule, None))
        else:
            found.append(Division(rule, (len(first), len(second))))
    return found


def trims(data: LengthData) -> list[TrimmedClips]:
    """Count what RmvAll removes by either preset, with margins in this corpus's unit; empty without classes."""
    if data.classes is None:
        return []
    held = data.classes
    classes, lengths = held.actions.classes[held.trained], held.actions.lengths[held.trained]
    known = ~np.isnan(lengths)
    targets = dict(zip(held.common.classes.tolist(), held.common.test_mean.tolist(), strict=True))
    found = []
    for name, preset in PRESETS.items():
        margin = preset.margin * data.second / _FPS
        out = trimmed(lengths[known], classes[known], targets, Trimming(margin, preset.least))
        found.append(TrimmedClips(name, len(out), len(np.unique(classes[known][out])), margin, preset.least))
    return found
