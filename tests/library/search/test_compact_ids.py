"""Ids of clips in little memory, and the checksums of many rows, against what Python's own types and zlib say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.library.search.compact_ids import ClipIds, PlaceOf, encoded_ids, joined_ids

ids = st.lists(st.text(st.sampled_from("ab0\u00e9"), min_size=1, max_size=12), unique=True, max_size=30)


@given(ids, ids, st.integers(0, 30))
def test_ids_are_found_where_they_stand(held: list[str], asked: list[str], cut: int) -> None:
    for found in (ClipIds(encoded_ids(held)), ClipIds(encoded_ids(held[:cut])).with_more(encoded_ids(held[cut:]))):
        assert list(found) == held == [found[place] for place in range(len(found))]
        expected = [held.index(clip_id) if clip_id in held else -1 for clip_id in asked]
        assert found.places(asked).tolist() == expected == [found.place(clip_id) for clip_id in asked]
        assert dict(PlaceOf(found)) == {clip_id: place for place, clip_id in enumerate(held)}
        assert [clip_id in PlaceOf(found) for clip_id in asked] == [clip_id in held for clip_id in asked]


def test_an_id_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two clips have one id"):
        ClipIds(encoded_ids(["a", "b", "a"]))


@given(ids)
def test_joined_ids_are_split(held: list[str]) -> None:
    assert joined_ids("\n".join(held) or None).tolist() == [clip_id.encode() for clip_id in held]


def test_ids_of_one_key_are_told_apart() -> None:
    held = ClipIds(encoded_ids(["a", "b", "c"]))
    held._keys[:] = held._keys[0]  # as if all had the first one's key
    found = [int(held.places([clip_id])[0]) for clip_id in "abc"]
    assert -1 in found
    assert all(place in {-1, "abc".index(clip_id)} for place, clip_id in zip(found, "abc", strict=True))
