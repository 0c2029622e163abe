"""How captions are worded: style, words that are masked or scrambled."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError
from evenreel.language.noun_phrases import OPENERS, Phrase, phrases, with_opener
from evenreel.language.synonyms import packaged_lines, stop_nouns, stop_verbs
from evenreel.language.taggers import closed_words
from evenreel.language.tokens import Tagged, Tagger, Token
from evenreel.types import FloatArray

# Division of a caption into content and the style before and after it.
#
# Style is words about the recording or the writer: `in this video`, `a clip of`, `we see`, `there is`, `as one can
# see`. It is recognised at both ends of a caption, with the function words between it and the rest, which is the
# content.

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

    >>> from evenreel.language.taggers import PatternTagger
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

    >>> from evenreel.language.taggers import PatternTagger
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
        return one.head in _style("verbs") and _is_told(one, tokens)
    nouns = [token.lemma for token in tokens[one.start : one.stop] if token.part == "noun"]
    if all(noun in _style("nouns") for noun in nouns):
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
    return subject.lemma in _TELLERS or (subject.part == "noun" and subject.lemma in _style("nouns"))


def _shows(verb: Phrase, speaker: Phrase, tokens: Tagged) -> bool:
    """Whether a speaker is all that stands with a verb of showing: `someone shows`, `shown by someone`."""
    if verb.head not in _style("verbs") or not _is_told(verb, tokens):
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
    return word in _style("adverbs") or (word.endswith("ly") and word not in _NO_MANNER)


def _is_word(token: Token) -> bool:
    return any(letter.isalnum() for letter in token.text)


def _joined(caption: str, places: Sequence[tuple[int, int]]) -> str:
    """Some stretches of a caption, with a space between two where it has one between them."""
    text = caption[slice(*places[0])]
    for (_, before), (first, last) in pairwise(places):
        text += " " * any(map(str.isspace, caption[before:first])) + caption[first:last]
    return text


@cache
def _style(part: str) -> frozenset[str]:
    """Words of style: `nouns`, `verbs` or `adverbs`."""
    return frozenset(packaged_lines(f"style_{part}.txt"))


# Edits of captions that change their style and keep their content, or the other way round.

SOMETHING = "something"
"""What is said where content is taken away."""

CAPTION = "{caption}"
"""Where a pattern has the caption."""


def restyled(edit: str, captions: Sequence[str], clip_ids: Sequence[str], tagger: Tagger, seed: int = 0) -> list[str]:
    """Apply an edit of style or content to captions; captions without content stay unchanged.

    Args:
        edit: name of the edit, a key of `EDITS`.
        captions: Q texts.
        clip_ids: clip of each caption (Q,); an edit that takes the style or content of another caption takes it from
            one of another clip.
        tagger: tags the words, by which content is told from style.
        seed: seed of the draw of those other captions.
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
    """Put each caption into a sentence pattern drawn at random.

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


def toggle_marks(caption: str) -> str:
    """Toggle the first capital and the full stop of a caption and keep every word: a control edit.

    >>> toggle_marks("A man runs."), toggle_marks("a man runs")
    ('a man runs', 'A man runs.')
    """
    text = caption.strip()
    text = text.removesuffix(".") if text.endswith(".") else f"{text}."
    return f"{text[:1].swapcase()}{text[1:]}"


def differ_in_words(one: str, other: str) -> bool:
    """Return whether two captions differ in more than a capital, a full stop and spaces.

    >>> differ_in_words("A man runs.", "a man runs"), differ_in_words("A man runs.", "a dog runs")
    (False, True)
    """
    first, second = (lowered(" ".join(text.strip().removesuffix(".").split())) for text in (one, other))
    return first != second


EDITS: dict[str, Callable[[Wording, Wording], str]] = {
    "style-removed": lambda own, _: own.bare,
    "style-swapped": lambda own, lender: lender.around(own.content),
    "content-removed": lambda own, _: own.around(SOMETHING),
    "content-swapped": lambda own, lender: own.around(lender.content),
}
"""By name, what becomes of a caption and of one that lends to it."""

_LENT = frozenset({"style-swapped", "content-swapped"})


def _in_pattern(pattern: str, caption: str) -> str:
    first = caption.split(" ", 1)[0]
    inside = not pattern.startswith(CAPTION) and first.istitle() and first != "I"
    return pattern.replace(CAPTION, lowered(caption) if inside else caption)


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


# Scrambled text: random letters in place of a text, to be looked at, and random syllables, to be said.

CONSONANTS = "bcdfghjklmnpqrstvwxz"
"""Of these alone there are no words; y sounds as a vowel now and then, so it is left out."""

VOWELS = "aeiou"
DIGITS = "0123456789"


def scrambled(text: str, random: np.random.Generator) -> str:
    """Replace each letter by another random consonant, and each digit by another digit; capitals stay capitals.

    >>> scrambled("Gate 7, left", np.random.default_rng(0))
    'Wqmh 2, bcbf'
    """
    return "".join(_other(letter, CONSONANTS, random) for letter in text)


def babbled(text: str, random: np.random.Generator) -> str:
    """Replace each vowel by another vowel, each other letter by another consonant, and each digit by another digit.

    What comes out can be said in about the same time and says nothing.

    >>> babbled("Gate 7, left", np.random.default_rng(0))
    'Womi 2, babf'
    """
    kinds = (VOWELS if letter.lower() in VOWELS else CONSONANTS for letter in text)
    return "".join(_other(letter, kind, random) for letter, kind in zip(text, kinds, strict=True))


def _other(letter: str, letters: str, random: np.random.Generator) -> str:
    if not letter.isalnum():
        return letter
    others = (DIGITS if letter.isdecimal() else letters).replace(letter.lower(), "")
    drawn = others[int(random.integers(len(others)))]
    return drawn.upper() if letter.isupper() else drawn


# Removal, generalisation or replacement of words in a caption that leaves the rest readable.
#
# A removed word leaves no loose comma, double space or clitic (`the man's dog` without `man` is `the dog`), an article
# before a replaced word becomes `a` or `an` as needed, and a capital at the beginning stays one. Articles stay where
# their noun is removed (`a is running`): the shorter the edit, the surer it is.

THINGS = "things"
"""What is said instead of a noun of several things; of one it is `SOMETHING`."""

DEEDS = {"VBG": "doing something", "VBZ": "does something", "VBD": "did something", "VBN": "done"}
"""What is said instead of a verb, by its tag; of others it is `do something`."""

_ARTICLES = frozenset({"a", "an", "the"})
_AS_VOWEL = re.compile(r"(?!uni(?![dmn])|us[eu]|ut[ei]|uku|eu|one\b|once\b)[aeiou]|hour|honest|honou?r", re.IGNORECASE)
_CLITIC = re.compile(r".['’]\w+|s['’]", re.IGNORECASE)
"""With the last letter of its word: an apostrophe alone is one after s, else a quotation mark."""
_OBJECT_TAGS = frozenset({"DT", "PDT", "PRP$", "CD"})


def without(caption: str, tokens: Tagged, places: Collection[int]) -> str:
    """Remove the tokens at some places from a caption.

    >>> from evenreel.language.taggers import PatternTagger
    >>> text = "A man, a dog and another man's cat run."
    >>> without(text, PatternTagger().tag([text])[0], {1, 7})
    'A, a dog and another cat run.'
    """
    return rewritten(caption, tokens, dict.fromkeys(places, ""))


def generic(caption: str, tokens: Tagged, places: Collection[int]) -> str:
    """Replace nouns, verbs and adjectives at some places of a caption by words without content.

    A noun becomes `something`, without an article, or `things`; a verb becomes `doing something` in its own form, with
    `with` before an object; an adjective is removed.

    >>> from evenreel.language.taggers import PatternTagger
    >>> text = "The man is playing a big guitar"
    >>> [tagged] = PatternTagger().tag([text])
    >>> generic(text, tagged, {1}), generic(text, tagged, {3, 5})
    ('Something is playing a big guitar', 'The man is doing something with a guitar')
    """
    words: dict[int, str] = {}
    for place in places:
        words[place] = _generic(tokens, place)
        before = place - 1
        if words[place] == SOMETHING and before >= 0 and tokens[before].lemma in _ARTICLES:
            words[before] = ""
    return rewritten(caption, tokens, words)


def rewritten(caption: str, tokens: Tagged, words: Mapping[int, str]) -> str:
    """Replace the tokens at some places of a caption by other words.

    >>> from evenreel.language.taggers import PatternTagger
    >>> [tagged] = PatternTagger().tag(["an orange cat"])
    >>> rewritten("an orange cat", tagged, {1: ""}), rewritten("an orange cat", tagged, {2: "owl"})
    ('a cat', 'an orange owl')
    """
    text = caption.strip()
    stretches = token_places(text, tokens)
    said = {**words, **_clitics(tokens, words, stretches)}
    said |= _articles(tokens, said)
    new, at = "", 0
    for place in sorted(said):
        first, last = stretches[place]
        new += text[at:first] + said[place]
        at = last
    new = _tidy(new + text[at:])
    return new[:1].upper() + new[1:] if text[:1].isupper() else new


def _generic(tokens: Tagged, place: int) -> str:
    token = tokens[place]
    if token.part == "noun":
        return THINGS if token.tag in ("NNS", "NNPS") else SOMETHING
    if token.part == "verb":
        deed = DEEDS.get(token.tag, "do something")
        return f"{deed} with" if deed.endswith(SOMETHING) and _has_object(tokens, place) else deed
    return ""


def _has_object(tokens: Tagged, place: int) -> bool:
    """Whether what follows a verb is what is done something with."""
    if place + 1 == len(tokens):
        return False
    after = tokens[place + 1]
    return after.tag in _OBJECT_TAGS or after.part in ("noun", "adjective")


def _clitics(tokens: Tagged, words: Mapping[int, str], stretches: list[tuple[int, int]]) -> dict[int, str]:
    """What hangs on a token that goes: `'s` of `man's`."""
    return {
        place + 1: ""
        for place, word in words.items()
        if not word
        and place + 1 < len(tokens)
        and _CLITIC.fullmatch(tokens[place].text[-1] + tokens[place + 1].text)
        and stretches[place][1] == stretches[place + 1][0]
    }


def _articles(tokens: Tagged, said: Mapping[int, str]) -> dict[int, str]:
    """`a` or `an` before a word that was not there before: `an orange cat`, but `a cat`."""
    found = {}
    for place, token in enumerate(tokens[:-1]):
        if place in said or place + 1 not in said or token.text.lower() not in ("a", "an"):
            continue
        follower = said[place + 1] or _next_of_phrase(tokens, place + 2, said)
        if follower:
            right = "an" if _AS_VOWEL.match(follower) else "a"
            found[place] = right.capitalize() if token.text[0].isupper() else right
    return found


def _next_of_phrase(tokens: Tagged, place: int, said: Mapping[int, str]) -> str:
    """The word that an article before a hole goes with; empty where there is none."""
    while place < len(tokens) and said.get(place) == "":
        place += 1
    if place == len(tokens) or not _goes_with_article(tokens[place]):
        return ""
    return said.get(place, tokens[place].text)


def _goes_with_article(token: Token) -> bool:
    return token.part in ("noun", "adjective") or token.tag == "VBG"


def _tidy(text: str) -> str:
    """Without the spaces and commas that a hole leaves.

    >>> _tidy("a dog , , and   a cat , ."), _tidy(", then a dog")
    ('a dog, and a cat.', 'then a dog')
    """
    text = " ".join(text.split())
    text = re.sub(r"\s+([,.;:!?])", r"\1", text)
    text = re.sub(r"([,;:])(?:\s*[,;:])+", r"\1", text)
    text = re.sub(r"[,;:]\s*(?=[.!?]|$)", "", text)
    return text.lstrip(" ,;:")


_LONGEST_LINE = 1 << 20


def read_word_vectors(path: str | Path, words: Sequence[str]) -> tuple[NDArray[np.bool_], FloatArray]:
    """Read the pretrained vectors of some words from a text file in the form of GloVe or word2vec.

    GloVe's form is a word and its numbers a line; word2vec's has one line more at the start. Only the vectors asked for
    are kept in memory; the file may be packed with gzip. Where a word has several lines the first counts.

    Returns:
        Which words the file has, boolean (W,), and their vectors (W, D), zero where it has none.
    """
    path = Path(path)
    rows: dict[bytes, list[int]] = {}
    for row, word in enumerate(words):
        rows.setdefault(word.encode(), []).append(row)
    found = np.zeros(len(words), np.bool_)
    try:
        with path.open("rb") as file, gzip.open(file) if file.peek(2)[:2] == b"\x1f\x8b" else file as stream:
            number, first = 1, stream.readline(_LONGEST_LINE).split()
            if len(first) == 2 and all(part.isdigit() for part in first):  # word2vec: how many words, how many numbers
                number, first = 2, stream.readline(_LONGEST_LINE).split()
            dimension = len(first) - 1
            if dimension < 1:
                raise UsageError(f"Line {number} of {path} is no word with its vector; {_FORM}.")
            vectors = np.zeros((len(words), dimension), np.float32)
            others = iter(lambda: stream.readline(_LONGEST_LINE), b"")
            for at, line in enumerate(chain([b" ".join(first)], others), start=number):
                if (values := _vector(line.rstrip(), rows, dimension)) is not None:
                    if not np.isfinite(values).all():
                        raise UsageError(
                            f"Line {at:,} of {path} is not a word and {dimension} finite numbers; {_FORM}."
                        )
                    places = rows.pop(line.rstrip().rsplit(b" ", dimension)[0])
                    found[places], vectors[places] = True, values
    except (OSError, EOFError) as error:  # a broken gzip ends too early
        raise UsageError(f"The word vectors in {path} cannot be read: {error}.") from error
    return found, vectors


def _vector(line: bytes, rows: Mapping[bytes, Sequence[int]], dimension: int) -> FloatArray | None:
    """The vector of a line, NaN where it has none; None where its word is not wanted. Words may have spaces."""
    if line.count(b" ") < dimension:
        return np.full(dimension, np.nan, np.float32)
    if line.split(b" ", 1)[0] not in rows:
        return None
    word, *parts = line.rsplit(b" ", dimension)
    if word not in rows:
        return None
    try:
        return np.array([float(part) for part in parts], np.float32)
    except ValueError:
        return np.full(dimension, np.nan, np.float32)


_FORM = "give GloVe's or word2vec's text form, unpacked or as .gz"
