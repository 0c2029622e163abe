"""TTTFlow, a baseline of test-time training: features are kept likely under a flow fitted on the source's.

Osowiechi et al., "TTTFlow: Unsupervised Test-Time Training with Normalizing Flow", WACV 2023, arXiv 2210.11389; [26] of
TITAN.

Theirs: after a model is trained and frozen, a normalising flow (in their released code RealNVP, arXiv 1605.08803) is
fitted with Adam on the features that one of its layers makes of the source; at test time the flow is frozen, and the
layers up to that place move by gradient descent on the flow's negative log-likelihood of test features, as a mean over
their numbers.

Chosen here, because theirs are feature maps of images: one flow for captions and one for clips, on the unit vectors of
`evenreel.adaptation.vectors`; what moves is the adapter in front of the matcher. Nothing in the likelihood keeps items
apart: it is best where all lie on the mode of the flow, so a few steps can help and many collapse.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evenreel.adaptation.baselines.ttt import check_learnable
from evenreel.adaptation.vectors import text_vectors, video_vectors
from evenreel.config import (
    ABOVE_0,
    AT_LEAST_0,
    MOST_BITS,
    MOST_LAYERS,
    MOST_SIZE,
    SHARE,
    check_settings,
    whole,
)
from evenreel.errors import UsageError
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher

MOST_LOG_SCALE = 2.0
"""A coupling stretches no number by more than e to the power of this, so that nothing overflows far from the source."""

CHECK_EVERY = 25
"""Steps of fitting between looks at the vectors that are held out."""


class Coupling(nn.Module):
    """Affine coupling layer: y_b = x_b exp(s(x_a)) + t(x_a) (RealNVP, eq. 4 and 5).

    The halves x_a and x_b are the components at even and at odd indices. It starts as the identity.
    """

    def __init__(self, dimension: int, hidden: int, first: int) -> None:
        """Build a coupling layer that is the identity.

        Args:
            dimension: dimension D, at least 2.
            hidden: units of the layer within.
            first: 0 to keep numbers at even places, 1 to keep those at odd ones.
        """
        super().__init__()
        self.first = first
        stay, move = len(range(first, dimension, 2)), len(range(1 - first, dimension, 2))
        last = nn.Linear(hidden, 2 * move)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(nn.Linear(stay, hidden), nn.SiLU(), last)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Transform vectors x (N, D) to y (N, D); also return the logarithm (N,) of the determinant."""
        log_scale, shift = self._change(x)
        return self._joined(x, self._moving(x) * log_scale.exp() + shift), log_scale.sum(1)

    def inverse(self, y: Tensor) -> Tensor:
        """Invert the transform: vectors y (N, D) to x (N, D)."""
        log_scale, shift = self._change(y)
        return self._joined(y, (self._moving(y) - shift) * (-log_scale).exp())

    def _change(self, x: Tensor) -> tuple[Tensor, Tensor]:
        raw, shift = self.net(x[:, self.first :: 2]).chunk(2, dim=1)
        return MOST_LOG_SCALE * torch.tanh(raw / MOST_LOG_SCALE), shift

    def _moving(self, x: Tensor) -> Tensor:
        return x[:, 1 - self.first :: 2]

    def _joined(self, x: Tensor, moved: Tensor) -> Tensor:
        result = x.clone()
        result[:, 1 - self.first :: 2] = moved
        return result


class Flow(nn.Module):
    """Normalising flow: a density of vectors that is standard normal after standardising and coupling layers."""

    mean: Tensor
    scale: Tensor

    def __init__(self, dimension: int, layers: int, hidden: int) -> None:
        """Build a flow that is the standard normal.

        Args:
            dimension: dimension D, at least 2.
            layers: number of couplings.
            hidden: hidden units of each coupling.
        """
        super().__init__()
        self.register_buffer("mean", torch.zeros(dimension))
        self.register_buffer("scale", torch.ones(dimension))
        self.couplings = nn.ModuleList(Coupling(dimension, hidden, layer % 2) for layer in range(layers))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Transform vectors (N, D) to latent ones (N, D), standard normal if the flow fits.

        Returns:
            The latent vectors, and the logarithms (N,) of the determinant.
        """
        z, log_det = (x - self.mean) / self.scale, -self.scale.log().sum().expand(len(x))
        for coupling in self.couplings:
            z, change = coupling(z)
            log_det = log_det + change
        return z, log_det

    def inverse(self, z: Tensor) -> Tensor:
        """Transform latent vectors (N, D) back to vectors (N, D)."""
        for coupling in reversed(self.couplings):
            z = coupling.inverse(z)  # type: ignore[operator]  # a ModuleList does not say what it holds
        return z * self.scale + self.mean

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute the log-density (N,) of vectors (N, D), in the flow's own precision.

        >>> Flow(2, layers=0, hidden=1).log_prob(torch.zeros(1, 2))  # minus the logarithm of 2 pi
        tensor([-1.8379])
        """
        z, log_det = self.forward(x.to(self.mean.dtype))
        return log_det - 0.5 * (z.square() + math.log(2 * math.pi)).sum(1)


