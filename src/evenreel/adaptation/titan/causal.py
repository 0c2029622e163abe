"""Bias correction of TITAN (section 3.3): a network that chooses among a query's likeliest clips without source bias.

A confounder, such as a thing that is often on screen when something is done, affects both the query and the clip.
On the source, pairs are distinguished from non-pairs under the backdoor adjustment over a dictionary `c_s` of the
source's confounders (equations 8 to 11). On the target the same network, from the clip's vector with that adjustment,
learns from pseudo-labels, and what links it with the target's own confounders `c_t` is made stronger (equations 12 to
14).

It takes unit vectors (`evenreel.adaptation.vectors`), not a matcher. Where the paper leaves room:

- Inside, vectors have entries of size one (the square root of D times those of unit length): attention by products and
  a network that starts at random are made for these, and products of two unit vectors are 1 / D in size.
- `w1`, `w2`, `w4`, `w5` start as the identity and `w3` at zero; the network starts as `COSINE_SCALE` times the cosine
  of query and clip, and nothing else in it counts. So the correction begins with the order of the cosine.
- The detectors' features "initialize" the confounders; here confounders stay as they were found, and only what maps
  them learns.
- `.` in equation 10 is the element-wise product of equation 9. The softmax of equation 11 is called scaled and has no
  scale; `scaled` says whether the square root of D divides. The products of equation 13 have the same scale.
- `S_t` of equation 12 lacks its sigmoid, without which the logarithms of equation 14 have no meaning.
- Equation 13 adds confounders up without a norm; `sigmoid_mean` divides by their number.
- Nothing of `c^c` enters `S_t`: what equation 14 asks of it changes the verdict through `v` alone, which it is made of;
  without `source_debias` not at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import AT_LEAST_0, MOST_SIZE, TRUE_OR_FALSE, Allowed, check_settings, one_of, whole
from evenreel.errors import UsageError
from evenreel.losses.contrastive import gaussian_log_likelihood, info_nce_bound
from evenreel.types import FloatArray

Aggregate = Literal["sigmoid_mean", "sigmoid"]
Mutual = Literal["vid", "info_nce", "none"]

COSINE_SCALE = 5.0
"""By what the network multiplies the cosine at its start."""

INFO_NCE_TEMPERATURE = 0.1


@dataclass(frozen=True)
class CausalSettings:
    """Settings of TITAN's bias correction; each ablation is one of these.

    Attributes:
        eta: number of likeliest clips of a query that it chooses among.
        scaled: divide the products of equations 11 and 13 by the square root of D; false is as printed.
        hidden: width of the network that judges pairs; None for D.
        aggregate: how the target's confounders of a pair are combined: the mean of all, weighted by their sigmoids, or,
            as printed, the sum, which grows with the dictionary.
        lambda_mi: weight of the two terms of mutual information; 1 is as printed.
        mutual: estimator of mutual information: `vid`, `info_nce`, or `none` for no such term.
        source_debias: add the source's attended confounders to the clip; false leaves the clip as it is.
        target_amplification: whether to use the terms of mutual information at all.
        detach: pass no gradient to the vectors that the estimator predicts, so that these do not become trivial. False
            is as printed.

    Raises:
        UsageError: a value is out of its range.
    """

    eta: int = 10
    scaled: bool = True
    hidden: int | None = None
    aggregate: Aggregate = "sigmoid_mean"
    lambda_mi: float = 0.1
    mutual: Mutual = "vid"
    source_debias: bool = True
    target_amplification: bool = True
    detach: bool = True

    def __post_init__(self) -> None:
        at_least_2 = whole(2, MOST_SIZE)
        ranges = {
            "eta": whole(1),
            "scaled": TRUE_OR_FALSE,
            "hidden": Allowed(
                f"{at_least_2.words}, or null for D", lambda value: value is None or at_least_2.holds(value)
            ),
            "aggregate": one_of("sigmoid_mean", "sigmoid"),
            "lambda_mi": AT_LEAST_0,
            "mutual": one_of("vid", "info_nce", "none"),
            "source_debias": TRUE_OR_FALSE,
            "target_amplification": TRUE_OR_FALSE,
            "detach": TRUE_OR_FALSE,
        }
        check_settings("causal", self, ranges)


class CausalCorrection(nn.Module):
    """Network of the bias correction (TITAN, section 3.3), with the source's confounders.

    Args:
        dimension: length D of the vectors of queries and clips.
        source: (N_cs, d) the source's confounders `c_s`, nonzero; where d is not D, they are mapped by a learned map.
        settings: terms and sizes of the correction.

    Raises:
        UsageError: the confounders are none, or not finite.
    """

    source: Tensor

    def __init__(self, dimension: int, source: Tensor, settings: CausalSettings = CausalSettings()) -> None:
        super().__init__()
        check_rows(source)
        self.dimension = dimension
        self.settings = settings
        self.register_buffer("source", F.normalize(source, dim=-1))
        width = source.shape[1]
        self.project = nn.Identity() if width == dimension else nn.Linear(width, dimension, bias=False)
        self.w1, self.w2, self.w3, self.w4, self.w5 = (nn.Linear(dimension, dimension, bias=False) for _ in range(5))
        for layer in (self.w1, self.w2, self.w4, self.w5):
            nn.init.eye_(layer.weight)
        nn.init.zeros_(self.w3.weight)
        self.hidden = settings.hidden or dimension
        self.judge = _judge(dimension, self.hidden)
        self.tell_video, self.tell_query = (_Teller(dimension) for _ in range(2))

    def attended(self, q: Tensor, v: Tensor) -> Tensor:
        """Compute the source confounder of query-clip pairs (eq. 11): `E[g] = softmax((w1 q + w2 v) c_s^T) (w3 c_s)`.

        Args:
            q: (B, D) unit vectors of queries.
            v: (B, D) unit vectors of clips.

        Returns:
            (B, D) confounders, scaled as vectors with entries of size one.
        """
        confounders = self._entries(self.project(self.source))
        asked = self.w1(self._entries(q)) + self.w2(self._entries(v))
        weights = (asked @ confounders.T * self._scale).softmax(-1)
        found: Tensor = weights @ self.w3(confounders)
        return found

    def clips(self, q: Tensor, v: Tensor) -> Tensor:
        """Compute clips with their source confounder, `v + E[g]` (B, D); without `source_debias`, `v` alone.

        Args:
            q: (B, D) unit vectors of queries.
            v: (B, D) unit vectors of clips.
        """
        entries = self._entries(v)
        return entries + self.attended(q, v) if self.settings.source_debias else entries

    def source_logits(self, q: Tensor, v: Tensor) -> Tensor:
        """Compute the logits (B,) of pairs in the source stage, `MLP((v + E[g]) * q)` (equation 10).

        Args:
            q: (B, D) unit vectors of queries.
            v: (B, D) unit vectors of clips.
        """
        return self.verdict(q, self.clips(q, v))

    def target_logits(self, q: Tensor, v: Tensor) -> Tensor:
        """Compute the logits (B,) of pairs in the target stage, `MLP(v * q)` with `v <- v' + E[g]` (equation 12).

        It is the source's formula with trained weights: the stages differ in labels and loss terms alone.

        Args:
            q: (B, D) unit vectors of queries.
            v: (B, D) unit vectors of clips.
        """
        return self.source_logits(q, v)

    def verdict(self, q: Tensor, clips: Tensor) -> Tensor:
        """Compute the logits (B,) of pairs of unit queries (B, D) and clips (B, D) as `clips` returns them."""
        logits: Tensor = self.judge(clips * self._entries(q))
        return logits.squeeze(-1)

    def target_confounder(self, q: Tensor, v: Tensor, confounders: Tensor) -> Tensor:
        """Compute the target confounder of query-clip pairs (eq. 13): `c^c = sigmoid((w4 v + w5 q) c_t^T) c_t`.

        Args:
            q: (B, D) unit vectors of queries.
            v: (B, D) unit vectors of clips.
            confounders: (N_ct, d) the target's confounders `c_t`, of the length of the source's.

        Returns:
            (B, D) confounders, scaled as vectors with entries of size one.

        Raises:
            UsageError: the confounders are not of that length.
        """
        return self._confounder(q, self.clips(q, v), confounders)

    def target_terms(self, q: Tensor, v: Tensor, labels: Tensor, confounders: Tensor) -> dict[str, Tensor]:
        """Compute the loss terms of the target stage (equation 14), each with its weight.

        Args:
            q: (B, D) unit vectors of queries.
            v: (B, D) unit vectors of clips.
            labels: (B,) 1 where the clip is the query's pseudo clip, 0 elsewhere.
            confounders: (N_ct, d) the target's confounders `c_t`.

        Returns:
            `match`, the binary cross-entropy, and, unless it is switched off, `video_information` and
            `query_information`.
        """
        clips = self.clips(q, v)
        terms = {"match": F.binary_cross_entropy_with_logits(self.verdict(q, clips), labels)}
        settings = self.settings
        if settings.target_amplification and settings.mutual != "none" and settings.lambda_mi:
            found = self._confounder(q, clips, confounders)
            sides = (("video", self.tell_video, clips), ("query", self.tell_query, self._entries(q)))
            for name, teller, values in sides:
                told = values.detach() if settings.detach else values
                terms[f"{name}_information"] = -settings.lambda_mi * _information(told, found, teller, settings.mutual)
        return terms

    def _confounder(self, q: Tensor, clips: Tensor, confounders: Tensor) -> Tensor:
        check_length(confounders, self.source)
        target = self._entries(self.project(F.normalize(confounders, dim=-1)))
        asked = self.w4(clips) + self.w5(self._entries(q))
        found: Tensor = (asked @ target.T * self._scale).sigmoid() @ target
        return found / len(target) if self.settings.aggregate == "sigmoid_mean" else found

    @property
    def _scale(self) -> float:
        return 1 / math.sqrt(self.dimension) if self.settings.scaled else 1.0

    def _entries(self, rows: Tensor) -> Tensor:
        """(..., D) of length sqrt(D)."""
        return math.sqrt(self.dimension) * F.normalize(rows, dim=-1)


class _Teller(nn.Module):
    """`q(t | c)`: a Gaussian with a mean made of `c` and a learned variance for each dimension, 1 at the start."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(dimension, dimension), nn.ReLU(), nn.Linear(dimension, dimension))
        self.raw_variance = nn.Parameter(torch.full((dimension,), math.log(math.e - 1)))


