"""Places of query words in an on-screen text, so that a person sees why a clip was found."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from evenreel.language.folding import fold, words
from evenreel.library.search.words import Run, allowed_errors, runs_of

Stretch = tuple[int, int]
"""Start and end of a stretch of text, [start, end), in code points."""


def marks(text: str, matched: Sequence[str], found: Sequence[str]) -> tuple[Stretch, ...]:
    """Find the stretches of a text that match words of a query.

    A word is marked whole, unless only a part of it matches the query. A clip that was found by another reading of the
    text may have nothing to mark.

    Example:
        >>> marks("JAPANNETHERLANDS 2:0", ["japan", "netherlands"], ["japannetherlands"])
        ((0, 16),)
        >>> marks("Hyundri beats the old Rekordlauf", ["hyundai", "rekord"], ["hyundri", "rekordlauf"])
        ((0, 7), (22, 28))
        >>> marks("the WINTER CUP", ["wintercup"], ["winter cup"])
        ((4, 14),)
        >>> marks("mind the gap, the gap!", ["mind the gap"], ["mind the gap"])
        ((0, 12),)
    """
    wanted, by = runs_of(matched, matched), set(found)
    folded, places = _folded(text)
    there = list(_words_at(text, folded))
    stretches = [stretch for word, at in there if word in by for stretch in _stretches(word, wanted, at)]
    for length in {spelt.count(" ") + 1 for spelt in by if " " in spelt}:
        for some in zip(*(there[start:] for start in range(length)), strict=False):
            if " ".join(word for word, _ in some) in by:
                stretches.append((some[0][1], some[-1][1] + len(some[-1][0])))
    return tuple(_joined(sorted((places[start][0], places[end - 1][1]) for start, end in stretches)))


def _words_at(text: str, folded: str) -> Iterator[tuple[str, int]]:
    """The folded words of a text and where they begin in the folded text."""
    end = 0
    for word in words(text):
        start = folded.index(word, end)
        end = start + len(word)
        yield word, start


def _stretches(word: str, wanted: Iterable[Run], at: int) -> list[Stretch]:
    """Where a word that begins at `at` stands for what is wanted: parts of it, or all of it where it has none.

    Of JAPANNETHERLAMDS all is marked, for it is the two words together with a letter wrong, though it has one of them.
    """
    parts: list[Stretch] = []
    for run in wanted:
        term = "".join(run)
        if term not in word and _is_misread(word, run):
            return [(at, at + len(word))]
        start = word.find(term)
        while start >= 0:
            parts.append((at + start, at + start + len(term)))
            start = word.find(term, start + len(term))
    return parts or [(at, at + len(word))]


def _is_misread(word: str, run: Run) -> bool:
    from rapidfuzz.distance import OSA

    errors = allowed_errors(*map(len, run))
    return bool(errors and OSA.distance(word, "".join(run), score_cutoff=errors) <= errors)


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
