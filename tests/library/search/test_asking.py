from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenreel
from evenreel.errors import NotFoundError, UsageError
from evenreel.library import Library, Mark, Marked, Then, UnfinishedText, Without
from evenreel.library.search import asking
from evenreel.library.search.asking import (
    MOST_MARKS,
    PICTURE_WEIGHT,
    SHARE,
    RocchioWeights,
    TimedEvidence,
    best_pair,
    highest_in_order,
    moved,
    read_mark,
    read_question,
    read_steps,
)
from evenreel.library.search.query import ClipMoment, PlainText, as_sentence
from evenreel.library.search.result import SearchResult
from evenreel.library.search.searcher import NOTHING
from evenreel.library.search.seen import high_stretches
from evenreel.library.search.snapshot import Snapshot
from evenreel.types import FloatArray, Pixels
from tests.library.fakes import SUBJECTS, WordsEncoder, encode, finish, on_disk, paths

WORDS = st.text("abc xyz", min_size=1, max_size=20).map(str.strip).filter(bool)


@pytest.mark.parametrize("joined", [", then ", " then ", " and then ", "; THEN, ", " , and\tthen "])
def test_both_parts_are_read_however_they_are_joined(joined: str) -> None:
    assert read_steps(f"  a bus{joined}a dog", 5) == Then("a bus", "a dog", 5)
    assert read_steps(f'said: "mind the gap"{joined}on-screen: exit') == Then('said: "mind the gap"', "on-screen: exit")


@pytest.mark.parametrize(
    "text",
    ['"now then" on a sign', "strengthen a rope", "the authentic one", 'said: "and then"', "a band", "„then“ a bus"],
)
def test_then_within_quotes_and_words_is_text(text: str) -> None:
    assert read_question(text) == text


def test_a_caption_is_one_query_whatever_words_it_has() -> None:
    for caption in ("a man sits, then stands", "then", "a street without cars"):
        asked = read_question(as_sentence(caption))
        assert type(asked) is PlainText
        assert asked == caption


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("then a dog", "before 'then'"),
        ("and then a dog", "before 'then'"),
        ("a bus then", "after 'then'"),
        ("a bus then ,", "after 'then'"),
        ("then", "before 'then'"),
        ("a then b then c", "2 times"),
        ("a, then b, then c, then d", "3 times"),
    ],
)
def test_an_empty_part_and_several_thens_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_steps(text)


@pytest.mark.parametrize("within_s", [0, -1, math.nan, math.inf, 1e7])
def test_a_gap_that_nothing_can_lie_in_is_refused(within_s: float) -> None:
    with pytest.raises(UsageError, match="seconds above 0"):
        Then("a", "b", within_s)


def test_what_is_still_typed_waits_for_its_second_part() -> None:
    assert read_steps(UnfinishedText("a bus then ")) == "a bus"
    assert read_steps(UnfinishedText("then")) == "then"
    asked = read_steps(UnfinishedText("a bus then a d"))
    assert isinstance(asked, Then)
    assert isinstance(asked.second, UnfinishedText)
    assert not isinstance(asked.first, UnfinishedText)


@given(WORDS, WORDS)
def test_whatever_the_parts_are_they_are_read_back(first: str, second: str) -> None:
    assert read_steps(f"{first}, then {second}") == Then(first, second)


def test_without_is_read_where_pictures_are_asked_and_both_parts_are_there() -> None:
    assert read_question("a street, without cars") == Without("a street", "cars")
    texts = "without cars", "a street without", "said: not without cars", "a without b without c", '"a without b"'
    assert tuple(map(read_question, texts)) == texts
    with pytest.raises(UsageError, match="one is empty"):
        Without("a", " ")


TIMES = st.integers(0, 12)
MOMENT = st.tuples(TIMES, st.integers(0, 5), st.integers(-8, 8), st.integers(0, 2))
MOMENTS = st.lists(MOMENT, max_size=8)
Moments = list[tuple[int, int, int, int]]


