"""Corpora: tables of clips and captions, checked, kept in a folder, and read from the files of benchmarks."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
