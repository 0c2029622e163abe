"""Examples marked right and wrong, pictures with words, and 'without'."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import evenreel
from evenreel.errors import NotFoundError, UsageError
from evenreel.library import Library, Mark, Marked
from evenreel.library.search.asking import MOST_MARKS, PICTURE_WEIGHT, SHARE, RocchioWeights, moved, read_mark
from evenreel.library.search.query import ClipMoment
from evenreel.types import FloatArray, Pixels
from tests.library.fakes import WordsEncoder, encode, finish, on_disk, paths

CLIPS = {
    "night bus": ["red bus night", "red bus night"],
    "day bus": ["red bus day"],
    "night dog": ["dog night"],
    "day dog": ["dog day", "snow mountain"],
    "other bus": ["blue bus night"],
}


class SeesADayBus(WordsEncoder):
    """To which every picture is a red bus by day."""

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        return encode("red bus day")[None]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    made = on_disk(folder)
    for clip_id, seen in CLIPS.items():
        made.add_clip(clip_id, seen)
        made.add_file(f"/v/{clip_id}.mp4", clip_id)
    made.add_clip("words only")
    made.add_file("/v/words.mp4", "words only")
    finish(made)
    made.connection.close()
    return folder


@pytest.fixture
def library(place: Path) -> Iterator[Library]:
    with evenreel.open_library(place, encoder=SeesADayBus()) as opened:
        yield opened


def test_the_query_is_moved_by_the_formula() -> None:
    weights, (q, good, better, bad) = RocchioWeights(), (encode(text) for text in ("bus", "red", "night", "dog"))
    expected = [
        weights.alpha * q[at] + weights.beta * (good[at] + better[at]) / 2 - weights.gamma * bad[at]
        for at in range(len(q))
    ]
    found = moved(q, [good, better], [bad])
    np.testing.assert_allclose(found, np.array(expected) / np.linalg.norm(expected), atol=1e-6)
    np.testing.assert_allclose(moved(None, [good], []), good, atol=1e-6)


def test_marks_move_what_is_found_and_undoing_takes_it_back(library: Library) -> None:
    plain = paths(library.search("bus"))
    asked = Marked("bus").marked("/v/night dog.mp4", 0.5).marked("day bus", right=False)
    found = library.search(asked)
    places = paths(found)
    assert places.index("/v/night bus.mp4") < places.index("/v/day dog.mp4")
    assert "/v/day bus.mp4" not in places
    assert "/v/night dog.mp4" in places
    assert {hit.above_nonsense for hit in found.hits} == {None}
    assert "examples" in found.notices[-1]
    assert "/v/day bus.mp4" in paths(library.search(asked.undone()))
    assert paths(library.search(asked.undone().undone())) == plain


def test_a_clip_that_is_marked_anew_has_its_last_mark() -> None:
    asked = Marked("bus").marked("a").marked("b").marked("a", right=False)
    assert asked.marks == (Mark(ClipMoment("b", None), True), Mark(ClipMoment("a", None), False))


def test_examples_alone_find_what_is_like_them(library: Library) -> None:
    found = library.search(Marked("", (Mark(ClipMoment("night bus", None), True),)), k=3)
    assert paths(found)[0] == "/v/night bus.mp4"
    assert {*paths(found)[1:]} == {"/v/day bus.mp4", "/v/other bus.mp4"}


def test_marks_that_cannot_be_are_refused(library: Library) -> None:
    """Hazard 162."""
    with pytest.raises(NotFoundError):
        library.search(Marked("bus").marked("nowhere.mp4"))
    with pytest.raises(UsageError, match="not encoded"):
        library.search(Marked("bus").marked("words only"))
    with pytest.raises(UsageError, match="leave one of the two out"):
        library.search(Marked("bus then dog").marked("day bus"))
    with pytest.raises(UsageError, match="mark a clip that is right"):
        Marked("", (Mark(ClipMoment("day bus", None), False),))
    with pytest.raises(UsageError, match=f"mark {MOST_MARKS} at most"):
        Marked("bus", tuple(Mark(ClipMoment(str(number), None), True) for number in range(MOST_MARKS + 1)))
    with pytest.raises(UsageError, match="names no clip"):
        read_mark("@12", right=True)


@pytest.mark.parametrize(
    ("text", "clip", "time_s"),
    [
        ("walk.mp4", "walk.mp4", None),
        ("walk.mp4@12.5", "walk.mp4", 12.5),
        ("walk.mp4@1:00:05", "walk.mp4", 3605.0),
        ("me@home.mp4", "me@home.mp4", None),
        ("me@home.mp4@3", "me@home.mp4", 3.0),
        ("walk.mp4@-3", "walk.mp4@-3", None),
        ("walk.mp4@nan", "walk.mp4@nan", None),
    ],
)
def test_a_mark_is_a_clip_and_a_time(text: str, clip: str, time_s: float | None) -> None:
    assert read_mark(text, right=True).moment == ClipMoment(clip, time_s)


def test_words_beside_a_picture_change_what_is_found(library: Library) -> None:
    pixels = np.zeros((4, 4, 3), np.uint8)
    assert paths(library.search_image(pixels))[0] == "/v/day bus.mp4"
    found = library.search_image(pixels, words="night")
    assert paths(found)[0] == "/v/night bus.mp4"
    both = PICTURE_WEIGHT * encode("red bus day") + (1 - PICTURE_WEIGHT) * encode("night")
    expected = encode("red bus night") @ both / np.linalg.norm(both)
    assert found.hits[0].scores["seen"] == pytest.approx(expected, abs=1e-3)


def test_words_beside_a_clip_change_what_is_like_it(library: Library) -> None:
    assert paths(library.similar("day bus", words="night"))[0] == "/v/night bus.mp4"
    with pytest.raises(UsageError, match="words beside the picture are empty"):
        library.similar("day bus", words=" ")


def test_without_ranks_what_shows_it_lower(library: Library) -> None:
    found = library.search("bus without night")
    assert paths(found)[0] == "/v/day bus.mp4"
    assert found.query == "bus without night"
    assert "'night' stand lower" in found.notices[-1]
    vector = encode("bus") - SHARE * encode("night")
    expected = encode("red bus day") @ vector / np.linalg.norm(vector)
    assert found.hits[0].scores["seen"] == pytest.approx(expected, abs=1e-3)


def test_without_changes_nothing_where_nothing_seen_is_asked_for_and_says_so(library: Library) -> None:
    found = library.search('"night bus" without day')
    assert paths(found) == paths(library.search('"night bus"'))
    assert found.notices[-1] == "Nothing seen is asked for, so 'without' changes nothing."


def test_without_vision_without_is_left_out(place: Path) -> None:
    with evenreel.open_library(place, vision=False) as library:
        assert paths(library.search("bus without night"))
