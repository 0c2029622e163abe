"""Frozen image and text towers: CLIP, SigLIP and the one inside the package."""

from evenreel.encoders.loading import load_encoder

__all__ = ["load_encoder"]
