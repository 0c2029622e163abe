"""Processor time of whole commands, against what they cannot do without: importing ONNX Runtime, the search itself.

    make demo && python -m benchmarks.startup [--repeats 5] [--against OTHER/src] [--only WORD]
        [--shapes CACHE]

Each command runs in a process of its own, the commands taking turns, so that what else the machine does meets all of
them alike, with one thread, since threads that wait for each other on a busy machine burn time; user and system seconds
of the process are counted, and the most memory it held; medians are printed. `search, asked of a server` is the search
while `evenreel serve` runs on the same library; the others find no server. `--against` runs every command a second time
with the package of another source tree, such as that of an earlier commit, in the same turns; `--only` those commands
alone whose name has a word. `--shapes` adds a search by a model of the default's shape with random weights, which
`benchmarks/real_shapes.py` keeps in CACHE (4 GB): in float32 and in int8.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import psutil

from benchmarks.serve import serving
from evenreel.corpus import make_corpus, save_corpus
from evenreel.evaluation import save_scores
from evenreel.types import Scores

QUERY = "a red star on a beach"
PAIRS = 1000
RUNTIME, SEARCH, SERVED = "import numpy, onnxruntime", "search", "search, asked of a server"
FLOORS = {f"python -c {code!r}": code for code in ("pass", "import numpy", RUNTIME, "import torch")}
MOST_S, MOST_SERVED_S = 0.7, 0.35
"""Processor time that a search may take, alone and with a server."""
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
        SERVED: ["search", QUERY, *library],
        "index, nothing new": ["index", str(demo / "videos"), *library],
        "evaluate": ["evaluate", str(made / "scores.npz"), "--resamples", "0", *scores],
        "audit hubness": ["audit", "hubness", "--scores", str(made / "scores.npz"), *scores],
        "train, refused": ["train", "msrvtt-9k/mean_pool", "--set", "loop.device=none", "--out", str(made / "run")],
        **{name: words for name, words in of_shapes.items() if (made / name).is_dir()},
    }


def environment(source: Path | None) -> dict[str, str]:
    """One thread, and the package of another source tree where one is named."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **({"PYTHONPATH": str(source)} if source else {})}


def spent_s(command: Sequence[str], source: Path | None, notes: Path | None = None) -> tuple[float, float]:
    """User and system seconds of a command, and its MiB; `notes` is the cache folder with the note of a server."""
    own = environment(source) | {"XDG_CACHE_HOME": str(notes)} if notes else environment(source)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=own, stdout=said, stderr=said)
        own_memory, most = psutil.Process(process.pid), 0  # what the system notes as its most begins with ours
        while not (found := os.wait4(process.pid, os.WNOHANG))[0]:
            with contextlib.suppress(psutil.Error):
                most = max(most, own_memory.memory_info().rss)
            time.sleep(0.005)
        _, status, spent = found
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if process.returncode and b"device" not in (text := said.read()):
            raise SystemExit(f"{' '.join(command)} failed: {text.decode()}")
    return spent.ru_utime + spent.ru_stime, most / 2**20


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=Path("demo"), help="Folder of `evenreel demo`.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="A word of the names of the commands that are run.")
    parser.add_argument("--against", type=Path, help="Source tree of another version, whose times are printed beside.")
    parser.add_argument("--shapes", type=Path, help="Folder that exports of real shapes are kept in.")
    given = parser.parse_args()
    sources = {"now": None, **({"before": given.against} if given.against else {})}
    times: dict[tuple[str, str], list[float]] = {}
    memory: dict[tuple[str, str], list[float]] = {}
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_scores(place)
        if given.shapes:
            make_shapes(given.shapes, place, given.demo / "videos")
        (notes := place / "cache").mkdir()
        cache, os.environ["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME"), str(notes)
        stack.enter_context(serving(given.demo / "library"))
        os.environ["XDG_CACHE_HOME"] = cache or str(place / "none")
        for _ in range(given.repeats):
            for name, code in FLOORS.items():
                times.setdefault((name, "now"), []).append(spent_s([sys.executable, "-c", code], None)[0])
            for version, source in sources.items():
                for name, words in commands(given.demo, place).items():
                    if given.only not in name or (version == "before" and name == IN_INT8):
                        continue  # which had none
                    command = [sys.executable, "-m", "evenreel", *words]
                    spent, held = spent_s(command, source, notes if name == SERVED else None)
                    times.setdefault((name, version), []).append(spent)
                    memory.setdefault((name, version), []).append(held)
                alone = alone_s(given.demo / "library", source)
                times.setdefault(("the search itself", version), []).append(alone)
    show(*({key: statistics.median(found) for key, found in one.items()} for one in (times, memory)))


def show(seconds: dict[tuple[str, str], float], memory: dict[tuple[str, str], float]) -> None:
    """A row a command: seconds, and their ratio to the imports, to the search itself and to the other version; MiB."""
    floor_s, search_s = seconds[f"python -c {RUNTIME!r}", "now"], seconds["the search itself", "now"]
    print(f"{'command':38}{'seconds':>9}{'MiB':>7}{'imports':>10}{'searches':>10}{'before':>9}{'ratio':>7}")
    for name in dict.fromkeys(name for name, _ in seconds):
        now_s = seconds[name, "now"]
        row = f"{name:38}{now_s:9.3f}{memory.get((name, 'now'), 0):7.0f}{now_s / floor_s:10.2f}{now_s / search_s:10.1f}"
        if before_s := seconds.get((name, "before")):
            row += f"{before_s:9.3f}{now_s / before_s:7.2f}"
        print(row)
    for name, most_s in (
        (SEARCH, MOST_S),
        (SERVED, MOST_SERVED_S),
        (SHAPE, MOST_OF_SHAPE_S),
        (IN_INT8, MOST_OF_SHAPE_S),
    ):
        if (taken_s := seconds.get((name, "now"))) is not None:
            print(f"{name}: {taken_s:.2f} s of at most {most_s}: {'met' if taken_s <= most_s else 'NOT MET'}")
        if name in (SHAPE, IN_INT8) and (held := memory.get((name, "now"))) is not None:
            print(f"{name}: {held:.0f} MiB of at most {MOST_MIB}: {'met' if held <= MOST_MIB else 'NOT MET'}")


if __name__ == "__main__":
    main()
