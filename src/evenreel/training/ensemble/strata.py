"""Division of training clips into strata by length, for members that each train on one stratum (frame-length bias).

(The paper on frame-length bias, section 3: the backdoor adjustment cuts what a clip's length says of its content.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.corpus.actions import Unit, clip_lengths
from evenreel.debias.strata import adjusted_strata, equal_strata, random_strata, strata_at
from evenreel.errors import UsageError
from evenreel.training.data.pairs import Pairs
from evenreel.training.recipe import Members
from evenreel.types import Corpus

NONE = -1
"""Stratum of a clip that no caption is learned with."""


class ClipLengths(NamedTuple):
    """Lengths of V clips, in frames or seconds.

    Attributes:
        values: (V,) lengths; NaN where not known.
        unit: unit of the values.
    """

    values: NDArray[np.float64]
    unit: Unit


@dataclass(frozen=True)
class Stratum:
    """Counts and lengths of the training clips in one stratum (range of lengths).

    Attributes:
        number: number of the stratum, from 1.
        clips: number of clips.
        captions: number of their captions.
        shortest: length of the shortest clip.
        longest: length of the longest clip.
        unit: unit of both lengths, frames or seconds.
    """

    number: int
    clips: int
    captions: int
    shortest: float
    longest: float
    unit: Unit

    def __str__(self) -> str:
        return f"{self.clips:,} clips of {self.shortest:g} to {self.longest:g} {self.unit}, {self.captions:,} captions"


def lengths_of(corpus: Corpus, clip_ids: Sequence[str]) -> ClipLengths:
    """Return the lengths of clips of a corpus, in the order of their ids."""
    values, unit = clip_lengths(corpus)
    place = {clip_id: row for row, clip_id in enumerate(corpus.clips["clip_id"])}
    return ClipLengths(values[[place[clip_id] for clip_id in clip_ids]], unit)


def divided(pairs: Pairs, lengths: ClipLengths, members: Members, seed: int) -> Indices:
    """Divide clips into strata by their length: the stratum (V,) of each, from 0; `NONE` for a clip without captions.

    Raises:
        UsageError: a stratum would be empty, all clips have one length, or that of a clip is not known.
    """
    clips = np.unique(pairs.clips)
    values = lengths.values[clips]
    _check_divisible(values, lengths.unit)
    numbers = np.full(len(pairs.clip_ids), NONE, np.int64)
    for number, rows in enumerate(_strata(values, members, seed)):
        numbers[clips[rows]] = number
    return numbers


def known(lengths: ClipLengths | None) -> ClipLengths:
    """Check that the lengths of clips are given, and return them.

    Raises:
        UsageError: lengths is None.
    """
    if lengths is None:
        raise UsageError("Members by length need the lengths of the clips: give the material its lengths.")
    return lengths


def described(pairs: Pairs, lengths: ClipLengths, strata: Indices) -> tuple[Stratum, ...]:
    """Return the counts and lengths of each stratum.

    Args:
        pairs: pairs of the training split.
        lengths: lengths of the V clips of its table.
        strata: (V,) stratum of each clip, as `divided` returns.
    """
    return tuple(_described(pairs, lengths, strata, number) for number in range(int(strata.max()) + 1))


def taken(pairs: Pairs, kept: NDArray[np.bool_]) -> Pairs:
    """Select the pairs that a mask (P,) marks; the tables of captions and clips stay as they are."""
    return replace(
        pairs,
        captions=pairs.captions[kept],
        clips=pairs.clips[kept],
        texts=pairs.texts[kept],
        sentences=tuple(compress(pairs.sentences, kept)),
        weights=None if pairs.weights is None else pairs.weights[kept],
    )


def _described(pairs: Pairs, lengths: ClipLengths, strata: Indices, number: int) -> Stratum:
    own = lengths.values[strata == number]
    captions = int(np.count_nonzero(strata[pairs.clips] == number))
    return Stratum(number + 1, len(own), captions, float(own.min()), float(own.max()), lengths.unit)


def _check_divisible(lengths: NDArray[np.float64], unit: Unit) -> None:
    if unknown := int(np.count_nonzero(~np.isfinite(lengths))):
        raise UsageError(
            f"The length of {unknown:,} of {len(lengths):,} training clips is not known, and members are divided by "
            "it: give the corpus frame_count, or start_s and end_s, of all clips; or set members.by to seed."
        )
    if lengths.min() == lengths.max():
        raise UsageError(
            f"All {len(lengths):,} training clips are {lengths[0]:g} {unit} long, so length divides nothing: set "
            "members.by to seed, or members to null."
        )


def _strata(lengths: NDArray[np.float64], members: Members, seed: int) -> list[Indices]:
    if members.split == "random":
        return random_strata(len(lengths), members.count, seed, members.fraction)
    if members.split == "equal":
        return equal_strata(lengths, members.count)
    if members.split == "thresholds":
        return strata_at(lengths, members.thresholds)
    fraction = _at_the_mean(lengths, members) if members.fraction is None else members.fraction
    return adjusted_strata(lengths, members.count, fraction, longest_first=members.longest_first)


def _at_the_mean(lengths: NDArray[np.float64], members: Members) -> float:
    """The share of the clips on the first side of their mean."""
    first = lengths >= lengths.mean() if members.longest_first else lengths < lengths.mean()
    return int(np.count_nonzero(first)) / len(lengths)
