"""Lengths as a shortcut for the action: in training the clips of an action have lengths of one stratum.

The noun of an action decides its stratum: of EPIC-KITCHENS-100 the two most frequent nouns have 9 % of the clips, the
two most frequent verbs 40 %, which could not be assigned to strata about as large. Nouns in a random order are assigned
to K strata of about as many training clips each, whole nouns to one stratum. The lengths of all training clips, sorted,
are cut into K strata that have just as many clips. With probability `strength` a clip gets one of the lengths of its
noun's stratum, each length once; all other clips share what is left at random. So each length of the table is given
once, at every strength.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.planted.worlds.settings import FrameShares, WorldSettings

LENGTH_WORLD = WorldSettings(harmonics=4, frame_shares=FrameShares(action=0.15))
"""Frames that tell strata of length apart, and whose actions an unbiased training finds in two of three captions. With
one harmonic a model learns shorter from longer alone, and biased lengths cost 6 points instead of 12."""


class GivenLengths(NamedTuple):
    """Lengths that were assigned to V clips, and the strata that they are from.

    Attributes:
        lengths: (V,) length of each clip.
        strata: (V,) stratum of that length, from 0 for the shortest.
    """

    lengths: Column
    strata: Indices


def noun_strata(places: Column, nouns: Indices, count: int) -> Indices:
    """Assign each noun a stratum (N,), from 0, so that strata have about as many training clips.

    Args:
        places: (N,) number of each noun by which they are ordered; strata follow that order.
        nouns: (V,) noun of each training clip.
        count: number K of strata.

    >>> noun_strata(np.array([0.5, 0.1, 0.9]), np.array([0, 1, 2, 2]), 2).tolist()
    [0, 0, 1]
    """
    ordered = np.sort(places[nouns])
    cuts = ordered[[len(ordered) * part // count for part in range(1, count)]]
    return np.searchsorted(cuts, places, side="right").astype(np.int64)


def planted_lengths(lengths: Column, strata: Indices, strength: float, rng: np.random.Generator) -> GivenLengths:
    """Permute lengths over clips so that with probability `strength` a clip has a length of its noun's stratum.

    The clips that keep to their stratum at one strength do so at every higher one.

    Args:
        lengths: (V,) lengths of the clips, in any unit.
        strata: (V,) stratum of each clip's noun, from 0.
        strength: probability, 0 to 1; at 0 lengths and actions are independent.
        rng: generator of the draws.

    Returns:
        The same lengths in another order, with their strata.
    """
    bound = rng.random(len(lengths)) < strength
    by_stratum = np.argsort(strata, kind="stable")
    places = np.empty(len(lengths), np.int64)
    for own in np.split(np.arange(len(lengths)), np.flatnonzero(np.diff(strata[by_stratum])) + 1):
        places[by_stratum[own]] = rng.permutation(own)
    free = np.flatnonzero(~bound)
    places[free] = rng.permutation(places[free])
    return GivenLengths(np.sort(lengths)[places], strata[by_stratum][places])
