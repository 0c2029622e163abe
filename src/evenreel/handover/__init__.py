"""Exporting clips: the forms that can be written, and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from evenreel.config import OptionForm
from evenreel.errors import UsageError

HandoverForm = Literal["clip", "csv", "json", "edl", "fcpxml", "xmeml", "otio", "srt", "vtt", "sheet"]
"""Cuts, tables, lists for editors, subtitles of each stretch, or one picture with a still of each."""

FORMS: tuple[HandoverForm, ...] = get_args(HandoverForm)
A_FILE_EACH = frozenset({"clip", "srt", "vtt"})  # forms that are a file for each stretch; the others are one for all
FOR_EDITORS = frozenset({"edl", "fcpxml", "xmeml", "otio"})  # forms that editing programs find the files by
SUFFIXES = {**{name: f".{name}" for name in ("csv", "json", "edl", "fcpxml", "otio")}, "xmeml": ".xml", "sheet": ".jpg"}
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "edl": "text/plain; charset=utf-8",
    "fcpxml": "application/xml",
    "xmeml": "application/xml",
    "otio": "application/json",
    "srt": "application/x-subrip",
    "vtt": "text/vtt; charset=utf-8",
    "sheet": "image/jpeg",
}
READER = "evenreel.handover.cuts:CutReader"  # worker that reads the files of stretches
LEAST_S = 2.0  # least length of a stretch that a search has found, in seconds; a moment of one frame is widened to it
MOST_HANDLES_S = 3_600.0
MOST_STRETCHES = 10_000


@dataclass(frozen=True)
class HandoverSettings:
    """How clips are exported.

    Attributes:
        forms: what to write: clip (video files), csv, json, edl (CMX3600), fcpxml, xmeml (Final Cut Pro 7 XML, for
            Premiere Pro), otio, srt or vtt (what is said in each clip), sheet (one picture with a still of each); may
            be given several times.
        exact: cut frame-accurately (re-encodes). Otherwise a clip is copied, from the key frame before its start.
        handles_s: seconds to add before and after each clip.
        language: language of subtitles, such as en or pt-BR; None for the first there is.

    Raises:
        UsageError: there is no such form, none is given, or the handles are negative or too long.
    """

    forms: Annotated[tuple[HandoverForm, ...], OptionForm("--format")] = ("clip",)
    exact: bool = False
    handles_s: float = 0.0
    language: str | None = None

    def __post_init__(self) -> None:
        unknown = [form for form in self.forms if form not in FORMS]
        if unknown or not self.forms:
            raise UsageError(f"There is no form {str(unknown[:1])[1:-1] or 'given'}; choose of: {', '.join(FORMS)}.")
        if not 0 <= self.handles_s <= MOST_HANDLES_S:
            raise UsageError(f"Handles of {self.handles_s:g} s cannot be added; give 0 to {MOST_HANDLES_S:g} s.")
