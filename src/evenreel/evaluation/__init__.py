"""Evaluation of any system's scores: metrics with intervals, comparisons and corrections, on numpy alone."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
