"""Examples that are offered were run, and found more than weaker matches; each kind has one before another has two."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.library.contents import ExampleKind, example_candidates, tried_examples
from evenreel.library.search.result import Hit, SearchResult
from tests.library.fakes import empty_catalog

KINDS: tuple[ExampleKind, ...] = ("read", "said", "caption")
HIT = Hit("c", "/v/c.mp4", 1.0, False, None, 1.0, {}, (), (), 1.0)


def searcher(fitting: set[str], refused: set[str]) -> tuple[list[str], object]:
    """A search that is answered for these words, and refuses others; and what it was asked."""
    asked: list[str] = []

    def search(text: str) -> SearchResult:
        asked.append(text)
        if text in refused:
            raise UsageError("wrong quotes")
        return SearchResult(text, (replace(HIT, weaker=text not in fitting),))

    return asked, search


TEXTS = st.lists(st.sampled_from([a + b for a, b in product("abc", "xyz")]), max_size=4, unique=True)


@given(
    candidates=st.dictionaries(st.sampled_from(KINDS), TEXTS),
    fitting=st.sets(st.sampled_from([a + b for a, b in product("abc", "xyz")])),
    refused=st.sets(st.sampled_from(["ax", "by"])),
)
def test_only_what_fits_is_offered_kinds_in_turn(
    candidates: dict[ExampleKind, list[str]], fitting: set[str], refused: set[str]
) -> None:
    asked, search = searcher(fitting, refused)
    found = tried_examples(candidates, search)  # type: ignore[arg-type]
    good = {kind: [text for text in texts if text in fitting - refused] for kind, texts in candidates.items()}
    in_turn = [(kind, texts[place]) for place in range(4) for kind, texts in good.items() if place < len(texts)]
    expected: list[tuple[ExampleKind, str]] = []
    for kind, text in in_turn:
        if text not in [told for _, told in expected] and len(expected) < 3:
            expected.append((kind, text))
    assert [(one.kind, one.query) for one in found] == expected
    assert {one.query for one in found} <= set(asked)


@pytest.fixture
def catalog() -> sqlite3.Connection:
    """Two clips with signs, words that are said, and captions."""
    connection = empty_catalog()
    for clip in ("1", "2"):
        connection.execute("INSERT INTO clips VALUES (?, 'mp4', 'h264', 1, 1, 1, 1, 1, 1, '[]', '')", (clip,))
    connection.executemany(
        "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id, metadata)"
        " VALUES (?, 'a.mp4', '/v', 1, 1, 1, ?, ?, ?)",
        [
            ("/v/a.mp4", "indexed", "1", '{"caption": "a tram in the rain"}'),
            ("/v/b.mp4", "missing", "2", '{"caption": "a ferry that has gone"}'),
            ("/v/c.mp4", "indexed", "2", '{"caption": 12345678901}'),
        ],
    )
    signs = [
        *(("1", 0, "HARBOUR", 0.99), ("2", 0, "HARBOUR", 0.99), ("1", 1, "FERRY", 0.99), ("1", 2, "12:30", 0.99)),
        *(("1", 3, "SURE", 0.5), ("1", 4, 'the "CAFE"', 0.99), ("1", 5, "A" * 61, 0.99), ("1", 6, "seen: X", 0.99)),
    ]
    connection.executemany(
        "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
        " VALUES (?, ?, ?, '[]', ?, 0, 1, '[]')",
        signs,
    )
    connection.executemany(
        "INSERT INTO utterances (clip_id, number, transcript, text, start_s, end_s, words)"
        " VALUES ('1', ?, 0, ?, 0, 1, '[]')",
        [(0, "Good day."), (1, "The ferry waits for nobody."), (2, "Yes."), (3, "a\nline\nand another one")],
    )
    return connection


def test_candidates_are_short_lines_of_words_that_are_there(catalog: sqlite3.Connection) -> None:
    assert example_candidates(catalog) == {
        "read": ["HARBOUR", "FERRY"],  # that of two clips first; no figures, nothing unsure, no sign of the language
        "said": ["The ferry waits for nobody.", "Good day."],  # sentences before two words, and one line
        "caption": ["a tram in the rain"],
    }
