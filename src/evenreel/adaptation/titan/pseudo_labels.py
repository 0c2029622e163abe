"""Pseudo-labels of a stream's queries: rematched, counterfactual and bias-corrected (TITAN, sections 3.1.2 to 3.3).

The first clip by the source model's scores would label most queries with few clips. So a query's clip is chosen by
ranks in both directions (3.2.1), captions of clips that too many queries match lose the words that these have in common
and are matched anew (3.2.2), and among the `eta` likeliest clips of each query the one is taken that the bias
correction prefers (3.3). The model then learns from these pairs as if they were labelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenreel.adaptation.baselines.ttt import SourceStatistics
from evenreel.adaptation.learning import UnpairedLoss
from evenreel.adaptation.report import LabelRank
from evenreel.adaptation.settings import AdaptSettings, Decides
from evenreel.adaptation.stream import EncodeTexts, joined, taken
from evenreel.adaptation.titan.causal import CausalCorrection
from evenreel.adaptation.titan.causal_training import TargetStage, chosen, judged, label_rank
from evenreel.adaptation.titan.counterfactuals import Counterfactual, counterfactuals
from evenreel.adaptation.titan.matching import one_way, rank_sums, rematch
from evenreel.adaptation.vectors import text_vectors
from evenreel.arrays import Indices, slices
from evenreel.errors import UsageError
from evenreel.language.tokens import Tagger
from evenreel.matchers.batches import text_batch, to_device
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import encode_texts
from evenreel.similarity.tiles import Encoded, MatcherScores, device_of, evaluating
from evenreel.types import FloatArray, TextFeatures

AT_ONCE = 1024
"""Queries that become vectors at a time."""


@dataclass(frozen=True, eq=False)
class Resources:
    """Resources of pseudo-labelling besides the model and the queries.

    Attributes:
        encode: function that encodes counterfactual captions as features.
        tagger: tagger that finds nouns, verbs and adjectives of queries.
        correction: bias correction of the source checkpoint; a copy of it is trained on the stream.
        confounders: (N, d) confounders of the target's clips.
        statistics: moments of the source's captions and clips, for the drift test.
        objective: function that makes the loss of a baseline, anew for each stream.
    """

    encode: EncodeTexts | None = None
    tagger: Tagger | None = None
    correction: CausalCorrection | None = None
    confounders: Tensor | None = None
    statistics: SourceStatistics | None = None
    objective: Callable[[], UnpairedLoss] | None = None

    def for_stream(self, settings: AdaptSettings) -> StreamResources:
        """Make the resources of one stream, copies of the parts that learn included."""
        unpaired = None if self.objective is None else self.objective()
        stage = None
        if self.correction is not None and self.confounders is not None:
            fit = replace(settings.causal_fit, seed=settings.seed + settings.causal_fit.seed)
            stage = TargetStage(self.correction, self.confounders, fit)
        return StreamResources(self.encode, self.tagger, stage, unpaired)

    def check(self, settings: AdaptSettings) -> None:
        """Check that every resource that the settings need is there.

        Raises:
            UsageError: something that the settings need is missing.
        """
        if settings.objective == "rotation":
            return
        if settings.objective != "pseudo_labels":
            if self.objective is None:
                raise UsageError(
                    f"The source checkpoint carries nothing for {settings.objective}; make it with `evenreel prepare "
                    "CHECKPOINT CORPUS`."
                )
            return
        if settings.counterfactuals is not None and (self.encode is None or self.tagger is None):
            raise UsageError(
                "Counterfactual captions have to be read by the text tower of the features, which is not given; give "
                "it, or set counterfactuals to null."
            )
        if settings.causal and (self.correction is None or self.confounders is None):
            raise UsageError(
                "The checkpoint carries no bias correction; make one with `evenreel prepare CHECKPOINT CORPUS`, or set "
                "causal to false."
            )


class StreamResources(NamedTuple):
    """Resources of one stream of queries.

    Attributes:
        encode: function that encodes counterfactual captions as features.
        tagger: tagger that finds nouns, verbs and adjectives of queries.
        target: target stage of the bias correction, which learns with the stream.
        unpaired: loss of a baseline, which may learn with the stream.
    """

    encode: EncodeTexts | None
    tagger: Tagger | None
    target: TargetStage | None
    unpaired: UnpairedLoss | None


class QueryWindow(NamedTuple):
    """Latest queries of a stream, among which ranks are counted: their features and sentences."""

    texts: TextFeatures
    sentences: tuple[str, ...]


class ClipGallery(NamedTuple):
    """Clips of a gallery as a model encodes them.

    Attributes:
        encoded: the encoded clips, for scoring.
        vectors: (V, D) vectors of the clips, where the bias correction or the drift test needs them.
    """

    encoded: Encoded
    vectors: Tensor | None


class PseudoPairs(NamedTuple):
    """Captions with pseudo clips, to be trained on as if they were labelled pairs.

    Attributes:
        texts: features of N captions: queries, then counterfactual queries.
        columns: (N,) index of each caption's clip in the gallery.
        doubt: (N,) rank of the rematched clip for the caption plus rank of the caption for it; 2 where each is the
            other's first. It stays where the bias correction chooses another clip.
        queries: number of queries; the others are counterfactual.
        counterfactual: the counterfactual queries.
        rank: mean rank of the labels by the target stage of the correction; None without it.
    """

    texts: TextFeatures
    columns: Indices
    doubt: NDArray[np.float64]
    queries: int
    counterfactual: tuple[Counterfactual, ...] = ()
    rank: LabelRank | None = None

    def kept(self, share: float) -> PseudoPairs:
        """Select the share of pseudo-labelled pairs with the least `doubt`, the first of ties; at least two pairs."""
        if share >= 1:
            return self
        count = max(2, round(share * len(self.columns)))
        rows = np.sort(np.argsort(self.doubt, kind="stable")[:count])
        queries = int((rows < self.queries).sum())
        texts, columns, doubt = taken(self.texts, rows), self.columns[rows], self.doubt[rows]
        return PseudoPairs(texts, columns, doubt, queries, self.counterfactual, self.rank)


def pseudo_pairs(
    matcher: Matcher,
    window: QueryWindow,
    own: Indices,
    gallery: ClipGallery,
    settings: AdaptSettings,
    resources: StreamResources,
) -> PseudoPairs:
    """Label queries with pseudo clips, by rematching, counterfactual captions and the bias correction.

    Args:
        matcher: matcher by whose scores clips are matched.
        window: queries that ranks are counted among.
        own: rows in the window of the queries to label.
        gallery: gallery of clips.
        settings: settings of the adaptation.
        resources: resources of the stream; the correction in them is trained.

    Raises:
        UsageError: a counterfactual caption cannot be scored.
    """
    scores = scored(matcher, window.texts, gallery.encoded)
    columns = _labels(scores, own, settings)
    texts, own_scores, doubt = taken(window.texts, own), scores[own], _doubt(scores, own, columns)
    made = _counterfactuals(scores, window, own, settings, resources)
    if made:
        more = _encoded(made, resources)
        stacked = np.concatenate([scores, scored(matcher, more, gallery.encoded)])
        places = np.arange(len(scores), len(stacked))
        extra = _labels(stacked, places, settings)
        texts, columns = joined(texts, more), np.concatenate([columns, extra])
        own_scores = np.concatenate([own_scores, stacked[places]])
        doubt = np.concatenate([doubt, _doubt(stacked, places, extra)])
    there = np.flatnonzero(columns >= 0)
    queries = int((there < len(own)).sum())
    texts, columns, doubt, own_scores = taken(texts, there), columns[there], doubt[there], own_scores[there]
    rank = None
    if settings.causal and len(there):
        assert resources.target is not None and gallery.vectors is not None
        candidates = likeliest(own_scores, columns, resources.target.correction.settings.eta)
        columns, rank = _corrected(
            vectors_of(matcher, texts), gallery.vectors, candidates, resources.target, settings.decides
        )
    return PseudoPairs(texts, columns, doubt, queries, made, rank)


def scored(matcher: Matcher, texts: TextFeatures, videos: Encoded) -> FloatArray:
    """Compute similarities (Q, V) of captions' features and encoded clips."""
    return MatcherScores(matcher, encode_texts(matcher, texts), videos).block(slice(None), slice(None))