def evidence(moments: Moments) -> TimedEvidence:
    starts, lengths, values, states = np.array(moments, float).reshape(-1, 4).T
    return TimedEvidence(starts, starts + lengths, values, states.astype(np.int8))


def slow_pair(first: Moments, second: Moments, within_s: float) -> tuple[int, float] | None:
    """The least state, then the greatest sum, of all pairs in order."""
    pairs = [
        (max(one[3], other[3]), -(one[2] + other[2]))
        for one in first
        for other in second
        if one[0] < other[0] and other[0] - (one[0] + one[1]) <= within_s
    ]
    return None if not pairs else (min(pairs)[0], -min(pairs)[1])


@given(MOMENTS, MOMENTS, st.sampled_from([0.5, 1.0, 3.0, 100.0]))
def test_the_pair_is_the_one_of_a_slow_loop(first: Moments, second: Moments, within_s: float) -> None:
    found = best_pair(evidence(first), evidence(second), within_s)
    assert (None if found is None else (found.state, found.value)) == slow_pair(first, second, within_s)
    if found is not None:
        one, other = first[found.first], second[found.second]
        assert one[0] < other[0] <= one[0] + one[1] + within_s
        assert one[2] + other[2] == found.value


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=6), min_size=1, max_size=5
    )
)
def test_no_pair_of_a_clip_is_above_its_bound(clips: list[list[tuple[int, int]]]) -> None:
    first, second = (np.array([frame[at] for clip in clips for frame in clip], float) for at in (0, 1))
    found = highest_in_order(first, second, np.array(list(map(len, clips))))
    expected = [
        max((clip[i][0] + clip[j][1] for j in range(len(clip)) for i in range(j)), default=-np.inf) for clip in clips
    ]
    np.testing.assert_allclose(found, expected)


WITHIN_S = 3.0
CLIPS = 60


def state_of(share: float) -> int:
    return 0 if share >= 0.95 else 1 if share >= 0.9 else NOTHING


def slow_look(s: Snapshot, first: str, second: str) -> list[tuple[int, float]]:
    """The best pair of frames of every clip, frame by frame: its state and its sum, the best clip first."""
    assert s.vectors is not None
    found = []
    for clip in s.seen.tolist():
        frames = s.vectors.read(int(s.first_rows[clip]), int(s.counts[clip])).astype(np.float32)
        spans = np.array([[at + 0.5, at, at + 1] for at in range(len(frames))], float)
        told = []
        for text in (first, second):
            scores = frames @ encode(text)
            z = (scores.astype(float) - s.means[clip]) / s.deviations[clip]
            best = np.round(scores, 5).max()
            share = (s.null_best < (best - s.means[clip]) / s.deviations[clip]).mean()
            stretches = high_stretches(scores, spans)
            within = [any(one.start_s <= time_s <= one.end_s for one in stretches) for time_s in spans[:, 0]]
            state = state_of(float(share))
            told.append([(value, state if inside else NOTHING) for value, inside in zip(z, within, strict=True)])
        pairs = [
            (max(told[0][i][1], told[1][j][1]), -(told[0][i][0] + told[1][j][0]))
            for i in range(len(frames))
            for j in range(i + 1, len(frames))
            if j - i <= WITHIN_S
        ]
        found += [min(pairs)] if pairs else []
    return sorted(found)


