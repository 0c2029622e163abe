"""Audits of any system's scores, on numpy alone: does a ranking favour clips for the wrong reason?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
