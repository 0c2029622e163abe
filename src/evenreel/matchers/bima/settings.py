"""Settings of BiMa, and the parts of them that come from a scene dictionary and the training captions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evenreel.config import (
    ABOVE_0,
    AT_LEAST_0,
    FINITE,
    MOST_LAYERS,
    MOST_SIZE,
    SHARE,
    TEXT_OR_NONE,
    TRUE_OR_FALSE,
    WORDS,
    Allowed,
    check_settings,
    one_of,
    whole,
)
from evenreel.errors import UsageError
from evenreel.losses.variational import Reduction
from evenreel.matchers.bima.caption_words import vocabulary_of
from evenreel.matchers.matcher import LearnedFrom
from evenreel.matchers.wti import WtiSettings

_BALANCE = Allowed("adaptive, none or a number", lambda value: value in ("adaptive", "none") or FINITE.holds(value))


@dataclass(frozen=True)
class BimaSettings(WtiSettings):
    """Settings of BiMa, each part with its switch; with all of them off it is `wti`.

    Attributes:
        elements: folder that `evenreel elements` wrote, for training to take the dictionary from; null where neither
            entities nor activities are used.
        entities: phrases of the dictionary; empty for what training finds there.
        activities: phrases of the dictionary; empty for what training finds there.
        embeddings: file of the phrases' vectors, read when training begins, and not after; null for what training
            finds.
        kappa: number of phrases of each kind for a video.
        g: weight of entities added to activities: `adaptive` is equation 4, `none` the plain sum of both, which is a
            fixed 1; or another number.
        use_entities: whether frames attend to entities.
        use_activities: whether frames attend to activities.
        residual: add what frames attend to to the frames; else replace the frames by it, as the paper prints it.
        captioning: whether the loss has a term of captions that are written from frames.
        disentangle: whether words are split into content and bias.
        lambda_cap: weight of the loss of captions that are written from frames.
        lambda_rec: weight of the loss of captions that are written from content and bias.
        lambda_kl: weight of the divergence of the bias from a standard normal distribution.
        lambda_orth: weight of the overlap of bias and content (`evenreel.losses.variational.overlap`), not in the
            paper; with 1 the bias retrieves clips no better than chance, and content as well as without.
        kl_on: distribution whose divergence `lambda_kl` weights: `bias`, or `z`, content plus bias, as equation 7
            prints.
        reduction: how `cap`, `rec` and `kl` combine the words of a caption: `mean`, or `sum`, as in the paper.
        samples: K, number of draws of the bias for each caption.
        free_nats: divergence of a word, in nats, below which lowering it further gains nothing.
        decoder_layers: number of transformer blocks of each decoder; its heads and dropout are those of the temporal
            blocks.
        max_words: most words of a caption that are written; the rest is cut off.
        words_at_least: least frequency in the training captions of a word that is written; others are the unknown word.
        vocabulary_size: most words of the vocabulary.
        vocabulary: words that can be written; empty for those that training finds.
    """

    elements: str | None = None
    entities: tuple[str, ...] = ()
    activities: tuple[str, ...] = ()
    embeddings: str | None = None
    kappa: int = 20
    g: float | Literal["adaptive", "none"] = "adaptive"
    use_entities: bool = True
    use_activities: bool = True
    residual: bool = True
    captioning: bool = True
    disentangle: bool = True
    lambda_cap: float = 0.3
    lambda_rec: float = 0.5
    lambda_kl: float = 1e-4
    lambda_orth: float = 0.0
    kl_on: Literal["bias", "z"] = "bias"
    reduction: Reduction = "mean"
    samples: int = 1
    free_nats: float = 0.0
    decoder_layers: int = 2
    max_words: int = 32
    words_at_least: int = 1
    vocabulary_size: int = 20_000
    vocabulary: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        allowed = {
            "kind": one_of("ti", "wti"),
            "temporal_layers": whole(0, MOST_LAYERS),
            "dropout": SHARE,
            "temperature": ABOVE_0,
            "g": _BALANCE,
            "kl_on": one_of("bias", "z"),
            "reduction": one_of("mean", "sum"),
            **dict.fromkeys(("elements", "embeddings"), TEXT_OR_NONE),
            **dict.fromkeys(("entities", "activities", "vocabulary"), WORDS),
            **dict.fromkeys(("weight_layers", "decoder_layers"), whole(1, MOST_LAYERS)),
            **dict.fromkeys(("heads", "max_frames", "max_words", "kappa", "samples"), whole(1, MOST_SIZE)),
            **dict.fromkeys(("words_at_least", "vocabulary_size"), whole(1)),
            **dict.fromkeys(("use_entities", "use_activities", "residual"), TRUE_OR_FALSE),
            **dict.fromkeys(("captioning", "disentangle"), TRUE_OR_FALSE),
            **dict.fromkeys(("lambda_cap", "lambda_rec", "lambda_kl", "lambda_orth", "free_nats"), AT_LEAST_0),
        }
        check_settings("bima", self, allowed)

    @property
    def uses_elements(self) -> bool:
        """Whether frames attend to scene elements."""
        return self.use_entities or self.use_activities

    @property
    def fixed_g(self) -> float | None:
        """Weight of entities that is the same for all videos; None where each video has its own."""
        if isinstance(self.g, str):
            return 1.0 if self.g == "none" else None
        return self.g

    @property
    def writes_captions(self) -> bool:
        """Whether any loss term writes captions with a decoder."""
        return bool((self.captioning and self.lambda_cap) or (self.disentangle and self.lambda_rec))


def with_dictionary_and_words(settings: Mapping[str, Any], learned: LearnedFrom) -> dict[str, Any]:
    """Complete BiMa's settings with the dictionary's phrases, the file of their vectors, and the captions' vocabulary.

    Fields that are set already stay. Where the encoder's `weights_hash` is not known, no file of vectors is looked for.

    Raises:
        UsageError: elements are used, and no folder is given, or its dictionary has none of a kind that is used.
        EvenreelError: the folder is none of `evenreel elements`, or has no vectors of this encoder.
    """
    whole_settings = BimaSettings(**settings)
    return {**settings, **_phrases(whole_settings, learned.weights_hash), **_words(whole_settings, learned)}


def dictionary_uses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return, in words, the splits other than the training split that the dictionary was mined from; mostly none.

    Raises:
        EvenreelError: its folder was not written by `evenreel elements`.
    """
    from evenreel.features.scene_elements import load_dictionary

    whole_settings = BimaSettings(**settings)
    if not whole_settings.uses_elements or whole_settings.elements is None:
        return ()
    return load_dictionary(Path(whole_settings.elements)).uses


