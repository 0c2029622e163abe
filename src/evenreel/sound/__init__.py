"""What a clip sounds like: vectors of its sound and of sentences about sounds, by CLAP."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
