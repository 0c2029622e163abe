"""What the server adds to a search, how many it answers, and whether its memory stays where it is.

    python -m benchmarks.serve [--clips 2000] [--made-up] [--queries 10000] [--clients 16] [--workers 1 2]
                               [--beside CHECKOUT] [--rounds 9] [--work FOLDER] [--json]

A library of planted clips, rendered, indexed with the built-in encoder and given the true words on their signs, is
asked captions of its own, all different, so that no answer is kept from before. With --made-up the clips are made up
(`benchmarks/served_library.py`), for sizes that nobody wants to render, and each caption is asked with a word of
theirs.

`server` is `evenreel serve` with so many workers, asked over HTTP by as many clients as are named, each with one
connection, none of them pausing. Several servers are asked in turn, in rounds, each round with queries of its own: one
for each number of workers, and with --beside the server of another checkout, of the same videos indexed by its code.
Ratios are medians of those of the rounds. `in process` is `Library.search` called by as many threads of one process,
each with a library of its own over one model; `alone` is a single thread. Clients and servers share the machine's
cores, so that a server's figures hold the clients' work as well. Memory is what the server's processes have resident,
the mean over the second fifth of the queries, when what is kept for later ones has filled its bounds, and over the last
fifth, and what they hold for themselves alone at the end.
Exit status 1 if a request fails, the 95th percentile of the first server passes three times that in process, or its
memory grows by more than 5 %. With --work the libraries are kept there and used again.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import psutil

from benchmarks.made_up_library import made_up_words
from benchmarks.served_library import (
    add_signs,
    environment_of,
    library_of_checkout,
    make_library,
    make_up_library,
    planted,
)
from evenreel.encoders import load_encoder
from evenreel.library import open_library
from evenreel.planted.plan import PlantedCorpus
from evenreel.server.desk import SharedEncoder

__all__ = ["add_signs", "make_library"]

SLOWER, LARGER = 3.0, 1.05
"""Bounds of the 95th percentile over that in process, and of memory at the end over that at the beginning."""
K = 20
IDLE_S = 2.0
"""Seconds after which a connection is opened anew: servers close those that are idle."""
Ask = Callable[[str], int]


@dataclass
class Times:
    """Milliseconds of each query, in the order in which they were answered."""

    name: str
    ms: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def percentile(self, share: float) -> float:
        """Milliseconds that this share of the queries took at most."""
        return float(np.percentile(self.ms, share))

    @property
    def rate(self) -> float:
        return len(self.ms) / self.seconds


@dataclass
class Asked:
    """A server that is asked over HTTP, and what came of it."""

    name: str
    processes: list[psutil.Process]
    port: int
    api: str
    rounds: list[Times] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    own: threading.local = field(default_factory=threading.local)

    def ask(self, query: str) -> int:
        if not hasattr(self.own, "connection"):
            self.own.connection = http.client.HTTPConnection("127.0.0.1", self.port)
        elif time.monotonic() - self.own.answered > IDLE_S:  # another server was asked meanwhile
            self.own.connection.close()
        self.own.connection.request("GET", f"{self.api}/search?k={K}&q={quote(query)}")
        answer = self.own.connection.getresponse()
        body = answer.read()
        self.own.answered = time.monotonic()
        self.resident.append(sum(process.memory_info().rss for process in self.processes) / 2**20)
        if answer.status != 200:
            self.failures.append(f"{answer.status} {body[:200]!r}")
        return int(answer.status)

    @property
    def times(self) -> Times:
        ms = [one for times in self.rounds for one in times.ms]
        return Times(self.name, ms, sum(times.seconds for times in self.rounds))

    @property
    def memory(self) -> tuple[float, float, list[int]]:
        """MiB resident in the second fifth and in the last, and what each process holds alone."""
        _, first, _, _, last = np.array_split(self.resident, 5)
        alone = [process.memory_full_info().uss >> 20 for process in self.processes]
        return float(first.mean()), float(last.mean()), alone


def main() -> int:
    """The table; 1 if a bound is missed."""
    asked = arguments()
    plan = planted(2_000 if asked.made_up else asked.clips)
    queries = different(plan, asked.queries)
    if asked.made_up:
        words = np.random.default_rng(5).choice(made_up_words(), len(queries))
        queries = [f"{query} {word}" for query, word in zip(queries, words, strict=True)]
    with contextlib.ExitStack() as stack:
        work = asked.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        library = make_up_library(asked.clips, work) if asked.made_up else make_library(plan, work)
        few = queries[: max(asked.clients, asked.queries // 10)]
        alone = in_process(library, few, 1)
        together = in_process(library, few, asked.clients)
        servers = [
            stack.enter_context(serving(library, f"server, {workers} worker{'s' * (workers > 1)}", workers))
            for workers in asked.workers
        ]
        if asked.beside:
            other = library_of_checkout(asked.beside, asked.clips, work)
            servers.append(stack.enter_context(serving(other, "server beside", checkout=asked.beside)))
        in_rounds(servers, queries, asked.clients, asked.rounds)
        report = reported(servers, [replace(alone, name="in process, alone"), replace(together, name="in process")])
    print(json.dumps(report) if asked.json else "\n".join(lines(report)))
    return int(bool(report["failed"]) or report["slower"] > SLOWER or report["larger"] > LARGER)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=2_000)
    parser.add_argument("--made-up", action="store_true", help="clips that were never rendered")
    parser.add_argument("--queries", type=int, default=10_000, help="of each server")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--workers", type=int, nargs="+", default=[1], help="a server for each number")
    parser.add_argument("--beside", type=Path, help="checkout whose server is asked in turn with ours")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--work", type=Path, help="folder to keep videos and libraries in")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def different(plan: PlantedCorpus, count: int) -> list[str]:
    """So many captions of the corpus; where they run out, two of them together."""
    captions = sorted({sentence.text for clip in plan.clips for sentence in clip.shot.captions})
    generator = np.random.default_rng(0)
    found = dict.fromkeys(generator.permutation(captions).tolist())
    while len(found) < count:
        one, other = generator.choice(captions, 2, replace=False)
        found[f"{one} and {other}"] = None
    return generator.permutation(list(found)[:count]).tolist()


def in_process(library: Path, queries: Sequence[str], threads: int) -> Times:
    encoder = SharedEncoder(load_encoder("builtin"))
    own = threading.local()

    def ask(query: str) -> int:
        if not hasattr(own, "library"):
            own.library = open_library(library, encoder=encoder)
        return len(own.library.search(query, K).hits)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(ask, queries[:threads]))  # whatever is read or loaded once
        return timed("in process", ask, queries[threads:] or queries, pool)


def timed(name: str, ask: Ask, queries: Sequence[str], pool: ThreadPoolExecutor) -> Times:
    """How long each query takes, asked by the threads of a pool, which do not pause."""
    ms: list[float] = []

    def measure(query: str) -> None:
        began = time.perf_counter()
        ask(query)
        ms.append(1e3 * (time.perf_counter() - began))

    began = time.perf_counter()
    list(pool.map(measure, queries))
    return Times(name, ms, time.perf_counter() - began)


def in_rounds(servers: Sequence[Asked], queries: Sequence[str], clients: int, rounds: int) -> None:
    """Ask the servers in turn; the first queries of each are not counted."""
    with contextlib.ExitStack() as stack:
        pools = [stack.enter_context(ThreadPoolExecutor(clients)) for _ in servers]
        warm, counted = queries[: 2 * clients], queries[2 * clients :]
        for server, pool in zip(servers, pools, strict=True):
            list(pool.map(server.ask, warm))
            server.resident.clear()
        for number in range(rounds):
            for server, pool in zip(servers, pools, strict=True):
                server.rounds.append(timed(server.name, server.ask, counted[number::rounds], pool))


@contextlib.contextmanager
def serving(
    library: Path, name: str = "server", workers: int | None = None, checkout: Path | None = None
) -> Iterator[Asked]:
    """`evenreel serve` with its model loaded, of another checkout where one is named, which may know no workers."""
    command = [sys.executable, "-m", "evenreel", "serve", "--library", str(library), "--port", "0"]
    command += [] if workers is None else ["--workers", str(workers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment_of(checkout))
    try:
        said = process.stdout.readline() if process.stdout else ""
        found = re.search(r":(\d+)/", said)
        if found is None:
            raise RuntimeError(f"the server did not start: {said}")
        port = int(found[1])
        api = next(api for api in ("/api/v1", "/api") if health(port, api))  # of before there were versions
        while health(port, api) == "loading":
            time.sleep(0.1)
        server = psutil.Process(process.pid)
        yield Asked(name, [server, *(server.children() if workers and workers > 1 else [])], port, api)
    finally:
        process.terminate()
        process.wait()


def health(port: int, api: str) -> str:
    """State of the server's model; empty where this is not where its API is."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", f"{api}/health")
    answer: dict[str, str] = json.loads(connection.getresponse().read())
    connection.close()
    return answer.get("model", "")


