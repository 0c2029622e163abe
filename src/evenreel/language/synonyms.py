"""Synonyms: groups of words that mean nearly the same, those of the package and the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path

from evenreel.errors import CorpusError
from evenreel.types import Shown


@dataclass(frozen=True)
class Synonyms(Shown):
    """Groups of synonymous verbs and nouns; the first word of a group is its name.

    Attributes:
        verbs: name of the group of each verb, perhaps with a particle (`turn on`).
        nouns: name of the group of each noun, perhaps of several words.
    """

    verbs: Mapping[str, str]
    nouns: Mapping[str, str]

    def updated(self, own: Synonyms) -> Synonyms:
        """Return a copy of these groups in which the words of `own` are in the groups that `own` puts them in.

        >>> both = Synonyms({"chop": "cut"}, {}).updated(Synonyms({"chop": "chop", "hew": "chop"}, {}))
        >>> both.verbs
        {'chop': 'chop', 'hew': 'chop'}
        """
        return Synonyms({**self.verbs, **own.verbs}, {**self.nouns, **own.nouns})


NO_SYNONYMS = Synonyms({}, {})
"""Every lemma is a class of its own."""


@lru_cache(maxsize=1)
def caption_synonyms() -> Synonyms:
    """Return the groups of synonyms that come with the package, written for the words of video captions."""
    return _parse(_packaged("synonyms.txt"), "synonyms.txt")


@lru_cache(maxsize=1)
def stop_verbs() -> frozenset[str]:
    """Return verbs that say nothing of what is done, such as be, have and begin."""
    return frozenset(packaged_lines("stop_verbs.txt"))


@lru_cache(maxsize=1)
def stop_nouns() -> frozenset[str]:
    """Return nouns that name nothing, such as thing, something and side."""
    return frozenset(packaged_lines("stop_nouns.txt"))


@lru_cache(maxsize=1)
def amounts() -> frozenset[str]:
    """Return nouns that name nothing when `of` follows, such as piece, pair and number."""
    return frozenset(packaged_lines("amounts.txt"))


def packaged_lines(name: str) -> list[str]:
    """Return the lines of a text file in the package `evenreel.language`, without comments and empty lines."""
    return [line for line in _packaged(name).splitlines() if line and not line.startswith("#")]


@cache
def packaged_rows(name: str) -> dict[str, list[str]]:
    """Return the rows `kind: words` of a text file of the package by their kinds, in their order."""
    rows: dict[str, list[str]] = {}
    for line in packaged_lines(name):
        kind, _, rest = line.partition(":")
        rows.setdefault(kind, []).append(rest.strip())
    return rows


def read_synonyms(path: Path) -> Synonyms:
    """Read groups of synonyms from a text file, a line each, such as `verb: cut, chop, slice` or `noun: sofa, couch`.

    The first word names the group; words are in their base form; `#` starts a comment.

    Raises:
        CorpusError: the file cannot be read, a line has another form, or a word is in two groups.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark before the text
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"The synonyms in {path} cannot be read as UTF-8 text ({error}).") from error
    return _parse(text, str(path))


def _parse(text: str, source: str) -> Synonyms:
    groups: dict[str, dict[str, str]] = {"verb": {}, "noun": {}}
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].strip().lower()
        if not content:
            continue
        kind, colon, rest = content.partition(":")
        words = [" ".join(word.split()) for word in rest.split(",")]
        if not colon or kind.strip() not in groups or not all(words):
            raise CorpusError(
                f"Line {number} of {source} is {line.strip()!r}; write `verb:` or `noun:` and words with commas "
                "between them."
            )
        known = groups[kind.strip()]
        for word in words:
            if known.setdefault(word, words[0]) != words[0]:
                raise CorpusError(
                    f"Line {number} of {source} has the {kind.strip()} {word!r}, which is in the group of "
                    f"{known[word]!r} already; a word is in one group."
                )
    return Synonyms(groups["verb"], groups["noun"])


def _packaged(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
