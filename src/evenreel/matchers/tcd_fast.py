"""TCD's modules, and why all pairs are scored fast: what captions weigh is made once for a video (AAAI 2026).

All of TCD depends on the pair, since a caption weighs frames and windows before anything else happens to them. But a
weight only scales a vector, and maps of vectors are linear: what attention, keys and values make of frames and windows
can be made once for a video (`hoisted`), and a pair needs weighted sums of it (`forward`, a chunk of pairs at a time).
What is left for the pair are tables of rows by rows, and the few maps of what comes after a softmax.
`evenreel.matchers.tcd.pair_parts` has the equations as printed, and tests compare the two.

Letters: a chunk has v videos and q captions; a video has l rows (of one modality), which attend to k rows (of the
other); h heads. Maps have no bias and start as the identity, as X-Pool's do: training starts at cosines of features as
they are.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from evenreel.matchers.adapter import identity
from evenreel.matchers.matcher import check_heads
from evenreel.similarity.interaction import masked_softmax


class RowTerms(NamedTuple):
    """Linearly mapped frames or windows of v videos before captions weight them, which `RowWeights` sums."""

    own: Tensor  # (v, l, D) vectors of the rows themselves, or (v, 0, D) for none
    other: Tensor  # (v, k, D) vectors of the other modality, which rows attend to


class RowWeights(NamedTuple):
    """Weights that q captions give to the rows (frames or windows) of v videos.

    Row l of a pair is `own_l own[l] + sum_k mix_lk other_k other[k]`, with the vectors of `RowTerms`.
    """

    own: Tensor  # (v, q, l) weights of the rows themselves; (v, q, 0) where rows are made of the other modality alone
    other: Tensor  # (v, q, k) weights of the rows of the other modality
    mix: Tensor  # attention of rows to those of the other modality, (v, l, k), or (v, q, l, k) where captions change it
    mask: Tensor  # (v, l) True = real


def conditioned(sentence: Tensor, rows: Tensor, mask: Tensor, tau: float, certainty: Tensor | None = None) -> Tensor:
    """Compute weights of frames or windows by their similarity to captions (TCD, equation 2), summing to 1 over rows.

    Args:
        sentence: (q, D) captions of unit length.
        rows: (v, l, D) frames or windows of unit length.
        mask: (v, l) True = real.
        tau: temperature.
        certainty: (v, l) logarithms of further weights of rows; None for none.

    Returns:
        (v, q, l) weights.
    """
    logits = torch.einsum("qd,vld->vql", sentence, rows) / tau
    if certainty is not None:
        logits = logits + certainty[:, None]
    return masked_softmax(logits, mask[:, None].expand_as(logits))


def taken(shares: Tensor, weighing: RowWeights) -> tuple[Tensor, Tensor]:
    """Convert weights of combined rows (v, q, h, l) to weights of the vectors that rows are combined from.

    Args:
        shares: (v, q, h, l) weights of rows (frames or windows), for v videos, q captions and h heads.
        weighing: how captions combine rows from vectors of both modalities.

    Returns:
        Weights of own vectors (v, q, h, l), and of vectors of the other modality (v, q, h, k).
    """
    own = shares[..., : weighing.own.shape[-1]] * weighing.own[:, :, None]
    return own, mixed(shares, weighing.mix) * weighing.other[:, :, None]


def row_logits(own: Tensor, other: Tensor, weighing: RowWeights) -> Tensor:
    """Compute the dot products of a query with combined rows, (v, q, h, l), without making the rows.

    Args:
        own: (v, q, h, l) products with the rows' own vectors.
        other: (v, q, h, k) products with vectors of the other modality.
        weighing: weights by which rows are combined from both.
    """
    of_other = mixed(other * weighing.other[:, :, None], weighing.mix.mT)
    return own * weighing.own[:, :, None] + of_other if weighing.own.shape[-1] else of_other


def mixed(shares: Tensor, mix: Tensor) -> Tensor:
    """Multiply weights of rows (v, q, h, l) by their attention to the other modality: (v, q, h, k).

    Args:
        shares: (v, q, h, l) weights of rows.
        mix: attention, (v, l, k), or (v, q, l, k) where captions change it.
    """
    if mix.dim() == shares.dim():
        return shares @ mix
    videos, captions, heads, length = shares.shape
    return (shares.reshape(videos, captions * heads, length) @ mix).view(videos, captions, heads, -1)


def summed(shares: tuple[Tensor, Tensor], rows: RowTerms) -> Tensor:
    """Sum vectors of frames and windows with the weights of h attention heads, for v videos and q captions.

    Args:
        shares: weights of the l own vectors (v, q, h, l), and of the k vectors of the other modality (v, q, h, k).
        rows: vectors of the videos, own (v, l, D) and of the other modality (v, k, D); each head sums D / h of their
            numbers.

    Returns:
        (v, q, D) sums, those of the heads side by side.
    """
    return _summed(shares[0], rows.own) + _summed(shares[1], rows.other)


def _summed(shares: Tensor, rows: Tensor) -> Tensor:
    return torch.einsum("vqhl,vlhd->vqhd", shares, by_head(rows, shares.shape[2])).flatten(2)


def products(query: Tensor, rows: Tensor, heads: int) -> Tensor:
    """Compute the dot products of queries (v, q, D) and rows (v, l, D) in each of h heads: (v, q, h, l)."""
    return torch.einsum("vqhd,vlhd->vqhl", by_head(query, heads), by_head(rows, heads))


def by_head(rows: Tensor, heads: int) -> Tensor:
    """Split vectors (..., D) into heads: (..., h, D / h)."""
    return rows.view(*rows.shape[:-1], heads, rows.shape[-1] // heads)


def mean_row(weighing: RowWeights, rows: RowTerms) -> Tensor:
    """Compute, for each pair of a video and a caption, the mean of the rows as the caption weights them: (v, q, D).

    Args:
        weighing: weights of v videos' rows (frames or windows) by q captions.
        rows: vectors that the rows are combined from.
    """
    count = weighing.mask.sum(1).to(weighing.own.dtype)[:, None, None, None]
    shares = (weighing.mask[:, None, None] / count).expand(-1, weighing.own.shape[1], -1, -1)
    return summed(taken(shares, weighing), rows)


def every_row(weighing: RowWeights, rows: RowTerms) -> Tensor:
    """Compute, for each pair of a video and a caption, the rows (frames or windows) as the caption weights them.

    Args:
        weighing: weights of v videos' rows by q captions.
        rows: vectors that the rows are combined from.

    Returns:
        (v, q, l, D) combined rows.
    """
    of_other = weighing.mix[:, None] if weighing.mix.dim() == 3 else weighing.mix
    others = (of_other * weighing.other[:, :, None]) @ rows.other[:, None]
    return weighing.own[..., None] * rows.own[:, None] + others if weighing.own.shape[-1] else others


CLUE_STD = 0.02


def through(linear: nn.Linear, rows: RowTerms) -> RowTerms:
    """Apply a linear layer to rows (frames or windows): to their own vectors, and to those of the other modality."""
    return RowTerms(linear(rows.own), linear(rows.other))


class CoAttention(nn.Module):
    """Attention of one modality to the other (TCD, equations 6 and 7), with one head of width D.

    Args:
        dimension: length D of vectors.
        norm: whether both sides are layer-normalised first. That undoes a caption's weights, since they only scale, so
            that the attention is the same for all captions.
    """

    def __init__(self, dimension: int, *, norm: bool) -> None:
        super().__init__()
        self.query, self.key, self.value = (identity(dimension, bias=False) for _ in range(3))
        self.norm_query = nn.LayerNorm(dimension) if norm else None
        self.norm_key = nn.LayerNorm(dimension) if norm else None
        self._root = math.sqrt(dimension)

    def hoisted(self, queries: Tensor, keys: Tensor, key_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the attention (V, l, k) of rows to the other modality, and values (V, k, D), once for all captions.

        Without normalisation the attention is returned as logits, which captions still weight.

        Args:
            queries: (V, l, D) rows that attend.
            keys: (V, k, D) rows of the other modality.
            key_mask: (V, k) True = real.
        """
        looks = queries if self.norm_query is None else self.norm_query(queries)
        seen = keys if self.norm_key is None else self.norm_key(keys)
        logits = self.query(looks) @ self.key(seen).mT / self._root
        if self.norm_query is not None:
            logits = masked_softmax(logits, key_mask[:, None].expand_as(logits))
        return logits, self.value(keys)


