"""Choice of a part-of-speech tagger by name."""

from __future__ import annotations

from typing import Literal

from evenreel.errors import UsageError
from evenreel.language.pattern import PatternTagger
from evenreel.language.spacy_tagger import SpacyTagger, installed_model
from evenreel.language.tokens import Tagger

TaggerName = Literal["auto", "pattern", "spacy"]


def load_tagger(name: TaggerName = "auto") -> Tagger:
    """Load a part-of-speech tagger by name; `auto` is spaCy where an English model of it is installed, else `pattern`.

    Classes found by different taggers differ: keep `Tagger.name` with what is derived from tags.

    Raises:
        UsageError: the name is unknown, or `spacy` is named and it or its model is not installed.
    """
    if name == "pattern" or (name == "auto" and installed_model() is None):
        return PatternTagger()
    if name in ("auto", "spacy"):
        return SpacyTagger()
    raise UsageError(f"There is no tagger {name!r}; choose auto, pattern or spacy.")