def reported(servers: Sequence[Asked], others: Sequence[Times]) -> dict[str, Any]:
    """All figures; the first server is compared with the last of the others, each server with the last server."""
    memory = servers[0].memory
    return {
        "rows": [figures(times) for times in (*others, *(server.times for server in servers))],
        "ratios": [
            {
                "name": f"{server.name} / {servers[-1].name}",
                "rate": ratio(server, servers[-1], lambda times: times.rate),
                "p95": ratio(server, servers[-1], lambda times: times.percentile(95)),
            }
            for server in servers[:-1]
        ],
        "slower": servers[0].times.percentile(95) / others[-1].percentile(95),
        "larger": memory[1] / memory[0],
        "MiB": {server.name: server.memory for server in servers},
        "failed": [failure for server in servers for failure in server.failures],
    }


def ratio(one: Asked, other: Asked, figure: Callable[[Times], float]) -> list[float]:
    """Median, least and most of a figure of one server over that of another, by rounds."""
    ratios = [figure(a) / figure(b) for a, b in zip(one.rounds, other.rounds, strict=True)]
    return [float(np.median(ratios)), min(ratios), max(ratios)]


def figures(times: Times) -> dict[str, Any]:
    return {"name": times.name, "p50": times.percentile(50), "p95": times.percentile(95), "rate": times.rate}


def lines(report: dict[str, Any]) -> Iterator[str]:
    for row in report["rows"]:
        yield "{name:<20}p50 {p50:7.1f} ms   p95 {p95:7.1f} ms   {rate:7.1f} queries/s".format(**row)
    for one in report["ratios"]:
        told = (
            f"{name} {median:.2f} x ({low:.2f} to {high:.2f})"
            for name in ("rate", "p95")
            for median, low, high in [one[name]]
        )
        yield f"{one['name']}: {', '.join(told)}"
    yield f"p95 of the first server: {report['slower']:.2f} x that in process with as many threads (at most {SLOWER:g})"
    for name, (first, last, alone) in report["MiB"].items():
        yield f"{name}: {first:.0f} MiB in the second fifth, {last:.0f} in the last; its processes hold {alone} alone"
    yield f"memory of the first server grows {report['larger']:.3f} x (at most {LARGER:g})"
    yield f"{len(report['failed'])} requests failed{': ' + report['failed'][0] if report['failed'] else ''}"


if __name__ == "__main__":
    sys.exit(main())
