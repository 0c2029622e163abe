"""HGR (Chen et al., CVPR 2020, arXiv 2003.00392): captions as role graphs, compared with videos on three levels.

The base model of the paper on frame-length bias. It reads the words of captions itself, with a vocabulary and word
vectors of its own, so that no text tower takes part; of videos it takes the features of frames, as all matchers do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import (
    ABOVE_0_TO_1,
    AT_LEAST_0,
    MOST_SIZE,
    SHARE,
    TEXT_OR_NONE,
    TRUE_OR_FALSE,
    WORDS,
    check_settings,
    number,
    one_of,
    whole,
)
from evenreel.errors import UsageError
from evenreel.language.word_vectors import read_word_vectors
from evenreel.losses.ranking import RankingSettings, ranking_hinge
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.hgr.text import GraphLimits, GraphTexts, graph_tensors
from evenreel.matchers.matcher import Entry, LearnedFrom, Limits
from evenreel.similarity.phrases import PhraseTexts, PhraseVideos, frames_of, phrase_similarity
from evenreel.similarity.pooling import masked_softmax

_MARGIN = number("of 0 to 2", lambda value: 0 <= value <= 2)  # two cosines differ by no more


@dataclass(frozen=True)
class HgrSettings(RankingSettings):
    """Settings of HGR and its ranking loss; defaults are those of the published code.

    Attributes:
        size: length E of the vectors that are compared.
        word_size: length of word vectors.
        vectors: a file of word vectors to begin with, in GloVe's form; null to begin with random ones. It is read when
            training begins, and not after.
        words_at_least: least frequency in the training captions of a word with a vector of its own; others share one.
        vocabulary: words with a vector of their own; empty for those that training finds.
        max_words: most words of a caption; the rest is cut off.
        max_verbs: most verbs of a caption; the rest is cut off.
        max_nouns: most nouns of a caption; the rest is cut off.
        sharpness: factor on the cosines in the attention of phrases to frames.
        dropout: share of the values of word vectors, and of mapped frames, that is dropped while training.
        graph_dropout: share of the values passed between nodes of a graph that is dropped while training.
    """

    size: int = 1024
    word_size: int = 300
    vectors: str | None = None
    words_at_least: int = 1
    vocabulary: tuple[str, ...] = ()
    max_words: int = 30
    max_verbs: int = 4
    max_nouns: int = 6
    sharpness: float = 4.0
    dropout: float = 0.2
    graph_dropout: float = 0.5

    def __post_init__(self) -> None:
        allowed = {
            "margin": _MARGIN,
            "mining": one_of("hardest", "all", "ran", "ranp"),
            "tau_neg": ABOVE_0_TO_1,
            "tau_pos": ABOVE_0_TO_1,
            "margin_pos": _MARGIN,
            "diagonal_only": TRUE_OR_FALSE,
            "size": whole(2, MOST_SIZE),
            "vectors": TEXT_OR_NONE,
            "vocabulary": WORDS,
            **dict.fromkeys(
                ("word_size", "words_at_least", "max_words", "max_verbs", "max_nouns"), whole(1, MOST_SIZE)
            ),
            "sharpness": AT_LEAST_0,
            "dropout": SHARE,
            "graph_dropout": SHARE,
        }
        check_settings("hgr", self, allowed)


def with_vocabulary(settings: Mapping[str, Any], learned: LearnedFrom) -> dict[str, Any]:
    """Complete HGR's settings, if they have no vocabulary, with the words of the training captions by frequency.

    >>> from evenreel.types import RoleGraph
    >>> with_vocabulary({"size": 8}, LearnedFrom([RoleGraph(("cut", "tomato")), RoleGraph(("cut", "it"))]))
    {'size': 8, 'vocabulary': ('cut', 'it', 'tomato')}
    """
    if settings.get("vocabulary"):
        return dict(settings)
    counts = Counter(word for graph in learned.graphs for word in graph.words)
    least = settings.get("words_at_least", HgrSettings.words_at_least)
    words = sorted((word for word, count in counts.items() if count >= least), key=lambda word: (-counts[word], word))
    return {**settings, "vocabulary": tuple(words)}


class LevelVideos(nn.Module):
    """Linear maps of frames from length D to length E, one for each level: event, actions, things (section 3.2)."""

    def __init__(self, dimension: int, size: int, dropout: float) -> None:
        super().__init__()
        self.scale = math.sqrt(dimension)
        self.event, self.verbs, self.nouns = (nn.Linear(dimension, size) for _ in range(3))
        self.attention = nn.Linear(size, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, frames: Tensor, frame_mask: Tensor) -> PhraseVideos:
        """Map the frames of videos for all three levels, and compute their Gram matrices.

        Args:
            frames: (V, T, D) of any length; entries are scaled to size one first.
            frame_mask: (V, T) True = real.
        """
        frames = self.scale * F.normalize(frames, dim=-1)
        event, verbs, nouns = (self.dropout(level(frames)) for level in (self.event, self.verbs, self.nouns))
        weights = masked_softmax(self.attention(event).squeeze(-1), frame_mask).to(event.dtype)
        video = F.normalize(torch.einsum("vt,vte->ve", weights, event), dim=-1)
        return PhraseVideos(video, frame_mask, *frames_of(verbs, frame_mask), *frames_of(nouns, frame_mask))


class Hgr(nn.Module):
    """HGR matcher: the mean of the cosines of sentence and video, of verbs and frames, and of nouns and frames."""

    logit_scale: Tensor

    def __init__(self, dimension: int, settings: HgrSettings) -> None:
        super().__init__()
        self.limits = Limits(dimension, graphs=True)
        self.settings = settings
        self.texts = GraphTexts(
            len(settings.vocabulary), (settings.word_size, settings.size), (settings.dropout, settings.graph_dropout)
        )
        self.videos = LevelVideos(dimension, settings.size, settings.dropout)
        # The loss takes cosines as they are: a factor of one, that nothing learns.
        self.register_buffer("logit_scale", torch.zeros(()), persistent=False)
        self._numbers = {word: number for number, word in enumerate(settings.vocabulary, start=1)}

    def read_start(self) -> None:
        """Load the word vectors from the file that the settings name; words that the file lacks keep theirs.

        Raises:
            UsageError: the file cannot be read, has vectors of another length, or has none of the words.
        """
        path, vocabulary = self.settings.vectors, self.settings.vocabulary
        if path is None:
            return
        found, vectors = read_word_vectors(Path(path), vocabulary)
        if vectors.shape[1] != self.settings.word_size:
            raise UsageError(
                f"The word vectors in {path} have {vectors.shape[1]} numbers, and word_size is "
                f"{self.settings.word_size}; set word_size={vectors.shape[1]}."
            )
        if not found.any():
            raise UsageError(
                f"None of the {len(vocabulary):,} words of the captions has a vector in {path}; give a file of their "
                "language with words in small letters, or set vectors to null."
            )
        with torch.no_grad():
            self.texts.words.weight[1:][torch.from_numpy(found)] = torch.from_numpy(vectors[found])

    def encode_text(self, text: TextBatch) -> PhraseTexts:
        """Encode captions as unit vectors of sentences (Q, E), verb phrases (Q, A, E) and noun phrases (Q, N, E).

        Raises:
            UsageError: the captions have no role graphs.
        """
        if text.graphs is None:
            raise UsageError(
                "The matcher hgr reads captions as role graphs, and these have none; make them with "
                "evenreel.features.graphs.with_graphs."
            )
        most = GraphLimits(self.settings.max_words, self.settings.max_verbs, self.settings.max_nouns)
        captions = graph_tensors(text.graphs, self._numbers, most)
        state: PhraseTexts = self.texts(captions.on(self.texts.words.weight.device))
        return state

    def encode_video(self, video: VideoBatch) -> PhraseVideos:
        """Encode videos as vectors (V, E) and as frames (V, T, E) for verbs and for nouns, with their Gram matrices."""
        state: PhraseVideos = self.videos(video.frames, video.frame_mask)
        return state

    def score(self, text: PhraseTexts, video: PhraseVideos) -> Tensor:
        """Compute similarities (Q, V), the mean cosine of the three levels, a chunk of pairs at a time."""
        return phrase_similarity(text, video, self.settings.sharpness)

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the terms of the ranking loss of a batch."""
        scores = self.score(self.encode_text(batch.text), self.encode_video(batch.video))
        return ranking_hinge(scores, batch.same, self.settings, batch.relevance)


ENTRY = Entry(Hgr, HgrSettings, graphs=True, fit=with_vocabulary)
