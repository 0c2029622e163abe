"""How often 'A, then B' puts the clip with that order first, and how long it takes.

    python -m benchmarks.asking.order [--pairs 200] [--half report]

Clips are put together from rendered scenes of a coloured shape in a place, a frame a second, encoded with the built-in
model. Each pair of scenes has a clip of A and then B, one of B and then A, one of A alone and one of B, with other
scenes before, between and behind at random; 20 pairs and 100 clips of two other scenes are a library. A pair counts
where a search for each of its scenes finds one of its own clips first. Times are of whole searches, the texts encoded
before; `two queries` are those for A and for B, one after the other. Status 1 where less than 95 % are first, or the
median takes more than twice as long as two queries.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.asking.pool import (
    HALVES,
    Half,
    Pool,
    RememberingEncoder,
    ScenePool,
    interval,
    library_of,
    pool_of,
    scene_in_words,
)
from evenreel.encoders import load_encoder
from evenreel.library.search.asking import Then, search_in_order
from evenreel.library.search.query import Query
from evenreel.library.search.result import SearchResult
from evenreel.library.search.searcher import Searcher
from evenreel.types import Encoder

PAIRS_EACH, OTHERS, K = 20, 100, 10
GOAL, MOST_TIME = 0.95, 2.0

SceneKind = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MadeLibrary:
    """Clips of pairs of scenes: the number of its pair, -1 for none, and what each shows."""

    clips: Pool
    pairs: Sequence[tuple[SceneKind, SceneKind]]
    pair_of: Sequence[int]
    shows: Sequence[str]


def made(pool: ScenePool, rng: np.random.Generator) -> MadeLibrary:
    """Clips of pairs whose scenes have nothing in common, and others."""
    of_kind: dict[SceneKind, list[int]] = {}
    for clip, shown in enumerate(pool.shown.tolist()):
        of_kind.setdefault(tuple(shown), []).append(clip)
    kinds, pairs = list(of_kind), list[tuple[SceneKind, SceneKind]]()
    while len(pairs) < PAIRS_EACH:
        one, other = (kinds[int(at)] for at in rng.integers(len(kinds), size=2))
        if all(ours != theirs for ours, theirs in zip(one, other, strict=True)):
            pairs.append((one, other))
    clips, pair_of, shows = [], [], []
    for number, (one, other) in enumerate(pairs):
        ours, theirs = rng.permutation(of_kind[one]), rng.permutation(of_kind[other])
        for name, scenes in (
            ("A then B", (ours[0], theirs[0])),
            ("B then A", (theirs[1], ours[1])),
            ("A", (ours[2],)),
            ("B", (theirs[2],)),
        ):
            clips.append(_with_others(pool, scenes, rng))
            pair_of.append(number)
            shows.append(name)
    for _ in range(OTHERS):
        clips.append(np.concatenate([pool.frames(int(at)) for at in rng.integers(len(pool.counts), size=2)]))
    counts = np.array([len(one) for one in clips])
    vectors = np.concatenate(clips).astype(np.float16)
    held = Pool(vectors, np.cumsum(counts) - counts, counts, np.zeros((len(counts), 3), np.int64))
    return MadeLibrary(held, pairs, pair_of + [-1] * OTHERS, shows + ["other"] * OTHERS)


def _with_others(pool: ScenePool, scenes: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Frames of scenes one after another, with another one before, between and behind, each in half of the cases."""
    parts = []
    for scene in (*scenes, None):
        if rng.random() < 0.5:
            parts.append(pool.frames(int(rng.integers(len(pool.counts)))))
        parts += [] if scene is None else [pool.frames(int(scene))]
    return np.concatenate(parts)


def timed(search: Callable[[], SearchResult]) -> tuple[SearchResult, float]:
    began = time.perf_counter()
    found = search()
    return found, 1e3 * (time.perf_counter() - began)


def asked(library: MadeLibrary, searcher: Searcher, figures: dict[str, list[float]]) -> None:
    for number, scenes in enumerate(library.pairs):
        texts = [scene_in_words(scene) for scene in scenes]
        then, queries = Then(texts[0], texts[1]), [Query(text, k=K) for text in texts]
        singles = [timed(partial(searcher.search, query)) for query in queries]
        found, took_ms = timed(partial(search_in_order, searcher, then, queries))
        figures["two queries, ms"].append(sum(each for _, each in singles))
        figures["then, ms"].append(took_ms)
        firsts = [int(one.hits[0].clip_id) for one, _ in singles]
        if all(
            library.pair_of[clip] == number and name in library.shows[clip]
            for clip, name in zip(firsts, "AB", strict=True)
        ):
            first = int(found.hits[0].clip_id)
            right = library.pair_of[first] == number and library.shows[first] == "A then B"
            figures["first"].append(float(right))
            figures["first and said to answer"].append(float(right and found.answering > 0))
            wrong = [hit.weaker for hit in found.hits if library.pair_of[int(hit.clip_id)] == number][1:]
            figures["other clips of the pair said to answer"].append(float(any(not weaker for weaker in wrong)))


def measured(half: Half, pairs: int, encoder: Encoder) -> dict[str, list[float]]:
    """Ask libraries until so many pairs are found by their single scenes."""
    pool = pool_of("alone", half)
    names = ("two queries, ms", "then, ms", "first", "first and said to answer")
    figures: dict[str, list[float]] = {name: [] for name in (*names, "other clips of the pair said to answer")}
    number = 0
    while len(figures["first"]) < pairs:
        library = made(pool, np.random.default_rng([77, HALVES.index(half), number]))
        with tempfile.TemporaryDirectory() as folder:
            searcher = library_of(library.clips, range(len(library.clips.counts)), Path(folder), encoder)
            asked(library, searcher, {name: [] for name in figures})  # encodes and reads what later searches keep
            asked(library, searcher, figures)
        number += 1
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--half", choices=HALVES, default="report")
    given = parser.parse_args()
    encoder = RememberingEncoder(load_encoder("builtin", device="cpu"))
    figures = measured(given.half, given.pairs, encoder)
    asked_for, found = len(figures["then, ms"]), len(figures["first"])
    print(f"{asked_for} pairs asked, of which {found} are found by their single scenes")
    for name in ("first", "first and said to answer", "other clips of the pair said to answer"):
        print(f"{name}: {interval(figures[name])}")
    two, then = (float(np.median(figures[name])) for name in ("two queries, ms", "then, ms"))
    print(f"median time: two queries {two:.1f} ms, then {then:.1f} ms, {then / two:.2f} times as long")
    return int(float(np.mean(figures["first"])) < GOAL or then > MOST_TIME * two)


if __name__ == "__main__":
    sys.exit(main())
