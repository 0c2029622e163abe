"""Nonsense is recognised, at the false-positive rate that the module states."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest

from evenreel.library.store.catalog import get_meta
from evenreel.library.store.vectors import (
    DEVIATION_FLOOR,
    FITS,
    MAY_FIT,
    above_nonsense,
    left_out_z,
    load_null_best,
    null_queries,
    update_null_scores,
)
from tests.library.fakes import Library, encode


@pytest.fixture
def library(tmp_path: Path) -> Library:
    made = Library(tmp_path)
    for number in range(6):
        made.add_clip(f"c{number}", [f"thing{number} place{shot}" for shot in range(number + 1)])
    return made


def update(library: Library) -> None:
    update_null_scores(library.connection, library.vectors, library.encoder)


def null_table(library: Library) -> dict[str, tuple[float, float]]:
    rows = library.connection.execute("SELECT clip_id, mean, deviation FROM null_scores")
    return {clip_id: (mean, deviation) for clip_id, mean, deviation in rows}


def slow_z(library: Library, captions: list[str], clip_id: str) -> list[float]:
    """z of each caption among the others, the plain way."""
    first, count = library.connection.execute(
        "SELECT first_row, count FROM vector_rows WHERE clip_id = ?", (clip_id,)
    ).fetchone()
    scores = []
    for caption in captions:
        vector = encode(caption).astype(np.float16).astype(np.float32)
        scores.append(max(library.vectors.frame_scores(vector, first, count).tolist()))
    found = []
    for number, score in enumerate(scores):
        others = scores[:number] + scores[number + 1 :]
        deviation = max(statistics.pstdev(others), DEVIATION_FLOOR)
        found.append((score - statistics.fmean(others)) / deviation)
    return found


def test_the_bank_holds_two_hundred_different_queries() -> None:
    bank = null_queries()
    assert len(bank) == len(set(bank)) == 200
    assert all(query == query.strip() and query for query in bank)


def test_yardstick_equals_a_slow_leave_one_out_loop(library: Library) -> None:
    update(library)
    bank = list(null_queries())
    per_clip = [slow_z(library, bank, f"c{number}") for number in range(6)]
    expected = sorted(max(column) for column in zip(*per_clip, strict=True))
    np.testing.assert_allclose(load_null_best(get_meta(library.connection)), expected, rtol=1e-3)


def test_a_clip_that_is_added_costs_itself_only_and_ends_as_from_scratch(library: Library, tmp_path: Path) -> None:
    update(library)
    encoded = library.encoder.captions_encoded
    library.add_clip("new", ["billion things", "a silence"])
    update(library)
    assert library.encoder.captions_encoded == encoded, "the bank is encoded once a library"
    grown, table = load_null_best(get_meta(library.connection)), null_table(library)
    library.connection.execute("DELETE FROM null_scores")
    update(library)
    np.testing.assert_allclose(load_null_best(get_meta(library.connection)), grown, rtol=1e-5)
    fresh = null_table(library)
    assert fresh.keys() == table.keys()
    for clip_id, numbers in table.items():
        assert fresh[clip_id] == pytest.approx(numbers, abs=1e-6)


@pytest.mark.parametrize("with_null_row", [True, False])
def test_a_clip_that_is_removed_no_longer_counts(library: Library, with_null_row: bool) -> None:
    update(library)
    before = load_null_best(get_meta(library.connection))
    library.add_clip("like the bank", [" ".join(null_queries()[7:9])])
    update(library)
    assert not np.array_equal(load_null_best(get_meta(library.connection)), before)
    library.connection.execute("DELETE FROM clips WHERE clip_id = 'like the bank'")
    if not with_null_row:
        library.connection.execute("DELETE FROM null_scores WHERE clip_id = 'like the bank'")
    update(library)
    np.testing.assert_allclose(load_null_best(get_meta(library.connection)), before, rtol=1e-5)


def test_another_encoder_measures_everything_anew(library: Library) -> None:
    update(library)
    library.encoder.weights_hash = "words-2"
    encoded = library.encoder.captions_encoded
    library.connection.execute("UPDATE null_scores SET mean = 5")
    update(library)
    assert library.encoder.captions_encoded == encoded + 200
    assert all(mean < 1 for mean, _ in null_table(library).values())


def test_an_empty_library_has_no_yardstick(tmp_path: Path) -> None:
    library = Library(tmp_path)
    update(library)
    assert load_null_best(get_meta(library.connection)).shape == (0,)
    assert above_nonsense(np.array([3.0], np.float32), load_null_best(get_meta(library.connection))) == 0
    assert json.loads(library.connection.execute("SELECT value FROM meta WHERE key = 'null_best'").fetchone()[0]) == []


@pytest.mark.parametrize("clips", [1, 2, 5])
def test_a_small_library_has_finite_numbers(tmp_path: Path, clips: int) -> None:
    library = Library(tmp_path)
    for number in range(clips):
        library.add_clip(f"c{number}", ["the same frame"])
    update(library)
    assert np.isfinite(load_null_best(get_meta(library.connection))).all()
    assert all(deviation >= DEVIATION_FLOOR for _, deviation in null_table(library).values())


def test_scores_without_spread_give_finite_z() -> None:
    assert (left_out_z(np.full((5, 3), 0.2)) == 0).all()


def test_it_counts_what_lies_strictly_below() -> None:
    z = np.array([-1.0, 1.0, 1.5, 9.0], np.float32)
    assert above_nonsense(z, np.array([0.0, 1.0, 1.0, 2.0], np.float32)).tolist() == [0.0, 0.25, 0.75, 1.0]


@pytest.mark.parametrize("share", [FITS, MAY_FIT])
def test_nonsense_passes_as_often_as_stated(share: float) -> None:
    """Hold half of the bank out at random: the other half must call it an answer at the stated rate."""
    random = np.random.default_rng(5)
    frames = random.standard_normal((300, 64))
    frames /= np.linalg.norm(frames, axis=1, keepdims=True)
    scores = np.stack([encode(query) for query in null_queries()]).astype(np.float64) @ frames.T
    passed, rounds, half = 0, 40, len(scores) // 2
    for _ in range(rounds):
        order = random.permutation(len(scores))
        bank, fresh = scores[order[:half]], scores[order[half:]]
        yardstick = np.sort(left_out_z(bank).max(1)).astype(np.float32)
        z = ((fresh - bank.mean(0)) / np.maximum(bank.std(0), DEVIATION_FLOOR)).max(1)
        passed += int((above_nonsense(z.astype(np.float32), yardstick) >= share).sum())
    stated = (1 + half - math.ceil(share * half)) / (1 + half)
    # The splits overlap, so the interval is that of the 200 queries, not that of the 4,000 trials.
    tolerance = 1.96 * math.sqrt(stated * (1 - stated) / len(scores))
    assert passed / (rounds * half) == pytest.approx(stated, abs=tolerance)
