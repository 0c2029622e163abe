"""BiMa (arXiv 2506.03589): frames attend to scene elements, and captions are split into content and bias.

Weighted token interaction (`evenreel.matchers.wti`) of changed words and frames. Frames attend to the entities and
activities most similar to their video. Words are split into content, which is compared, and bias, which only helps to
write the caption again. Two decoders that write captions take part in training alone.

In the order of the paper: settings and the dictionary; scene elements (section 3.1) and the attention of frames to them
(3.2); content and bias of words (3.3); decoders; the terms of the loss (equations 6 to 13); the matcher. The dictionary
itself is made in `evenreel.features.scene_elements`.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from evenreel.config import AT_LEAST_0, FINITE, MOST_BITS, MOST_LAYERS, MOST_SIZE, WORDS, Allowed, check_settings, whole
from evenreel.errors import UsageError
from evenreel.features.shards import unseal
from evenreel.language.tokens import most_frequent, split_words
from evenreel.losses import info_nce
from evenreel.matchers.adapter import AdapterSettings, ResidualMap, identity
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch, pretrained_mean_of
from evenreel.matchers.matcher import TEXT_OR_NONE, Entry, LearnedFrom, check_heads
from evenreel.matchers.wti import Wti, WtiSettings, weighted_tokens
from evenreel.similarity.interaction import TokenVectors, masked_mean

Reduction = Literal["mean", "sum"]
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
        lambda_orth: weight of the overlap of bias and content (`evenreel.matchers.bima.overlap`), not in the
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

    elements: Annotated[str | None, TEXT_OR_NONE] = None
    entities: Annotated[tuple[str, ...], WORDS] = ()
    activities: Annotated[tuple[str, ...], WORDS] = ()
    embeddings: Annotated[str | None, TEXT_OR_NONE] = None
    kappa: Annotated[int, whole(1, MOST_SIZE)] = 20
    g: Annotated[float | Literal["adaptive", "none"], _BALANCE] = "adaptive"
    use_entities: bool = True
    use_activities: bool = True
    residual: bool = True
    captioning: bool = True
    disentangle: bool = True
    lambda_cap: Annotated[float, AT_LEAST_0] = 0.3
    lambda_rec: Annotated[float, AT_LEAST_0] = 0.5
    lambda_kl: Annotated[float, AT_LEAST_0] = 1e-4
    lambda_orth: Annotated[float, AT_LEAST_0] = 0.0
    kl_on: Literal["bias", "z"] = "bias"
    reduction: Reduction = "mean"
    samples: Annotated[int, whole(1, MOST_SIZE)] = 1
    free_nats: Annotated[float, AT_LEAST_0] = 0.0
    decoder_layers: Annotated[int, whole(1, MOST_LAYERS)] = 2
    max_words: Annotated[int, whole(1, MOST_SIZE)] = 32
    words_at_least: Annotated[int, whole(1)] = 1
    vocabulary_size: Annotated[int, whole(1)] = 20_000
    vocabulary: Annotated[tuple[str, ...], WORDS] = ()

    def __post_init__(self) -> None:
        check_settings("bima", self)

    @property
    def uses_elements(self) -> bool:
        """Whether frames attend to scene elements."""
        return self.use_entities or self.use_activities

    @property
    def elements_used(self) -> dict[str, int]:
        """Numbers N_e of entities and N_a of activities that frames attend to."""
        return {
            "entities": len(self.entities) if self.use_entities else 0,
            "activities": len(self.activities) if self.use_activities else 0,
        }

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
    """
    whole_settings = BimaSettings(**settings)
    found = {**settings, **_phrases(whole_settings, learned.weights_hash)}
    if whole_settings.writes_captions and not whole_settings.vocabulary:
        found["vocabulary"] = vocabulary_of(
            learned.texts, whole_settings.vocabulary_size, whole_settings.words_at_least
        )
    return found


