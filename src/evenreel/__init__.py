"""Text-to-video retrieval you can trust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenreel.version import __version__

if TYPE_CHECKING:
    from evenreel.audits import audit
    from evenreel.checkpoint import load_matcher
    from evenreel.corpus import load_corpus
    from evenreel.evaluation import evaluate, load_scores
    from evenreel.library import index_folders, open_library

__all__ = [
    "__version__",
    "audit",
    "evaluate",
    "index_folders",
    "load_corpus",
    "load_matcher",
    "load_scores",
    "open_library",
]

_HOMES = {
    "audit": "audits",
    "evaluate": "evaluation",
    "index_folders": "library",
    "load_corpus": "corpus",
    "load_matcher": "checkpoint",
    "load_scores": "evaluation",
    "open_library": "library",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import evenreel` costs nothing."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"evenreel.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'evenreel' has no attribute {name!r}")
