"""The page and the REST API of one library; `make_app` builds them, `serve` runs them."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
