"""What the server adds to a search, and whether its memory stays where it is.

    python benchmarks/serve.py [--clips 2000] [--queries 10000] [--clients 16] [--work FOLDER] [--json]

A library of planted clips, rendered, indexed with the built-in encoder and given the true words on their signs, is
asked captions of its own, all different, so that no answer is kept from before. `server` is `evenreel serve` in a
process of its own, asked over HTTP by as many clients as are named, each with one connection, none of them pausing.
`in process` is `Library.search` called by as many threads of one process, each with a library of its own over one
model; `alone` is a single thread. Clients and server share the machine's cores, so that the server's figures hold the
clients' work as well. Memory is what the server process has resident, the mean over the first and over the last
tenth of the queries. Exit status 1 if a request fails, the 95th percentile passes three times that in process, or
memory grows by more than 5 %. With --work the library is kept there and used again.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import psutil

from evenreel.config import IndexSettings
from evenreel.encoders import load_encoder
from evenreel.features.shards import read_shard, shard_path
from evenreel.library import index_folders, open_library
from evenreel.library.store import catalog
from evenreel.library.store.writer import Store
from evenreel.planted import plan_corpus, write_corpus
from evenreel.planted.plan import PlantedCorpus
from evenreel.server.batched_encoder import BatchedEncoder
from evenreel.types import TextTrack

SLOWER, LARGER = 3.0, 1.05
"""Bounds of the 95th percentile over that in process, and of memory at the end over that at the beginning."""
K = 20
Ask = Callable[[str], int]


@dataclass(frozen=True)
class Times:
    """Milliseconds of each query, in the order in which they were answered."""

    name: str
    ms: Sequence[float]
    seconds: float

    def percentile(self, share: float) -> float:
        """Milliseconds that this share of the queries took at most."""
        return float(np.percentile(self.ms, share))


def main() -> int:
    """The table; 1 if a bound is missed."""
    asked = arguments()
    plan = plan_corpus("scene_text", 0.9, clips=asked.clips)
    queries = different(plan, asked.queries)
    with contextlib.ExitStack() as stack:
        work = asked.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        library = make_library(plan, work)
        few = queries[: max(asked.clients, asked.queries // 10)]
        alone = in_process(library, few, 1)
        together = in_process(library, few, asked.clients)
        server, memory, failures = served(library, queries, asked.clients)
    rows = [replace(alone, name="in process, alone"), replace(together, name="in process"), server]
    slower = server.percentile(95) / together.percentile(95)
    larger = memory[1] / memory[0]
    if asked.json:
        print(json.dumps({"rows": [figures(row) for row in rows], "slower": slower, "MiB": memory, "failed": failures}))
    else:
        for row in rows:
            print("{name:<20}p50 {p50:7.1f} ms   p95 {p95:7.1f} ms   {rate:7.1f} queries/s".format(**figures(row)))
        print(f"p95 of the server is {slower:.2f} x that in process with as many threads (at most {SLOWER:g})")
        print(f"memory {memory[0]:.0f} MiB at first, {memory[1]:.0f} MiB at last: {larger:.3f} x (at most {LARGER:g})")
        print(f"{len(failures)} of {len(queries)} requests failed{': ' + failures[0] if failures else ''}")
    return int(bool(failures) or slower > SLOWER or larger > LARGER)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=2_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--work", type=Path, help="folder to keep videos and library in")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def figures(times: Times) -> dict[str, Any]:
    """A row of the table."""
    rate = len(times.ms) / times.seconds
    return {"name": times.name, "p50": times.percentile(50), "p95": times.percentile(95), "rate": rate}


def different(plan: PlantedCorpus, count: int) -> list[str]:
    """So many captions of the corpus; where they run out, two of them together."""
    captions = sorted({sentence.text for clip in plan.clips for sentence in clip.shot.captions})
    generator = np.random.default_rng(0)
    found = dict.fromkeys(generator.permutation(captions).tolist())
    while len(found) < count:
        one, other = generator.choice(captions, 2, replace=False)
        found[f"{one} and {other}"] = None
    return list(found)[:count]


def make_library(plan: PlantedCorpus, work: Path) -> Path:
    """Render, index, and write down the words on the signs; what is there already is left as it is."""
    library, videos = work / "library", work / "videos"
    if not (library / catalog.CATALOG).exists():
        write_corpus(plan, videos)
        index_folders([videos / "clips"], library, IndexSettings(model="builtin", read_text=False))
        add_signs(plan, library)
    return library


def add_signs(plan: PlantedCorpus, library: Path) -> None:
    """What a recogniser without a fault would have read."""
    words = {f"{clip.clip_id}.mp4": [sign.text for sign in clip.scene.signs] for clip in plan.clips}
    connection = catalog.open_for_writing(library)
    store = Store(library, connection, {})
    for name, clip_id in connection.execute("SELECT name, clip_id FROM files WHERE state = 'indexed'").fetchall():
        shard = read_shard(shard_path(library / catalog.SHARDS, clip_id))
        end_s = float(shard.spans_s[-1, 1])
        tracks = tuple(TextTrack(text, 0.99, 0.0, end_s, (0.0, 0.8, 1.0, 1.0)) for text in words[name])
        store.add_clip(replace(shard, frames=None, tracks=tracks, reader_id="planted"))
    connection.close()


def in_process(library: Path, queries: Sequence[str], threads: int) -> Times:
    """`Library.search` from so many threads."""
    encoder = BatchedEncoder(load_encoder("builtin"))
    own = threading.local()

    def ask(query: str) -> int:
        if not hasattr(own, "library"):
            own.library = open_library(library, encoder=encoder)
        return len(own.library.search(query, K).hits)

    return timed("in process", ask, queries, threads)


def timed(name: str, ask: Ask, queries: Sequence[str], threads: int) -> Times:
    """How long each query takes, asked by so many threads that do not pause."""
    ms: list[float] = []

    def measure(query: str) -> None:
        began = time.perf_counter()
        ask(query)
        ms.append(1e3 * (time.perf_counter() - began))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(ask, queries[:threads]))  # whatever is read or loaded once
        began = time.perf_counter()
        list(pool.map(measure, queries[threads:] or queries))
        return Times(name, ms, time.perf_counter() - began)


def served(library: Path, queries: Sequence[str], clients: int) -> tuple[Times, tuple[float, float], list[str]]:
    """Times over HTTP, memory at first and at last in MiB, and what failed."""
    failures: list[str] = []
    resident: list[float] = []
    own = threading.local()
    with serving(library) as (process, port):

        def ask(query: str) -> int:
            if not hasattr(own, "connection"):
                own.connection = http.client.HTTPConnection("127.0.0.1", port)
            own.connection.request("GET", f"/api/search?k={K}&q={quote(query)}")
            answer = own.connection.getresponse()
            body = answer.read()
            resident.append(process.memory_info().rss / 2**20)
            if answer.status != 200:
                failures.append(f"{answer.status} {body[:200]!r}")
            return int(answer.status)

        times = timed("server", ask, queries, clients)
    tenth = max(1, len(resident) // 10)
    return times, (float(np.mean(resident[:tenth])), float(np.mean(resident[-tenth:]))), failures


@contextlib.contextmanager
def serving(library: Path) -> Iterator[tuple[psutil.Process, int]]:
    """`evenreel serve` with its model loaded, and its port."""
    command = [sys.executable, "-m", "evenreel", "serve", "--library", str(library), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        said = process.stdout.readline() if process.stdout else ""
        found = re.search(r":(\d+)/", said)
        if found is None:
            raise RuntimeError(f"the server did not start: {said}")
        port = int(found[1])
        while health(port) == "loading":
            time.sleep(0.1)
        yield psutil.Process(process.pid), port
    finally:
        process.terminate()
        process.wait()


def health(port: int) -> str:
    """State of the server's model."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/api/health")
    answer: dict[str, str] = json.loads(connection.getresponse().read())
    connection.close()
    return answer["model"]


if __name__ == "__main__":
    sys.exit(main())
