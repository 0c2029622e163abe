"""What benchmarks over seeds share: runs that are done once and written down, and figures with their intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Run = TypeVar("Run", bound=DataclassInstance)
else:
    Run = TypeVar("Run")

Figures = dict[str, float]
"""Figures of one row and seed, by name."""
Rows = dict[str, Figures]
"""The rows that come of one run, by name."""


class Gap(NamedTuple):
    """A mean over the seeds, of a difference for example, with the ends of its interval."""

    mean: float
    low: float
    high: float


def gap_of(values: NDArray[np.float64], confidence: float = 0.95) -> Gap:
    """Mean with an interval by Student's t."""
    mean = float(values.mean())
    half = float(student.ppf(0.5 + confidence / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Gap(mean, mean - half, mean + half)


def fieller(numerators: NDArray[np.float64], denominators: NDArray[np.float64], confidence: float = 0.95) -> Gap:
    """The ratio of two means of pairs with its interval (Fieller 1954); without bounds where the lower may be 0."""
    count = len(numerators)
    over, under = float(numerators.mean()), float(denominators.mean())
    factor = float(student.ppf(0.5 + confidence / 2, count - 1)) ** 2 / count
    (var_over, cov), (_, var_under) = factor * np.cov(numerators, denominators)
    a, b, c = under**2 - var_under, over * under - cov, over**2 - var_over
    if a <= 0 or b**2 < a * c:
        return Gap(over / under, -np.inf, np.inf)
    root = float(np.sqrt(b**2 - a * c))
    return Gap(over / under, (b - root) / a, (b + root) / a)


def mean(figures: Sequence[Figures], name: str) -> float:
    """Over the seeds."""
    return float(np.mean([one[name] for one in figures]))


def differences(figures: Sequence[Figures], others: Sequence[Figures], name: str) -> NDArray[np.float64]:
    """Seed by seed."""
    return np.array([one[name] - other[name] for one, other in zip(figures, others, strict=True)])


def difference(figures: Sequence[Figures], others: Sequence[Figures], name: str) -> Gap:
    """By how much a figure is above another, with its interval."""
    return gap_of(differences(figures, others, name))


def closed(figures: Sequence[Figures], baseline: Sequence[Figures], oracle: Sequence[Figures], name: str) -> str:
    """The share of the gap between baseline and oracle that a method closes, in percent."""
    ratio = fieller(differences(figures, baseline, name), differences(oracle, baseline, name))
    return words(Gap(*(100 * value for value in ratio))) if np.isfinite(ratio.low) else "no sure gap"


def words(figure: Gap) -> str:
    """A figure with its interval."""
    return f"{figure.mean:.1f} [{figure.low:.1f}, {figure.high:.1f}]"


def known_runs(path: Path | None, kind: type[Run]) -> dict[Run, Rows]:
    """What was measured before; nothing where there is no file."""
    if path is None or not path.exists():
        return {}
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {kind(**one["run"]): one["rows"] for one in lines}


def note_run(path: Path, run: Run, rows: Mapping[str, Figures]) -> None:
    """Add a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"run": asdict(run), "rows": rows}) + "\n")


def in_processes(
    groups: Sequence[Sequence[Run]], work: Callable[..., dict[Run, Rows]], out: Path | None, processes: int
) -> Iterator[tuple[Run, Rows]]:
    """The rows of some groups of runs as they come, a group in a process on one thread.

    Args:
        groups: runs that go together, such as those on one corpus.
        work: is given a group and `out`, and writes down each run when it is done.
        out: see `note_run`.
        processes: groups at a time.
    """
    with ProcessPoolExecutor(processes, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        jobs = [pool.submit(work, runs, out) for runs in groups if runs]
        for job in as_completed(jobs):
            yield from job.result().items()
