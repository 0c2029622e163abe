"""Searches to offer to whoever does not know a library yet, each of which was found to be answered by it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from evenreel.errors import UsageError
from evenreel.library.contents import LONGEST_EXAMPLE
from evenreel.library.search.hits import SearchResult
from evenreel.wording import is_printable

ExampleKind = Literal["read", "said", "caption"]

MOST_EXAMPLES = 3
TRIED = 6
"""Most searches of each kind that are tried."""

_LETTERS = "text GLOB '*[^0-9 .,:/-]*' AND text NOT GLOB '*[\"“”:]*'"  # words, and no sign of the query language
_CANDIDATES: Mapping[ExampleKind, str] = {
    "read": f"SELECT text FROM tracks WHERE confidence > 0.9 AND length(text) BETWEEN 4 AND ?1 AND {_LETTERS}"
    " GROUP BY text ORDER BY count(DISTINCT clip_id) DESC, text LIMIT ?2",
    "said": f"SELECT text FROM utterances WHERE length(text) BETWEEN 8 AND ?1 AND {_LETTERS}"
    " ORDER BY length(text) - length(replace(text, ' ', '')) < 2, utterance_id LIMIT ?2",
    "caption": "SELECT json_extract(metadata, '$.caption') AS text FROM files WHERE state = 'indexed'"
    f" AND length(text) BETWEEN 8 AND ?1 AND {_LETTERS} ORDER BY path LIMIT ?2",
}


@dataclass(frozen=True)
class TriedExample:
    """A search that finds more than weaker matches: for words on screen (`read`), words `said`, or a `caption`."""

    kind: ExampleKind
    query: str


def example_candidates(connection: sqlite3.Connection) -> dict[ExampleKind, list[str]]:
    """List what could be searched for: texts of the catalog in one short line, those of each kind in their order."""
    found: dict[ExampleKind, list[str]] = {}
    for kind, sql in _CANDIDATES.items():
        texts = (str(text).strip() for (text,) in connection.execute(sql, (LONGEST_EXAMPLE, TRIED)))
        found[kind] = [text for text in dict.fromkeys(texts) if all(map(is_printable, text))]
    return found


def tried_examples(
    candidates: Mapping[ExampleKind, list[str]], search: Callable[[str], SearchResult]
) -> list[TriedExample]:
    """Try candidates until three are found that some clip fits: of each kind the first, then the second of each."""
    fitting = [_fitting(kind, texts, search) for kind, texts in candidates.items()]
    in_turn = (one for several in zip_longest(*fitting) for one in several if one is not None)
    chosen: dict[str, TriedExample] = {}
    for example in in_turn:
        chosen.setdefault(example.query.casefold(), example)
        if len(chosen) == MOST_EXAMPLES:
            break
    return list(chosen.values())


def _fitting(kind: ExampleKind, texts: list[str], search: Callable[[str], SearchResult]) -> Iterator[TriedExample]:
    for text in texts:
        try:
            if search(text).answering:
                yield TriedExample(kind, text)
        except UsageError:  # words that the language of queries reads in another way
            continue
