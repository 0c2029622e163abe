"""Clips that words found are shown with exact scores, however far they are from the nearest by frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evenreel.library.search import answering, nearest, ranked_clips, searcher
from evenreel.library.search.hits import SearchResult
from evenreel.library.search.query import Query
from evenreel.library.search.searcher import Searcher
from evenreel.library.store.catalog import set_meta
from evenreel.library.store.confidence import update_null_scores
from evenreel.library.store.fulltext import rebuild_full_text
from tests.library.fakes import SUBJECTS, Library

CLIPS = 40


@pytest.fixture
def made(tmp_path: Path) -> Searcher:
    """A sign in every clip but the odd ones has the same words, so that frames alone order those clips."""
    library, chance = Library(tmp_path), np.random.default_rng(4)
    for number in range(CLIPS):
        library.add_clip(f"c{number}", [" ".join(chance.choice(SUBJECTS, 3)) for _ in range(2)])
        library.add_file(f"/v/{number:02}.mp4", f"c{number}")
        if number % 2 == 0:
            library.add_track(f"c{number}", "BOAT HARBOUR")
    rebuild_full_text(library.connection)
    set_meta(library.connection, {"weights_hash": library.encoder.weights_hash})
    update_null_scores(library.connection, library.vectors, library.encoder)
    return Searcher(library.connection, lambda _: library.vectors, lambda: library.encoder, tmp_path)


def shown(result: SearchResult) -> list[tuple[object, ...]]:
    return [(hit.clip_id, hit.scores, hit.above_nonsense, hit.weaker) for hit in result.hits]


@pytest.mark.parametrize("k", [1, 4, 9])
@pytest.mark.parametrize("text", ["boat harbour", "harbour", "boat dog"])
def test_what_is_shown_is_as_if_all_were_scored_exactly(
    made: Searcher, monkeypatch: pytest.MonkeyPatch, text: str, k: int
) -> None:
    monkeypatch.setattr(nearest, "EXACT_ROWS", 10**9)
    exact = made.search(Query(text, k=k))
    monkeypatch.setattr(nearest, "EXACT_ROWS", -1)
    for module, name, least in ((searcher, "NEAREST", 1), (answering, "SPARE", 2), (ranked_clips, "SPARE", 2)):
        monkeypatch.setattr(module, name, least)
    found = made.search(Query(text, k=k))
    assert shown(found) == shown(exact)
    assert found.matches == exact.matches
