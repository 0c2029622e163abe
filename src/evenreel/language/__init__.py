"""Words of captions: part-of-speech tags, lemmas, entities and activities, and verb and noun classes for relevance."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
