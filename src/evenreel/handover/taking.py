"""Taking stretches of an open library away in one call: found, read by a process of its own, written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from evenreel.config import MediaLimits
from evenreel.errors import MediaError, NotFoundError
from evenreel.features.stills import read_still
from evenreel.handover.export import Handover, KnownOfClips
from evenreel.handover.picks import Pick, Take
from evenreel.handover.report import HandoverReport
from evenreel.handover.settings import READER, HandoverSettings
from evenreel.library.store.catalog import STILLS
from evenreel.library.store.identity import SameContent
from evenreel.media.workers import Worker
from evenreel.wording import printable

if TYPE_CHECKING:
    from evenreel.library import Library
    from evenreel.library.contents import Located

STALL_S = 30.0
"""How long a file may give nothing while its content is compared."""


def take_away(
    library: Library,
    picks: Sequence[Pick],
    folder: str | Path,
    title: str = "stretches",
    settings: HandoverSettings | None = None,
    progress: Callable[[float], object] = lambda share: None,
) -> HandoverReport:
    """Write stretches of a library's clips into a folder, as cuts, lists for editors, tables, subtitles or a sheet."""
    limits, report = MediaLimits(), HandoverReport()
    takes = takes_of(library, picks, report)
    with closing(Worker(READER, {"limits": asdict(limits)}, limits)) as worker:
        handover = Handover(worker, known_of(library), settings or HandoverSettings(), progress)
        written = handover.write(takes, Path(folder), title)
    written.set_aside[:0] = report.set_aside
    return written


def takes_of(library: Library, picks: Sequence[Pick], report: HandoverReport) -> list[Take]:
    """Find the file of each stretch; what cannot be found is added to the report."""
    same, found = SameContent(STALL_S), list[Take]()
    for pick in picks:
        try:
            file = _unchanged(library, pick, same)
        except (MediaError, NotFoundError) as error:
            report.leave_out(Take(pick, "", "", _name(library, pick.clip_id)), error)
            continue
        found.append(Take(pick, file.path, file.path, PurePath(file.path).name, file.stamp))
    return found


def _unchanged(library: Library, pick: Pick, same: SameContent) -> Located:
    why = "its file is not there any more; is its disk connected? `evenreel index` looks again"
    for file in sorted(library.locate(pick.clip_id).files, key=lambda file: file.path != pick.path):
        try:
            return same.check(pick.clip_id, file, os.stat(file.path, follow_symlinks=False))
        except OSError:
            continue
        except MediaError:
            why = "its file has changed since it was indexed; `evenreel index` reads it again"
    raise MediaError("unreadable", why)


def _name(library: Library, clip_id: str) -> str:
    try:
        return printable(library.clip(clip_id).name)
    except NotFoundError:
        return clip_id


def known_of(library: Library) -> KnownOfClips:
    """Return what an open library knows of its clips."""
    return KnownOfClips(library.transcripts, lambda clip_id, time_s: read_still(library.path / STILLS, clip_id, time_s))
