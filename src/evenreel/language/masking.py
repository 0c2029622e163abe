"""Removal, generalisation or replacement of words in a caption that leaves the rest readable.

A removed word leaves no loose comma, double space or clitic (`the man's dog` without `man` is `the dog`), an article
before a replaced word becomes `a` or `an` as needed, and a capital at the beginning stays one. Articles stay where
their noun is removed (`a is running`): the shorter the edit, the surer it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from evenreel.language.tokens import Tagged, Token
from evenreel.language.wording import token_places

SOMETHING, THINGS = "something", "things"
"""What is said instead of a noun of one thing, and of several."""

DEEDS = {
    "VBG": "doing something",
    "VBZ": "does something",
    "VBD": "did something",
    "VBN": "done",
}
"""What is said instead of a verb, by its tag; of others it is `do something`."""

_ARTICLES = frozenset({"a", "an", "the"})
_AS_VOWEL = re.compile(r"(?!uni(?![dmn])|us[eu]|ut[ei]|uku|eu|one\b|once\b)[aeiou]|hour|honest|honou?r", re.IGNORECASE)
_CLITIC = re.compile(r".['’]\w+|s['’]", re.IGNORECASE)
"""With the last letter of its word: an apostrophe alone is one after s, else a quotation mark."""
_OBJECT_TAGS = frozenset({"DT", "PDT", "PRP$", "CD"})


def without(caption: str, tokens: Tagged, places: Collection[int]) -> str:
    """Remove the tokens at some places from a caption.

    Args:
        caption: text as given to the tagger.
        tokens: tagged tokens of the caption.
        places: indices of the tokens to remove.

    >>> from evenreel.language.pattern import PatternTagger
    >>> text = "A man, a dog and another man's cat run."
    >>> without(text, PatternTagger().tag([text])[0], {1, 7})
    'A, a dog and another cat run.'
    """
    return rewritten(caption, tokens, dict.fromkeys(places, ""))


def generic(caption: str, tokens: Tagged, places: Collection[int]) -> str:
    """Replace nouns, verbs and adjectives at some places of a caption by words without content.

    A noun becomes `something`, without an article, or `things`; a verb becomes `doing something` in its own form, with
    `with` before an object; an adjective is removed.

    Args:
        caption: text as given to the tagger.
        tokens: tagged tokens of the caption.
        places: indices of the tokens to replace.

    >>> from evenreel.language.pattern import PatternTagger
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

    Args:
        caption: text as given to the tagger; spaces at its ends are removed.
        tokens: tagged tokens of the caption.
        words: new words by index of the token; an empty one removes the token.

    >>> from evenreel.language.pattern import PatternTagger
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
