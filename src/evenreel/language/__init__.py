"""Words of captions: tags, lemmas, entities and activities, and the classes that relevance is made of."""

from evenreel.language.classes import (
    ClassRules,
    ClipClasses,
    VerbNounClasses,
    annotate,
    check_share,
    classes_of,
    clip_classes,
)
from evenreel.language.phrases import Phrase, phrases
from evenreel.language.synonyms import (
    NO_SYNONYMS,
    Synonyms,
    amounts,
    caption_synonyms,
    read_synonyms,
    stop_nouns,
    stop_verbs,
)
from evenreel.language.taggers import load_tagger
from evenreel.language.tokens import Tagged, Tagger, Token, lemmas, unknown_share

__all__ = [
    "NO_SYNONYMS",
    "ClassRules",
    "ClipClasses",
    "Phrase",
    "Synonyms",
    "Tagged",
    "Tagger",
    "Token",
    "VerbNounClasses",
    "amounts",
    "annotate",
    "caption_synonyms",
    "check_share",
    "classes_of",
    "clip_classes",
    "lemmas",
    "load_tagger",
    "phrases",
    "read_synonyms",
    "stop_nouns",
    "stop_verbs",
    "unknown_share",
]
