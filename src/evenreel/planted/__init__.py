"""A rendered world whose truth is known: scenes, their captions, their pictures, and corpora with a planted bias."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
