from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from evenreel.errors import EncoderError, LibraryError, UsageError
from evenreel.library.search.result import MomentHit, TextHit
from evenreel.library.search.searcher import Query, Searcher
from evenreel.library.search.seen import best_moments, high_stretches, shown
from evenreel.library.store.catalog import stored_path
from evenreel.library.store.fulltext import rebuild_full_text, remove_about
from evenreel.library.store.vectors import MAY_FIT, null_queries
from tests.library.fakes import DIMENSION, SUBJECTS, Library, WordsEncoder, encode, finish, paths


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Six clips, each about one thing for three seconds between others."""
    made = Library(tmp_path)
    for number, subject in enumerate(SUBJECTS):
        seen = [f"filler{number} a", subject, subject, subject, f"filler{number} b"]
        made.add_clip(f"c{number}", seen, duration_s=5.0 + number)
        made.add_file(f"/v/{number}.mp4", f"c{number}", {"source": "camera" if number % 2 else "sora"})
    return made


def test_the_clip_that_shows_it_comes_first_with_its_moment(library: Library) -> None:
    result = finish(library).search(Query("dog beach"))
    first = result.hits[0]
    assert first.path == "/v/1.mp4"
    assert (first.weaker, result.answering, result.matches) == (False, 1, 1)
    assert first.above_nonsense == 1.0
    assert first.written == 0.0
    assert first.scores == {"seen": pytest.approx(1.0, abs=1e-3)}
    (best, *_) = first.moments
    assert (best.time_s, best.start_s, best.end_s, best.score) == pytest.approx((1.5, 1.0, 4.0, 1.0), abs=1e-3)
    assert first.duration_s == 6.0
    assert first.metadata == {"source": "camera"}
    assert len(result.hits) == 6
    assert result.notices == ()


def test_nonsense_is_answered_with_nothing_fits_and_the_nearest(library: Library) -> None:
    searcher = finish(library)
    result = searcher.search(Query("zxqv wkjh ploof"))
    assert (result.answering, result.matches) == (0, 0)
    assert len(result.hits) == 6
    assert all(hit.above_nonsense is not None and hit.above_nonsense < MAY_FIT for hit in result.hits)
    assert {hit.weaker for hit in result.hits} == {True}


def test_nonsense_of_the_bank_passes_as_rarely_as_stated(library: Library) -> None:
    searcher = finish(library)
    passed = sum(searcher.search(Query(query, k=1)).answering for query in null_queries())
    assert passed <= 29  # 21 of 200 expected; Binomial(200, 21/201) is above 29 with probability 0.027


@pytest.mark.parametrize(("beaten", "weaker"), [(200, False), (181, False), (180, False), (179, True), (0, True)])
def test_the_line_hangs_on_how_much_of_nonsense_is_beaten_to_the_last_one(
    library: Library, beaten: int, weaker: bool
) -> None:
    searcher = finish(library)
    best = [-100.0] * beaten + [100.0] * (200 - beaten)
    library.connection.execute("UPDATE meta SET value = ? WHERE key = 'null_best'", (json.dumps(best),))
    result = searcher.search(Query("dog beach"))
    assert {hit.above_nonsense for hit in result.hits} == {beaten / 200}
    assert {hit.weaker for hit in result.hits} == {weaker}
    assert result.answering == result.matches == (0 if weaker else 6)


def test_a_picture_is_searched_by_its_vector_alone(library: Library) -> None:
    library.add_track("c0", "dog beach")
    result = finish(library).search(Query(image=encode("dog beach"), k=2))
    assert paths(result)[0] == "/v/1.mp4"
    assert set(result.hits[0].scores) == {"seen"}
    assert (result.hits[0].above_nonsense, result.hits[0].weaker, result.matches) == (None, None, 0)
    assert result.answering == 2
    assert "results for a picture are ranked only" in result.notices[0]


def test_words_on_screen_beat_frames_that_look_somewhat_alike(library: Library) -> None:
    library.add_track("c4", "JAPANNETHERLANDS", start_s=3.0, end_s=4.0)
    result = finish(library).search(Query("japan netherlands"))
    first = result.hits[0]
    assert first.path == "/v/4.mp4"
    assert (first.weaker, result.answering) == (False, 1)
    assert first.written == 1.0
    assert set(first.scores) == {"seen", "on_screen"}
    assert first.on_screen == (
        TextHit("JAPANNETHERLANDS", ("japan", "netherlands"), 3.0, 4.0, 1.0, ("japannetherlands",)),
    )
    assert first.moments[0] == MomentHit(3.5, 3.0, 4.0, 1.0)


def test_frames_give_the_first_moment_where_they_are_the_better_reason(library: Library) -> None:
    library.add_track("c1", "DOG", start_s=9.0)
    first = finish(library).search(Query("dog beach")).hits[0]
    assert first.path == "/v/1.mp4"
    assert first.on_screen[0].text == "DOG"
    assert (first.moments[0].start_s, first.moments[0].end_s) == (1.0, 4.0)


def test_one_word_of_two_is_no_answer_and_lifts_no_clip(library: Library) -> None:
    by_frames = paths(finish(library).search(Query("green zxqvwp")))
    library.add_track(f"c{by_frames[-1][3]}", "GREEN")
    result = finish(library).search(Query("green zxqvwp"))
    assert result.answering == 0
    assert paths(result) == by_frames
    assert result.hits[-1].on_screen[0].text == "GREEN"


def test_a_common_word_of_captions_lifts_no_clip_over_frames(tmp_path: Path) -> None:
    """A ship with a blue carpet is no blue square, though no other caption has a word of the query."""
    library = Library(tmp_path)
    shown = ["blue square", *(f"filler{number}" for number in range(30)), "ship sea"]
    for number, subject in enumerate(shown):
        library.add_clip(f"c{number}", [subject])
        caption = "a ship with a blue carpet" if subject == "ship sea" else "a clip"
        library.add_file(f"/{number:02}.mp4", f"c{number}", {"caption": caption})
    searcher = finish(library)
    result = searcher.search(Query("a blue square", k=40))
    ship = next(hit for hit in result.hits if hit.path == "/31.mp4")
    assert 0 < ship.written < 0.5
    assert ship.weaker is True
    order = sorted(result.hits, key=lambda hit: -hit.scores["seen"])
    assert paths(result) == [hit.path for hit in order], "frames alone say how clips stand"
    library.connection.execute("UPDATE meta SET value = ? WHERE key = 'null_best'", (json.dumps([9.0] * 200),))
    assert paths(searcher.search(Query("a blue square", k=40)))[0] == "/00.mp4", "also where no frames answer"


def test_a_confident_clip_is_found_however_deep_its_raw_score(library: Library) -> None:
    """One clip scores lower than others but far above its own nonsense; k = 1 must give it all the same."""
    searcher = finish(library)
    library.connection.execute("UPDATE null_scores SET mean = 5")
    library.connection.execute("UPDATE null_scores SET mean = -5 WHERE clip_id = 'c5'")
    assert paths(searcher.search(Query("dog beach", k=1))) == ["/v/5.mp4"]
    assert paths(searcher.search(Query("dog beach")))[:2] == ["/v/5.mp4", "/v/1.mp4"]


def test_a_library_without_vision_searches_words(library: Library) -> None:
    library.add_track("c3", "EXIT")
    rebuild_full_text(library.connection)
    searcher = Searcher(library.connection, lambda _: None, lambda: None)
    result = searcher.search(Query("exit"))
    assert paths(result) == ["/v/3.mp4"]
    assert result.answering
    assert result.hits[0].moments == (MomentHit(0.5, 0.0, 1.0, 1.0),)
    nothing = searcher.search(Query("zxqvw"))
    assert (nothing.hits, nothing.answering) == ((), 0)
    with pytest.raises(UsageError, match="no vision"):
        searcher.search(Query(image=encode("dog")))


def test_an_empty_library_answers_with_nothing(tmp_path: Path) -> None:
    result = finish(Library(tmp_path)).search(Query("dog"))
    assert (result.hits, result.answering) == ((), 0)


@pytest.mark.parametrize("clips", [1, 2])
def test_a_tiny_library_knows_sense_from_nonsense(tmp_path: Path, clips: int) -> None:
    library = Library(tmp_path)
    for number in range(clips):
        library.add_clip(f"c{number}", ["one frame"])
        library.add_file(f"/{number}.mp4", f"c{number}")
    searcher = finish(library)
    assert searcher.search(Query("one frame")).answering
    assert not searcher.search(Query("zxqv wkjh ploof")).answering
    moment = searcher.search(Query("one frame")).hits[0].moments
    assert [(hit.time_s, hit.start_s, hit.end_s) for hit in moment] == [(0.5, 0.0, 1.0)]


def test_a_library_that_is_not_measured_says_so(library: Library) -> None:
    rebuild_full_text(library.connection)
    result = Searcher(library.connection, lambda _: library.vectors, lambda: library.encoder).search(Query("dog beach"))
    assert paths(result)[0] == "/v/1.mp4"
    assert "Which matches are weaker was not measured" in result.notices[0]
    assert (result.matches, result.answering) == (0, 6)
    library.add_track("c3", "EXIT")
    rebuild_full_text(library.connection)
    words = Searcher(library.connection, lambda _: library.vectors, lambda: library.encoder).search(Query("exit"))
    assert (words.hits[0].path, words.hits[0].weaker) == ("/v/3.mp4", False), "what is written needs no measuring"


def test_a_clip_with_several_files_is_one_hit(library: Library) -> None:
    odd = stored_path("/a/\udcff.mp4")
    assert isinstance(odd, bytes)
    library.add_file(odd, "c1", {"source": "copy"})
    library.add_file("/a/copy.mp4", "c1", {"source": "copy"})
    library.add_file("/a/gone.mp4", "c1", {"source": "copy"}, state="missing")
    searcher = finish(library)
    first = searcher.search(Query("dog beach")).hits[0]
    assert first.path == "/a/copy.mp4"
    assert sorted(first.other_paths) == ["/a/\udcff.mp4", "/v/1.mp4"]
    filtered = searcher.search(Query("dog beach", where="source = 'camera'")).hits[0]
    assert (filtered.path, filtered.metadata) == ("/v/1.mp4", {"source": "camera"})


# Hard queries (hazard 47) and numbers (hazard 49)


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\x00", "\x00 \x1b\x07", "\ud800"])
def test_a_query_without_anything_readable_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="The query is empty"):
        Query(text)


def test_a_query_is_one_thing_with_one_result_or_more() -> None:
    for k in (0, -1):
        with pytest.raises(UsageError, match=f"The number of results is {k}"):
            Query("dog", k=k)
    with pytest.raises(UsageError, match="one of the two"):
        Query("dog", image=encode("dog"))
    with pytest.raises(UsageError, match="one of the two"):
        Query()


@pytest.mark.parametrize(
    ("text", "notice"),
    [
        ("dog beach " * 100_000, "only its first 1000 characters"),
        ("dog\x00beach", "control characters; they were left out"),
        ("dog beach " + " ".join(f"{n}" for n in range(78)), "longer than the model reads"),
        ("dog beach " + " ".join(f"w{n}" for n in range(78)), "first 50 words"),
    ],
)
def test_a_query_that_is_cut_says_so(library: Library, text: str, notice: str) -> None:
    searcher = finish(library)
    result = searcher.search(Query(text))
    assert any(notice in said for said in result.notices), result.notices
    assert len(result.hits) == 6


def test_a_long_query_that_the_model_reads_to_its_end_says_nothing(library: Library) -> None:
    text = " ".join(["dog", "beach"] + ["walking"] * 20)
    assert finish(library).search(Query(text)).notices == ()


@pytest.mark.parametrize("text", ["🚌", "新闻", "собака", "!!!", '"', "NEAR(a b)", "a" * 999, "\u202edog"])
def test_any_script_is_searched(library: Library, text: str) -> None:
    assert len(finish(library).search(Query(text)).hits) == 6


def test_vectors_of_another_encoder_or_without_a_direction_are_refused(library: Library) -> None:
    searcher = finish(library)
    with pytest.raises(LibraryError, match="dimension 64; search with the encoder"):
        searcher.search(Query(image=np.ones(DIMENSION // 2, np.float32)))
    for value in (0.0, np.nan, np.inf):
        with pytest.raises(EncoderError, match="without a direction"):
            searcher.search(Query(image=np.full(DIMENSION, value, np.float32)))


def test_moments_that_disagree_with_vectors_are_reported(library: Library) -> None:
    searcher = finish(library)
    library.connection.execute("DELETE FROM moments WHERE clip_id = 'c1' AND number = 4")
    with pytest.raises(LibraryError, match="4 moments of clip c1 but 5 vectors; run `evenreel verify --repair`"):
        searcher.search(Query("dog beach"))


def test_a_damaged_catalog_is_a_sentence(library: Library) -> None:
    searcher = finish(library)
    library.connection.execute("DROP TABLE about")
    with pytest.raises(LibraryError, match=r"catalog is damaged .*evenreel verify --repair"):
        searcher.search(Query("dog beach"))


def test_a_searcher_sees_what_was_added_and_marked_missing_since(library: Library, tmp_path: Path) -> None:
    finish(library)
    reader = sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)
    library.connection.backup(reader)
    writer = sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)
    searcher = Searcher(reader, lambda _: library.vectors, WordsEncoder)
    assert paths(searcher.search(Query("dog beach", k=1))) == ["/v/1.mp4"]
    writer.execute("UPDATE files SET state = 'missing' WHERE path = '/v/1.mp4'")
    remove_about(writer, "/v/1.mp4")
    assert "/v/1.mp4" not in paths(searcher.search(Query("dog beach")))
    library.connection = writer
    library.add_clip("new", ["dog beach"])
    library.add_file("/v/new.mp4", "new")
    first = searcher.search(Query("dog beach")).hits[0]
    assert first.path == "/v/new.mp4"
    assert first.above_nonsense == 1.0, "a clip not measured yet is judged by the average of the others"


def test_a_search_reads_the_catalog_at_one_moment(library: Library, tmp_path: Path) -> None:
    """Hazard 38: a file that goes missing between two reads of one search is still shown whole."""
    finish(library)
    connection = sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    library.connection.backup(connection)
    writer = sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)

    class Vectors:
        """Another process deletes everything when they are read."""

        dimension = DIMENSION

        def best_per_clip(self, *request: np.ndarray) -> np.ndarray:
            writer.execute("DELETE FROM files")
            writer.execute("UPDATE clip_keys SET change = change + 1")
            writer.execute("DELETE FROM moments")
            return library.vectors.best_per_clip(*request)

        def frame_scores(self, query: np.ndarray, first_row: int, count: int) -> np.ndarray:
            return library.vectors.frame_scores(query, first_row, count)

        def read(self, first_row: int, count: int) -> np.ndarray:
            return library.vectors.read(first_row, count)

    searcher = Searcher(connection, lambda _: Vectors(), WordsEncoder)
    assert len(searcher.search(Query("dog beach")).hits) == 6
    assert searcher.search(Query("dog beach")).hits == ()


def spans(count: int) -> np.ndarray:
    return np.array([[number + 0.5, number, number + 1] for number in range(count)], np.float64)


def test_high_frames_that_touch_are_one_moment_and_so_is_a_clip_in_which_nothing_changes() -> None:
    scores = np.array([0.1, 0.8, 0.9, 0.1, 0.1, 0.7, 0.1], np.float32)
    found = high_stretches(scores, spans(7))
    assert [(hit.start_s, hit.end_s, hit.time_s) for hit in found] == [(1, 3, 2.5), (5, 6, 5.5)]
    still = 0.3 + 1e-4 * np.random.default_rng(0).standard_normal(20).astype(np.float32)
    assert [(hit.start_s, hit.end_s) for hit in high_stretches(still, spans(20))] == [(0, 20)]


def test_at_most_three_moments_of_what_found_the_clip_first() -> None:
    seen = [MomentHit(n + 0.5, n, n + 1, 1 - n / 10) for n in range(6)]
    sign = shown(TextHit("EXIT", ("exit",), 0.5, 2.0, 1.0))
    assert sign == MomentHit(1.25, 0.5, 2.0, 1.0)
    assert [hit.start_s for hit in best_moments(seen)] == [0, 1, 2]
    assert [hit.start_s for hit in best_moments([sign], seen)] == [0.5, 2, 3]
    assert [hit.start_s for hit in best_moments([sign, sign])] == [0.5], "two signs at a time are one moment"
    still = shown(TextHit("EXIT", ("exit",), 2.0, 2.0, 1.0))
    assert best_moments([still, still], seen[2:4]) == (still, seen[3]), "also where they are read in one frame alone"
    assert [hit.start_s for hit in best_moments(seen[2:4], [sign])] == [2, 3, 0.5]


def moments(library: Library, query: str) -> list[tuple[float, float, float]]:
    first = finish(library).search(Query(query)).hits[0]
    return [(moment.start_s, moment.end_s, moment.time_s) for moment in first.moments]


def test_a_clip_that_its_signs_found_has_their_moments_alone(library: Library) -> None:
    library.add_track("c4", "WINTER", start_s=0.0, end_s=1.0)
    library.add_track("c4", "CUP", start_s=3.0, end_s=4.0)
    assert sorted(moments(library, "winter cup")) == [(0.0, 1.0, 0.5), (3.0, 4.0, 3.5)]


def test_frames_that_would_have_found_it_too_have_theirs_behind(library: Library) -> None:
    library.add_track("c1", "DOG BEACH", start_s=4.5, end_s=5.0)
    assert moments(library, "dog beach") == [(4.5, 5.0, 4.75), (1.0, 4.0, 1.5)]


def test_a_clip_that_its_caption_found_is_one_moment(library: Library) -> None:
    """A caption says nothing of when; the frame nearest to it is what is looked at first."""
    frames = ["filler x", "filler z", "filler y"]
    library.add_clip("talk", frames, duration_s=3.0)
    library.add_file("/v/talk.mp4", "talk", {"caption": "Lecture on Bayesian statistics"})
    best = max(range(3), key=lambda number: float(encode(frames[number]) @ encode("bayesian lecture")))
    assert moments(library, "bayesian lecture") == [(0.0, 3.0, best + 0.5)]


def test_frames_that_found_a_clip_have_their_moments_whatever_its_caption_shares(library: Library) -> None:
    library.connection.execute("""UPDATE files SET metadata = '{"caption": "a dog"}' WHERE clip_id = 'c1'""")
    assert moments(library, "dog beach") == [(1.0, 4.0, 1.5)]
