"""The channels of words: clips by what is written on screen, what is said, and their names and captions.

A clip's coverage is the share of the query's weight (rare words weigh more, by BM25's inverse document frequency) that
is written there, each word by its best text. Its score is the same with each word's similarity times the recogniser's
confidence, times how near its text is in time to the one that the others are measured from, the centre: the texts that
have most of the query by themselves are tried, at most `MAX_ANCHORS`. A name and its caption are one text, and have no
time; a clip of several files has the coverage of the best.

A word of n letters of a query is found as

- itself: similarity 1; a run of words, two neighbours or the whole query, without spaces ('japan netherlands' in
  JAPANNETHERLANDS), and a word that is written as two ('wintercup' on WINTER CUP): 1, or 0.9 where one of the two is a
  single letter;
- another form of it, plural, past and the like ('pools' on POOL): 0.97; 0.9 where a noun of doing would be a form of a
  verb, since an evening is not even;
- the beginning of a word while the query is still typed, from two letters on: 1 - 1 / (2 n);
- a part of a longer word, as a chance hit is likelier for a short word: 1 - 1 / (2 n). On signs, where spaces are lost,
  anywhere from four letters on; in names and captions at an end of the longer word from five letters on;
- a word with at most (n - 1) // 4 wrong letters: 1 - errors / n. Two neighbours that have changed places are one error.
  The bound keeps chance low: among the 4,784 words of the TextVR test captions, a word of 4 letters has 3.8 others one
  letter away, of 5 letters 1.4, of 7 letters 0.23, and of 9 letters 0.36 within two. The base form is tried, too.

A run stands for each of its words, so each must be there: it may have as many wrong letters as the shortest of them
alone, which are none where that has up to four letters, and has no other forms. BASKETBALL is not 'basketball dog' with
three letters less. Numbers are never guessed: one in the query is found only as it is, neither in another number nor
as a part of one; 'gate 7' is not on GATE 1, nor on GATE 72.

A recogniser misreads signs, so letters there are wrong beside signs that are right. People type names and captions:
a word found exactly there is not guessed at a second time. What is said is written by people, or by a speech model out
of words that it knows: where one is wrong it is another word and not a misspelt one. So words that are said are not
guessed at, nor looked for inside longer ones but in scripts without spaces between words.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from evenreel.arrays import Column, Flags, Indices
from evenreel.language.folding import are_forms, fold, irregular_forms, is_noun_of_doing, regular_base, words
from evenreel.library.search.query import MAX_CONTENT_WORDS, Query
from evenreel.library.search.result import Channel, TextHit
from evenreel.library.search.snapshot import Snapshot, numbers
from evenreel.library.store.fulltext import ABOUT, FACTS, ON_SCREEN, SAID, TextKind, phrase, read_facts

MAX_JOINED, MAX_SIMILAR, LEAST_SPLIT = 8, 64, 4
MAX_BEGINNING = 1_000  # most words with one beginning that are looked at, the most frequent ones
LONGEST_ENDING = 4  # most letters by which two forms of a word may differ at their ends: 'swimming' and 'swim'
FORM, DOING, SPLIT_LETTER = 0.97, 0.9, 0.9
LAST, WITHOUT_SPACES = "\U0010ffff", "\u2e80"  # the latter: first letter of the scripts without spaces between words
NUMBER = re.compile(r"\d+")
KEPT_WORDS = 1_024  # most words, or runs of words, of which is kept how they are spelt: some kilobytes each at most
FEW_WORDS = 100  # most words that are put into a vocabulary one by one

MAX_SHOWN, MAX_ANCHORS, CLIPS_AT_ONCE, FAR_S = 5, 32, 8_192, 30.0
DECIMALS = 9  # decimals of shares: the order of the words must not make equal clips differ

Run = tuple[str, ...]  # words that may be written without spaces between them; a word is a run of one


class WordSource(NamedTuple):
    """A kind of text that words are looked up in."""

    kind: TextKind  # its tables
    least_inside: int  # fewest letters of a word that is looked for inside longer ones
    # True for text that people typed: words found exactly are not guessed at, and a part of a word is one of its ends
    typed: bool = False
    guessed: bool = True  # whether words are looked for with wrong letters, and inside longer ones of any script


SOURCES: Mapping[Channel, WordSource] = {
    "on_screen": WordSource(ON_SCREEN, 4),
    "said": WordSource(SAID, 2, guessed=False),
    "about": WordSource(ABOUT, 5, typed=True),
}
TIMED: tuple[Channel, ...] = ("on_screen", "said")  # channels of words that are there at a time


def runs_of(terms: Sequence[str], in_order: Sequence[str]) -> dict[Run, tuple[int, ...]]:
    """Return the words of a query and its runs of words, with the numbers of the query words that each stands for."""
    number = {word: place for place, word in enumerate(terms)}
    runs: list[Run] = [pair for pair in pairwise(in_order) if pair[0] in number and pair[1] in number]
    if 1 < len(in_order) <= MAX_JOINED:
        runs.append(tuple(in_order))
    found: dict[Run, tuple[int, ...]] = {(word,): (place,) for word, place in number.items()}
    found.update(
        {run: tuple(number[word] for word in run if word in number) for run in runs if "".join(run) not in number}
    )
    return found


def allowed_errors(*letters: int) -> int:
    """Return how many letters of a word, or of words without spaces between them, may be wrong (module docstring).

    >>> allowed_errors(9), allowed_errors(9, 11), allowed_errors(10, 3)
    (2, 2, 0)
    """
    return max(0, (min(letters) - 1) // 4)


class Vocabulary:
    """The words of one index, and how those of queries may be spelt there; outlives changes of the catalog."""

    def __init__(self, source: WordSource) -> None:
        self.source = source
        self._clear()

    def _clear(self) -> None:
        self.texts: dict[str, int] = {}
        self._change, self._sorted, self._joined = -1, list[str](), "\n"
        self._letters, self._lengths = np.empty(0, np.uint64), np.empty(0, np.int64)

    @property
    def count(self) -> int:
        return self.texts.get("", 0)

    def refresh(self, connection: sqlite3.Connection) -> None:
        table = self.source.kind.vocabulary
        oldest, change = (
            connection.execute(f"SELECT ifnull({which}(change), 0) FROM {table}").fetchone()[0]
            for which in ("min", "max")
        )
        if change == self._change:
            return
        if not oldest <= self._change < change:  # the index was made anew
            self._clear()
        rows = connection.execute(f"SELECT word, texts FROM {table} WHERE change > ?", (self._change,)).fetchall()
        self._change = change
        new = [word for word, texts in rows if word and texts and not self.texts.get(word)]
        gone = {word for word, texts in rows if not texts and self.texts.pop(word, 0)}
        self.texts.update((word, texts) for word, texts in rows if texts)
        self.spellings = lru_cache(KEPT_WORDS)(self._spellings)
        if gone or len(new) > FEW_WORDS:
            self._sorted = sorted(word for word in self.texts if word)
            self._letters, self._lengths = self._shapes(self._sorted)
        else:
            for word in new:
                at = bisect_left(self._sorted, word)
                self._sorted.insert(at, word)
                letters, lengths = self._shapes([word])
                self._letters = np.insert(self._letters, at, letters)
                self._lengths = np.insert(self._lengths, at, lengths)
        if new or gone:
            self._joined = "\n".join(["", *self._sorted, ""])

    def _shapes(self, some: Sequence[str]) -> tuple[NDArray[np.uint64], Indices]:
        """Which letters words have, a bit for each, some letters sharing one; and how many: (n,), (n,)."""
        lengths = np.fromiter(map(len, some), np.int64, len(some))
        letters = np.frombuffer("".join(some).encode("utf-32-le", "surrogatepass"), "<u4")
        bits = np.uint64(1) << (letters & np.uint32(63)).astype(np.uint64)
        return np.bitwise_or.reduceat(bits, np.cumsum(lengths) - lengths) if len(some) else bits, lengths

    def lookups(self, query: Query) -> dict[str, dict[int, float]]:
        """Find the words, and pairs of words, to look up: the query words each stands for, and how alike they are."""
        if query.asked is not None and query.asked.exact:
            (whole,) = query.terms
            longer = () if " " in whole or whole < WITHOUT_SPACES else self._containing(whole)
            return {spelt: {0: 1.0} for spelt in dict.fromkeys([whole, *(word for word, _ in longer)])}
        found: dict[str, dict[int, float]] = defaultdict(dict)
        for run, places in runs_of(query.terms, query.in_order).items():
            for spelt, alike in self.spellings(run, begun=run[-1] == query.typed).items():
                for place in places:
                    found[spelt][place] = max(alike, found[spelt].get(place, 0.0))
        for place, word in enumerate(query.terms):
            for cut in range(1, len(word)) if len(word) >= LEAST_SPLIT else ():
                first, second = word[:cut], word[cut:]
                if first in self.texts and second in self.texts:
                    alike = SPLIT_LETTER if 1 in {len(first), len(second)} else 1.0
                    found[f"{first} {second}"][place] = alike
        return found

    def _spellings(self, run: Run, *, begun: bool = False) -> dict[str, float]:
        """Find words that a folded word, or a run of words, may be written as: itself and the most alike."""
        term, found = "".join(run), dict[str, float]()
        forms = dict(self._forms(term)) if len(run) == 1 else {}
        guesses: list[Iterable[tuple[str, float]]] = []
        if not self.source.guessed:
            guesses += [self._containing(term)] if term >= WITHOUT_SPACES else []
        elif not self.source.typed or not (forms or term in self.texts):
            guesses += [self._misread(term, allowed_errors(*map(len, run))), self._containing(term)]
            base = regular_base(term) if len(run) == 1 else term
            if base != term:
                guesses.append((word, FORM * alike) for word, alike in self._misread(base, allowed_errors(len(base))))
        if begun:
            guesses.append((word, _part(term)) for word in self._beginning(term))
        for guess in (*guesses, forms.items()):
            for word, alike in guess:
                found[word] = max(alike, found.get(word, 0.0))
        found[term] = 1.0
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:MAX_SIMILAR])

    def _beginning(self, start: str) -> list[str]:
        some = self._sorted[bisect_left(self._sorted, start) : bisect_left(self._sorted, start + LAST)]
        return sorted(some, key=lambda word: (-self.texts[word], word))[:MAX_BEGINNING]

    def _forms(self, word: str) -> Iterator[tuple[str, float]]:
        if not word.isalpha() or not word.isascii():  # the tables are of English
            return
        for other in irregular_forms(word):
            if other in self.texts:
                yield other, FORM
        for other in self._beginning(word[: max(3, len(word) - LONGEST_ENDING)]):
            if other != word and abs(len(other) - len(word)) <= LONGEST_ENDING and are_forms(word, other):
                doing = is_noun_of_doing(word) or is_noun_of_doing(other)
                yield other, DOING if doing and not are_forms(word, other, "noun") else FORM

    def _containing(self, word: str) -> Iterator[tuple[str, float]]:
        """Longer written words that contain this one; all are alike to the same degree."""
        least = self.source.least_inside
        if len(word) < least and not (len(word) > 1 and word >= WITHOUT_SPACES):
            return
        found, at = 0, self._joined.find(word)
        while at >= 0 and found < MAX_SIMILAR:
            end = self._joined.index("\n", at)
            longer = self._joined[self._joined.rindex("\n", 0, at) + 1 : end]
            at_an_end = not self.source.typed or longer.startswith(word) or longer.endswith(word)
            if at_an_end and _has_numbers(longer, word):
                found += 1
                yield longer, _part(word)
            at = self._joined.find(word, end)

    def _misread(self, word: str, errors: int) -> Iterator[tuple[str, float]]:
        """Written words that differ from this one in so many letters."""
        if not errors:
            return
        # A wrong letter takes one of the letters away and brings another: of most words more are others.
        near = np.abs(self._lengths - len(word)) <= errors
        near[near] = _set_bits(self._letters[near] ^ self._shapes([word])[0]) <= 2 * errors
        some = [self._sorted[place] for place in np.flatnonzero(near).tolist()]
        for other, distance, _ in process.extract(word, some, scorer=OSA.distance, score_cutoff=errors, limit=None):
            if _has_numbers(other, word):
                yield other, 1 - distance / len(word)


def _set_bits(values: NDArray[np.uint64]) -> NDArray[np.uint8]:
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(values), np.uint8)
    bits = np.unpackbits(values[:, None].view(np.uint8), axis=1)
    return np.asarray(bits.sum(1), np.uint8)


def _part(word: str) -> float:
    return 1 - 1 / (2 * len(word))


def _has_numbers(written: str, query: str) -> bool:
    """Whether the numbers of the query are written as they are; letters may be misread as digits."""
    wanted = NUMBER.findall(query)
    return not wanted or Counter(wanted) <= Counter(NUMBER.findall(written))


def vocabulary(s: Snapshot, channel: Channel) -> Vocabulary:
    if ("words", channel) not in s.kept:
        found = s.held.setdefault(("words", channel), Vocabulary(SOURCES[channel]))
        found.refresh(s.connection)
        s.kept["words", channel] = found
    known: Vocabulary = s.kept["words", channel]
    return known


@dataclass(frozen=True, eq=False)
class WordMatches:
    """What a channel of words says of clips; C places, and R texts that have words of the query."""

    source: WordSource  # the kind of text
    coverage: Column  # (C,) share of the query's weight that is written on each clip
    scores: Column  # (C,) by which clips stand
    terms: tuple[str, ...] = ()  # words of the query
    # words of the index -> the texts with it, rising, and the query words that it stands for
    spelt: Mapping[str, tuple[Indices, Mapping[int, float]]] = field(default_factory=dict)
    rows: Indices = field(default_factory=lambda: np.empty(0, np.int64))  # (R,) numbers of the texts, rising
    # (R,) what the index knows of them, see `fulltext.FACTS`
    facts: NDArray[np.void] = field(default_factory=lambda: np.empty(0, FACTS))
    # (R,) share of the query that each text has by itself, times its confidence and the query's weight
    own: Column = field(default_factory=lambda: np.empty(0))
    # of a clip with several words, by its place: the text that the others are measured from, by its place
    centre: dict[int, int] = field(default_factory=dict)

    def texts_of(self, place: int) -> Indices:
        return np.flatnonzero(self.facts["clip"] == place)

    def best_texts(self, place: int) -> Indices:
        rows = self.texts_of(place)
        facts, own = self.facts[rows], self.own[rows]
        first = np.lexsort((facts["start_s"], -own))
        at = np.searchsorted(rows, self.centre[place]) if place in self.centre else first[0] if len(first) else 0
        near = own * closeness(facts[at : at + 1], facts)
        shown: Indices = rows[first[np.argsort(-near[first], kind="stable")][:MAX_SHOWN]]
        return shown

    def shares(self, place: int) -> Column:
        """Return the share of the query that each of a clip's texts has: the clip's for the best, less for others."""
        own = self.own[self.texts_of(place)]
        return float(self.coverage[place]) * own / max(float(own.max(initial=0.0)), 1e-12)


def score(s: Snapshot, channel: Channel, query: Query, allowed: Flags) -> WordMatches:
    """Score the allowed clips (C,) by the words of a query in a channel."""
    source, clips = SOURCES[channel], len(s.there)
    none = WordMatches(source, np.zeros(clips), np.zeros(clips), query.terms)
    if not query.terms:
        return none
    known = vocabulary(s, channel)
    exact = query.asked is not None and query.asked.exact
    looked_for = known.lookups(query)
    spelt = {one: (_texts_with(s, source.kind, one, exact=exact), places) for one, places in looked_for.items()}
    spelt = {one: found for one, found in spelt.items() if len(found[0])}
    if not spelt:
        return none
    several = [found for found, _ in spelt.values()]
    rows = several[0]
    if len(several) > 1:
        rows = np.sort(np.concatenate(several), kind="stable")  # merges runs that rise
        rows = rows[np.flatnonzero(np.diff(rows, prepend=-1))]
    facts = read_facts(s.connection, source.kind, rows)
    kept = facts["clip"] < clips
    kept[kept] = allowed[facts["clip"][kept]]
    rows, facts = rows[kept], facts[kept]
    weights = _weights([_count(s, known, term) for term in query.terms], known.count)
    matched = [_with_word(place, spelt, rows) for place in range(len(query.terms))]
    own = np.zeros(len(rows))
    for weight, (at, alike) in zip(weights, matched, strict=True):
        own[at] += weight * alike
    own *= facts["confidence"]
    found = WordMatches(source, none.coverage, none.scores, query.terms, spelt, rows, facts, own, {})
    _score_clips(found, matched, weights)
    return found


def _score_clips(found: WordMatches, matched: Sequence[tuple[Indices, Column]], weights: Column) -> None:
    has = np.zeros(len(found.coverage), np.bool_)
    has[found.facts["clip"]] = True
    places = np.flatnonzero(has)
    if not len(places):
        return
    if found.source.kind is ABOUT:
        np.maximum.at(found.coverage, found.facts["clip"], np.round(found.own, DECIMALS))
        found.scores[places] = found.coverage[places]
        return
    clip = (np.cumsum(has) - 1)[found.facts["clip"]]
    confidence = np.ascontiguousarray(found.facts["confidence"])
    coverage, scores, words_there = np.zeros(len(places)), np.zeros(len(places)), np.zeros(len(places), np.int64)
    for weight, (at, alike) in zip(weights, matched, strict=True):
        best, sure = np.zeros((2, len(places)))
        np.maximum.at(best, clip[at], alike)
        np.maximum.at(sure, clip[at], alike * confidence[at])
        coverage += weight * best
        words_there += best > 0
        np.maximum(scores, weight * sure, out=scores)
    several = words_there > 1
    rows = np.flatnonzero(several[clip])
    order = np.lexsort((found.facts["start_s"][rows], -found.own[rows], clip[rows]))
    rows = rows[order]  # of each clip the text with most of the query first
    starts = np.flatnonzero(np.diff(clip[rows], prepend=-1))
    ends = np.append(starts[1:], len(rows))
    for one in range(0, len(starts), CLIPS_AT_ONCE):
        some = slice(one, one + CLIPS_AT_ONCE)
        its = rows[starts[some][0] : ends[some][-1]]
        first = starts[some] - starts[some][0]
        alike = _alike(matched, its, len(found.rows)) * confidence[its]
        best, centre = _by_anchors(alike, found.facts[its], first, weights)
        scores[clip[its[first]]] = best
        found.centre.update(zip(places[clip[its[first]]].tolist(), its[centre].tolist(), strict=True))
    found.coverage[places], found.scores[places] = np.round(coverage, DECIMALS), np.round(scores, DECIMALS)


def _alike(matched: Sequence[tuple[Indices, Column]], rows: Indices, texts: int) -> Column:
    """How alike the best spelling of each word on some of the texts is: (words, n)."""
    place = np.full(texts, -1)
    place[rows] = np.arange(len(rows))
    found = np.zeros((len(matched), len(rows)))
    for word, (at, alike) in enumerate(matched):
        here = place[at]
        found[word, here[here >= 0]] = alike[here >= 0]
    return found


def _by_anchors(alike: Column, facts: NDArray[np.void], first: Indices, weights: Column) -> tuple[Column, Indices]:
    """Score clips, whose texts (n,) lie side by side from `first` (c,) on: scores (c,), and their centres (c,)."""
    sizes = np.diff(first, append=len(facts))
    best, centre = np.full(len(first), -1.0), first.copy()
    for rank in range(min(MAX_ANCHORS, int(sizes.max()))):
        which = np.flatnonzero(sizes > rank)
        size, begin = sizes[which], first[which]
        inside = np.cumsum(size) - size
        rows = np.repeat(begin - inside, size) + np.arange(int(size.sum()))
        near = closeness(facts[np.repeat(begin + rank, size)], facts[rows])
        scores = np.round(weights @ np.maximum.reduceat(alike[:, rows] * near, inside, axis=1), DECIMALS)
        better = scores > best[which]
        best[which[better]], centre[which[better]] = scores[better], (begin + rank)[better]
    return best, centre


def closeness(one: NDArray[np.void], other: NDArray[np.void]) -> Column:
    """Return 1 for texts shown together, 3/4 at half a minute, 1/2 however far: it is still the same clip."""
    gap_s = np.maximum(0.0, np.maximum(one["start_s"] - other["end_s"], other["start_s"] - one["end_s"]))
    near: Column = 0.5 + 0.5 / (1 + gap_s / FAR_S)
    return near


def read_texts(s: Snapshot, found: WordMatches, at: Indices) -> list[TextHit]:
    """Read texts on screen, or said, by their places among those that match, with the words by which they do."""
    kind, hits = found.source.kind, list[TextHit]()
    rows = s.connection.execute(
        f"SELECT {kind.key}, text, start_s, end_s FROM json_each(?) AS wanted"
        f" CROSS JOIN {kind.table} ON {kind.table}.{kind.key} = wanted.value ORDER BY wanted.key",
        (json.dumps(found.rows[at].tolist()),),
    )
    for key, text, start_s, end_s in rows:
        has = (one for one, (texts, _) in found.spelt.items() if key in texts[np.searchsorted(texts, key) :][:1])
        there = {one: found.spelt[one][1] for one in has}
        terms = range(len(found.terms))
        alike = [max((places.get(term, 0.0) for places in there.values()), default=0.0) for term in terms]
        matched = tuple(term for term, similarity in zip(found.terms, alike, strict=True) if similarity)
        hits.append(TextHit(text, matched, start_s, end_s, min(filter(None, alike)), tuple(sorted(there))))
    return hits


def _texts_with(s: Snapshot, kind: TextKind, spelt: str, *, exact: bool) -> Indices:
    """Find the texts with a word, or with words side by side, rising."""
    read = s.connection.execute
    if exact and kind is ON_SCREEN and " " in spelt:  # the index has each word of a sign once: these signs are read
        together = " ".join(phrase(word) for word in list(dict.fromkeys(spelt.split()))[:MAX_CONTENT_WORDS])
        rows = read(
            f"SELECT {kind.key}, text, readings FROM {kind.table} WHERE {kind.key} IN"
            f" (SELECT rowid FROM {kind.words} WHERE {kind.words} MATCH ?) ORDER BY {kind.key}",
            (together,),
        )
        found = [
            key
            for key, text, readings in rows
            if any(f" {spelt} " in f" {' '.join(words(one))} " for one in [text, *json.loads(readings)])
        ]
        return np.array(found, np.int64)
    sql = f"SELECT group_concat(rowid) FROM {kind.words} WHERE {kind.words} MATCH ?"
    return numbers(read(sql, (phrase(spelt),)).fetchone()[0])


def _count(s: Snapshot, known: Vocabulary, term: str) -> int:
    """Number of texts with a word; those of names with digits are in no vocabulary, and counted in the index."""
    if known.source.kind is not ABOUT or term in known.texts:
        return known.texts.get(term, 0)
    found: int = s.connection.execute("SELECT count(*) FROM about WHERE about MATCH ?", (phrase(term),)).fetchone()[0]
    return found


def _weights(counts: Sequence[int], total: int) -> Column:
    """BM25's inverse document frequency, always positive (Robertson and Zaragoza 2009, equation 3.15); sums to 1."""
    found = [math.log(1 + (total - count + 0.5) / (count + 0.5)) for count in counts]
    return np.array(found) / math.fsum(found)


