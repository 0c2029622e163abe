"""Where in an on-screen text the words of a query are, so that a person sees why a clip was found.

The rules are those that the clip was found by (`evenreel.library.written`), applied to the text as it was read.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from evenreel.language.folding import fold, words
from evenreel.library.written import allowed_errors, may_be_inside, terms

Stretch = tuple[int, int]
"""[start, end) in code points."""


def marks(text: str, matched: Sequence[str]) -> tuple[Stretch, ...]:
    """The stretches of a text that words of a query stand for.

    A word that is the query's, is two of its words or all of them without spaces, or is a misreading of either, is
    marked whole; of a longer word only what the query asks for is. Where a clip was found by another reading of the
    text there may be nothing to mark.

    Args:
        text: on-screen words as they were read.
        matched: what of the query they matched, folded and in the query's order, as `TextHit.matched` has them.

    Returns:
        Stretches of `text`, rising, with something between any two.

    Example:
        >>> marks("JAPANNETHERLANDS 2:0", ["japan", "netherlands"])
        ((0, 16),)
        >>> marks("Hyundri beats the old Rekordlauf", ["hyundai", "rekord"])
        ((0, 7), (22, 28))
    """
    wanted = list(terms(matched, matched))
    folded, places = _folded(text)
    found = sorted(
        (places[start][0], places[end - 1][1])
        for word, at in _words_at(text, folded)
        for term in wanted
        for start, end in _stretches(word, term, at)
    )
    return tuple(_joined(found))


def _words_at(text: str, folded: str) -> Iterator[tuple[str, int]]:
    """The folded words of a text and where they begin in the folded text."""
    end = 0
    for word in words(text):
        start = folded.index(word, end)
        end = start + len(word)
        yield word, start


def _stretches(word: str, term: str, at: int) -> Iterator[Stretch]:
    """Where a word that begins at `at` stands for a term."""
    if term in word and may_be_inside(term):
        start = word.find(term)
        while start >= 0:
            yield at + start, at + start + len(term)
            start = word.find(term, start + len(term))
    elif word == term or _misread(word, term):
        yield at, at + len(word)


def _misread(word: str, term: str) -> bool:
    from rapidfuzz.distance import Levenshtein

    errors = allowed_errors(len(term))
    return bool(errors and Levenshtein.distance(word, term, score_cutoff=errors) <= errors)


def _joined(stretches: Sequence[Stretch]) -> Iterator[Stretch]:
    """Rising stretches, those that touch or overlap made one."""
    held: Stretch | None = None
    for start, end in stretches:
        if held is None or start > held[1]:
            if held is not None:
                yield held
            held = start, end
        else:
            held = held[0], max(held[1], end)
    if held is not None:
        yield held


def _folded(text: str) -> tuple[str, list[Stretch]]:
    """A text folded, and for each letter of that the stretch of the text that it comes from."""
    if text.isascii():
        return fold(text), [(place, place + 1) for place in range(len(text))]
    clusters = _clusters(text)
    pieces = [fold(text[start:end]) for start, end in clusters]
    whole = fold(text)
    if "".join(pieces) != whole:  # letters that only fold together, which the rule of clusters does not know
        return whole, [(0, len(text))] * len(whole)
    return whole, [cluster for cluster, piece in zip(clusters, pieces, strict=True) for _ in piece]


def _clusters(text: str) -> list[Stretch]:
    """A text cut where what stands before has no part in how what comes after is folded."""
    starts = [place for place, letter in enumerate(text) if not place or not _goes_with_what_is_before(letter)]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _goes_with_what_is_before(letter: str) -> bool:
    """Marks, and the second and third parts of a Korean syllable."""
    first = unicodedata.normalize("NFKD", letter)[0]
    return unicodedata.category(first)[0] == "M" or "\u1160" <= first <= "\u11ff"
