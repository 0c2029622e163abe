"""Words of an index that stand for the words of a query: looked up, and kept while the catalog is the same."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache, partial

from evenreel.library.search.spellings import (
    Spellings,
    Words,
    WordSource,
    exact_spellings,
    runs_of,
    spellings,
    split_words,
)

KEPT_WORDS = 1_024
"""Most words, or runs of words, of which is kept how they are spelt: some kilobytes each at most."""


class SpeltWords:
    """Reader of how words are spelt in one state of a catalog; keeps it of the words that were last looked up."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.spellings = lru_cache(KEPT_WORDS)(partial(spellings, connection))
        self.split = lru_cache(KEPT_WORDS)(lambda word, source: tuple(split_words(connection, word, source)))


def lookups(known: sqlite3.Connection | SpeltWords, query: Words, source: WordSource) -> Spellings:
    """Find the index words to look up for each word of a query."""
    known = SpeltWords(known) if isinstance(known, sqlite3.Connection) else known
    if query.exact:
        return {spelt: {0: 1.0} for spelt in exact_spellings(known.connection, query.terms[0], source)}
    found: dict[str, dict[int, float]] = defaultdict(dict)

    def add(spelt: str, places: Sequence[int], similarity: float) -> None:
        found[spelt].update({place: max(similarity, found[spelt].get(place, 0.0)) for place in places})

    for run, places in runs_of(query.terms, query.in_order).items():
        for spelt, similarity in known.spellings(run, source, begun=run[-1] == query.typed).items():
            add(spelt, places, similarity)
    for place, word in enumerate(query.terms):
        for pair, similarity in known.split(word, source):
            add(pair, (place,), similarity)
    return found
