"""Order, counts and paths of whole searches beside a slow and plain statement of the rules, and planted truth."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.channels import ORDERS, firsts, library_of, planted
from evenreel.library.search.query import Query
from evenreel.library.store.catalog import get_meta
from evenreel.library.store.vectors import FITS, MAY_FIT, load_null_best, null_queries
from tests.library.fakes import SUBJECTS, Library, encode, finish, word_hits

WORDS = ["red", "bus", "dog", "beach", "snow", "boat"]
FILTERS = {
    None: lambda path, metadata: True,
    "source = 'a'": lambda path, metadata: metadata.get("source") == "a",
    "number < 8 and path like '%1%'": lambda path, metadata: metadata.get("number", 99) < 8 and "1" in path,
    "duration_s > 5 and source = 'b'": lambda path, metadata: metadata.get("source") == "b",
}


def made(folder: Path, seed: int) -> tuple[Library, dict[str, list[str]], dict[str, tuple[str, dict[str, object]]]]:
    """A random library, the frames of its clips, and clip and metadata of each file that is there."""
    rng, library = random.Random(seed), Library(folder)
    seen: dict[str, list[str]] = {}
    files: dict[str, tuple[str, dict[str, object]]] = {}
    for number in range(rng.randint(1, 40)):
        clip = f"c{number}"
        seen[clip] = [rng.choice(SUBJECTS) for _ in range(rng.randint(0, 3))]
        library.add_clip(clip, seen[clip])
        for _ in range(rng.randint(0, 2)):
            library.add_track(clip, " ".join(rng.choices(WORDS, k=2)).upper())
        for copy in range(rng.randint(1, 2)):
            path, state = f"/v/{rng.choice('xyz')}/{rng.choice(WORDS)}_{number}_{copy}.mp4", rng.random() < 0.9
            metadata: dict[str, object] = {"source": rng.choice("ab"), "number": rng.randint(0, 12)}
            library.add_file(path, clip, metadata, "indexed" if state else "missing")
            if state:
                files[path] = clip, metadata
    return library, seen, files


@pytest.mark.parametrize("where", FILTERS)
@pytest.mark.parametrize("seed", range(8))
def test_a_search_is_what_the_rules_say(tmp_path: Path, seed: int, where: str | None) -> None:
    library, seen, files = made(tmp_path, seed)
    searcher, k = finish(library), 1 + seed % 4 * 3
    paths: dict[str, str] = {}
    for path in sorted(files):
        if FILTERS[where](path, files[path][1]):
            paths.setdefault(files[path][0], path)
    for text in ("red bus", "dog", "snow beach mountain", "violin"):
        found = searcher.search(Query(text, k=k, where=where))
        order, states = slow(library, seen, set(paths), paths, text)
        assert [hit.clip_id for hit in found.hits] == order[:k]
        assert [hit.path for hit in found.hits] == [paths[clip] for clip in order[:k]]
        assert found.matches == len(states) - states.count("nothing")


def slow(
    library: Library, seen: dict[str, list[str]], allowed: set[str], paths: dict[str, str], text: str
) -> tuple[list[str], list[str]]:
    fused, written, state = dict.fromkeys(allowed, 0.0), dict.fromkeys(allowed, 0.0), dict.fromkeys(allowed, "nothing")
    found_by_words: set[str] = set()
    for channel in ("on_screen", "about"):
        hits = word_hits(library.connection, channel, text, allowed)
        for hit in hits:
            rank = 1 + sum(other.score > hit.score for other in hits)
            fused[hit.clip_id] += max(0.0, 2 * hit.coverage - 1) / (60 + rank)
            written[hit.clip_id] = max(written[hit.clip_id], hit.coverage)
            found_by_words.add(hit.clip_id)
    z_best = load_null_best(get_meta(library.connection))
    scores = {clip: best(text, seen[clip]) for clip in allowed if seen[clip]}
    for clip, score in scores.items():
        fused[clip] += 1 / (60 + 1 + sum(other > score for other in scores.values()))
        nonsense = np.array([best(query, seen[clip], decimals=9) for query in null_queries()])
        z = (score - nonsense.mean()) / max(float(nonsense.std()), 1e-3)
        beaten = float((z_best < z).mean())
        state[clip] = "fits" if beaten >= FITS else "may_fit" if beaten >= MAY_FIT else "nothing"
    for clip in allowed:
        if written[clip] >= FITS:
            state[clip] = "fits"
        elif written[clip] >= 0.5 and state[clip] == "nothing":
            state[clip] = "may_fit"
    rows = [clip for clip in allowed if clip in found_by_words or clip in scores]
    levels = ("fits", "may_fit", "nothing")
    order = sorted(rows, key=lambda clip: (levels.index(state[clip]), -fused[clip], -written[clip], paths[clip]))
    return order, list(state.values())


def best(text: str, frames: list[str], decimals: int = 5) -> float:
    found = max(float(encode(text) @ encode(frame).astype(np.float16).astype(np.float32)) for frame in frames)
    return float(np.float32(round(found, decimals)))


CASES, DIFFERENT, NOISE = 100, 4_000, 1.0
ALONE = {"seen", "on_screen", "said"}


def test_what_one_channel_alone_knows_is_first_in_each_of_a_hundred_cases(tmp_path: Path) -> None:
    chance = random.Random(5)
    clips, cases = planted(CASES, DIFFERENT, chance)
    searcher = library_of(clips, tmp_path, NOISE, chance)
    first: Counter[str] = Counter()
    for query, clip, kind in cases:
        if kind in ALONE:
            first[kind] += int(searcher.search(Query(query, k=1)).hits[0].clip_id, 16) == clip
    assert first == dict.fromkeys(ALONE, CASES)


@pytest.mark.parametrize("seed", range(2))
def test_the_order_that_others_are_held_against_is_that_of_search(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    clips, cases = planted(8, 60, chance)  # few words, so that many stand on several clips
    searcher = library_of(clips, tmp_path, 3.0, chance)
    own = [100.0 * (int(searcher.search(Query(query, k=1)).hits[0].clip_id, 16) == clip) for query, clip, _ in cases]
    assert firsts(searcher, cases, ORDERS["today"]).tolist() == own
    assert any(firsts(searcher, cases, order).tolist() != own for order in ORDERS.values())
