"""Baselines of TITAN's table 1: TTT++, TTTFlow, and scores that are normalised by a stream's earlier queries.

TTT++ (Liu et al., "TTT++: When Does Self-Supervised Test-Time Training Fail or Thrive?", NeurIPS 2021; [21] of TITAN)
has a contrastive task on two views of each test item (SimCLR, arXiv 2002.05709), plus the distances of the mean and of
the covariance of features to those of the source, `||mu_s - mu_t||^2 + ||Sigma_s - Sigma_t||_F^2`, summarised once
after training; a queue of features of earlier batches makes moments of small batches possible, and only the batch in
hand is learned from. Their released code divides both distances by what batches of the source differ by.

Chosen here, because they adapt a classifier of images and this is retrieval behind towers that stay as they are:
- theirs is trained on the source with the contrastive task beside the labels; here the task begins at test time;
- captions and clips have their own moments and their own contrastive task, and nothing says which belong together;
- features are the unit vectors of `evenreel.adaptation.stream`, so what learns is the adapter in front of the matcher;
  their second place of alignment, a head for the contrastive task, has to be trained with the source and is left out;
- a view of a clip lacks some of its frames and a view of a caption some of its words, see `caption_view`;
- an item that comes again takes the place of its older vector in the queue, so that a gallery that is shown at every
  step counts once.

TTTFlow (Osowiechi et al., "TTTFlow: Unsupervised Test-Time Training with Normalizing Flow", WACV 2023, arXiv
2210.11389; [26] of TITAN): after a model is trained and frozen, a normalising flow (in their released code RealNVP,
arXiv 1605.08803) is fitted with Adam on the features that one of its layers makes of the source; at test time the flow
is frozen, and the layers up to that place move by gradient descent on the flow's negative log-likelihood of test
features, as a mean over their numbers. Chosen here, because theirs are feature maps of images: one flow for captions
and one for clips, on the same unit vectors; what moves is the adapter in front of the matcher. Nothing in the
likelihood keeps items apart: it is best where all lie on the mode of the flow, so a few steps can help and many
collapse.

QB-Norm (Bogolin et al. 2022) and NNN (Chowdhury et al. 2024) lower the scores of clips that many queries rank high,
without training. Both take their bank from the training set; in `StreamNorm` it grows with the stream, so that no query
is ranked by one that comes later. It is given the formula, of `evenreel.evaluation.rescoring` for example.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.adaptation.stream import text_vectors, video_vectors
from evenreel.config import ABOVE_0, AT_LEAST_0, MOST_BITS, MOST_LAYERS, MOST_SIZE, SHARE, check_settings, whole
from evenreel.errors import UsageError
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher
from evenreel.similarity.interaction import masked_mean
from evenreel.types import FloatArray


class VectorMoments(NamedTuple):
    """Count () of vectors, 2 or more, their mean (D,) and their covariance (D, D), with the divisor count - 1."""

    size: Tensor
    mean: Tensor
    covariance: Tensor

    def to(self, device: torch.device) -> VectorMoments:
        """Return a copy with the tensors on another device."""
        return VectorMoments(*(each.to(device) for each in self))


class SourceStatistics(NamedTuple):
    """Moments of the source's captions and clips, to which TTT++ aligns those of the target."""

    text: VectorMoments
    video: VectorMoments

    def tensors(self) -> dict[str, Tensor]:
        """Return the moments as tensors by name, to be written to a file; `statistics_of` reads them."""
        sides = self._asdict().items()
        return {f"{side}.{name}": value for side, part in sides for name, value in part._asdict().items()}


def statistics_of(tensors: Mapping[str, Tensor]) -> SourceStatistics:
    """Rebuild the statistics from the tensors of `SourceStatistics.tensors`."""
    sides = SourceStatistics._fields
    return SourceStatistics(
        *(VectorMoments(*(tensors[f"{side}.{one}"] for one in VectorMoments._fields)) for side in sides)
    )


def source_statistics(vectors_q: Tensor, vectors_v: Tensor) -> SourceStatistics:
    """Compute the moments of the vectors of the source's captions (Q, D) and clips (V, D)."""
    return SourceStatistics(moments(vectors_q, "captions"), moments(vectors_v, "clips"))


