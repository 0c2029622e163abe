"""What benchmarks over seeds share: runs that are done once and written down, and figures with their intervals.

A benchmark names its runs (a frozen dataclass with `seed` and `corpus`), says how all runs on one corpus are made, and
prints tables of baseline, oracle and methods over the seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.config import usable_cores
from evenreel.evaluation.intervals import Interval, over_seeds, ratio_over_seeds
from evenreel.papers.cells import Figures


class Gap(NamedTuple):
    """A mean over the seeds, of a difference for example, with the ends of its interval."""

    mean: float
    low: float
    high: float


def gap_of(values: NDArray[np.float64], confidence: float = 0.95) -> Gap:
    """Mean with an interval by Student's t."""
    return _gap(over_seeds(values.tolist(), confidence))


def fieller(numerators: NDArray[np.float64], denominators: NDArray[np.float64], confidence: float = 0.95) -> Gap:
    """The ratio of two means of pairs, see `ratio_over_seeds`."""
    return _gap(ratio_over_seeds(numerators, denominators, confidence))


def _gap(found: Interval) -> Gap:
    assert found.low is not None and found.high is not None, "over two seeds or more"
    return Gap(found.value, found.low, found.high)


def mean(figures: Sequence[Figures], name: str) -> float:
    """Over the seeds."""
    return float(np.mean([one[name] for one in figures]))


def differences(figures: Sequence[Figures], others: Sequence[Figures], name: str) -> NDArray[np.float64]:
    """Seed by seed."""
    return np.array([one[name] - other[name] for one, other in zip(figures, others, strict=True)])


def difference(figures: Sequence[Figures], others: Sequence[Figures], name: str) -> Gap:
    """By how much a figure is above another, with its interval."""
    return gap_of(differences(figures, others, name))


def words(figure: Gap) -> str:
    """A figure with its interval."""
    return f"{figure.mean:.1f} [{figure.low:.1f}, {figure.high:.1f}]"


def seeds_parser(about: str | None, clips: int, shared: str = "corpora") -> argparse.ArgumentParser:
    """A parser with the options of all benchmarks over seeds.

    Args:
        about: the text of `--help`.
        clips: default of `--clips`.
        shared: what `--processes` are measured at a time.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="at least 2")
    parser.add_argument("--clips", type=int, default=clips, help="of all splits together")
    parser.add_argument("--processes", type=int, default=usable_cores(), help=f"{shared} measured at a time")
    parser.add_argument("--out", type=Path, help="file for the figures, in lines of JSON")
    return parser


def checked(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line, with two seeds or more and a strength between 0 and 1 where there is one."""
    asked = parser.parse_args()
    if asked.seeds < 2:
        parser.error(f"an interval needs at least 2 seeds; --seeds was {asked.seeds}")
    if not 0 < getattr(asked, "strength", 1) <= 1:
        parser.error(f"--strength is above 0 and at most 1; it was {asked.strength}")
    return asked


def markdown(head: str, lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, below the line of its heads."""
    rows = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])
