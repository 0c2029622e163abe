from __future__ import annotations

import errno
import io
import math
import os
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import LibraryError
from evenreel.library.store import vectors as module
from evenreel.library.store.catalog import get_meta
from evenreel.library.store.vectors import (
    DEVIATION_FLOOR,
    FITS,
    HEADER_BYTES,
    MAY_FIT,
    ExactVectors,
    left_out_z,
    load_null_best,
    null_queries,
    update_null_scores,
    widened,
)
from evenreel.types import FloatArray
from tests.library.fakes import Library, encode

D = 8


def unit(rows: int, seed: int = 0, dimension: int = D) -> FloatArray:
    values = np.random.default_rng(seed).standard_normal((rows, dimension)).astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def half(vectors: FloatArray) -> FloatArray:
    return vectors.astype(np.float16).astype(np.float32)


def slow_best(queries: FloatArray, stored: FloatArray, first: np.ndarray, counts: np.ndarray) -> list[list[float]]:
    return [
        [max(float(np.dot(query, stored[row])) for row in range(f, f + c)) for f, c in zip(first, counts, strict=True)]
        for query in queries
    ]


@pytest.fixture
def store(tmp_path: Path) -> ExactVectors:
    return ExactVectors(tmp_path / "vectors.0.f16", D)


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    tile_rows=st.integers(1, 12),
    order=st.randoms(use_true_random=False),
    keep=st.data(),
    queries_at_once=st.integers(1, 11),
)
def test_best_per_clip_equals_a_slow_loop_for_any_tiling_order_and_subset(
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[int],
    tile_rows: int,
    order: object,
    keep: st.DataObject,
    queries_at_once: int,
) -> None:
    stored, queries = unit(sum(counts)), unit(queries_at_once, seed=1)
    index = ExactVectors(tmp_path_factory.mktemp("v") / "v.f16", D)
    index.append(stored)
    firsts = np.cumsum(counts) - counts
    chosen = keep.draw(st.lists(st.sampled_from(range(len(counts))), unique=True))
    picked = np.array(chosen, np.int64)
    first_rows, sizes = firsts[picked], np.array(counts)[picked]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TILE_ROWS", tile_rows)
        patch.setattr(module, "SCANNED_ROWS", tile_rows)
        best = index.best_per_clip(queries, first_rows, sizes)
    assert best.shape == (queries_at_once, len(chosen))
    if chosen:
        np.testing.assert_allclose(best, slow_best(queries, half(stored), first_rows, sizes), atol=1e-5)


def test_many_rows_are_scored_by_the_upper_half_of_a_query(
    store: ExactVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, query = unit(300), unit(1, 7)
    store.append(stored)
    exact = half(stored) @ query[0]
    rows, ones = np.arange(300), np.ones(300, np.int64)
    np.testing.assert_allclose(store.best_per_clip(query, rows, ones)[0], exact, atol=1e-6)
    monkeypatch.setattr(module, "EXACT_ROWS", 299)
    rounded = half(stored) @ query[0].astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(store.best_per_clip(query, rows, ones)[0], rounded, atol=1e-6)


def test_every_finite_float16_is_widened_exactly() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].reshape(-1, 1)
    np.testing.assert_array_equal(widened(finite), finite.astype(np.float32))


def test_rows_beyond_the_catalog_are_written_over(store: ExactVectors) -> None:
    assert store.append(unit(4)) == 0
    assert store.append(unit(3, 1)) == 4
    replacement = unit(2, 2)
    assert store.append(replacement, at_row=4) == 4
    np.testing.assert_allclose(store.frame_scores(replacement[0], 4, 2), half(replacement) @ replacement[0], atol=1e-5)


def test_half_a_row_left_by_a_crash_is_not_a_row(store: ExactVectors, tmp_path: Path) -> None:
    store.append(unit(2))
    with (tmp_path / "vectors.0.f16").open("ab") as file:
        file.write(b"\x00" * 5)
    assert store.rows == 2
    assert store.append(unit(1, 1)) == 2
    assert store.rows == 3


def test_the_first_append_begins_a_file_that_a_power_cut_left_zeroed(store: ExactVectors, tmp_path: Path) -> None:
    (tmp_path / "vectors.0.f16").write_bytes(b"\x00" * 500)
    store.append(unit(2), at_row=0)
    assert store.frame_scores(unit(2)[0], 0, 1)[0] == pytest.approx(1, abs=1e-3)


def test_an_old_reader_goes_on_and_sees_new_rows_when_it_asks_for_them(store: ExactVectors, tmp_path: Path) -> None:
    store.append(unit(2))
    reader = ExactVectors(tmp_path / "vectors.0.f16", D)
    before = reader.frame_scores(unit(2)[0], 0, 2)
    store.append(unit(3, 1))
    np.testing.assert_array_equal(reader.frame_scores(unit(2)[0], 0, 2), before)
    assert reader.frame_scores(unit(3, 1)[0], 2, 3)[0] == pytest.approx(1, abs=1e-3)


def test_a_file_cut_short_or_not_there_says_so_and_names_the_remedy(store: ExactVectors, tmp_path: Path) -> None:
    assert store.rows == 0
    with pytest.raises(LibraryError, match="holds 0 vectors"):
        store.frame_scores(unit(1)[0], 0, 1)
    store.append(unit(4))
    path = tmp_path / "vectors.0.f16"
    path.write_bytes(path.read_bytes()[: HEADER_BYTES + 3 * D * 2])
    with pytest.raises(LibraryError, match=r"holds 3 vectors but the catalog names 4; run `evenreel verify --repair`"):
        store.best_per_clip(unit(1), np.array([0]), np.array([4]))
    with pytest.raises(LibraryError, match="evenreel verify --repair"):
        store.append(unit(1), at_row=4)


