"""Words of captions: part-of-speech tags, lemmas, entities and activities, and verb and noun classes for relevance."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
