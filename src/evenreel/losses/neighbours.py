"""Losses against hubs in training: NeighborRetr (arXiv 2503.10526), sections 4.2 to 4.5.

A hub is an item that many queries find among their nearest ones, mostly wrongly; its centrality is how near it lies to
all others on average. The whole loss is `L_Wti + L_Nbi + L_Opt + L_KL`, each the mean of both directions. The functions
here are of one direction: rows are queries, columns are items, a pair is on the diagonal, and the other direction is
that of the transposed table. Items that a query also describes (`same`) are neither negatives nor neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.errors import UsageError

LOWEST = torch.finfo(torch.float32).min


def sample_centrality(vectors: Tensor, others: Tensor) -> Tensor:
    """Compute the centrality of samples within their own modality, the mean cosine to others (section 4.2).

    Args:
        vectors: (N, D) vectors of any length; one of zeros has a centrality of 0.
        others: (M, D) vectors of the same kind, M at least 1.

    Returns:
        (N,) numbers between -1 and 1 in float32.

    >>> sample_centrality(torch.eye(2), torch.eye(2)).tolist()
    [0.5, 0.5]
    """
    return F.normalize(vectors.float(), dim=-1) @ F.normalize(others.float(), dim=-1).mean(dim=0)


def centrality_weighting(scores: Tensor, same: Tensor, weights: Tensor, logit_scale: Tensor | float = 1.0) -> Tensor:
    """Compute `L_Wti` of one direction, InfoNCE in which each query has a weight (equation 4).

    The paper's weights are `exp(kappa * sample_centrality)` (equation 3).

    Args:
        scores: (B, B) similarities.
        same: (B, B) True where the query of a row describes the item of a column.
        weights: (B,) weight of each query.
        logit_scale: factor on the similarities.

    >>> centrality_weighting(torch.zeros(2, 2), torch.eye(2) > 0, torch.tensor([1.0, 3.0])).item() / 2  # log 2
    0.6931471824645996
    """
    diagonal = torch.arange(len(scores), device=scores.device)
    logits = (scores.float() * logit_scale).masked_fill(_others(same), float("-inf"))
    return (weights * F.cross_entropy(logits, diagonal, reduction="none")).mean()


def neighbour_adjusting(
    scores: Tensor, centrality: Tensor, same: Tensor, neighbours: int = 20, sharpness: float = 3.0
) -> Tensor:
    """Compute `L_Nbi` of one direction, which keeps good neighbours near and pushes bad hubs away (equations 5 to 8).

    The k nearest items of each query but its own share a weight of 1, by a softmax of what they are nearer to the query
    than their centrality explains; the query's own item has a weight of 1 too. The loss is the cross entropy of these
    weights and the softmax of the similarities over the same k + 1 items. Similarity and centrality are each brought to
    the range 0 to 1 of the items beyond the neighbours, as the published code does; where none are beyond, to that of
    all, and where all are equal, to 0.

    Args:
        scores: (B, B) similarities, as they are: the paper has no temperature here.
        centrality: (B,) mean similarity of each item to the queries of a memory bank.
        same: (B, B) True where the query of a row describes the item of a column.
        neighbours: number k of neighbours, at least 1; where a row has fewer candidates, these.
        sharpness: factor before the softmax that makes the weights.

    Raises:
        UsageError: `neighbours` is below 1, or there are not as many centralities as items.
    """
    if neighbours < 1:
        raise UsageError(f"neighbours is {neighbours}; a query needs at least 1 neighbour.")
    if centrality.shape != scores.shape[1:]:
        raise UsageError(f"There are {len(centrality):,} centralities for {scores.shape[1]:,} items; give one each.")
    scores = scores.float()
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    candidates = ~(same | own)
    near = _nearest(scores, candidates, neighbours)
    beyond = candidates & ~near
    beyond = torch.where(beyond.any(dim=1, keepdim=True), beyond, candidates)
    excess = _in_range(scores, beyond) - _in_range(centrality.float().expand_as(scores), beyond)
    shares = (sharpness * excess).masked_fill(~near, LOWEST).softmax(dim=1)
    weights = torch.where(near, shares, own.float())
    compared = near | own
    log_shares = scores.masked_fill(~compared, float("-inf")).log_softmax(dim=1).masked_fill(~compared, 0.0)
    return (-(weights * log_shares).sum(dim=1) / weights.sum(dim=1)).mean()


def transport_plan(scores: Tensor, temperature: float = 0.1, iterations: int = 50) -> Tensor:
    """Compute the entropic optimal transport of B queries to B items with equal shares each (equation 10).

    Sinkhorn's iterations in logarithms. No gradient passes through the plan.

    Args:
        scores: (B, B) similarities; `-inf` where nothing may be transported, never on the diagonal.
        temperature: strength of the entropy, in the unit of the similarities.
        iterations: number of times that rows and then columns are brought to their shares.

    Returns:
        (B, B) plan times B, so that rows and columns have a sum of 1 each where the iterations have converged.

    >>> transport_plan(torch.zeros(2, 2)).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    with torch.no_grad():
        logits = scores.float() / temperature
        rows, columns = logits.new_zeros(len(logits)), logits.new_zeros(len(logits))
        for _ in range(iterations):
            rows = -(logits + columns).logsumexp(dim=1)
            columns = -(logits + rows[:, None]).logsumexp(dim=0)
        return (logits + rows[:, None] + columns).exp()