def dictionary_uses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return, in words, the splits other than the training split that the dictionary was mined from; mostly none."""
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


class Selected(NamedTuple):
    """Dictionary phrases most similar to each video, the most similar first."""

    entities: Tensor  # (V, k, D), rows of unit length; k is 0 where the dictionary has none
    activities: Tensor  # (V, k, D), rows of unit length; k is 0 where the dictionary has none
    entity_places: Tensor  # (V, k) rows of the entities in the dictionary
    activity_places: Tensor  # (V, k) rows of the activities in the dictionary


def select(seen: Tensor, entities: Tensor, activities: Tensor, kappa: int) -> Selected:
    """Select the kappa entities and activities of greatest cosine with each video; of equal ones the first.

    Equation 5 adds entities and activities in pairs, so where both lists have any, no more of each are selected than
    the shorter list has. Computed without gradients, and in full precision under autocast.

    Args:
        seen: (V, D) mean frame of each video, of any length.
        entities: (N_e, D), rows of unit length.
        activities: (N_a, D), rows of unit length.
        kappa: number of each to select.
    """
    count = min([kappa, *(len(phrases) for phrases in (entities, activities) if len(phrases))])
    with torch.no_grad(), torch.autocast(seen.device.type, enabled=False):
        unit = F.normalize(seen.to(entities.dtype), dim=-1)
        entity_places, activity_places = (
            (unit @ phrases.T).sort(dim=1, descending=True, stable=True).indices[:, :count]
            for phrases in (entities, activities)
        )
    return Selected(entities[entity_places], activities[activity_places], entity_places, activity_places)


def balance(entities: Tensor, activities: Tensor) -> Tensor:
    """Compute how unlike the entities (V, k, D) the activities (V, k, D) are: (V,) from 0, alike, to 2.

    `g = 1 - 1/k sum_l max_j cos(a_l, e_j)` (equation 4).

    >>> up, right = torch.tensor([[[0.0, 1.0]]]), torch.tensor([[[1.0, 0.0]]])
    >>> [balance(up, other).item() for other in (up, right, -up)]
    [0.0, 1.0, 2.0]
    """
    alike = F.normalize(activities, dim=-1) @ F.normalize(entities, dim=-1).mT
    return 1 - alike.amax(-1).mean(-1)


def aggregate(selected: Selected, g: float | None = None) -> Tensor:
    """Combine selected phrases to (V, k, D): `c_l = a_l + g e_l` (equation 5), or the one kind that was selected.

    Args:
        selected: entities and activities of V videos.
        g: weight of entities for all videos; None for each video's own, by equation 4.
    """
    entities, activities = selected.entities, selected.activities
    if not entities.shape[1]:
        return activities
    if not activities.shape[1]:
        return entities
    if g is not None:
        return activities + g * entities
    return activities + balance(entities, activities)[:, None, None] * entities


class ElementAttention(NamedTuple):
    """Attention of frames to the scene elements of their video."""

    weights: Tensor  # (V, T, k), summing to one over the elements of a video; rows of padding are to be ignored
    entity_places: Tensor  # (V, k) dictionary index of the entity in each element; width 0 where there are none
    activity_places: Tensor  # (V, k) dictionary index of the activity in each element; width 0 where there are none


class SceneElements(nn.Module):
    """Attention of frames to the scene elements of their video, with one head of width D.

    Queries and keys start as the identity, so that frames first attend to what the tower finds most similar. Values
    start at zero where they are added to the frames, else as the identity. The elements are not trained.
    """

    entities: Tensor
    activities: Tensor

    def __init__(self, dimension: int, settings: BimaSettings) -> None:
        super().__init__()
        self.settings = settings
        self.scale = math.sqrt(dimension)
        self.query, self.key, self.value = (identity(dimension) for _ in range(3))
        if settings.residual:
            nn.init.zeros_(self.value.weight)
        self.frame_norm, self.element_norm = (
            nn.LayerNorm(dimension) if settings.residual else nn.Identity() for _ in range(2)
        )
        for kind, count in settings.elements_used.items():  # of no meaning until `read` or a checkpoint brings them
            self.register_buffer(kind, F.normalize(torch.randn(count, dimension), dim=-1))

    def forward(self, frames: Tensor, frame_mask: Tensor, seen: Tensor) -> Tensor:
        """Compute the frames after attention to the scene elements of their video (section 3.2, unnumbered equation).

        Args:
            frames: (V, T, D), rows of unit length.
            frame_mask: (V, T) True = real.
            seen: (V, D) mean frame of each video, in the space of the phrases.

        Returns:
            (V, T, D), rows of unit length, zero where there is no frame.
        """
        given, elements = self.frame_norm(self.scale * frames), self._elements(self.selected(seen))
        found = self._weights(given, elements) @ self.value(elements)
        mixed = self.scale * frames + found if self.settings.residual else found
        return F.normalize(mixed, dim=-1).masked_fill(~frame_mask[..., None], 0.0)

    def attention(self, frames: Tensor, seen: Tensor) -> ElementAttention:
        """Compute the attention of frames to the scene elements of their video.

        Args:
            frames: (V, T, D), rows of unit length.
            seen: (V, D) mean frame of each video, in the space of the phrases.
        """
        selected = self.selected(seen)
        weights = self._weights(self.frame_norm(self.scale * frames), self._elements(selected))
        return ElementAttention(weights, selected.entity_places, selected.activity_places)

    def selected(self, seen: Tensor) -> Selected:
        """Select the dictionary phrases most similar to each video's mean frame (V, D)."""
        return select(seen, self.entities, self.activities, self.settings.kappa)

    @torch.no_grad()
    def read(self, path: Path) -> None:
        """Load the vectors of the dictionary's phrases from a file that `evenreel elements` wrote."""
        try:
            arrays, _ = unseal(path.read_bytes())
        except Exception as error:  # a damaged header can fail in any way in the parser
            raise UsageError(
                f"The vectors of scene elements in {path} cannot be read ({error}); make them again with "
                "`evenreel elements`."
            ) from error
        for kind in self.settings.elements_used:
            own, given = getattr(self, kind), arrays.get(kind)
            if not len(own):
                continue
            if given is None or given.shape != own.shape:
                raise UsageError(
                    f"{path} has no vectors of length {own.shape[1]} for the {len(own):,} {kind} that frames are to "
                    "look at; make them again with `evenreel elements`, by the encoder of the features."
                )
            own.copy_(torch.from_numpy(given))

    def _elements(self, selected: Selected) -> Tensor:
        """(V, k, D) `c` of equation 5, entries of size one, normalised where frames are."""
        with torch.autocast(selected.entities.device.type, enabled=False):
            elements = self.scale * aggregate(selected, self.settings.fixed_g)
        normed: Tensor = self.element_norm(elements)
        return normed

    def _weights(self, frames: Tensor, elements: Tensor) -> Tensor:
        """(V, T, k)."""
        weights: Tensor = (self.query(frames) @ self.key(elements).mT / self.scale).softmax(-1)
        return weights


