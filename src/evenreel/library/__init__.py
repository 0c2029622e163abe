"""A library: a folder that knows videos, built by `index_folders` and asked by `open_library(...).search(...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenreel.features.progress import NoProgress, SetAside, StagedProgress
    from evenreel.library.index.ingest import index_folders
    from evenreel.library.index.integrity import LibraryProblem, verify
    from evenreel.library.index.rebuild import repair
    from evenreel.library.index.report import IndexReport
    from evenreel.library.index.tagging import TagReport, tag_library, untag_library
    from evenreel.library.library import Library, open_library
    from evenreel.library.search.query import UnfinishedText
    from evenreel.library.stats import LibraryStats

__all__ = [
    "IndexReport",
    "Library",
    "LibraryProblem",
    "LibraryStats",
    "NoProgress",
    "SetAside",
    "StagedProgress",
    "TagReport",
    "UnfinishedText",
    "index_folders",
    "open_library",
    "repair",
    "tag_library",
    "untag_library",
    "verify",
]

_MODULE_OF = {
    "features.progress": ("NoProgress", "StagedProgress", "SetAside"),
    "library.index.ingest": ("index_folders",),
    "library.index.report": ("IndexReport",),
    "library.library": ("Library", "open_library"),
    "library.search.query": ("UnfinishedText",),
    "library.stats": ("LibraryStats",),
    "library.index.tagging": ("TagReport", "tag_library", "untag_library"),
    "library.index.integrity": ("LibraryProblem", "verify"),
    "library.index.rebuild": ("repair",),
}


def __getattr__(name: str) -> Any:
    """Import a part when it is asked for: a reader process needs only its own module."""
    import importlib

    for module, names in _MODULE_OF.items():
        if name in names:
            return getattr(importlib.import_module(f"evenreel.{module}"), name)
    raise AttributeError(f"module 'evenreel.library' has no attribute {name!r}")
