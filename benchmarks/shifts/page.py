"""The page of the shifts, from the file of figures alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.adapted import NAIVE
from benchmarks.evidence.rendered.domain import SAFE
from benchmarks.over_seeds import gap_of, markdown, words
from benchmarks.shifts.cells import AS_IT_IS, CLEAN, CORRECTIONS, HUBS, R1, WAYS, ShiftRun, Way
from benchmarks.shifts.world import PERTURBATIONS
from evenreel.edits.settings import STRENGTHS
from evenreel.papers.cells import Rows

HEAD, FINDINGS = (Path(__file__).parent / "words" / f"{name}.md" for name in ("head", "findings"))
"""What a person wrote above and below the tables."""
TITLES: Mapping[Way, str] = {"v2t": "Perturbed videos look for captions", "t2v": "Captions look for perturbed videos"}
METHODS: Mapping[Way, tuple[str, ...]] = {"v2t": tuple(CORRECTIONS), "t2v": (*CORRECTIONS, SAFE, NAIVE)}
LEAST = 3.0
"""Points of R@1 that a perturbation has to cost at strength 5, for sure, before corrections of it mean anything."""


class Found:
    """Figures of all seeds.

    Args:
        known: rows by run.
        seeds: that are reported.
    """

    def __init__(self, known: Mapping[ShiftRun, Rows], seeds: Sequence[int]) -> None:
        self._rows = {(run.seed, run.perturbation, run.strength): rows for run, rows in known.items()}
        self._seeds = seeds

    def has(self, name: str, strength: int, row: str) -> bool:
        """Whether every seed has a row."""
        return all(row in self._rows.get((seed, *key(name, strength)), {}) for seed in self._seeds)

    def figures(self, name: str, strength: int, row: str, figure: str) -> NDArray[np.float64]:
        """(seeds,) a figure; without a perturbation at strength 0."""
        return np.array([self._rows[(seed, *key(name, strength))][row][figure] for seed in self._seeds])

    def gain(self, name: str, strength: int, row: str, figure: str) -> NDArray[np.float64]:
        """(seeds,) by how much a row's figure is above that of the model as it is."""
        return self.figures(name, strength, row, figure) - self.figures(name, strength, AS_IT_IS, figure)

    def change(self, name: str, strength: int, figure: str) -> NDArray[np.float64]:
        """(seeds,) by how much the model's figure as it is changes from strength 0."""
        return self.figures(name, strength, AS_IT_IS, figure) - self.figures(CLEAN, 0, AS_IT_IS, figure)

    @property
    def strengths(self) -> list[int]:
        """Those that every perturbation was measured at."""
        return [one for one in STRENGTHS if all(self.has(name, one, AS_IT_IS) for name in PERTURBATIONS)]


def key(name: str, strength: int) -> tuple[str, int]:
    """Of a perturbation; all share what is as it was at strength 0."""
    return (name, strength) if strength else (CLEAN, 0)


def shifts_page(known: Mapping[ShiftRun, Rows], seeds: Sequence[int]) -> str:
    """The whole page in Markdown."""
    found, parts = Found(known, seeds), [HEAD.read_text(encoding="utf-8").rstrip()]
    if missing := [str(one) for one in STRENGTHS if one not in found.strengths]:
        parts.append(f"Not measured yet: strengths {', '.join(missing)}.")
    for way in WAYS:
        parts += [f"## {TITLES[way]}", by_strength(found, way), each_perturbation(found, way)]
    parts.append(FINDINGS.read_text(encoding="utf-8").rstrip())
    return "\n\n".join(parts) + "\n"


def by_strength(found: Found, way: Way) -> str:
    """Means over the twelve: a line for each strength."""
    head = ["strength", "R@1", "skewness", "more skewed than at 0", *METHODS[way]]
    lines = []
    for strength in (0, *found.strengths):
        names = list(PERTURBATIONS)

        def mean(figure: str, strength: int = strength, names: Sequence[str] = names) -> str:
            return f"{np.mean([found.figures(name, strength, AS_IT_IS, figure) for name in names]):.1f}"

        grown = words(gap_of(np.mean([found.change(name, strength, f"{way} {HUBS}") for name in names], axis=0)))
        gains = [gained(found, names, strength, row, way) for row in METHODS[way]]
        lines.append([str(strength), mean(f"{way} {R1}"), mean(f"{way} {HUBS}"), grown if strength else "", *gains])
    return markdown(f"| {' | '.join(head)} |", lines)


def gained(found: Found, names: Sequence[str], strength: int, row: str, way: Way) -> str:
    """Points of R@1 that a row adds, as the mean over perturbations; bold where the interval leaves out 0."""
    if not all(found.has(name, strength, row) for name in names):
        return ""
    gain = gap_of(np.mean([found.gain(name, strength, row, f"{way} {R1}") for name in names], axis=0))
    shown = f"{gain.mean:+.1f} [{gain.low:.1f}, {gain.high:.1f}]"
    return f"**{shown}**" if gain.low > 0 or gain.high < 0 else shown


def each_perturbation(found: Found, way: Way) -> str:
    """A line for each perturbation: what it costs at each strength, and what is had back at the highest."""
    strengths = found.strengths
    head = ["perturbation", *(f"R@1 at {one}" for one in (0, *strengths)), "skewness at 0, 5", *METHODS[way], "tells"]
    lines = []
    for name in PERTURBATIONS:
        r1 = [f"{found.figures(name, one, AS_IT_IS, f'{way} {R1}').mean():.1f}" for one in (0, *strengths)]
        hubs = ", ".join(f"{found.figures(name, one, AS_IT_IS, f'{way} {HUBS}').mean():.1f}" for one in (0, 5))
        gains = [gained(found, [name], 5, row, way) for row in METHODS[way]]
        lines.append([name, *r1, hubs, *gains, tells(found, name, way)])
    return markdown(f"| {' | '.join(head)} |", lines)


def tells(found: Found, name: str, way: Way) -> str:
    """Whether a perturbation costs enough that what is had back of it says something."""
    return "yes" if gap_of(found.change(name, 5, f"{way} {R1}")).high < -LEAST else "no"
