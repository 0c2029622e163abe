"""Evaluation of moment retrieval: recall, precision and overlap of predicted windows in time, and highlights."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