def _with_word(
    term: int, spelt: Mapping[str, tuple[Indices, Mapping[int, float]]], rows: Indices
) -> tuple[Indices, Column]:
    """The texts with one word of the query, as places in `rows`, each once with its most similar spelling."""
    some = [(texts, places[term]) for texts, places in spelt.values() if term in places]
    if not some:
        return np.empty(0, np.int64), np.empty(0)
    texts = np.concatenate([texts for texts, _ in some])
    alike = np.repeat([similarity for _, similarity in some], [len(texts) for texts, _ in some])
    if len(some) > 1:
        order = np.argsort(texts, kind="stable")  # merges runs that rise
        texts, alike = texts[order], alike[order]
        first = np.flatnonzero(np.diff(texts, prepend=-1))
        texts, alike = texts[first], np.maximum.reduceat(alike, first)
    at = np.searchsorted(rows, texts)
    there = at < len(rows)
    there[there] = rows[at[there]] == texts[there]
    return at[there], alike[there]


# Places of query words in a text, so that a person sees why a clip was found -----------------------------------------

Stretch = tuple[int, int]  # start and end of a stretch of text, [start, end), in code points


def marks(text: str, matched: Sequence[str], found: Sequence[str]) -> tuple[Stretch, ...]:
    """Find the stretches of a text that match words of a query.

    A word is marked whole, unless only a part of it matches the query. A clip that was found by another reading of the
    text may have nothing to mark.

    Example:
        >>> marks("JAPANNETHERLANDS 2:0", ["japan", "netherlands"], ["japannetherlands"])
        ((0, 16),)
        >>> marks("Hyundri beats the old Rekordlauf", ["hyundai", "rekord"], ["hyundri", "rekordlauf"])
        ((0, 7), (22, 28))
    """
    wanted, by = runs_of(matched, matched), set(found)
    folded, places = _folded(text)
    there, end, stretches = list[tuple[str, int]](), 0, list[Stretch]()
    for word in words(text):
        start = folded.index(word, end)
        end = start + len(word)
        there.append((word, start))
        stretches += _stretches(word, wanted, start) if word in by else []
    for length in {spelt.count(" ") + 1 for spelt in by if " " in spelt}:
        for some in zip(*(there[start:] for start in range(length)), strict=False):
            if " ".join(word for word, _ in some) in by:
                stretches.append((some[0][1], some[-1][1] + len(some[-1][0])))
    marked = {at for start, end in stretches for at in range(places[start][0], places[end - 1][1])}
    starts = sorted(at for at in marked if at - 1 not in marked)
    return tuple(zip(starts, sorted(at + 1 for at in marked if at + 1 not in marked), strict=True))


