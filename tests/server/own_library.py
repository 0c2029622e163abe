"""A library of rendered videos that a test may write to, with two takes of one scene."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from evenreel.config import IndexSettings
from evenreel.planted import draw_clip, write_clip
from tests import prebuilt
from tests.server.conftest import SCENES, Served

QUIET = IndexSettings(model="builtin", read_text=False, speech=None, workers=1)


def make_own(folder: Path, served: Served) -> Path:
    """Fill `videos` and `library` of a folder."""
    shutil.copytree(served.videos, folder / "videos")
    (folder / "videos" / "broken.mp4").unlink()
    star = list(draw_clip(replace(SCENES["star.mp4"], seed=1)))
    write_clip(folder / "videos" / "star trimmed.mp4", star[6:], 12)
    prebuilt.library(folder / "videos", folder / "library", QUIET)
    return folder
