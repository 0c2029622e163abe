"""Records that the API answers with: every field as the OpenAPI document describes it.

The library's own records are passed on as they are; the ones here have what only the API says, addresses for example.
Times are seconds on the timeline that a player shows. Text that comes from files is as it is there, made printable;
whoever shows it escapes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from evenreel.library.contents import ClipFile, Examples, ListedFile
from evenreel.library.facets import Facet
from evenreel.library.result_bias import Favours, Share
from evenreel.library.search.hits import MomentHit
from evenreel.speech import SpeechSource

MetadataValue = str | int | float | bool | None


class Problem(BaseModel):
    """The reason why a request was not answered, in one sentence."""

    detail: str


@dataclass(frozen=True, kw_only=True)
class Moment(MomentHit):
    """A stretch of a clip that matches the query; `time_s` is its best frame, `still` the address of that picture."""

    still: str


class Sign(BaseModel):
    """Words on screen, or said, and from when to when; `marks` are the stretches of `text` that the query matched.

    A mark is [start, end) in Unicode code points, not in UTF-16 units.
    """

    text: str
    start_s: float
    end_s: float
    marks: list[tuple[int, int]] = []


class FoldedClip(BaseModel):
    """A clip of a result that is nearly the same as a better one; `still` is the picture of its best moment.

    `distance` is 1 minus the mean cosine of its moments with those of the better one.
    """

    clip_id: str
    name: str
    folder: str
    duration_s: float | None
    time_s: float
    distance: float
    still: str


class FoundClip(BaseModel):
    """One clip of a result.

    `weaker` says whether it is a weaker match, behind the line: less than half of the words are there, and its frames
    and its sound beat less than 90 % of nonsense queries; None where that is not measured (pictures, 'more like this').
    `above_nonsense` is the share of nonsense queries that do worse on every clip of the library than the query does
    on this one by its frames: a rank, no probability; None where that is not measured. `written` is the share of the
    query's words, rare ones weighing more, that is written on the clip, said in it, in its name or in its caption.
    `scores` has one of each channel that found the clip (`seen`, `on_screen`, `said`, `about`), and `reranked`, the
    matcher's, where one ordered the clip anew; `parts` are what that is the mean of, where the matcher tells:
    similarity to what is `seen`, to what is read `on_screen`, and to `both` together; `none_read`: there was
    nothing to read on it, or it was not read, and the part `on_screen` is of what the matcher learned to put in its
    place. `steps` are the moments of a search for one after another, in order; `scores` then has how far each is above
    nonsense (`first`, `then`). `still` is the address of its picture: of its best moment, of the middle of the clip
    where no moment was found. `folded` are clips that are nearly the same and answer less well.
    """

    clip_id: str
    name: str
    folder: str
    duration_s: float | None
    source: str | None
    score: float
    weaker: bool | None
    above_nonsense: Share | None
    written: Share
    scores: dict[str, float]
    moments: list[Moment]
    steps: list[Moment]
    on_screen: list[Sign]
    said: list[Sign]
    sounds: Share | None
    parts: dict[str, float]
    none_read: bool
    metadata: dict[str, MetadataValue]
    other_files: list[str]
    folded: list[FoldedClip]
    still: str


class SearchAnswer(BaseModel):
    """Clips, best first.

    The first `answering` of `hits` stand before the line, all where that is not measured, none where nothing fits;
    those behind them are weaker matches. `matches` counts the clips of the library that are no weaker ones, as far as
    the filter lets them through, also those that are not among `hits`; 0 where that is not measured. `steps` are what
    a search for one moment after another has asked for, in order; `matches` then counts hits alone.
    """

    query: str
    steps: list[str]
    matches: int
    answering: int
    notices: list[str]
    hits: list[FoundClip]
    favours: Favours
    took_ms: float


class SpokenWords(BaseModel):
    """A stretch of speech with its words in one line; `speaker` where the source says who speaks."""

    text: str
    start_s: float
    end_s: float
    speaker: str | None


class Spoken(BaseModel):
    """What one source says of a clip, in the order of its times.

    `source` is `sidecar` (a subtitle file beside the video), `stream` (subtitles inside it) or `recognised`; `language`
    is a BCP 47 tag, None where it is not known.
    """

    source: SpeechSource
    language: str | None
    utterances: list[SpokenWords]


class Clip(BaseModel):
    """Everything that the library knows about one clip.

    `shots` are start and end of each in seconds; none where they were not looked for.
    """

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
    shots: list[tuple[float, float]]
    notes: list[str]
    metadata: dict[str, MetadataValue]
    media: str
    media_type: str
    starts_s: float
    preview_part_s: float


class ClipPlace(BaseModel):
    """Where a clip's file is on the machine of the server."""

    path: str


class Stats(BaseModel):
    """Counts of what the library holds; `vision` says whether pictures can be searched for.

    `opens_folders`: whether the server tells whoever sits at its machine where files are, and shows them in the file
    manager.
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
    opens_folders: bool
    facets: list[Facet]
    examples: Examples


@dataclass(frozen=True)
class LibraryFile(ListedFile):
    """A file of the library; `reason` and `sentence` say why one was set aside, `still` is the address of a picture."""

    still: str | None


class Files(BaseModel):
    """A page of the files that match, and how many there are in all."""

    total: int
    files: list[LibraryFile]


class ListedClip(BaseModel):
    """A clip without a query; `day` is when it was recorded, or last changed where its file does not say."""

    clip_id: str
    name: str
    folder: str
    day: str | None
    duration_s: float | None
    metadata: dict[str, MetadataValue]
    still: str


class ListedClips(BaseModel):
    """A page of clips without a query, and how many there are in all."""

    total: int
    clips: list[ListedClip]


class Retry(BaseModel):
    """A run that tries again what was set aside: `state` is `idle`, `running`, `done` or `failed`."""

    state: str
    sentence: str


class Health(BaseModel):
    """State of the server, and of its model: `loading`, `ready`, `none` or `failed`."""

    status: str
    model: str
