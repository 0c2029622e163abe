"""Matchers, the retrieval models: each scores captions against videos from the features of their words and frames."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
