"""What a clip sounds like: vectors of its sound and of sentences about sounds, by CLAP."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