@pytest.mark.parametrize("seed", range(3))
def test_the_first_clips_are_those_of_a_slow_look_at_all(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    made = on_disk(tmp_path)
    for number in range(CLIPS):
        words = [SUBJECTS[int(at)] for at in rng.integers(len(SUBJECTS), size=rng.integers(1, 9))]
        made.add_clip(str(number), words)
        made.add_file(f"/v/{number}.mp4", str(number))
    finish(made)
    made.connection.close()
    looked: list[int] = []
    look = asking.best_pair
    monkeypatch.setattr(asking, "best_pair", lambda *given: looked.append(1) or look(*given))
    with evenreel.open_library(tmp_path, encoder=WordsEncoder()) as library:
        found = library.search(Then("red bus", "dog beach", WITHIN_S), k=5)
        with library.snapshot() as s:
            expected = slow_look(s, "red bus", "dog beach")[:5]
    assert [hit.weaker for hit in found.hits] == [state == NOTHING for state, _ in expected]
    np.testing.assert_allclose([hit.score for hit in found.hits], [-value for _, value in expected], atol=1e-3)
    assert len(looked) < CLIPS


A, B, ELSE = "red bus", "dog beach", "snow mountain"
ORDERED = {
    "right": [ELSE, A, A, ELSE, B, B, ELSE],
    "wrong": [ELSE, B, B, ELSE, A, A, ELSE],
    "far": [A, A, *[ELSE] * 40, B, B],
    "first": [ELSE, A, A, ELSE, ELSE],
    "second": [ELSE, ELSE, B, B, ELSE],
    "neither": ["guitar concert", "pancake kitchen"],
    "one frame": [A],
}


def answering(found: SearchResult) -> list[str]:
    return paths(found)[: found.answering]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    made = on_disk(folder)
    for clip_id, seen in ORDERED.items():
        made.add_clip(clip_id, seen, duration_s=len(seen))
        made.add_file(f"/v/{clip_id}.mp4", clip_id, {"kind": clip_id})
    for clip_id, text, start_s in (("right", "EXIT", 1.0), ("right", "TICKETS", 5.0), ("wrong", "TICKETS", 1.0)):
        made.add_track(clip_id, text, start_s=start_s)
    made.add_track("wrong", "EXIT", start_s=5.0)
    finish(made)
    made.connection.close()
    return folder


@pytest.fixture
def library(place: Path) -> Iterator[Library]:
    with evenreel.open_library(place, encoder=WordsEncoder()) as opened:
        yield opened


def test_the_clip_with_that_order_is_first_with_both_moments(library: Library) -> None:
    found = library.search(f"{A}, then {B}")
    assert answering(found) == ["/v/right.mp4"]
    assert "/v/one frame.mp4" not in paths(found)
    assert found.steps == (A, B)
    times = [(step.time_s, step.start_s, step.end_s) for step in found.hits[0].steps]
    assert times == [(1.5, 1.0, 3.0), (4.5, 4.0, 6.0)]
    assert found.hits[0].moments == found.hits[0].steps
    assert found.hits[0].weaker is False
    other = library.search(f"{B}, then {A}")
    assert paths(other)[0] == "/v/wrong.mp4"


def test_the_second_moment_is_never_shown_before_the_first(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    made.add_clip("a long sign", [ELSE, ELSE, B, *[ELSE] * 7], duration_s=10)
    made.add_track("a long sign", "EXIT", start_s=1.0, end_s=9.0)
    made.add_clip("within", [ELSE, B, f"{A} {B}", B, ELSE], duration_s=5)
    made.add_file("/v/a long sign.mp4", "a long sign")
    made.add_file("/v/within.mp4", "within")
    finish(made)
    made.connection.close()
    with evenreel.open_library(tmp_path, encoder=WordsEncoder()) as library:
        sign, frame = library.search(f'on-screen: "exit" then seen: {B}').hits[0].steps
        assert (sign.time_s, frame.time_s) == (1.0, 2.5)  # a sign is read from its start, not from its middle
        first, second = library.search(f"seen: {A} then seen: {B}").hits[0].steps
    assert (first.time_s, first.start_s, first.end_s) == (2.5, 2.0, 3.0)
    assert (second.time_s, second.start_s, second.end_s) == (3.5, 3.0, 4.0)  # its stretch begins at 1 s


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
    with evenreel.open_library(place) as library:
        wrong = {"bus then": "after 'then'", 'bus then "dog': "not closed", "said: then dog": "Nothing"}
        for text, sentence in wrong.items():
            with pytest.raises(UsageError, match=sentence):
                library.search(text)


PICTURED = {
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
def pictured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    made = on_disk(folder)
    for clip_id, seen in PICTURED.items():
        made.add_clip(clip_id, seen)
        made.add_file(f"/v/{clip_id}.mp4", clip_id)
    made.add_clip("words only")
    made.add_file("/v/words.mp4", "words only")
    finish(made)
    made.connection.close()
    return folder


@pytest.fixture
def pictures(pictured: Path) -> Iterator[Library]:
    with evenreel.open_library(pictured, encoder=SeesADayBus()) as opened:
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


def test_marks_move_what_is_found_and_undoing_takes_it_back(pictures: Library) -> None:
    plain = paths(pictures.search("bus"))
    asked = Marked("bus").marked("/v/night dog.mp4", 0.5).marked("day bus", right=False)
    found = pictures.search(asked)
    places = paths(found)
    assert places.index("/v/night bus.mp4") < places.index("/v/day dog.mp4")
    assert "/v/day bus.mp4" not in places
    assert "/v/night dog.mp4" in places
    assert {hit.above_nonsense for hit in found.hits} == {None}
    assert "examples" in found.notices[-1]
    assert "/v/day bus.mp4" in paths(pictures.search(asked.undone()))
    assert paths(pictures.search(asked.undone().undone())) == plain


def test_a_clip_that_is_marked_anew_has_its_last_mark() -> None:
    asked = Marked("bus").marked("a").marked("b").marked("a", right=False)
    assert asked.marks == (Mark(ClipMoment("b", None), True), Mark(ClipMoment("a", None), False))


def test_examples_alone_find_what_is_like_them(pictures: Library) -> None:
    found = pictures.search(Marked("", (Mark(ClipMoment("night bus", None), True),)), k=3)
    assert paths(found)[0] == "/v/night bus.mp4"
    assert {*paths(found)[1:]} == {"/v/day bus.mp4", "/v/other bus.mp4"}


def test_marks_that_cannot_be_are_refused(pictures: Library) -> None:
    with pytest.raises(NotFoundError):
        pictures.search(Marked("bus").marked("nowhere.mp4"))
    with pytest.raises(UsageError, match="not encoded"):
        pictures.search(Marked("bus").marked("words only"))
    with pytest.raises(UsageError, match="leave one of the two out"):
        pictures.search(Marked("bus then dog").marked("day bus"))
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


def test_words_beside_a_picture_change_what_is_found(pictures: Library) -> None:
    pixels = np.zeros((4, 4, 3), np.uint8)
    assert paths(pictures.search_image(pixels))[0] == "/v/day bus.mp4"
    found = pictures.search_image(pixels, words="night")
    assert paths(found)[0] == "/v/night bus.mp4"
    both = PICTURE_WEIGHT * encode("red bus day") + (1 - PICTURE_WEIGHT) * encode("night")
    expected = encode("red bus night") @ both / np.linalg.norm(both)
    assert found.hits[0].scores["seen"] == pytest.approx(expected, abs=1e-3)


def test_words_beside_a_clip_change_what_is_like_it(pictures: Library) -> None:
    assert paths(pictures.similar("day bus", words="night"))[0] == "/v/night bus.mp4"
    with pytest.raises(UsageError, match="words beside the picture are empty"):
        pictures.similar("day bus", words=" ")


def test_without_ranks_what_shows_it_lower(pictures: Library) -> None:
    found = pictures.search("bus without night")
    assert paths(found)[0] == "/v/day bus.mp4"
    assert found.query == "bus without night"
    assert "'night' stand lower" in found.notices[-1]
    vector = encode("bus") - SHARE * encode("night")
    expected = encode("red bus day") @ vector / np.linalg.norm(vector)
    assert found.hits[0].scores["seen"] == pytest.approx(expected, abs=1e-3)


def test_without_changes_nothing_where_nothing_seen_is_asked_for_and_says_so(pictures: Library) -> None:
    found = pictures.search('"night bus" without day')
    assert paths(found) == paths(pictures.search('"night bus"'))
    assert found.notices[-1] == "Nothing seen is asked for, so 'without' changes nothing."


def test_without_vision_without_is_left_out(pictured: Path) -> None:
    with evenreel.open_library(pictured, vision=False) as pictures:
        assert paths(pictures.search("bus without night"))
