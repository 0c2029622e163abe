"""Matchers, the retrieval models: each scores captions against videos from the features of their words and frames."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
