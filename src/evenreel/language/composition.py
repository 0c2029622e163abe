"""Edits of captions that change what is said of what, and hardly a word, and captions that deny an absent thing.

What word order and small words tell is lost on a ranking that reads captions as bags of words (Yuksekgonul et al. 2023,
'When and why vision-language models behave like bags-of-words', section 2). What can be read in these captions as well
as in the true ones is no help to the ranking: Hsieh et al. 2023 ('SugarCrepe') found odd sentences to give themselves
away, so only what can change places is exchanged, and a caption without it stays as it is. Captions that deny a thing,
and short answers of a thing that is there and one that is not, are after NegBench (Alhamoud et al. 2025, arXiv
2501.09425); their words are our own. The words that all this goes by are in `composition.txt`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise
from types import MappingProxyType

import numpy as np

from evenreel.errors import UsageError
from evenreel.language.noun_phrases import OPENERS, Phrase, phrases, with_opener
from evenreel.language.role_graphs import words_of
from evenreel.language.synonyms import amounts, caption_synonyms, packaged_rows
from evenreel.language.taggers import closed_words
from evenreel.language.tokens import Tagged, Tagger
from evenreel.language.wording import content_phrases, lowered, token_places

ATTRIBUTES = (
    "colour", "size", "height", "length", "age", "newness", "temperature", "wetness", "state", "speed", "look",
    "surface", "shape", "number",
)  # fmt: skip
"""Kinds of attributes."""

THINGS = {"negated": "{caption}, with no {thing} in sight", "affirmed": "{caption}, with a {thing} in sight"}
"""By name, edits that name a thing which the clip does not show: `negated` says so, `affirmed` says the opposite."""

ANSWERS: Mapping[str, str] = MappingProxyType(
    {
        "true-affirmation": "a video with a {shown}",
        "true-negation": "a video with no {absent}",
        "true-hybrid": "a video with a {shown} and no {absent}",
        "false-affirmation": "a video with a {absent}",
        "false-negation": "a video with no {shown}",
        "false-hybrid": "a video with a {absent} and no {shown}",
    }
)
"""By name, what each of six captions, the answers of multiple-choice questions after MCQ-Neg of NegBench, says of the
thing that is shown and of the one that is absent."""


def recomposed(edit: str, captions: Sequence[str], clip_ids: Sequence[str], tagger: Tagger, seed: int = 0) -> list[str]:
    """Apply an edit of composition to captions; those in which nothing can be changed stay as they are.

    A draw depends on the text and the seed alone, so equal captions get equal edits. A thing that is denied is one that
    captions of other clips name, by `clip_ids` (Q,), the same one for all edits of `THINGS` and `ANSWERS`.

    Raises:
        UsageError: there is no such edit.
    """
    if edit not in EDITS:
        raise UsageError(f"{edit!r} is no edit of what captions say of what; there are: {', '.join(EDITS)}.")
    tagged = tagger.tag(captions)
    things = absent_things(captions, tagged, clip_ids, seed) if edit not in SWAPS else [None] * len(captions)
    found: list[str] = []
    for text, tokens, thing in zip(captions, tagged, things, strict=True):
        new = None
        if edit in SWAPS:
            new = SWAPS[edit](Caption(text.strip(), tokens), np.random.default_rng([seed, *text.encode()]))
        elif thing is not None and edit in THINGS:
            new = with_thing(THINGS[edit], text, thing)
        elif thing is not None and (shown := shown_thing(tokens)) is not None:
            new = answer(edit, shown, thing)
        found.append(text if new is None else new)
    return found


_ARTICLE = re.compile(r"\b(an?)(\s+)([^\W_]\w*)", re.IGNORECASE)
_VOWEL_SOUND = re.compile(r"(?:[aeio]|u(?!ni(?!n)|s[eu]|k|ti)|hour|honest|heir)", re.IGNORECASE)
_NO_VOWEL_SOUND = re.compile(r"(?:one\b|once\b|eu|ewe)", re.IGNORECASE)


def with_articles(text: str) -> str:
    """Return a text in which `a` stands before consonants and `an` before vowels, as they are spoken.

    >>> with_articles("a orange box and an unicorn for a hour, an red one. A umbrella")
    'an orange box and a unicorn for an hour, a red one. An umbrella'
    """

    def fixed(found: re.Match[str]) -> str:
        article, space, word = found.groups()
        named = article == "A" and text[: found.start()].rstrip()[-1:] not in ("", ".", "!", "?")  # `vitamin A and`
        if named or len(word) == 1 or word.isupper():  # `an X`, `an FBI agent`
            return found.group()
        vowel = _VOWEL_SOUND.match(word) and not _NO_VOWEL_SOUND.match(word)
        return f"{article[0]}{'n' if vowel else ''}{space}{word}"

    return _ARTICLE.sub(fixed, text)


@dataclass(frozen=True)
class Caption:
    """A tagged caption, without spaces around it, of which stretches can be replaced."""

    text: str
    tokens: Tagged

    def replaced(self, changes: Mapping[tuple[int, int], str]) -> str:
        """Return the caption with other texts in the places of some stretches of tokens, which do not overlap."""
        places, text = token_places(self.text, self.tokens), self.text
        for (start, stop), new in sorted(changes.items(), reverse=True):
            text = f"{text[: places[start][0]]}{new}{text[places[stop - 1][1] :]}"
        text = with_articles(text)
        return text[:1].upper() + text[1:] if self.text[:1].isupper() else text

    def stretch(self, start: int, stop: int) -> str:
        """Return the text of some tokens, without a capital that is only due to its place."""
        places = token_places(self.text, self.tokens)
        found = self.text[places[start][0] : places[stop - 1][1]]
        first = self.tokens[start].text.lower()
        by_place = start == 0 and (first in closed_words() or first == found.split()[0].lower())
        return lowered(found) if by_place else found


@cache
def words(kind: str) -> frozenset[str]:
    """Return all words of one kind of rows, such as `being`."""
    return frozenset(word for row in packaged_rows("composition.txt")[kind] for word in row.split())


@cache
def attribute_values() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Return, for each value of an attribute, its kinds, each with the other values that may take its place.

    >>> attribute_values()["short"]
    [('height', ('tall',)), ('length', ('long',))]
    """
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for kind in ATTRIBUTES:
        for row in packaged_rows("composition.txt")[kind]:
            values = row.split()
            for value in values:
                found[value].append((kind, tuple(one for one in values if one != value)))
    return dict(found)