def moments(vectors: Tensor, kind: str = "items") -> VectorMoments:
    """Compute the mean (D,) and covariance (D, D) of vectors (N, D), in float64.

    Raises:
        UsageError: there are fewer than two vectors, or some are no finite numbers; they are called by their `kind`.
    """
    count, wide = len(vectors), vectors.detach().cpu().double()
    products = wide.T @ wide
    if count < 2:
        raise UsageError(
            f"The source has {count} {kind} with a vector; a covariance needs at least 2, and describes D numbers well "
            "with many times D. Prepare with a larger split."
        )
    if not products.isfinite().all():
        raise UsageError(f"Some vectors of the source's {kind} are NaN or infinite; their moments say nothing.")
    mean = wide.sum(0) / count
    covariance = (products - count * torch.outer(mean, mean)) / (count - 1)
    return VectorMoments(torch.tensor(count), mean.float(), covariance.float())


@dataclass(frozen=True)
class TTTSettings:
    """Settings of TTT++: weights of its loss terms, views and queue."""

    # weight of the contrastive term, by which views of one item are told from all other views
    lambda_contrastive: Annotated[float, AT_LEAST_0] = 1.0
    lambda_mean: Annotated[float, AT_LEAST_0] = 1.0  # weight of the distance between the means of source and target
    # weight of the distance between the covariances of source and target
    lambda_covariance: Annotated[float, AT_LEAST_0] = 1.0
    # divide a distance by its mean for as many vectors of the source (`chance_gaps`), as the released code does with
    # measured values: 1 then means no visible shift. False takes the paper's distances, which for unit vectors are far
    # smaller than the contrastive term
    relative: bool = True
    drop: Annotated[float, SHARE] = 0.2  # share of the words or frames that a view lacks; one is always left
    # number of vectors that moments are computed from, the present batch included; 0 for the batch alone
    queue: Annotated[int, whole(0)] = 1024
    # temperature of the contrastive term. The paper's is 0.5, for a head of its own; similarities of frozen features
    # lie closer together
    temperature: Annotated[float, ABOVE_0] = 0.1

    def __post_init__(self) -> None:
        check_settings("ttt", self)
        if not any((self.lambda_contrastive, self.lambda_mean, self.lambda_covariance)):
            raise UsageError(
                "All weights of ttt are 0 (lambda_contrastive, lambda_mean, lambda_covariance); give one of them a "
                "number above 0."
            )


