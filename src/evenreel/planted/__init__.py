"""The planted benchmark: rendered scenes and captions with known truth, and corpora with a bias of known strength."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
