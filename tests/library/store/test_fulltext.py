from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from evenreel.errors import LibraryError
from evenreel.language.folding import fold, stop_words, words
from evenreel.library import open_library
from evenreel.library.index.run import writing
from evenreel.library.search.query import content_words
from evenreel.library.store.fulltext import (
    index_about,
    index_clip_text,
    phrase,
    rebuild_full_text,
    remove_about,
    remove_clip_text,
)
from tests.library.fakes import Library, TextMatch, empty_catalog, on_disk, spelt, word_hits


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path)


def show(library: Library, clip_id: str, *texts: str, **details: float) -> None:
    library.add_clip(clip_id)
    for number, text in enumerate(texts):
        library.add_track(clip_id, text, start_s=details.get("start_s", 0.0) + number)
    index_clip_text(library.connection, clip_id)


def find(library: Library, query: str) -> list[TextMatch]:
    return word_hits(library.connection, "on_screen", query)


def found_ids(library: Library, query: str) -> list[str]:
    return [written.clip_id for written in find(library, query)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Café", "cafe"),
        ("STRASSE Straße", "strasse strasse"),
        ("İstanbul ISTANBUL ıstanbul", "istanbul istanbul istanbul"),
        ("Ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("ﬁne ①", "fine 1"),
        ("Ёлка", "елка"),
        ("हिन्दी", "हिन्दी"),  # vowel signs are not accents
    ],
)
def test_fold_drops_case_width_and_accents(text: str, expected: str) -> None:
    assert fold(text) == expected


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    assert words(" ".join(words(text))) == words(text)


def test_words_split_at_everything_but_letters_digits_and_their_marks() -> None:
    assert words("JAPAN-NETHERLANDS 2:0! it's हिन्दी 新闻_x") == [
        *("japan", "netherlands", "2", "0", "it", "s", "हिन्दी", "新闻", "x")
    ]


def test_content_words_leave_stop_words_out_unless_there_is_nothing_else() -> None:
    assert content_words("a clip of the Red red bus") == ["red", "bus"]
    assert content_words("The Who") == ["the", "who"]
    assert len(content_words(" ".join(f"w{n}" for n in range(80)))) == 50
    assert "the" in stop_words()


def test_what_an_apostrophe_leaves_is_no_content_word_unless_there_is_nothing_else() -> None:
    for mark in "'\u2019\u02bc":
        assert content_words(f"the man{mark}s dog doesn{mark}t bark, they{mark}ll see") == ["man", "dog", "bark", "see"]
        assert content_words(f"DON{mark}T") == words(f"DON{mark}T")
    assert content_words("rock 'n' roll at gate d") == ["rock", "n", "roll", "gate", "d"]


def state(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    for table in ("track_words", "said_words", "about"):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
    queries = {
        "track_words": "SELECT rowid, text FROM track_words ORDER BY rowid",
        "track_vocabulary": "SELECT word, texts FROM track_vocabulary WHERE texts > 0 ORDER BY word",
        "track_blocks": "SELECT * FROM track_blocks ORDER BY block",
        "about_vocabulary": "SELECT word, texts FROM about_vocabulary WHERE texts > 0 ORDER BY word",
        "about_blocks": "SELECT * FROM about_blocks ORDER BY block",
        "about": "SELECT path, name, caption FROM about JOIN names ON name_id = about.rowid ORDER BY path",
    }
    return {table: connection.execute(query).fetchall() for table, query in queries.items()}


signs = st.lists(st.lists(st.text("abJÀß新 -", max_size=6), min_size=1, max_size=3), max_size=4)  # tracks with readings
steps = st.lists(st.tuples(st.integers(0, 3), st.none() | signs), max_size=12)


@given(steps)
def test_incremental_indexes_equal_a_rebuild(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, list[list[str]] | None]]
) -> None:
    library = Library(tmp_path_factory.mktemp("library"))
    connection = library.connection
    for number, tracks in steps:
        clip_id, path = f"c{number}", f"/{number} é.mp4".encode() + b"\xff" if number else "/0.mp4"
        remove_clip_text(connection, clip_id)
        remove_about(connection, path)
        connection.execute("DELETE FROM files WHERE path = ?", (path,))
        connection.execute("DELETE FROM clips WHERE clip_id = ?", (clip_id,))
        if tracks is not None:
            library.add_clip(clip_id)
            for readings in tracks:
                library.add_track(clip_id, *readings)
            library.add_file(path, clip_id, {"caption": f"Übung {len(tracks)}"})
            index_clip_text(connection, clip_id)
            index_about(connection, path, f"Übung {len(tracks)}")
    incremental = state(connection)
    rebuild_full_text(connection)
    assert state(connection) == incremental