def weighted_attention(logits: Tensor, queries: Tensor, keys: Tensor, key_mask: Tensor) -> Tensor:
    """Compute attention (v, q, l, k) whose logits are weighted by captions, as equation 6 is printed.

    Args:
        logits: (v, l, k) before captions weight them.
        queries: (v, q, l) weights of the rows that attend.
        keys: (v, q, k) weights of the rows that are attended to.
        key_mask: (v, k) True = real.
    """
    scaled = logits[:, None] * queries[..., None] * keys[:, :, None]
    return masked_softmax(scaled, key_mask[:, None, None].expand_as(scaled))


class AttentionMaps(nn.Module):
    """Linear maps of multi-head attention (Vaswani et al. 2017): query, key, value and output.

    Raises:
        UsageError: D is no multiple of the heads.
    """

    def __init__(self, dimension: int, heads: int) -> None:
        super().__init__()
        check_heads(dimension, heads)
        self.heads, self.root = heads, math.sqrt(dimension // heads)
        self.query, self.key, self.value, self.output = (identity(dimension, bias=False) for _ in range(4))


class SelfAttended(NamedTuple):
    """Self-attention of a clue token to its own modality, before captions weight the rows."""

    own_logits: Tensor  # (V, h, l) products of the token with rows of its modality
    other_logits: Tensor  # (V, h, k) products with vectors of the other modality
    values: RowTerms  # attention values of rows and of the other modality


class KeyValues(NamedTuple):
    """Attention keys and values of the rows (frames or windows) that a clue token attends to."""

    keys: RowTerms
    values: RowTerms


class ClueRows(NamedTuple):
    """Tensors of videos that a clue is computed from and that are the same for all captions."""

    # rows of the clue's own modality, for self-attention or as keys and values; empty where it is not read
    own: SelfAttended | KeyValues | tuple[()]
    other: KeyValues  # keys and values of the other modality


class ClueWeights(NamedTuple):
    """Weights that captions give to rows in a chunk of pairs, and type embeddings."""

    own: RowWeights  # weights of the rows of the clue's own modality
    other: RowWeights  # weights of the rows of the other modality
    own_types: Tensor  # (l, D) type embeddings of its own modality
    other_types: Tensor  # (k, D) type embeddings of the other modality


class Clue(nn.Module):
    """Hybrid clue of TCD: a learned token that attends to both modalities (equations 8 to 10).

    As printed, the token is one more query beside the rows of its own modality. Queries do not attend to each other, so
    it would get nothing from them; the setting `intra` says how it attends to them instead.
    """

    def __init__(
        self, dimension: int, heads: int, intra: Literal["self_attention", "keys", "none"], *, residual: bool
    ) -> None:
        super().__init__()
        self.token = nn.Parameter(CLUE_STD * torch.randn(dimension))
        self.inner = AttentionMaps(dimension, heads) if intra == "self_attention" else None
        self.norm = nn.LayerNorm(dimension) if intra == "self_attention" else None
        self.cross = AttentionMaps(dimension, heads)
        self.reads_own = intra == "keys"
        self.residual = residual

    def hoisted(self, own: RowTerms, other: RowTerms, clue_type: Tensor) -> ClueRows:
        """Compute the tensors of videos for a clue that are the same for all captions.

        Args:
            own: (V, l, D) rows of the clue's own modality.
            other: (V, k, D) rows of the other modality.
            clue_type: (D,) type embedding of the clue token.
        """
        seen = KeyValues(through(self.cross.key, other), through(self.cross.value, other))
        if self.inner is not None:
            query = by_head(self.inner.query(self.token + clue_type), self.inner.heads)
            keys = self.inner.key.weight.view(*query.shape, -1)  # before the map: as few vectors as there are heads
            looks = torch.einsum("hd,hde->he", query, keys)
            own_logits, other_logits = (torch.einsum("he,vle->vhl", looks, rows) for rows in own)
            return ClueRows(SelfAttended(own_logits, other_logits, through(self.inner.value, own)), seen)
        if self.reads_own:
            return ClueRows(KeyValues(through(self.cross.key, own), through(self.cross.value, own)), seen)
        return ClueRows((), seen)

    def forward(self, rows: ClueRows, sides: ClueWeights, clue_type: Tensor) -> Tensor:
        """Compute the clue vector (v, q, D) of each pair of a chunk.

        Args:
            rows: tensors of the videos, made by `hoisted`.
            sides: weights that captions give to rows.
            clue_type: (D,) type embedding of the clue token.
        """
        token = self.token + clue_type
        if self.inner is not None and isinstance(rows.own, SelfAttended) and self.norm is not None:
            token = token + self.inner.output(self._heard(self.inner, rows.own, sides, token))
            query = self.cross.query(self.norm(token))
        else:
            token = token.expand(*sides.own.own.shape[:2], -1)
            query = self.cross.query(token)
        parts = [(rows.other, sides.other, sides.other_types)]
        if isinstance(rows.own, KeyValues):
            parts.insert(0, (rows.own, sides.own, sides.own_types))
        found = self.cross.output(attend_weighted(self.cross, query, parts))
        clue: Tensor = token + found if self.residual else found
        return clue

    def _heard(self, inner: AttentionMaps, heard: SelfAttended, sides: ClueWeights, token: Tensor) -> Tensor:
        """What the token finds in itself and in the rows of its modality, (v, q, D)."""
        weighing, heads, query = sides.own, inner.heads, inner.query(token)
        rows = row_logits(heard.own_logits[:, None], heard.other_logits[:, None], weighing)
        rows = rows + _of_token(query, inner.key(sides.own_types)[None], heads)[:, None]
        itself = _of_token(query, inner.key(token)[None, None], heads)[:, None].expand(*rows.shape[:3], 1)
        mask = torch.cat([torch.ones_like(weighing.mask[:, :1]), weighing.mask], dim=1)[:, None, None]
        logits = torch.cat([itself, rows], dim=-1) / inner.root
        shares = masked_softmax(logits, mask.expand_as(logits))
        own = shares[..., 1:]
        of_itself = _by_head(shares[..., :1], inner.value(token)[None])
        return summed(taken(own, weighing), heard.values) + _by_head(own, inner.value(sides.own_types)) + of_itself


class CrossAttention(nn.Module):
    """Attention of windows to frames, averaged over windows: TCD's alternative to a clue (table 2, row 1)."""

    def __init__(self, dimension: int, heads: int, *, residual: bool) -> None:
        super().__init__()
        self.cross = AttentionMaps(dimension, heads)
        self.residual = residual

    def hoisted(self, own: RowTerms, other: RowTerms) -> tuple[RowTerms, KeyValues]:
        """Compute the attention queries of windows, and the keys and values of frames, for all captions at once."""
        return through(self.cross.query, own), KeyValues(
            through(self.cross.key, other), through(self.cross.value, other)
        )

    def forward(self, queries: RowTerms, seen: KeyValues, sides: ClueWeights, mean: Tensor) -> Tensor:
        """Compute the fused vector of each pair, (v, q, D).

        Args:
            queries: queries of the windows, made by `hoisted`.
            seen: keys and values of the frames, made by `hoisted`.
            sides: weights of windows and frames.
            mean: (v, q, D) mean of the windows.
        """
        cross, real = self.cross, sides.own.mask[:, None, :, None]
        query = every_row(sides.own, queries) + cross.query(sides.own_types)
        key = every_row(sides.other, seen.keys) + cross.key(sides.other_types)
        value = every_row(sides.other, seen.values) + cross.value(sides.other_types)
        query, key, value = (by_head(each, cross.heads).transpose(2, 3) for each in (query, key, value))
        logits = query @ key.mT / cross.root
        shares = masked_softmax(logits, sides.other.mask[:, None, None, None].expand_as(logits))
        found = (shares @ value).transpose(2, 3).flatten(3)
        pooled: Tensor = cross.output((found * real).sum(2) / real.sum(2))
        return mean + pooled if self.residual else pooled


def attend_weighted(
    attention: AttentionMaps, query: Tensor, parts: list[tuple[KeyValues, RowWeights, Tensor]]
) -> Tensor:
    """Attend with queries (v, q, D) to weighted rows of one or two modalities: (v, q, D), before the output map.

    Args:
        attention: linear maps of the attention.
        query: (v, q, D) queries.
        parts: keys and values, weights and type embeddings of each modality.
    """
    heads = attention.heads
    logits, masks = [], []
    for seen, weighing, types in parts:
        own, other = (products(query, rows, heads) for rows in seen.keys)
        of_types = products(query, attention.key(types)[None], heads)
        logits.append((row_logits(own, other, weighing) + of_types) / attention.root)
        masks.append(weighing.mask[:, None, None].expand_as(logits[-1]))
    together = masked_softmax(torch.cat(logits, -1), torch.cat(masks, -1))
    shares = torch.split(together, [each.shape[-1] for each in logits], -1)
    found = query.new_zeros(())
    for share, (seen, weighing, types) in zip(shares, parts, strict=True):
        found = found + summed(taken(share, weighing), seen.values) + _by_head(share, attention.value(types))
    return found


def _of_token(token: Tensor, rows: Tensor, heads: int) -> Tensor:
    """Products by head of one vector (D,) with (V, l, D) or (l, D) in a batch: (V, h, l)."""
    return torch.einsum("hd,vlhd->vhl", by_head(token, heads), by_head(rows, heads))


def _by_head(shares: Tensor, types: Tensor) -> Tensor:
    """(v, q, h, l) of types (l, D), or of one that all rows share (1, D): (v, q, D)."""
    if len(types) == 1:
        shares = shares.sum(-1, keepdim=True)
    return torch.einsum("vqhl,lhd->vqhd", shares, by_head(types, shares.shape[2])).flatten(2)