class VectorQueue:
    """Queue of the newest vectors of earlier batches, one for each id."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.ids: list[str] = []
        self.vectors: Tensor | None = None

    def with_past(self, ids: Sequence[str], vectors: Tensor) -> Tensor:
        """Join a batch (n, D), with gradients, with the queued vectors of other ids, without; queue the batch."""
        fresh, own = set(ids), vectors.detach()
        names, known = list(ids), own
        if self.vectors is not None:
            kept = [row for row, name in enumerate(self.ids) if name not in fresh]
            names = [self.ids[row] for row in kept] + names
            known = torch.cat([self.vectors.to(own)[kept], own])
        room = max(self.size, len(own))
        past = known[-room : len(known) - len(own)] if len(known) > len(own) else known[:0]
        self.ids = names[len(names) - min(self.size, len(names)) :]
        self.vectors = known[len(known) - len(self.ids) :]
        return torch.cat([vectors, past])


class TTTObjective:
    """Loss of TTT++ on unpaired captions and clips of the target, with a queue of earlier vectors.

    The moments of the source are by the same matcher before it is adapted; a CPU generator draws what views lack.
    """

    def __init__(self, statistics: SourceStatistics, settings: TTTSettings, generator: torch.Generator) -> None:
        self.statistics = statistics
        self.settings = settings
        self.generator = generator
        self.queues = {side: VectorQueue(settings.queue) for side in SourceStatistics._fields}

    def __call__(self, matcher: Matcher, text: TextBatch, video: VideoBatch) -> dict[str, Tensor]:
        """Compute the weighted terms `contrastive_*`, `mean_*` and `covariance_*`, each for `text` and `video`.

        Those with a weight of zero are left out. Nothing says which caption describes which clip.

        Raises:
            UsageError: the matcher takes no features of captions, or makes vectors of another length than the source's.
        """
        vectors = {"text": text_vectors(matcher, text), "video": video_vectors(matcher, video)}
        terms: dict[str, Tensor] = {}
        if weight := self.settings.lambda_contrastive:
            drawn = self.settings, self.generator
            texts = [text_vectors(matcher, caption_view(text, *drawn)) for _ in range(2)]
            videos = [video_vectors(matcher, clip_view(video, *drawn)) for _ in range(2)]
            for side, (first, second) in (("text", texts), ("video", videos)):
                terms[f"contrastive_{side}"] = weight * nt_xent(first, second, self.settings.temperature)
        for side, ids in (("text", text.ids), ("video", video.ids)):
            known = self.queues[side].with_past(ids, vectors[side])
            terms |= {f"{name}_{side}": term for name, term in self._alignment(known, side).items()}
        return terms

    def _alignment(self, vectors: Tensor, side: str) -> dict[str, Tensor]:
        source: VectorMoments = getattr(self.statistics, side).to(vectors.device)
        if vectors.shape[1] != len(source.mean):
            raise UsageError(
                f"The vectors ({side}) have {vectors.shape[1]} numbers and the source's moments {len(source.mean)}; "
                "prepare the source with this checkpoint."
            )
        gaps = moment_gaps(vectors, source)
        if self.settings.relative:
            gaps = tuple(gap / chance for gap, chance in zip(gaps, chance_gaps(source, len(vectors)), strict=True))
        weights = {"mean": self.settings.lambda_mean, "covariance": self.settings.lambda_covariance}
        return {name: weight * gap for (name, weight), gap in zip(weights.items(), gaps, strict=True) if weight}


def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Compute SimCLR's loss NT-Xent, by which each view picks the other view of its item (arXiv 2002.05709, eq. 1).

    Args:
        first: (N, D) unit vectors of the first view.
        second: (N, D) unit vectors of other views of the same items.
        temperature: divisor of the cosines.

    Returns:
        The mean over 2 N views, in float32; 0 where N is 1.

    >>> round(nt_xent(torch.ones(2, 1), torch.ones(2, 1), 0.1).item(), 4)  # nothing is known: the logarithm of 3
    1.0986
    """
    both = torch.cat([first, second]).float()
    itself = torch.eye(len(both), dtype=torch.bool, device=both.device)
    logits = (both @ both.T / temperature).masked_fill(itself, float("-inf"))
    return F.cross_entropy(logits, torch.arange(len(both), device=both.device).roll(len(first)))


def moment_gaps(vectors: Tensor, source: VectorMoments) -> tuple[Tensor, ...]:
    """Compute the distances between moments, `||mu_s - mu_t||^2` and `||Sigma_s - Sigma_t||_F^2`, in float32.

    The latter is 0 for a single vector.

    Args:
        vectors: (m, D) vectors of the target.
        source: moments of the source's vectors.

    >>> [round(gap.item(), 3) for gap in moment_gaps(torch.tensor([[3.0, 4.0], [1.0, 0.0]]), moments(torch.eye(2)))]
    [4.5, 99.0]
    """
    vectors = vectors.float()
    mean = vectors.mean(0)
    moved = vectors - mean
    covariance = moved.T @ moved / max(len(vectors) - 1, 1)
    spread = (covariance - source.covariance).square().sum()
    return (mean - source.mean).square().sum(), spread if len(vectors) > 1 else spread * 0.0


def chance_gaps(source: VectorMoments, count: int) -> tuple[Tensor, ...]:
    """Compute the distances between moments that are expected by chance, for vectors drawn from the source.

    `tr(Sigma) (1/m + 1/n)` for means of m and n vectors, and `(tr(Sigma)^2 + tr(Sigma^2)) (1/(m-1) + 1/(n-1))` for
    covariances, the latter exact for Gaussian vectors. The released code measures both over batches of the source.

    Args:
        source: moments of n vectors.
        count: number m of vectors.
    """
    of_source = source.size.float()
    trace, squares = source.covariance.trace(), source.covariance.square().sum()
    least = 1e-12  # where all vectors of the source are alike
    mean = trace * (1 / count + 1 / of_source)
    covariance = (trace.square() + squares) * (1 / max(count - 1, 1) + 1 / (of_source - 1))
    return mean.clamp(min=least), covariance.clamp(min=least)