LARGEST_LOG_VARIANCE = 10.0
"""Of either sign: past it a step too far would be no number any more."""


class Gaussian(NamedTuple):
    """Independent normal distributions (..., D)."""

    mu: Tensor  # (..., D) means
    log_variance: Tensor  # (..., D), log sigma^2

    @property
    def sigma(self) -> Tensor:
        """Standard deviations (..., D)."""
        return (0.5 * self.log_variance).exp()

    def draw(self) -> Tensor:
        """Draw random numbers (..., D), `mu + sigma * epsilon` (equation 10), with the global random state."""
        return self.mu + self.sigma * torch.randn_like(self.mu)


class BiasHead(nn.Module):
    """Network that maps words (..., D), with entries of size one, to the distribution of their bias (equation 9).

    It starts as the standard normal distribution for every word.
    """

    def __init__(self, dimension: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(dimension, dimension), nn.GELU(), nn.Dropout(dropout))
        self.mu, self.log_variance = nn.Linear(dimension, dimension), nn.Linear(dimension, dimension)
        for last in (self.mu, self.log_variance):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, words: Tensor) -> Gaussian:
        """Compute the distribution of the bias of words: mean and log variance, (..., D) each."""
        hidden = self.hidden(words)
        log_variance = self.log_variance(hidden).clamp(-LARGEST_LOG_VARIANCE, LARGEST_LOG_VARIANCE)
        return Gaussian(self.mu(hidden), log_variance)


