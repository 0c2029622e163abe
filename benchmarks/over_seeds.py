"""What benchmarks over seeds share: runs that are done once and written down, and figures with their intervals.

A benchmark names its runs (a frozen dataclass with `seed` and `corpus`), says how all runs on one corpus are made, and
prints tables of baseline, oracle and methods over the seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student

from evenreel.config import usable_cores

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    class OneRun(DataclassInstance, Protocol):
        """One unit of work, which prints as what a person is told of its progress."""

        @property
        def seed(self) -> int:
            """Seed of the corpus and of the training."""

        @property
        def corpus(self) -> Hashable:
            """The corpus that the run is on; runs on one corpus share a process."""

    Run = TypeVar("Run", bound=OneRun)
else:
    Run = TypeVar("Run")

Work = Callable[[Sequence[Run]], Iterable[tuple[Run, "Rows"]]]
"""Makes the rows of all runs on one corpus, one run after the other."""
Figures = dict[str, float]
"""Figures of one row and seed, by name."""
Rows = dict[str, Figures]
"""The rows that come of one run, by name."""
Seeds = dict[str, list[Figures]]
"""Figures of each row, seed by seed."""
Made = TypeVar("Made")


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
    if a <= 0:
        return Gap(over / under, -np.inf, np.inf)
    root = float(np.sqrt(max(0.0, b**2 - a * c)))  # below 0 by rounding alone, as the denominator is not 0
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


def measured(runs: Iterable[Run], kind: type[Run], work: Work[Run], asked: argparse.Namespace) -> dict[Run, Rows]:
    """The rows of every run; those in the file of `--out` are not made again.

    Runs on one corpus share a process with one thread; all of a seed come first, since a part of them is of use.

    Args:
        runs: all that the tables need.
        kind: their class.
        work: makes those on one corpus; a function of a module, which another process can find.
        asked: the command line, with `out` and `processes`.
    """
    found = known_runs(asked.out, kind)
    todo: dict[Hashable, list[Run]] = {}
    for run in dict.fromkeys(runs):
        if run not in found:
            todo.setdefault(run.corpus, []).append(run)
    groups = sorted(todo.values(), key=lambda own: own[0].seed)
    for made in in_processes([(work, own, asked.out) for own in groups], _noted, asked.processes):
        found |= made
    return found


def _noted(work: Work[Run], runs: Sequence[Run], out: Path | None) -> dict[Run, Rows]:
    """Make runs, say how far it is, and write each down when it is done."""
    found = {}
    for run, rows in work(runs):
        found[run] = rows
        for row, figures in rows.items():
            shown = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
            print(f"{run}, {row}: {shown}", file=sys.stderr, flush=True)
        if out:
            note_run(out, run, rows)
    return found


def in_processes(jobs: Sequence[tuple[Any, ...]], work: Callable[..., Made], processes: int) -> Iterator[Made]:
    """What some calls of a function return, as they come, each in a process on one thread.

    Args:
        jobs: the arguments of each call.
        work: a function of a module.
        processes: calls at a time.
    """
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # numpy's; worlds differ in rounding
    with ProcessPoolExecutor(processes, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for job in as_completed([pool.submit(work, *own) for own in jobs]):
            yield job.result()


def known_runs(path: Path | None, kind: type[Run]) -> dict[Run, Rows]:
    """What was measured before; nothing where there is no file. A last line that a kill cut is taken off the file."""
    if path is None or not path.exists():
        return {}
    whole, _, cut = path.read_text(encoding="utf-8").rpartition("\n")
    if cut:
        path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
    lines: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines()]
    return {kind(**one["run"]): one["rows"] for one in lines}


def note_run(path: Path, run: Run, rows: Mapping[str, Figures]) -> None:
    """Add a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"run": asdict(run), "rows": rows}) + "\n")


def by_row(seeds: Iterable[Iterable[Run]], found: Mapping[Run, Rows]) -> Seeds:
    """Figures of each row that all seeds have, seed by seed.

    Args:
        seeds: the runs of each seed.
        found: their rows.
    """
    own = [{name: figures for run in runs for name, figures in found[run].items()} for runs in seeds]
    return {name: [one[name] for one in own] for name in own[0] if all(name in one for one in own)}


def markdown(head: str, lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, below the line of its heads."""
    rows = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])
