"""A library: a folder that knows videos, built by `index_folders` and asked by `open_library(...).search(...)`."""

from evenreel.library.ingest import IndexReport, Progress, SetAside, index_folders
from evenreel.library.library import Library, LibraryStats, open_library
from evenreel.library.verify import Problem, repair, verify

__all__ = [
    "IndexReport",
    "Library",
    "LibraryStats",
    "Problem",
    "Progress",
    "SetAside",
    "index_folders",
    "open_library",
    "repair",
    "verify",
]
