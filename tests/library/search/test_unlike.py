"""Clips unlike the rest: farthest-first traversal against a slow loop, and every group once before any twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evenreel.errors import UsageError
from evenreel.library import open_library
from evenreel.library.search import alike
from evenreel.library.search.alike import ALIKE, UnlikeClips, farthest_first
from evenreel.library.store.catalog import open_for_writing
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.types import FloatArray
from tests.library.fakes import on_disk


def slow(vectors: FloatArray, k: int) -> list[int]:
    """Row after row, every distance anew."""
    mean = vectors.mean(axis=0)
    mean = mean / max(float(np.linalg.norm(mean)), 1e-6)
    away = [round(float(1 - row @ mean), 6) for row in vectors]
    chosen = [away.index(max(away))]
    while len(chosen) < min(k, len(vectors)):
        near = [min(round(float(1 - row @ vectors[one]), 6) for one in chosen) for row in vectors]
        if max(near) < ALIKE:
            break
        chosen.append(near.index(max(near)))
    return chosen


@given(
    rows=arrays(np.int8, st.tuples(st.integers(1, 12), st.just(3)), elements=st.integers(-2, 2)).filter(
        lambda found: bool(np.all(np.any(found, axis=1)))
    ),
    k=st.integers(1, 14),
)
def test_the_traversal_is_that_of_its_definition(rows: np.ndarray, k: int) -> None:
    vectors = rows.astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found, apart = farthest_first(vectors, k)
    assert len(set(found.tolist())) == len(found) == len(apart)
    assert all(one >= 0 for one in apart)
    assert apart[1:] == pytest.approx(sorted(apart[1:], reverse=True), abs=1e-6)  # float32 rounds
    wanted = slow(vectors, k)
    assert len(found) == len(wanted)
    for at in range(1, len(found)):  # ties may fall either way; the distances may not
        near = [min(1 - float(row @ vectors[one]) for one in found[:at]) for row in vectors]
        assert apart[at] == pytest.approx(max(near), abs=1e-5)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Twenty clips of a bus, ten of a dog, three that are there once, and one without pictures."""
    made = on_disk(tmp_path / "library")
    for number in range(34):
        name = f"{number:032x}"
        subject = (
            "red bus street" if number < 20 else "dog beach sand" if number < 30 else f"rare{number} alone{number}"
        )
        seen = () if number == 33 else [subject, f"{subject} {number}", subject]
        made.add_clip(name, seen, duration_s=3.0)
        made.add_file(f"/v/{'bus' if number < 20 else 'other'}/{number:02}.mp4", name)
    rebuild_full_text(made.connection)
    made.connection.close()
    return tmp_path / "library"


def numbers(library: Path, folder: str | None = None, k: int = 12, where: str | None = None) -> list[int]:
    with open_library(library) as opened:
        return [int(Path(clip.path).stem) for clip in opened.highlights(folder, k, where).clips]


def test_each_kind_is_shown_once_before_any_twice(library: Path) -> None:
    found = numbers(library, k=5)
    assert sorted("bus" if one < 20 else "dog" if one < 30 else str(one) for one in found) == [
        *("30", "31", "32", "bus", "dog"),
    ]


def test_of_a_folder_or_what_passes_a_filter(library: Path) -> None:
    assert all(one < 20 for one in numbers(library, "/v/bus"))
    assert numbers(library, "/v/bu") == numbers(library, "/elsewhere") == []
    assert set(numbers(library, where="name like '3%'")) == {30, 31, 32}
    assert numbers(library, "/v/bus", where="name = '30.mp4'") == []


def test_the_moment_is_the_most_typical_one(library: Path) -> None:
    with open_library(library) as opened:
        assert {clip.time_s for clip in opened.highlights().clips} <= {0.5, 2.5}


def test_of_very_many_clips_some_that_lie_evenly_are_compared(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "MOST_LOOKED_AT", 11)
    with open_library(library) as opened:
        found = opened.highlights(k=40)
    assert (found.compared, found.total) == (11, 33)
    assert len(found.clips) <= 11


def test_what_cannot_be_shown_is_said(library: Path, tmp_path: Path) -> None:
    with open_library(library) as opened:
        with pytest.raises(UsageError, match="ask for 1 or more"):
            opened.highlights(k=0)
        with pytest.raises(UsageError, match="no column"):
            opened.highlights(where="colour = 'red'")
    with open_library(library, vision=False) as opened:  # the model is not needed
        assert opened.highlights().clips
    open_for_writing(tmp_path / "words").close()
    with open_library(tmp_path / "words") as opened:  # no clip has pictures
        assert opened.highlights() == UnlikeClips((), 0, 0)
