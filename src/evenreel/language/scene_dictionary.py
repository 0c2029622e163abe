"""Scene dictionaries: entities and activities that clips may show, mined from captions or given as lists.

BiMa (section 3.1) looks up in a scene dictionary what each clip shows. The paper says neither how large its dictionary
is nor how it was made; here phrases are counted in captions, and each has the number of captions that name it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenreel.errors import UsageError
from evenreel.language.scene_elements import (
    ACTIVITIES,
    ENTITIES,
    Elements,
    Extractor,
    MiningSettings,
    read_elements,
    words_of_list,
)
from evenreel.language.taggers import load_tagger
from evenreel.progress import Progress

GIVEN, PACKAGED = "given as lists", "packaged with evenreel"
TRAIN = "train"

_DIGEST_BYTES = 16


@dataclass(frozen=True)
class SceneDictionary:
    """Phrases of entities and activities that clips may show, each once.

    Attributes:
        entities: N_e noun phrases, the most frequent first.
        activities: N_a verb phrases, the most frequent first.
        entity_counts: N_e numbers of captions that name each; empty where they were not counted.
        activity_counts: N_a numbers of captions that name each; empty where they were not counted.
        captions: number of captions that were read; 0 where they were not counted.
        source: origin of the phrases, in words.
        splits: splits of a corpus whose captions were read; empty where the phrases are from elsewhere.
    """

    entities: tuple[str, ...]
    activities: tuple[str, ...]
    entity_counts: tuple[int, ...] = ()
    activity_counts: tuple[int, ...] = ()
    captions: int = 0
    source: str = GIVEN
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
    """Make a dictionary of the phrases that most captions name; ties are broken by the alphabet.

    Args:
        named: entities and activities of each caption.
        settings: least number of captions of a phrase, and most phrases of each kind.
        source: origin of the captions and their tagger, in words.

    Raises:
        UsageError: no phrase is in enough captions.
    """
    entities, activities = counts_of(named)
    kept = [
        _most_frequent(counts, settings.min_captions, most)
        for counts, most in ((entities, settings.max_entities), (activities, settings.max_activities))
    ]
    if not any(kept):
        raise UsageError(
            f"No phrase is named by {settings.min_captions} of the {len(named):,} captions or more "
            f"({len(entities):,} entities and {len(activities):,} activities are named by fewer); lower min_captions, "
            "or give more captions."
        )
    (things, thing_counts), (doings, doing_counts) = map(_columns, kept)
    return SceneDictionary(things, doings, thing_counts, doing_counts, len(named), source)


def counts_of(named: Iterable[Elements]) -> tuple[Counter[str], Counter[str]]:
    """Count the captions that name each entity and each activity."""
    entities: Counter[str] = Counter()
    activities: Counter[str] = Counter()
    for one in named:
        entities.update(set(one.entities))
        activities.update(set(one.activities))
    return entities, activities


def given(entities: Sequence[str], activities: Sequence[str], source: str = GIVEN) -> SceneDictionary:
    """Make a dictionary of given phrases; surplus spaces are removed, everything else is kept.

    Args:
        entities: noun phrases.
        activities: verb phrases.
        source: origin of the phrases, in words.

    Raises:
        UsageError: there is no phrase, one is empty, or one is there twice.
    """
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


def _most_frequent(counts: Counter[str], least: int, most: int) -> list[tuple[str, int]]:
    enough = ((phrase, count) for phrase, count in counts.items() if count >= least)
    return sorted(enough, key=lambda one: (-one[1], one[0]))[:most]


def _columns(rows: Sequence[tuple[str, int]]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return tuple(phrase for phrase, _ in rows), tuple(count for _, count in rows)
