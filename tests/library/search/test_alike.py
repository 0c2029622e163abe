"""Takes of one clip in a result and clips unlike the rest: distances and traversal against slow loops, what folds, and
what a fold never loses."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from evenreel.errors import UsageError
from evenreel.library import open_library
from evenreel.library.search import alike
from evenreel.library.search.alike import (
    ALIKE,
    FEWEST,
    MOST_ASKED,
    NEIGHBOURS,
    OF_ANY_TWO,
    SAME_FILM,
    ClipStretch,
    UnlikeClips,
    align,
    distance,
    farthest_first,
    fold_takes,
    measure_farthest,
    search_folded,
)
from evenreel.library.search.result import Hit, MomentHit, SearchResult
from evenreel.library.search.searcher import Searcher
from evenreel.library.store.catalog import open_for_writing
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.types import FloatArray
from tests.library.fakes import Library, encode, finish, on_disk

LENGTHS = st.integers(1, 9)


def clip(rows: FloatArray, best: int | None = None) -> ClipStretch:
    return ClipStretch(rows / np.linalg.norm(rows, axis=1, keepdims=True), best)


def clips(data: st.DataObject, count: int) -> ClipStretch:
    numbers = st.floats(-1, 1, width=16).filter(lambda number: abs(number) > 1e-2)
    return clip(data.draw(arrays(np.float32, (count, 4), elements=numbers)))


def slow(one: ClipStretch, other: ClipStretch) -> float:
    """The definition, moment by moment."""
    short, long = sorted((one.vectors, other.vectors), key=len)
    best = -np.inf
    for shift in range(len(long) - len(short) + 1):
        total = 0.0
        for at, vector in enumerate(short):
            near = [at + shift + step for step in (-1, 0, 1) if 0 <= at + shift + step < len(long)]
            total += max(float(vector @ long[place]) for place in near)
        best = max(best, total / len(short))
    return 1 - best


@given(data=st.data(), first=LENGTHS, second=LENGTHS)
def test_the_distance_is_that_of_its_definition(data: st.DataObject, first: int, second: int) -> None:
    one, other = clips(data, first), clips(data, second)
    assert distance(one, other) == pytest.approx(slow(one, other), abs=1e-5)
    if first != second:
        assert distance(one, other) == pytest.approx(distance(other, one), abs=1e-6)
    assert distance(one, one) == pytest.approx(0, abs=1e-5)


@given(data=st.data(), length=st.integers(2, 9))
def test_a_part_of_a_clip_is_no_distance_away(data: st.DataObject, length: int) -> None:
    whole = clips(data, length)
    start = data.draw(st.integers(0, length - 1))
    end = data.draw(st.integers(start + 1, length))
    assert distance(ClipStretch(whole.vectors[start:end], None), whole) == pytest.approx(0, abs=1e-5)


def test_a_long_film_found_for_another_part_is_no_take_of_an_excerpt() -> None:
    film = np.eye(12, dtype=np.float32)
    excerpt = clip(film[2:4])
    assert distance(excerpt, clip(film, best=3)) == pytest.approx(0)
    assert distance(excerpt, clip(film, best=9)) == float("inf")
    assert distance(excerpt, clip(film)) == pytest.approx(0)


def film(seed: int, count: int = 40) -> NDArray[Any]:
    """Shots of five moments that drift, (n, 16)."""
    rng = np.random.default_rng(seed)
    return np.asarray(np.repeat(rng.normal(size=(count // 5, 16)), 5, axis=0) + 0.3 * rng.normal(size=(count, 16)))


def timed(rows: NDArray[Any], first_s: float = 0.0, step_s: float = 1.0) -> ClipStretch:
    times_s = first_s + step_s * np.arange(len(rows), dtype=np.float64)
    return clip(np.asarray(rows, np.float32))._replace(times_s=times_s)


def correlation(one: ClipStretch, other: ClipStretch) -> float:
    found = align(one, other)
    return -1.0 if found is None else found.correlation


def test_the_same_film_is_told_by_how_it_changes() -> None:
    rng, rows = np.random.default_rng(9), film(1)
    whole = timed(rows)
    encoded = timed(rows + 0.1 * rng.normal(size=rows.shape))
    bordered = timed(rows + 2.0 * rng.normal(size=16))  # what a black border adds to every moment alike
    for other in (encoded, bordered):
        for one, two in ((whole, other), (other, whole)):
            found = align(one, two)
            assert found is not None and found.correlation >= SAME_FILM and found.starts_s == 0
    assert distance(whole, bordered) > 4 * distance(whole, encoded)
    assert all(correlation(whole, timed(film(seed))) < SAME_FILM / 2 for seed in range(2, 30))


def test_a_part_is_found_where_it_begins_between_two_moments_too() -> None:
    rows = film(3)
    between = (rows[:-1] + rows[1:]) / 2
    for part, start_s in ((timed(rows[12:22]), 12.0), (timed(between[12:22]), 12.5), (timed(rows[10:30:2], 4, 2), 6.0)):
        found, turned = align(part, timed(rows)), align(timed(rows), part)
        assert found is not None and turned is not None and min(found.correlation, turned.correlation) >= SAME_FILM
        assert found.starts_s == pytest.approx(start_s, abs=0.26) and turned.starts_s == pytest.approx(
            -start_s, abs=0.5
        )
    assert correlation(timed(rows[:18]), timed(rows[20:38])) < SAME_FILM
    assert align(timed(rows[: FEWEST - 1]), timed(rows)) is None
    for times_s in (np.zeros(40), np.append(np.arange(39.0), 2e6)):  # of damaged files
        assert correlation(timed(rows)._replace(times_s=times_s), timed(rows)) < SAME_FILM
    repeated = np.arange(40.0)
    repeated[7] = 6.0
    assert correlation(timed(rows), timed(rows)._replace(times_s=repeated)) > SAME_FILM


@given(seed=st.integers(0, 999), noise=st.sampled_from([0.0, 1e-3, 0.02, 0.1]))
def test_a_still_camera_tells_nothing(seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    scene = 10 * rng.normal(size=64)
    takes = [timed(scene + noise * rng.normal(size=(20, 64))) for _ in range(2)]
    assert distance(*takes) < 0.01 and correlation(*takes) < SAME_FILM


def test_a_hit_is_folded_with_the_reason(tmp_path: Path) -> None:
    made, lasting = Library(tmp_path), [f"shot{at // 4} place{at // 4} thing{at}" for at in range(40)]
    seen = {"film": lasting, "again": [f"{one} border" for one in lasting], "part": lasting[12:24]}
    seen |= {f"other{at}": [f"o{at}shot{at // 4} o{at}thing{one}" for one in range(8)] for at in range(6)}
    for clip_id, frames in seen.items():
        made.add_clip(clip_id, frames, duration_s=float(len(frames)))
        made.add_file(f"/v/{clip_id}.mp4", clip_id)
    searcher = finish(made)

    def kin(*order: str) -> list[tuple[str, str, float | None]]:
        moments = {one: MomentHit(2.5 if one == "part" else 14.5, 0.0, 1.0, 0.5) for one in order}
        hits = [
            Hit(one, f"/v/{one}.mp4", 1.0, False, None, 0.0, {}, (moments[one],), (), float(len(seen[one])))
            for one in order
        ]
        head = fold(searcher, SearchResult("thing", tuple(hits))).hits[0]
        return [(one.clip_id, one.reason, one.from_s) for one in head.folded]

    assert kin("film", "again", "part", "other1") == [("again", "same", None), ("part", "part", 12.0)]
    assert kin("part", "film", "other1") == [("film", "whole", 12.0)]
    with searcher.snapshot() as s:
        farthest = measure_farthest(s)
        stretches = {one.clip_id: alike._stretch_of(s, one) for one in result_of("film", "again").hits}
    assert farthest is not None and stretches["film"] and stretches["again"]
    assert distance(stretches["film"], stretches["again"]) > farthest.takes, "no take by distance alone"


@pytest.fixture
def takes(tmp_path: Path) -> Searcher:
    """Six different clips whose moments drift, and two takes of the first."""
    made = Library(tmp_path)
    seen = {
        f"c{number}": [f"thing{number} place{number} shape{number} step{number}{step}" for step in range(5)]
        for number in range(6)
    }
    seen["c0 cut"] = seen["c0"][1:4]
    seen["c0 again"] = [*seen["c0"][:4], "thing0 place0 shape0 another"]
    for clip_id, frames in seen.items():
        made.add_clip(clip_id, frames, duration_s=float(len(frames)))
        made.add_file(f"/v/{clip_id}.mp4", clip_id)
    return finish(made)


def result_of(*clip_ids: str) -> SearchResult:
    hits = [
        Hit(one, f"/v/{one}.mp4", 1.0, False, None, 0.0, {"seen": 0.5}, (MomentHit(1.5, 1.0, 2.0, 0.5),), (), 5.0)
        for one in clip_ids
    ]
    return SearchResult("thing", tuple(hits), len(hits))


def fold(searcher: Searcher, result: SearchResult) -> SearchResult:
    with searcher.snapshot() as s:
        return fold_takes(s, result)


def folded_ids(result: SearchResult) -> dict[str, list[str]]:
    return {hit.clip_id: [one.clip_id for one in hit.folded] for hit in result.hits}


def test_takes_fold_under_the_best_of_them_in_every_order(takes: Searcher) -> None:
    for order in itertools.permutations(("c0", "c0 cut", "c0 again", "c1")):
        found = fold(takes, result_of(*order))
        head, *under = (one for one in order if one != "c1")
        assert folded_ids(found) == {head: under, "c1": []}
        assert found.matches == 4


def test_nothing_is_lost_and_different_clips_stay(takes: Searcher) -> None:
    ids = ["c3", "c0", "c1", "c0 cut", "c2", "c5", "c0 again", "c4", "nobody"]
    found = fold(takes, result_of(*ids))
    heads, under = [hit.clip_id for hit in found.hits], [one.clip_id for hit in found.hits for one in hit.folded]
    assert heads == ["c3", "c0", "c1", "c2", "c5", "c4", "nobody"]
    assert under == ["c0 cut", "c0 again"]
    assert all(0 <= one.distance < 0.1 and one.time_s == 1.5 for hit in found.hits for one in hit.folded)


def test_clips_that_differ_in_what_is_written_are_no_takes(tmp_path: Path) -> None:
    made = Library(tmp_path)
    signs = {"ring": "RING ROAD", "again": "RLNG", "bell": "BELL", "bare": "", "other": "CAFE BELL TOWER"}
    for clip_id, sign in signs.items():
        made.add_clip(clip_id, [f"place{number}" for number in range(5)], duration_s=5.0)
        made.add_file(f"/v/{clip_id}.mp4", clip_id)
        if sign:
            made.add_track(clip_id, sign)
    made.add_clip("far", [f"elsewhere{number}" for number in range(5)], duration_s=5.0)
    found = fold(finish(made), result_of(*signs))
    assert folded_ids(found) == {"ring": ["again", "bare"], "bell": ["other"]}


def test_a_clip_with_damaged_moments_stands_by_itself(takes: Searcher) -> None:
    with takes.snapshot() as s:
        s.connection.execute("DELETE FROM moments WHERE clip_id = 'c0 cut' AND number = 1")
        found = fold_takes(s, result_of("c0", "c0 cut", "c0 again"))
    assert folded_ids(found) == {"c0": ["c0 again"], "c0 cut": []}


@pytest.mark.parametrize(("kept", "bound"), [(3, True), (16, False)])
def test_how_far_takes_may_be_is_measured_in_the_library(tmp_path: Path, kept: int, bound: bool) -> None:
    """Words that stay from moment to moment: few, so that clips drift far, or many."""
    made, frames = Library(tmp_path), []
    for number in range(6):
        still = " ".join(f"word{number}{place}" for place in range(kept))
        seen = [f"{still} step{number}{step}" for step in range(5)]
        made.add_clip(f"c{number}", seen)
        made.add_file(f"/v/{number}.mp4", f"c{number}")
        frames.append(np.stack([encode(one) for one in seen]))
    with finish(made).snapshot() as s:
        found = measure_farthest(s)
    steps = [1 - float(a @ b) for rows in frames for a, b in itertools.pairwise(rows)]
    half = [slow(clip(frames[at]), clip(frames[(at + 3) % 6])) for at in range(6)]
    usual, most = float(np.quantile(steps, NEIGHBOURS)), OF_ANY_TWO * float(np.median(half))
    assert (most < usual) == bound
    assert found == pytest.approx((min(usual, most), 3 * most), abs=2e-3)


def test_of_very_many_hits_the_first_ones_are_compared(takes: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.library.search.alike.MOST_COMPARED", 3)
    found = fold(takes, result_of("c0", "c0 cut", "c1", "c0 again", "c2"))
    assert folded_ids(found) == {"c0": ["c0 cut"], "c1": [], "c0 again": [], "c2": []}
    asked: list[int] = []

    def search(most: int) -> SearchResult:
        asked.append(most)
        return result_of(*["c0"] * most)

    search_folded(search, 2, lambda result: replace(result, hits=result.hits[:1]))
    search_folded(search, 5, lambda result: replace(result, hits=result.hits[:1]))
    assert asked == [2, 3, 5]


def test_a_library_without_pictures_or_with_one_clip_folds_nothing(tmp_path: Path) -> None:
    made = Library(tmp_path)
    made.add_clip("a", ["red bus"])
    made.add_clip("b")
    for name in "ab":
        made.add_file(f"/v/{name}.mp4", name)
    found = fold(finish(made), result_of("a", "b", "a"))
    assert folded_ids(found) == {"a": [], "b": []}


@given(found=st.integers(0, 40), k=st.integers(1, 12), alike=st.integers(1, 6))
def test_so_many_different_clips_as_asked_for_where_there_are(found: int, k: int, alike: int) -> None:
    """Every `alike` hits in order are takes of the first of them."""
    asked = []

    def search(most: int) -> SearchResult:
        asked.append(most)
        return result_of(*(f"c{number:02}" for number in range(min(most, found))))

    def fold(result: SearchResult) -> SearchResult:
        return replace(result, hits=result.hits[::alike])

    shown = search_folded(search, k, fold)
    assert max(asked) <= MOST_ASKED * k
    enough = min(-(-found // alike), -(-MOST_ASKED * k // alike), k)
    assert [hit.clip_id for hit in shown.hits] == [f"c{number * alike:02}" for number in range(enough)]


def slow_traversal(vectors: FloatArray, k: int) -> list[int]:
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
    wanted = slow_traversal(vectors, k)
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
        *("30", "31", "32", "bus", "dog")
    ]


def test_of_a_folder_or_what_passes_a_filter(library: Path) -> None:
    assert all(one < 20 for one in numbers(library, "/v/bus"))
    assert numbers(library, "/v/bu") == numbers(library, "/elsewhere") == []
    assert set(numbers(library, where="name like '3%'")) == {30, 31, 32}
    assert numbers(library, "/v/bus", where="name = '30.mp4'") == []


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
        clips = opened.highlights().clips
        assert clips and {clip.time_s for clip in clips} <= {0.5, 2.5}, "the most typical moment"
    open_for_writing(tmp_path / "words").close()
    with open_library(tmp_path / "words") as opened:  # no clip has pictures
        assert opened.highlights() == UnlikeClips((), 0, 0)
