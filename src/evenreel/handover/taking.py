"""Taking stretches of an open library away in one call: found, read by a process of its own, written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.config import MediaLimits
from evenreel.handover.export import Handover
from evenreel.handover.located import known_of, takes_of
from evenreel.handover.picks import Pick
from evenreel.handover.report import HandoverReport
from evenreel.handover.settings import READER, HandoverSettings
from evenreel.media.workers import Worker

if TYPE_CHECKING:
    from evenreel.library import Library


def take_away(
    library: Library,
    picks: Sequence[Pick],
    folder: str | Path,
    title: str = "stretches",
    settings: HandoverSettings | None = None,
    progress: Callable[[float], object] = lambda share: None,
) -> HandoverReport:
    """Write stretches of a library's clips into a folder, as cuts, lists for editors, tables, subtitles or a sheet.

    Args:
        library: the library, open.
        picks: stretches in the order in which they are listed, such as `picks_of(library.search(...).to_json())`.
        folder: folder to write to; it is made where it is missing, and no file in it is replaced.
        title: title of lists, and their files' name.
        settings: forms, and how cuts are made; None for cuts whose packets are copied.
        progress: called with the share that is done, from 0 to 1.

    Returns:
        The files, and a sentence on whatever could not be taken.

    Raises:
        OutputError: the folder cannot be made.
    """
    limits, report = MediaLimits(), HandoverReport()
    takes = takes_of(library, picks, report)
    with closing(Worker(READER, {"limits": asdict(limits)}, limits)) as worker:
        handover = Handover(worker, known_of(library), settings or HandoverSettings(), progress)
        written = handover.write(takes, Path(folder), title)
    written.set_aside[:0] = report.set_aside
    return written