def caption_view(text: TextBatch, settings: TTTSettings, generator: torch.Generator) -> TextBatch:
    """Make a view of captions for the contrastive task, without some of their words.

    As the text is not encoded again, the sentence vector is moved as the mean of the unit words moves.
    """
    kept = _kept_mask(text.word_mask, settings.drop, generator)
    words = F.normalize(text.words, dim=-1)
    moved = text.sentence + masked_mean(words, kept) - masked_mean(words, text.word_mask)
    kept_words = text.words.masked_fill(~kept[..., None], 0.0)
    return replace(text, words=kept_words, word_mask=kept, sentence=F.normalize(moved, dim=-1))


def clip_view(video: VideoBatch, settings: TTTSettings, generator: torch.Generator) -> VideoBatch:
    """Make a view of clips for the contrastive task, without some of their frames; on-screen windows stay."""
    kept = _kept_mask(video.frame_mask, settings.drop, generator)
    frames = F.normalize(video.frames, dim=-1)
    return replace(video, frames=frames.masked_fill(~kept[..., None], 0.0), frame_mask=kept)


def _kept_mask(mask: Tensor, drop: float, generator: torch.Generator) -> Tensor:
    """(N, L) True = real and left, at least one a row that has any."""
    draws = torch.rand(mask.shape, generator=generator).to(mask.device).masked_fill(~mask, -1.0)
    kept = draws >= drop
    kept[torch.arange(len(mask), device=mask.device), draws.argmax(1)] = True
    return kept & mask


MOST_LOG_SCALE = 2.0
"""A coupling stretches no number by more than e to the power of this, so that nothing overflows far from the source."""

CHECK_EVERY = 25
"""Steps of fitting between looks at the vectors that are held out."""


class Coupling(nn.Module):
    """Affine coupling layer: y_b = x_b exp(s(x_a)) + t(x_a) (RealNVP, eq. 4 and 5), which starts as the identity.

    Args:
        dimension: dimension D, at least 2; the halves x_a and x_b are the components at even and at odd indices.
        hidden: units of the layer within.
        first: 0 to keep numbers at even places, 1 to keep those at odd ones.
    """

    def __init__(self, dimension: int, hidden: int, first: int) -> None:
        super().__init__()
        self.first = first
        stay, move = len(range(first, dimension, 2)), len(range(1 - first, dimension, 2))
        last = nn.Linear(hidden, 2 * move)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(nn.Linear(stay, hidden), nn.SiLU(), last)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Transform vectors x (N, D) to y (N, D); also return the logarithm (N,) of the determinant."""
        raw, shift = self.net(x[:, self.first :: 2]).chunk(2, dim=1)
        log_scale = MOST_LOG_SCALE * torch.tanh(raw / MOST_LOG_SCALE)
        moved = slice(1 - self.first, None, 2)
        y = x.clone()
        y[:, moved] = x[:, moved] * log_scale.exp() + shift
        return y, log_scale.sum(1)


class Flow(nn.Module):
    """Normalising flow: a density of vectors that is standard normal after standardising and coupling layers."""

    mean: Tensor
    scale: Tensor

    def __init__(self, dimension: int, layers: int, hidden: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dimension))
        self.register_buffer("scale", torch.ones(dimension))
        self.couplings = nn.ModuleList(Coupling(dimension, hidden, layer % 2) for layer in range(layers))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Transform vectors (N, D) to latent ones (N, D); also return the logarithms (N,) of the determinant."""
        z, log_det = (x - self.mean) / self.scale, -self.scale.log().sum().expand(len(x))
        for coupling in self.couplings:
            z, change = coupling(z)
            log_det = log_det + change
        return z, log_det

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute the log-density (N,) of vectors (N, D), in the flow's own precision.

        >>> Flow(2, layers=0, hidden=1).log_prob(torch.zeros(1, 2))  # minus the logarithm of 2 pi
        tensor([-1.8379])
        """
        z, log_det = self.forward(x.to(self.mean.dtype))
        return log_det - 0.5 * (z.square() + math.log(2 * math.pi)).sum(1)


def flow_of(tensors: Mapping[str, Tensor]) -> Flow:
    """Rebuild a flow from its `state_dict`; the tensors' shapes give its sizes."""
    inner = [name for name in tensors if name.endswith("net.0.weight")]
    flow = Flow(len(tensors["mean"]), len(inner), len(tensors[inner[0]]) if inner else 1)
    flow.load_state_dict(dict(tensors))
    return flow


