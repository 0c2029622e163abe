"""Settings of publishing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from evenreel.settings_checks import MOST, OptionForm, check_settings, number, whole

MOST_HOURS = 1_000_000
"""Longest time, in hours, for which a snapshot is kept after it was replaced: a century."""


@dataclass(frozen=True)
class PublishSettings:
    """Settings of publishing a library.

    Attributes:
        stills: publish the small pictures of moments too, so that pages show them.
        keep_hours: hours for which a snapshot is kept that was replaced; the last one before is kept anyway.
        index_from: number of moments from which vectors get an index of Lance; our own servers need none.
        staging: folder for the snapshot while it is made, on a disk with room for it; None for the system's own.

    Raises:
        UsageError: a number is below 0 or too large.
    """

    stills: bool = True
    keep_hours: Annotated[float, OptionForm(least=0, most=MOST_HOURS)] = 24.0
    index_from: Annotated[int, OptionForm(least=0, most=MOST)] = 10_000
    staging: Path | None = None

    def __post_init__(self) -> None:
        hours = number(f"from 0 to {MOST_HOURS:,}", lambda value: 0 <= value <= MOST_HOURS)
        check_settings("publishing", self, {"keep_hours": hours, "index_from": whole(0)})
