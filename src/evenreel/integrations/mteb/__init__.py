"""MTEB: encoders and matchers as models of its tasks, its tasks as corpora, its predictions and results read."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
