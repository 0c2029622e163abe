"""T-MASS (CVPR 2024, arXiv 2403.17998, section 3): a caption as a random cloud of vectors instead of a point.

Text is `t + radius * noise`, where the radius comes from the similarities of the caption and the frames. Training draws
once; evaluation draws several times and keeps the draw that fits best. Videos are pooled as in X-Pool.

Evaluation here compares, for each pair, draws of this caption for this video with this video pooled by this caption.
The public evaluation pools a video by the caption that describes it, whatever caption it is compared with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import ABOVE_0, AT_LEAST_0, MOST_BITS, MOST_SIZE, SHARE, check_settings, whole
from evenreel.losses import info_nce
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import Entry, Limits, cut, logit_scale_at
from evenreel.matchers.x_pool import TextConditionedPooling
from evenreel.matchers.x_pool_fast import AttendedVideos, pooled_vectors
from evenreel.similarity.tiles import chunks_of, joined_chunks

CHUNK_NUMBERS = 2**21
"""Numbers in one table of pairs times D: 8 MiB."""


@dataclass(frozen=True)
class TMassSettings:
    """Settings of the matcher T-MASS: how a caption's vector is spread to a random cloud, and how frames are pooled.

    Attributes:
        max_frames: greatest number of frames of a clip; the radius of the cloud has a weight for each.
        prior: distribution of the noise that makes the cloud: `uniform` from 0 to 1, or `normal` around 0.
        prior_std: standard deviation of `normal` noise; the default is the paper's for LSMDC.
        radius: radius of the cloud at the start of training, where entries of the caption's vector are of size one.
            CLIP's text vectors are about 10 long, so 2.3 starts where the public code does with ViT-B/32.
        trials: number of random vectors of a caption that evaluation compares with a video; the best counts.
        noise_seed: seed of these vectors' noise, which is the same for every pair.
        support_weight: weight of the loss at the point on the cloud's surface that is nearest to the video.
        dropout: share of values dropped in the pooling while training.
        temperature: temperature of the loss at the start of training.
    """

    max_frames: Annotated[int, whole(1, MOST_SIZE)] = 12
    prior: Literal["uniform", "normal"] = "uniform"
    prior_std: Annotated[float, AT_LEAST_0] = 0.003
    radius: Annotated[float, ABOVE_0] = 1.0
    trials: Annotated[int, whole(1)] = 20
    noise_seed: Annotated[int, whole(0, MOST_BITS)] = 0
    support_weight: Annotated[float, AT_LEAST_0] = 0.8
    dropout: Annotated[float, SHARE] = 0.3
    temperature: Annotated[float, ABOVE_0] = 0.01

    def __post_init__(self) -> None:
        check_settings("t_mass", self)


class TMassText(NamedTuple):
    """Captions encoded by T-MASS."""

    sentence: Tensor  # (Q, D) of unit length
    query: Tensor  # (Q, D) attention queries to frames


class TMassVideo(NamedTuple):
    """Videos encoded by T-MASS."""

    frames: Tensor  # (V, T, D) of unit length
    attended: AttendedVideos


class TMass(nn.Module):
    """T-MASS matcher: captions as random clouds of vectors, compared with videos pooled for each caption."""

    noise: Tensor

    def __init__(self, dimension: int, settings: TMassSettings) -> None:
        super().__init__()
        self.limits = Limits(dimension, frames=settings.max_frames)
        self.settings = settings
        self.scale = math.sqrt(dimension)
        self.pooling = TextConditionedPooling(dimension, settings.dropout)
        self.log_radius = nn.Linear(settings.max_frames, dimension)
        nn.init.zeros_(self.log_radius.weight)
        nn.init.constant_(self.log_radius.bias, math.log(settings.radius))
        generator = torch.Generator().manual_seed(settings.noise_seed)
        self.register_buffer("noise", self._draw(torch.empty(settings.trials, dimension), generator))
        self.logit_scale = logit_scale_at(settings.temperature)

    def encode_text(self, text: TextBatch) -> TMassText:
        """Encode captions as sentence vectors and attention queries, (Q, D) each."""
        sentence = F.normalize(text.sentence, dim=-1)
        return TMassText(sentence, self.pooling.queries(sentence))

    def encode_video(self, video: VideoBatch) -> TMassVideo:
        """Encode videos as attention keys and values of their frames (V, T, D), with Gram matrices.

        Raises:
            UsageError: a clip has more frames than the radius has weights for.
        """
        frames, mask = self._frames(video)
        return TMassVideo(frames, self.pooling.attended(frames, mask))

    def score(self, text: TMassText, video: TMassVideo) -> Tensor:
        """Compute the cosine (Q, V) of each video with the best of the caption's random vectors, in chunks of pairs."""
        numbers = max(text.sentence.shape[-1], self.settings.trials, video.frames.shape[1])
        side = max(1, math.isqrt(CHUNK_NUMBERS // numbers))
        return joined_chunks(self._score, chunks_of(text, side), chunks_of(video, side))

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute two InfoNCE terms: of a random vector of each caption, and of the cloud's point nearest to the video.

        A caption's radius is that of its own video; noise is drawn with the global random state.
        """
        sentence, (frames, mask) = F.normalize(batch.text.sentence, dim=-1), self._frames(batch.video)
        pooled = self.pooling(sentence, frames, mask)
        centre, alike = sentence * self.scale, torch.einsum("bd,btd->bt", sentence, frames)
        radius = self._radius(alike, mask)
        drawn = centre + radius * self._draw(torch.empty_like(centre))
        facing = centre + radius * F.normalize(pooled.mean(0) - centre, dim=-1)
        scale = self.logit_scale.exp()
        return {
            "stochastic": info_nce(_cosines(drawn, pooled), batch.same, scale),
            "support": self.settings.support_weight * info_nce(_cosines(facing, pooled), batch.same, scale),
        }

    def _score(self, text: TMassText, video: TMassVideo) -> Tensor:
        common, epsilon = self.pooling.common(), self.pooling.norm_output.eps
        pooled = F.normalize(pooled_vectors(text.query, video.attended, common, epsilon), dim=-1)
        alike = torch.einsum("qd,vtd->qvt", text.sentence, video.frames)
        return best_draw(text.sentence * self.scale, self._radius(alike, video.attended.mask), pooled, self.noise)

    def _frames(self, video: VideoBatch) -> tuple[Tensor, Tensor]:
        """Unit frames and their mask."""
        frames, mask = cut(video.frames, video.frame_mask, self.settings.max_frames, ("clip", "frames"))
        return F.normalize(frames, dim=-1), mask

    def _radius(self, alike: Tensor, mask: Tensor) -> Tensor:
        """(..., T) similarities to frames -> (..., D); a frame that is not there adds nothing to the sum."""
        weight = self.log_radius.weight[:, : alike.shape[-1]]
        return F.linear(alike.masked_fill(~mask, 0.0), weight, self.log_radius.bias).exp()

    def _draw(self, empty: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Noise of the prior, in place."""
        if self.settings.prior == "uniform":
            return empty.uniform_(0, 1, generator=generator)
        return empty.normal_(0, self.settings.prior_std, generator=generator)


def best_draw(centre: Tensor, radius: Tensor, pooled: Tensor, noise: Tensor) -> Tensor:
    """Compute the cosine (Q, V) of each pair's video with the most similar draw `centre + radius * noise[n]`.

    Draws are not stored: their products with the video and their lengths are sums over D of products of the noise and
    the pair's vectors.

    Args:
        centre: (Q, D) vectors of captions.
        radius: (Q, V, D) radius of each caption's cloud for each video.
        pooled: (Q, V, D) videos pooled for each caption, of unit length.
        noise: (N, D), the same for every pair.

    >>> up, video = torch.tensor([[0.0, 1.0]]), torch.tensor([[[1.0, 0.0]]])
    >>> noise = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # to the right, where the video is, and to the left
    >>> best_draw(up, torch.ones(1, 1, 2), video, noise)
    tensor([[0.7071]])
    """
    along = torch.einsum("qd,qvd->qv", centre, pooled)[..., None] + (radius * pooled) @ noise.T
    square = (centre**2).sum(-1)[:, None, None] + 2 * (centre[:, None] * radius) @ noise.T + radius**2 @ (noise**2).T
    return (along / square.clamp(min=torch.finfo(square.dtype).tiny).sqrt()).amax(-1)


def _cosines(texts: Tensor, pooled: Tensor) -> Tensor:
    """(B, D) captions and (B, B, D) videos pooled for each of them -> (B, B)."""
    return torch.einsum("qd,qvd->qv", F.normalize(texts, dim=-1), F.normalize(pooled, dim=-1))


ENTRY = Entry(TMass, TMassSettings)