@cache
def _fixed_nouns() -> dict[str, frozenset[str]]:
    """The nouns that each value of an attribute makes a name with, such as dog of `hot`."""
    found: dict[str, frozenset[str]] = {}
    for row in packaged_rows("composition.txt")["fixed"]:
        for pair in row.split(","):
            value, nouns = pair.split()
            found[value] = found.get(value, frozenset()) | frozenset(nouns.split("/"))
    return found


@cache
def opposites() -> list[tuple[tuple[str, ...], str, str]]:
    """Return relations as their words, their opposite and what they need (`_NEEDS`), those of most words first."""
    found = []
    for need in _NEEDS:
        for row in packaged_rows("composition.txt")[need]:
            relation, _, opposite = row.partition(" = ")
            found.append((tuple(relation.split()), opposite, need))
    return sorted(found, key=lambda one: -len(one[0]))


# Who does what to whom.

_JOINED = frozenset({"CC", "IN", "TO", "POS", ","})
"""Before the first of two beings these say that it is only part of who acts: `a group of men`, `a man and a woman`."""

_NO_WHOLE = frozenset({"POS", "WP", "WDT", "VBZ", "VBD", "MD"})
"""After the second of two beings these say that it is only part of whom it concerns, or who acts next."""


@dataclass(frozen=True)
class _Being:
    """A noun phrase with its article, `tokens[start:stop]`, and lemma and tag of its noun.

    It stands alone where it is a being by its noun, says by an article or its plural that it begins here, is nobody's,
    and no other noun stands in it.
    """

    start: int
    stop: int
    noun: str
    tag: str
    alone: bool

    @classmethod
    def of(cls, one: Phrase, tokens: Tagged) -> _Being:
        start, last, beings = with_opener(tokens, one.start), tokens[one.stop - 1], words("being")
        opened = start < one.start or last.tag == "NNS"
        owned = any(token.tag == "PRP$" for token in tokens[start : one.stop])  # `a man pets his dog`
        known = all(token.part == "adjective" or token.lemma in beings for token in tokens[one.start : one.stop])
        return cls(start, one.stop, one.head, last.tag, opened and known and not owned and one.head in beings)


