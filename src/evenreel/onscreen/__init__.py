"""On-screen text: words with their place and time, and signs followed over time."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
