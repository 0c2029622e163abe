"""Scene elements of captions, and the dictionary that they make: what clips may show (BiMa, arXiv 2506.03589, 3.1).

An entity is a noun with its modifiers (`red ball`); an activity is a verb with its particle and what it is done to or
where (`kick red ball`, `sit on chair`). Words are in their base form, without articles, possessives and numbers.

A scene dictionary holds the entities and activities that clips may show, mined from captions or given as lists. The
paper says neither how large its dictionary is nor how it was made; here phrases are counted in captions, and each has
the number of captions that name it. How a dictionary is embedded, and looked up in clips, is in
`evenreel.features.scene_elements` and `evenreel.matchers.bima.select`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from evenreel.config import check_settings, whole
from evenreel.errors import UsageError
from evenreel.language.folding import lemma_of
from evenreel.language.noun_phrases import Phrase, base_form, phrases, with_opener
from evenreel.language.role_graphs import is_word, words_of
from evenreel.language.synonyms import (
    NO_SYNONYMS,
    Synonyms,
    amounts,
    caption_synonyms,
    packaged_rows,
    stop_nouns,
    stop_verbs,
)
from evenreel.language.taggers import TaggerName, load_tagger
from evenreel.language.tokens import Tagged, Token, most_frequent
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
    min_captions: Annotated[int, whole(1)] = 5
    max_entities: Annotated[int, whole(1)] = 2000
    max_activities: Annotated[int, whole(1)] = 1000
    modifiers: Forms = "all"
    objects: Forms = "all"
    synonyms: Synonyms = NO_SYNONYMS

    def __post_init__(self) -> None:
        check_settings("mining", self)


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

    >>> read_elements(["A man kicks a red ball."], settings=MiningSettings(tagger="pattern"))
    [Elements(entities=('man', 'red ball', 'ball'), activities=('kick red ball', 'kick ball', 'kick'))]
    """
    settings = settings or MiningSettings()
    tagger = load_tagger(settings.tagger) if extract is None else None
    distinct = list(dict.fromkeys(captions))
    found: dict[str, Elements] = {}
    for start in range(0, len(distinct), _BATCH):
        batch = distinct[start : start + _BATCH]
        if tagger is not None:
            elements = [elements_of(tokens, settings) for tokens in tagger.tag(batch)]
        else:
            assert extract is not None
            elements = _checked(extract(batch), batch)
        found.update(zip(batch, elements, strict=True))
        progress(len(found) / len(distinct))
    return [found[caption] for caption in captions]


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
    empty = words_of_list("not_modifier")
    words = [one for one in tokens[entity.start : entity.stop] if is_word(one)]
    words = [one for one in words if not (one.part == "adjective" and one.lemma in empty)]
    of = entity.stop < len(tokens) and tokens[entity.stop].lemma == "of"
    if not words or entity.head in _no_entities() or (of and entity.head in amounts()) or not _named(words[-1]):
        return []
    return list(_chosen(_shorter(words, settings.synonyms.nouns), settings.modifiers))


def _shorter(words: Sequence[Token], known: Mapping[str, str]) -> list[str]:
    """A noun phrase, and what is left of it without its first modifier, then without its second; synonyms as one."""
    nouns = len(words) - 1  # where the nouns start that it ends with
    while nouns > 0 and words[nouns - 1].part == "noun":
        nouns -= 1
    modifiers, thing = [token.text.lower() for token in words[:nouns]], base_form(words[nouns:])
    forms: list[str] = []
    for start in range(nouns + 1):
        whole = base_form(words[start:])
        if whole in _compounds():  # a hot dog is no dog
            return [*forms, known.get(whole, whole)]
        forms.append(" ".join([*modifiers[start:], known.get(thing, thing)]))
    return forms


def _named(head: Token) -> bool:
    """Whether it is a word with letters, and more than one."""
    return len(head.lemma) > 1 and any(map(str.isalpha, head.lemma))


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
    link = tokens[after] if after < len(tokens) and after not in at else None
    if link is None or link.tag not in ("IN", "TO", "RP") or not any(link.lemma in words_of(role) for role in _PLACES):
        return "", at.get(after, ())
    return f"{link.lemma} ", at.get(after + 1, ())


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
    plain = map(plain_entity, entities), map(plain_activity, activities)
    return Elements(*(tuple(dict.fromkeys(phrase for phrase in some if phrase)) for some in plain))


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


@cache
def words_of_list(name: str) -> tuple[str, ...]:
    """Return the phrases of a list in the package's `scene_elements.txt` by the list's name, in its order."""
    return tuple(phrase for row in packaged_rows("scene_elements.txt")[name] for phrase in row.split(", "))


@cache
def _no_entities() -> frozenset[str]:
    return stop_nouns() | frozenset(words_of_list("not_entity"))


@cache
def _no_activities() -> frozenset[str]:
    return stop_verbs() | frozenset(words_of_list("not_activity"))


@cache
def _compounds() -> frozenset[str]:
    """Noun phrases that are one thing with their first word."""
    return frozenset(words_of_list("entity")) | caption_synonyms().nouns.keys()


