"""Reports: results in words, charts and tables, on one self-contained HTML page that opens offline."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
