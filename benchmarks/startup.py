"""Processor time of whole commands, against what they cannot do without: importing ONNX Runtime, the search itself.

    make demo && python -m benchmarks.startup [--repeats 5] [--against OTHER/src] [--shapes CACHE]

Each command runs in a process of its own, the commands taking turns, so that what else the machine does meets all of
them alike, with one thread, since threads that wait for each other on a busy machine burn time; user and system seconds
of the process are counted, medians are printed. `--against` runs every command a
second time with the package of another source tree, such as that of an earlier commit, in the same turns. `--shapes`
adds a search by a model of the default's shape with random weights, which `benchmarks/real_shapes.py` keeps in CACHE
(4 GB): in float32 and in int8, with the most memory that the process held.
"""

from __future__ import annotations

import argparse
import os
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
SHAPE, IN_INT8 = "search, default's shape", "search, default's shape, int8"
MOST_OF_SHAPE_S, MOST_MIB = 1.2, 700
"""Processor time and memory that one by a model of the default's shape may take."""
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
COUNTED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(code)
"""
"""What a command spends and holds, told by a small process: a child begins with what its parent held."""


def commands(demo: Path, made: Path) -> dict[str, list[str]]:
    """Arguments of `evenreel` by the name that is printed.

    Args:
        demo: folder of `evenreel demo`.
        made: folder with `scores.npz`, `corpus`, and with `--shapes` libraries by the name of their search.
    """
    of_shapes = {name: ["search", QUERY, "--library", str(made / name)] for name in (SHAPE, IN_INT8)}
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
        **{name: words for name, words in of_shapes.items() if (made / name).is_dir()},
    }


def environment(source: Path | None) -> dict[str, str]:
    """One thread, and the package of another source tree where one is named."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **({"PYTHONPATH": str(source)} if source else {})}


def spent(command: Sequence[str], source: Path | None) -> tuple[float, float]:
    """User and system seconds of a command, and the most MiB that it held."""
    counted = [sys.executable, "-c", COUNTED, *command]
    done = subprocess.run(counted, env=environment(source), capture_output=True, text=True, check=False)
    if done.returncode and "device" not in done.stderr:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr}")
    seconds, mib = map(float, done.stdout.split())
    return seconds, mib


def make_shapes(cache: Path, made: Path, videos: Path) -> None:
    """Libraries of a model of the default's shape, in float32 and in int8."""
    from benchmarks.real_shapes import make

    if not (cache / "default").is_dir():
        make("default", cache / "default")
    for name, ending in ((SHAPE, ""), (IN_INT8, "#int8")):
        model = ["--model", f"{cache / 'default'}{ending}", "--no-ocr", "--sample", "1 midpoints"]
        command = [sys.executable, "-m", "evenreel", "index", str(videos), *model, "--library", str(made / name)]
        subprocess.run(command, env=environment(None), check=True, stdout=subprocess.DEVNULL)


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
    parser.add_argument("--shapes", type=Path, help="Folder that exports of real shapes are kept in.")
    given = parser.parse_args()
    sources = {"now": None, **({"before": given.against} if given.against else {})}
    times: dict[tuple[str, str], list[float]] = {}
    held: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as place:
        make_scores(Path(place))
        if given.shapes:
            make_shapes(given.shapes, Path(place), given.demo / "videos")
        for _ in range(given.repeats):
            for name, code in FLOORS.items():
                times.setdefault((name, "now"), []).append(spent([sys.executable, "-c", code], None)[0])
            for version, source in sources.items():
                for name, words in commands(given.demo, Path(place)).items():
                    if version == "before" and name == IN_INT8:
                        continue  # which had none
                    seconds, held[name, version] = spent([sys.executable, "-m", "evenreel", *words], source)
                    times.setdefault((name, version), []).append(seconds)
                alone = alone_s(given.demo / "library", source)
                times.setdefault(("the search itself", version), []).append(alone)
    show({key: statistics.median(found) for key, found in times.items()}, held)


def show(seconds: dict[tuple[str, str], float], held: dict[tuple[str, str], float]) -> None:
    """A row a command: seconds, their ratio to the imports, the search itself and the other version, and MiB."""
    floor_s, search_s = seconds[f"python -c {RUNTIME!r}", "now"], seconds["the search itself", "now"]
    print(
        f"{'command':38}{'seconds':>9}{'imports':>10}{'searches':>10}{'before':>9}{'ratio':>7}{'MiB':>7}{'before':>8}"
    )
    for name in dict.fromkeys(name for name, _ in seconds):
        now_s = seconds[name, "now"]
        row = f"{name:38}{now_s:9.3f}{now_s / floor_s:10.2f}{now_s / search_s:10.1f}"
        if before_s := seconds.get((name, "before")):
            row += f"{before_s:9.3f}{now_s / before_s:7.2f}"
        mib = [f"{held[name, version]:.0f}" for version in ("now", "before") if (name, version) in held]
        print(f"{row:93}{''.join(f'{one:>8}' for one in mib)}")
    taken_s = seconds[SEARCH, "now"]
    print(f"a search takes {taken_s:.2f} s of at most {MOST_S}: {'met' if taken_s <= MOST_S else 'NOT MET'}")
    for name in (one for one in (SHAPE, IN_INT8) if (one, "now") in seconds):
        met = seconds[name, "now"] <= MOST_OF_SHAPE_S and held[name, "now"] <= MOST_MIB
        goal = f"of at most {MOST_OF_SHAPE_S} and {MOST_MIB}: {'met' if met else 'NOT MET'}"
        print(f"{name}: {seconds[name, 'now']:.2f} s and {held[name, 'now']:.0f} MiB {goal}")


if __name__ == "__main__":
    main()
