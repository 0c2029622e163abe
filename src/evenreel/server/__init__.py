"""The page and the REST API of one library; `make_app` builds them, `serve` runs them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