def uniform_regularisation(
    scores: Tensor, same: Tensor, plan: Tensor, beta: float = 0.7, logit_scale: Tensor | float = 1.0
) -> Tensor:
    """Compute `L_Opt` of one direction, by which items that nobody finds are found as often as others (section 4.4).

    It is the cross entropy of `beta * plan + (1 - beta) * identity` and the softmax of the similarities.

    Args:
        scores: (B, B) similarities.
        same: (B, B) True where the query of a row describes the item of a column.
        plan: (B, B) as `transport_plan` gives it; 0 wherever `same` is True beside the diagonal.
        beta: share of the plan in the target, 0 to 1.
        logit_scale: factor on the similarities.

    >>> round(uniform_regularisation(torch.zeros(4, 4), torch.eye(4) > 0, torch.full((4, 4), 0.25)).item(), 4)
    1.3863
    """
    others = _others(same)
    logits = (scores.float() * logit_scale).masked_fill(others, float("-inf"))
    target = beta * plan + (1 - beta) * torch.eye(len(scores), device=scores.device)
    return -(target * logits.log_softmax(dim=1).masked_fill(others, 0.0)).sum(dim=1).mean()


def level_divergence(coarse: Tensor, fine: Tensor, same: Tensor) -> Tensor:
    """Compute `L_KL` of one direction, how far coarse similarities rank other than fine ones (equation 15).

    It is the divergence KL(fine || coarse) of the softmaxes, as a mean over all B * B pairs as in the published code:
    a B-th of the mean over queries.

    Args:
        coarse: (B, B) logits of whole captions and videos.
        fine: (B, B) logits of the matcher.
        same: (B, B) True where the query of a row describes the item of a column.

    >>> level_divergence(torch.eye(3), torch.eye(3), torch.eye(3) > 0).item()
    0.0
    """
    others = _others(same)
    logs = [one.float().masked_fill(others, float("-inf")).log_softmax(dim=1) for one in (coarse, fine)]
    shared, wanted = (one.masked_fill(others, 0.0) for one in logs)
    return (wanted.exp().masked_fill(others, 0.0) * (wanted - shared)).mean()


def _others(same: Tensor) -> Tensor:
    """Items that a query describes beside its own."""
    return same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)


def _nearest(scores: Tensor, candidates: Tensor, count: int) -> Tensor:
    """(B, B) True for the nearest candidates of each row, at most so many."""
    kept = min(count, scores.shape[1])
    best = scores.masked_fill(~candidates, float("-inf")).topk(kept, dim=1).indices
    return torch.zeros_like(candidates).scatter_(1, best, value=True) & candidates


def _in_range(values: Tensor, among: Tensor) -> Tensor:
    """Values (B, B) on the scale of each row on which the least of some columns is 0 and the most is 1."""
    least = values.masked_fill(~among, float("inf")).amin(dim=1, keepdim=True)
    span = values.masked_fill(~among, float("-inf")).amax(dim=1, keepdim=True) - least
    spread = span > 0  # not where all are equal, nor where there is none, whose span is -inf
    return ((values - least.masked_fill(~spread, 0.0)) / span.masked_fill(~spread, 1.0)).masked_fill(~spread, 0.0)
