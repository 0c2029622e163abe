"""Resources of test-time training besides the model: prepared data of its source, and an encoder of new captions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from evenreel.adaptation.baselines.ttt import TTTObjective, TTTSettings
from evenreel.adaptation.baselines.ttt_flow import FlowObjective
from evenreel.adaptation.learning import UnpairedLoss
from evenreel.adaptation.prepared import PreparedSource
from evenreel.adaptation.settings import AdaptSettings
from evenreel.adaptation.stream import EncodeTexts, joined, taken, with_room
from evenreel.adaptation.titan.pseudo_labels import Resources
from evenreel.features.load import graphs_of
from evenreel.language.tokens import Tagged, Tagger
from evenreel.matchers.matcher import Matcher
from evenreel.types import Encoder, FloatArray, TextFeatures, VideoFeatures

AT_ONCE = 256
"""Captions that are encoded together."""


def resources_of(
    prepared: PreparedSource | None,
    videos: VideoFeatures,
    settings: AdaptSettings,
    encode: EncodeTexts | None = None,
    tagger: Tagger | None = None,
    *,
    confounders: FloatArray | None = None,
) -> Resources:
    """Collect the resources that test-time training needs, where they exist; `Resources.check` names missing ones.

    Args:
        prepared: prepared data of the source checkpoint; None for none.
        videos: features of the target's clips, to find their confounders.
        settings: settings of the adaptation.
        encode: function that encodes counterfactual captions (`text_reader`), where there are any (`reads_captions`).
        tagger: tagger of the words of queries.
        confounders: (N, d) confounders of the target; None to find them.

    Raises:
        UsageError: the confounders of the target cannot be found as those of the source were.
    """
    remembering = None if tagger is None else RememberingTagger(tagger)
    if prepared is None:
        return Resources(encode, remembering)
    corrects = settings.causal and settings.objective == "pseudo_labels" and prepared.correction is not None
    return Resources(
        encode,
        remembering,
        prepared.correction if corrects else None,
        prepared.target_confounders(videos, confounders) if corrects else None,
        prepared.statistics,
        _objective(prepared, settings),
    )


def reads_captions(settings: AdaptSettings) -> bool:
    """Return whether the settings make counterfactual captions, which a text tower has to encode."""
    return settings.objective == "pseudo_labels" and settings.counterfactuals is not None


def text_reader(encoder: Encoder, matcher: Matcher, most: int | None = None) -> EncodeTexts:
    """Make a function that encodes captions as features in the form that a matcher takes.

    Args:
        encoder: encoder of the matcher's features.
        matcher: matcher that takes the features.
        most: greatest number of words of a caption; a longer one is cut before its end mark. None for the matcher's
            limit.
    """
    limits = [limit for limit in (most, matcher.limits.words) if limit is not None]

    def read(sentences: Sequence[str]) -> TextFeatures:
        starts = range(0, len(sentences), AT_ONCE)
        parts = [encoder.encode_text(list(sentences[start : start + AT_ONCE])) for start in starts]
        words, mask = with_room([part.words for part in parts]), with_room([part.word_mask for part in parts])
        if limits:
            words, mask = shortened(words, mask, min(limits))
        ids = tuple(f"q{number}" for number in range(1, len(sentences) + 1))
        graphs = tuple(graphs_of(list(sentences))) if matcher.limits.graphs else None
        return TextFeatures(ids, words, mask, np.concatenate([part.sentence for part in parts]), graphs)

    return read


def shortened(words: Any, mask: Any, most: int) -> tuple[Any, Any]:
    """Shorten captions to at most `most` words: the first ones, and the last.

    Args:
        words: (Q, W, D) word vectors.
        mask: (Q, W) True = real.
        most: number of words to keep.

    >>> kept, _ = shortened(np.arange(4.0).reshape(1, 4, 1), np.array([[True] * 4]), 2)
    >>> kept[0, :, 0].tolist()
    [0.0, 3.0]
    """
    if int(mask.sum(1).max(initial=0)) <= most:
        return words, mask
    order = np.argsort(~mask, axis=1, kind="stable")[:, : max(most, 1)]
    counts, last = mask.sum(1), mask.shape[1] - 1 - mask[:, ::-1].argmax(1)
    order[counts > most, most - 1] = last[counts > most]
    rows = np.arange(len(mask))[:, None]
    return words[rows, order], mask[rows, order]


class RememberingReader:
    """Encoder of captions that encodes each distinct sentence once and keeps its features."""

    def __init__(self, read: EncodeTexts) -> None:
        self._read, self._known = read, dict[str, TextFeatures]()

    def __call__(self, sentences: Sequence[str]) -> TextFeatures:
        """Encode sentences to features; ids have no meaning."""
        new = [one for one in dict.fromkeys(sentences) if one not in self._known]
        if new:
            read = self._read(new)
            for row, one in enumerate(new):
                alone = taken(read, np.array([row]))
                mask = alone.word_mask[0]
                self._known[one] = replace(alone, words=alone.words[:, mask], word_mask=alone.word_mask[:, mask])
        return joined(*(self._known[one] for one in sentences))


class RememberingTagger:
    """Part-of-speech tagger that tags each distinct sentence once and keeps the tokens."""

    def __init__(self, tagger: Tagger) -> None:
        self._tagger, self._read = tagger, dict[str, Tagged]()

    @property
    def name(self) -> str:
        """Name of the tagger."""
        return self._tagger.name

    def tag(self, captions: Sequence[str]) -> list[Tagged]:
        """Split sentences into words and tag them, each distinct sentence once."""
        new = [caption for caption in dict.fromkeys(captions) if caption not in self._read]
        self._read.update(zip(new, self._tagger.tag(new), strict=True) if new else ())
        return [self._read[caption] for caption in captions]


def _objective(prepared: PreparedSource, settings: AdaptSettings) -> Callable[[], UnpairedLoss] | None:
    """What makes the loss of a baseline; None where it was not prepared for, or none is asked for."""
    statistics, flows = prepared.statistics, prepared.flows
    if settings.objective == "ttt" and statistics is not None:
        return lambda: TTTObjective(statistics, TTTSettings(), torch.Generator().manual_seed(settings.seed))
    if settings.objective == "ttt_flow" and flows is not None:
        return lambda: FlowObjective(flows.text, flows.video)
    return None
