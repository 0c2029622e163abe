"""Search by what is said: found, ranked, shown, and told apart from what is seen and read."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel import open_library
from evenreel.language.folding import content_words, words
from evenreel.library import index_folders
from evenreel.library.search.result import SearchResult
from evenreel.library.search.words import marks
from evenreel.library.store.catalog import create_schema, transaction
from evenreel.library.store.fulltext import SAID, index_clip_text, index_texts, rebuild_full_text, remove_texts
from evenreel.library.store.vectors import FITS
from evenreel.library.store.writer import put_rows, speech_rows
from evenreel.speech import Transcript, Utterance
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import QUICK, without_models
from tests.library.fakes import word_hits
from tests.library.videos import write_folder
from tests.speech.subtitle_files import Line, written

SPOKEN = (
    ("We leave the old quayside at noon.", "The ferry waits for nobody.", "Nobody at all."),
    ("Nobody told me about it.", "And the lighthouse keeper?", "He sleeps."),
    ("駅で会いましょう。", "明日の朝は雨が降るでしょう。"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Four clips of 2 s; in three of them something is said, at 0.1, 0.7 and 1.3 s."""
    folder = tmp_path_factory.mktemp("said")
    write_folder(folder / "videos", 4)
    for number, lines in enumerate(SPOKEN):
        cues = [Line(100 + 600 * n, 600 + 600 * n, line) for n, line in enumerate(lines)]
        (folder / "videos" / f"clip_{number:02}.srt").write_text(written(".srt", cues), encoding="utf-8")
    with without_models():
        index_folders([folder / "videos"], folder / "library", QUICK)
        yield folder


def search(library: Path, query: str) -> SearchResult:
    with open_library(library, encoder=PixelEncoder()) as opened:
        return opened.search(query)


def test_a_clip_is_found_by_what_is_said_and_shown_where_it_is(place: Path) -> None:
    for query, number, start_s, text, whole in (
        ("the old quayside", 0, 0.1, SPOKEN[0][0], True),
        ("a ferry is waiting", 0, 0.7, SPOKEN[0][1], True),
        ("lighthouse keepers", 1, 0.7, SPOKEN[1][1], True),
        ("雨が降る", 2, 0.7, "明日の朝は雨が降るでしょう。", False),  # a part of what has no spaces
    ):
        hit = search(place / "library", query).hits[0]
        assert Path(hit.path).name == f"clip_{number:02}.mp4", query
        assert (hit.weaker, hit.said[0].text, hit.said[0].start_s) == (False, text, start_s), query
        assert (hit.written >= FITS) == whole, query
        assert hit.moments[0].time_s == hit.moments[0].start_s == start_s, query
        assert hit.scores["said"] > 0.8, query
    found = search(place / "library", "the old quayside").hits[0].said[0]
    assert [found.text[slice(*mark)] for mark in marks(found.text, found.matched, found.found)] == ["old", "quayside"]


def test_words_that_are_not_said_are_not_guessed_at(place: Path) -> None:
    for query in ("lightning", "quaysode", "key", "house", "ferr"):
        assert not any(hit.said for hit in search(place / "library", query).hits), query


def test_words_over_two_subtitles_are_found_together(place: Path) -> None:
    hit = search(place / "library", "lighthouse sleeps").hits[0]
    assert Path(hit.path).name == "clip_01.mp4"
    assert hit.written == 1.0
    assert {one.text for one in hit.said} == set(SPOKEN[1][1:])


WORDS = ("red", "tram", "night", "ferry", "the", "bell")
Said = list[list[str]]


def library_of(said: Said) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_schema(connection)
    with transaction(connection):
        for number, lines in enumerate(said):
            clip_id = f"{number:032x}"
            connection.execute(
                "INSERT INTO clips VALUES (?, 'mp4', 'h264', 1, 1, 60.0, 25.0, 0, 0, '[]', '')", (clip_id,)
            )
            spoken = [Utterance(line, 10.0 * n, 10.0 * n + 5, "sidecar") for n, line in enumerate(lines)]
            put_rows(connection, clip_id, speech_rows(clip_id, [Transcript("sidecar", "a.srt", tuple(spoken))]))
            index_clip_text(connection, clip_id)
    return connection


LINES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), max_size=4)


@settings(max_examples=20)
@given(st.lists(LINES, min_size=1, max_size=5), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
def test_the_share_that_is_said_is_that_of_plain_counting(said: Said, asked: list[str]) -> None:
    query = " ".join(asked)
    every = [line.split() for lines in said for line in lines]
    terms = content_words(query)
    weight = {
        term: math.log(
            1 + (len(every) - sum(term in line for line in every) + 0.5) / (sum(term in line for line in every) + 0.5)
        )
        for term in terms
    }
    expected = {}
    for number, lines in enumerate(said):
        there = {word for line in lines for word in words(line)}
        if share := sum(weight[term] for term in terms if term in there) / sum(weight.values()):
            expected[f"{number:032x}"] = share
    with closing(library_of(said)) as connection:
        found = word_hits(connection, "said", query)
        assert {match.clip_id: match.coverage for match in found} == pytest.approx(expected)
        assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)
        for match in found:
            own = said[int(match.clip_id, 16)]
            assert all(hit.text in own and set(hit.matched) <= set(words(hit.text)) for hit in match.hits)


@settings(max_examples=20)
@given(st.lists(LINES, min_size=1, max_size=4), st.data())
def test_the_index_of_what_is_said_is_kept_as_it_would_be_built(said: Said, data: st.DataObject) -> None:
    with closing(library_of(said)) as connection:
        number = data.draw(st.integers(0, len(said) - 1))
        clip_id = f"{number:032x}"
        with transaction(connection):
            remove_texts(connection, SAID, clip_id)
            new = tuple(Utterance(line, 1.0, 2.0, "stream") for line in data.draw(LINES))
            put_rows(connection, clip_id, speech_rows(clip_id, [Transcript("stream", "0", new)]))
            index_texts(connection, SAID, clip_id)
        kept = tables(connection)
        with transaction(connection):
            rebuild_full_text(connection)
        assert kept == tables(connection)


def tables(connection: sqlite3.Connection) -> list[list[tuple[object, ...]]]:
    queries = (
        "rowid, text FROM said_words",
        "word, texts FROM said_vocabulary WHERE texts > 0",
        "* FROM said_blocks",
    )
    return [sorted(connection.execute(f"SELECT {query}").fetchall()) for query in queries]
