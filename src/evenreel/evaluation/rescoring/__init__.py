"""Corrections of hubs and other test-time re-scoring: softmaxes, banks, neighbours and transports, each labelled so."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