def swapped_roles(caption: Caption) -> str | None:
    """Exchange the being that acts and the one that it acts on; None where a caption has no such two.

    >>> from evenreel.language.taggers import PatternTagger
    >>> text = "A dog chases the small cat."
    >>> swapped_roles(Caption(text, PatternTagger().tag([text])[0]))
    'The small cat chases a dog.'
    """
    tokens = caption.tokens
    beings = [_Being.of(one, tokens) for one in phrases(tokens) if one.kind == "entity"]
    for first, second in pairwise(beings):
        verb = _verb_of(tokens[first.stop : second.start])
        if verb and first.alone and second.alone and _whole(tokens, first, second) and _does_to(verb, first, second):
            one, other = (first.start, first.stop), (second.start, second.stop)
            return caption.replaced({one: caption.stretch(*other), other: caption.stretch(*one)})
    return None


def _does_to(verb: str, first: _Being, second: _Being) -> bool:
    """Whether the second could do to the first what the first does to it, and it is not said of both anyway."""
    if first.tag != second.tag or first.noun == second.noun:  # the verb would have another number, or nothing changes
        return False
    people = [being.noun in words("person") for being in (first, second)]
    return verb not in words("mutual") and (people[0] == people[1] or verb in words("either"))


def _whole(tokens: Tagged, first: _Being, second: _Being) -> bool:
    before = tokens[first.start - 1].tag if first.start else ""
    after = tokens[second.stop] if second.stop < len(tokens) else None
    part = after is not None and (after.tag in _NO_WHOLE or after.lemma in ("of", "who", "that"))
    return before not in _JOINED and not part


def _verb_of(between: Tagged) -> str:
    """The verb that tokens are, with helping verbs, adverbs and at most one preposition; empty where they are not."""
    verbs = [token for token in between if token.part == "verb"]
    others = [token for token in between if token.part not in ("verb", "adverb")]
    passive = bool(verbs) and verbs[-1].tag in ("VBN", "VBD")
    known = all(token.lemma in words("toward") or (passive and token.lemma == "by") for token in others)
    helping = all(one.lemma in ("be", "have") for one in verbs[:-1])
    return verbs[-1].lemma if verbs and len(others) < 2 and known and helping else ""


# Which thing has which attribute.

_AGES = frozenset({"year", "month", "week"})
"""After these `old` says how old."""

_OF_BEINGS = frozenset({"age", "height"})
_OF_THINGS = frozenset({"newness", "length"})


def swapped_attributes(caption: Caption, random: np.random.Generator) -> str | None:
    """Exchange two attributes of one kind, or give the only one another value of its kind; None where there is none.

    >>> from evenreel.language.taggers import PatternTagger
    >>> def swapped(text):
    ...     return swapped_attributes(Caption(text, PatternTagger().tag([text])[0]), np.random.default_rng(0))
    >>> swapped("a red ball lies on an orange box"), swapped("An old man walks")
    ('an orange ball lies on a red box', 'A young man walks')
    """
    tokens = caption.tokens
    found = [at for at, one in enumerate(tokens) if one.text.lower() in attribute_values() and _describes(tokens, at)]
    texts, may = [tokens[place].text.lower() for place in found], [_others(tokens, place) for place in found]
    for one, other in combinations(range(len(found)), 2):
        # Each value is there once: `a black dog and a white dog chase a black cat` would say less.
        alone = texts.count(texts[one]) == texts.count(texts[other]) == 1
        if texts[one] in may[other] and texts[other] in may[one] and alone:
            first, second = found[one], found[other]
            return caption.replaced({(first, first + 1): texts[other], (second, second + 1): texts[one]})
    for place, every in zip(found, may, strict=True):
        if others := [other for other in every if other not in texts]:
            return caption.replaced({(place, place + 1): others[int(random.integers(len(others)))]})
    return None


def _others(tokens: Tagged, place: int) -> tuple[str, ...]:
    """All values that may take the place of one, of the thing that it is said of where that follows."""
    noun = next((token.lemma for token in tokens[place + 1 : place + 4] if token.part == "noun"), "")
    unfit = _OF_THINGS if noun in words("being") else _OF_BEINGS
    kinds = attribute_values()[tokens[place].text.lower()]
    return tuple(dict.fromkeys(other for kind, others in kinds if kind not in unfit for other in others))


