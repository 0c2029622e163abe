"""Which channel answers, on a library whose truth is planted: what one channel alone knows is found first."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.channels import ORDERS, firsts, library_of, planted
from evenreel.library.search.query import Query

CASES, WORDS, NOISE = 100, 4_000, 1.0
ALONE = {"seen", "on_screen", "said"}


def test_what_one_channel_alone_knows_is_first_in_each_of_a_hundred_cases(tmp_path: Path) -> None:
    chance = random.Random(5)
    clips, cases = planted(CASES, WORDS, chance)
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
