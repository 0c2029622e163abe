"""Text encoder of HGR (arXiv 2003.00392, 3.1): role graphs of captions, with attention between their nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from evenreel.language.role_graphs import ROLES
from evenreel.similarity.phrases import PhraseTexts
from evenreel.similarity.pooling import masked_softmax
from evenreel.types import RoleGraph

UNKNOWN = 0
"""Number of every word that is not in the vocabulary; its words have the numbers from 1."""

_ROLE_NUMBERS = {role: number for number, role in enumerate(ROLES)}


class GraphLimits(NamedTuple):
    """Greatest numbers of words, verbs and nouns of a caption; the rest is cut off."""

    words: int
    verbs: int
    nouns: int


class GraphTensors(NamedTuple):
    """Role graphs of Q captions as tensors, with P = A + N phrases each: A verbs, then N nouns.

    Attributes:
        words: (Q, W) vocabulary numbers of the words.
        lengths: (Q,) number of words of each caption.
        members: (Q, P, W) True = the word belongs to the phrase.
        roles: (Q, P) index of the phrase's role in `ROLES`.
        edges: (Q, 1 + P, 1 + P) True = the first node attends to the second; node 0 is the event, then the phrases.
        verbs: A, number of verb phrases, padding included.
    """

    words: Tensor
    lengths: Tensor
    members: Tensor
    roles: Tensor
    edges: Tensor
    verbs: int

    def on(self, device: torch.device) -> GraphTensors:
        """Return a copy with the tensors on another device."""
        words, lengths, members, roles, edges = (one.to(device) for one in self[:5])
        return GraphTensors(words, lengths, members, roles, edges, self.verbs)


def graph_tensors(graphs: Sequence[RoleGraph], vocabulary: Mapping[str, int], most: GraphLimits) -> GraphTensors:
    """Convert the role graphs of captions to tensors, each cut to greatest numbers of words, verbs and nouns.

    A phrase loses its words past the last one that is kept, and is left out where none remains. Every verb attends to
    the event, and a verb and a noun that belongs to it to each other; the event, as in the published code, to nothing.
    """
    kept = [_CutGraph(graph, most) for graph in graphs]
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
    as_tensor = torch.from_numpy
    return GraphTensors(
        as_tensor(words), as_tensor(lengths), as_tensor(members), as_tensor(roles), as_tensor(edges), verbs
    )


class _CutGraph:
    """A graph cut to the first words, and the first verbs and nouns that have one of these."""

    def __init__(self, graph: RoleGraph, most: GraphLimits) -> None:
        self.graph, self.words = graph, graph.words[: most.words]
        there = [number for number in range(len(graph.nodes)) if self.within(number)]
        self.verbs = [number for number in there if graph.nodes[number].is_verb][: most.verbs]
        self.nouns = [number for number in there if not graph.nodes[number].is_verb][: most.nouns]

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
    """Encoder of role graphs to sentences, verbs and nouns: words by a recurrent network, phrases by graph attention.

    Args:
        words: size of the vocabulary without the unknown word.
        sizes: length of word vectors, and length E of all later vectors.
        dropouts: shares of values dropped while training, of word vectors and in the graph.
    """

    def __init__(self, words: int, sizes: tuple[int, int], dropouts: tuple[float, float]) -> None:
        super().__init__()
        word_size, size = sizes
        bound = 1 / math.sqrt(word_size)
        self.words = _vectors(torch.empty(1 + words, word_size).uniform_(-bound, bound))
        self.dropout = nn.Dropout(dropouts[0])
        self.recurrent = nn.GRU(word_size, size, batch_first=True, bidirectional=True)
        for name, parameter in self.recurrent.named_parameters():
            nn.init.orthogonal_(parameter) if name.startswith("weight") else nn.init.zeros_(parameter)
        self.attention = nn.Linear(size, 1)
        roles = torch.empty(len(ROLES), size)
        self.roles = _vectors(roles if roles.is_meta else roles.normal_())  # for what has no numbers it takes seconds
        self.graph = GraphAttention(size, dropouts[1])

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
