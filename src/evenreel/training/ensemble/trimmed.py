"""Training clips that are left out for their length, before a model learns from the others (frame-length bias)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus.actions import Actions, Unit, actions_of
from evenreel.corpus.tables import select
from evenreel.debias.trimming import Trimming, trimmed, trimmed_at_random
from evenreel.errors import CorpusError
from evenreel.training.recipe import Trim
from evenreel.types import Corpus


class Trimmed(NamedTuple):
    """Corpus after trimming, and counts of what was removed.

    Attributes:
        corpus: the clips that stay, with their captions.
        clips: number of clips left out.
        classes: number of classes whose clips are too short or too long on average, counted as by rule `all`.
        sentence: the counts in words.
    """

    corpus: Corpus
    clips: int
    classes: int
    sentence: str


def trimmed_corpus(learned: Corpus, target: Corpus, trim: Trim, seed: int) -> Trimmed:
    """Leave out training clips until each class is as long on average as in another corpus, or as many at random.

    A clip of several actions is left out when one of them is trimmed, since the action cannot be cut out of it; so a
    class may lose more clips than its own trimming requires, and may keep fewer than `trim.least`.

    Args:
        learned: training part of the corpus.
        target: corpus whose mean lengths classes should have; nothing else of it is used.
        trim: settings of trimming.
        seed: seed of the rule `random`.

    Raises:
        CorpusError: no clip has a verb class, the length of one that has is not known, or no clip would be left.
    """
    height = learned.clips.height
    actions = actions_of(Corpus(pl.concat([learned.clips, target.clips], how="diagonal"), learned.captions))
    own = actions.clips < height
    _check_known(actions, learned.clips.height + target.clips.height)
    classes, lengths = actions.classes[own], actions.lengths[own]
    rows = trimmed(lengths, classes, _means(actions, ~own), Trimming(trim.margin, trim.least))
    clips = np.unique(actions.clips[own][rows])
    trimmed_classes = len(np.unique(classes[rows]))
    if trim.rule == "random":
        clips = trimmed_at_random(np.zeros(height, np.int64), clips, np.random.default_rng(seed))
    kept = np.ones(height, np.bool_)
    kept[clips] = False
    corpus = select(learned, where=pl.lit(pl.Series(kept)))
    return Trimmed(
        corpus, len(clips), trimmed_classes, _sentence(trim, len(clips), trimmed_classes, actions.unit, height)
    )


def _means(actions: Actions, kept: NDArray[np.bool_]) -> Mapping[int, float]:
    """Mean length of each class of some actions."""
    classes, places = np.unique(actions.classes[kept], return_inverse=True)
    sums, counts = np.bincount(places, actions.lengths[kept]), np.bincount(places)
    return dict(zip(classes.tolist(), (sums / counts).tolist(), strict=True))


def _check_known(actions: Actions, clips: int) -> None:
    unknown = len(np.unique(actions.clips[~np.isfinite(actions.lengths)]))
    if unknown:
        raise CorpusError(
            f"The length of {unknown:,} of {clips:,} clips is not known, and trim compares lengths: give the corpus "
            "frame_count, or start_s and end_s, of all clips; or set trim to null."
        )


def _sentence(trim: Trim, clips: int, classes: int, unit: Unit, height: int) -> str:
    manner = "at random, as many as for their length" if trim.rule == "random" else "for their length"
    return (
        f"Left out {manner}: {clips:,} of {height:,} training clips ({clips / height:.1%}; classes that are trimmed: "
        f"{classes:,}; margin {trim.margin:g} {unit}; clips that a class keeps at least: {trim.least})."
    )
