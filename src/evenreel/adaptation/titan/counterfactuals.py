"""Captions without the words that the captions of a hub have in common (TITAN, MM 2023, section 3.2.2).

A few clips (hubs) are ranked first for many queries, mostly for a few words: every caption with `dog` finds the same
dog. Of the clips V_c that more than beta queries match, one-way and before rematching, each word is counted over the
queries (equation 6); a query that has a word of a count above theta becomes a counterfactual query without it (equation
7), so that a model which learns from both must look at the query's other words.

The paper gives no theta and a beta that depends on how many queries and clips there are, so both may be shares here.
Nor does it say what stands in a word's place, and CLIP's towers know no mask: the word is taken out, made general, or
replaced by a rarer one. Words for nothing that can be seen (`be`, `have`, `something`), of which the paper does not
speak, are never over-attended: half of all captions have `is`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError
from evenreel.language.folding import Part
from evenreel.language.synonyms import stop_nouns, stop_verbs
from evenreel.language.tokens import Tagged, Token
from evenreel.language.wording import generic, rewritten, without

Mask = Literal["removed", "masked", "replaced"]
ContentPart = Literal["noun", "verb", "adjective"]

NO_VIDEO = -1
"""Match of a query that has none."""


@dataclass(frozen=True)
class CounterfactualSettings:
    """Settings of counterfactual queries: which words are over-attended, and what replaces them.

    Attributes:
        beta: number of queries, beyond which a clip that they match is a hub; below 1 a share of all queries. The
            paper's is 30.
        theta: number of a hub's queries, beyond which a word that they share is over-attended; below 1 a share of
            these.
        parts: parts of speech of such words, `noun`, `verb`, `adjective`; the paper uses all three.
        mask: how the word is masked: `removed`; `masked` by a word without content, see
            `evenreel.language.wording.generic`; or `replaced` by a rarer word of the same form, drawn from those of all
            queries.
        seed: seed of the draw of these words.

    Raises:
        UsageError: a value is out of its range.
    """

    beta: float = 30
    theta: float = 0.5
    parts: tuple[ContentPart, ...] = get_args(ContentPart)
    mask: Mask = "removed"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("beta", "theta"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not (0 <= value < float("inf")):  # so that NaN is refused
                raise UsageError(
                    f"The {name} of counterfactual captions is {value!r}; it must be a number of queries, from 1 on, "
                    "or a share of them, from 0 to below 1."
                )
        if not self.parts or not set(self.parts) <= set(get_args(ContentPart)):
            raise UsageError(
                f"The parts of speech of counterfactual captions are {self.parts!r}; name one or more of "
                f"{', '.join(get_args(ContentPart))}."
            )
        if self.mask not in get_args(Mask):
            raise UsageError(
                f"The mask of counterfactual captions is {self.mask!r}; it must be one of {', '.join(get_args(Mask))}."
            )
        if not isinstance(self.seed, int) or self.seed < 0:
            raise UsageError(f"The seed of counterfactual captions is {self.seed!r}; it must be a whole number from 0.")


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """Counterfactual query: a query from which an over-attended word was removed or replaced.

    Attributes:
        query: row of the query.
        video: index, in the gallery, of the hub that the query matches.
        word: base form of the word.
        text: the changed query.
    """

    query: int
    video: int
    word: str
    text: str


@dataclass(frozen=True, slots=True)
class OverAttended:
    """Over-attended word, which many of the queries that match a hub have.

    Attributes:
        video: index of the hub, a clip that many queries match, in the gallery.
        word: the word in its base form.
        count: number of queries matched to the clip that have the word.
        matched: number of queries matched to the clip.
    """

    video: int
    word: str
    count: int
    matched: int

    @property
    def share(self) -> float:
        """Share, 0 to 1, of the queries matched to the clip that have the word."""
        return self.count / self.matched


def over_attended(
    tagged: Sequence[Tagged], matches: NDArray[np.int64], settings: CounterfactualSettings
) -> tuple[OverAttended, ...]:
    """Find the over-attended words of hubs, clip by clip, the most frequent first, ties by the alphabet.

    Args:
        tagged: the Q queries, tagged.
        matches: (Q,) index of the clip that each query ranks first; -1 for none.
        settings: beta, theta and the parts of speech.

    Raises:
        UsageError: `matches` are not of these queries.

    >>> tagged = [(Token("dogs", "dog", "NNS"), Token("run", "run", "VBP")), (Token("dog", "dog", "NN"),)]
    >>> over_attended(tagged, np.array([4, 4]), CounterfactualSettings(beta=1))
    (OverAttended(video=4, word='dog', count=2, matched=2),)
    """
    words = [_words(tokens, settings.parts) for tokens in tagged]
    found: list[OverAttended] = []
    for video, queries in hub_queries(matches, len(tagged), settings.beta).items():
        counts = Counter(word for query in queries for word in words[query])
        above = ((word, count) for word, count in counts.items() if _exceeds(count, len(queries), settings.theta))
        ordered = sorted(above, key=lambda one: (-one[1], one[0]))
        found += [OverAttended(video, word, count, len(queries)) for word, count in ordered]
    return tuple(found)


def counterfactuals(
    texts: Sequence[str], tagged: Sequence[Tagged], matches: NDArray[np.int64], settings: CounterfactualSettings
) -> tuple[Counterfactual, ...]:
    """Make counterfactual queries: one for each over-attended word of a query that matches a hub, query by query.

    None is made where no noun, verb or adjective would be left, or where there is no rarer word as a replacement.

    Args:
        texts: the Q queries.
        tagged: the Q queries, tagged.
        matches: (Q,) index of the clip that each query ranks first; -1 for none.
        settings: which words are over-attended, and what replaces them.

    Raises:
        UsageError: texts, tokens and matches are not equally many.

    >>> from evenreel.language.taggers import PatternTagger
    >>> texts = ["a brown dog runs", "two dogs sleep", "a dog"]
    >>> tagged = PatternTagger().tag(texts)
    >>> made = counterfactuals(texts, tagged, np.array([7, 7, 7]), CounterfactualSettings(beta=2))
    >>> [(one.query, one.word, one.text) for one in made]
    [(0, 'dog', 'a brown runs'), (1, 'dog', 'two sleep')]
    """
    if len(texts) != len(tagged):
        raise UsageError(f"{len(texts):,} queries came with the tokens of {len(tagged):,}; give the tokens of each.")
    above: dict[int, set[str]] = {}
    for one in over_attended(tagged, matches, settings):
        above.setdefault(one.video, set()).add(one.word)
    write = _Writer(tagged, settings)
    made: list[Counterfactual] = []
    for query, (text, tokens, video) in enumerate(zip(texts, tagged, matches.tolist(), strict=True)):
        for word, places in _words(tokens, settings.parts).items():
            if word in above.get(video, ()) and (new := write(text, tokens, places)):
                made.append(Counterfactual(query, video, word, new))
    return tuple(made)


class _Writer:
    """Writes a query without a word; None where that is nothing to learn from.

    Args:
        tagged: all queries, whose words replace others.
        settings: how.
    """

    def __init__(self, tagged: Sequence[Tagged], settings: CounterfactualSettings) -> None:
        self._mask, self._random = settings.mask, np.random.default_rng(settings.seed)
        self._queries = Counter[str]()
        self._forms: Mapping[str, list[tuple[int, str, str]]] = {}
        if settings.mask == "replaced":
            self._queries.update(word for tokens in tagged for word in _words(tokens))
            self._forms = _forms(tagged, self._queries)

    def __call__(self, text: str, tokens: Tagged, places: Sequence[int]) -> str | None:
        """The query with the word at these places taken out, made general or replaced."""
        if self._mask == "replaced":
            return self._replaced(text, tokens, places)
        others = (place for held in _words(tokens).values() for place in held)
        if set(others) <= set(places):
            return None
        return (without if self._mask == "removed" else generic)(text, tokens, places)

    def _replaced(self, text: str, tokens: Tagged, places: Sequence[int]) -> str | None:
        there = _words(tokens)
        words: dict[int, str] = {}
        for place in places:
            token = tokens[place]
            forms = self._forms[token.tag]
            rarer = forms[: bisect_left(forms, (self._queries[token.lemma],))]
            able = [form for _, lemma, form in rarer if lemma not in there]
            if not able:
                return None
            words[place] = able[int(self._random.integers(len(able)))]
        return rewritten(text, tokens, words)


def hub_queries(matches: NDArray[np.int64], queries: int, beta: float) -> dict[int, list[int]]:
    """Return the queries of each hub, a clip that more than `beta` queries match, by the index of the clip.

    Args:
        matches: (Q,) index of the clip that each query ranks first; -1 for none.
        queries: number of queries, of which a `beta` below 1 is a share.
        beta: least number of queries, or share of them.
    """
    if matches.shape != (queries,):
        raise UsageError(f"Matches of the shape {matches.shape} are not of {queries:,} queries; give one for each.")
    matched: dict[int, list[int]] = {}
    for query, video in enumerate(matches.tolist()):
        if video != NO_VIDEO:
            matched.setdefault(video, []).append(query)
    return {video: matched[video] for video in sorted(matched) if _exceeds(len(matched[video]), queries, beta)}


def _exceeds(count: int, of: int, limit: float) -> bool:
    """Whether a count is above a limit, which below 1 is a share."""
    return (count / of if limit < 1 else count) > limit


def _words(tokens: Tagged, parts: Sequence[Part] = get_args(ContentPart)) -> dict[str, list[int]]:
    """Places of the words of a query, by their base forms in the order in which they come."""
    places: dict[str, list[int]] = {}
    for place, token in enumerate(tokens):
        if token.part in parts and not _says_nothing(token):
            places.setdefault(token.lemma, []).append(place)
    return places


def _says_nothing(token: Token) -> bool:
    """Whether it is no word, or one that helps another."""
    empty = stop_verbs() if token.part == "verb" else stop_nouns()
    return token.lemma in empty or not any(map(str.isalnum, token.text))


def _forms(tagged: Sequence[Tagged], queries: Mapping[str, int]) -> dict[str, list[tuple[int, str, str]]]:
    """Map each tag to its written forms with base form and number of queries that have it, the rarest first."""
    found: dict[str, set[tuple[int, str, str]]] = {}
    for token in (tokens[place] for tokens in tagged for held in _words(tokens).values() for place in held):
        form = token.text if token.tag.startswith("NNP") else token.text.lower()
        found.setdefault(token.tag, set()).add((queries[token.lemma], token.lemma, form))
    return {tag: sorted(forms) for tag, forms in found.items()}