def _information(values: Tensor, found: Tensor, teller: _Teller, mutual: Mutual) -> Tensor:
    """A bound on `I(values; found)`, in nats a dimension (`vid`, without the entropy of the values) or in nats."""
    if mutual == "vid":
        return gaussian_log_likelihood(values, teller.mean(found), teller.raw_variance)
    cosines = F.normalize(values, dim=-1) @ F.normalize(found, dim=-1).T
    value = torch.unique(values.detach(), dim=0, return_inverse=True)[1]  # a query stands in a batch with two clips
    return info_nce_bound(cosines / INFO_NCE_TEMPERATURE, value[:, None] == value)


def _judge(dimension: int, hidden: int) -> nn.Sequential:
    """(B, D) -> (B, 1), a network with one layer between, which starts as `COSINE_SCALE` times the mean of its input.

    Two of its units have the mean and what it lacks of zero; the others start at random and count for nothing yet.
    """
    first, last = nn.Linear(dimension, hidden), nn.Linear(hidden, 1)
    with torch.no_grad():
        first.weight[:2] = torch.tensor([[1.0], [-1.0]]) / dimension
        first.bias[:2] = 0.0
        nn.init.zeros_(last.weight)
        last.weight[0, :2] = torch.tensor([COSINE_SCALE, -COSINE_SCALE])
        nn.init.zeros_(last.bias)
    return nn.Sequential(first, nn.ReLU(), last)


def check_length(target: Tensor | FloatArray, source: Tensor) -> None:
    """Check that the target's confounders (N_ct, d) are as long as the source's.

    Raises:
        UsageError: the lengths differ.
    """
    if target.shape[-1] != source.shape[1]:
        raise UsageError(
            f"The target's confounders have {target.shape[-1]:,} numbers each and the source's {source.shape[1]:,}; "
            "take both by one method and one encoder."
        )


def check_rows(confounders: Tensor) -> None:
    """Check that confounders are a table (N, d) of finite nonzero vectors.

    Raises:
        UsageError: the table is empty or of another form, or a row is zero or not finite.
    """
    if confounders.dim() != 2 or not confounders.numel():
        raise UsageError(
            f"Confounders are a table of N rows of d numbers; these have the shape {tuple(confounders.shape)}."
        )
    usable = confounders.isfinite().all(1) & (confounders.abs().amax(1) > 0)
    if not usable.all():
        row = int((~usable).nonzero()[0])
        raise UsageError(f"Row {row} of the confounders is zero or not all numbers; leave it out.")