GIVEN, PACKAGED = "given as lists", "packaged with evenreel"
TRAIN = "train"
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class SceneDictionary:
    """Phrases of entities and activities that clips may show, each once."""

    entities: tuple[str, ...]  # N_e noun phrases, the most frequent first
    activities: tuple[str, ...]  # N_a verb phrases, the most frequent first
    entity_counts: tuple[int, ...] = ()  # N_e numbers of captions that name each; empty where they were not counted
    activity_counts: tuple[int, ...] = ()  # N_a numbers of captions that name each; empty where they were not counted
    captions: int = 0  # number of captions that were read; 0 where they were not counted
    source: str = GIVEN  # origin of the phrases, in words
    # splits of a corpus whose captions were read; empty where the phrases are from elsewhere
    splits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.entities and not self.activities:
            raise UsageError("A scene dictionary has neither entities nor activities; give it some phrases.")
        _check(ENTITIES, self.entities, self.entity_counts)
        _check(ACTIVITIES, self.activities, self.activity_counts)

    @property
    def digest(self) -> str:
        """Hexadecimal digest of the phrases in their order; it changes whenever embeddings of the phrases would."""
        phrases = json.dumps([self.entities, self.activities]).encode()
        return hashlib.blake2b(phrases, digest_size=_DIGEST_BYTES).hexdigest()

    @property
    def uses(self) -> tuple[str, ...]:
        """Labels that say which splits other than the training split the phrases are from; mostly empty.

        >>> SceneDictionary(("ball",), (), splits=("train", "test")).uses
        ('scene elements from captions of test',)
        """
        others = [split for split in self.splits if split != TRAIN]
        return (f"scene elements from captions of {' and '.join(others)}",) if others else ()

    @property
    def lacks(self) -> tuple[str, ...]:
        """Kinds that the dictionary has no phrase of, `entities` or `activities`; mostly empty.

        >>> SceneDictionary(("ball",), ()).lacks
        ('activities',)
        """
        kinds = ((ENTITIES, self.entities), (ACTIVITIES, self.activities))
        return tuple(kind for kind, phrases in kinds if not phrases)

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences that results made with the dictionary must carry; mostly empty.

        >>> for sentence in SceneDictionary(("ball",), ()).notices:
        ...     print(sentence)
        The dictionary has no activities, so clips get none; mine more captions or rarer phrases, or give lists of both.
        """
        lacking = (
            f"The dictionary has no {kind}, so clips get none; mine more captions or rarer phrases, or give lists of "
            "both."
            for kind in self.lacks
        )
        used = (f"What is made with this dictionary uses {use}: name it beside every figure." for use in self.uses)
        return (*used, *lacking)


def mine(
    captions: Sequence[str],
    extract: Extractor | None = None,
    settings: MiningSettings | None = None,
    progress: Progress = lambda share: None,
) -> SceneDictionary:
    """Make a scene dictionary of the entities and activities that captions name, with the number of captions of each.

    Args:
        captions: captions of training clips alone: a dictionary mined from test captions would contain the answers.
        extract: finds the phrases of captions; None for a tagger and rules.
        settings: how phrases are found, and the limits of the dictionary.
        progress: called with the share that is done.

    Raises:
        UsageError: no phrase is in enough captions, `extract` returned something else than an `Extractor` does, or the
            tagger is not installed.

    >>> found = mine(["A dog runs.", "Two dogs are running.", "a cat"], settings=MiningSettings("pattern", 1))
    >>> found.entities, found.entity_counts, found.activities, found.captions
    (('dog', 'cat'), (2, 1), ('run',), 3)
    """
    settings = settings or MiningSettings()
    by = "a function of the user's" if extract else load_tagger(settings.tagger).name
    return dictionary_of(read_elements(captions, extract, settings, progress), settings, f"captions, read by {by}")


def dictionary_of(named: Sequence[Elements], settings: MiningSettings, source: str) -> SceneDictionary:
    """Make a dictionary of the phrases that most captions name; ties are broken by the alphabet."""
    entities, activities = counts_of(named)
    kept = [
        most_frequent(counts, settings.min_captions)[:most]
        for counts, most in ((entities, settings.max_entities), (activities, settings.max_activities))
    ]
    if not any(kept):
        raise UsageError(
            f"No phrase is named by {settings.min_captions} of the {len(named):,} captions or more "
            f"({len(entities):,} entities and {len(activities):,} activities are named by fewer); lower min_captions, "
            "or give more captions."
        )
    things, doings = (dict(rows) for rows in kept)
    counts = tuple(things.values()), tuple(doings.values())
    return SceneDictionary(tuple(things), tuple(doings), *counts, len(named), source)


def counts_of(named: Iterable[Elements]) -> tuple[Counter[str], Counter[str]]:
    """Count the captions that name each entity and each activity."""
    entities: Counter[str] = Counter()
    activities: Counter[str] = Counter()
    for one in named:
        entities.update(set(one.entities))
        activities.update(set(one.activities))
    return entities, activities


def given(entities: Sequence[str], activities: Sequence[str], source: str = GIVEN) -> SceneDictionary:
    """Make a dictionary of given phrases, each once; surplus spaces are removed, everything else is kept."""
    tidy = [tuple(" ".join(phrase.split()) for phrase in some) for some in (entities, activities)]
    return SceneDictionary(tidy[0], tidy[1], source=source)


def packaged() -> SceneDictionary:
    """Return the scene dictionary that comes with the package, of everyday entities and activities."""
    return SceneDictionary(words_of_list("entity"), words_of_list("activity"), source=PACKAGED)


def _check(kind: str, phrases: tuple[str, ...], counts: tuple[int, ...]) -> None:
    for place, phrase in enumerate(phrases, start=1):
        if not phrase.strip():
            raise UsageError(f"Phrase {place} of the {kind} is empty; leave it out.")
    if len(set(phrases)) < len(phrases):
        twice = Counter(phrases).most_common(1)[0][0]
        raise UsageError(f"{twice[:80]!r} is there more than once among the {kind}; name it once.")
    if counts and len(counts) != len(phrases):
        raise UsageError(f"There are {len(counts):,} counts for {len(phrases):,} {kind}; give one for each, or none.")