def test_rebuild_mends_indexes_that_disagree_or_are_damaged(library: Library) -> None:
    show(library, "c", "JAPAN")
    good = state(library.connection)
    library.connection.execute("DELETE FROM track_vocabulary")
    library.connection.execute("DELETE FROM track_words_data")  # what a bad disk may do to FTS5's own tables
    rebuild_full_text(library.connection)
    assert state(library.connection) == good


def test_indexing_a_file_again_replaces_its_entry(library: Library) -> None:
    library.add_clip("c")
    library.add_file("/a.mp4", "c")
    index_about(library.connection, "/a.mp4", "old")
    index_about(library.connection, "/a.mp4", "new")
    assert state(library.connection)["about"] == [("/a.mp4", "a mp4", "new")]


def test_words_joined_in_the_order_of_the_query_are_exact(library: Library) -> None:
    show(library, "c", "JAPANNETHERLANDS")
    assert find(library, "japan netherlands")[0].coverage == 1.0
    inside = find(library, "netherlands japan")[0].coverage
    assert inside == pytest.approx((1 - 1 / 10 + 1 - 1 / 22) / 2)


def test_two_characters_are_a_word_in_scripts_without_spaces(library: Library) -> None:
    show(library, "c", "今日新闻联播")
    assert found_ids(library, "新闻") == ["c"]


@given(st.lists(st.text("abc", min_size=1, max_size=14), max_size=25), st.text("abc", min_size=1, max_size=14))
def test_every_word_is_found_that_a_slow_loop_finds(vocabulary: list[str], word: str) -> None:
    expected = {word: 1.0}
    for other in vocabulary:
        errors = OSA.distance(word, other)
        similarity = 1 - errors / len(word) if errors <= (len(word) - 1) // 4 else 0.0
        if len(word) >= 4 and word in other and word != other:
            similarity = max(similarity, 1 - 1 / (2 * len(word)))
        if similarity:
            expected[other] = similarity
    assert spelt(vocabulary, [word]) == pytest.approx(expected)


def test_a_word_that_no_clip_has_keeps_its_weight(library: Library) -> None:
    show(library, "c", "GREEN")
    show(library, "d", "OTHER")
    assert find(library, "green zxqvw")[0].coverage < 0.5


def test_words_shown_together_rank_above_words_far_apart_and_one_word(library: Library) -> None:
    for clip_id, second_s in (("far", 500.0), ("near", 5.0), ("same time", 0.0)):
        library.add_clip(clip_id)
        library.add_track(clip_id, "JAPAN", start_s=0)
        library.add_track(clip_id, "NETHERLANDS", start_s=second_s)
        index_clip_text(library.connection, clip_id)
    show(library, "one word", "NETHERLANDS")
    assert found_ids(library, "japan netherlands") == ["same time", "near", "far", "one word"]


def test_the_score_is_the_best_anchor_by_a_slow_loop(library: Library) -> None:
    tracks = [("JAPAN", 0.0, 0.9), ("NETHERLANDS", 100.0, 0.8), ("JAPAN", 95.0, 0.7), ("NETHERLAND5", 2.0, 1.0)]
    library.add_clip("c")
    for text, start_s, confidence in tracks:
        library.add_track("c", text, start_s=start_s, confidence=confidence)
    index_clip_text(library.connection, "c")
    library.add_clip("d")
    library.add_track("d", "JAPAN")  # japan is on 3 of 5 tracks, netherlands on 1
    index_clip_text(library.connection, "d")

    weights = [math.log(1 + 2.5 / 3.5), math.log(1 + 4.5 / 1.5)]
    alike = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 10 / 11]]
    best = 0.0
    for _, anchor_s, _ in tracks:
        total = 0.0
        for word in (0, 1):
            total += weights[word] * max(
                alike[place][word] * confidence * (0.5 + 0.5 / (1 + max(0.0, abs(start_s - anchor_s) - 1) / 30))
                for place, (_, start_s, confidence) in enumerate(tracks)
            )
        best = max(best, total / sum(weights))
    hit = find(library, "japan netherlands")[0]
    assert hit.clip_id == "c"
    assert hit.score == pytest.approx(best)
    assert hit.coverage == 1.0


def test_the_first_hit_is_the_track_with_most_of_the_query(library: Library) -> None:
    show(library, "c", "JAPAN", "JAPAN NETHERLANDS", "NETHERLANDS")
    hits = find(library, "japan netherlands")[0].hits
    assert hits[0].text == "JAPAN NETHERLANDS"
    assert hits[0].matched == ("japan", "netherlands")
    assert len(hits) == 3


def test_a_possessive_is_found_as_it_was_stored_and_finds_no_other(library: Library) -> None:
    """What is stored is as it was: a word for each side of the apostrophe, or one where the recogniser lost it."""
    show(library, "a", "JOE'S PIZZA")
    show(library, "b", "JOES GRILL")
    show(library, "c", "DOG SHOW")
    assert sorted(found_ids(library, "joe's")) == ["a", "b"]
    assert found_ids(library, "a man's dog") == ["c"]


