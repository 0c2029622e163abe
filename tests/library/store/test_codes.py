"""The codes of the vectors: scans against exact scores and slow loops, and every way in which the file can go wrong."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import LibraryError
from evenreel.library.store import codes as module
from evenreel.library.store.codes import HEADER_BYTES, Codes
from evenreel.library.store.vectors import ExactVectors, codes_path
from evenreel.types import FloatArray

D = 24


def unit(rows: int, seed: int = 0, dimension: int = D, outlier: float = 0.0) -> FloatArray:
    values = np.random.default_rng(seed).standard_normal((rows, dimension)).astype(np.float32)
    values[:, 0] += outlier
    return values / np.linalg.norm(values, axis=1, keepdims=True)


@pytest.fixture
def store(tmp_path: Path) -> ExactVectors:
    return ExactVectors(tmp_path / "vectors.0.f16", D)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "vectors.0.i8"


def scanned(store: ExactVectors, rows: int) -> FloatArray:
    """What a scan says of each row as a clip of its own."""
    return store.scan(unit(3, 9), np.arange(rows), np.ones(rows, np.int64))


def exact(store: ExactVectors, rows: int) -> FloatArray:
    return store.best_per_clip(unit(3, 9), np.arange(rows), np.ones(rows, np.int64))


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    dimension=st.sampled_from([1, 3, 8, 24, 100, 512]),
    outlier=st.sampled_from([0.0, 2.0, 30.0]),
    rows_at_once=st.integers(1, 60),
    threads=st.sampled_from(["1", "2"]),
    number=st.integers(1, 6),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_a_scan_is_within_its_error_of_exact_scores_for_any_clips_and_order(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    counts: list[int],
    dimension: int,
    outlier: float,
    rows_at_once: int,
    threads: str,
    number: int,
    seed: int,
    data: st.DataObject,
) -> None:
    store = ExactVectors(tmp_path_factory.mktemp("c") / "vectors.0.f16", dimension)
    store.append(unit(sum(counts), seed, dimension, outlier))
    queries = unit(number, seed + 100, dimension, outlier) * np.float32(data.draw(st.sampled_from([1.0, 0.5])))
    chosen = np.array(data.draw(st.lists(st.sampled_from(range(len(counts))), unique=True)), np.int64)
    firsts = (np.cumsum(counts) - counts)[chosen]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_AT_ONCE", rows_at_once)
        patch.setattr("evenreel.config.usable_cores", lambda: 2)
        patch.setenv("OMP_NUM_THREADS", threads)
        found = store.scan(queries, firsts, np.array(counts)[chosen])
    wanted = store.best_per_clip(queries, firsts, np.array(counts)[chosen])
    assert found.shape == wanted.shape == (number, len(chosen))
    assert (np.abs(found - wanted) <= store.scan_error(queries)[:, None]).all()


def test_a_scan_is_the_slow_sum_of_products_of_codes(store: ExactVectors) -> None:
    rows, query = unit(5), unit(1, 7)
    store.append(rows)
    half = rows.astype(np.float16).astype(np.float64)
    expected = []
    asked = np.round(query[0] / (np.abs(query[0]).max() / 127))
    for row in half:
        code = np.round(row / (np.abs(row).max() / 127))
        expected.append(sum(a * b for a, b in zip(asked, code, strict=True)) * np.abs(row).max() / 127)
    found = store.scan(query, np.arange(5), np.ones(5, np.int64))[0]
    np.testing.assert_allclose(found, np.array(expected) * np.abs(query[0]).max() / 127, atol=1e-6)


def test_the_error_is_stated_and_not_far_from_what_it_is() -> None:
    """At 512 dimensions eight deviations are less than a hundredth, and errors come up to a half of them."""
    rows, queries = unit(3000, 1, 512), unit(20, 2, 512)
    coded, asked = (Codes(Path("none"), 512).encode(values.astype(np.float16)) for values in (rows, queries))
    near = (asked["code"].astype(float) * asked["scale"][:, None]) @ (coded["code"] * coded["scale"][:, None]).T
    off = np.abs(near - queries @ rows.T).max()
    bound = 8 * np.sqrt(2 * (0.2 / 127) ** 2 / 12)
    assert bound / 6 < off < bound < 0.01


def test_a_library_without_codes_is_scanned_exactly_and_the_next_append_makes_them(
    store: ExactVectors, file: Path
) -> None:
    store.append(unit(4))
    whole = file.read_bytes()
    file.unlink()
    old = ExactVectors(store._path, D)
    np.testing.assert_array_equal(scanned(old, 4), exact(old, 4))
    old.append(unit(2, 1), at_row=4)
    assert file.read_bytes().startswith(whole)
    assert old.has_codes(6)
    assert old.codes_agree(0, 6)


@pytest.mark.parametrize("damage", ["missing", "short", "half a row", "other version", "other dimension", "zeroed"])
def test_codes_that_cannot_be_used_are_not_scanned_and_are_made_anew(
    store: ExactVectors, file: Path, damage: str
) -> None:
    store.append(unit(6))
    whole = file.read_bytes()
    bad = {
        "short": whole[: HEADER_BYTES + 3 * (D + 4)],
        "half a row": whole[:-3],
        "other version": whole.replace(b"codes 1", b"codes 2", 1),
        "other dimension": whole.replace(b"int8 24", b"int8 12", 1),
        "zeroed": whole[:-40] + bytes(40),
    }
    file.unlink()
    if damage in bad:
        file.write_bytes(bad[damage])
    found = ExactVectors(store._path, D)
    assert not found.has_codes(6)
    np.testing.assert_array_equal(scanned(found, 6), exact(found, 6))
    assert found.complete_codes(6)
    assert not found.complete_codes(6)
    assert file.read_bytes() == whole
    assert np.abs(scanned(found, 6) - exact(found, 6)).max() > 0, "by codes from now on"


def test_a_flipped_bit_is_found_where_it_is(store: ExactVectors, file: Path) -> None:
    store.append(unit(6))
    content = bytearray(file.read_bytes())
    content[HEADER_BYTES + 2 * (D + 4) + 5] ^= 1
    file.write_bytes(content)
    found = ExactVectors(store._path, D)
    assert [found.codes_agree(row, 1) for row in range(6)] == [True, True, False, True, True, True]


def test_scales_that_make_a_vector_too_long_never_rank_in_silence(store: ExactVectors, file: Path) -> None:
    store.append(unit(4, outlier=-0.5))
    content = bytearray(file.read_bytes())
    content[HEADER_BYTES : HEADER_BYTES + D] = bytes([127]) * D
    content[HEADER_BYTES + D : HEADER_BYTES + D + 4] = np.float32(1 / 127).tobytes()
    file.write_bytes(content)
    ones = np.full((1, D), D**-0.5, np.float32)
    with pytest.raises(LibraryError, match=r"vectors.0.i8 holds codes of no vectors.*run `evenreel verify --repair`"):
        ExactVectors(store._path, D).scan(ones, np.array([0]), np.array([2]))


def test_rows_that_a_crash_left_are_written_over_in_both_files(store: ExactVectors, file: Path) -> None:
    store.append(unit(4), at_row=0)
    store.append(unit(3, 1), at_row=4)  # not in the catalog
    store.append(unit(2, 2), at_row=4)
    again = ExactVectors(store._path, D)
    assert again.codes_agree(0, 6)
    # Killed between the two files: the vectors are there, their codes are not.
    file.write_bytes(file.read_bytes()[: HEADER_BYTES + 4 * (D + 4)])
    again = ExactVectors(store._path, D)
    again.append(unit(2, 3), at_row=4)
    assert ExactVectors(store._path, D).codes_agree(0, 6)


def test_a_full_disk_between_vectors_and_codes_harms_no_row(
    store: ExactVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(unit(4), at_row=0)

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(Codes, "write", no_space)
        with pytest.raises(OSError, match="No space left"):
            store.append(unit(3, 1), at_row=4)
    assert store.codes_agree(0, 4)
    store.append(unit(2, 2), at_row=4)
    assert ExactVectors(store._path, D).codes_agree(0, 6)


def test_a_reader_goes_on_while_codes_are_made_anew_and_appended(store: ExactVectors, file: Path) -> None:
    store.append(unit(4))
    reader = ExactVectors(store._path, D)
    before = scanned(reader, 4)
    file.unlink()
    store.append(unit(3, 1))
    np.testing.assert_array_equal(scanned(reader, 4), before)
    np.testing.assert_allclose(scanned(reader, 7), exact(reader, 7), atol=0.05)
    assert reader.has_codes(7)


def test_a_full_disk_while_codes_are_made_anew_leaves_the_old_file(
    store: ExactVectors, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(unit(4))
    spoilt = file.read_bytes()[:-10]
    file.write_bytes(spoilt)
    with monkeypatch.context() as full:

        def no_space(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        full.setattr(os, "fsync", no_space)
        with pytest.raises(OSError, match="No space left"):
            ExactVectors(store._path, D).complete_codes(4)
    assert file.read_bytes() == spoilt
    assert sorted(path.name for path in file.parent.iterdir()) == ["vectors.0.f16", "vectors.0.i8"]


def test_codes_of_a_matrix_lie_beside_it() -> None:
    assert codes_path(Path("a/vectors.12.f16")) == Path("a/vectors.12.i8")
