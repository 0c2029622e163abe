"""What it costs to read pictures before words: processor time of both ways, and when everything is found by pictures.

    python -m benchmarks.passes VIDEOS --model builtin

Each way is a whole `evenreel index` into a new library, in a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

from evenreel.library.store.catalog import CATALOG


def main() -> None:
    """Index once in one pass and once in two, and print what each took."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("videos", type=Path)
    arguments.add_argument("--model", default="builtin")
    options = arguments.parse_args()
    processor = {}
    for passes in (1, 2):
        with tempfile.TemporaryDirectory() as place:
            seconds, seen_s, processor[passes] = _index(options, passes, Path(place) / "library")
        print(
            f"passes {passes}: {processor[passes]:.1f} s of processor time, {seconds:.1f} s in all; "
            f"every clip found by pictures after {seen_s:.1f} s",
            flush=True,
        )
    print(f"processor time of two passes over that of one: {processor[2] / processor[1]:.2f}")


def _index(options: argparse.Namespace, passes: int, library: Path) -> tuple[float, float, float]:
    """Index the videos; seconds until the end and until all pictures are there, and of processor time."""
    wanted = sum(path.is_file() for path in options.videos.rglob("*"))
    command = [sys.executable, "-m", "evenreel", "--quiet", "index", str(options.videos), "--library", str(library)]
    command += ["--model", options.model, "--set", f"passes={passes}"]
    before, begun_at, seen_s = _processor_s(), time.monotonic(), 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
        while run.poll() is None:
            if not seen_s and _seen(library) >= wanted:
                seen_s = time.monotonic() - begun_at
            time.sleep(0.2)
    seconds = time.monotonic() - begun_at
    return seconds, seen_s or seconds, _processor_s() - before


def _seen(library: Path) -> int:
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{library / CATALOG}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM vector_rows").fetchone()[0])
    return 0


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
