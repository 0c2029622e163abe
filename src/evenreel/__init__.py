"""Text-to-video retrieval you can trust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenreel.library import index_folders, open_library

__version__ = "0.1.0"
__all__ = ["__version__", "index_folders", "open_library"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import evenreel` costs nothing."""
    if name in {"index_folders", "open_library"}:
        from evenreel import library

        return getattr(library, name)
    raise AttributeError(f"module 'evenreel' has no attribute {name!r}")
