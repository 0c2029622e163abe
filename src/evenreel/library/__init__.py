"""A library: a folder that knows videos, built by `index_folders` and asked by `open_library(...).search(...)`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
