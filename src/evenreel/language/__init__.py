"""Words of captions: tags, lemmas, entities and activities, and the classes that relevance is made of."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
