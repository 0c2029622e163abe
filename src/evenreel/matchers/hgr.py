"""HGR (Chen et al., CVPR 2020, arXiv 2003.00392): captions as role graphs, compared with videos on three levels.

The base model of the paper on frame-length bias. It reads the words of captions itself, with a vocabulary and word
vectors of its own, so that no text tower takes part; of videos it takes the features of frames, as all matchers do.

In the order of the paper: settings; role graphs as tensors and their encoder (section 3.1); videos (3.2); similarity on
three levels (3.3); the matcher. Its loss is in `evenreel.losses.ranking`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from evenreel.config import AT_LEAST_0, MOST_SIZE, SHARE, WORDS, check_settings, whole
from evenreel.errors import UsageError
from evenreel.language.role_graphs import ROLES
from evenreel.language.tokens import most_frequent
from evenreel.language.wording import read_word_vectors
from evenreel.losses.ranking import RankingSettings, ranking_hinge
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import TEXT_OR_NONE, Entry, LearnedFrom, Limits
from evenreel.similarity.interaction import TableSide, in_chunks, masked_softmax
from evenreel.types import RoleGraph


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

    size: Annotated[int, whole(2, MOST_SIZE)] = 1024
    word_size: Annotated[int, whole(1, MOST_SIZE)] = 300
    vectors: Annotated[str | None, TEXT_OR_NONE] = None
    words_at_least: Annotated[int, whole(1, MOST_SIZE)] = 1
    vocabulary: Annotated[tuple[str, ...], WORDS] = ()
    max_words: Annotated[int, whole(1, MOST_SIZE)] = 30
    max_verbs: Annotated[int, whole(1, MOST_SIZE)] = 4
    max_nouns: Annotated[int, whole(1, MOST_SIZE)] = 6
    sharpness: Annotated[float, AT_LEAST_0] = 4.0
    dropout: Annotated[float, SHARE] = 0.2
    graph_dropout: Annotated[float, SHARE] = 0.5

    def __post_init__(self) -> None:
        check_settings("hgr", self)


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
    return {**settings, "vocabulary": tuple(word for word, _ in most_frequent(counts, least))}


UNKNOWN = 0
"""Number of every word that is not in the vocabulary; its words have the numbers from 1."""
_ROLE_NUMBERS = {role: number for number, role in enumerate(ROLES)}


class GraphTensors(NamedTuple):
    """Role graphs of Q captions as tensors, with P = A + N phrases each: A verbs, then N nouns."""

    verbs: int  # A, number of verb phrases, padding included
    words: Tensor  # (Q, W) vocabulary numbers of the words
    lengths: Tensor  # (Q,) number of words of each caption
    members: Tensor  # (Q, P, W) True = the word belongs to the phrase
    roles: Tensor  # (Q, P) index of the phrase's role in `ROLES`
    # (Q, 1 + P, 1 + P) True = the first node attends to the second; node 0 is the event, then the phrases
    edges: Tensor

    def on(self, device: torch.device) -> GraphTensors:
        """Return a copy with the tensors on another device."""
        return GraphTensors(self.verbs, *(one.to(device) for one in self[1:]))


def graph_tensors(graphs: Sequence[RoleGraph], vocabulary: Mapping[str, int], settings: HgrSettings) -> GraphTensors:
    """Convert the role graphs of captions to tensors, cut to the words, verbs and nouns that the settings allow.

    A phrase loses its words past the last one that is kept, and is left out where none remains. Every verb attends to
    the event, and a verb and a noun that belongs to it to each other; the event, as in the published code, to nothing.
    """
    kept = [_CutGraph(graph, settings) for graph in graphs]
    verbs = max((len(one.verbs) for one in kept), default=0)
    phrases = verbs + max((len(one.nouns) for one in kept), default=0)
    longest = max((len(one.words) for one in kept), default=1)
    words = np.full((len(kept), longest), UNKNOWN)
    members = np.zeros((len(kept), phrases, longest), np.bool_)
    roles = np.zeros((len(kept), phrases), np.int64)
    edges = np.zeros((len(kept), 1 + phrases, 1 + phrases), np.bool_)
    for row, one in enumerate(kept):
        words[row, : len(one.words)] = [vocabulary.get(word, UNKNOWN) for word in one.words]
        places = one.places(verbs)
        for node, place in places.items():
            members[row, place, one.within(node)] = True
            roles[row, place] = _ROLE_NUMBERS.get(one.graph.nodes[node].role, _ROLE_NUMBERS["NOUN"])
        edges[row, 1 : 1 + len(one.verbs), 0] = True
        for verb, noun in one.graph.edges:
            if verb in places and noun in places:
                pair = 1 + places[verb], 1 + places[noun]
                edges[row, pair, pair[::-1]] = True
    lengths = np.array([len(one.words) for one in kept])
    return GraphTensors(verbs, *map(torch.from_numpy, (words, lengths, members, roles, edges)))


class _CutGraph:
    """A graph cut to the first words, and the first verbs and nouns that have one of these."""

    def __init__(self, graph: RoleGraph, most: HgrSettings) -> None:
        self.graph, self.words = graph, graph.words[: most.max_words]
        there = [number for number in range(len(graph.nodes)) if self.within(number)]
        self.verbs = [number for number in there if graph.nodes[number].is_verb][: most.max_verbs]
        self.nouns = [number for number in there if not graph.nodes[number].is_verb][: most.max_nouns]

    def within(self, node: int) -> list[int]:
        """Places of the words of a node that are read."""
        return [place for place in self.graph.nodes[node].words if place < len(self.words)]

    def places(self, verbs: int) -> dict[int, int]:
        """Nodes with their places among the phrases, of which that many are for verbs."""
        in_order: Iterable[tuple[int, int]] = (*enumerate(self.verbs), *enumerate(self.nouns, verbs))
        return {node: place for place, node in in_order}


class GraphAttention(nn.Module):
    """Attention between the nodes of graphs, added to each node; a node that attends to none stays unchanged.

    Args:
        size: length E of node vectors; queries and keys have half of it.
        dropout: share of the added values that is dropped while training.
    """

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(size, size // 2), nn.Linear(size, size // 2)
        self.context = nn.Linear(size, size, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(size)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Apply attention between the nodes of each graph.

        Args:
            nodes: (Q, n, E).
            edges: (Q, n, n) True = the first node attends to the second.
        """
        logits = self.query(nodes) @ self.key(nodes).mT / math.sqrt(self.query.out_features)
        lowest = torch.finfo(logits.dtype).min  # a row without an edge is no NaN on its way to zeros
        weights = logits.masked_fill(~edges, lowest).softmax(-1).masked_fill(~edges, 0.0)
        output: Tensor = self.norm(nodes + self.dropout(self.context(weights.to(nodes.dtype) @ nodes)))
        return output


