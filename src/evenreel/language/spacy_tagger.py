"""A tagger that uses spaCy and an installed model of it (`pip install evenreel[spacy]`)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from evenreel.errors import UsageError
from evenreel.extras import to_install
from evenreel.language.folding import lemma_of, part_of
from evenreel.language.tokens import Tagged, Token

MODELS = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
"""English models, the best first."""

_BATCH = 256
_UNUSED = ("ner", "entity_linker", "textcat")


class SpacyTagger:
    """Tagger of captions that runs a spaCy pipeline; see `evenreel.language.tokens.Tagger`.

    Args:
        model: name of an installed model or path of a folder with one; None takes the best that is installed.

    Raises:
        UsageError: spaCy or the model is not installed, or the pipeline gives no tags.
    """

    def __init__(self, model: str | None = None) -> None:
        model = model or installed_model()
        if find_spec("spacy") is None or model is None:
            raise UsageError(
                f"Tagging with spaCy needs spaCy and an English model: `{to_install('spacy')}`, then "
                "`python -m spacy download en_core_web_sm`; or choose the tagger `pattern`, which needs neither."
            )
        self._pipeline = _load(model)
        meta = self._pipeline.meta
        self.name = f"spacy ({model} {meta.get('version', '')})"

    def tag(self, captions: Sequence[str]) -> list[Tagged]:
        """Split captions into words and tag them: return the tokens of each; equal captions are tagged once."""
        distinct = list(dict.fromkeys(captions))
        tagged = map(_tokens, self._pipeline.pipe(distinct, batch_size=_BATCH))
        of_caption = dict(zip(distinct, tagged, strict=True))
        self._refuse_untagged(of_caption)
        return [of_caption[caption] for caption in captions]

    def _refuse_untagged(self, of_caption: dict[str, Tagged]) -> None:
        if any(of_caption.values()) and not any(token.tag for tokens in of_caption.values() for token in tokens):
            raise UsageError(
                f"The pipeline {self.name} gives no part-of-speech tags (it has: "
                f"{', '.join(self._pipeline.pipe_names) or 'nothing'}); take one with a tagger."
            )


def installed_model() -> str | None:
    """Return the name of the best spaCy model that is installed, out of `MODELS`; None where none is."""
    if find_spec("spacy") is None:
        return None
    return next((model for model in MODELS if find_spec(model) is not None), None)


def _load(model: str) -> Any:
    import spacy

    try:
        return spacy.load(model, exclude=list(_UNUSED))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"The spaCy model {model!r} cannot be loaded ({error}); give the name of an installed model, such as "
            "en_core_web_sm, or a folder that holds one."
        ) from error


def _tokens(document: Any) -> Tagged:
    """Words of a document; the dictionary gives the lemmas that the pipeline does not."""
    return tuple(
        Token(word.text, (word.lemma_ or lemma_of(word.text, part_of(word.tag_))).lower(), word.tag_)
        for word in document
        if not word.is_space
    )
