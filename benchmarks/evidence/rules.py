"""When a planted bias can tell methods apart: five rules on figures over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.evidence.engine import AGAIN, HALF, ORACLE, REFERENCE, TWICE, variant
from benchmarks.over_seeds import difference, differences, ends, gap_of, words
from evenreel.evaluation import Interval
from evenreel.papers.cells import Seeds
from evenreel.planted import BIASES

METRIC = "R@1"
UNTRAINED = "untrained"
"""What the names of all rows without training begin with."""
BIASED, FRAMES_ALONE = "biased", "frames alone"
"""Rows of the rules, beside those of `engine`; `biased` and the oracle have variants for other trainings."""
LEARNED = 15.0
"""Points of R@1 by which the oracle is above the best untrained reading, at least."""
COST, LEAST_COST = 8.0, 4.0
"""Points that the bias costs, at least, and that their interval begins above."""
CHANGE = 1 / 3
"""Share of the cost by which half and twice the steps change it, less than this."""
CLOSED = 0.9
"""Share of the cost that the reference brings back, at least."""
NEEDED, COSTS, STEADY, EXPLAINED, NOTHING = (
    "learning is needed", "the bias costs", "steps do not matter", "the cause explains it", "nothing at 0",
)  # fmt: skip


class Verdict(NamedTuple):
    """Whether a rule holds, and the figure that says so."""

    rule: str
    holds: bool
    figure: str


def verdicts(rows: Seeds) -> list[Verdict]:
    """Each rule on the rows of one bias, seed by seed."""
    return [needed(rows), costs(rows), steady(rows), explained(rows), nothing(rows)]


def needed(rows: Seeds) -> Verdict:
    """The oracle is well above the best untrained reading, seed by seed."""
    above = [oracle[METRIC] - best for oracle, best in zip(rows[ORACLE], best_untrained(rows), strict=True)]
    return Verdict(NEEDED, float(np.mean(above)) >= LEARNED, words(gap_of(np.array(above))))


def best_untrained(rows: Seeds) -> list[float]:
    readings = [figures for name, figures in rows.items() if name.startswith(UNTRAINED)]
    return [max(one[METRIC] for one in seed) for seed in zip(*readings, strict=True)]


def costs(rows: Seeds) -> Verdict:
    cost = cost_of(rows)
    return Verdict(COSTS, cost.value >= COST and ends(cost)[0] > LEAST_COST, words(cost))


def steady(rows: Seeds) -> Verdict:
    """The cost is not that of too many steps, nor of too few."""
    cost = cost_of(rows).value
    others = [cost_of(rows, change).value for change in (HALF, TWICE)]
    holds = cost > 0 and all(abs(other - cost) < CHANGE * cost for other in others)
    return Verdict(STEADY, holds, f"{others[0]:.1f}, {cost:.1f}, {others[1]:.1f}")


def explained(rows: Seeds) -> Verdict:
    """A reference that is told what was planted brings back what the bias costs."""
    cost, back = cost_of(rows).value, float(differences(rows[REFERENCE], rows[BIASED], METRIC).mean())
    if cost <= 0:
        return Verdict(EXPLAINED, False, "no cost")
    return Verdict(EXPLAINED, back >= CLOSED * cost, f"{100 * back / cost:.0f} %")


def nothing(rows: Seeds) -> Verdict:
    """No difference is seen where nothing is planted, in intervals of all biases that hold together (Bonferroni)."""
    plain = rows.get(FRAMES_ALONE, rows[ORACLE])
    gap = gap_of(differences(rows[AGAIN], plain, METRIC), 1 - 0.05 / len(BIASES))
    low, high = ends(gap)
    return Verdict(NOTHING, low <= 0 <= high, words(gap))


def cost_of(rows: Seeds, change: str | None = None) -> Interval:
    """Oracle less biased, with its interval; of rows that are trained otherwise where a change is named."""
    oracle, biased = (row if change is None else variant(row, change) for row in (ORACLE, BIASED))
    return difference(rows[oracle], rows[biased], METRIC)


def broken(found: Sequence[Verdict]) -> list[str]:
    """The rules that do not hold, each with its figure."""
    return [f"{one.rule} ({one.figure})" for one in found if not one.holds]
