"""Training of TITAN's bias correction in two stages, and its choice among candidates (MM 2023, 3.3.1 and 3.3.2).

The matcher is frozen in both: it has made the vectors, and only the correction learns. The paper says neither where
unmatched pairs of the source come from nor how many there are: here each pair brings one, its caption with a clip of
the batch that it does not describe. On the target, the pseudo clip of each query is the match, and one of its other
candidates, drawn anew each time, is none.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor
from torch.nn import functional as F

from evenreel.adaptation.settings import Decides, FitSettings
from evenreel.adaptation.titan.causal import CausalCorrection, CausalSettings
from evenreel.arrays import Indices
from evenreel.errors import UsageError
from evenreel.progress import Progress
from evenreel.training.batches import Pairs

CHUNK_BYTES = 64 * 2**20
"""About what judging pairs takes at a time, beside the vectors."""

MEASURED_PAIRS = 4096
"""Pairs that what was learned is measured on."""


class PairAccuracy(NamedTuple):
    """Accuracy with which the correction distinguishes pairs of a caption and its clip from others.

    Attributes:
        bce: binary cross-entropy, half of it of pairs and half of others.
        accuracy: share of both that is judged correctly, with equal weight; 0.5 by chance.
        pairs: number of pairs of a caption and its clip; there are as many others.
    """

    bce: float
    accuracy: float
    pairs: int


class Chosen(NamedTuple):
    """Clips that the bias correction chooses for N queries.

    Attributes:
        columns: (N,) index of each query's clip in the gallery.
        probabilities: (N,) probability `S_t` of each chosen clip.
    """

    columns: Indices
    probabilities: NDArray[np.float64]


class CorrectionRecall(NamedTuple):
    """Share of captions, 0 to 1, whose own clip comes first, by cosine and by the bias correction.

    Attributes:
        cosine: share of captions whose nearest clip is their own.
        corrected: share of captions whose own clip the correction prefers among the nearest `eta`.
        captions: number of captions.
    """

    cosine: float
    corrected: float
    captions: int


def new_correction(dimension: int, source: Tensor, settings: CausalSettings, seed: int) -> CausalCorrection:
    """Make an untrained bias correction; equal seeds give equal weights.

    Args:
        dimension: length D of the vectors of queries and clips.
        source: (N_cs, d) confounders of the source.
        settings: terms and sizes of the correction.
        seed: seed of the weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return CausalCorrection(dimension, source, settings)


