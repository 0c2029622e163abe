"""NumPy files from outside: an array claims no more than its file has, and unpacks to no more than data does."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evenreel.corpus import array_files
from evenreel.corpus.array_files import ArrayArchive, load_array, map_array
from tests.bombs import archive, claiming, endless_zeros

arrays = hnp.arrays(
    st.sampled_from([np.float16, np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_, "<U5", "S3", ">f4"]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
)


def saved(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@given(arrays, arrays, st.booleans())
def test_arrays_are_read_as_numpy_reads_them(one: Any, other: Any, packed: bool) -> None:
    file = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(file, one=one, other=np.asfortranarray(other))
    with ArrayArchive(file) as read, np.load(file) as expected:
        assert list(read) == expected.files and len(read) == 2
        for name in read:
            np.testing.assert_array_equal(read[name], expected[name])
            assert (read[name].dtype, read[name].shape) == (expected[name].dtype, expected[name].shape)
            assert read[name].flags.writeable
        assert read.read_all().keys() == {"one", "other"}


def test_an_array_is_loaded_and_mapped(tmp_path: Path) -> None:
    expected = np.arange(12, dtype=np.float32).reshape(3, 4)
    (tmp_path / "a.npy").write_bytes(saved(expected))
    np.testing.assert_array_equal(load_array(tmp_path / "a.npy"), expected)
    np.testing.assert_array_equal(map_array(tmp_path / "a.npy"), expected)


CLAIMS = [
    (claiming((2**42,)), r"claims 4,398,046,511,104 of float32, 16\.0 TiB, and has"),
    (claiming((3, 4), held=bytes(47)), "claims 3 x 4 of float32, 48 bytes, and has 47 bytes"),
    (claiming((10**400, 10**400)), "claims 10,000,000"),
    (claiming((0, 10**12)), "claims"),
    (claiming((10**12, 0)), "claims"),
    (claiming((-1,)), "claims"),
    (claiming((10**12,), "<U0"), "claims"),
    (claiming((3,), "|O", pickle.dumps([1])), "Python objects"),
    (b"", "damaged, or no array"),
    (b"\x93NUMPY\x01\x00\xff\xff{", "damaged, or no array"),
    (b"\x93NUMPY\x09\x00" + bytes(200), "damaged, or no array"),
    (b"\x93NUMPY\x01\x00\xe8\x03" + b"(" * 1_000, "damaged, or no array"),
    (pickle.dumps([1]), "damaged, or no array"),
]


@pytest.mark.parametrize(("content", "words"), CLAIMS)
def test_what_claims_more_than_it_has_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    for read in (load_array, map_array):
        with pytest.raises(ValueError, match=words):
            read(tmp_path / "a.npy")
    with ArrayArchive(archive(tmp_path / "a.npz", a=content)) as packed, pytest.raises(ValueError, match=words):
        packed["a"]


def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_is(tmp_path: Path) -> None:
    endless_zeros(tmp_path / "a.npz", "a")
    with ArrayArchive(tmp_path / "a.npz") as read:
        assert "a" in read and "b" not in read
        for everything in (lambda: read["a"], read.read_all):
            with pytest.raises(
                ValueError, match=r"would unpack from .* KiB to 3\.0 GiB, at most .* without compression"
            ):
                everything()


def test_many_arrays_together_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_files, "ALWAYS_UNPACKED_BYTES", 10_000)
    monkeypatch.setattr(array_files, "MOST_TIMES_PACKED", 2)
    content = saved(np.zeros(1_000, np.float32))
    packed = archive(tmp_path / "a.npz", **{f"a{number}": content for number in range(20)})
    with ArrayArchive(packed) as read:
        assert read["a7"].shape == (1_000,)
        with pytest.raises(ValueError, match="the arrays would unpack"):
            read.read_all()


def test_more_arrays_than_may_be_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_files, "MAX_ARRAYS", 3)
    path = archive(tmp_path / "a.npz", **{f"a{number}": b"" for number in range(4)})
    with pytest.raises(ValueError, match="4 arrays, at most 3"):
        ArrayArchive(path)


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), max_size=4), st.integers(0, 2_000))
def test_a_damaged_archive_is_read_or_refused_with_a_reason(changes: list[tuple[int, int]], kept: int) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, ids=np.array(["a", "bc"]), values=np.arange(40, dtype=np.float32))
    damaged = bytearray(file.getvalue())
    for place, value in changes:
        damaged[place % len(damaged)] = value
    try:
        with ArrayArchive(io.BytesIO(bytes(damaged[: kept or None]))) as read:
            read.read_all()
    except ValueError as error:
        assert str(error)
