"""What the API answers with: every field of every record, as the OpenAPI document describes it.

Times are seconds on the timeline that a player shows. Text that comes from files is as it is there, made printable;
whoever shows it escapes it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from evenreel.types import State

MetadataValue = str | int | float | bool | None
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Problem(BaseModel):
    """Why a request was not answered, in one sentence."""

    detail: str


class Moment(BaseModel):
    """A stretch of a clip that fits the query; `time_s` is its best frame, `still` the address of that picture."""

    time_s: float
    start_s: float
    end_s: float
    score: float
    still: str


class Sign(BaseModel):
    """Words on screen and when they are shown; `marks` are the stretches of `text` that the query matched.

    A mark is [start, end) in Unicode code points, not in UTF-16 units.
    """

    text: str
    start_s: float
    end_s: float
    marks: list[tuple[int, int]] = []


class Element(BaseModel):
    """What a clip shows, in a phrase of the library's scene dictionary; `kind` is `entity` or `activity`.

    `score` is by how many standard deviations the phrase is nearer to the clip than nonsense is.
    """

    phrase: str
    kind: str
    score: float


class FoundClip(BaseModel):
    """One clip of a result.

    `state` says whether it answers; None where that is not measured (pictures, 'more like this'). `above_nonsense` is
    the share of nonsense queries that do worse on every clip of the library than the query does on this one by its
    frames: a rank, no probability; None where that is not measured. `written` is the share of the query's words, rare
    ones weighing more, that is written on the clip, in its name or in its caption. `scores` has one of each channel
    that found the clip (`seen`, `on_screen`, `about`), and `reranked`, the matcher's, where one ordered the clip anew;
    `parts` are what that is the mean of, where the matcher tells: similarity to what is `seen`, to what is read
    `on_screen`, and to `both` together; `none_read`: there was nothing to read on it, or nobody looked, and the part
    `on_screen` is of what the matcher learned to put in its place. `still` is the address of its picture: of its best
    moment, of the middle of the clip where no moment was found.
    """

    clip_id: str
    name: str
    folder: str
    duration_s: float | None
    source: str | None
    score: float
    state: State | None
    above_nonsense: Share | None
    written: Share
    scores: dict[str, float]
    moments: list[Moment]
    on_screen: list[Sign]
    elements: list[Element]
    parts: dict[str, float]
    none_read: bool
    metadata: dict[str, MetadataValue]
    other_files: list[str]
    still: str


class GroupShare(BaseModel):
    """How often something is among the shown clips and among all that could have been shown."""

    measure: str
    label: str
    shown: int
    shown_of: int
    share_shown: Share
    all: int
    all_of: int
    share_all: Share
    p_value: Share


class LengthBin(BaseModel):
    """Clips of a range of lengths; the last range has no end."""

    start_s: float
    end_s: float | None
    shown: int
    all: int


class Lengths(BaseModel):
    """Lengths of the shown clips beside those of all that could have been shown."""

    bins: list[LengthBin]
    median_shown_s: float
    median_all_s: float
    p_value: Share


class Favours(BaseModel):
    """What a result favours: its clips against all that the filter lets through.

    `sentences` holds one for each difference that is beyond chance, after Holm's correction over all that was
    compared; it is empty where none is. `note` says what was compared and what such a difference does not mean.
    """

    shown: int
    all: int
    groups: list[GroupShare]
    lengths: Lengths | None
    sentences: list[str]
    note: str


class SearchAnswer(BaseModel):
    """Clips, best first. `state` is that of the one that answers best, `nothing` where none does.

    The first `answering` of `hits` are the answer: those that fit, or that may where none does, or all where that is
    not measured. Those behind them are the nearest others. `fit` and `may_fit` count the clips of these states in the
    library, as far as the filter lets them through, also those that are not among `hits`.
    """

    query: str
    state: State | None
    fit: int
    may_fit: int
    answering: int
    notices: list[str]
    hits: list[FoundClip]
    favours: Favours
    took_ms: float


class ClipFile(BaseModel):
    """A file that has this content; `state` is `indexed`, `set_aside` or `missing`."""

    name: str
    folder: str
    state: str


class Clip(BaseModel):
    """All that the library knows of one clip."""

    clip_id: str
    name: str
    files: list[ClipFile]
    duration_s: float | None
    container: str
    codec: str
    width: int
    height: int
    fps: float | None
    moments: int
    signs: list[Sign]
    elements: list[Element]
    notes: list[str]
    metadata: dict[str, MetadataValue]
    media: str
    media_type: str
    starts_s: float
    preview_part_s: float


class FacetValue(BaseModel):
    """A value of a metadata column and how many clips have it."""

    value: str | int | float | bool
    clips: int


class Facet(BaseModel):
    """A column that can be filtered by: its values where they are few, its range where they are numbers.

    `column` is what a filter writes, in double quotes where it has spaces. Of `element`, which a clip has several of,
    these are the most frequent values.
    """

    column: str
    label: str
    values: list[FacetValue] = []
    low: float | None = None
    high: float | None = None


class Examples(BaseModel):
    """Searches that find something in this library: a caption that was given, words that were read."""

    seen: str | None
    read: str | None


class Stats(BaseModel):
    """What the library holds; `vision` says whether pictures can be searched for.

    `neutral_trouble` says why no search can be neutral to source; None where it can.
    """

    name: str
    files: int
    clips: int
    moments: int
    signs: int
    hours: float
    missing: int
    set_aside: int
    model: str | None
    sampling: str | None
    vision: bool
    neutral_trouble: str | None
    facets: list[Facet]
    examples: Examples


class LibraryFile(BaseModel):
    """A file of the library; `reason` and `sentence` say why one was set aside."""

    name: str
    folder: str
    state: str
    clip_id: str | None
    reason: str | None
    sentence: str | None
    duration_s: float | None
    still: str | None


class Files(BaseModel):
    """Some of the files that were asked for, and how many there are in all."""

    total: int
    files: list[LibraryFile]


class Retry(BaseModel):
    """A run that tries again what was set aside: `state` is `idle`, `running`, `done` or `failed`."""

    state: str
    sentence: str


class Health(BaseModel):
    """Whether the server answers, and how its model is: `loading`, `ready`, `none` or `failed`."""

    status: str
    model: str
