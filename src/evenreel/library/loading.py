"""Loading of the models that a library is searched with; what they need is imported with them."""

from __future__ import annotations

from evenreel.types import Encoder


def load_pictures(name: str, device: str) -> Encoder:
    """Load a model of pictures."""
    from evenreel.encoders import load_encoder

    return load_encoder(name, device=device)


def load_sounds(name: str, device: str) -> Encoder:
    """Load a model of sounds."""
    from evenreel.sound import load_sound_encoder

    return load_sound_encoder(name, device=device)
