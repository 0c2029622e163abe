"""The cheapest library: no model, no recognition; what files do to it is the same in every library."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evenreel.config import IndexSettings
from evenreel.library import IndexReport, index_folders

WORDS_ONLY = IndexSettings(model=None, read_text=False, workers=2)


def index(videos: Path, library: Path, **changes: object) -> IndexReport:
    """Index with these settings but for some changes."""
    return index_folders([videos], library, replace(WORDS_ONLY, **changes))  # type: ignore[arg-type]
