"""Processor time of whole commands, against what they cannot do without: importing ONNX Runtime, the search itself.

    make demo && python benchmarks/startup.py [--repeats 5] [--against OTHER/src]

Each command runs in a process of its own, the commands taking turns, so that what else the machine does meets all of
them alike, with one thread, since threads that wait for each other on a busy machine burn time; user and system seconds
of the process are counted, medians are printed. `--against` runs every command a
second time with the package of another source tree, such as that of an earlier commit, in the same turns.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from evenreel.corpus import make_corpus, save_corpus
from evenreel.evaluation import save_scores
from evenreel.types import Scores

QUERY = "a red star on a beach"
PAIRS = 1000
RUNTIME, SEARCH = "import numpy, onnxruntime", "search"
FLOORS = {f"python -c {code!r}": code for code in ("pass", "import numpy", RUNTIME, "import torch")}
MOST_S = 0.7
"""Processor time that a search may take."""
ALONE = """
import sys, time
from evenreel import open_library
with open_library(sys.argv[1], device="cpu") as library:
    library.search("a blue heart in a forest")
    begun_s = time.process_time()
    library.search(sys.argv[2])
    print(time.process_time() - begun_s)
"""
"""A search in a process that has searched before."""


def commands(demo: Path, made: Path) -> dict[str, list[str]]:
    """Arguments of `evenreel` by the name that is printed.

    Args:
        demo: folder of `evenreel demo`.
        made: folder with `scores.npz` and `corpus`.
    """
    library = ["--library", str(demo / "library")]
    scores = ["--corpus", str(made / "corpus")]
    return {
        "--help": ["--help"],
        "search --help": ["search", "--help"],
        "info": ["info", *library],
        "search --no-vision": ["search", QUERY, "--no-vision", *library],
        SEARCH: ["search", QUERY, *library],
        "index, nothing new": ["index", str(demo / "videos"), *library],
        "evaluate": ["evaluate", str(made / "scores.npz"), "--resamples", "0", *scores],
        "audit hubness": ["audit", "hubness", "--scores", str(made / "scores.npz"), *scores],
        "train, refused": ["train", "msrvtt-9k/mean_pool", "--set", "loop.device=none", "--out", str(made / "run")],
    }


def environment(source: Path | None) -> dict[str, str]:
    """One thread, and the package of another source tree where one is named."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **({"PYTHONPATH": str(source)} if source else {})}


def spent_s(command: Sequence[str], source: Path | None) -> float:
    """User and system seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment(source), capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode and "device" not in done.stderr:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def alone_s(library: Path, source: Path | None) -> float:
    """Seconds of a search in a process that has searched before."""
    command = [sys.executable, "-c", ALONE, str(library), QUERY]
    done = subprocess.run(command, env=environment(source), capture_output=True, text=True, check=True)
    return float(done.stdout)


def make_scores(folder: Path) -> None:
    """Scores of 1,000 captions and clips, and the corpus they are of."""
    clips, captions = ([f"{letter}{number}" for number in range(PAIRS)] for letter in "vc")
    texts = pl.DataFrame({"caption_id": captions, "clip_id": clips, "text": ["a ball rolls"] * PAIRS})
    save_corpus(make_corpus(pl.DataFrame({"clip_id": clips}), texts), folder / "corpus")
    values = np.random.default_rng(0).normal(size=(PAIRS, PAIRS)) + 2 * np.eye(PAIRS)
    save_scores(Scores(values, captions, clips), folder / "scores.npz")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=Path("demo"), help="Folder of `evenreel demo`.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--against", type=Path, help="Source tree of another version, whose times are printed beside.")
    given = parser.parse_args()
    sources = {"now": None, **({"before": given.against} if given.against else {})}
    times: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        make_scores(Path(place))
        for _ in range(given.repeats):
            for name, code in FLOORS.items():
                times.setdefault((name, "now"), []).append(spent_s([sys.executable, "-c", code], None))
            for version, source in sources.items():
                for name, words in commands(given.demo, Path(place)).items():
                    command = [sys.executable, "-m", "evenreel", *words]
                    times.setdefault((name, version), []).append(spent_s(command, source))
                alone = alone_s(given.demo / "library", source)
                times.setdefault(("the search itself", version), []).append(alone)
    show({key: statistics.median(found) for key, found in times.items()})


def show(seconds: dict[tuple[str, str], float]) -> None:
    """A row a command: seconds, and their ratio to the imports, to the search itself and to the other version."""
    floor_s, search_s = seconds[f"python -c {RUNTIME!r}", "now"], seconds["the search itself", "now"]
    print(f"{'command':38}{'seconds':>9}{'imports':>10}{'searches':>10}{'before':>9}{'ratio':>7}")
    for name in dict.fromkeys(name for name, _ in seconds):
        now_s = seconds[name, "now"]
        row = f"{name:38}{now_s:9.3f}{now_s / floor_s:10.2f}{now_s / search_s:10.1f}"
        if before_s := seconds.get((name, "before")):
            row += f"{before_s:9.3f}{now_s / before_s:7.2f}"
        print(row)
    taken_s = seconds[SEARCH, "now"]
    print(f"a search takes {taken_s:.2f} s of at most {MOST_S}: {'met' if taken_s <= MOST_S else 'NOT MET'}")


if __name__ == "__main__":
    main()
