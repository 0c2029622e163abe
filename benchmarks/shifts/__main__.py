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
from pathlib import Path

from benchmarks.shifts.cells import ShiftRun, measured_runs, runs_of
from benchmarks.shifts.page import shifts_page
from evenreel.config import usable_cores
from evenreel.edits.settings import STRENGTHS
from evenreel.papers.cells import known_runs, measured

RESULTS = Path("benchmarks/results/shifts.jsonl")


def main() -> int:
    """Measure, or write the page."""
    asked = arguments()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    if asked.page:
        sizes, known = (asked.clips, asked.steps), known_runs(asked.out, ShiftRun)
        same = {run: rows for run, rows in known.items() if (run.clips, run.steps) == sizes}
        asked.page.write_text(shifts_page(same, seeds), encoding="utf-8")
        return 0
    runs = [run for seed in seeds for run in runs_of(seed, asked.clips, asked.steps)]
    measured(
        [run for run in runs if run.strength in (0, *asked.strengths)],
        ShiftRun,
        measured_runs,
        asked.out,
        asked.processes,
    )
    return 0


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="at least 2")
    parser.add_argument("--first-seed", type=int, default=10, help="the others follow it")
    parser.add_argument("--clips", type=int, default=600, help="of all splits, with test clips counted twice")
    parser.add_argument("--steps", type=int, default=500, help="of the training")
    parser.add_argument("--strengths", type=int, nargs="+", default=[*STRENGTHS], choices=STRENGTHS)
    parser.add_argument("--processes", type=int, default=usable_cores(), help="seeds measured at a time")
    parser.add_argument("--results", type=Path, default=RESULTS, dest="out", help="file of the figures")
    parser.add_argument("--page", type=Path, help="write the page from the figures")
    asked = parser.parse_args()
    if asked.seeds < 2 or asked.processes < 1:
        parser.error(f"--seeds is at least 2 and --processes 1; they were {asked.seeds} and {asked.processes}")
    return asked


if __name__ == "__main__":
    sys.exit(main())
