"""Small pictures of clips of a library for a page, made of their files in a process that can be killed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path

from evenreel.cli.progress import share_bar
from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError, MediaError
from evenreel.library import open_library
from evenreel.library.contents import ClipMedia, SameContent, check_unchanged
from evenreel.media.workers import Worker
from evenreel.server.media import READER

WIDTH_PX = 160
STALL_S = 10.0
"""How long one file may take."""
MOST_S = 60.0
"""How long all of them may; those that are left then have no picture."""


def clip_pictures(library: Path, clip_ids: Sequence[str]) -> dict[str, bytes]:
    """Make a JPEG of the middle of each clip, by clip id, at most `WIDTH_PX` wide.

    A page can do without, so nothing is raised: a clip has none whose file is not there any more, is another one than
    was indexed, or cannot be read.
    """
    made: dict[str, bytes] = {}
    limits = MediaLimits(stall_timeout_s=STALL_S)
    ends = time.monotonic() + MOST_S
    with (
        suppress(EvenreelError),
        open_library(library, vision=False) as opened,
        closing(Worker(READER, {"limits": asdict(limits)}, limits)) as worker,
        share_bar("making pictures of clips") as progress,
    ):
        for number, clip_id in enumerate(clip_ids, start=1):
            if time.monotonic() > ends:
                break
            if picture := _middle(worker, opened.locate(clip_id), clip_id):
                made[clip_id] = picture
            progress(number / len(clip_ids))
    return made


def _middle(worker: Worker, clip: ClipMedia, clip_id: str) -> bytes | None:
    """A JPEG of the middle of a clip, by the first of its files that is still what was indexed; None without one."""
    same = SameContent(STALL_S)
    for indexed in clip.files:
        with suppress(MediaError, OSError):
            file = same.check(clip_id, indexed, os.stat(indexed.path, follow_symlinks=False))
            task = {"still": file.path, "time_s": (clip.duration_s or 0.0) / 2, "width": WIDTH_PX}
            made = b"".join(array.tobytes() for _, array in worker.run(task) if array is not None)
            check_unchanged(file.path, file.stamp)
            return made
    return None
