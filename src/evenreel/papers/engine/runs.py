"""Every row of a table with every seed: in which folder each is trained, and its share of the progress."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Collection, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from evenreel.papers.engine.settings import TrainingSettings
from evenreel.progress import Progress, each_part
from evenreel.training.run_folder import CLIPS_READ


class TrainingRun(NamedTuple):
    """One row of a table, trained with one seed.

    Attributes:
        row: name of the row.
        seed: number of the seed, from 0.
        folder: folder of what training writes.
        progress: called with the share of this run that is done.
        clips_read: file of all runs that remembers which clips can be read, for towers; None for none.
    """

    row: str
    seed: int
    folder: Path
    progress: Progress = lambda share: None
    clips_read: Path | None = None


def each_run(rows: Collection[str], settings: TrainingSettings, progress: Progress) -> Iterator[TrainingRun]:
    """Yield every row with every seed and a folder for it, all rows of one seed after each other.

    Args:
        rows: names of rows, which also name the folders of their runs.
        settings: seeds, and where runs are kept; a temporary folder is gone after the last run.
        progress: called with the share of all runs that is done.
    """
    with _runs_folder(settings) as runs:
        for row, seed, share in each_seed(rows, range(settings.seeds), progress):
            yield TrainingRun(row, seed, runs / run_name(row) / f"seed-{seed}", share, runs / CLIPS_READ)


def each_seed(rows: Collection[str], seeds: range, progress: Progress) -> Iterator[tuple[str, int, Progress]]:
    """Yield every row with every seed, all rows of one seed after each other, and the progress of each.

    When the next one is asked for, the one before is done.

    >>> [(row, seed) for row, seed, _ in each_seed(["a", "b"], range(2), lambda share: None)]
    [('a', 0), ('b', 0), ('a', 1), ('b', 1)]
    """
    for (seed, row), share in each_part(list(product(seeds, rows)), progress):
        yield row, seed, share


def run_name(row: str) -> str:
    """Return the name of the folder in which the runs of a row of a table are kept.

    >>> run_name("RmvAll"), run_name("20 % generated")
    ('rmvall', '20-generated')
    """
    return re.sub(r"[^a-z0-9]+", "-", row.lower())


@contextlib.contextmanager
def _runs_folder(settings: TrainingSettings) -> Iterator[Path]:
    if settings.runs is not None:
        yield settings.runs
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
