"""Captions with their content kept and their style changed, and the other way round.

The content of a caption reaches from its first entity or activity (`evenreel.language.phrases`) to its last, articles
and the like included; what stands before and after is its style. Phrases that speak of the recording ('a short clip',
'we see') are style as long as no content stands on both sides of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from evenreel.errors import UsageError
from evenreel.language.phrases import OPENERS, Phrase, phrases, with_opener
from evenreel.language.synonyms import packaged_lines, stop_nouns, stop_verbs
from evenreel.language.tokens import Tagged, Tagger, Token

SOMETHING = "something"
"""What is said where content is taken away."""

CAPTION = "{caption}"
"""Where a pattern has the caption."""

_SPEAKERS = frozenset({"someone", "somebody", "one", "anyone"})
"""Nouns that are style before a verb of showing: 'someone shows'."""

_NEGATIONS = frozenset({"not", "n't", "never", "no"})


@dataclass(frozen=True)
class Wording:
    """A caption in three parts: `before`, `content` and `after`, one right after the other.

    Attributes:
        before, after: its style.
        content: with a small initial where that is only due to its place.
        bare: the content without adverbs, exclamations and marks.
        capital: whether the caption begins with a capital.
    """

    before: str
    content: str
    after: str
    bare: str
    capital: bool

    def around(self, content: str) -> str:
        """Another content in the same style."""
        text = f"{self.before}{content}{self.after}"
        return text[:1].upper() + text[1:] if self.capital else text


def wording(caption: str, tokens: Tagged) -> Wording | None:
    """The parts of a tagged caption; None where it has no content.

    >>> from evenreel.language.pattern import PatternTagger
    >>> text = "In this video we see a man who is slowly cutting bread, as one can see."
    >>> found = wording(text, PatternTagger().tag([text])[0])
    >>> found.before, found.content, found.after
    ('In this video we see ', 'a man who is slowly cutting bread', ', as one can see.')
    >>> found.bare
    'a man who is cutting bread'
    """
    content = content_phrases(tokens)
    if not content:
        return None
    spans = [*((one.start, one.stop) for one in content), *_predicates(tokens, content[0].start)]
    start, stop = with_opener(tokens, spans[0][0]), max(end for _, end in spans)
    places = _places(caption, tokens)
    first, last = places[start][0], places[stop - 1][1]
    kept = [place for place in range(start, stop) if any(a <= place < b for a, b in spans) or _joins(tokens[place])]
    texts = caption[first:last], _joined(caption, [places[place] for place in kept])
    said, bare = map(_lowered, texts) if start == 0 and tokens[0].tag in OPENERS else texts
    return Wording(caption[:first], said, caption[last:], bare, caption[:1].isupper())


def restyled(edit: str, captions: Sequence[str], clip_ids: Sequence[str], tagger: Tagger, seed: int = 0) -> list[str]:
    """Captions after an edit; one without content, of which nothing can be kept or taken away, stays as it is.

    Args:
        edit: a key of `EDITS`.
        captions: Q texts.
        clip_ids: (Q,) the clip of each; where captions lend each other style or content, they are of different clips.
        tagger: finds content.
        seed: of who lends to whom.

    Raises:
        UsageError: there is no such edit, or nobody to lend.
    """
    if edit not in EDITS:
        raise UsageError(f"{edit!r} is no edit of captions; there are: {', '.join(EDITS)}.")
    found = [wording(text, tokens) for text, tokens in zip(captions, tagger.tag(captions), strict=True)]
    lenders = _lenders(found, clip_ids, seed) if edit in _LENT else found
    return [
        text if own is None or lender is None else EDITS[edit](own, lender)
        for text, own, lender in zip(captions, found, lenders, strict=True)
    ]


def paraphrased(captions: Sequence[str], patterns: Sequence[str], seed: int = 0) -> list[str]:
    """Each caption in one of several patterns, drawn with the seed.

    Args:
        captions: Q texts.
        patterns: texts with `{caption}` in them once.
        seed: of the draw.

    Raises:
        UsageError: there is no pattern, or one has no place for the caption, or several.

    >>> paraphrased(["A man runs."], ["in this video, {caption}"])
    ['in this video, a man runs.']
    """
    if not patterns:
        raise UsageError(f"There is no pattern to put captions in; give one such as 'in this video, {CAPTION}'.")
    for pattern in patterns:
        if pattern.count(CAPTION) != 1:
            raise UsageError(f"The pattern {pattern!r} has {CAPTION} {pattern.count(CAPTION)} times; write it once.")
    drawn = np.random.default_rng(seed).integers(0, len(patterns), len(captions))
    return [_in_pattern(patterns[place], text) for place, text in zip(drawn, captions, strict=True)]


def turned_marks(caption: str) -> str:
    """The control: the capital and the full stop turned into their opposites, every word as it was.

    >>> turned_marks("A man runs."), turned_marks("a man runs")
    ('a man runs', 'A man runs.')
    """
    text = caption.strip()
    text = text.removesuffix(".") if text.endswith(".") else f"{text}."
    return f"{text[:1].swapcase()}{text[1:]}"


EDITS: dict[str, Callable[[Wording, Wording], str]] = {
    "style-removed": lambda own, _: own.bare,
    "style-swapped": lambda own, lender: lender.around(own.content),
    "content-removed": lambda own, _: own.around(SOMETHING),
    "content-swapped": lambda own, lender: own.around(lender.content),
}
"""By name, what becomes of a caption and of one that lends to it."""

_LENT = frozenset({"style-swapped", "content-swapped"})


def _in_pattern(pattern: str, caption: str) -> str:
    inside = not pattern.startswith(CAPTION) and caption.split(" ", 1)[0].istitle()
    return pattern.replace(CAPTION, _lowered(caption) if inside else caption)


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _lenders(found: Sequence[Wording | None], clip_ids: Sequence[str], seed: int) -> list[Wording]:
    """A caption of another clip for each."""
    able = [(clip, one) for clip, one in zip(clip_ids, found, strict=True) if one is not None]
    if len({clip for clip, _ in able}) < 2:
        raise UsageError("Captions with content are of fewer than two clips, so none can lend to another; give more.")
    random = np.random.default_rng(seed)
    lenders = []
    for own in clip_ids:
        clip, lender = able[random.integers(len(able))]
        while clip == own:
            clip, lender = able[random.integers(len(able))]
        lenders.append(lender)
    return lenders


def content_phrases(tokens: Tagged) -> list[Phrase]:
    """Entities and activities of a tagged caption, without those that are style at either end of it.

    >>> from evenreel.language.pattern import PatternTagger
    >>> [tagged] = PatternTagger().tag(["we see a man in a short clip"])
    >>> [one.text for one in content_phrases(tagged)]
    ['man']
    """
    some = phrases(tokens)
    ends = [place for place, one in enumerate(some) if not _is_style(one, tokens, some)]
    if not ends:
        return []
    return [one for one in some[ends[0] : ends[-1] + 1] if one.start >= some[ends[0]].start]


def _is_style(one: Phrase, tokens: Tagged, some: Sequence[Phrase]) -> bool:
    if one.kind == "activity":
        return one.head in _style_verbs() or one.head in stop_verbs()
    if one.head in _style_nouns() or one.text in stop_nouns():
        return True
    return one.head in _SPEAKERS and any(_shows(other, one, tokens) for other in some)


def _shows(verb: Phrase, speaker: Phrase, tokens: Tagged) -> bool:
    """Whether a speaker is all that stands with a verb of showing: `someone shows`, `shown by someone`."""
    first, second = sorted((verb, speaker), key=lambda one: one.start)
    between = tokens[first.stop : second.start]
    return verb.head in _style_verbs() and first.stop <= second.start and all(map(_joins, between))


def _predicates(tokens: Tagged, start: int) -> Iterator[tuple[int, int]]:
    """What is said of content by a form of 'be': `red` of `the car is red`."""
    for place in range(start + 1, len(tokens)):
        before = place - 1
        while before > start and tokens[before].part == "adverb":
            before -= 1
        if tokens[place].part == "adjective" and tokens[before].lemma == "be":
            yield place, place + 1


def _joins(token: Token) -> bool:
    """Whether it is a function word, which stays between phrases."""
    if token.lemma in _NEGATIONS or token.tag == ",":
        return True
    return token.part != "adverb" and token.tag != "UH" and any(letter.isalnum() for letter in token.text)


def _places(caption: str, tokens: Tagged) -> list[tuple[int, int]]:
    """First letter of each token in the caption, and the one behind its last."""
    places, at = [], 0
    for token in tokens:
        first = caption.index(token.text, at)
        at = first + len(token.text)
        places.append((first, at))
    return places


def _joined(caption: str, places: Sequence[tuple[int, int]]) -> str:
    """Some stretches of a caption, with a space between two where it has one between them."""
    text = caption[slice(*places[0])]
    for (_, before), (first, last) in pairwise(places):
        text += " " * any(map(str.isspace, caption[before:first])) + caption[first:last]
    return text


@lru_cache(maxsize=1)
def _style_nouns() -> frozenset[str]:
    return frozenset(packaged_lines("style_nouns.txt"))


@lru_cache(maxsize=1)
def _style_verbs() -> frozenset[str]:
    return frozenset(packaged_lines("style_verbs.txt"))
