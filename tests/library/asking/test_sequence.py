"""Searches for one moment after another: whole answers in a small library, against the order in which it was made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import evenreel
from evenreel.errors import UsageError
from evenreel.library import Library, Then, UnfinishedText
from evenreel.library.search.result import SearchResult
from tests.library.fakes import WordsEncoder, on_disk, paths
from tests.library.fakes import finish as measured

A, B, ELSE = "red bus", "dog beach", "snow mountain"
CLIPS = {
    "right": [ELSE, A, A, ELSE, B, B, ELSE],
    "wrong": [ELSE, B, B, ELSE, A, A, ELSE],
    "far": [A, A, *[ELSE] * 40, B, B],
    "first": [ELSE, A, A, ELSE, ELSE],
    "second": [ELSE, ELSE, B, B, ELSE],
    "neither": ["guitar concert", "pancake kitchen"],
    "one frame": [A],
}


def answering(found: SearchResult) -> list[str]:
    """Paths of the hits that answer."""
    return paths(found)[: found.answering]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    made = on_disk(folder)
    for clip_id, seen in CLIPS.items():
        made.add_clip(clip_id, seen, duration_s=len(seen))
        made.add_file(f"/v/{clip_id}.mp4", clip_id, {"kind": clip_id})
    for clip_id, text, start_s in (("right", "EXIT", 1.0), ("right", "TICKETS", 5.0), ("wrong", "TICKETS", 1.0)):
        made.add_track(clip_id, text, start_s=start_s)
    made.add_track("wrong", "EXIT", start_s=5.0)
    measured(made)
    made.connection.close()
    return folder


@pytest.fixture
def library(place: Path) -> Iterator[Library]:
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        yield opened


def test_the_clip_with_that_order_is_first_with_both_moments(library: Library) -> None:
    found = library.search(f"{A}, then {B}")
    assert paths(found)[0] == "/v/right.mp4"
    assert found.steps == (A, B)
    assert [(step.time_s, step.start_s, step.end_s) for step in found.hits[0].steps] == [
        (1.5, 1.0, 3.0),
        (4.5, 4.0, 6.0),
    ]
    assert found.hits[0].moments == found.hits[0].steps
    assert found.hits[0].weaker is False
    other = library.search(f"{B}, then {A}")
    assert paths(other)[0] == "/v/wrong.mp4"


def test_clips_without_that_order_do_not_answer(library: Library) -> None:
    weaker = {hit.path: hit.weaker for hit in library.search(Then(A, B)).hits}
    assert [path for path, one in weaker.items() if not one] == ["/v/right.mp4"]
    assert "/v/one frame.mp4" not in weaker


def test_the_gap_decides_what_is_soon_enough(library: Library) -> None:
    near, far = library.search(Then(A, B, 30)), library.search(Then(A, B, 45))
    assert near.matches == 1
    assert {hit.path for hit in far.hits if not hit.weaker} == {"/v/right.mp4", "/v/far.mp4"}
    steps = {hit.path: hit.steps for hit in far.hits}["/v/far.mp4"]
    assert steps[1].time_s - steps[0].time_s <= 45


def test_words_on_screen_have_an_order_too(library: Library) -> None:
    assert paths(library.search('"exit" then "tickets"')) == ["/v/right.mp4"]
    found = library.search('on-screen: tickets then on-screen: "exit"')
    assert paths(found) == ["/v/wrong.mp4"]
    assert [step.start_s for step in found.hits[0].steps] == [1.0, 5.0]
    assert {text.text for text in found.hits[0].on_screen} == {"EXIT", "TICKETS"}


def test_words_and_pictures_follow_one_another(library: Library) -> None:
    found = library.search(f'"exit" then {B}')
    assert paths(found)[0] == "/v/right.mp4"
    assert "/v/second.mp4" not in paths(found)
    assert answering(library.search(f'{A} then "tickets"')) == ["/v/right.mp4"]


def test_a_filter_and_a_number_hold(library: Library) -> None:
    assert paths(library.search(Then(A, B), where="kind = 'wrong'")) == ["/v/wrong.mp4"]
    assert len(library.search(Then(A, B), k=2).hits) == 2


def test_a_library_without_vision_answers_by_words(place: Path) -> None:
    with evenreel.open_library(place, vision=False) as library:
        assert paths(library.search("exit then tickets")) == ["/v/right.mp4"]
        nothing = library.search("exit then nowhere")
        assert (nothing.hits, nothing.answering) == ((), 0)
        with pytest.raises(UsageError, match="searched without vision"):
            library.search("seen: bus then exit")


def test_what_is_typed_is_searched_as_far_as_it_goes(library: Library) -> None:
    assert library.search(UnfinishedText("red bus then ")).steps == ()
    assert answering(library.search(UnfinishedText('"exit" then tick'))) == ["/v/right.mp4"]


def test_wrong_parts_are_refused_before_a_model_is_loaded(place: Path) -> None:
    """Hazard 160."""
    with evenreel.open_library(place) as library:
        for text, sentence in (
            ("bus then", "after 'then'"),
            ('bus then "dog', "not closed"),
            ("said: then dog", "Nothing"),
        ):
            with pytest.raises(UsageError, match=sentence):
                library.search(text)
