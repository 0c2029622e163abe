"""Scene elements of captions: entities and activities that can be seen, each in one spelling (BiMa, section 3.1).

An entity is a noun with its modifiers (`red ball`); an activity is a verb with its particle and what it is done to or
where (`kick red ball`, `sit on chair`). Words are in their base form, without articles, possessives and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

from evenreel.errors import UsageError
from evenreel.language.folding import lemma_of
from evenreel.language.noun_phrases import Phrase, base_form, phrases, with_opener
from evenreel.language.role_graphs import is_word, words_of
from evenreel.language.synonyms import (
    NO_SYNONYMS,
    Synonyms,
    amounts,
    caption_synonyms,
    packaged_lines,
    stop_nouns,
    stop_verbs,
)
from evenreel.language.taggers import TaggerName, load_tagger
from evenreel.language.tokens import Tagged, Token
from evenreel.progress import Progress

Forms = Literal["all", "whole", "bare"]
"""What is noted of a phrase with words that may be left away: the whole phrase and all shorter ones, or one of them."""

ENTITIES, ACTIVITIES = "entities", "activities"

Extractor = Callable[[Sequence[str]], Sequence[Mapping[str, Sequence[str]]]]
"""Captions -> for each of them `{"entities": [...], "activities": [...]}`, from a language model for example."""


_BATCH = 256
_SHOWN = 80
_PLACES = ("ARGM-LOC", "ARGM-DIR", "ARGM-MNR")
_OPENERS = frozenset({"a", "an", "the", "his", "her", "its", "their", "my", "your", "our", "some", "this", "that"})


@dataclass(frozen=True)
class MiningSettings:
    """Settings of mining a dictionary of scene elements from captions.

    Attributes:
        tagger: tagger that finds the words of captions: auto, pattern or spacy (`evenreel.language.load_tagger`).
        min_captions: leave out phrases that fewer captions name; most of those are misreadings and rarities.
        max_entities: most entities, the most frequent first.
        max_activities: most activities, the most frequent first.
        modifiers: phrases that `big red ball` counts for: `all`, also `red ball` and `ball`; `whole`, it alone; `bare`,
            `ball` alone. A rare combination is then left out as too rare, and its noun stays, which `whole` would lose;
            `bare` cannot tell a red ball from a blue one. Modifiers are adjectives: `tennis ball` is never cut.
        objects: phrases that `kick red ball` counts for: `all`, also `kick ball` and `kick`; `whole`, it alone; `bare`,
            `kick` alone.
        synonyms: groups of words of which the first stands for all; none by default, because an encoder tells words
            apart that a list of synonyms does not.
    """

    tagger: TaggerName = "auto"
    min_captions: int = 5
    max_entities: int = 2000
    max_activities: int = 1000
    modifiers: Forms = "all"
    objects: Forms = "all"
    synonyms: Synonyms = NO_SYNONYMS

    def __post_init__(self) -> None:
        for name in ("min_captions", "max_entities", "max_activities"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be 1 or more.")
        for name in ("modifiers", "objects"):
            if getattr(self, name) not in get_args(Forms):
                raise UsageError(f"{name} is {getattr(self, name)!r}; choose all, whole or bare.")


@dataclass(frozen=True, slots=True)
class Elements:
    """Entities and activities that one caption names, each phrase once, in the order of the caption."""

    entities: tuple[str, ...]
    activities: tuple[str, ...]


def read_elements(
    captions: Sequence[str],
    extract: Extractor | None = None,
    settings: MiningSettings | None = None,
    progress: Progress = lambda share: None,
) -> list[Elements]:
    """Find the entities and activities of each caption; equal captions are read once.

    Args:
        captions: texts of captions.
        extract: finds the phrases of a few hundred captions at a time; None for a tagger and rules. What it finds is
            brought to base forms.
        settings: how a tagger's words become phrases.
        progress: called with the share that is done.

    Raises:
        UsageError: `extract` returned something else than an `Extractor` does, or the tagger is not installed.

    >>> read_elements(["A man kicks a red ball."], settings=MiningSettings(tagger="pattern"))
    [Elements(entities=('man', 'red ball', 'ball'), activities=('kick red ball', 'kick ball', 'kick'))]
    """
    find = _reader(extract, settings or MiningSettings())
    distinct = list(dict.fromkeys(captions))
    found: dict[str, Elements] = {}
    for start in range(0, len(distinct), _BATCH):
        batch = distinct[start : start + _BATCH]
        found.update(zip(batch, find(batch), strict=True))
        progress(len(found) / len(distinct))
    return [found[caption] for caption in captions]


def _reader(extract: Extractor | None, settings: MiningSettings) -> Callable[[Sequence[str]], list[Elements]]:
    """What finds the elements of some captions."""
    if extract is not None:
        return lambda captions: _checked(extract(captions), captions)
    tagger = load_tagger(settings.tagger)
    return lambda captions: [elements_of(tokens, settings) for tokens in tagger.tag(captions)]


def elements_of(tokens: Tagged, settings: MiningSettings) -> Elements:
    """Find the entities and activities of a tagged caption.

    Pronouns, nouns that stand for any thing or for the video itself (`something`, `scene`), amounts before `of`, and
    verbs that say nothing of what is done are left out.
    """
    found = phrases(tokens)
    entities = {one.start: _entity_forms(tokens, one, settings) for one in found if one.kind == "entity"}
    at = {with_opener(tokens, start): forms for start, forms in entities.items()}
    activities = (_activity_forms(tokens, one, at, settings) for one in found if one.kind == "activity")
    return Elements(_once(entities.values()), _once(activities))


def _once(forms: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(phrase for some in forms for phrase in some))


def _entity_forms(tokens: Tagged, entity: Phrase, settings: MiningSettings) -> list[str]:
    """`small red ball`, `red ball` and `ball`; nothing where it names no thing."""
    words = [one for one in tokens[entity.start : entity.stop] if is_word(one) and not _says_nothing(one)]
    of = entity.stop < len(tokens) and tokens[entity.stop].lemma == "of"
    if not words or entity.head in _no_entities() or (of and entity.head in amounts()) or not _named(words[-1]):
        return []
    return list(_chosen(_shorter(words, settings.synonyms.nouns), settings.modifiers))


def _shorter(words: Sequence[Token], known: Mapping[str, str]) -> list[str]:
    """A noun phrase, and what is left of it without its first modifier, then without its second; synonyms as one."""
    nouns = _nouns_from(words)
    modifiers, thing = [token.text.lower() for token in words[:nouns]], base_form(words[nouns:])
    forms: list[str] = []
    for start in range(nouns + 1):
        whole = base_form(words[start:])
        if whole in _compounds():  # a hot dog is no dog
            return [*forms, known.get(whole, whole)]
        forms.append(" ".join([*modifiers[start:], known.get(thing, thing)]))
    return forms


def _says_nothing(token: Token) -> bool:
    return token.part == "adjective" and token.lemma in words_of_list("not_modifier")


def _named(head: Token) -> bool:
    """Whether it is a word with letters, and more than one."""
    return len(head.lemma) > 1 and any(map(str.isalpha, head.lemma))


def _nouns_from(words: Sequence[Token]) -> int:
    """Where the nouns start that a phrase ends with."""
    first = len(words) - 1
    while first > 0 and words[first - 1].part == "noun":
        first -= 1
    return first


def _chosen(forms: Sequence[str], which: Forms) -> Sequence[str]:
    return forms if which == "all" else forms[:1] if which == "whole" else forms[-1:]


def _activity_forms(
    tokens: Tagged, activity: Phrase, at: Mapping[int, Sequence[str]], settings: MiningSettings
) -> Sequence[str]:
    """`kick red ball`, `kick ball` and `kick`; nothing where the verb says nothing."""
    verb = tokens[activity.start]
    if {verb.lemma, activity.head} & _no_activities() or not _named(verb):
        return ()
    link, things = _things(tokens, activity.start + len(activity.head.split()), at)
    of_two = activity.head in caption_synonyms().verbs  # `turn on`, where `drive down` has a preposition
    bare = activity.head if of_two or not things else verb.lemma
    known = settings.synonyms.verbs
    head = known.get(activity.head, activity.head)
    return _chosen([*(f"{head} {link}{thing}" for thing in things), known.get(bare, bare)], settings.objects)


def _things(tokens: Tagged, after: int, at: Mapping[int, Sequence[str]]) -> tuple[str, Sequence[str]]:
    """The preposition behind a verb, if any, and what follows: `` and `red ball`, or `on ` and `wooden chair`."""
    if after in at or after >= len(tokens) or not _is_place(tokens[after]):
        return "", at.get(after, ())
    return f"{tokens[after].lemma} ", at.get(after + 1, ())


def _is_place(token: Token) -> bool:
    return token.tag in ("IN", "TO", "RP") and any(token.lemma in words_of(role) for role in _PLACES)


def _checked(answers: Any, captions: Sequence[str]) -> list[Elements]:
    """What a function of the user's gave, as elements."""
    if isinstance(answers, (str, bytes, Mapping)) or not isinstance(answers, Sequence):
        raise UsageError(
            f"The function that finds scene elements gave {_short(answers)} for {len(captions)} captions; it is to "
            "give a list with a dictionary for each."
        )
    if len(answers) != len(captions):
        raise UsageError(
            f"The function that finds scene elements gave {len(answers)} answers for {len(captions)} captions, the "
            f"first of which is {_short(captions[0])}; it is to give one for each."
        )
    return [_elements(answer, caption) for answer, caption in zip(answers, captions, strict=True)]