def _describes(tokens: Tagged, place: int) -> bool:
    """Whether a value says how a thing is: before its noun, maybe behind other adjectives, or after a form of `be`."""
    token, after = tokens[place], tokens[place + 1] if place + 1 < len(tokens) else None
    value = token.text.lower()
    kinds = {kind for kind, _ in attribute_values()[value]}
    joined = [tokens[at].text for at in (place - 1, place + 1) if 0 <= at < len(tokens)]
    if "-" in joined or "and" in joined or token.part == "verb" or tokens[place - 1].lemma in _AGES:
        return False
    if "number" in kinds:
        return after is not None and after.tag in ("NNS", "JJ") and token.tag == "CD"
    if after is not None:
        of_a_name = "colour" in kinds and after.lemma in words("named")
        named = of_a_name or after.lemma in _fixed_nouns().get(value, ())  # `hot dog`
        follows = after.part == "adjective" and place + 2 < len(tokens) and tokens[place + 2].part == "noun"
        if (after.part == "noun" and not named) or follows:
            return token.part == "adjective" or kinds == {"colour"}
    return place > 0 and tokens[place - 1].lemma == "be" and token.part == "adjective"


# Where and when.

_OF_A_THING = frozenset({"above", "below", "behind", "inside", "outside", "onto", "near", "next", "toward", "towards"})


def swapped_relation(caption: Caption) -> str | None:
    """Turn the first relation of a caption that has an opposite into it; None where there is none.

    >>> from evenreel.language.taggers import PatternTagger
    >>> def swapped(text):
    ...     return swapped_relation(Caption(text, PatternTagger().tag([text])[0]))
    >>> swapped("A cat jumps into a box."), swapped("he picks up the ball on the left"), swapped("she has left")
    ('A cat jumps out of a box.', 'he picks up the ball on the right', None)
    """
    tokens = caption.tokens
    lower = [token.text.lower() for token in tokens]
    for start in range(len(tokens)):
        for relation, opposite, need in opposites():
            stop = start + len(relation)
            if tuple(lower[start:stop]) == relation and _NEEDS[need](tokens, start, stop):
                return caption.replaced({(start, stop): opposite})
    return None


def _lemma(tokens: Tagged, place: int) -> str:
    return tokens[place].lemma if 0 <= place < len(tokens) else ""


def _before_a_thing(tokens: Tagged, place: int) -> bool:
    return place < len(tokens) and (tokens[place].tag in OPENERS or tokens[place].part in ("noun", "adjective"))


def _side(tokens: Tagged, start: int, stop: int) -> bool:
    before, after = _lemma(tokens, start - 1), _lemma(tokens, stop)
    if (tokens[start].part == "verb" and before not in words("side after")) or after in words("no side"):
        return False
    return after in words("side before") or before in words("side after")


def _order(tokens: Tagged, start: int, stop: int) -> bool:
    before = _lemma(tokens, start - 1)
    if start == 0 or before in words("not order") or before in ("as", "never", "one", "day", "time"):
        return False
    return stop < len(tokens) and _lemma(tokens, stop) not in ("all", "that", "another", "each", "some", "a")


def _motion(tokens: Tagged, start: int, stop: int) -> bool:
    """Whether a verb of motion stands before, maybe with what moves between them."""
    place = start - 1
    while place >= 0 and (tokens[place].part in ("noun", "adjective", "adverb") or tokens[place].tag in OPENERS):
        place -= 1
    verb = _lemma(tokens, place)
    if tokens[place].part != "verb" or not (verb in words("motion verbs") or verb in words_of("motion")):
        return False
    if verb in words(f"not {' '.join(token.text.lower() for token in tokens[start:stop])}"):
        return False
    if tokens[start].text.lower() in ("up", "down"):
        return place == start - 1
    return _before_a_thing(tokens, stop) and _thing(tokens, stop) not in words("no inside")


_NEEDS: dict[str, Callable[[Tagged, int, int], bool]] = {
    "always": lambda tokens, start, stop: (
        tokens[start].text.lower() not in _OF_A_THING or _before_a_thing(tokens, stop)
    ),
    "side": _side,
    "order": _order,
    "motion": _motion,
    "holder": lambda tokens, _, stop: _thing(tokens, stop) in words("holder nouns"),  # that may carry another
}
"""What a relation needs beside its word, by its rows in `composition.txt`."""


