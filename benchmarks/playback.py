"""Whether those who play and those who search leave each other room on one server.

    python -m benchmarks.playback [--players 100] [--searchers 100] [--seconds 10] [--clips 50] [--work FOLDER] [--json]

A library of planted clips, padded to 2 MiB each, is served by `evenreel serve` in a process of its own. Players ask for
ranges of 256 KiB at random places of random clips, searchers captions, all different; each has one connection and never
pauses, and whoever is refused comes back after a tenth of a second. Clients and server share the machine's cores. A row
is one mixture of the two for so many seconds: how many requests of each kind were answered a second, the share that was
refused (503), and how long the others took. Exit status 1 if a request fails, or if one is refused to players, or to
those who search while others play.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import numpy as np

from benchmarks.serve import different, serving
from evenreel.config import IndexSettings
from evenreel.library import index_folders, open_library
from evenreel.library.store.catalog import CATALOG
from evenreel.planted import plan_corpus, write_corpus
from evenreel.planted.plan import PlantedCorpus

RANGE_BYTES = 256 * 2**10
CLIP_BYTES = 2 * 2**20
BUSY = 503
COMES_BACK_S = 0.1
FEW = 4
"""Of the kind that is not the crowd."""


@dataclass
class Kind:
    """What one kind of client was answered."""

    statuses: Counter[int] = field(default_factory=Counter)
    ms: list[float] = field(default_factory=list)

    def row(self, clients: int, seconds: float) -> dict[str, float]:
        """Number of clients, answers a second, the share that was refused, and milliseconds of the others."""
        asked = max(1, self.statuses.total())
        failed = sum(count for status, count in self.statuses.items() if status not in {200, 206, BUSY})
        p50, p95 = np.percentile(self.ms or [float("nan")], [50, 95])
        return {
            "clients": clients,
            "rate": len(self.ms) / seconds,
            "refused": self.statuses[BUSY] / asked,
            "failed": failed / asked,
            "p50": float(p50),
            "p95": float(p95),
        }


def main() -> int:
    """The table; 1 where one kind keeps the other out."""
    asked = arguments()
    plan = plan_corpus("scene_text", 0.9, clips=asked.clips)
    queries = itertools.cycle(different(plan, 5_000))
    rows: dict[str, dict[str, dict[str, float]]] = {}
    with contextlib.ExitStack() as stack:
        work = asked.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = _library(plan, work)
        with open_library(place, vision=False) as library:
            clips = [file.clip_id for file in library.files("indexed", limit=asked.clips).files]
        port = stack.enter_context(serving(place)).port
        for players, searchers in (
            (FEW, 0),
            (asked.players, 0),
            (asked.players, FEW),
            (0, FEW),
            (FEW, asked.searchers),
        ):
            ranges = _ranges([clip for clip in clips if clip], random.Random(0))
            rows[f"{players} players, {searchers} searchers"] = asyncio.run(
                mixture(port, players * [ranges], searchers * [_searches(queries)], asked.seconds)
            )
    if asked.json:
        print(json.dumps(rows))
    else:
        for name, kinds in rows.items():
            for kind, row in kinds.items():
                told = (
                    "{rate:8.1f}/s  refused {refused:6.1%}  failed {failed:6.1%}  p50 {p50:7.1f} ms  p95 {p95:7.1f} ms"
                )
                print(f"{name:<32}{kind:<10}{told.format(**row)}")
    return int(any(_is_bad(*each) for kinds in rows.values() for each in kinds.items()))


def _is_bad(kind: str, row: dict[str, float]) -> bool:
    """Whether requests failed or were refused; a crowd of searchers may be told to wait."""
    return row["failed"] > 0 or (row["refused"] > 0 and (kind == "ranges" or row["clients"] <= FEW))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--players", type=int, default=100)
    parser.add_argument("--searchers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clips", type=int, default=50)
    parser.add_argument("--work", type=Path, help="folder to keep videos and library in")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _library(plan: PlantedCorpus, work: Path) -> Path:
    library, videos = work / "library", work / "videos"
    if not (library / CATALOG).exists():
        write_corpus(plan, videos)
        for video in (videos / "clips").iterdir():
            with video.open("ab") as file:  # a box that players pass over (ISO/IEC 14496-12, 8.1.2)
                size = CLIP_BYTES - file.tell()
                file.write(size.to_bytes(4, "big") + b"free" + bytes(size - 8))
        index_folders([videos / "clips"], library, IndexSettings(model="builtin", read_text=False))
    return library


def _ranges(clips: list[str], generator: random.Random) -> Iterator[str]:
    while True:
        first = generator.randrange(CLIP_BYTES - RANGE_BYTES)
        path = f"/api/v1/clips/{generator.choice(clips)}/media"
        yield f"GET {path} HTTP/1.1\r\nHost: localhost\r\nRange: bytes={first}-{first + RANGE_BYTES - 1}\r\n\r\n"


def _searches(queries: Iterator[str]) -> Iterator[str]:
    for query in queries:
        yield f"GET /api/v1/search?q={quote(query)} HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def mixture(
    port: int, players: list[Iterator[str]], searchers: list[Iterator[str]], seconds: float
) -> dict[str, dict[str, float]]:
    """Rows of both kinds, together on the server for so long."""
    kinds = {"ranges": (Kind(), players), "searches": (Kind(), searchers)}
    until = time.monotonic() + seconds
    await asyncio.gather(
        *(_client(port, requests, kind, until) for kind, clients in kinds.values() for requests in clients)
    )
    return {name: kind.row(len(clients), seconds) for name, (kind, clients) in kinds.items() if clients}


async def _client(port: int, requests: Iterator[str], kind: Kind, until: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    while time.monotonic() < until:
        began = time.perf_counter()
        writer.write(next(requests).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        await reader.readexactly(length)
        status = int(head.split()[1])
        kind.statuses[status] += 1
        if status == BUSY:
            await asyncio.sleep(COMES_BACK_S)
        else:
            kind.ms.append(1e3 * (time.perf_counter() - began))
    writer.close()


if __name__ == "__main__":
    sys.exit(main())
