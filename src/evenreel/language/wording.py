"""Division of a caption into content and the style before and after it.

Style is words about the recording or the writer: `in this video`, `a clip of`, `we see`, `there is`, `as one can see`.
It is recognised at both ends of a caption, with the function words between it and the rest, which is the content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from evenreel.language.caption_rules import closed_words
from evenreel.language.noun_phrases import OPENERS, Phrase, phrases, with_opener
from evenreel.language.synonyms import packaged_lines, stop_nouns, stop_verbs
from evenreel.language.tokens import Tagged, Token

_SPEAKERS = frozenset({"someone", "somebody", "one", "anyone"})
"""Nouns that are style beside a verb of showing: `someone shows this`."""

_TELLERS = frozenset({"as", "i", "one", "we", "you"})
"""After these a verb of seeing or showing is style; after `he` or `a man` it is content."""

_POINTERS = frozenset({"here", "it", "there", "this"})
"""After these it is style where a caption begins: `it looks like this`."""

_PRESENTERS = frozenset({"here", "it", "that", "there", "these", "this", "those"})
"""Before a form of 'be' they present what follows: `there is`."""

_SHOWN = frozenset({"capture", "depict", "describe", "display", "feature", "show"})
"""Verbs that speak of the recording also where they begin it without a subject: `showing a man`, not `watching tv`."""

_HELPERS = frozenset({"be", "do", "get", "have"})
_BE = frozenset({"'s", "s", "’s"})
_PRONOUNS = frozenset({"he", "i", "it", "she", "they", "we", "you"})
_OPENING_ADVERBS = frozenset({"first", "later", "next", "then"})
_NO_MANNER = frozenset(
    {"barely", "diagonally", "early", "hardly", "horizontally", "only", "rarely", "scarcely", "vertically"}
)
"""Adverbs in -ly that say where, when, or that something is not so."""

_NEGATIONS = frozenset({"n't", "neither", "never", "no", "nor", "not", "n’t"})
_IN_A_CLIP = frozenset({"from", "in", "on"})
"""What stands before a recording where it is style: `in a video`, not `into the picture`."""

_LOOSE_MARKS = frozenset({"!", "*", "-", "~", "–", "—", "…"})
_LAST_MARKS = _LOOSE_MARKS | {",", ".", ":", ";", "?"}


@dataclass(frozen=True)
class Wording:
    """A caption in three consecutive parts: style (`before`), content, and style again (`after`).

    Attributes:
        before, after: words of style at both ends.
        content: the words between, without a capital that is only due to its place.
        bare: the content without adverbs of manner and degree, exclamations and stray marks.
        capital: whether the caption begins with a capital.
    """

    before: str
    content: str
    after: str
    bare: str
    capital: bool

    def around(self, content: str) -> str:
        """Return a caption of other content in the same style."""
        text = f"{self.before}{content}{self.after}"
        return text[:1].upper() + text[1:] if self.capital else text


def wording(caption: str, tokens: Tagged) -> Wording | None:
    """Divide a tagged caption into style and content; None where it has no content.

    >>> from evenreel.language.pattern import PatternTagger
    >>> text = "In this video we see a man who is slowly cutting bread, as one can see."
    >>> found = wording(text, PatternTagger().tag([text])[0])
    >>> found.before, found.content, found.after
    ('In this video we see ', 'a man who is slowly cutting bread', ', as one can see.')
    >>> found.bare
    'a man who is cutting bread'
    """
    some = phrases(tokens)
    content = _content(some, tokens)
    if not content:
        return None
    start, stop = _start(content[0], some, tokens), _stop(content, some, tokens)
    text = caption.strip()
    places = token_places(text, tokens)
    first, last = places[start][0], places[stop - 1][1]
    kept = [places[place] for place in range(start, stop) if not _is_manner(tokens, place, start)]
    texts = text[first:last], _joined(text, kept)
    small = start == 0 and (tokens[0].tag in OPENERS or tokens[0].text.lower() in closed_words() - {"i"})
    said, bare = map(lowered, texts) if small else texts
    return Wording(text[:first], said, text[last:], bare, text[:1].isupper())


def content_phrases(tokens: Tagged) -> list[Phrase]:
    """Return the entities and activities of a tagged caption, without those that are style or stop words.

    >>> from evenreel.language.pattern import PatternTagger
    >>> [tagged] = PatternTagger().tag(["we see a man in a short clip"])
    >>> [one.text for one in content_phrases(tagged)]
    ['man']
    """
    return _content(phrases(tokens), tokens)


def token_places(caption: str, tokens: Tagged) -> list[tuple[int, int]]:
    """Return where each token of a caption starts and ends, as indices of characters.

    >>> token_places("a dog's", (Token("a", "a", "DT"), Token("dog", "dog", "NN"), Token("'s", "'s", "POS")))
    [(0, 1), (2, 5), (5, 7)]
    """
    places, at = [], 0
    for token in tokens:
        first = caption.index(token.text, at)
        at = first + len(token.text)
        places.append((first, at))
    return places


def lowered(text: str) -> str:
    """Return a text with its first letter in lower case."""
    return text[:1].lower() + text[1:]


def _content(some: Sequence[Phrase], tokens: Tagged) -> list[Phrase]:
    return [one for one in some if not _is_style(one, some, tokens) and not _is_empty(one)]


def _is_empty(one: Phrase) -> bool:
    """Whether it says nothing: `something`, `starts`."""
    return one.head in stop_verbs() if one.kind == "activity" else one.text in stop_nouns()


def _is_style(one: Phrase, some: Sequence[Phrase], tokens: Tagged) -> bool:
    """Whether it speaks of the recording, or of who sees or shows it."""
    if one.kind == "activity":
        return one.head in _style_verbs() and _is_told(one, tokens)
    nouns = [token.lemma for token in tokens[one.start : one.stop] if token.part == "noun"]
    if all(noun in _style_nouns() for noun in nouns):
        return True
    return one.head in _SPEAKERS and any(_shows(other, one, tokens) for other in some)


def _is_told(verb: Phrase, tokens: Tagged) -> bool:
    """Whether a verb of seeing or showing tells of the recording: it is passive, or those who tell are its subject."""
    tag, place = tokens[verb.start].tag, verb.start
    while place > 0 and (_helps(tokens[place - 1]) or tokens[place - 1].part == "adverb"):
        place -= 1
    subject = tokens[place - 1] if place > 0 else None
    helped = any(token.lemma == "be" for token in tokens[place : verb.start])
    follower = tokens[verb.start + 1].text if verb.start + 1 < len(tokens) else ""
    if tag in ("VBN", "VBD") and (helped or follower == "by"):
        return True
    if subject is None or not _is_word(subject):
        return tag != "VBG" or verb.head in _SHOWN
    if subject.lemma in _SPEAKERS and subject.part == "noun":
        return tag != "VBG"
    if subject.lemma in _POINTERS:
        return place == 1
    return subject.lemma in _TELLERS or (subject.part == "noun" and subject.lemma in _style_nouns())


def _shows(verb: Phrase, speaker: Phrase, tokens: Tagged) -> bool:
    """Whether a speaker is all that stands with a verb of showing: `someone shows`, `shown by someone`."""
    if verb.head not in _style_verbs() or not _is_told(verb, tokens):
        return False
    first, second = sorted((verb, speaker), key=lambda one: one.start)
    between = tokens[first.start + 1 : second.start]
    return all(token.part is None and _is_word(token) for token in between)


def _start(first: Phrase, some: Sequence[Phrase], tokens: Tagged) -> int:
    """Where the content starts: at its first phrase if style stands before it, else with the caption."""
    start = _subject(first.start, tokens) if first.kind == "activity" else _opened(first.start, tokens)
    joined = start > 0 and tokens[start - 1].tag == "CC"  # `there are pictures and quotes`
    if not joined and (_has_style(some, tokens, start) or _presents(tokens, start)):
        return start
    place = 0
    while place < start and _opens(tokens, place):
        place += 1
    return place


def _has_style(some: Sequence[Phrase], tokens: Tagged, stop: int) -> bool:
    return any(one.start < stop and _is_style(one, some, tokens) for one in some)


def _presents(tokens: Tagged, stop: int) -> bool:
    """Whether something like `there is` stands before."""
    return any(
        tokens[place - 1].lemma in _PRESENTERS and (tokens[place].lemma == "be" or tokens[place].text in _BE)
        for place in range(1, stop)
    )


def _opened(start: int, tokens: Tagged) -> int:
    """Where an entity starts with its article and adjectives: `a very small and` of `a very small and red ball`."""
    look, opened = start, start
    while look > 0 and (tokens[look - 1].part in ("adverb", "adjective") or tokens[look - 1].tag == "CC"):
        look -= 1
        opened = look if tokens[look].part == "adjective" else opened
    return with_opener(tokens, look if look > 0 and tokens[look - 1].tag in OPENERS else opened)


def _subject(start: int, tokens: Tagged) -> int:
    """Where an activity starts with its pronoun and auxiliaries, `he is` of `he is talking`, or with its article."""
    place = start
    while place > 0 and (_helps(tokens[place - 1]) or tokens[place - 1].part == "adverb"):
        place -= 1
    return place - 1 if place > 0 and tokens[place - 1].lemma in _PRONOUNS else with_opener(tokens, start)


def _opens(tokens: Tagged, place: int) -> bool:
    """Whether a token at the beginning leads to the content and is none: `Then`, `However,`, `wow!`."""
    token = tokens[place]
    opening = token.part == "adverb" and token.lemma in _OPENING_ADVERBS
    return opening or token.tag == "UH" or not _is_word(token) or _is_manner(tokens, place, place)


def _stop(content: Sequence[Phrase], some: Sequence[Phrase], tokens: Tagged) -> int:
    """Behind the content: before the style that follows its last phrase, else with the caption but for last marks."""
    end = max([*(one.stop for one in content), *_predicates(tokens, content[0].start)])
    after = [one for one in some if one.start >= end and _is_style(one, some, tokens)]
    found = (_led(tokens, one.start, end) for one in after if _ends_in(one, tokens, end))
    stop = next(found, len(tokens))
    while stop > end and (tokens[stop - 1].text in _LAST_MARKS or tokens[stop - 1].tag == "UH"):
        stop -= 1
    return stop


def _ends_in(one: Phrase, tokens: Tagged, end: int) -> bool:
    """Whether the caption ends in style that begins with some phrase: `in a video`, `is shown`, not `is not seen`."""
    place = _led(tokens, one.start, end)
    if any(token.lemma in _NEGATIONS for token in tokens[place : one.start]):
        return False
    apart = place > 0 and not _is_word(tokens[place - 1])
    return one.kind == "activity" or apart or tokens[place].lemma in _IN_A_CLIP


def _led(tokens: Tagged, place: int, least: int) -> int:
    """Where style starts with what leads to it: `as one can` of `as one can see`, `end of` of `end of clip`."""
    while place > least and (_leads(tokens[place - 1]) or tokens[place - 1].part == "adverb"):
        place -= 1
    if place > least and tokens[place - 1].tag == "IN":
        place -= 1
        while place > least and tokens[place - 1].lemma in stop_nouns():
            place -= 1
    return place


def _leads(token: Token) -> bool:
    return _helps(token) or token.tag in (*OPENERS, "WP", "WDT", "CC") or token.lemma in ("i", "we", "you")


def _helps(token: Token) -> bool:
    """Whether it helps a verb: an auxiliary, `to`, or a verb that says nothing by itself."""
    return token.tag in ("MD", "TO") or (token.part == "verb" and token.lemma in stop_verbs() | _HELPERS)


def _predicates(tokens: Tagged, start: int) -> Iterator[int]:
    """Behind what is said of content by a form of 'be': `red` of `the car is red`."""
    for place in range(start + 1, len(tokens)):
        before = place - 1
        while before > start and tokens[before].part == "adverb":
            before -= 1
        if tokens[place].part == "adjective" and tokens[before].lemma == "be":
            yield place + 1


def _is_manner(tokens: Tagged, place: int, start: int) -> bool:
    """Whether a token between `start` and the end of the content is left out of the bare content."""
    token = tokens[place]
    word = token.text.lower()
    if token.tag == "UH" or token.text in _LOOSE_MARKS:
        return True
    if place > start and tokens[place - 1].tag == "UH" and token.tag == "PRP$":
        return True
    if token.part != "adverb" or (token.text[:1].isupper() and place > 0):
        return False
    return word in _style_adverbs() or (word.endswith("ly") and word not in _NO_MANNER)


def _is_word(token: Token) -> bool:
    return any(letter.isalnum() for letter in token.text)


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


@lru_cache(maxsize=1)
def _style_adverbs() -> frozenset[str]:
    return frozenset(packaged_lines("style_adverbs.txt"))