@dataclass(frozen=True)
class FlowSettings:
    """Settings of building and fitting a flow."""

    # number of coupling layers; 0 leaves a Gaussian with independent components
    layers: Annotated[int, whole(0, MOST_LAYERS)] = 6
    hidden: Annotated[int, whole(1, MOST_SIZE)] = 128  # number of hidden units of each layer
    steps: Annotated[int, whole(0)] = 1000  # steps of Adam, with a learning rate that falls to 0 along a cosine
    lr: Annotated[float, ABOVE_0] = 1e-3  # learning rate at the start
    batch: Annotated[int, whole(1)] = 256  # number of vectors a step
    # standard deviation of the noise that is added to standardised vectors while fitting. Unit vectors lie on a sphere,
    # which has no volume: without noise the flow would fit an ever thinner shell around it, and a small move off the
    # shell would cost more than any shift of domain
    noise: Annotated[float, AT_LEAST_0] = 0.1
    # share of the vectors that are held out to find the best step, which is kept; at least two are fitted
    held_out: Annotated[float, SHARE] = 0.1
    seed: Annotated[int, whole(0, MOST_BITS)] = 0  # seed of weights, batches, noise and held-out vectors

    def __post_init__(self) -> None:
        check_settings("flow", self)


def fit_flow(vectors: Tensor, settings: FlowSettings | None = None) -> Flow:
    """Fit a normalising flow on vectors of the source; equal seeds on a CPU give equal flows.

    Each component of the vectors (N, D) is first standardised to mean 0 and variance 1, so that one noise fits all and
    training starts at a Gaussian with the source's means and variances.
    """
    settings = settings or FlowSettings()
    if vectors.ndim != 2 or len(vectors) < 2 or vectors.shape[1] < 2:
        raise UsageError(
            f"The source's vectors have the shape {tuple(vectors.shape)}; a flow needs at least 2 vectors of at least "
            "2 numbers, and many more to say anything. Prepare with a larger split."
        )
    if not vectors.isfinite().all():
        raise UsageError("Some vectors of the source are NaN or infinite; no flow can be fitted on them.")
    vectors = vectors.detach().float()
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        flow = Flow(vectors.shape[1], settings.layers, settings.hidden).to(vectors.device)
    order = torch.randperm(len(vectors), generator=generator).to(vectors.device)
    held = vectors[order[: min(int(settings.held_out * len(vectors)), len(vectors) - 2)]]
    learned = vectors[order[len(held) :]]
    flow.mean.copy_(learned.mean(0))
    spread = learned.std(0)
    # a number that hardly varies would be divided by next to nothing
    flow.scale.copy_(spread.clamp(min=max(1e-2 * spread.mean().item(), 1e-6)))
    _fit_couplings(flow, learned, held, settings, generator)
    return flow.eval()


