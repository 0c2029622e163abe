"""BiMa (arXiv 2506.03589): frames attend to scene elements, and captions are split into content and bias.

Weighted token interaction (`evenreel.matchers.wti`) of changed words and frames. Frames attend to the entities and
activities most similar to their video. Words are split into content, which is compared, and bias, which only helps to
write the caption again. Two decoders that write captions take part in training alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import FINITE, MOST_BITS, check_settings, one_of, whole
from evenreel.errors import UsageError
from evenreel.losses import info_nce
from evenreel.losses.variational import active_units, gaussian_kl, overlap
from evenreel.matchers.adapter import AdapterSettings, ResidualMap
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch, pretrained_mean_of
from evenreel.matchers.bima.caption_decoder import CaptionDecoder, DecoderSettings
from evenreel.matchers.bima.caption_words import CaptionWords, WrittenCaptions
from evenreel.matchers.bima.settings import BimaSettings, dictionary_uses, with_dictionary_and_words
from evenreel.matchers.bima.text import BiasHead, Gaussian, mean_draw
from evenreel.matchers.bima.video import ElementAttention, SceneElements, SceneSettings
from evenreel.matchers.matcher import Entry
from evenreel.matchers.wti import Wti, weighted_tokens
from evenreel.similarity.interaction import TokenVectors
from evenreel.similarity.pooling import masked_mean


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
    alpha: float = 0.0
    draws: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        allowed = {"source": one_of("content", "bias"), "alpha": FINITE, "draws": whole(0), "seed": whole(0, MOST_BITS)}
        check_settings("a reading", self, allowed)

    @property
    def with_bias(self) -> bool:
        """Whether the bias is used."""
        return self.source == "bias" or self.alpha != 0


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
        self.scene = _scene(dimension, settings)
        self.limits = self.limits._replace(pretrained_mean=self.scene is not None)
        maps = AdapterSettings(kind="mlp", dropout=settings.dropout)
        self.content = ResidualMap(dimension, maps) if settings.disentangle else None
        self.bias = BiasHead(dimension, settings.dropout) if settings.disentangle else None
        self._caption_words = CaptionWords(settings.vocabulary)
        self.captioner = self._decoder(dimension, settings.captioning and settings.lambda_cap > 0)
        self.text_decoder = self._decoder(dimension, settings.disentangle and settings.lambda_rec > 0)
        self.figures: dict[str, Tensor] = {}

    def read_start(self) -> None:
        """Load the vectors of the dictionary's phrases from the file of the settings.

        Raises:
            UsageError: the file is missing or of another dictionary or encoder, or the vocabulary is empty.
        """
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
        """Encode the words of captions as vectors and weights, by the parts that a `Reading` chooses.

        Raises:
            UsageError: the reading has the bias, and this matcher was built without it.
        """
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
        """Compute the attention (V, T, k) of frames to the scene elements of their video.

        Raises:
            UsageError: the matcher has no scene elements.
        """
        if self.scene is None:
            raise UsageError("This matcher was built without scene elements, so its frames attend to none.")
        return self.scene.attention(super().frames_of(video), pretrained_mean_of(video))

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the weighted loss terms of equation 13 that the settings use: `nce`, `cap`, `rec`, `kl`.

        It also updates the attribute `figures`, which describes the bias, see `bias_figures`.

        Raises:
            UsageError: captions are to be written, and the batch has no texts.
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
        settings = self.settings
        if not (wanted and settings.vocabulary):
            return None
        sizes = DecoderSettings(
            len(self._caption_words), settings.max_words, settings.decoder_layers, settings.heads, settings.dropout
        )
        return CaptionDecoder(dimension, sizes)


@torch.no_grad()
def bias_figures(bias: Gaussian, mask: Tensor) -> dict[str, Tensor]:
    """Measure how much information the bias of words carries, since a decoder may ignore it.

    Args:
        bias: distribution of the bias of words, (Q, W, D).
        mask: (Q, W) True = real.

    Returns:
        `bias/kl`, divergence of a word from the prior in nats, unweighted; `bias/active_units`, dimensions whose means
        vary over words (`evenreel.losses.variational.active_units`); `bias/sigma`, mean standard deviation.
    """
    return {
        "bias/kl": gaussian_kl(bias.mu, bias.log_variance, mask),
        "bias/active_units": active_units(bias.mu, mask),
        "bias/sigma": masked_mean(bias.sigma.float(), mask).mean(),
    }


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


def _scene(dimension: int, settings: BimaSettings) -> SceneElements | None:
    entities = len(settings.entities) if settings.use_entities else 0
    activities = len(settings.activities) if settings.use_activities else 0
    if not entities + activities:
        return None
    sizes = SceneSettings(entities, activities, settings.kappa, settings.fixed_g, settings.residual)
    return SceneElements(dimension, sizes)


ENTRY = Entry(Bima, BimaSettings, fit=with_dictionary_and_words, uses=dictionary_uses)
