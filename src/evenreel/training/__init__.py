"""Training of any matcher with Lightning: on features computed once, or through the towers from pixels and words."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
