"""Verb and noun classes of captions that have no annotated ones: lemmas, grouped by synonyms and numbered.

`evenreel.corpus.class_relevance` computes degrees of relevance from them. `docs/language.md` compares them with the
classes that people gave to EPIC-KITCHENS-100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from evenreel.errors import UsageError
from evenreel.language.noun_phrases import later_particle, phrases, verb_particle
from evenreel.language.synonyms import Synonyms, amounts, caption_synonyms, stop_nouns, stop_verbs
from evenreel.language.tokens import Tagged, Tagger
from evenreel.types import Shown


@dataclass(frozen=True)
class ClassRules(Shown):
    """Rules by which words of captions become verb and noun classes.

    Attributes:
        synonyms: groups of words that are one class.
        stop_verbs, stop_nouns: words that make no class.
        amounts: nouns that make no class before `of`.
        min_captions: least number of captions of a class; rarer classes are dropped.
        heads_only: whether only the last noun of a noun phrase counts: `tomato sauce` is a sauce.
    """

    synonyms: Synonyms = field(default_factory=caption_synonyms)
    stop_verbs: frozenset[str] = field(default_factory=stop_verbs)
    stop_nouns: frozenset[str] = field(default_factory=stop_nouns)
    amounts: frozenset[str] = field(default_factory=amounts)
    min_captions: int = 1
    heads_only: bool = True


@dataclass(frozen=True)
class VerbNounClasses(Shown):
    """Verb and noun classes of N captions.

    Attributes:
        verb_names, noun_names: name of each class by its number, the most frequent first.
        verbs, nouns: class numbers of each caption, ascending, without repetition.
    """

    verb_names: tuple[str, ...]
    noun_names: tuple[str, ...]
    verbs: list[list[int]]
    nouns: list[list[int]]


@dataclass(frozen=True)
class ClipClasses(Shown):
    """Verb and noun classes of V clips, with the class numbers of their captions.

    Attributes:
        clip_ids: V ids of clips.
        verbs, nouns: class numbers of each clip, ascending.
    """

    clip_ids: list[str]
    verbs: list[list[int]]
    nouns: list[list[int]]


def classes_of(tagged: Sequence[Tagged], rules: ClassRules | None = None) -> VerbNounClasses:
    """Find the verb and noun classes of tagged captions.

    Class numbers are only comparable within one call, so pass all captions of a corpus together.

    Raises:
        UsageError: `min_captions` is less than 1.

    >>> from evenreel.language.taggers import PatternTagger
    >>> captions = ["cut tomato", "a man chops two tomatoes", "turn on the faucet", "turn tap on"]
    >>> found = classes_of(PatternTagger().tag(captions))
    >>> [[found.verb_names[number] for number in one] for one in found.verbs]
    [['cut'], ['cut'], ['turn on'], ['turn on']]
    >>> [[found.noun_names[number] for number in one] for one in found.nouns]
    [['tomato'], ['tomato', 'man'], ['tap'], ['tap']]
    """
    rules = rules or ClassRules()
    if rules.min_captions < 1:
        raise UsageError(f"min_captions is {rules.min_captions}; it must be 1 or more.")
    verb_names, verbs = _numbered([verb_classes(one, rules) for one in tagged], rules.min_captions)
    noun_names, nouns = _numbered([noun_classes(one, rules) for one in tagged], rules.min_captions)
    return VerbNounClasses(verb_names, noun_names, verbs, nouns)


def clip_classes(captions: VerbNounClasses, clip_ids: Sequence[str], share: float = 0.25) -> ClipClasses:
    """Return the classes of clips: those of at least a share of a clip's captions (RAN and RANP take a quarter).

    Args:
        captions: classes of N captions.
        clip_ids: id of the clip of each caption.
        share: least share of the clip's captions that have the class, more than 0 and at most 1.

    Raises:
        UsageError: the share is out of its range, or there are not as many ids as captions.

    >>> three = VerbNounClasses(("cut", "eat"), ("tomato",), [[0], [0], [1]], [[0], [], []])
    >>> clip_classes(three, ["a", "a", "a"], share=0.5)
    ClipClasses
    clip_ids  1: a
    verbs     1: 1: 0
    nouns     1: 0
    """
    check_share(share)
    if len(clip_ids) != len(captions.verbs):
        raise UsageError(f"There are {len(clip_ids)} clip ids for {len(captions.verbs)} captions; give one for each.")
    sizes = Counter(clip_ids)
    verbs = _frequent(clip_ids, captions.verbs, sizes, share)
    nouns = _frequent(clip_ids, captions.nouns, sizes, share)
    return ClipClasses(list(sizes), [verbs[clip] for clip in sizes], [nouns[clip] for clip in sizes])


def check_share(share: float) -> None:
    """Check that a number is a share of a clip's captions.

    Raises:
        UsageError: it is not more than 0 and at most 1.
    """
    if not 0 < share <= 1:
        raise UsageError(f"The share of a clip's captions is {share}; it must be more than 0 and at most 1.")


def annotate(
    captions: Sequence[tuple[str, str]], tagger: Tagger, rules: ClassRules | None = None, share: float = 0.25
) -> tuple[VerbNounClasses, ClipClasses]:
    """Find the classes of captions and of their clips, for the columns `verb_classes` and `noun_classes` of a corpus.

    Args:
        captions: clip id and text of N captions.
        tagger: finds and tags their words.
        rules: how words become classes.
        share: least share of a clip's captions that have a class of the clip.

    Returns:
        Classes of the N captions, in their order, and of the clips, in the order of their first caption.

    Raises:
        UsageError: the rules or the share are out of their range.
    """
    of_captions = classes_of(tagger.tag([text for _, text in captions]), rules)
    return of_captions, clip_classes(of_captions, [clip for clip, _ in captions], share)


def verb_classes(tokens: Tagged, rules: ClassRules) -> list[str]:
    """Return the names of a caption's verb classes, in the order of its words.

    A verb and its particle are one class where the synonyms list the two as one (`turn on`), also when the object
    stands between them; else the verb alone is the class.
    """
    found = []
    for place, token in enumerate(tokens):
        if token.part == "verb":
            name = _verb_name(tokens, place, rules)
            if name not in rules.stop_verbs:
                found.append(name)
    return found


def noun_classes(tokens: Tagged, rules: ClassRules) -> list[str]:
    """Return the names of a caption's noun classes, in the order of its words."""
    known = rules.synonyms.nouns
    if rules.heads_only:
        entities = [one for one in phrases(tokens) if one.kind == "entity"]
        nouns = [(one.text if one.text in known else one.head, one.stop) for one in entities]
    else:
        nouns = [(token.lemma, place + 1) for place, token in enumerate(tokens) if token.part == "noun"]
    of = {place for place, token in enumerate(tokens) if token.lemma == "of"}
    found = [known.get(noun, noun) for noun, stop in nouns if not (stop in of and noun in rules.amounts)]
    return [name for name in found if name not in rules.stop_nouns]


