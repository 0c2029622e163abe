"""What do twelve shifts of a video cost, and what do corrections and adapting have back?

    python -m benchmarks.shifts [--seeds 5] [--first-seed 10] [--clips 600] [--steps 500] [--strengths 1 2 3 4 5]
        [--results benchmarks/results/shifts.jsonl] [--page docs/shifts.md] [--processes 1]

A matcher learns from rendered clips as they are, seen by the built-in encoder; the clips of the test split are then
perturbed as in MLVP (Zhang et al. 2026, arXiv 2604.20851), at five strengths. Perturbed videos look for captions, and
captions look for perturbed videos, with the model as it is, with scores corrected, and at strengths 0, 1, 3 and 5 with
the model adapted. Figures are written down run by run in --results, and what is there is not measured again; --page
writes the page from them and measures nothing. Amounts were chosen by what the model as it is finds on seed 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.domains import NAIVE, SAFE
from benchmarks.over_seeds import checked, ends, gap_of, markdown, seeds_parser, words
from benchmarks.shifts.measure import (
    AS_IT_IS,
    CLEAN,
    CORRECTIONS,
    HUBS,
    PERTURBATIONS,
    R1,
    WAYS,
    ShiftRun,
    Way,
    measured_runs,
    runs_of,
)
from evenreel.edits.settings import STRENGTHS
from evenreel.papers.cells import Rows, known_runs, measured

RESULTS = Path("benchmarks/results/shifts.jsonl")
HEAD, FINDINGS = (Path(__file__).parent / "words" / f"{name}.md" for name in ("head", "findings"))
"""What a person wrote above and below the tables."""
TITLES: Mapping[Way, str] = {"v2t": "Perturbed videos look for captions", "t2v": "Captions look for perturbed videos"}
METHODS: Mapping[Way, tuple[str, ...]] = {"v2t": tuple(CORRECTIONS), "t2v": (*CORRECTIONS, SAFE, NAIVE)}
LEAST = 3.0
"""Points of R@1 that a perturbation has to cost at strength 5, for sure, before corrections of it mean anything."""


def main() -> int:
    asked = arguments()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    if asked.page:
        sizes, known = (asked.clips, asked.steps), known_runs(asked.out, ShiftRun)
        same = {run: rows for run, rows in known.items() if (run.clips, run.steps) == sizes}
        asked.page.write_text(shifts_page(same, seeds), encoding="utf-8")
        return 0
    runs = [run for seed in seeds for run in runs_of(seed, asked.clips, asked.steps)]
    asked_for = [run for run in runs if run.strength in (0, *asked.strengths)]
    measured(asked_for, ShiftRun, measured_runs, asked.out, asked.processes)
    return 0


def arguments() -> argparse.Namespace:
    parser = seeds_parser(__doc__, "seeds", first_seed=10)
    parser.add_argument("--clips", type=int, default=600, help="of all splits, with test clips counted twice")
    parser.add_argument("--steps", type=int, default=500, help="of the training")
    parser.add_argument("--strengths", type=int, nargs="+", default=[*STRENGTHS], choices=STRENGTHS)
    parser.add_argument("--results", type=Path, default=RESULTS, dest="out", help="file of the figures")
    parser.add_argument("--page", type=Path, help="write the page from the figures")
    return checked(parser)


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
        return [one for one in STRENGTHS if all(self.has(name, one, AS_IT_IS) for name in PERTURBATIONS)]


def key(name: str, strength: int) -> tuple[str, int]:
    """Of a perturbation; all share what is as it was at strength 0."""
    return (name, strength) if strength else (CLEAN, 0)


def shifts_page(known: Mapping[ShiftRun, Rows], seeds: Sequence[int]) -> str:
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
    low, high = ends(gain)
    shown = f"{gain.value:+.1f} [{low:.1f}, {high:.1f}]"
    return f"**{shown}**" if low > 0 or high < 0 else shown


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
    return "yes" if ends(gap_of(found.change(name, 5, f"{way} {R1}")))[1] < -LEAST else "no"


if __name__ == "__main__":
    sys.exit(main())
