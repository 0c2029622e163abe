"""Weights by which training clips like the searched ones are drawn more often (`evenreel.debias.likeness`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evenreel.corpus.folder import load_corpus
from evenreel.corpus.tables import select
from evenreel.debias.likeness import likeness_weights
from evenreel.errors import UsageError
from evenreel.features.load import find_clips
from evenreel.features.manifest import read_manifest
from evenreel.training.data.backgrounds import mean_frames
from evenreel.training.data.examples import FeatureExamples
from evenreel.training.recipe import Data, GalleryLikeness
from evenreel.types import VideoFeatures


class DrawnByLikeness(NamedTuple):
    """Effect of weighting training clips by their likeness to the clips to be searched.

    Attributes:
        searched: number of clips that training clips were compared with.
        effective: effective number of clips: of how many equally weighted ones a mean is as precise (Kish 1965).
        heaviest: largest weight, as a multiple of the mean weight.
    """

    searched: int
    effective: float
    heaviest: float

    @property
    def sentence(self) -> str:
        """Sentence for the model card on the weights and their effect."""
        return (
            f"Clips are drawn up to {self.heaviest:.1f} times as often as on average, the more often the more they are "
            f"like the {self.searched:,} clips that will be searched; that is worth {self.effective:,.0f} clips drawn "
            "alike."
        )


def drawn_alike(examples: FeatureExamples, searched: VideoFeatures) -> tuple[FeatureExamples, DrawnByLikeness]:
    """Multiply the weights of training pairs by the likeness of their clips to the clips that will be searched.

    Raises:
        UsageError: features are not finite, or of another length.
    """
    pairs = examples.pairs
    clips, places = np.unique(pairs.clips, return_inverse=True)
    known, asked = mean_frames(examples.video_features)[clips], mean_frames(searched)
    if known.shape[1] != asked.shape[1]:
        raise UsageError(
            f"Features of training clips have {known.shape[1]:,} numbers and those of `likeness` {asked.shape[1]:,}; "
            "make both with one encoder."
        )
    weights = likeness_weights(known, asked)
    drawn = weights[places] * (1.0 if pairs.weights is None else pairs.weights)
    said = DrawnByLikeness(len(asked), float(weights.sum() ** 2 / (weights**2).sum()), float(weights.max()))
    return replace(examples, pairs=replace(pairs, weights=drawn / drawn.mean())), said


def searched_clips(likeness: GalleryLikeness, data: Data) -> VideoFeatures:
    """Load the features of the clips that will be searched.

    Raises:
        CorpusError: there is no such corpus, or no such split of it.
        FeaturesError: the features are missing or damaged.
        UsageError: they are of another encoder than the training features.
    """
    corpus, folder = load_corpus(likeness.corpus or data.corpus), likeness.features or data.features or ""
    part = corpus if likeness.split is None else select(corpus, split=likeness.split)
    found = find_clips(folder, part, windows=False, streams=data.streams)
    if found.manifest.weights_hash != read_manifest(Path(data.features or folder)).weights_hash:
        raise UsageError(f"The features in {folder} and in {data.features} are of different encoders; use one.")
    return found.load()[0]