def test_another_dimension_is_refused(store: ExactVectors, tmp_path: Path) -> None:
    store.append(unit(8))
    wrong = ExactVectors(tmp_path / "vectors.0.f16", D // 2)
    with pytest.raises(LibraryError, match="does not hold vectors of dimension 4"):
        wrong.frame_scores(unit(1, dimension=4)[0], 0, 1)
    with pytest.raises(LibraryError, match="does not hold vectors of dimension 4"):
        wrong.append(unit(1, dimension=4))
    with pytest.raises(LibraryError, match="do not fit a library of dimension 8"):
        store.append(unit(1, dimension=4))


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_a_vector_that_is_not_of_unit_length_is_never_stored(store: ExactVectors, value: float) -> None:
    bad = unit(3)
    bad[1] = value
    with pytest.raises(LibraryError, match="not of unit length"):
        store.append(bad)
    assert store.rows == 0


@pytest.mark.parametrize("damage", [b"\x00\x7e", b"\x00\xfe", b"\x00\x7c", b"\xff\x7b"])  # NaNs, infinite, 65504
def test_a_damaged_row_never_ranks_in_silence(store: ExactVectors, tmp_path: Path, damage: bytes) -> None:
    store.append(unit(4))
    path = tmp_path / "vectors.0.f16"
    content = bytearray(path.read_bytes())
    place = HEADER_BYTES + 2 * D * 2  # the first number of row 2
    content[place : place + 2] = damage
    path.write_bytes(content)
    with pytest.raises(LibraryError, match=r"not of unit length; run `evenreel verify --repair`"):
        store.best_per_clip(unit(1), np.array([0, 2]), np.array([2, 2]))


@pytest.mark.parametrize("before", [0, 3])
def test_an_append_that_fails_half_way_harms_no_row_and_is_written_over(
    store: ExactVectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    if before:
        store.append(unit(before), at_row=0)
    path = tmp_path / "vectors.0.f16"

    class Filling(io.FileIO):
        def write(self, content: bytes) -> int:  # type: ignore[override]
            if len(content) == HEADER_BYTES:
                return super().write(content)
            super().write(content[: len(content) // 2 + 3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(Path, "open", lambda _, mode: Filling(path, mode))
        with pytest.raises(OSError, match="No space left"):
            store.append(unit(5, 1), at_row=before)
    if before:
        np.testing.assert_array_equal(store.read(0, before), unit(before).astype(np.float16))
    assert store.append(unit(5, 1), at_row=before) == before
    again = ExactVectors(path, D)
    assert again.rows == before + 5
    np.testing.assert_array_equal(again.read(before, 5), unit(5, 1).astype(np.float16))


def test_appending_makes_the_rows_durable(store: ExactVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    store.append(unit(1))
    assert len(synced) == 2, "the new file and its folder"
    store.append(unit(1))
    assert len(synced) == 3


# Nonsense is recognised, at the false-positive rate that the module states -------------------------------------------


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


def test_a_slow_models_bank_is_encoded_once_for_all_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    banks: set[str] = set()

    def encoded(weights_hash: str) -> int:
        (folder := tmp_path / str(len(list(tmp_path.iterdir())))).mkdir()
        made = Library(folder)
        made.encoder.weights_hash = weights_hash
        made.add_clip("c", ["thing0 place0"])
        update(made)
        banks.add(get_meta(made.connection)["null_vectors"])
        return made.encoder.captions_encoded

    assert [encoded("quick"), encoded("quick")] == [200, 200] and not (tmp_path / "evenreel").exists()
    monkeypatch.setattr(module, "KEPT_FROM_S", 0.0)
    assert [encoded("slow"), encoded("slow"), encoded("another")] == [200, 0, 200]
    for damage in (lambda held: held[:-2] + b"\0\0", lambda held: held[:9], lambda held: b""):
        for kept in (tmp_path / "evenreel" / "nonsense").iterdir():
            kept.write_bytes(damage(kept.read_bytes()))
        assert [encoded("slow"), encoded("slow")] == [200, 0]
    monkeypatch.setattr(module, "null_queries", lambda: tuple(f"other {number}" for number in range(200)))
    assert encoded("slow") == 200 and len(banks) == 2


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


@pytest.mark.parametrize("clips", [0, 1, 2, 5])
def test_a_small_library_has_finite_numbers(tmp_path: Path, clips: int) -> None:
    library = Library(tmp_path)
    for number in range(clips):
        library.add_clip(f"c{number}", ["the same frame"])
    update(library)
    best = load_null_best(get_meta(library.connection))
    assert best.shape == (200 if clips else 0,)
    assert np.isfinite(best).all()
    assert all(deviation >= DEVIATION_FLOOR for _, deviation in null_table(library).values())


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
        passed += int((np.searchsorted(yardstick, z.astype(np.float32), "left") / half >= share).sum())
    stated = (1 + half - math.ceil(share * half)) / (1 + half)
    # The splits overlap, so the interval is that of the 200 queries, not that of the 4,000 trials.
    tolerance = 1.96 * math.sqrt(stated * (1 - stated) / len(scores))
    assert passed / (rounds * half) == pytest.approx(stated, abs=tolerance)
