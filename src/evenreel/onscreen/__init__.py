"""On-screen text: words with their place and time, and signs followed over time."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
