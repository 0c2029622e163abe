"""Evaluation of any system's scores: metrics with intervals, comparisons and corrections, on numpy alone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