def _phrases(settings: BimaSettings, weights_hash: str | None) -> dict[str, Any]:
    if not settings.uses_elements or settings.entities or settings.activities:
        return {}
    if settings.elements is None:
        raise UsageError(
            "bima looks at scene elements, and the setting elements names no folder of them; give elements=DIR, the "
            "folder that `evenreel elements` wrote, or set use_entities=false and use_activities=false."
        )
    from evenreel.features.scene_elements import embeddings_path, load_dictionary, load_embedded

    folder, found = Path(settings.elements), dict[str, Any]()
    if weights_hash is None:
        dictionary = load_dictionary(folder)
    else:
        dictionary = load_embedded(folder, weights_hash).dictionary
        found["embeddings"] = str(embeddings_path(folder, weights_hash))
    for kind in dictionary.lacks:
        if getattr(settings, f"use_{kind}"):
            raise UsageError(
                f"bima is to look at {kind}, and the dictionary in {folder} has none; give lists of both kinds "
                f"(`evenreel elements --entities FILE --activities FILE`), or set use_{kind}=false."
            )
    entities = dictionary.entities if settings.use_entities else ()
    return {**found, "entities": entities, "activities": dictionary.activities if settings.use_activities else ()}


def _words(settings: BimaSettings, learned: LearnedFrom) -> dict[str, Any]:
    if settings.vocabulary or not settings.writes_captions:
        return {}
    return {"vocabulary": vocabulary_of(learned.texts, settings.vocabulary_size, settings.words_at_least)}