def mean_draw(bias: Gaussian, ids: Sequence[str], draws: int, seed: int) -> Tensor:
    """Compute the mean (Q, W, D) of random draws of the bias of Q captions; with 0 draws its mean `mu`.

    The draws of a caption depend on its id, not on other captions of the batch.

    Args:
        bias: distribution of the bias, (Q, W, D).
        ids: Q ids of captions.
        draws: number of draws.
        seed: seed of the draws.
    """
    if not draws:
        return bias.mu
    words, dimension = bias.mu.shape[1:]
    # By word first: the noise of a word does not depend on how far other captions make this one be padded.
    streams = (np.random.default_rng([seed, zlib.crc32(one.encode())]) for one in ids)
    noise = [stream.standard_normal((words, draws, dimension)).mean(1) for stream in streams]
    return bias.mu + bias.sigma * torch.from_numpy(np.stack(noise)).to(bias.mu)


@dataclass(frozen=True)
class Reading:
    """Choice of the parts of a caption, content or bias, that BiMa encodes it by.

    Defaults are the content alone, by which the paper retrieves; others are for measurements.

    Attributes:
        source: `content` or `bias` (table 5).
        alpha: weight of the bias that is added to the content (figure 4), entries of both being of size one.
        draws: number of random draws of the bias to average; 0 for its mean `mu`.
        seed: seed of these draws.
    """

    source: Literal["content", "bias"] = "content"
    alpha: Annotated[float, FINITE] = 0.0
    draws: Annotated[int, whole(0)] = 0
    seed: Annotated[int, whole(0, MOST_BITS)] = 0

    def __post_init__(self) -> None:
        check_settings("a reading", self)

    @property
    def with_bias(self) -> bool:
        """Whether the bias is used."""
        return self.source == "bias" or self.alpha != 0


BEGIN, END, UNKNOWN = range(3)
"""Numbers of what begins and ends a caption, and of every word that is not in the vocabulary."""
SPECIAL = 3
"""The words of the vocabulary have the numbers from here on."""


class WrittenCaptions(NamedTuple):
    """B captions as vocabulary numbers, the input and target of a decoder."""

    before: Tensor  # (B, L) the word before each target: the begin mark, then the words
    words: Tensor  # (B, L) targets: the words, then the end mark
    mask: Tensor  # (B, L) True = real

    def on(self, device: torch.device) -> WrittenCaptions:
        """Return a copy with the tensors on another device."""
        return WrittenCaptions(*(tensor.to(device) for tensor in self))


def words_in(caption: str) -> list[str]:
    """Split a caption into words and punctuation marks, in small letters.

    >>> words_in("A Man's dog")
    ['a', 'man', "'s", 'dog']
    """
    return split_words(caption.lower())


def vocabulary_of(captions: Iterable[str], most: int, least: int = 1) -> tuple[str, ...]:
    """Return the `most` most frequent words of captions, each found at least `least` times; ties by the alphabet.

    >>> vocabulary_of(["a dog", "a cat and a dog", "two"], most=3)
    ('a', 'dog', 'and')
    """
    counts = Counter(word for caption in captions for word in words_in(caption))
    return tuple(word for word, _ in most_frequent(counts, least)[:most])


