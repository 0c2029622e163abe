"""Numbers of clips that dividing or trimming a training set against length bias would give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenreel.arrays import Indices
from evenreel.audits.length.data import LengthData
from evenreel.debias.frame_length import PRESETS, Trimming, adjusted_strata, equal_strata, strata_at, trimmed
from evenreel.errors import UsageError

SHARE = 50_282.5 / 67_217
"""Of the clips in the first of two strata: the paper's division of EPIC-KITCHENS-100 (0.748)."""

USES_TEST = "uses test statistics"

_FPS = 60
"""Frames a second of the lengths that the presets are for."""


@dataclass(frozen=True)
class Division:
    """Sizes of two strata of training clips under a rule of division; None where the lengths do not allow it."""

    rule: str
    sizes: tuple[int, int] | None


@dataclass(frozen=True)
class TrimmedClips:
    """Numbers of clips and classes that trimming (RmvAll) would leave out under a preset, with its settings."""

    preset: str
    clips: int
    classes: int
    margin: float
    least: int


def divisions(data: LengthData) -> list[Division]:
    """Compute the sizes of two strata by each rule: equal halves, the paper's share, mean lengths as thresholds."""
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
    """Compute what trimming (RmvAll) would leave out by either preset, in this corpus's unit; empty without classes."""
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