def _fit_couplings(
    flow: Flow, learned: Tensor, held: Tensor, settings: FlowSettings, generator: torch.Generator
) -> None:
    """Minimise the mean negative log-likelihood of noisy vectors, and go back to the best look at those held out."""
    if not settings.layers or not settings.steps:
        return
    optimizer = torch.optim.Adam(flow.parameters(), lr=settings.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=settings.steps)
    held = _jittered(flow, held, settings.noise, generator)
    best, kept = nll_per_number(flow, held).item(), copy.deepcopy(flow.state_dict())
    for step in range(1, settings.steps + 1):
        rows = torch.randint(len(learned), (min(settings.batch, len(learned)),), generator=generator)
        batch = _jittered(flow, learned[rows.to(learned.device)], settings.noise, generator)
        optimizer.zero_grad()
        loss = nll_per_number(flow, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(flow.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if len(held) and (step % CHECK_EVERY == 0 or step == settings.steps):
            with torch.no_grad():
                found = nll_per_number(flow, held).item()
            if found < best:
                best, kept = found, copy.deepcopy(flow.state_dict())
    if len(held):
        flow.load_state_dict(kept)


def nll_per_number(flow: Flow, vectors: Tensor) -> Tensor:
    """Compute the mean negative log-likelihood of vectors (N, D), divided by D.

    >>> round(nll_per_number(Flow(2, layers=0, hidden=1), torch.zeros(3, 2)).item(), 4)  # half the logarithm of 2 pi
    0.9189
    """
    return -flow.log_prob(vectors).mean() / vectors.shape[1]


class FlowObjective:
    """Loss of TTTFlow on unpaired captions and clips of the target: their negative log-likelihood by frozen flows.

    The flows are of the source's captions and clips, by the same matcher before it is adapted.
    """

    def __init__(self, flow_text: Flow, flow_video: Flow) -> None:
        self.flow_text = copy.deepcopy(flow_text).requires_grad_(False).eval()
        self.flow_video = copy.deepcopy(flow_video).requires_grad_(False).eval()

    def __call__(self, matcher: Matcher, text: TextBatch, video: VideoBatch) -> dict[str, Tensor]:
        """Compute `flow_text` and `flow_video`, the mean negative log-likelihood per number of the vectors.

        Raises:
            UsageError: the matcher takes no features of captions, or makes vectors of another length than the flow's.
        """
        of_text, of_video = text_vectors(matcher, text), video_vectors(matcher, video)
        return {"flow_text": _cost(self.flow_text, of_text), "flow_video": _cost(self.flow_video, of_video)}


def _cost(flow: Flow, vectors: Tensor) -> Tensor:
    if vectors.shape[1] != len(flow.mean):
        raise UsageError(
            f"The vectors have {vectors.shape[1]} numbers and the source's flow {len(flow.mean)}; prepare the source "
            "with this checkpoint."
        )
    return nll_per_number(flow.to(vectors.device), vectors)


def _jittered(flow: Flow, vectors: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    return vectors + noise * flow.scale * torch.randn(vectors.shape, generator=generator).to(vectors)


Rescore = Callable[[FloatArray, FloatArray], FloatArray]
"""Scores (q, V) of queries and (N, V) of a bank -> corrected scores (q, V)."""


class StreamNorm:
    """Normalisation of each batch of scores (B, V) by the scores of earlier queries, which it keeps as a bank.

    The bank holds scores as they were when their query came. Where the matcher adapts meanwhile, score the queries
    again and start anew.

    Args:
        rescore: the correction, `querybank_norm` or `nearest_neighbour_norm` for example.
        least: scores stay as they are until the bank has so many queries; NNN needs as many as its `top`.
        most: queries in the bank, the latest; it takes 4 x most x V bytes in float32.

    Raises:
        UsageError: `least` is below 1 or above `most`.

    >>> halved = StreamNorm(lambda scores, bank: scores - bank.mean(axis=0), least=2)
    >>> halved(np.array([[0.5, 0.25], [0.25, 0.5]]))  # nothing came before
    array([[0.5 , 0.25],
           [0.25, 0.5 ]])
    >>> halved(np.array([[1.0, 0.0]]))
    array([[ 0.625, -0.375]])
    """

    def __init__(self, rescore: Rescore, *, least: int = 1, most: int = 4096) -> None:
        if not 1 <= least <= most:
            raise UsageError(
                f"A growing bank of queries was to correct scores from {least:,} queries on and to hold {most:,} at "
                "most; the first must be at least 1 and no more than the second."
            )
        self._rescore, self._least, self._most = rescore, least, most
        self._bank: FloatArray | None = None

    def __len__(self) -> int:
        """Count the queries in the bank."""
        return 0 if self._bank is None else len(self._bank)

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Normalise the scores (q, V) of a batch once the bank is large enough, and add them to the bank."""
        if self._bank is not None and self._bank.shape[1] != scores.shape[1]:
            raise UsageError(
                f"The bank has scores of {self._bank.shape[1]:,} clips and the batch of {scores.shape[1]:,}; start "
                "a new bank for another gallery."
            )
        bank = scores[:0] if self._bank is None else self._bank
        self._bank = np.concatenate([bank, scores])[-self._most :]
        return self._rescore(scores, bank) if len(bank) >= self._least else scores