def _verb_name(tokens: Tagged, place: int, rules: ClassRules) -> str:
    verb, known = tokens[place].lemma, rules.synonyms.verbs
    later = later_particle(tokens, place)
    particle = verb_particle(tokens, place) or (None if later is None else tokens[later].lemma)
    if particle and (both := f"{verb} {particle}") in known:
        return known[both]
    return known.get(verb, verb)


def _numbered(names: Sequence[Iterable[str]], min_captions: int) -> tuple[tuple[str, ...], list[list[int]]]:
    """Numbers of the names, the most frequent first and equals by name."""
    sets = [set(one) for one in names]
    counts = Counter(name for one in sets for name in one)
    kept = sorted((name for name, count in counts.items() if count >= min_captions), key=lambda n: (-counts[n], n))
    number = {name: place for place, name in enumerate(kept)}
    return tuple(kept), [sorted(number[name] for name in one if name in number) for one in sets]


def _frequent(
    clip_ids: Sequence[str], sets: Sequence[Sequence[int]], sizes: Counter[str], share: float
) -> dict[str, list[int]]:
    """Classes of each clip that at least a share of its captions have."""
    counts: dict[str, Counter[int]] = {clip: Counter() for clip in sizes}
    for clip, one in zip(clip_ids, sets, strict=True):
        counts[clip].update(set(one))
    return {
        clip: sorted(number for number, count in of_clip.items() if count >= share * sizes[clip])
        for clip, of_clip in counts.items()
    }
