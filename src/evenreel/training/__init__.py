"""Training of any matcher with Lightning: on features computed once, or through the towers from pixels and words."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
