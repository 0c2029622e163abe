"""Records that the API answers with, every field as the OpenAPI document describes it.

They are the library's own, with what only a server knows: addresses, and names and folders in place of paths, so that
no answer shows how a disk is laid out. Times are seconds on the timeline that a player shows. Text that comes from
files is as it is there, made printable; whoever shows it escapes it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, TypeAdapter, computed_field

from evenreel.config import default_library
from evenreel.library import Library
from evenreel.library.contents import BrowsedClip, BrowsedPage, ClipDetail, Examples, Facet, FilePage, ListedFile
from evenreel.library.favours import SOURCE, Favours, Share
from evenreel.library.personal import LONGEST_NAME, LONGEST_NOTE, MarkState, PlacedMark
from evenreel.library.search.alike import UnlikeClip, UnlikeClips
from evenreel.library.search.result import FoldedHit, Hit, MomentHit, SearchResult, TextHit
from evenreel.library.search.words import marks
from evenreel.library.store.catalog import folder_of
from evenreel.server.media import media_type
from evenreel.server.pictures import PREVIEW_PART_S
from evenreel.speech import SpeechSource, Transcript
from evenreel.types import Metadata
from evenreel.wording import is_printable, printable

YOUR_VIDEOS = "Your videos"
"""What the library that is used unasked is called."""
LATEST_S = 1e6
LONGEST_QUERY = 2_000
EVERYWHERE = (400, 401, 403, 422, 503)
"""Refusals of every address: host, token, origin, a parameter that is none, too many waiting."""

MetadataValue = str | int | float | bool | None
ClipId = Annotated[str, InPath(pattern="^[0-9a-f]{32}$", description="Digest of the clip's content.")]
Where = Annotated[str | None, Query(max_length=4_000, description="Filter, as `evenreel search --where` takes it.")]


def finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def clean_metadata(metadata: Metadata) -> dict[str, MetadataValue]:
    """Replace metadata values that JSON has no form for by None, and make the texts printable."""
    return {
        printable(key): printable(value) if isinstance(value, str) else finite(value) if _is_float(value) else value
        for key, value in metadata.items()
    }


def _is_float(value: object) -> bool:
    return isinstance(value, float)


def _finite_scores(scores: Mapping[str, float]) -> dict[str, float]:
    return {channel: score for channel, score in scores.items() if math.isfinite(score)}


Text = Annotated[str, PlainSerializer(printable, return_type=str)]
Seconds = Annotated[float | None, PlainSerializer(finite, return_type=float | None)]
Scores = Annotated[dict[str, float], PlainSerializer(_finite_scores, return_type=dict[str, float])]
Facts = Annotated[Metadata, PlainSerializer(clean_metadata, return_type=dict[str, MetadataValue])]
HiddenText = Annotated[str, Field(exclude=True)]
HiddenTexts = Annotated[tuple[str, ...], Field(exclude=True)]
_adapters: dict[type[Any], TypeAdapter[Any]] = {}
WHOLE = ConfigDict(json_schema_serialization_defaults_required=True)
"""Configuration of a record all of whose fields are in each answer."""


class Named:
    """A record of a clip or file at a `path`, which is told by its name alone."""

    path: HiddenText

    @computed_field  # type: ignore[prop-decorator]
    @property
    def name(self) -> str:
        return printable(PurePath(self.path).name)


class Problem(BaseModel):
    """The reason why a request was not answered, in one sentence."""

    detail: str


@dataclass(frozen=True, kw_only=True)
class Moment(MomentHit):
    """A stretch of a clip that matches the query; `time_s` is its best frame, `still` the address of that picture."""

    still: str


@dataclass(frozen=True, kw_only=True)
class Sign(TextHit):
    """Words on screen, or said, and from when to when; `marks` are the stretches of `text` that the query matched.

    A mark is [start, end) in Unicode code points, not in UTF-16 units.
    """

    matched: HiddenTexts
    similarity: Annotated[float, Field(exclude=True)]
    found: HiddenTexts = ()

    @staticmethod
    def of(hit: TextHit) -> Sign:
        text = "".join(letter if is_printable(letter) else " " for letter in hit.text)
        return Sign(**vars(hit) | {"text": text})

    @computed_field  # type: ignore[prop-decorator]
    @property
    def marks(self) -> tuple[tuple[int, int], ...]:
        return marks(self.text, self.matched, self.found) if self.matched else ()


@dataclass(frozen=True, kw_only=True)
class FoldedClip(Named, FoldedHit):
    """A clip of a result that is nearly the same as a better one; `still` is the picture of its best moment.

    `distance` is 1 minus the mean cosine of its moments with those of the better one.
    """

    path: HiddenText
    folder: str
    duration_s: Seconds
    time_s: float
    still: str

    @staticmethod
    def of(hit: FoldedHit, roots: Sequence[str]) -> FoldedClip:
        time_s = (hit.duration_s or 0.0) / 2 if hit.time_s is None else hit.time_s
        added = {"time_s": time_s, "folder": folder_of(hit.path, roots), "still": still_address(hit.clip_id, time_s)}
        return FoldedClip(**vars(hit) | added)


@dataclass(frozen=True, kw_only=True)
class FoundClip(Named, Hit):
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

    __pydantic_config__ = WHOLE
    path: HiddenText
    folder: str
    duration_s: Seconds
    above_nonsense: Share | None
    written: Annotated[Share, PlainSerializer(lambda share: min(1.0, share), return_type=Share)]
    scores: Scores
    moments: tuple[Moment, ...]
    steps: tuple[Moment, ...] = ()
    on_screen: tuple[Sign, ...]
    said: tuple[Sign, ...] = ()
    sounds: Share | None = None
    parts: Scores
    metadata: Facts
    other_paths: HiddenTexts = ()
    folded: tuple[FoldedClip, ...] = ()
    still: str

    @staticmethod
    def of(hit: Hit, roots: Sequence[str]) -> FoundClip:
        middle_s = (hit.duration_s or 0.0) / 2
        added: dict[str, Any] = {
            "folder": folder_of(hit.path, roots),
            "moments": tuple(Moment(**vars(at), still=still_address(hit.clip_id, at.time_s)) for at in hit.moments),
            "steps": tuple(Moment(**vars(at), still=still_address(hit.clip_id, at.time_s)) for at in hit.steps),
            "on_screen": tuple(map(Sign.of, hit.on_screen)),
            "said": tuple(map(Sign.of, hit.said)),
            "folded": tuple(FoldedClip.of(one, roots) for one in hit.folded),
            "still": still_address(hit.clip_id, hit.moments[0].time_s if hit.moments else middle_s),
        }
        return FoundClip(**vars(hit) | added)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def source(self) -> str | None:
        source = self.metadata.get(SOURCE)
        return printable(str(source)) if source is not None else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def other_files(self) -> list[str]:
        return [printable(PurePath(other).name) for other in self.other_paths]


@dataclass(frozen=True, kw_only=True)
class SearchAnswer(SearchResult):
    """Clips, best first.

    The first `answering` of `hits` stand before the line, all where that is not measured, none where nothing fits;
    those behind them are weaker matches. `matches` counts the clips of the library that are no weaker ones, as far as
    the filter lets them through, also those that are not among `hits`; 0 where that is not measured. `steps` are what
    a search for one moment after another has asked for, in order; `matches` then counts hits alone.
    """

    __pydantic_config__ = WHOLE
    query: Text
    hits: tuple[FoundClip, ...]
    notices: tuple[Text, ...] = ()
    steps: tuple[Text, ...] = ()
    favours: Favours
    took_ms: float

    @staticmethod
    def of(
        result: SearchResult, library: Library, favours: Favours, notices: Sequence[str], took_ms: float
    ) -> SearchAnswer:
        roots = library.roots()
        seen = any("seen" in hit.scores for hit in result.hits)
        unknown = library.unknown_to_model() if seen else None
        added: dict[str, Any] = {
            "hits": tuple(FoundClip.of(hit, roots) for hit in result.hits),
            "notices": (*notices, *result.notices, *([] if unknown is None else [unknown])),
        }
        return SearchAnswer(**vars(result) | added, favours=favours, took_ms=took_ms)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def answering(self) -> int:
        return super().answering


class SpokenWords(BaseModel):
    """A stretch of speech with its words in one line; `speaker` where the source says who speaks."""

    model_config = ConfigDict(from_attributes=True)
    text: Text
    start_s: float
    end_s: float
    speaker: Annotated[str | None, PlainSerializer(lambda name: name and printable(name), return_type=str | None)]


class Spoken(BaseModel):
    """What one source says of a clip, in the order of its times.

    `source` is `sidecar` (a subtitle file beside the video), `stream` (subtitles inside it) or `recognised`; `language`
    is a BCP 47 tag, None where it is not known.
    """

    model_config = ConfigDict(from_attributes=True)
    source: SpeechSource
    language: str | None
    utterances: list[SpokenWords]

    @staticmethod
    def of(transcripts: Sequence[Transcript]) -> list[Spoken]:
        return [Spoken.model_validate(one) for one in transcripts if one.utterances]


@dataclass(frozen=True, kw_only=True)
class Clip(ClipDetail):
    """Everything that the library knows about one clip.

    `shots` are start and end of each in seconds; none where they were not looked for.
    """

    __pydantic_config__ = WHOLE
    duration_s: Seconds
    fps: Seconds
    signs: tuple[Sign, ...]
    notes: tuple[Text, ...]
    metadata: Facts
    media: str
    preview_part_s: float = PREVIEW_PART_S

    @staticmethod
    def of(detail: ClipDetail) -> Clip:
        signs = tuple(map(Sign.of, detail.signs))
        return Clip(**vars(detail) | {"signs": signs, "media": f"/api/v1/clips/{detail.clip_id}/media"})

    @computed_field  # type: ignore[prop-decorator]
    @property
    def media_type(self) -> str:
        return media_type(self.container, self.codec)


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

    @staticmethod
    def of(library: Library, *, vision: bool, opens_folders: bool) -> Stats:
        stats = library.stats()
        return Stats(
            name=_library_name(stats.library),
            signs=stats.tracks,
            set_aside=len(stats.set_aside),
            model=_model_name(stats.model) if stats.model else None,
            sampling=stats.rule,
            vision=vision,
            opens_folders=opens_folders,
            examples=library.examples(),
            facets=[_facet(facet) for facet in library.facets() if printable(facet.column) == facet.column],
            **{name: getattr(stats, name) for name in ("files", "clips", "moments", "hours", "missing")},
        )


@dataclass(frozen=True, kw_only=True)
class LibraryFile(ListedFile):
    """A file of the library; `reason` and `sentence` say why one was set aside, `still` is the address of a picture."""

    sentence: Annotated[str | None, PlainSerializer(lambda told: told and printable(told), return_type=str | None)]
    duration_s: Seconds

    @computed_field  # type: ignore[prop-decorator]
    @property
    def still(self) -> str | None:
        shown = self.state == "indexed" and self.clip_id is not None
        return still_address(self.clip_id or "", (self.duration_s or 0.0) / 2) if shown else None


@dataclass(frozen=True, kw_only=True)
class Files(FilePage):
    """A page of the files that match, and how many there are in all."""

    files: tuple[LibraryFile, ...]

    @staticmethod
    def of(page: FilePage) -> Files:
        return Files(total=page.total, files=tuple(LibraryFile(**vars(file)) for file in page.files))


@dataclass(frozen=True, kw_only=True)
class ListedClip(Named, BrowsedClip):
    """A clip without a query; `day` is when it was recorded, or last changed where its file does not say."""

    path: HiddenText
    folder: str
    duration_s: Seconds
    metadata: Facts

    @computed_field  # type: ignore[prop-decorator]
    @property
    def still(self) -> str:
        return still_address(self.clip_id, (self.duration_s or 0.0) / 2)


@dataclass(frozen=True, kw_only=True)
class ListedClips(BrowsedPage):
    """A page of clips without a query, and how many there are in all."""

    clips: tuple[ListedClip, ...]

    @staticmethod
    def of(page: BrowsedPage, roots: Sequence[str]) -> ListedClips:
        clips = tuple(ListedClip(**vars(clip), folder=folder_of(clip.path, roots)) for clip in page.clips)
        return ListedClips(total=page.total, clips=clips)


class NewMark(BaseModel):
    """What is to be said of a clip, or of a moment of it; None leaves a favourite or note as it is."""

    time_s: Annotated[float | None, Field(ge=0, le=LATEST_S, allow_inf_nan=False)] = None
    favourite: bool | None = None
    note: Annotated[str | None, Field(max_length=LONGEST_NOTE)] = None


class MarkRecord(BaseModel):
    """A favourite or a note, with the clip that it is on now.

    `clip_id` is that clip; of a clip whose file is gone, the one that it was made for. `state` is `here`, `replaced`
    where the file has another content than it had, or `gone`. `made` is ISO 8601 in UTC.
    """

    clip_id: str
    time_s: float | None
    favourite: bool
    note: str
    made: str
    state: MarkState
    name: str
    folder: str
    duration_s: float | None
    still: str | None


class NewSearch(BaseModel):
    """A search to be saved; its name is the query where it has none."""

    query: Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY)]
    where: Annotated[str | None, Field(max_length=4_000)] = None
    name: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None


class SavedRecord(BaseModel):
    """A saved search; `looked` is when somebody last looked at what it finds, ISO 8601 in UTC."""

    name: str
    query: str
    where: str | None
    looked: str


class SavedNews(BaseModel):
    """What a saved search finds that it had not shown before: ids of these clips, the best first."""

    name: str
    new: list[str]


@dataclass(frozen=True, kw_only=True)
class HighlightedClip(Named, UnlikeClip):
    """A clip that is unlike those before it; `apart` is its cosine distance to the nearest of them."""

    path: HiddenText
    folder: str
    duration_s: Seconds
    still: str


@dataclass(frozen=True, kw_only=True)
class Highlights(UnlikeClips):
    """Clips that are unlike the rest, in the order of choice; `compared` of `total` clips were looked at."""

    clips: tuple[HighlightedClip, ...]

    @staticmethod
    def of(found: UnlikeClips, roots: tuple[str, ...]) -> Highlights:
        clips = tuple(
            HighlightedClip(
                **vars(clip),
                folder=folder_of(clip.path, roots),
                still=still_address(clip.clip_id, clip.time_s),
            )
            for clip in found.clips
        )
        return Highlights(**vars(found) | {"clips": clips})


class Retry(BaseModel):
    """A run that tries again what was set aside: `state` is `idle`, `running`, `done` or `failed`."""

    state: str
    sentence: str


class Health(BaseModel):
    """State of the server, and of its model: `loading`, `ready`, `none` or `failed`."""

    status: str
    model: str


def mark_records(library: Library, marks: tuple[PlacedMark, ...] | list[PlacedMark]) -> list[MarkRecord]:
    roots = library.roots()
    return [
        MarkRecord(
            clip_id=one.clip_id or one.mark.clip_id,
            time_s=one.mark.time_s,
            favourite=one.mark.favourite,
            note=one.mark.note,
            made=one.mark.made,
            state=one.state,
            name=printable(PurePath(one.path).name),
            folder=folder_of(one.path, roots),
            duration_s=finite(one.duration_s),
            still=still_address(one.clip_id, one.mark.time_s or (one.duration_s or 0.0) / 2) if one.clip_id else None,
        )
        for one in marks
    ]


def still_address(clip_id: str, time_s: float) -> str:
    return f"/api/v1/clips/{clip_id}/still?t={time_s:.3f}"


def as_json(record: Any) -> bytes:
    kind = type(record)
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind].dump_json(record)


def about(summary: str, answer: Any, *problems: int) -> dict[str, Any]:
    """What the OpenAPI document says of an address: what it answers with, a record or a media type, and refusals."""
    refusals: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (*EVERYWHERE, *problems)}
    if answer is None:
        return {"summary": summary, "status_code": 204, "response_class": Response, "responses": refusals}
    if isinstance(answer, str):
        sent = {"description": summary, "content": {answer: {"schema": {"type": "string", "format": "binary"}}}}
        return {"summary": summary, "response_class": Response, "responses": {200: sent, **refusals}}
    return {"summary": summary, "response_model": answer, "responses": refusals}


def add_reading(router: APIRouter, path: str, endpoint: Callable[..., Any], described: dict[str, Any]) -> None:
    """Add a route that reads, whose head can be asked for too."""
    router.add_api_route(path, endpoint, methods=["GET"], **described)
    router.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)


def _library_name(folder: str | Path) -> str:
    """Name of a library on the page: that of its folder, which of the one that is used unasked tells nothing."""
    name = PurePath(folder).name
    unasked = os.path.abspath(folder) == os.path.abspath(default_library()) and name == "library"
    return YOUR_VIDEOS if unasked else printable(name)


def _model_name(model: str) -> str:
    """A hub id; of a folder, the last part of its path alone."""
    return printable(PurePath(model).name if PurePath(model).is_absolute() else model)


def _facet(facet: Facet) -> Facet:
    """Without values that would have to be changed to be shown: a filter could not find them."""
    values = [one for one in facet.values if not isinstance(one.value, str) or printable(one.value) == one.value]
    return replace(facet, values=tuple(values))