def _stretches(word: str, wanted: Iterable[Run], at: int) -> list[Stretch]:
    """Where a word that begins at `at` stands for what is wanted: parts of it, or all of it where it has none.

    Of JAPANNETHERLAMDS all is marked, as it is the two words together with a letter wrong, though it has one of them.
    """
    parts: list[Stretch] = []
    for run in wanted:
        term, errors = "".join(run), allowed_errors(*map(len, run))
        if term not in word and errors and OSA.distance(word, term, score_cutoff=errors) <= errors:
            return [(at, at + len(word))]
        parts += [(at + one.start(), at + one.end()) for one in re.finditer(re.escape(term), word)]
    return parts or [(at, at + len(word))]


def _folded(text: str) -> tuple[str, list[Stretch]]:
    """A text folded, and for each letter the stretch it comes from; cut where what is before changes nothing after."""
    if text.isascii():
        return fold(text), [(place, place + 1) for place in range(len(text))]
    starts = [place for place, letter in enumerate(text) if not place or not _goes_with_what_is_before(letter)]
    clusters = list(zip(starts, [*starts[1:], len(text)], strict=True))
    pieces = [fold(text[start:end]) for start, end in clusters]
    whole = fold(text)
    if "".join(pieces) != whole:  # letters that only fold together, which the rule of clusters does not know
        return whole, [(0, len(text))] * len(whole)
    return whole, [cluster for cluster, piece in zip(clusters, pieces, strict=True) for _ in piece]


def _goes_with_what_is_before(letter: str) -> bool:
    """Marks, and the second and third parts of a Korean syllable."""
    first = unicodedata.normalize("NFKD", letter)[0]
    return unicodedata.category(first)[0] == "M" or "\u1160" <= first <= "\u11ff"
