"""TTT++, a baseline of test-time training: a contrastive task on views, and alignment with the source's moments.

Liu et al., "TTT++: When Does Self-Supervised Test-Time Training Fail or Thrive?", NeurIPS 2021; [21] of TITAN.

Theirs: a contrastive task on two views of each test item (SimCLR, arXiv 2002.05709), plus the distances of the mean and
of the covariance of features to those of the source, `||mu_s - mu_t||^2 + ||Sigma_s - Sigma_t||_F^2`, summarised once
after training; a queue of features of earlier batches makes moments of small batches possible, and only the batch in
hand is learned from. Their released code divides both distances by what batches of the source differ by.

Chosen here, because they adapt a classifier of images and this is retrieval behind towers that stay as they are:
- theirs is trained on the source with the contrastive task beside the labels; here the task begins at test time;
- captions and clips have their own moments and their own contrastive task, and nothing says which belong together;
- features are the unit vectors of `evenreel.adaptation.vectors`, so what learns is the adapter in front of the matcher;
  their second place of alignment, a head for the contrastive task, has to be trained with the source and is left out;
- a view of a clip lacks some of its frames and a view of a caption some of its words, see `caption_view`;
- an item that comes again takes the place of its older vector in the queue, so that a gallery that is shown at every
  step counts once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.adaptation.vectors import text_vectors, video_vectors
from evenreel.config import ABOVE_0, AT_LEAST_0, SHARE, TRUE_OR_FALSE, check_settings, whole
from evenreel.errors import UsageError
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher
from evenreel.similarity.interaction import masked_mean


class VectorMoments(NamedTuple):
    """Count, mean and covariance of vectors.

    Attributes:
        size: () int64, number of vectors, at least 2.
        mean: (D,) mean vector.
        covariance: (D, D) covariance, with the divisor size - 1.
    """

    size: Tensor
    mean: Tensor
    covariance: Tensor

    def to(self, device: torch.device) -> VectorMoments:
        """Return a copy with the tensors on another device."""
        return VectorMoments(*(each.to(device) for each in self))


class SourceStatistics(NamedTuple):
    """Moments of the source's vectors, to which TTT++ aligns those of the target.

    Attributes:
        text: moments of its captions.
        video: moments of its clips.
    """

    text: VectorMoments
    video: VectorMoments

    def tensors(self) -> dict[str, Tensor]:
        """Return the moments as tensors by name, to be written to a file; `statistics_of` reads them."""
        sides = {"text": self.text, "video": self.video}
        return {f"{side}.{name}": value for side, part in sides.items() for name, value in part._asdict().items()}


def statistics_of(tensors: Mapping[str, Tensor]) -> SourceStatistics:
    """Rebuild the statistics from the tensors of `SourceStatistics.tensors`.

    >>> statistics = source_statistics(torch.eye(2), torch.eye(2))
    >>> statistics_of(statistics.tensors()).video.mean
    tensor([0.5000, 0.5000])
    """
    sides = [
        VectorMoments(*(tensors[f"{side}.{name}"] for name in VectorMoments._fields))
        for side in SourceStatistics._fields
    ]
    return SourceStatistics(*sides)


def source_statistics(vectors_q: Tensor | Iterable[Tensor], vectors_v: Tensor | Iterable[Tensor]) -> SourceStatistics:
    """Compute the moments of the vectors of the source's captions and clips, batch by batch.

    Args:
        vectors_q: (Q, D) vectors of captions, or batches of them.
        vectors_v: (V, D) vectors of clips, or batches of them.

    Raises:
        UsageError: there are fewer than two of one kind, or vectors that are no finite numbers.
    """
    return SourceStatistics(moments(vectors_q, "captions"), moments(vectors_v, "clips"))


def moments(batches: Tensor | Iterable[Tensor], kind: str = "items") -> VectorMoments:
    """Compute the mean (D,) and covariance (D, D) of batches of vectors (n, D), each read once, in float64.

    Args:
        batches: vectors as one tensor, or as any number of them.
        kind: word for the vectors in error messages.

    Raises:
        UsageError: there are fewer than two vectors, or some are no finite numbers.
    """
    count, total, products = 0, torch.zeros(()), torch.zeros(())
    for batch in [batches] if isinstance(batches, Tensor) else batches:
        wide = batch.detach().cpu().double()
        count, total, products = count + len(wide), total + wide.sum(0), products + wide.T @ wide
    if count < 2:
        raise UsageError(
            f"The source has {count} {kind} with a vector; a covariance needs at least 2, and describes D numbers well "
            "with many times D. Prepare with a larger split."
        )
    if not products.isfinite().all():
        raise UsageError(f"Some vectors of the source's {kind} are NaN or infinite; their moments say nothing.")
    mean = total / count
    covariance = (products - count * torch.outer(mean, mean)) / (count - 1)
    return VectorMoments(torch.tensor(count), mean.float(), covariance.float())


@dataclass(frozen=True)
class TTTSettings:
    """Settings of TTT++: weights of its loss terms, views and queue.

    Attributes:
        lambda_contrastive: weight of the contrastive term, by which views of one item are told from all other views.
        lambda_mean: weight of the distance between the means of source and target.
        lambda_covariance: weight of the distance between the covariances of source and target.
        relative: divide a distance by its mean for as many vectors of the source (`chance_gaps`), as the released code
            does with measured values: 1 then means no visible shift. False takes the paper's distances, which for unit
            vectors are far smaller than the contrastive term.
        drop: share of the words or frames that a view lacks; one is always left.
        noise: length of the random vector that is added to the unit vectors of a view.
        queue: number of vectors that moments are computed from, the present batch included; 0 for the batch alone.
        temperature: temperature of the contrastive term. The paper's is 0.5, for a head of its own; similarities of
            frozen features lie closer together.
    """

    lambda_contrastive: float = 1.0
    lambda_mean: float = 1.0
    lambda_covariance: float = 1.0
    relative: bool = True
    drop: float = 0.2
    noise: float = 0.0
    queue: int = 1024
    temperature: float = 0.1

    def __post_init__(self) -> None:
        weights = ("lambda_contrastive", "lambda_mean", "lambda_covariance")
        check_settings(
            "ttt",
            self,
            dict.fromkeys(weights, AT_LEAST_0)
            | {
                "relative": TRUE_OR_FALSE,
                "drop": SHARE,
                "noise": AT_LEAST_0,
                "queue": whole(0),
                "temperature": ABOVE_0,
            },
        )
        if not any(getattr(self, name) for name in weights):
            raise UsageError(f"All weights of ttt are 0 ({', '.join(weights)}); give one of them a number above 0.")


class VectorQueue:
    """Queue of the newest vectors of earlier batches, one for each id."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.ids: list[str] = []
        self.vectors: Tensor | None = None

    def with_past(self, ids: Sequence[str], vectors: Tensor) -> Tensor:
        """Return a batch joined with the queued vectors of other ids, and queue the batch.

        Args:
            ids: n ids without duplicates.
            vectors: (n, D) vectors of these ids.

        Returns:
            (m, D) with n <= m <= max(n, size): the batch with gradients, and the queued vectors without.
        """
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
    """Loss of TTT++ on unpaired captions and clips of the target, with a queue of earlier vectors."""

    def __init__(self, statistics: SourceStatistics, settings: TTTSettings, generator: torch.Generator) -> None:
        """Start with empty queues.

        Args:
            statistics: moments of the source, by the same matcher before it is adapted.
            settings: weights, views and queue of the objective.
            generator: CPU generator that draws what views lack.
        """
        self.statistics = statistics
        self.settings = settings
        self.generator = generator
        self.queues = {side: VectorQueue(settings.queue) for side in SourceStatistics._fields}

    def __call__(self, matcher: Matcher, text: TextBatch, video: VideoBatch) -> dict[str, Tensor]:
        """Compute the weighted terms by name; those with a weight of zero are left out.

        Args:
            matcher: matcher that adapts.
            text: captions, at least one, each once.
            video: clips, at least one, each once; nothing says which caption describes which.

        Returns:
            `contrastive_*`, `mean_*` and `covariance_*`, each for `text` and `video`.

        Raises:
            UsageError: the matcher takes no features of captions, has nothing in front that could learn, or makes
                vectors of another length than the source's.
        """
        vectors = {"text": text_vectors(matcher, text), "video": video_vectors(matcher, video)}
        check_learnable(*vectors.values())
        terms: dict[str, Tensor] = {}
        if weight := self.settings.lambda_contrastive:
            terms["contrastive_text"] = weight * self._contrastive(
                *(text_vectors(matcher, caption_view(text, self.settings, self.generator)) for _ in range(2))
            )
            terms["contrastive_video"] = weight * self._contrastive(
                *(video_vectors(matcher, clip_view(video, self.settings, self.generator)) for _ in range(2))
            )
        for side, ids in (("text", text.ids), ("video", video.ids)):
            known = self.queues[side].with_past(ids, vectors[side])
            terms |= {f"{name}_{side}": term for name, term in self._alignment(known, side).items()}
        return terms

    def _contrastive(self, first: Tensor, second: Tensor) -> Tensor:
        return nt_xent(first, second, self.settings.temperature)

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