class GraphTexts(nn.Module):
    """Encoder of role graphs to sentences, verbs and nouns: words by a recurrent network, phrases by attention."""

    def __init__(self, settings: HgrSettings) -> None:
        super().__init__()
        word_size, size = settings.word_size, settings.size
        bound = 1 / math.sqrt(word_size)
        self.words = _vectors(torch.empty(1 + len(settings.vocabulary), word_size).uniform_(-bound, bound))
        self.dropout = nn.Dropout(settings.dropout)
        self.recurrent = nn.GRU(word_size, size, batch_first=True, bidirectional=True)
        for name, parameter in self.recurrent.named_parameters():
            nn.init.orthogonal_(parameter) if name.startswith("weight") else nn.init.zeros_(parameter)
        self.attention = nn.Linear(size, 1)
        roles = torch.empty(len(ROLES), size)
        self.roles = _vectors(roles if roles.is_meta else roles.normal_())  # for what has no numbers it takes seconds
        self.graph = GraphAttention(size, settings.graph_dropout)

    def forward(self, captions: GraphTensors) -> PhraseTexts:
        """Encode role graphs as unit vectors of sentences (Q, E), verbs (Q, A, E) and nouns (Q, N, E), with masks."""
        hidden = self._read(captions)
        real = torch.arange(hidden.shape[1], device=hidden.device) < captions.lengths[:, None]
        weights = masked_softmax(self.attention(hidden).squeeze(-1), real)
        event = torch.einsum("qw,qwe->qe", weights.to(hidden.dtype), hidden)
        phrases = self._phrases(hidden, captions)
        nodes = self.graph(torch.cat([event[:, None], phrases], dim=1), captions.edges)
        mask = captions.members.any(2)
        unit = F.normalize(nodes, dim=-1)
        found = unit[:, 1:].masked_fill(~mask[..., None], 0.0)
        first = captions.verbs
        return PhraseTexts(unit[:, 0], found[:, :first], mask[:, :first], found[:, first:], mask[:, first:])

    def _read(self, captions: GraphTensors) -> Tensor:
        """(Q, W, E) every word after those before it and those behind it, the mean of the two directions."""
        words = self.dropout(self.words(captions.words))
        packed = pack_padded_sequence(words, captions.lengths.cpu(), batch_first=True, enforce_sorted=False)
        both, _ = pad_packed_sequence(self.recurrent(packed)[0], batch_first=True, total_length=words.shape[1])
        forward, backward = both.chunk(2, dim=-1)
        return (forward + backward) / 2

    def _phrases(self, hidden: Tensor, captions: GraphTensors) -> Tensor:
        """(Q, P, E) the maximum over the words of each phrase, scaled by its role; zero where there is none."""
        own = hidden[:, None].masked_fill(~captions.members[..., None], float("-inf")).amax(2)
        own = own.masked_fill(~captions.members.any(2)[..., None], 0.0)
        scaled: Tensor = own * self.roles(captions.roles)
        return scaled


