"""Frozen image and text towers: the families of `evenreel.encoders.checkpoint`, and a model inside the package."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
