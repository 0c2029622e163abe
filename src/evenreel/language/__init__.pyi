from .classes import (
    ClassRules as ClassRules,
    ClipClasses as ClipClasses,
    VerbNounClasses as VerbNounClasses,
    annotate as annotate,
    check_share as check_share,
    classes_of as classes_of,
    clip_classes as clip_classes,
)
from .noun_phrases import Phrase as Phrase, phrases as phrases
from .synonyms import (
    NO_SYNONYMS as NO_SYNONYMS,
    Synonyms as Synonyms,
    amounts as amounts,
    caption_synonyms as caption_synonyms,
    read_synonyms as read_synonyms,
    stop_nouns as stop_nouns,
    stop_verbs as stop_verbs,
)
from .taggers import load_tagger as load_tagger
from .tokens import Tagged as Tagged, Tagger as Tagger, Token as Token, lemmas as lemmas, unknown_share as unknown_share