def _vectors(first: Tensor) -> nn.Embedding:
    """Vectors that are learned, one for each row of those to begin with."""
    embedding: nn.Embedding = nn.Embedding.from_pretrained(first, freeze=False)  # type: ignore[no-untyped-call]
    return embedding


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
        return PhraseVideos(video, frame_mask, frames_of(verbs, frame_mask), frames_of(nouns, frame_mask))


class PhraseTexts(NamedTuple):
    """Captions as a sentence, verb phrases and noun phrases; vectors of unit length, zero where there is no phrase."""

    sentence: Tensor  # (Q, D) vector of the whole sentence, for the event
    verbs: Tensor  # (Q, A, D) verb phrases, for actions
    verb_mask: Tensor  # (Q, A) True = real, at any index, none in some rows
    nouns: Tensor  # (Q, N, D) noun phrases, for things
    noun_mask: Tensor  # (Q, N) True = real, at any index, none in some rows


class Frames(NamedTuple):
    """Frames of videos, mapped for one level of phrases (verbs or nouns); zero where there is no frame."""

    unit: Tensor  # (V, T, D) unit vectors of the frames
    lengths: Tensor  # (V, T) norms of the vectors
    gram: Tensor  # (V, T, T) dot products of the vectors


class PhraseVideos(NamedTuple):
    """Videos as one vector, and as frames mapped for verbs and for nouns."""

    video: Tensor  # (V, D) of unit length, what the event is compared with
    frame_mask: Tensor  # (V, T) True = real, at least one a row
    verbs: Frames  # what verbs attend to
    nouns: Frames  # what nouns attend to


def frames_of(vectors: Tensor, frame_mask: Tensor) -> Frames:
    """Compute unit vectors, lengths and Gram matrices of frames (V, T, D); frame_mask (V, T), True = real."""
    real = vectors.masked_fill(~frame_mask[..., None], 0.0)
    return Frames(F.normalize(real, dim=-1), real.norm(dim=-1), real @ real.mT)


class _Phrases(NamedTuple):
    """The n real phrases of a level in a chunk: `vectors` (n, D), and `means` (n, q) to average those of a caption."""

    vectors: Tensor
    means: Tensor


def phrase_similarity(texts: PhraseTexts, videos: PhraseVideos, sharpness: float) -> Tensor:
    """Compute similarities (Q, V), the mean of three cosines: sentence and video, verbs and frames, nouns and frames.

    A level of which a caption has no phrase counts as 0, as in the published code.

    Args:
        texts: Q captions.
        videos: V videos.
        sharpness: inverse temperature of the attention of phrases to frames.
    """
    score = partial(_three_levels, sharpness)
    return in_chunks(
        score, TableSide(texts, _phrase_places(texts), _real_phrases), TableSide(videos, videos.frame_mask, _cut_frames)
    )


