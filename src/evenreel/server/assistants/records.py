"""Records that an assistant is answered with: what the REST API answers, short enough to be read in a conversation.

Times are seconds from the clip's start. Texts of files are cut at `LONGEST_TEXT` characters.
"""

from __future__ import annotations

from pydantic import BaseModel

from evenreel.library.contents import Examples
from evenreel.server.records import MetadataValue
from evenreel.speech import SpeechSource

LONGEST_TEXT = 240
"""Characters of a text of files past which it is cut, with an ellipsis."""


class TimedWords(BaseModel):
    """Words on screen, or said, and from when to when; `speaker` where the source says who speaks."""

    text: str
    start_s: float
    end_s: float
    speaker: str | None = None


class BriefMoment(BaseModel):
    """A stretch of a clip that matches the query; `time_s` is its best moment."""

    time_s: float
    start_s: float
    end_s: float


class BriefHit(BaseModel):
    """One clip of a result.

    `found_by` names the channels that found it: `seen`, `on_screen`, `said`, `about` (its name or caption).
    """

    clip_id: str
    name: str
    folder: str
    duration_s: float | None
    found_by: list[str]
    moments: list[BriefMoment]
    on_screen: list[TimedWords]
    said: list[TimedWords]
    metadata: dict[str, MetadataValue]


class BriefAnswer(BaseModel):
    """Clips, best first: `answers` match the query, `nearest_others` are weaker matches, shown for want of better.

    `matches` counts the clips of the whole library that are no weaker ones; 0 where that is not measured, as for
    similar clips, which are all among the answers. `notices` say what the search left out.
    """

    query: str
    matches: int
    answers: list[BriefHit]
    nearest_others: list[BriefHit]
    notices: list[str]


class OpenedMoment(BaseModel):
    """What is known of a clip around a time; the picture that comes with it is of `time_s`.

    `shot` is start and end of the shot around it in seconds, None where shots were not looked for. `no_picture` says
    why there is no picture, None where there is one.
    """

    clip_id: str
    name: str
    folder: str
    duration_s: float | None
    time_s: float
    shot: tuple[float, float] | None
    on_screen: list[TimedWords]
    said: list[TimedWords]
    metadata: dict[str, MetadataValue]
    no_picture: str | None


class SourceLines(BaseModel):
    """What one source says of a clip: `sidecar` (a subtitle file), `stream` (inside the video) or `recognised`."""

    source: SpeechSource
    language: str | None
    lines: list[TimedWords]


class TranscriptPart(BaseModel):
    """What is said in a stretch of a clip, by each source; `goes_on_at_s` is where to ask on, None at the end."""

    clip_id: str
    sources: list[SourceLines]
    goes_on_at_s: float | None


class FilterHint(BaseModel):
    """A column that `where` can compare, with its most frequent values, or its smallest and largest number."""

    column: str
    values: list[str | int | float | bool]
    low: float | None
    high: float | None


class LibraryFacts(BaseModel):
    """What the library holds; `vision` says whether what is seen can be searched for, or words alone.

    `missing` and `set_aside` count files that are gone and that could not be read.
    """

    name: str
    clips: int
    files: int
    hours: float
    moments: int
    missing: int
    set_aside: int
    vision: bool
    examples: Examples
    filters: list[FilterHint]