def _thing(tokens: Tagged, place: int) -> str:
    """The noun of the noun phrase that begins there; empty where none does."""
    while place < len(tokens) and (tokens[place].tag in OPENERS or tokens[place].part == "adjective"):
        place += 1
    while place + 1 < len(tokens) and tokens[place + 1].part == "noun":
        place += 1
    return tokens[place].lemma if place < len(tokens) and tokens[place].part == "noun" else ""


# Things that are there, and things that are not.

_DENIALS = frozenset({"n't", "never", "no", "not", "n’t", "without"})


def with_thing(pattern: str, caption: str, thing: str) -> str:
    """Put a caption and a thing into a pattern; a full stop stays at the end.

    >>> with_thing(THINGS["affirmed"], "A man runs.", "owl")
    'A man runs, with an owl in sight.'
    """
    text = caption.strip()
    body = text.removesuffix(".").rstrip()
    return with_articles(pattern.format(caption=body, thing=thing)) + "." * text.endswith(".")


def answer(name: str, shown: str, absent: str) -> str:
    """Say of two things what one of `ANSWERS` says.

    >>> answer("false-hybrid", "dog", "owl")
    'a video with an owl and no dog'
    """
    return with_articles(ANSWERS[name].format(shown=shown, absent=absent))


def shown_thing(tokens: Tagged) -> str | None:
    """Return the first thing that a tagged caption names behind `a` or `an`, before any word that denies.

    >>> from evenreel.language.taggers import PatternTagger
    >>> tagger = PatternTagger()
    >>> [shown_thing(tokens) for tokens in tagger.tag(["the man holds a red ball", "two men without a hat"])]
    ['ball', None]
    """
    denied = (place for place, token in enumerate(tokens) if token.text.lower() in _DENIALS)
    return next(_countable_things(tokens[: next(denied, len(tokens))]), None)


def absent_things(
    captions: Sequence[str], tagged: Sequence[Tagged], clip_ids: Sequence[str], seed: int
) -> list[str | None]:
    """Draw for each caption a thing that a caption of another clip names and none of its own clip; None without one.

    Where the own captions name a person, no person is drawn: another word may mean the same one. A word that only one
    clip's captions name is not drawn where others are left.
    """
    named: dict[str, set[str]] = defaultdict(set)
    lent: dict[str, set[str]] = defaultdict(set)
    for clip, tokens in zip(clip_ids, tagged, strict=True):
        named[clip].update(meant(token.lemma) for token in tokens if token.part == "noun")
        for thing in _countable_things(tokens):
            lent[thing].add(clip)
    often = sorted({thing for thing, clips in lent.items() if len(clips) > 1} or lent)
    return [
        _drawn(often, named[clip], np.random.default_rng([seed, *caption.encode()]))
        for caption, clip in zip(captions, clip_ids, strict=True)
    ]


def _drawn(things: Sequence[str], named: set[str], random: np.random.Generator) -> str | None:
    peopled = bool(named & words("person"))
    for thing in (things[int(place)] for place in random.permutation(len(things))):
        if meant(thing) not in named and not (peopled and thing in words("person")):
            return thing
    return None


def meant(noun: str) -> str:
    """Return the name of the group of synonyms of a noun, or the noun itself where it has none."""
    return caption_synonyms().nouns.get(noun, noun)


def _countable_things(tokens: Tagged) -> Iterator[str]:
    """Singular nouns of a tagged caption behind `a` or `an`, of which one can say that there is none."""
    for one in content_phrases(tokens):
        noun = tokens[one.stop - 1]
        opened = one.start > 0 and tokens[one.start - 1].text.lower() in ("a", "an")
        of = one.stop < len(tokens) and tokens[one.stop].lemma == "of"
        no_thing = noun.lemma in amounts() or noun.lemma in attribute_values()
        countable = opened and noun.tag == "NN" and noun.lemma.isalpha() and not (of or no_thing)
        if one.kind == "entity" and countable:
            yield one.head


SWAPS: dict[str, Callable[[Caption, np.random.Generator], str | None]] = {
    "role-swapped": lambda caption, _: swapped_roles(caption),
    "attribute-swapped": swapped_attributes,
    "relation-swapped": lambda caption, _: swapped_relation(caption),
}
"""By name, edits that make a caption false of its clip: what becomes of it, None where nothing can be swapped."""

EDITS = (*SWAPS, *THINGS, *ANSWERS)
"""Names of all edits of composition."""
