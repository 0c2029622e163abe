"""Words that bring hubs: those whose queries have more hubs among their first clips than other queries have.

TITAN (section 3.2.2) says that a matcher which attends too much to some words returns one video for all queries that
have them, and masks these words. Here they are found in any ranking: the effect of a word is a difference of means, and
its test that of a correlation under permutations of the clusters of captions (Pitman 1937).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri

from evenreel.arrays import Column
from evenreel.evaluation.intervals import numbered
from evenreel.language import Tagged, load_tagger, unknown_share
from evenreel.types import Corpus, ScoreBlocks

PARTS = ("noun", "verb", "adjective")
"""Of speech, those that TITAN counts."""

MOST_TAGGED = 5_000
"""Queries whose words are looked at, drawn at random where there are more."""

FEWEST = 5
"""A word of fewer clusters of captions is not looked at."""

CONFIDENCE = 0.95
"""That none of all words is listed by chance (Bonferroni)."""

_MOST_UNKNOWN = 0.5
"""Captions with a larger share of unknown words are not English."""


@dataclass(frozen=True)
class WordHubness:
    """A word whose queries have more hubs among their first clips than other queries.

    Attributes:
        word: lemma of the word.
        part: part of speech.
        queries: number of queries that have it.
        hubs: mean number of hubs among the first clips of these queries.
        others: mean number of hubs among the first clips of the other queries.
    """

    word: str
    part: str
    queries: int
    hubs: float
    others: float


@dataclass(frozen=True)
class QueryWords:
    """Words that bring hubs: those whose queries have significantly more hubs among their first clips.

    Attributes:
        found: the words, by the number of hubs' places that they add.
        looked_at: number of words that were tested.
        queries: number of queries that were tagged.
        of: number of queries with words.
        tagger: name of the tagger; empty where there was nothing to tag.
        english: whether the queries are in English; False where most words are unknown.
    """

    found: tuple[WordHubness, ...] = ()
    looked_at: int = 0
    queries: int = 0
    of: int = 0
    tagger: str = ""
    english: bool = True


@dataclass(frozen=True, eq=False)
class _Bag:
    """(Q, W) which query has which word, and the words."""

    has: sparse.csr_array
    words: Sequence[tuple[str, str]]


def texts_of(scores: ScoreBlocks, corpus: Corpus) -> Mapping[str, str]:
    """Return the texts of queries by id, from the notes of scores (as for a library's queries) or from the corpus."""
    known = dict(corpus.captions.select("caption_id", "text").iter_rows())
    return known | dict(scores.about.texts)


def query_words(
    texts: Sequence[str | None], hub_places: Column, clusters: NDArray[np.int64], seed: int = 0
) -> QueryWords:
    """Find the words whose queries have more hubs among their first clips than the other queries have.

    Args:
        texts: Q texts of queries, None where not known.
        hub_places: (Q,) number of hubs among the first clips.
        clusters: (Q,) cluster of each query, such as the clip of a caption; those of one are no independent evidence.
        seed: seed of the sample where there are more than `MOST_TAGGED`.
    """
    rows = np.array([row for row, text in enumerate(texts) if text], dtype=np.int64)
    of = len(rows)
    if not of or not hub_places[rows].any():
        return QueryWords(of=of)
    if of > MOST_TAGGED:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_TAGGED, replace=False))
    tagger = load_tagger()
    tagged = tagger.tag([texts[row] or "" for row in rows.tolist()])
    if unknown_share(tagged) > _MOST_UNKNOWN:
        return QueryWords((), 0, len(rows), of, tagger.name, english=False)
    found, looked_at = hub_words(tagged, hub_places[rows], clusters[rows])
    return QueryWords(found, looked_at, len(rows), of, tagger.name)


def hub_words(
    tagged: Sequence[Tagged], hub_places: Column, clusters: NDArray[np.int64]
) -> tuple[tuple[WordHubness, ...], int]:
    """Find the words whose queries have more hubs among their first clips; also return how many words were tested.

    Args:
        tagged: tokens of Q queries.
        hub_places: (Q,) number of hubs among the first clips.
        clusters: (Q,) cluster of each query; those of one are no independent evidence.
    """
    bag = _bag(tagged)
    member, count = numbered(clusters)
    sizes = np.bincount(member, minlength=count)
    # A cluster counts once, with the share of its captions that have a word and with their mean number of hubs.
    means = sparse.csr_array((1 / sizes[member], (member, np.arange(len(member)))), shape=(count, len(member)))
    shares = sparse.csr_array(means @ bag.has)
    kept = np.flatnonzero(np.bincount(shares.indices, minlength=len(bag.words)) >= FEWEST)
    z = _correlations(shares[:, kept], means @ hub_places) * (count - 1) ** 0.5
    told = kept[z > ndtri(1 - (1 - CONFIDENCE) / max(len(kept), 1))]
    queries = np.asarray(bag.has.sum(axis=0)).ravel()[told]
    held = (bag.has.T @ hub_places)[told]
    others = (hub_places.sum() - held) / np.maximum(len(tagged) - queries, 1)
    added = held - queries * hub_places.mean()
    order = np.argsort(-added, kind="stable")
    listed = []
    for at in order.tolist():
        lemma, part = bag.words[told[at]]
        listed.append(WordHubness(lemma, part, int(queries[at]), float(held[at] / queries[at]), float(others[at])))
    return tuple(listed), len(kept)


def _correlations(shares: sparse.csr_array, places: Column) -> Column:
    """(W,) of (G, W) columns with a (G,) column; 0 where one of them is constant."""
    count = len(places)
    apart = places - places.mean()
    means = np.asarray(shares.sum(axis=0)).ravel() / count
    squares = np.asarray(shares.multiply(shares).sum(axis=0)).ravel() / count - means**2
    below = np.sqrt(np.maximum(squares, 0.0) * (apart**2).mean()) * count
    above = shares.T @ apart
    return np.asarray(np.divide(above, below, out=np.zeros(len(above)), where=below > 1e-12))


def _bag(tagged: Sequence[Tagged]) -> _Bag:
    number: dict[tuple[str, str], int] = {}
    rows, columns = [], []
    for row, tokens in enumerate(tagged):
        own = dict.fromkeys((token.lemma, token.part) for token in tokens if token.part in PARTS)
        for lemma, part in own:
            rows.append(row)
            columns.append(number.setdefault((lemma, str(part)), len(number)))
    has = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(tagged), len(number)))
    return _Bag(has, list(number))