def _elements(answer: Any, caption: str) -> Elements:
    lists = [answer.get(kind) for kind in (ENTITIES, ACTIVITIES)] if isinstance(answer, Mapping) else [None]
    if not all(isinstance(one, (list, tuple)) and all(isinstance(phrase, str) for phrase in one) for one in lists):
        raise UsageError(
            f"For the caption {_short(caption)} the function that finds scene elements gave {_short(answer)}; it is to "
            "give a dictionary with two lists of phrases, `entities` and `activities`."
        )
    entities, activities = (tuple(one or ()) for one in lists)
    return Elements(_plain(entities, plain_entity), _plain(activities, plain_activity))


def _plain(given: Sequence[str], spelling: Callable[[str], str]) -> tuple[str, ...]:
    """Phrases in base forms, each once; one without a word names nothing."""
    return tuple(dict.fromkeys(phrase for one in given if (phrase := spelling(one))))


def plain_entity(phrase: str) -> str:
    """Bring a noun phrase to the spelling of dictionaries: base forms, without articles.

    >>> plain_entity("The Red Balls"), plain_entity(" . ")
    ('red ball', '')
    """
    words = [word for word in _words(phrase) if word not in _OPENERS]
    return " ".join([*words[:-1], lemma_of(words[-1], "noun")]) if words else ""


