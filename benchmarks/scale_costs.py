"""What libraries of up to a thousand million moments would cost, from what was measured to ten million.

    python -m benchmarks.scale_costs [--moments 1e8 1e9] [--core-hour 0.04] [--gb-month 0.023] [--encode-ms 409]
                                     [--json]

The sizes that were measured are the rows of `benchmarks/results/search-sizes.jsonl`, a run of `benchmarks.search` each.
Beyond the largest of them, a figure goes on along the straight line through the two largest; nothing says that a
machine keeps to it, and what was not measured is marked. Costs a moment are constants below, each with the command that
measured it or the source that published it. Prices are options, since everybody has others.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path

SIZES = Path(__file__).parent / "results" / "search-sizes.jsonl"
DECODE_MS, DECODE_FROM = 6.6, "benchmarks/ingest.py: 0.67 s for 101 frames"
TEXT_MS, TEXT_FROM = 96.0, "benchmarks/ocr.py --threads 1: 9.7 s for 101 frames full of signs, on a busy machine"
ENCODE_MS, ENCODE_FROM = 409.0, "benchmarks/real_shapes.py: SigLIP 2 B/16's shape, random weights, float32 on one core"
SCAN_NS, SCAN_FROM = 51.0, "a pass over the 1.02 GB of float16 of a million moments: 51 ms, on one thread as on two"
SECONDS_A_MOMENT = 1.0
"""Video that one moment stands for, where a frame a second is read, as `index` does by itself."""
WEEK_CORE_HOURS = 16 * 24 * 7
"""Of a machine with 16 cores."""
SERVER_CORES, MONTH_HOURS = 2, 730
WAIT_MS = 1_200.0
"""p95 that a person is asked to wait at most."""


@dataclass(frozen=True)
class Prices:
    """What is paid for an hour of a core, in dollars, and for a gigabyte kept for a month."""

    core_hour: float
    gb_month: float


@dataclass(frozen=True)
class Cost:
    """What one size costs; times of queries are those of two cores, and drawn on where `measured` is False."""

    moments: float
    measured: bool
    hours_of_video: float
    index_core_hours: float
    text_core_hours: float
    index_dollars: float
    disk_gb: float
    disk_dollars_a_month: float
    not_page_cache_gb: float
    opening_s: float
    p95_s: float
    scan_core_s: float
    parts: int
    """Libraries to divide the videos among, a server of two cores each, so that queries stay within the wait."""
    machines_for_a_week: int
    memory_gb_a_server: float
    servers_dollars_a_month: float


def read_sizes(path: Path = SIZES) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(rows, key=lambda row: float(row["moments"]))


def along(rows: Sequence[Mapping[str, float]], column: str, moments: float) -> float:
    """Return a column at a size: between the measured ones or beyond them, on the line through the nearest two."""
    right = next((place for place, row in enumerate(rows) if row["moments"] >= moments), len(rows) - 1)
    lower, upper = rows[max(right, 1) - 1], rows[max(right, 1)]
    slope = (upper[column] - lower[column]) / (upper["moments"] - lower["moments"])
    return upper[column] + slope * (moments - upper["moments"])


def cost(rows: Sequence[Mapping[str, float]], moments: float, prices: Prices, encode_ms: float = ENCODE_MS) -> Cost:
    """Say what a library of so many moments costs to make, to keep and to ask."""
    sight, text = ((DECODE_MS + encode_ms) * moments / 3.6e6, TEXT_MS * moments / 3.6e6)
    disk_gb = sum(along(rows, column, moments) for column in ("catalog_mb", "vectors_mb")) / 1e3
    parts = parts_for(rows, moments)
    memory_gb = along(rows, "vectors_mb", moments / parts) / 1e3 + _gb_held(rows, moments / parts)
    return Cost(
        moments=moments,
        measured=moments <= rows[-1]["moments"] * 1.01,
        hours_of_video=moments * SECONDS_A_MOMENT / 3_600,
        index_core_hours=sight,
        text_core_hours=text,
        index_dollars=(sight + text) * prices.core_hour,
        disk_gb=disk_gb,
        disk_dollars_a_month=disk_gb * prices.gb_month,
        not_page_cache_gb=_gb_held(rows, moments),
        opening_s=along(rows, "opening_ms", moments) / 1e3,
        p95_s=along(rows, "p95_ms", moments) / 1e3,
        scan_core_s=SCAN_NS * moments / 1e9,
        parts=parts,
        machines_for_a_week=ceil((sight + text) / WEEK_CORE_HOURS),
        memory_gb_a_server=memory_gb,
        servers_dollars_a_month=parts * SERVER_CORES * MONTH_HOURS * prices.core_hour,
    )


def _gb_held(rows: Sequence[Mapping[str, float]], moments: float) -> float:
    return along(rows, "not_page_cache_mib", moments) * 2**20 / 1e9


def parts_for(rows: Sequence[Mapping[str, float]], moments: float) -> int:
    """Return the least number of equal libraries whose queries stay within the wait."""
    parts = 1
    while along(rows, "p95_ms", moments / parts) > WAIT_MS:
        parts += 1
    return parts


COLUMNS: dict[str, Callable[[Cost], str]] = {
    "moments": lambda one: f"{one.moments:,.0f}",
    "hours of video": lambda one: f"{one.hours_of_video:,.0f}",
    "core hours: pictures, words": lambda one: f"{one.index_core_hours:,.0f}, {one.text_core_hours:,.0f}",
    "machines of 16 cores to make it in a week": lambda one: f"{one.machines_for_a_week:,}",
    "dollars once": lambda one: f"{one.index_dollars:,.0f}",
    "disk, GB": lambda one: f"{one.disk_gb:,.1f}",
    "dollars a month": lambda one: f"{one.disk_dollars_a_month:,.2f}",
    "not page cache, GB": lambda one: f"{one.not_page_cache_gb:,.2f}",
    "first query after opening, s": lambda one: f"{one.opening_s:,.1f}",
    "p95 of one library, s": lambda one: f"{one.p95_s:,.2f}{'' if one.measured else ' (drawn on)'}",
    "of it the scan, core s": lambda one: f"{one.scan_core_s:,.2f}",
    "libraries, a server each, for a p95 of 1.2 s": lambda one: f"{one.parts:,}",
    "memory of each server, GB": lambda one: f"{one.memory_gb_a_server:,.1f}",
    "dollars a month for them": lambda one: f"{one.servers_dollars_a_month:,.0f}",
}


def table(costs: Sequence[Cost]) -> str:
    """Lay the costs out as a Markdown table, a size a column."""
    head = ["", *(COLUMNS["moments"](one) for one in costs)]
    rows = [[name, *(show(one) for one in costs)] for name, show in COLUMNS.items() if name != "moments"]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=float, nargs="+", default=[1e6, 9.96e6, 1e8, 1e9])
    parser.add_argument("--core-hour", type=float, default=0.04)
    parser.add_argument("--gb-month", type=float, default=0.023)
    parser.add_argument("--encode-ms", type=float, default=ENCODE_MS, help="of one core, for one picture")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    prices = Prices(options.core_hour, options.gb_month)
    costs = [cost(read_sizes(), moments, prices, options.encode_ms) for moments in options.moments]
    if options.json:
        print(json.dumps([asdict(one) for one in costs], indent=1))
        return
    print(table(costs))
    for name, source in (("decode", DECODE_FROM), ("words", TEXT_FROM), ("encode", ENCODE_FROM), ("scan", SCAN_FROM)):
        print(f"{name}: {source}")


if __name__ == "__main__":
    main()