def test_names_and_captions_are_found(library: Library) -> None:
    for clip_id, name, caption in (
        ("a", "holiday_beach.mp4", ""),
        ("b", "x.mp4", "A dog on the Beach"),
        ("c", "y.mp4", ""),
    ):
        library.add_clip(clip_id)
        library.add_file(f"/{name}", clip_id)
        index_about(library.connection, f"/{name}", caption)
    hits = word_hits(library.connection, "about", "dog beach")
    assert [hit.clip_id for hit in hits] == ["b", "a"]
    assert hits[0].coverage == 1.0
    assert hits[0].score > hits[1].score
    assert [hit.clip_id for hit in word_hits(library.connection, "about", "dog beach", {"a"})] == ["a"]


LONG_NAME = "a red harbour evening with many other people who walk along the pier while a small orange boat comes in"


@pytest.mark.parametrize("names", [["boat", LONG_NAME], [LONG_NAME, "boat"]])
def test_a_clip_with_several_names_has_the_best_of_them(library: Library, names: list[str]) -> None:
    """The short name ranks first by BM25, the long one has both words."""
    library.add_clip("copied")
    for number, name in enumerate(names):
        library.add_file(f"/{number}/{name}.mp4", "copied")
    for number in range(7):
        library.add_clip(f"red {number}")
        library.add_file(f"/red thing {number}.mp4", f"red {number}")
    rebuild_full_text(library.connection)
    everything = {"copied", *(f"red {number}" for number in range(7))}
    hits = word_hits(library.connection, "about", "red boat", everything)
    assert (hits[0].clip_id, hits[0].score, hits[0].coverage) == ("copied", 1.0, 1.0)
    assert len(hits) == len(everything)


# Queries are never syntax (hazards 47 and 49)

NASTY = [
    *('"', 'exit"', "exit OR NEAR(", "exit*", "text : exit", "{text} : exit", "exit AND NOT exit", "^exit", "-exit"),
    *("exit\x00", "'; DROP TABLE tracks; --", "\ud800exit", "🚌🚌🚌", "\u200d", "ा"),
]


@pytest.mark.parametrize("query", NASTY)
def test_query_syntax_is_harmless(library: Library, query: str) -> None:
    show(library, "c", "EXIT")
    library.add_file("/exit.mp4", "c")
    index_about(library.connection, "/exit.mp4", "")
    expected = ["c"] if "exit" in query else []
    assert found_ids(library, query) == expected
    assert [hit.clip_id for hit in word_hits(library.connection, "about", query)] == expected


@given(st.text())
def test_any_query_is_harmless(query: str) -> None:
    connection = empty_catalog()
    assert word_hits(connection, "on_screen", query) == word_hits(connection, "about", query) == []


@given(st.text())
def test_a_phrase_is_one_string_to_fts5(text: str) -> None:
    inside = phrase(text)[1:-1]
    assert inside.replace('""', "") == text.replace('"', "")
    assert inside.count('"') == 2 * text.count('"')


def test_a_second_reading_of_the_track_is_found_too_whatever_its_characters(library: Library) -> None:
    library.add_clip("c")
    library.add_track("c", 'SAY "BRIE"', 'SAY\x00"CHEESE"')
    index_clip_text(library.connection, "c")
    assert json.loads(library.connection.execute("SELECT readings FROM tracks").fetchone()[0])
    assert found_ids(library, "cheese") == ["c"]


def test_words_that_another_rule_folded_are_said_and_folded_anew(tmp_path: Path) -> None:
    made = on_disk(tmp_path / "library")
    made.add_clip("c" * 32, ["red bus"])
    made.add_file("/v/c.mp4", "c" * 32)
    made.add_track("c" * 32, "ŁÓDŹ Fabryczna")
    made.connection.close()

    def found() -> tuple[int, bool]:
        with open_library(tmp_path / "library", vision=False) as opened:
            said = opened.search("lodz")
        return len(said.hits), any("`evenreel index` once more" in one for one in said.notices)

    with writing(tmp_path / "library") as connection:
        rebuild_full_text(connection)
    assert found() == (1, False)
    with writing(tmp_path / "library") as connection:  # as 0.1 stored them
        connection.execute("UPDATE track_words SET text = 'łodz fabryczna'")
        connection.execute("UPDATE track_vocabulary SET word = 'łodz' WHERE word = 'lodz'")
        connection.execute("DELETE FROM meta WHERE key = 'folding'")
    assert found() == (0, True)
    with writing(tmp_path / "library") as connection:
        assert not connection.in_transaction
    assert found() == (1, False)
    with writing(tmp_path / "library") as connection:
        connection.execute("UPDATE tracks SET readings = '['")
        connection.execute("DELETE FROM meta WHERE key = 'folding'")
    with pytest.raises(LibraryError, match="verify --repair"), writing(tmp_path / "library"):
        pass
