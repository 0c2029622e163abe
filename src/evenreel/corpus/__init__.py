"""Corpora: tables of clips and captions, checked, kept in a folder, and read from the files of benchmarks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