def fit_source(
    correction: CausalCorrection,
    q: Tensor,
    v: Tensor,
    pairs: Pairs,
    settings: FitSettings,
    progress: Progress = lambda share: None,
) -> dict[str, float]:
    """Train the source stage of the bias correction in place: tell a caption's clip from others (equations 8 to 11).

    Args:
        correction: correction to train, on the device of the vectors.
        q: (Q, D) unit vectors of the source's captions.
        v: (V, D) unit vectors of its clips.
        pairs: pairs of caption and clip, as rows of both.
        settings: settings of the fit.
        progress: called with the share that is done.

    Returns:
        Binary cross-entropies `bce_start` and `bce_end` on the same sample of pairs, and the number of `steps`.

    Raises:
        UsageError: no caption has a clip that it does not describe.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    before = pair_accuracy(correction, q, v, pairs, settings.seed)
    optimiser = torch.optim.Adam(correction.parameters(), settings.lr)
    batches = _batches(len(pairs), settings.batch_size, generator)
    for step in range(settings.steps):
        queries, clips, labels = _source_batch(pairs, next(batches), generator)
        loss = F.binary_cross_entropy_with_logits(correction.source_logits(q[queries], v[clips]), labels.to(q))
        _step(optimiser, loss)
        progress((step + 1) / settings.steps)
    after = pair_accuracy(correction, q, v, pairs, settings.seed)
    return {"bce_start": before.bce, "bce_end": after.bce, "steps": float(settings.steps)}


class TargetStage:
    """Target stage of the bias correction: a copy of the source's that is trained on a stream's pseudo-labels.

    Adam's moments and random numbers continue from call to call, so that a stream in batches is trained on as one.

    Args:
        source: the correction after its source stage; it stays as it is.
        confounders: (N_ct, d) confounders of the target's clips.
        settings: settings of the copy's training.
    """

    def __init__(self, source: CausalCorrection, confounders: Tensor, settings: FitSettings) -> None:
        self.correction = copy.deepcopy(source)
        self._confounders, self._settings = confounders, settings
        self._optimiser = torch.optim.Adam(self.correction.parameters(), settings.lr)
        self._generator = torch.Generator().manual_seed(settings.seed)

    def learn(self, q: Tensor, v: Tensor, candidates: Indices) -> dict[str, float]:
        """Train on pseudo-labels and the target's confounders (equations 12 to 14).

        Args:
            q: (N, D) unit vectors of queries, on the device of the correction.
            v: (V, D) unit vectors of clips.
            candidates: (N, eta) likeliest clips of each query, each once, its pseudo clip first.

        Returns:
            The terms of the first step and of the last, `match_start`, `match_end` and so on; empty where no query has
            a second candidate, or no step was asked for.
        """
        if not len(candidates) or candidates.shape[1] < 2:
            return {}
        places, confounders = torch.from_numpy(candidates), self._confounders.to(q)
        batches = _batches(len(candidates), self._settings.batch_size, self._generator)
        figures: dict[str, float] = {}
        for step in range(last := self._settings.steps):
            rows = next(batches)
            others = torch.randint(1, places.shape[1], rows.shape, generator=self._generator)
            clips = torch.cat([places[rows, 0], places[rows, others]])
            labels = torch.cat([torch.ones(len(rows)), torch.zeros(len(rows))]).to(q)
            terms = self.correction.target_terms(q[rows.repeat(2)], v[clips], labels, confounders)
            _step(self._optimiser, torch.stack(list(terms.values())).sum())
            ends = [name for name, at in (("start", 0), ("end", last - 1)) if step == at]
            figures |= {f"{name}_{end}": term.item() for end in ends for name, term in terms.items()}
        return figures


def choose(
    correction: CausalCorrection, q: Tensor, v: Tensor, candidates: Indices, decides: Decides = "correction"
) -> Chosen:
    """Choose one of each query's candidate clips by the bias correction, the first of equal ones.

    Args:
        correction: bias correction, usually after both stages.
        q: (N, D) unit vectors of queries.
        v: (V, D) vectors of clips.
        candidates: (N, eta) clips of each query, the likeliest first.
        decides: `correction`, the one with the largest `S_t` (section 3.3.2); `ranks`, the one with the least sum of
            its rank by `S_t` and its place among the candidates, so that the matcher's ranking counts too.
    """
    return chosen(judged(correction, q, v, candidates), candidates, decides)


def chosen(logits: NDArray[np.float64], candidates: Indices, decides: Decides) -> Chosen:
    """Choose one of each query's candidate clips by logits, the first of equal ones.

    Args:
        logits: (N, eta) logits of the candidates.
        candidates: (N, eta) clips of each query, the likeliest first.
        decides: `correction` or `ranks`, see `choose`.
    """
    if decides == "ranks":
        first = (rankdata(-logits, axis=1) + np.arange(candidates.shape[1])).argmin(1)
    else:
        first = logits.argmax(1)  # numpy's takes the first of equals
    rows = np.arange(len(candidates))
    return Chosen(candidates[rows, first], _sigmoid(logits[rows, first]))


def label_rank(logits: NDArray[np.float64]) -> float:
    """Compute the mean rank of the first candidate of each row by logits (N, eta), from 1; ties share their rank.

    >>> label_rank(np.array([[0.1, 0.9, 0.1], [2.0, 1.0, 0.0]]))
    1.75
    """
    return float(rankdata(-logits, axis=1)[:, 0].mean())


def judged(correction: CausalCorrection, q: Tensor, v: Tensor, candidates: Indices) -> NDArray[np.float64]:
    """Compute the bias correction's logits (N, eta) of queries with their candidate clips, some pairs at a time.

    Args:
        correction: bias correction.
        q: (N, D) unit vectors of queries.
        v: (V, D) vectors of clips.
        candidates: (N, eta) clips of each query.
    """
    eta = candidates.shape[1]
    numbers = len(correction.source) + 8 * correction.dimension + correction.hidden
    size = max(1, CHUNK_BYTES // (q.element_size() * numbers))
    queries, clips = torch.arange(len(candidates)).repeat_interleave(eta), torch.from_numpy(candidates).flatten()
    with torch.no_grad():
        parts = [
            correction.target_logits(q[queries[start : start + size]], v[clips[start : start + size]]).cpu().double()
            for start in range(0, len(clips), size)
        ]
    logits = torch.cat(parts) if parts else torch.empty(0, dtype=torch.float64)
    return logits.reshape(len(candidates), eta).numpy()


def pair_accuracy(
    correction: CausalCorrection, q: Tensor, v: Tensor, pairs: Pairs, seed: int = 0, of: str = "source"
) -> PairAccuracy:
    """Measure how well the bias correction tells pairs of a caption and its clip from others, on a random sample.

    Args:
        correction: bias correction.
        q: (Q, D) unit vectors of captions.
        v: (V, D) unit vectors of clips.
        pairs: pairs of caption and clip, as rows of both.
        seed: seed of the sample.
        of: origin of the pairs, for errors.

    Raises:
        UsageError: no caption has a clip that it does not describe.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(pairs), generator=generator)[:MEASURED_PAIRS]
    logits, labels = [], []
    for part in torch.split(rows, 256):  # among so many, as in training, the other clip is drawn
        queries, clips, truth = _source_batch(pairs, part, generator)
        with torch.no_grad():
            logits.append(correction.source_logits(q[queries], v[clips]).cpu().double())
        labels.append(truth.double())
    found, truth = torch.cat(logits), torch.cat(labels)
    if not (truth == 0).any():
        raise UsageError(
            f"In the {of} every caption describes every clip, or there is one clip, so pairs cannot be told from "
            "others; take one of several clips."
        )
    weights = torch.where(truth > 0, 0.5 / (truth > 0).sum(), 0.5 / (truth == 0).sum())
    bce = (weights * F.binary_cross_entropy_with_logits(found, truth, reduction="none")).sum()
    right = (weights * ((found > 0) == (truth > 0))).sum()
    return PairAccuracy(bce.item(), right.item(), len(rows))


