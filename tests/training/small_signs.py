"""Words on the screen of the small clips, and features that know them."""

from __future__ import annotations

from pathlib import Path

from evenreel.corpus import load_corpus
from evenreel.encoders import load_encoder
from evenreel.features import FeatureSettings, compute_features
from tests.features.test_sets import words_table

RULE = "3 midpoints"
WINDOWS = 4
SIGNS = words_table(
    [
        ("v0", "RED BALL", 0, 1),
        ("v0", "bridge", 2, 9),
        ("v2", "bridge", 0, 9),
        ("v6", "train 7", 0, 9),
        ("v7", "park park", 1, 2),
        ("v8", "RED BALL", 0, 1),
    ]
)
"""Of clips of 4 to 6 frames; the others show nothing."""


def signs_of(corpus: Path, model: Path, folder: Path, rule: str = RULE) -> Path:
    """Features of the corpus with these words in four windows."""
    settings = FeatureSettings(rule, windows=WINDOWS, videos=corpus, workers=1)
    compute_features(load_corpus(corpus), folder, load_encoder(str(model), device="cpu"), settings, words=SIGNS)
    return folder
