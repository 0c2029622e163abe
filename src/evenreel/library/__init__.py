"""A library: a folder of indexed videos, made by `index_folders` and searched by `open_library(...).search(...)`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
