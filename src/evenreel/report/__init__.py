"""Reports: results in words, charts and tables, on one self-contained HTML page that opens offline."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
