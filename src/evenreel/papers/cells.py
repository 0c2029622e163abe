"""The engine of every table over seeds: runs that are done once, written down, survive a kill and share processes.

A table names its runs (a frozen dataclass with `seed` and `corpus`) and says how all runs on one corpus are made.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from evenreel.media.workers import safe_path

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


def measured(
    runs: Iterable[Run], kind: type[Run], work: Work[Run], out: Path | None, processes: int
) -> dict[Run, Rows]:
    """The rows of every run; those in the file are not made again.

    Runs on one corpus share a process with one thread; all of a seed come first, since a part of them is of use.

    Args:
        runs: all that the tables need.
        kind: their class.
        work: makes those on one corpus; a function of a module, which another process can find.
        out: file with a line for each run that is done; None for none.
        processes: groups of runs at a time, each on one thread.
    """
    found = known_runs(out, kind)
    todo: dict[Hashable, list[Run]] = {}
    for run in dict.fromkeys(runs):
        if run not in found:
            todo.setdefault(run.corpus, []).append(run)
    groups = sorted(todo.values(), key=lambda own: own[0].seed)
    for made in in_processes([(work, own, out) for own in groups], _noted, processes):
        found |= made
    return found


def _noted(work: Work[Run], runs: Sequence[Run], out: Path | None) -> dict[Run, Rows]:
    """Make runs, say how far it is, and write each down when it is done."""
    found = {}
    for run, rows in work(runs):
        found[run] = rows
        for row, figures in rows.items():
            shown = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
            sys.stderr.write(f"{run}, {row}: {shown}\n")
        if out:
            note_run(out, run, rows)
    return found


def in_processes(jobs: Sequence[tuple[Any, ...]], work: Callable[..., Made], processes: int) -> Iterator[Made]:
    """What some calls of a function of a module return, as they come, each in a process on one thread."""
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # numpy's; worlds differ in rounding
    with safe_path(), ProcessPoolExecutor(processes, get_context("spawn"), _one_thread) as pool:
        for job in as_completed([pool.submit(work, *own) for own in jobs]):
            yield job.result()


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


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
    """Figures of each row that the runs of all seeds have, seed by seed."""
    own = [{name: figures for run in runs for name, figures in found[run].items()} for runs in seeds]
    return {name: [one[name] for one in own] for name in own[0] if all(name in one for one in own)}