def plain_activity(phrase: str) -> str:
    """Bring a verb phrase to the spelling of dictionaries: base forms, without articles and auxiliaries.

    >>> plain_activity("is kicking the red balls"), plain_activity("Sits")
    ('kick red ball', 'sit')
    """
    words = [word for word in _words(phrase) if word not in _OPENERS]
    while len(words) > 1 and lemma_of(words[0], "verb") == "be":
        words = words[1:]
    if not words:
        return ""
    verb, *rest = words
    return " ".join([lemma_of(verb, "verb"), *rest[:-1], *(lemma_of(word, "noun") for word in rest[-1:])])


def _words(phrase: str) -> list[str]:
    """Its words in small letters, without marks around them."""
    stripped = (word.strip(".,;:!?\"'()[]") for word in phrase.lower().split())
    return [word for word in stripped if any(map(str.isalnum, word))]


def _short(value: object) -> str:
    words = repr(value)
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}..."


@lru_cache(maxsize=1)
def _lists() -> dict[str, tuple[str, ...]]:
    lists: dict[str, tuple[str, ...]] = {}
    for line in packaged_lines("scene_elements.txt"):
        name, _, words = line.partition(": ")
        lists[name] = lists.get(name, ()) + tuple(words.split(", "))
    return lists


def words_of_list(name: str) -> tuple[str, ...]:
    """Return the phrases of a list in the package's `scene_elements.txt` by the list's name, in its order."""
    return _lists()[name]


@lru_cache(maxsize=1)
def _no_entities() -> frozenset[str]:
    return stop_nouns() | frozenset(words_of_list("not_entity"))


@lru_cache(maxsize=1)
def _no_activities() -> frozenset[str]:
    return stop_verbs() | frozenset(words_of_list("not_activity"))


@lru_cache(maxsize=1)
def _compounds() -> frozenset[str]:
    """Noun phrases that are one thing with their first word."""
    return frozenset(words_of_list("entity")) | caption_synonyms().nouns.keys()
