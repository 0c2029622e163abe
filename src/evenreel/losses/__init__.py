"""Losses as functions of tensors; they take no model, recipe or corpus."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
