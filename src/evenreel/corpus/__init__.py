"""Corpora: clips and captions, checked; kept in a folder; read from the files of the benchmarks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
