"""Evaluation of moment retrieval: recall, precision and overlap of predicted windows in time, and highlights."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
