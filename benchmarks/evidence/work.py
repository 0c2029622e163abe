"""Measure cells: one world is drawn for all rows on it, and every line says which world that was."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

from benchmarks.evidence.registry import EVIDENCE
from benchmarks.evidence.rows import BASELINE, Cell, Evidence, Parts, Place, Size
from benchmarks.over_seeds import mean
from evenreel.papers.cells import Rows

WORLD, ALL_S = "world", "all, s"
"""Figures of every row beside its own: checksum of what was drawn, seconds of processor time that the row took."""


def of_world(annotations: Path, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Rows]]:
    """Draw the world of some cells and measure each of them."""
    first = cells[0]
    (evidence,) = (one for one in EVIDENCE if (one.world, one.bias) == (first.world, first.bias))
    size = Size(first.clips, first.test_clips, first.steps)
    place = Place(first.seed, first.strength, size, annotations)
    drawn = evidence.draw(place)
    checksum, by_row = checksum_of(drawn), {cell.row: cell for cell in cells}
    begun_s = time.process_time()
    for row, figures in evidence.measure(drawn, place, list(by_row)):
        yield by_row[row], {row: figures | {WORLD: checksum, ALL_S: time.process_time() - begun_s}}
        begun_s = time.process_time()


def checksum_of(drawn: Parts) -> int:
    """A number that changes with the features of any split."""
    number = 0
    for part in (drawn.train, drawn.val, drawn.test):
        for array in (part.videos.frames, part.texts.words):
            number = crc32(np.ascontiguousarray(array).tobytes(), number)
    return number


def planned_s(evidence: Evidence, missing: Sequence[Cell], known: Mapping[Cell, Rows]) -> float | None:
    """Seconds of processor time for cells by what their rows took, or by their steps; None where none was measured."""
    taken = {name: [rows[name] for cell, rows in known.items() if cell.row == name] for name in evidence.rows}
    if not taken[BASELINE]:
        return None
    step_s = mean(taken[BASELINE], ALL_S)
    return sum(
        mean(taken[cell.row], ALL_S) if taken[cell.row] else step_s * evidence.rows[cell.row].steps for cell in missing
    )
