"""Does a ranking favour clips for the wrong reason? Audits of anyone's scores, on numpy alone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