def vectors_of(matcher: Matcher, texts: TextFeatures) -> Tensor:
    """Compute unit vectors (Q, D) of captions, without gradients, in main memory."""
    parts = slices(len(texts.ids), AT_ONCE)
    with torch.no_grad(), evaluating(matcher):
        device = device_of(matcher)
        return torch.cat([text_vectors(matcher, to_device(text_batch(texts, rows), device)).cpu() for rows in parts])


def _labels(scores: FloatArray, own: Indices, settings: AdaptSettings) -> Indices:
    """(own,) columns, ranked among all, or among themselves."""
    if settings.ranks == "batch":
        return rematch(scores[own], settings.matching)
    return rematch(scores, settings.matching)[own]


def _doubt(scores: FloatArray, own: Indices, columns: Indices) -> NDArray[np.float64]:
    sums = rank_sums(scores, 1.0)[own]
    doubt: NDArray[np.float64] = sums[np.arange(len(own)), columns]
    return doubt


def _counterfactuals(
    scores: FloatArray, window: QueryWindow, own: Indices, settings: AdaptSettings, resources: StreamResources
) -> tuple[Counterfactual, ...]:
    """Write counterfactuals of the labelled queries; how often a clip is named is counted among all."""
    if settings.counterfactuals is None or resources.tagger is None:
        return ()
    matches, among = one_way(scores), set(own.tolist())
    made = counterfactuals(window.sentences, resources.tagger.tag(window.sentences), matches, settings.counterfactuals)
    return tuple(one for one in made if one.query in among)


def _encoded(made: tuple[Counterfactual, ...], resources: StreamResources) -> TextFeatures:
    assert resources.encode is not None
    found = resources.encode([one.text for one in made])
    ids = tuple(f"{one.query} without {one.word}" for one in made)
    return TextFeatures(ids, found.words, found.word_mask, found.sentence, found.graphs)


def _corrected(
    q: Tensor, v: Tensor, candidates: Indices, stage: TargetStage, decides: Decides
) -> tuple[Indices, LabelRank]:
    """(N,) the candidate of each caption that the trained correction prefers (section 3.3), and the labels' ranks."""
    before = label_rank(judged(stage.correction, q, v, candidates))
    stage.learn(q, v, candidates)
    logits = judged(stage.correction, q, v, candidates)
    columns = chosen(logits, candidates, decides).columns
    relabelled = float((columns != candidates[:, 0]).mean())
    return columns, LabelRank(before, label_rank(logits), candidates.shape[1], relabelled)


def likeliest(scores: FloatArray, columns: Indices, count: int) -> Indices:
    """Return candidate clips (N, count) of captions: the pseudo clip, then others by score, the first of ties.

    >>> likeliest(np.array([[0.9, 0.5, 0.7]], np.float32), np.array([1]), 2).tolist()
    [[1, 0]]
    """
    count = min(count, scores.shape[1])
    raised = scores.astype(np.float64)
    raised[np.arange(len(columns)), columns] = np.inf
    order: Indices = np.argsort(-raised, axis=1, kind="stable")[:, :count]
    return order