def correction_recall(correction: CausalCorrection, q: Tensor, v: Tensor, pairs: Pairs) -> CorrectionRecall:
    """Compute how often a caption's own clip is its nearest by cosine, and how often the bias correction chooses it."""
    rows = np.arange(len(pairs))[:MEASURED_PAIRS]
    asked, eta = q[torch.from_numpy(pairs.captions[rows])], min(correction.settings.eta, len(v))
    size = max(1, CHUNK_BYTES // (16 * len(v)))  # cosines, sorted cosines and 8 bytes for the place of each
    with torch.no_grad():
        parts = [_nearest(some, v, eta) for some in torch.split(asked, size)]
    candidates = torch.cat(parts).cpu().numpy()
    corrected = choose(correction, asked, v, candidates).columns
    own = pairs.clips[rows]
    return CorrectionRecall(float((candidates[:, 0] == own).mean()), float((corrected == own).mean()), len(rows))


def _nearest(q: Tensor, v: Tensor, count: int) -> Tensor:
    """(Q, count) the clips of the largest cosine, of equal ones the first; without what else was sorted."""
    return (q @ v.T).sort(dim=1, descending=True, stable=True).indices[:, :count].clone()


def _source_batch(pairs: Pairs, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Captions, clips and labels (N,) of some pairs, then of as many others as can be drawn among them."""
    taken = rows.numpy()
    queries, clips = torch.from_numpy(pairs.captions[taken]), torch.from_numpy(pairs.clips[taken])
    others = ~pairs.same(taken)
    some = others.any(1)
    if not some.any():
        return queries, clips, torch.ones(len(rows))
    drawn = torch.multinomial(others[some].float(), 1, generator=generator).squeeze(1)
    labels = torch.cat([torch.ones(len(rows)), torch.zeros(len(drawn))])
    return torch.cat([queries, queries[some]]), torch.cat([clips, clips[drawn]]), labels


def _batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Rows without end, each once before any comes again; what does not fill a batch is left out of its round."""
    size = min(size, count)
    while True:
        order = torch.randperm(count, generator=generator)
        yield from torch.split(order[: count // size * size], size)


def _step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import expit

    found: NDArray[np.float64] = expit(logits)
    return found
