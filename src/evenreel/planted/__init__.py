"""The planted benchmark: rendered scenes and captions with known truth, and corpora with a bias of known strength."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
