"""What benchmarks over seeds share: figures seed by seed, their intervals in words, tables, and options.

The runs are those of `evenreel.papers.cells`: done once, written down, in processes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from evenreel.config import usable_cores
from evenreel.evaluation import Interval
from evenreel.evaluation.intervals import over_seeds
from evenreel.papers.cells import Figures


def gap_of(values: NDArray[np.float64], confidence: float = 0.95) -> Interval:
    return over_seeds(values.tolist(), confidence)


def mean(figures: Sequence[Figures], name: str) -> float:
    return float(np.mean([one[name] for one in figures]))


def differences(figures: Sequence[Figures], others: Sequence[Figures], name: str) -> NDArray[np.float64]:
    return np.array([one[name] - other[name] for one, other in zip(figures, others, strict=True)])


def difference(figures: Sequence[Figures], others: Sequence[Figures], name: str) -> Interval:
    """By how much a figure is above another, with its interval."""
    return gap_of(differences(figures, others, name))


def ends(found: Interval) -> tuple[float, float]:
    assert found.low is not None and found.high is not None
    return found.low, found.high


def words(figure: Interval) -> str:
    return f"{figure.value:.1f} [{figure.low:.1f}, {figure.high:.1f}]"


def seeds_parser(about: str | None, shared: str, first_seed: int | None = None) -> argparse.ArgumentParser:
    """A parser with the options of all benchmarks over seeds; `shared` is what is measured at a time."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="at least 2")
    if first_seed is not None:
        parser.add_argument("--first-seed", type=int, default=first_seed, help="the others follow it")
    parser.add_argument("--processes", type=int, default=usable_cores(), help=f"{shared} measured at a time")
    return parser


def checked(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line, with two seeds or more and a strength between 0 and 1 where there is one."""
    asked = parser.parse_args()
    if asked.seeds < 2 or asked.processes < 1:
        parser.error(f"--seeds is at least 2 and --processes 1; they were {asked.seeds} and {asked.processes}")
    if not 0 < getattr(asked, "strength", 1) <= 1:
        parser.error(f"--strength is above 0 and at most 1; it was {asked.strength}")
    return asked


def markdown(head: str, lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, below the line of its heads."""
    rows = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])