def check_learnable(*vectors: Tensor) -> None:
    """Check that vectors depend on a trainable parameter, such as an adapter's; passes where gradients are off.

    Raises:
        UsageError: none of them depends on a parameter that learns.
    """
    if torch.is_grad_enabled() and not any(each.requires_grad for each in vectors):
        raise UsageError(
            "Nothing in front of this matcher can learn, and the alignment of features moves nothing else. Train it "
            "with an adapter, let the adapter learn, or adapt it by pseudo-labels alone."
        )


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

    As the text is not encoded again, the sentence vector is moved as the mean of the unit words moves; a caption of one
    word changes by the noise alone.
    """
    kept = _kept_mask(text.word_mask, settings.drop, generator)
    words = F.normalize(text.words, dim=-1)
    moved = text.sentence + masked_mean(words, kept) - masked_mean(words, text.word_mask)
    sentence = F.normalize(_noisy(moved, settings.noise, generator), dim=-1)
    return replace(text, words=text.words.masked_fill(~kept[..., None], 0.0), word_mask=kept, sentence=sentence)


def clip_view(video: VideoBatch, settings: TTTSettings, generator: torch.Generator) -> VideoBatch:
    """Make a view of clips for the contrastive task, without some of their frames; on-screen windows stay."""
    kept = _kept_mask(video.frame_mask, settings.drop, generator)
    frames = F.normalize(_noisy(video.frames, settings.noise, generator), dim=-1)
    return replace(video, frames=frames.masked_fill(~kept[..., None], 0.0), frame_mask=kept)


def _kept_mask(mask: Tensor, drop: float, generator: torch.Generator) -> Tensor:
    """(N, L) True = real and left, at least one a row that has any."""
    draws = torch.rand(mask.shape, generator=generator).to(mask.device).masked_fill(~mask, -1.0)
    kept = draws >= drop
    kept[torch.arange(len(mask), device=mask.device), draws.argmax(1)] = True
    return kept & mask


def _noisy(vectors: Tensor, length: float, generator: torch.Generator) -> Tensor:
    if not length:
        return vectors
    noise: Tensor = torch.randn(vectors.shape, generator=generator).to(vectors)
    return vectors + noise * (length / math.sqrt(vectors.shape[-1]))
