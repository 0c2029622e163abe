"""Features of clips and captions, computed once, and the words read on screen."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
