"""Loading of a matcher by what a user types: a checkpoint, or the name of a matcher that needs no training."""

from __future__ import annotations

from pathlib import Path

from evenreel.checkpoint.loading import load_matcher
from evenreel.checkpoint.records import Pretrained
from evenreel.checkpoint.untrained import untrained_matcher
from evenreel.matchers import MATCHERS


def names_no_checkpoint(name: str) -> bool:
    """Return whether a name is a key of `evenreel.matchers.MATCHERS`, and no folder has this name."""
    return name in MATCHERS and not Path(name).exists()


def named_matcher(name: str, features: str | Path, *, device: str = "cpu") -> Pretrained:
    """Load a matcher from a checkpoint, or build one without learned parameters by its name.

    Args:
        name: folder or hub id of a checkpoint, or a key of `evenreel.matchers.MATCHERS` such as `mean_pool`.
        features: folder made by `evenreel features`, of the encoder that a matcher without a checkpoint is for.
        device: device for the matcher: `cpu`, `cuda`, `auto`, ...

    Raises:
        UsageError: the matcher of that name has parameters to learn, or the device cannot be used.
        CheckpointError: there is no such checkpoint, it is damaged, or it was written by a later version.
        FeaturesError: the folder holds no features.
    """
    if names_no_checkpoint(name):
        return untrained_matcher(name, features, device=device)
    return load_matcher(name, device=device)
