"""Matchers without learned parameters, built by name; their scores show how good an encoder is by itself."""

from __future__ import annotations

from pathlib import Path

from evenreel.checkpoint.architecture import build, module
from evenreel.checkpoint.records import About, EncoderNote, MatcherSpec, Pretrained
from evenreel.encoders.towers import usable_device
from evenreel.errors import UsageError
from evenreel.features.manifest import read_manifest

_SCALE = "logit_scale"
"""The parameter that every matcher has, which scales scores in a loss and is not in the scores."""


def untrained_matcher(name: str, features: str | Path, *, device: str = "cpu") -> Pretrained:
    """Build a matcher without learned parameters for the stored features of any encoder.

    Args:
        name: a key of `evenreel.matchers.MATCHERS`, such as `mean_pool`.
        features: folder made by `evenreel features`.
        device: device for the matcher: `cpu`, `cuda`, `auto`, ...

    Raises:
        UsageError: no matcher has this name, it has parameters to learn, or the device cannot be used.
        FeaturesError: the folder holds no features.
    """
    manifest = read_manifest(Path(features))
    spec = MatcherSpec(name)
    matcher = build(spec, manifest.dimension)
    network = module(matcher)
    if learned := [word for word, _ in network.named_parameters() if word != _SCALE]:
        raise UsageError(
            f"The matcher {name} has parameters that are learned ({learned[0]}, ...), so it scores nothing untrained; "
            "train it and name its checkpoint."
        )
    network.to(usable_device(device, "float32")).eval()
    encoder = EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension)
    return Pretrained(matcher, spec, About(encoder))