def flow_of(tensors: Mapping[str, Tensor]) -> Flow:
    """Rebuild a flow from its `state_dict`; the tensors' shapes give its sizes.

    >>> flow = flow_of(Flow(5, layers=3, hidden=4).state_dict())
    >>> len(flow.mean), len(flow.couplings)
    (5, 3)
    """
    inner = [name for name in tensors if name.endswith("net.0.weight")]
    flow = Flow(len(tensors["mean"]), len(inner), len(tensors[inner[0]]) if inner else 1)
    flow.load_state_dict(dict(tensors))
    return flow


@dataclass(frozen=True)
class FlowSettings:
    """Settings of building and fitting a flow.

    Attributes:
        layers: number of coupling layers; 0 leaves a Gaussian with independent components.
        hidden: number of hidden units of each layer.
        steps: steps of Adam, with a learning rate that falls to 0 along a cosine.
        lr: learning rate at the start.
        batch: number of vectors a step.
        noise: standard deviation of the noise that is added to standardised vectors while fitting. Unit vectors lie on
            a sphere, which has no volume: without noise the flow would fit an ever thinner shell around it, and a small
            move off the shell would cost more than any shift of domain.
        held_out: share of the vectors that are held out to find the best step, which is kept; at least two are fitted.
        seed: seed of weights, batches, noise and held-out vectors.
    """

    layers: int = 6
    hidden: int = 128
    steps: int = 1000
    lr: float = 1e-3
    batch: int = 256
    noise: float = 0.1
    held_out: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        counts = {
            "layers": whole(0, MOST_LAYERS),
            "hidden": whole(1, MOST_SIZE),
            "steps": whole(0),
            "batch": whole(1),
            "seed": whole(0, MOST_BITS),
        }
        check_settings("flow", self, counts | {"lr": ABOVE_0, "noise": AT_LEAST_0, "held_out": SHARE})


def fit_flow(vectors: Tensor, settings: FlowSettings | None = None) -> Flow:
    """Fit a normalising flow on vectors of the source; equal seeds on a CPU give equal flows.

    Each component is first standardised to mean 0 and variance 1, so that one noise fits all and training starts at a
    Gaussian with the source's means and variances.

    Args:
        vectors: (N, D) vectors of the source, N and D at least 2.
        settings: settings of the fit; None for the defaults.

    Raises:
        UsageError: there are too few vectors, they are too short, or no finite numbers.
    """
    settings = settings or FlowSettings()
    _check_vectors(vectors)
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
    _descend(flow, learned, held, settings, generator)
    return flow.eval()


def _descend(flow: Flow, learned: Tensor, held: Tensor, settings: FlowSettings, generator: torch.Generator) -> None:
    """Minimise the mean negative log-likelihood of noisy vectors, and go back to the best look at those held out."""
    if not settings.layers or not settings.steps:
        return
    optimizer = torch.optim.Adam(flow.parameters(), lr=settings.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=settings.steps)
    held = _noisy(flow, held, settings.noise, generator)
    best, kept = nll_per_number(flow, held).item(), copy.deepcopy(flow.state_dict())
    for step in range(1, settings.steps + 1):
        rows = torch.randint(len(learned), (min(settings.batch, len(learned)),), generator=generator)
        batch = _noisy(flow, learned[rows.to(learned.device)], settings.noise, generator)
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
    """Loss of TTTFlow on unpaired captions and clips of the target: their negative log-likelihood by frozen flows."""

    def __init__(self, flow_text: Flow, flow_video: Flow) -> None:
        """Keep frozen copies of the flows.

        Args:
            flow_text: flow of the source's captions, by the same matcher before it is adapted.
            flow_video: flow of the source's clips.
        """
        self.flow_text = copy.deepcopy(flow_text).requires_grad_(False).eval()
        self.flow_video = copy.deepcopy(flow_video).requires_grad_(False).eval()

    def __call__(self, matcher: Matcher, text: TextBatch, video: VideoBatch) -> dict[str, Tensor]:
        """Compute `flow_text` and `flow_video`, the mean negative log-likelihood per number of the vectors.

        Args:
            matcher: matcher that adapts.
            text: at least one caption.
            video: clips, at least one; nothing says which caption describes which.

        Raises:
            UsageError: the matcher takes no features of captions, has nothing in front that could learn, or makes
                vectors of another length than the flow's.
        """
        of_text, of_video = text_vectors(matcher, text), video_vectors(matcher, video)
        check_learnable(of_text, of_video)
        return {"flow_text": _cost(self.flow_text, of_text), "flow_video": _cost(self.flow_video, of_video)}


def _cost(flow: Flow, vectors: Tensor) -> Tensor:
    if vectors.shape[1] != len(flow.mean):
        raise UsageError(
            f"The vectors have {vectors.shape[1]} numbers and the source's flow {len(flow.mean)}; prepare the source "
            "with this checkpoint."
        )
    return nll_per_number(flow.to(vectors.device), vectors)


def _noisy(flow: Flow, vectors: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    return vectors + noise * flow.scale * torch.randn(vectors.shape, generator=generator).to(vectors)


def _check_vectors(vectors: Tensor) -> None:
    if vectors.ndim != 2 or len(vectors) < 2 or vectors.shape[1] < 2:
        raise UsageError(
            f"The source's vectors have the shape {tuple(vectors.shape)}; a flow needs at least 2 vectors of at least "
            "2 numbers, and many more to say anything. Prepare with a larger split."
        )
    if not vectors.isfinite().all():
        raise UsageError("Some vectors of the source are NaN or infinite; no flow can be fitted on them.")
