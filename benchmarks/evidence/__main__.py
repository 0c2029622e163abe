"""How much of a planted bias does each correction bring back, and what does it cost?

    python -m benchmarks.evidence --annotations DIR [--worlds drawn rendered harder] [--biases length ...]
        [--rows NAME ...] [--seeds 5] [--first-seed 10] [--strength 0.9] [--processes 2] [--results DIR]
        [--page docs/evidence.md] [--save-admissions] [--plan]

For every bias and seed a world is made twice, with the bias and without it, and every row is trained or read on both;
each training keeps the weights with the best R@1 on a validation split that is biased as its training split is. Drawn
worlds are features for the clips of EPIC-KITCHENS-100, whose annotation files are in DIR (docs/corpora.md); rendered
ones are planted videos, which the built-in encoder sees. The figures are written down row by row in --results;
a run that was broken off goes on, and what is there is not measured again, so that any row can be had with --rows and
an empty folder. --save-admissions writes whether rendered worlds are admitted into the package, where `evenreel
planted` reads it. --page writes the page from what is in the folder and measures nothing. --plan says what is missing
and about how long it takes. Seeds 0 to 4 chose the worlds and the settings; 10 to 14 are reported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.evidence.engine import STRENGTH, Cell, Evidence, cells_of, of_world, planned_s
from benchmarks.evidence.page import evidence_page, read, save_admissions
from benchmarks.evidence.registry import EVIDENCE
from benchmarks.over_seeds import checked, seeds_parser
from evenreel.papers.cells import Rows, known_runs, measured

RESULTS = Path("benchmarks/results")


def main() -> int:
    asked = arguments()
    chosen = chosen_of(asked)
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    if asked.page:
        asked.page.write_text(evidence_page(EVIDENCE, asked.results, seeds, asked.strength), encoding="utf-8")
        return 0
    if asked.save_admissions:
        found = [read(evidence, asked.results, seeds, asked.strength) for evidence in chosen]
        print("\n".join(save_admissions(found, seeds, asked.strength)))
        return 0
    asked.results.mkdir(parents=True, exist_ok=True)
    for evidence in chosen:
        asked.out = asked.results / f"{evidence.name}.jsonl"
        rows = [row for row in evidence.rows if not asked.rows or row in asked.rows]
        cells = cells_of(evidence, seeds, asked.strength, rows)
        if asked.plan:
            print(plan(evidence, cells, known_runs(asked.out, Cell), asked.processes))
        else:
            work = partial(made, (asked.annotations or Path()).resolve())
            measured(cells, Cell, work, asked.out, asked.processes)
    return 0


def made(annotations: Path, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Rows]]:
    return of_world(EVIDENCE, annotations, cells)


def arguments() -> argparse.Namespace:
    parser = seeds_parser(__doc__, "worlds", first_seed=10)
    names = list(dict.fromkeys(one.bias for one in EVIDENCE))
    parser.add_argument("--annotations", type=Path, help="folder of EPIC-KITCHENS-100")
    parser.add_argument("--biases", nargs="+", default=names, choices=names, metavar="BIAS", help=", ".join(names))
    worlds = list(dict.fromkeys(one.world for one in EVIDENCE))
    parser.add_argument("--worlds", nargs="+", default=worlds, choices=worlds, metavar="WORLD", help=", ".join(worlds))
    parser.add_argument("--rows", nargs="+", default=[], help="names of rows; all where none is named")
    parser.add_argument("--strength", type=float, default=STRENGTH, help="of what is planted, above 0")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the figures")
    parser.add_argument("--page", type=Path, help="write the page from the figures")
    parser.add_argument(
        "--save-admissions", action="store_true", help="write verdicts on rendered worlds into the package"
    )
    parser.add_argument("--plan", action="store_true", help="say what is to be done, and about how long it takes")
    asked = checked(parser)
    reads = asked.page or asked.plan or asked.save_admissions
    if asked.annotations is None and "drawn" in asked.worlds and not reads:
        parser.error("--annotations is the folder of EPIC-KITCHENS-100's annotation files")
    unknown = set(asked.rows) - {row for one in chosen_of(asked) for row in one.rows}
    if unknown:
        parser.error(f"no bias that was named has the rows {', '.join(sorted(unknown))}")
    return asked


def chosen_of(asked: argparse.Namespace) -> list[Evidence]:
    return [one for one in EVIDENCE if one.bias in asked.biases and one.world in asked.worlds]


def plan(evidence: Evidence, cells: list[Cell], known: dict[Cell, Rows], processes: int) -> str:
    """What is missing of a bias, and for how long it would be measured."""
    missing = [cell for cell in cells if cell not in known]
    seconds = planned_s(evidence, missing, known)
    time = "" if seconds is None else f", about {seconds / 60 / processes:.0f} minutes"
    return f"{evidence.name}: {len(missing)} of {len(cells)} to do{time}"


if __name__ == "__main__":
    sys.exit(main())
