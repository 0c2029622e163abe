"""Spellings under which the words of a query are looked for, and the similarity of each.

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
  HYUNDRI is hyundai with 1 of 7 letters wrong and is accepted; HYUNG has 3 and is not. The bound keeps chance low:
  among the 4,784 words of the TextVR test captions, a word of 4 letters has 3.8 others one letter away (so four letters
  must be right), of 5 letters 1.4, of 7 letters 0.23; a word of 9 letters has 0.36 within two. With 3 errors, 7 letters
  would have 23. The base form is tried, too: 'harbors' is on HARBOUR.

A run stands for each of its words, so each must be there: it may have as many wrong letters as the shortest of them
alone, which are none where that has up to four letters, and has no other forms. BASKETBALL is not 'basketball dog' with
three letters less. Numbers are never guessed: one in the query is found only as it is, neither in another number nor
as a part of one; 'gate 7' is not on GATE 1, nor on GATE 72.

A recogniser misreads signs, so letters there are wrong beside signs that are right. People type names, captions and
queries: a word found exactly in a name or a caption is not guessed at a second time. What is said is written by people,
or by a speech model out of words that it knows: where one is wrong it is another word and not a misspelt one, and there
are so many words that a guess finds a wrong one more often than a right one. So words that are said are not guessed at,
nor looked for inside longer ones but in scripts without spaces between words.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

from evenreel.language.folding import words
from evenreel.language.lemmatiser import are_forms, irregular_forms, is_noun_of_doing, regular_base
from evenreel.library.store.fulltext import NAMES, SIGNS, content_words, padded, phrase
from evenreel.library.store.timed_texts import SAID, Vocabulary

MAX_JOINED = 8
MAX_SIMILAR_WORDS = 64
LEAST_TYPED = 2
LEAST_SPLIT = 4
LONGEST_ENDING = 4
"""Most letters by which two forms of a word may differ at their ends: 'swimming' and 'swim'."""

FORM, DOING, SPLIT_LETTER = 0.97, 0.9, 0.9
LAST = "\U0010ffff"
NUMBER = re.compile(r"\d+")
TRIGRAM = 3
MOST_CUT = 3
"""Most errors for which a word is cut into parts; for more of them, words of 17 letters or more, there are too many."""

WITHOUT_SPACES = "\u2e80"
"""First letter of the scripts without spaces between words, such as Chinese."""

MAX_BEGINNING = 1_000
"""Most words with one beginning that are looked at, the most frequent ones."""

Run = tuple[str, ...]
"""Words that may be written without spaces between them; a word is a run of one."""


Spellings = Mapping[str, Mapping[int, float]]
"""Words and pairs of words of an index, with the numbers of the query words that each stands for, and similarities."""


class WordSource(NamedTuple):
    """A kind of text that words are looked up in.

    Attributes:
        vocabulary: tables of its words.
        least_inside: fewest letters of a word that is looked for inside longer ones.
        typed: True for text that people typed: words found exactly are not guessed at, and a part of a word is one of
            its ends.
        guessed: whether words are looked for with wrong letters, and inside longer ones of any script.
    """

    vocabulary: Vocabulary
    least_inside: int
    typed: bool
    guessed: bool = True


ON_SIGNS = WordSource(SIGNS, 4, typed=False)
IN_NAMES = WordSource(NAMES, 5, typed=True)
IN_SPEECH = WordSource(SAID.vocabulary, 2, typed=False, guessed=False)


@dataclass(frozen=True)
class Words:
    """Words of a query, to be looked up.

    Attributes:
        terms: words to look up, each once.
        in_order: all words, in their order.
        typed: last word, if it may be the beginning of a longer one.
        exact: whether the one term is a phrase, words with spaces between them, to be found as it is.
    """

    terms: Sequence[str]
    in_order: Sequence[str]
    typed: str | None = None
    exact: bool = False


def words_of(query: str, *, typing: bool = False, exact: bool = False) -> Words:
    """Split a query into words; with `typing` the last one may be a beginning, with `exact` all are one phrase."""
    if exact:
        whole = [" ".join(words(query))]
        return Words(whole, whole, exact=True)
    terms, in_order = content_words(query), words(query)
    last = in_order[-1] if typing and in_order else ""
    return Words(terms, in_order, last if len(last) >= LEAST_TYPED and last in terms else None)


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


def spellings(
    connection: sqlite3.Connection, run: Sequence[str], source: WordSource, *, begun: bool = False
) -> dict[str, float]:
    """Find vocabulary words that a folded word, or a run of words, may be written as, with their similarity."""
    term = "".join(run)
    found: dict[str, float] = {}
    forms = dict(_forms(connection, term, source)) if len(run) == 1 else {}
    if not source.guessed:
        if term >= WITHOUT_SPACES:
            _add_better(found, _containing(connection, term, source))
    elif not source.typed or not (forms or _in_vocabulary(connection, [term], source)):
        _add_better(found, _misread(connection, run, source))
        _add_better(found, _containing(connection, term, source))
    if begun:
        _add_better(found, _beginning_with(connection, term, source))
    _add_better(found, forms.items())
    found[term] = 1.0
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return dict(ranked[:MAX_SIMILAR_WORDS])


def exact_spellings(connection: sqlite3.Connection, whole: str, source: WordSource) -> list[str]:
    """Find the words of an index that have a phrase as it is: itself, and without spaces longer words around it."""
    if " " in whole or whole < WITHOUT_SPACES:
        return [whole]
    return list(dict.fromkeys([whole, *(longer for longer, _ in _containing(connection, whole, source))]))


def allowed_errors(*letters: int) -> int:
    """Return how many letters of a word, or of words without spaces between them, may be wrong (module docstring).

    >>> allowed_errors(9), allowed_errors(9, 11), allowed_errors(10, 3)
    (2, 2, 0)
    """
    return max(0, (min(letters) - 1) // 4)


def may_be_inside(word: str, least: int) -> bool:
    """Return whether a folded word is also looked for inside longer ones."""
    return len(word) >= least or (len(word) > 1 and word >= WITHOUT_SPACES)


def _add_better(found: dict[str, float], others: Iterable[tuple[str, float]]) -> None:
    for word, similarity in others:
        found[word] = max(similarity, found.get(word, 0.0))


def text_counts(connection: sqlite3.Connection, terms: Sequence[str], source: WordSource) -> list[int]:
    """Count the texts of a source that each word is in.

    Words of names with digits in them are not in the vocabulary; those are counted in the index.
    """
    words, texts, _ = source.vocabulary
    rows = connection.execute(
        f"SELECT word, {texts} FROM {words} WHERE word IN (SELECT value FROM json_each(?))", (json.dumps(terms),)
    )
    known: dict[str, int] = dict(rows.fetchall())
    return [known[word] if word in known else _matches(connection, word, source) for word in terms]


def _matches(connection: sqlite3.Connection, word: str, source: WordSource) -> int:
    """Number of texts with a word that is not in the vocabulary."""
    if source is not IN_NAMES:
        return 0
    found: int = connection.execute("SELECT count(*) FROM about WHERE about MATCH ?", (phrase(word),)).fetchone()[0]
    return found


def _in_vocabulary(connection: sqlite3.Connection, terms: Iterable[str], source: WordSource) -> set[str]:
    """Those of some words that are written in a source."""
    rows = connection.execute(
        f"SELECT word FROM {source.vocabulary.words} WHERE word IN (SELECT value FROM json_each(?))",
        (json.dumps(list(terms)),),
    )
    return {word for (word,) in rows}


def _forms(connection: sqlite3.Connection, word: str, source: WordSource) -> Iterator[tuple[str, float]]:
    """Written words that are other forms of this one."""
    if not word.isalpha() or not word.isascii():  # the tables are of English
        return
    for other in _in_vocabulary(connection, irregular_forms(word), source):
        yield other, FORM
    for other in _with_beginning(connection, word[: max(3, len(word) - LONGEST_ENDING)], source):
        if other != word and abs(len(other) - len(word)) <= LONGEST_ENDING and are_forms(word, other):
            doing = is_noun_of_doing(word) or is_noun_of_doing(other)
            yield other, DOING if doing and not are_forms(word, other, "noun") else FORM


def _beginning_with(connection: sqlite3.Connection, beginning: str, source: WordSource) -> Iterator[tuple[str, float]]:
    for word in _with_beginning(connection, beginning, source):
        yield word, _part(beginning)


def _with_beginning(connection: sqlite3.Connection, beginning: str, source: WordSource) -> list[str]:
    """Written words with this beginning, the most frequent first."""
    words, texts, _ = source.vocabulary
    rows = connection.execute(
        f"SELECT word FROM {words} WHERE word >= ? AND word < ? ORDER BY {texts} DESC, word LIMIT ?",
        (beginning, beginning + LAST, MAX_BEGINNING),
    )
    return [word for (word,) in rows]


def _containing(connection: sqlite3.Connection, word: str, source: WordSource) -> Iterator[tuple[str, float]]:
    """Longer written words that contain this one."""
    if not may_be_inside(word, source.least_inside):
        return
    words, _, trigrams = source.vocabulary
    if len(word) >= TRIGRAM:
        rows = connection.execute(
            f"SELECT trim(word) FROM {trigrams} WHERE {trigrams} MATCH ? ORDER BY 1", (phrase(word),)
        )
    else:  # too short for trigrams
        rows = connection.execute(f"SELECT word FROM {words} WHERE instr(word, ?) ORDER BY word", (word,))
    kept = (
        longer
        for longer in _column(rows)
        if (not source.typed or longer.startswith(word) or longer.endswith(word)) and _has_numbers(longer, word)
    )
    for longer in islice(kept, MAX_SIMILAR_WORDS):  # all are alike to the same degree
        yield longer, _part(word)


def _part(word: str) -> float:
    return 1 - 1 / (2 * len(word))


def _misread(connection: sqlite3.Connection, run: Sequence[str], source: WordSource) -> Iterator[tuple[str, float]]:
    """Written words that differ from this one, or from its base form, or from a run of words, in a few letters."""
    yield from _within_errors(connection, "".join(run), source, allowed_errors(*map(len, run)))
    base = regular_base(run[0])
    if len(run) == 1 and base != run[0]:
        for other, similarity in _within_errors(connection, base, source, allowed_errors(len(base))):
            yield other, FORM * similarity


def _within_errors(
    connection: sqlite3.Connection, word: str, source: WordSource, errors: int
) -> Iterator[tuple[str, float]]:
    from rapidfuzz.distance import OSA

    if not errors:
        return
    for other in _alike(connection, word, source, errors):
        distance = OSA.distance(word, other, score_cutoff=errors)
        if distance <= errors and _has_numbers(other, word):
            yield other, 1 - distance / len(word)


def _alike(connection: sqlite3.Connection, word: str, source: WordSource, errors: int) -> set[str]:
    """Written words among which all are that differ from this one in so many letters."""
    words, _, trigrams = source.vocabulary
    edged, length = padded(word), (len(word) - errors, len(word) + errors)
    if errors > MOST_CUT:
        parts = {edged[start : start + TRIGRAM] for start in range(len(edged) - TRIGRAM + 1)}
    else:
        parts = set(_parts(edged, errors))
    begun = {part for part in parts if part.startswith(" ") and not part.endswith(" ")}
    found: set[str] = set()
    for part in begun:
        found.update(
            _column(
                connection.execute(
                    f"SELECT word FROM {words} WHERE word >= ? AND word < ? AND length(word) BETWEEN ? AND ?",
                    (part[1:], part[1:] + LAST, *length),
                )
            )
        )
    found.update(
        _column(
            connection.execute(
                f"SELECT trim(word) FROM {trigrams} WHERE {trigrams} MATCH ? AND length(word) - 2 BETWEEN ? AND ?",
                (" OR ".join(map(phrase, sorted(parts - begun))), *length),
            )
        )
    )
    return found


def _parts(edged: str, errors: int) -> Iterator[str]:
    """Parts of a word between spaces, one of which is in whatever differs from it in so many letters.

    Of `errors` + 1 parts side by side one is left whole by as many errors, unless two letters changed places where two
    parts meet; what is left are then the errors but one of the word with these two exchanged.
    """
    size, longer = divmod(len(edged), errors + 1)
    cuts = [0, *accumulate(size + (place < longer) for place in range(errors + 1))]
    yield from (edged[start:end] for start, end in pairwise(cuts))
    for cut in cuts[1:-1] if errors else ():
        yield from _parts(edged[: cut - 1] + edged[cut] + edged[cut - 1] + edged[cut + 1 :], errors - 1)


def _column(rows: Iterable[tuple[str]]) -> Iterator[str]:
    return (word for (word,) in rows)


def _has_numbers(written: str, query: str) -> bool:
    """True if the numbers of the query are written as they are; letters may be misread as digits."""
    return Counter(NUMBER.findall(query)) <= Counter(NUMBER.findall(written))


def split_words(connection: sqlite3.Connection, word: str, source: WordSource) -> Iterator[tuple[str, float]]:
    """Yield pairs of written words that this one is without its space; they need not stand side by side."""
    if len(word) < LEAST_SPLIT:
        return
    halves = [(word[:cut], word[cut:]) for cut in range(1, len(word))]
    known = _in_vocabulary(connection, [half for pair in halves for half in pair], source)
    for first, second in halves:
        if first in known and second in known:
            yield f"{first} {second}", SPLIT_LETTER if 1 in {len(first), len(second)} else 1.0