class CaptionWords:
    """Vocabulary of a caption decoder: distinct words in small letters, and special words."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {word: number for number, word in enumerate(vocabulary, start=SPECIAL)}

    def __len__(self) -> int:
        return SPECIAL + len(self._numbers)

    def written(self, captions: Sequence[str], most: int) -> WrittenCaptions:
        """Convert captions to vocabulary numbers; a caption of more than `most` words is cut and gets no end mark.

        >>> CaptionWords(["a", "dog"]).written(["A dog", "a big dog"], most=3).words
        tensor([[3, 4, 1],
                [3, 2, 4]])
        """
        words = [[self._numbers.get(word, UNKNOWN) for word in words_in(caption)] for caption in captions]
        rows = [([BEGIN, *one][:most], [*one, END][:most]) for one in words]
        longest = max((len(after) for _, after in rows), default=1)
        before, after = torch.full((2, len(rows), longest), END)
        for row, (one, other) in enumerate(rows):
            before[row, : len(one)], after[row, : len(other)] = torch.tensor(one), torch.tensor(other)
        lengths = torch.tensor([len(after) for _, after in rows], dtype=torch.int64)
        return WrittenCaptions(before, after, torch.arange(longest) < lengths[:, None])


class CaptionDecoder(nn.Module):
    """Causal transformer that predicts each word of a caption from the words before it and from source vectors.

    Used in training alone (equations 6 and 8). Layers, heads and how words become vectors are not published: two
    pre-norm blocks of eight heads by default, and one table of vectors for words that are read and that are written, as
    in the transformer that the paper cites (arXiv 1706.03762, section 3.4).

    Args:
        dimension: length D of vectors.
        words: size C of the vocabulary, special words included.
        settings: most words of a caption, each of which has a learned position; blocks, heads and dropout.

    Raises:
        UsageError: D is no multiple of the number of heads.
    """

    def __init__(self, dimension: int, words: int, settings: BimaSettings) -> None:
        super().__init__()
        check_heads(dimension, settings.heads)
        self.scale = math.sqrt(dimension)
        self.words = nn.Embedding(words, dimension)
        nn.init.normal_(self.words.weight, std=1 / self.scale)  # so that states of entry size one give logits of it
        self.places = nn.Embedding(settings.max_words, dimension)
        self.blocks = nn.ModuleList(
            nn.TransformerDecoderLayer(
                dimension,
                settings.heads,
                dim_feedforward=4 * dimension,
                dropout=settings.dropout,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(settings.decoder_layers)
        )
        # Through a map of its own: a state is mostly the word that was read last, whose vector it would meet again.
        self.last = nn.Sequential(nn.LayerNorm(dimension), nn.Linear(dimension, dimension))

    def forward(self, before: Tensor, source: Tensor, source_mask: Tensor) -> Tensor:
        """Compute the hidden states (B, L, D) from which each word of captions is predicted.

        Args:
            before: (B, L) vocabulary numbers of the word before each.
            source: (B, M, D) vectors that the caption is written from, entries of size one.
            source_mask: (B, M) True = real, at least one a row.
        """
        length = before.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=before.device).triu(1)
        states = self.scale * self.words(before) + self.places.weight[:length]
        for block in self.blocks:
            states = block(states, source, tgt_mask=later, memory_key_padding_mask=~source_mask, tgt_is_causal=True)
        mapped: Tensor = self.last(states)
        return mapped

    def nll(self, captions: WrittenCaptions, source: Tensor, source_mask: Tensor, reduction: Reduction) -> Tensor:
        """Compute the negative log likelihood of captions given source vectors, `-sum_l log p(T_l | T_<l, source)`.

        Args:
            captions: B captions.
            source: (B, M, D) vectors that the captions are written from.
            source_mask: (B, M) True = real, at least one a row.
            reduction: `mean` or `sum` over the words of a caption.
        """
        states = self(captions.before, source, source_mask)
        return token_nll(states, self.words.weight, captions.words, captions.mask, reduction)


LOGIT_BYTES = 2**26
"""Most memory for the logits of words at a time; their softmax and its gradient take as much again."""


def token_nll(states: Tensor, words: Tensor, targets: Tensor, mask: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Compute the negative log likelihood of captions, `-sum_l log p(T_l | ...)` (equations 6, 8).

    `p` is the softmax of products with the word vectors. The products with all words of a vocabulary are made in
    chunks, and again for their gradient where there is more than one: at 128 captions of 32 words and 10,000 words of a
    vocabulary they would take 164 MB, several times over.

    Args:
        states: (B, L, D) states of the decoder before each word.
        words: (C, D) vectors of the vocabulary.
        targets: (B, L) numbers of the words that follow, from 0 to C - 1.
        mask: (B, L) True = real, at least one a row.
        reduction: `mean` or `sum` over the words of a caption.

    Returns:
        The mean over captions, in float32.

    >>> real = torch.ones(1, 3, dtype=torch.bool)
    >>> alike = token_nll(torch.zeros(1, 3, 4), torch.zeros(8, 4), torch.zeros(1, 3, dtype=torch.int64), real)
    >>> round(alike.item(), 4)  # nothing is known: the logarithm of 8
    2.0794
    """
    rows = max(1, LOGIT_BYTES // (4 * len(words)))
    parts = list(zip(torch.split(states[mask], rows), torch.split(targets[mask], rows), strict=True))
    if len(parts) == 1:
        costs = _costs(*parts[0], words)
    else:
        costs = torch.cat(
            [checkpoint(_costs, *part, words, use_reentrant=False, preserve_rng_state=False) for part in parts]
        )
    return _reduced(costs.new_zeros(mask.shape).masked_scatter(mask, costs), mask, reduction)


def _costs(states: Tensor, targets: Tensor, words: Tensor) -> Tensor:
    """(N, D) and (N,) -> (N,)."""
    return F.cross_entropy(F.linear(states, words).float(), targets, reduction="none")


def gaussian_kl(
    mu: Tensor, log_variance: Tensor, mask: Tensor, reduction: Reduction = "mean", free_nats: float = 0.0
) -> Tensor:
    """Compute the KL divergence of N(mu, sigma^2) from N(0, I), `1/2 sum_d (mu_d^2 + sigma_d^2 - 1 - log sigma_d^2)`.

    Args:
        mu: (B, L, D) means.
        log_variance: (B, L, D), log sigma^2.
        mask: (B, L) True = real, at least one a row.
        reduction: `mean` or `sum` over the tokens of a row.
        free_nats: least divergence that a token counts with, in nats.

    Returns:
        The mean over rows, in float32.

    >>> real = torch.ones(1, 2, dtype=torch.bool)
    >>> gaussian_kl(torch.zeros(1, 2, 8), torch.zeros(1, 2, 8), real).item()
    0.0
    >>> gaussian_kl(torch.ones(1, 2, 8), torch.zeros(1, 2, 8), real).item()  # half of 1 for each of 8
    4.0
    """
    mu, log_variance = mu.float(), log_variance.float()
    costs = 0.5 * (mu.square() + log_variance.exp() - 1 - log_variance).sum(-1)
    return _reduced(costs.clamp(min=free_nats) if free_nats else costs, mask, reduction)


def overlap(content: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    """Compute the mean squared cosine of the bias and the content of words, both centred over words, to be minimised.

    It is no term of the paper. A caption is written from the sum of content and bias, and a bias that repeats the
    content makes it louder against the noise of the draw. (After the difference loss of domain separation networks,
    arXiv 1608.06019, equation 5.)

    Args:
        content: (B, L, D); gets no gradient.
        bias: (B, L, D), mean of the latent of each word.
        mask: (B, L) True = real.

    Returns:
        A number from 0 to 1, in float32.

    >>> content = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])
    >>> real = torch.ones(1, 2, dtype=torch.bool)
    >>> round(overlap(content, 5 * content + 3, real).item(), 4), overlap(content, content.flip(-1), real).item()
    (1.0, 0.0)
    """
    said, held = content.detach()[mask].float(), bias[mask].float()
    return F.cosine_similarity(said - said.mean(0), held - held.mean(0), dim=-1).square().mean()


def _reduced(costs: Tensor, mask: Tensor, reduction: Reduction) -> Tensor:
    totals = costs.masked_fill(~mask, 0.0).sum(1)
    return (totals if reduction == "sum" else totals / mask.sum(1).clamp(min=1)).mean()


def active_units(mu: Tensor, mask: Tensor, least: float = 0.01) -> Tensor:
    """Count the dimensions of a latent (out of D) that are in use: their means vary by more than `least` over tokens.

    (Burda et al., Importance Weighted Autoencoders, arXiv 1509.00519.) At 0 the latent has collapsed to its prior.

    Args:
        mu: (B, L, D) means.
        mask: (B, L) True = real.
        least: least variance over all real tokens.

    Returns:
        A number from 0 to D, in float32.

    >>> active_units(torch.tensor([[[0.0, 5.0], [1.0, 5.0]]]), torch.ones(1, 2, dtype=torch.bool)).item()
    1.0
    """
    mu, real = mu.float(), mask[..., None].float()
    count = real.sum().clamp(min=1)
    mean = (real * mu).sum((0, 1)) / count
    variance = (real * (mu - mean).square()).sum((0, 1)) / count
    return (variance > least).sum().float()


@torch.no_grad()
def bias_figures(bias: Gaussian, mask: Tensor) -> dict[str, Tensor]:
    """Measure how much information the bias of words carries, since a decoder may ignore it.

    Args:
        bias: distribution of the bias of words, (Q, W, D).
        mask: (Q, W) True = real.

    Returns:
        `bias/kl`, divergence of a word from the prior in nats, unweighted; `bias/active_units`, dimensions whose means
        vary over words (`evenreel.matchers.bima.active_units`); `bias/sigma`, mean standard deviation.
    """
    return {
        "bias/kl": gaussian_kl(bias.mu, bias.log_variance, mask),
        "bias/active_units": active_units(bias.mu, mask),
        "bias/sigma": masked_mean(bias.sigma.float(), mask).mean(),
    }


class Bima(Wti):
    """BiMa matcher: token interaction of caption content and of frames that attended to scene elements.

    A part without data (a dictionary without phrases, a vocabulary without words) is left out. The attribute `reading`
    chooses the parts by which captions are encoded, except in the loss; `captions_read` changes it.

    Raises:
        UsageError: D is no multiple of the number of heads of temporal blocks or decoders.
    """

    training_only: tuple[str, ...] = ("captioner", "text_decoder")
    """See `evenreel.matchers.matcher.HasTrainingParts`. The head of the bias stays: what it holds can be looked at."""

    def __init__(self, dimension: int, settings: BimaSettings) -> None:
        super().__init__(dimension, settings)
        self.settings = settings
        self.scale = math.sqrt(dimension)
        self.reading = Reading()
        self.scene = SceneElements(dimension, settings) if any(settings.elements_used.values()) else None
        self.limits = self.limits._replace(pretrained_mean=self.scene is not None)
        maps = AdapterSettings(kind="mlp", dropout=settings.dropout)
        self.content = ResidualMap(dimension, maps) if settings.disentangle else None
        self.bias = BiasHead(dimension, settings.dropout) if settings.disentangle else None
        self._caption_words = CaptionWords(settings.vocabulary)
        self.captioner = self._decoder(dimension, settings.captioning and settings.lambda_cap > 0)
        self.text_decoder = self._decoder(dimension, settings.disentangle and settings.lambda_rec > 0)
        self.figures: dict[str, Tensor] = {}

    def read_start(self) -> None:
        """Load the vectors of the dictionary's phrases from the file of the settings."""
        settings = self.settings
        if settings.writes_captions and not settings.vocabulary:
            raise UsageError(
                "bima learns to write captions, and no word of captions is there to be written; train it on a corpus "
                "with captions, lower words_at_least, or set captioning=false and disentangle=false."
            )
        if self.scene is None:
            return
        if settings.embeddings is None:
            raise UsageError(
                "bima has scene elements without their vectors; give elements=DIR, the folder that `evenreel elements` "
                "wrote for the same encoder, instead of entities and activities."
            )
        self.scene.read(Path(settings.embeddings))

    def encode_text(self, text: TextBatch) -> TokenVectors:
        """Encode the words of captions as vectors (Q, W, D) and weights (Q, W), by the parts that `reading` chooses."""
        return self.text_state(text, self.reading)

    def text_state(self, text: TextBatch, reading: Reading) -> TokenVectors:
        """Encode the words of captions as vectors and weights, by the parts that a `Reading` chooses."""
        words = self.words_of(text)
        if reading.with_bias:
            bias = mean_draw(self._bias_of(text.words), text.ids, reading.draws, reading.seed)
            mixed = bias if reading.source == "bias" else self.scale * words + reading.alpha * bias
            words = F.normalize(mixed, dim=-1).masked_fill(~text.word_mask[..., None], 0.0)
        return weighted_tokens(words, text.word_mask, self.word_weights)

    def words_of(self, text: TextBatch) -> Tensor:
        """Return the content vectors of the words (section 3.3), (Q, W, D), of unit length."""
        if self.content is None:
            return super().words_of(text)
        content: Tensor = self.content(text.words, text.word_mask)
        return content

    def frames_of(self, video: VideoBatch) -> Tensor:
        """Return the frames after attention to scene elements (section 3.2), (V, T, D), of unit length."""
        frames = super().frames_of(video)
        if self.scene is None:
            return frames
        looked: Tensor = self.scene(frames, video.frame_mask, pretrained_mean_of(video))
        return looked

    def attention(self, video: VideoBatch) -> ElementAttention:
        """Compute the attention (V, T, k) of frames to the scene elements of their video."""
        if self.scene is None:
            raise UsageError("This matcher was built without scene elements, so its frames attend to none.")
        return self.scene.attention(super().frames_of(video), pretrained_mean_of(video))

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the weighted loss terms of equation 13 that the settings use: `nce`, `cap`, `rec`, `kl`.

        It also updates the attribute `figures`, which describes the bias, see `bias_figures`.
        """
        text, video = self.text_state(batch.text, Reading()), self.encode_video(batch.video)
        terms = {"nce": info_nce(self.score(text, video), batch.same, self.logit_scale.exp())}
        captions = self._written(batch)
        if self.captioner is not None and captions is not None:
            source = self.scale * video.vectors
            cost = self.captioner.nll(captions, source, video.mask, self.settings.reduction)
            terms["cap"] = self.settings.lambda_cap * cost
        if self.bias is not None:
            content, bias = self.scale * text.vectors, self._bias_of(batch.text.words)
            terms |= self._text_terms(content, bias, batch.text.word_mask, captions)
            self.figures = bias_figures(bias, batch.text.word_mask)
        return terms

    def _text_terms(
        self, content: Tensor, bias: Gaussian, mask: Tensor, captions: WrittenCaptions | None
    ) -> dict[str, Tensor]:
        """Captions that are written from `z = content + bias` (equation 8), and the divergence of the bias."""
        settings = self.settings
        terms: dict[str, Tensor] = {}
        if self.text_decoder is not None and captions is not None:
            draws = (content + bias.draw() for _ in range(settings.samples))
            costs = [self.text_decoder.nll(captions, z, mask, settings.reduction) for z in draws]
            terms["rec"] = settings.lambda_rec * torch.stack(costs).mean()
        if settings.lambda_kl:
            mu = content + bias.mu if settings.kl_on == "z" else bias.mu
            cost = gaussian_kl(mu, bias.log_variance, mask, settings.reduction, settings.free_nats)
            terms["kl"] = settings.lambda_kl * cost
        if settings.lambda_orth:
            terms["orth"] = settings.lambda_orth * overlap(content, bias.mu, mask)
        return terms

    def _written(self, batch: PairBatch) -> WrittenCaptions | None:
        """The captions as numbers; None where nothing writes them."""
        if self.captioner is None and self.text_decoder is None:
            return None
        if batch.texts is None:
            raise UsageError("bima learns to write captions, and this batch has none (`PairBatch.texts`).")
        written = self._caption_words.written(batch.texts, self.settings.max_words)
        return written.on(batch.text.words.device)

    def _bias_of(self, vectors: Tensor) -> Gaussian:
        if self.bias is None:
            raise UsageError("This matcher was built with disentangle=false, so its captions have no bias.")
        bias: Gaussian = self.bias(self.scale * F.normalize(vectors, dim=-1))
        return bias

    def _decoder(self, dimension: int, wanted: bool) -> CaptionDecoder | None:
        if not (wanted and self.settings.vocabulary):
            return None
        return CaptionDecoder(dimension, len(self._caption_words), self.settings)


@contextmanager
def captions_read(matcher: nn.Module, reading: Reading) -> Iterator[None]:
    """Make every `Bima` within a matcher encode captions by a `Reading`, for a `with` block."""
    inside = [module for module in matcher.modules() if isinstance(module, Bima)]
    before = [module.reading for module in inside]
    try:
        for module in inside:
            module.reading = reading
        yield
    finally:
        for module, own in zip(inside, before, strict=True):
            module.reading = own


ENTRY = Entry(Bima, BimaSettings, fit=with_dictionary_and_words, uses=dictionary_uses)
