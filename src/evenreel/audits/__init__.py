"""Audits of any system's scores, on numpy alone: does a ranking favour clips for the wrong reason?"""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
