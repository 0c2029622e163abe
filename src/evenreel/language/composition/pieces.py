"""Stretches of a caption put in others' places, with articles and capitals that fit again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evenreel.language.taggers import closed_words
from evenreel.language.tokens import Tagged
from evenreel.language.wording import lowered, token_places

_ARTICLE = re.compile(r"\b(an?)(\s+)([^\W_]\w*)", re.IGNORECASE)
_VOWEL_SOUND = re.compile(r"(?:[aeio]|u(?!ni(?!n)|s[eu]|k|ti)|hour|honest|heir)", re.IGNORECASE)
_NO_VOWEL_SOUND = re.compile(r"(?:one\b|once\b|eu|ewe)", re.IGNORECASE)


@dataclass(frozen=True)
class Caption:
    """A tagged caption of which stretches can be replaced.

    Attributes:
        text: the caption as it is written, without spaces around it.
        tokens: its tokens.
    """

    text: str
    tokens: Tagged

    def replaced(self, changes: Mapping[tuple[int, int], str]) -> str:
        """Return the caption with other texts in the places of some stretches of tokens.

        Args:
            changes: new text by the stretch, its first token and one past its last; stretches do not overlap.
        """
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
        return (
            lowered(found) if start == 0 and (first in closed_words() or first == found.split()[0].lower()) else found
        )


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
