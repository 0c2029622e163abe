"""A library: a folder of indexed videos, made by `index_folders` and searched by `open_library(...).search(...)`."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
