"""Permutation of a clip property, such as length, to test whether first places follow it, with hubs held fixed.

The share of first places that long clips, or generated ones, take is a sum over clips of how often each is shown times
its property. A few hubs have some length and some source by accident, and every query repeats that accident: samples of
queries would call it a preference. Permuting the property over clips, with how often each is shown held fixed (Pitman
1937), is another accident of the same kind, whatever the hubs.

Queries may also differ in what they favour, one long clips and another short ones. Permuted properties have none of
that, so the variance of the queries' figures beyond that with permuted properties is added, and intervals from such
samples (`evenreel.audits.statistics.inversion`) are over queries and clips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.audits.settings import AuditSettings
from evenreel.evaluation.intervals import GroupedMean

BOTH = "captions and clips"
"""What such intervals are over."""

PROBES = 20
"""Permutations of which the figure of each single query is looked at."""

_CHUNK_BYTES = 32 * 2**20


@dataclass(frozen=True, eq=False)
class ClipProperty:
    """A property of V clips, such as length, with the strata and clusters within which it may be permuted.

    Values are permuted within strata. Where clusters have several clips, the deviations from the mean of the stratum
    are permuted by cluster: their cluster means are permuted among clusters, and deviations from those means change
    sign, for a whole cluster at once, since clips of one video may be ranked alike (Cameron, Gelbach and Miller 2008).

    Attributes:
        values: (V,) value of each clip.
        strata: (V,) stratum of each clip, within which values are permuted.
        cluster: (V,) cluster of each clip, such as its video.
        order: (V,) indices of the clips in a fixed order, so that the same clips are permuted in the same way whatever
            their order in the scores.
    """

    values: Column
    strata: Indices
    cluster: Indices
    order: Indices

    def permuted(self, samples: int, seed: int) -> Iterator[Column]:
        """Yield permutations of the clips' values, (b, V) at a time, `samples` in all."""
        generator = np.random.default_rng(seed)
        step = max(1, _CHUNK_BYTES // (8 * max(len(self.values), 1)))
        for start in range(0, samples, step):
            yield self._draw(min(step, samples - start), generator)

    def probes(self, seed: int) -> Column:
        """Draw `PROBES` permutations of the clips' values, (P, V), for the figures of every query by chance."""
        return np.concatenate([*self.permuted(PROBES, seed)])

    def sums(self, weights: Column, settings: AuditSettings) -> Column:
        """Compute the sum over clips of weights (V,) times values (1 + B,): as measured, then for B permutations.

        With one cluster B is 0.
        """
        # Clusters differ in size, so what is permuted is how far a weight is from the mean weight.
        base, apart = weights.mean() * self.values.sum(), weights - weights.mean()
        samples = settings.resamples if len(np.unique(self.cluster)) > 1 else 0
        drawn = [base + values @ apart for values in self.permuted(samples, settings.seed)]
        return np.concatenate([[weights @ self.values], *drawn])

    def _draw(self, samples: int, generator: np.random.Generator) -> Column:
        values, cluster = self.values[self.order], self.cluster[self.order]
        member = np.unique(cluster, return_inverse=True)[1]
        sizes: Column = np.bincount(member).astype(np.float64)
        found = np.empty((samples, len(values)))
        if sizes.max(initial=1) == 1:
            found[:, self.order] = _within(values, self.strata[self.order], samples, generator)
            return found
        kind = np.unique(self.strata[self.order], return_inverse=True)[1]
        expected = (np.bincount(kind, values) / np.bincount(kind))[kind]
        means: Column = np.bincount(member, values - expected) / sizes
        among = _within(means, np.zeros(len(means), np.int64), samples, generator)
        signs = generator.choice([-1.0, 1.0], (samples, len(means)))
        beyond = values - expected - means[member]
        found[:, self.order] = expected + among[:, member] + signs[:, member] * beyond
        return found


def queries_part(own: Column, probes: Column, groups: Indices) -> float:
    """Estimate the part of the variance of a mean over queries that is due to differences between queries.

    Args:
        own: (Q,) figure of each query, NaN where it has none.
        probes: (Q, P) figure of each query with permuted properties.
        groups: (Q,) group of each query; queries of one are resampled together.

    Returns:
        Variance over groups, less that with permuted properties; at least 0.
    """
    known = ~np.isnan(own)
    if len(np.unique(groups[known])) < 2:
        return 0.0
    variances = [GroupedMean.of(column[known], groups[known]).variance for column in (own, *probes.T)]
    return max(0.0, variances[0] - float(np.mean(variances[1:])))


def widened(drawn: Column, neutral: float, part: float) -> Column:
    """Scale the samples of a figure away from its neutral value, so that their variance grows by `part`.

    Args:
        drawn: (1 + B,) the figure as measured, which stays, then in B samples.
        neutral: value without a preference.
        part: variance to add.

    >>> widened(np.array([7.0, -1.0, 1.0, -1.0, 1.0]), 0.0, 3.0).tolist()
    [7.0, -2.0, 2.0, -2.0, 2.0]
    """
    apart = drawn[1:] - neutral
    variance = float((apart**2).mean()) if len(apart) else 0.0
    scale = (1 + part / variance) ** 0.5 if variance else 1.0
    return np.concatenate([drawn[:1], neutral + scale * apart])


def _within(values: Column, strata: Indices, samples: int, generator: np.random.Generator) -> Column:
    """(b, V) values permuted within strata."""
    found = np.tile(values, (samples, 1))
    order = np.argsort(strata, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(strata[order])) + 1):
        if len(own) > 1:
            found[:, own] = generator.permuted(found[:, own], axis=1)
    return found