def attended_cosines(phrases: Tensor, frames: Frames, frame_mask: Tensor, sharpness: float) -> Tensor:
    """Compute cosines (V, n) of n phrases with the frames of each video, summed by the phrase's attention.

    Attention is the softmax over the real frames of `sharpness` times their cosines with the phrase, negative ones
    taken for 0, and all of them divided by their norm over the frames.

    Args:
        phrases: (n, D) of unit length.
        frames: frames of V videos.
        frame_mask: (V, T) True = real, at least one a row.
        sharpness: 0 for the mean of the frames; the larger, the nearer to the best frame.

    >>> vectors, real = torch.tensor([[[2.0, 0.0], [0.0, 2.0], [9.0, 9.0]]]), torch.tensor([[True, True, False]])
    >>> phrase = torch.tensor([[1.0, 0.0]])
    >>> attended_cosines(phrase, frames_of(vectors, real), real, sharpness=0.0)  # of the mean, which is at 45 degrees
    tensor([[0.7071]])
    >>> attended_cosines(phrase, frames_of(vectors, real), real, sharpness=4.0)  # next to the first frame
    tensor([[0.9998]])
    """
    cosines = frames.unit @ phrases.T
    logits = sharpness * F.normalize(cosines.relu(), dim=1)
    attention = logits.masked_fill(~frame_mask[..., None], float("-inf")).softmax(1)
    shares = attention * frames.lengths[..., None]
    squared = ((frames.gram @ attention) * attention).sum(1)
    # Where frames cancel out, what is left of the length is rounding, below zero even: it counts as the least that is
    # told from nothing, so that the cosine is about 0 and its slope bounded. Rounding may also take a cosine past 1.
    kind = torch.finfo(squared.dtype)
    squared = squared.maximum(kind.eps * shares.sum(1).square()).clamp(min=kind.tiny)
    return ((shares * cosines).sum(1) * squared.rsqrt()).clamp(-1.0, 1.0)


def _three_levels(sharpness: float, texts: tuple[Tensor, _Phrases, _Phrases], videos: PhraseVideos) -> Tensor:
    """(q, v) of one chunk."""
    sentence, *phrases = texts
    verbs, nouns = (
        attended_cosines(level.vectors, frames, videos.frame_mask, sharpness) @ level.means
        for level, frames in zip(phrases, (videos.verbs, videos.nouns), strict=True)
    )
    return (sentence @ videos.video.T + (verbs + nouns).T) / 3


def _phrase_places(texts: PhraseTexts) -> Tensor:
    """(Q, 1 + A + N) so many True from the left as a caption has things to compare, the sentence among them."""
    counts = 1 + texts.verb_mask.sum(1) + texts.noun_mask.sum(1)
    most = 1 + texts.verb_mask.shape[1] + texts.noun_mask.shape[1]
    return torch.arange(most, device=counts.device) < counts[:, None]


def _real_phrases(texts: PhraseTexts, _: int) -> tuple[Tensor, _Phrases, _Phrases]:
    return (texts.sentence, _joined(texts.verbs, texts.verb_mask), _joined(texts.nouns, texts.noun_mask))


def _joined(phrases: Tensor, mask: Tensor) -> _Phrases:
    """The real phrases (q, P, D) of all captions one after the other."""
    caption, place = mask.nonzero(as_tuple=True)
    shares = 1 / mask.sum(1).clamp(min=1).to(phrases.dtype)
    means = phrases.new_zeros(len(caption), len(mask))
    means[torch.arange(len(caption), device=mask.device), caption] = shares[caption]
    return _Phrases(phrases[caption, place], means)


def _cut_frames(videos: PhraseVideos, longest: int) -> PhraseVideos:
    verbs, nouns = (
        Frames(level.unit[:, :longest], level.lengths[:, :longest], level.gram[:, :longest, :longest])
        for level in (videos.verbs, videos.nouns)
    )
    return PhraseVideos(videos.video, videos.frame_mask[:, :longest], verbs, nouns)


class Hgr(nn.Module):
    """HGR matcher: the mean of the cosines of sentence and video, of verbs and frames, and of nouns and frames."""

    logit_scale: Tensor

    def __init__(self, dimension: int, settings: HgrSettings) -> None:
        super().__init__()
        self.limits = Limits(dimension, graphs=True)
        self.settings = settings
        self.texts = GraphTexts(settings)
        self.videos = LevelVideos(dimension, settings.size, settings.dropout)
        # The loss takes cosines as they are: a factor of one, that nothing learns.
        self.register_buffer("logit_scale", torch.zeros(()), persistent=False)
        self._numbers = {word: number for number, word in enumerate(settings.vocabulary, start=1)}

    def read_start(self) -> None:
        """Load the word vectors from the file that the settings name; words that the file lacks keep theirs."""
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
        """Encode captions as unit vectors of sentences (Q, E), verb phrases (Q, A, E) and noun phrases (Q, N, E)."""
        if text.graphs is None:
            raise UsageError(
                "The matcher hgr reads captions as role graphs, and these have none; make them with "
                "evenreel.features.load.with_graphs."
            )
        captions = graph_tensors(text.graphs, self._numbers, self.settings)
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
