"""The REST API: the records that it answers with, its routes, what they take, and their limits.

Records are the library's own, with what only a server knows: addresses, and names and folders in place of paths, so
that no answer shows how a disk is laid out. Times are seconds on the timeline that a player shows. Text that comes from
files is as it is there, made printable; whoever shows it escapes it. Marks and saved searches alone write: tables of a
person's own (`evenreel.library.personal`), which any number of processes may serve.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, StringConstraints, TypeAdapter, computed_field

from evenreel.config import default_library
from evenreel.errors import EvenreelError, UsageError
from evenreel.files import is_printable, printable
from evenreel.library import Library, Marked, Then, UnfinishedText, Without
from evenreel.library.contents import (
    BrowsedClip,
    BrowsedPage,
    BrowseOrder,
    ClipDetail,
    Examples,
    Facet,
    FileOrder,
    FilePage,
    ListedFile,
    TriedExample,
)
from evenreel.library.favours import SOURCE, Favours, Share
from evenreel.library.people import LONGEST_NAME as PERSON_NAME
from evenreel.library.people import person_still
from evenreel.library.personal import LONGEST_NAME, LONGEST_NOTE, MarkState, PlacedMark, SavedSearch
from evenreel.library.search.alike import UnlikeClip, UnlikeClips
from evenreel.library.search.asking import (
    MOST_MARKS,
    MOST_WITHIN_S,
    ONE_QUERY,
    WITHIN_S,
    Question,
    read_mark,
    read_question,
)
from evenreel.library.search.query import PausedText
from evenreel.library.search.result import FoldedHit, Hit, MomentHit, SearchResult, TextHit
from evenreel.library.search.words import marks
from evenreel.library.store.catalog import folder_of
from evenreel.server.desk import Desk, library_version
from evenreel.server.local import ADDRESS, NONCE, PROOF, proof, read_note
from evenreel.server.media import PREVIEW_PART_S, Pictures, Playback, SentAs, Uploads, media_type
from evenreel.server.settings import MOST_RESULTS
from evenreel.speech import SpeechSource
from evenreel.types import Metadata

LATEST_S = 1e6
LONGEST_QUERY = 2_000
EVERYWHERE = (400, 401, 403, 422, 503)
"""Refusals of every address: host, token, origin, a parameter that is none, too many waiting."""

MetadataValue = str | int | float | bool | None
ClipId = Annotated[str, InPath(pattern="^[0-9a-f]{32}$", description="Digest of the clip's content.")]
Where = Annotated[str | None, Query(max_length=4_000, description="Filter, as `evenreel search --where` takes it.")]

FILES_AT_ONCE = 200
FURTHEST_FILE = 10**9
MOST_HIGHLIGHTS = 100
FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
"""Header of what never changes: a clip's id is a digest of its content, and so is what is made from it."""
PICTURE = {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
"""What `POST /api/v1/search/image` takes, in the words of OpenAPI."""

Sentence = Annotated[
    str,
    Query(
        max_length=LONGEST_QUERY,
        description="What is to be seen, read on screen, said or heard; in quotes, words as they are written and no "
        "pictures; said:, on-screen:, seen: or sounds: before it chooses one of the four.",
    ),
]
Marks = list[Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}(@[0-9]{1,7}(\.[0-9]{1,6})?)?$")]]
Words = Annotated[
    str, Query(max_length=LONGEST_QUERY, description="What is to be seen beside what the picture shows: 'at night'.")
]
Count = Annotated[int, Query(ge=1, le=MOST_RESULTS, description="How many clips at most.")]
Rerank = Annotated[bool, Query(description="Let the server's matcher order the first clips anew, where it has one.")]
Fold = Annotated[bool, Query(description="Put clips that are nearly the same under the best of them.")]
Time = Annotated[float, Query(ge=0, le=LATEST_S, allow_inf_nan=False, description="From the clip's start.")]
PartNumber = Annotated[int, Query(ge=0, le=int(LATEST_S / PREVIEW_PART_S), description="Parts follow one another.")]
Width = Annotated[int, Query(ge=16, le=1280, description="In pixels; the next larger of a few is sent.")]
At = Annotated[
    float | None, Query(ge=0, le=LATEST_S, allow_inf_nan=False, description="The moment; the whole clip without it.")
]
Who = Annotated[str, Query(min_length=1, max_length=PERSON_NAME, description="Name or number of the person.")]
Typing = Annotated[bool, Query(description="The sentence is still typed: its last word may be the beginning of one.")]
Paused = Annotated[bool, Query(description="With `typing`, in a pause: a slow model reads it to its end, too.")]
SavedName = Annotated[str, Query(min_length=1, max_length=LONGEST_NAME, description="Name of the saved search.")]


def finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def clean_metadata(metadata: Metadata) -> dict[str, MetadataValue]:
    """Replace metadata values that JSON has no form for by None, and make the texts printable."""
    return {
        printable(key): printable(one) if isinstance(one, str) else finite(one) if isinstance(one, float) else one
        for key, one in metadata.items()
    }


def finite_scores(scores: Mapping[str, float]) -> dict[str, float]:
    return {channel: score for channel, score in scores.items() if math.isfinite(score)}


Text = Annotated[str, PlainSerializer(printable, return_type=str)]
Seconds = Annotated[float | None, PlainSerializer(finite, return_type=float | None)]
Scores = Annotated[dict[str, float], PlainSerializer(finite_scores, return_type=dict[str, float])]
Facts = Annotated[Metadata, PlainSerializer(clean_metadata, return_type=dict[str, MetadataValue])]
HiddenText = Annotated[str, Field(exclude=True)]
HiddenTexts = Annotated[tuple[str, ...], Field(exclude=True)]
WHOLE = ConfigDict(json_schema_serialization_defaults_required=True)
"""Configuration of a record all of whose fields are in each answer."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """A record of a clip at a `path`, which is told by its name and folder alone."""

    path: HiddenText
    folder: str
    duration_s: Seconds

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

    `distance` is 1 minus the mean cosine of its moments with those of the better one. `reason` says what it is to that:
    another `take`, the `same` film encoded anew, a `part` of it, or the `whole` that has it as a part; `from_s` is
    where the part begins in the whole, null for the others.
    """

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

    `weaker` says whether it is a weaker match, behind the line: less than half of the words are there, its frames and
    its sound beat less than 90 % of nonsense queries, and its texts mean something else; None where that is not
    measured (pictures, 'more like this'). `above_nonsense` is the share of nonsense queries that do worse on every clip
    of the library than the query does on this one by its frames: a rank, no probability; None where that is not
    measured. `written` is the share of the query's words, rare ones weighing more, that is written on the clip, said in
    it, in its name or in its caption. `scores` has one of each channel that found the clip (`seen`, `on_screen`,
    `said`, `about`, `meaning`, `sounds`); `meaning` is the line that says it in other words, unless `said` or
    `on_screen` have it; and `reranked`, the matcher's, where one ordered the clip anew; `parts` are what that is the
    mean of, where the matcher tells: similarity to what is `seen`, to what is read `on_screen`, and to `both` together;
    `none_read`: there was nothing to read on it, or it was not read, and the part `on_screen` is of what the matcher
    learned to put in its place. `steps` are the moments of a search for one after another, in order; `scores` then has
    how far each is above nonsense (`first`, `then`). `still` is the address of its picture: of its best moment, of the
    middle of the clip where no moment was found. `folded` are clips that are nearly the same and answer less well.
    """

    __pydantic_config__ = WHOLE
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
            "meaning": hit.meaning and replace(hit.meaning, text=printable(hit.meaning.text)),
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

    @computed_field  # type: ignore[prop-decorator]
    @property
    def media_type(self) -> str:
        return media_type(self.container, self.codec)


class Stats(BaseModel):
    """Counts of what the library holds; `vision` says whether pictures can be searched for.

    `notices` are sentences on what is true of every search of it.
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
    notices: list[Text]

    @staticmethod
    def of(library: Library, *, notices: Sequence[str], vision: bool, opens_folders: bool) -> Stats:
        stats = library.stats()
        folder = PurePath(stats.library)
        # The library that is used unasked lies in a folder whose name tells nothing.
        unasked = os.path.abspath(folder) == os.path.abspath(default_library()) and folder.name == "library"
        model = PurePath(stats.model or "")  # a hub id; of a folder, the last part of its path alone
        return Stats(
            name="Your videos" if unasked else printable(folder.name),
            signs=stats.tracks,
            set_aside=len(stats.set_aside),
            model=printable(model.name if model.is_absolute() else stats.model) if stats.model else None,
            sampling=stats.rule,
            vision=vision,
            opens_folders=opens_folders,
            examples=library.examples(),
            notices=[*notices, *library.notices()],
            facets=[_facet(facet) for facet in library.facets() if printable(facet.column) == facet.column],
            **{name: getattr(stats, name) for name in ("files", "clips", "moments", "hours", "missing")},
        )


@dataclass(frozen=True, kw_only=True)
class LibraryFile(ListedFile):
    """A file of the library; `reason` and `sentence` say why one was skipped, `still` is the address of a picture."""

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


@dataclass(frozen=True, kw_only=True)
class ListedClip(Named, BrowsedClip):
    """A clip without a query; `day` is when it was recorded, or last changed where its file does not say."""

    metadata: Facts

    @computed_field  # type: ignore[prop-decorator]
    @property
    def still(self) -> str:
        return still_address(self.clip_id, (self.duration_s or 0.0) / 2)


@dataclass(frozen=True, kw_only=True)
class ListedClips(BrowsedPage):
    """A page of clips without a query, and how many there are in all."""

    clips: tuple[ListedClip, ...]


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

    still: str


@dataclass(frozen=True, kw_only=True)
class Highlights(UnlikeClips):
    """Clips that are unlike the rest, in the order of choice; `compared` of `total` clips were looked at."""

    clips: tuple[HighlightedClip, ...]


class Health(BaseModel):
    """State of the server, and of its model: `loading`, `ready`, `none` or `failed`."""

    status: str
    model: str


def mark_records(library: Library, marks: Sequence[PlacedMark]) -> list[MarkRecord]:
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


_adapter = cache(TypeAdapter[Any])


def as_json(record: Any) -> bytes:
    kind: Any = type(record)
    return _adapter(kind).dump_json(record)


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
    router.add_api_route(path, endpoint, methods=["GET"], **described)
    router.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)


def _facet(facet: Facet) -> Facet:
    """Without values that would have to be changed to be shown: a filter could not find them."""
    values = [one for one in facet.values if not isinstance(one.value, str) or printable(one.value) == one.value]
    return replace(facet, values=tuple(values))


def kind_of_text(typing: Typing = False, paused: Paused = False) -> type[str]:
    return str if not typing else PausedText if paused else UnfinishedText


def asked_for(
    q: Sentence,
    then: Annotated[str, Query(max_length=LONGEST_QUERY, description="What is to come after `q` in a clip.")] = "",
    within: Annotated[
        float,
        Query(gt=0, le=MOST_WITHIN_S, allow_inf_nan=False, description="Most seconds from one moment to the other."),
    ] = WITHIN_S,
    right: Annotated[Marks, Query(max_length=MOST_MARKS, description="Clips that are it: ID or ID@SECONDS.")] = [],  # noqa: B006
    wrong: Annotated[Marks, Query(max_length=MOST_MARKS, description="Clips that are not it.")] = [],  # noqa: B006
    made: Annotated[type[str], Depends(kind_of_text)] = str,
) -> tuple[Question, type[str]]:
    """What is asked of the library with a sentence, which with `then` is not looked through for one; and its kind."""
    asked: str | Then | Without = Then(q, made(then), within) if then.strip() else read_question(made(q), within)
    marks = (*(read_mark(one, right=True) for one in right), *(read_mark(one, right=False) for one in wrong))
    if not marks:
        return asked, made
    if not isinstance(asked, str):
        raise UsageError(ONE_QUERY)
    return Marked(asked, marks), made


@dataclass(frozen=True)
class PictureWays:
    fold: Fold = True
    q: Words = ""

    @property
    def words(self) -> str | None:
        return self.q.strip() or None


@dataclass(frozen=True)
class Wanted:
    """A search that is to be run: for `k` clips that pass `where`, but for the one that it cannot find (`left_out`)."""

    search: Callable[[Library, int], SearchResult]
    k: int
    where: str | None
    fold: bool
    left_out: str | None = None


class Api:
    def __init__(self, desk: Desk, pictures: Pictures, uploads: Uploads, playback: Playback) -> None:
        self._desk, self._pictures, self._uploads, self._playback = desk, pictures, uploads, playback

    def router(self) -> APIRouter:
        router = APIRouter(prefix="/api/v1")
        media = about("The clip's file, or ranges of it.", "video/*", 404, 416)
        media["responses"][206] = {**media["responses"][200], "description": "Ranges of the file."}
        for path, endpoint, described in (
            ("/search", self.search, about("Clips that answer a sentence, best first.", SearchAnswer, 404)),
            ("/clips/{clip_id}/similar", self.similar, about("Clips that look like a clip.", SearchAnswer, 404)),
            ("/clips/{clip_id}", self.clip, about("All that is known of a clip.", Clip, 404)),
            ("/clips/{clip_id}/transcripts", self.transcripts, about("What is said in a clip.", list[Spoken], 404)),
            ("/clips/{clip_id}/media", self.media, media),
            ("/clips/{clip_id}/still", self.still, about("What is on screen at a time.", "image/jpeg", 404)),
            ("/clips/{clip_id}/preview", self.preview, about("A part of it, small and silent.", "video/mp4", 404)),
            ("/stats", self.stats, about("What the library holds and can be filtered by.", Stats)),
            ("/examples", self.examples, about("Searches that some clip answers.", list[TriedExample])),
            ("/browse", self.browse, about("Clips without a query, by day or by path.", ListedClips)),
            ("/files", self.files, about("Files of the library, also those that were skipped.", Files)),
            ("/health", self.health, about("Whether the server answers and its model is loaded.", Health)),
            ("/marks", self.marks, about("Favourites and notes.", list[MarkRecord])),
            ("/saved", self.saved, about("Saved searches.", list[SavedRecord])),
            ("/saved/news", self.news, about("What a saved search finds that is new.", SavedNews, 404)),
            ("/highlights", self.highlights, about("Clips that are unlike the rest.", Highlights)),
            ("/people/still", self.face, about("The surest face of a person.", "image/jpeg", 404)),
        ):
            add_reading(router, path, endpoint, described)
        described = about("Clips with a frame that looks like a picture.", SearchAnswer, 408, 413, 415)
        described["openapi_extra"] = {"requestBody": PICTURE}
        router.add_api_route("/search/image", self.search_image, methods=["POST"], **described)
        for method, path, writes, described in (
            ("POST", "/clips/{clip_id}/mark", self.mark, about("Make a favourite, write a note.", MarkRecord, 404)),
            ("DELETE", "/clips/{clip_id}/mark", self.unmark, about("Delete a favourite and its note.", None, 404)),
            ("POST", "/saved", self.save, about("Save a search; what it finds now is seen.", SavedRecord)),
            ("DELETE", "/saved", self.remove, about("Delete a saved search.", None, 404)),
            ("POST", "/saved/seen", self.seen, about("The same, and none of it is new from now on.", SavedNews, 404)),
        ):
            router.add_api_route(path, writes, methods=[method], **described)
        own = ADDRESS.removeprefix(router.prefix)
        router.add_api_route(own, self.own, methods=["POST"], include_in_schema=False)
        return router

    async def search(
        self,
        sentence: Annotated[tuple[Question, type[str]], Depends(asked_for)],
        where: Where = None,
        k: Count = 20,
        rerank: Rerank = True,
        fold: Fold = True,
    ) -> Response:
        """Search clips by what is seen, written and said, see `Library.search`."""
        self._desk.need_model()
        asked, kind = sentence
        matcher = self._desk.matcher if rerank and isinstance(asked, str) else None
        depth = self._desk.settings.rerank_depth

        def found(library: Library, most: int) -> SearchResult:
            return library.search(asked, most, where, rerank=matcher, rerank_depth=depth)

        key = ("text", asked, kind, where, k, fold, matcher is not None)
        return await self._found(Wanted(found, k, where, fold), key, rerank=matcher is not None)

    async def own(self, request: Request) -> Response:
        """Answer a command of whoever runs the server (`evenreel.server.local`); with nothing, where it cannot."""
        body, nonce = await request.body(), request.headers.get(NONCE, "")
        secret, shown = (read_note(self._desk.place) or {}).get("secret", ""), request.headers.get(PROOF, "")
        if not secret or not hmac.compare_digest(proof(secret, "question", nonce, body).encode(), shown.encode()):
            return Response(status_code=404)

        async def answer() -> AsyncIterator[bytes]:
            text = b""
            with suppress(EvenreelError, KeyError, TypeError, ValueError):  # the command finds out why
                text = await self._own_answer(json.loads(body))
            yield f"{proof(secret, 'answer', nonce, text)}\n".encode() + text

        return StreamingResponse(answer(), media_type="application/json")  # its head is sent before the search

    async def _own_answer(self, asked: dict[str, Any]) -> bytes:
        """The answer of `evenreel search`, which this library gives at full paths, not as visitors may see it."""
        question = read_question(asked["query"], asked["within_s"] or WITHIN_S)

        def found(library: Library) -> bytes:
            states = [list(one) for one in library_version(library.path)]
            if not self._desk.is_whole(asked["device"]) or states != asked["states"]:
                return b""
            search = partial(library.search, question, where=asked["where"])
            result = library.folded(search, asked["k"]) if asked["fold"] else search(asked["k"])
            told = replace(result, notices=(*filter(None, [library.unknown_to_model()]), *result.notices)).to_json()
            for said in (said for hit in told["hits"] if asked["marks"] for said in hit["said"]):
                said["marks"] = marks(said["text"], said["matched"], said["found"])
            return json.dumps(told).encode() if result.hits else b""

        return await self._desk.query(found, model=True)

    async def search_image(
        self, request: Request, asked: Annotated[PictureWays, Depends()], where: Where = None, k: Count = 20
    ) -> Response:
        self._desk.need_vision()
        async with self._uploads.picture(request) as pixels:

            def found(library: Library, most: int) -> SearchResult:
                return library.search_image(pixels, most, where, words=asked.words)

            return await self._found(Wanted(found, k, where, asked.fold))

    async def similar(
        self,
        clip_id: ClipId,
        t: Time | None = None,
        where: Where = None,
        k: Count = 20,
        asked: Annotated[PictureWays, Depends()] = PictureWays(),
    ) -> Response:

        def found(library: Library, most: int) -> SearchResult:
            return library.similar(clip_id, t, most, where, words=asked.words)

        key, needs_model = ("similar", clip_id, t, where, k, asked), asked.words is not None
        return await self._found(Wanted(found, k, where, asked.fold, clip_id), key, model=needs_model)

    async def clip(self, clip_id: ClipId) -> Response:
        clip = await self._desk.look_up(lambda library: library.clip(clip_id))
        added = {"signs": tuple(map(Sign.of, clip.signs)), "media": f"/api/v1/clips/{clip_id}/media"}
        return _json(as_json(Clip(**vars(clip) | added)))

    async def transcripts(self, clip_id: ClipId) -> list[Spoken]:
        found = await self._desk.look_up(lambda library: library.transcripts(clip_id))
        return [Spoken.model_validate(one) for one in found if one.utterances]

    async def media(self, clip_id: ClipId) -> Response:
        return await self._playback.media(clip_id)

    async def still(self, clip_id: ClipId, t: Time = 0.0, width: Width = 320) -> Response:
        """Send the picture on screen at a time, or the last one where the clip ends before it."""
        clip = await self._desk.locate(clip_id)
        time_s = t if clip.duration_s is None else min(t, clip.duration_s)
        picture = await asyncio.to_thread(self._pictures.kept_still, clip_id, time_s, width)
        if picture is None:
            picture = await self._pictures.still(clip_id, await self._playback.unchanged(clip_id, clip), time_s, width)
        return Response(picture, media_type="image/jpeg", headers=FOR_EVER)

    async def preview(self, clip_id: ClipId, part: PartNumber = 0) -> Response:
        """Send a part of a clip re-encoded, for browsers that cannot show the file; made once, then cached."""
        clip = await self._desk.locate(clip_id)
        made = self._pictures.preview_path(clip_id, part)
        if not await asyncio.to_thread(made.is_file):
            made = await self._pictures.preview(clip_id, await self._playback.unchanged(clip_id, clip), part)
        return await self._playback.sent(made, SentAs("video/mp4", made.name, made.stem))

    async def stats(self) -> Response:
        vision, notices = self._desk.model in {"loading", "ready"}, self._desk.notices()
        opens = self._desk.settings.open_folders
        made = partial(Stats.of, notices=notices, vision=vision, opens_folders=opens)
        return _json(await self._desk.query_once(("stats", notices), lambda library: as_json(made(library))))

    async def examples(self) -> Response:
        self._desk.need_model()
        found = TypeAdapter(list[TriedExample])

        def answer(library: Library) -> bytes:
            return found.dump_json(library.tried_examples())

        return _json(await self._desk.query_once("examples", answer, model=True))

    async def files(
        self,
        state: Literal["indexed", "set_aside", "missing"] | None = None,
        text: Annotated[str, Query(max_length=400, description="Part of a name or folder.")] = "",
        limit: Annotated[int, Query(ge=1, le=FILES_AT_ONCE)] = 50,
        offset: Annotated[int, Query(ge=0, le=FURTHEST_FILE)] = 0,
        order: FileOrder = "path",
    ) -> Response:
        page = await self._desk.query(lambda library: library.files(state, text, limit, offset, order))
        return _json(as_json(Files(total=page.total, files=tuple(LibraryFile(**vars(file)) for file in page.files))))

    async def browse(
        self,
        where: Where = None,
        order: BrowseOrder = "latest",
        limit: Annotated[int, Query(ge=1, le=MOST_RESULTS)] = 48,
        offset: Annotated[int, Query(ge=0, le=FURTHEST_FILE)] = 0,
    ) -> Response:

        def answer(library: Library) -> bytes:
            page, roots = library.browse(where, order, limit, offset), library.roots()
            clips = tuple(ListedClip(**vars(clip), folder=folder_of(clip.path, roots)) for clip in page.clips)
            return as_json(ListedClips(total=page.total, clips=clips))

        return _json(await self._desk.query_once(("browse", where, order, limit, offset), answer))

    async def health(self) -> Health:
        """Return the state of the server and of its model; of several workers, those of the one that answers."""
        return Health(status="ok", model=self._desk.model)

    async def marks(self) -> list[MarkRecord]:
        return await self._desk.look_up(lambda library: mark_records(library, library.personal.marks()))

    async def mark(self, clip_id: ClipId, said: NewMark) -> MarkRecord:

        def written(library: Library) -> MarkRecord:
            mark = library.personal.mark(clip_id, said.time_s, favourite=said.favourite, note=said.note)
            gone = PlacedMark(mark, clip_id, mark.path, "here")  # where it says nothing any more
            return mark_records(library, [next((one for one in library.personal.marks() if one.mark == mark), gone)])[0]

        return await self._desk.query(written)

    async def unmark(self, clip_id: ClipId, t: At = None) -> Response:
        await self._desk.query(lambda library: library.personal.unmark(clip_id, t))
        return Response(status_code=204)

    async def saved(self) -> Sequence[SavedSearch]:
        return await self._desk.look_up(lambda library: library.personal.searches())

    async def save(self, search: NewSearch) -> SavedSearch:
        self._desk.need_model()
        named = search.query, search.where, search.name or None
        return await self._desk.query(lambda library: library.personal.save_search(*named), model=True)

    async def remove(self, name: SavedName) -> Response:
        await self._desk.query(lambda library: library.personal.remove_search(name))
        return Response(status_code=204)

    async def news(self, name: SavedName) -> SavedNews:
        return await self._news(name, keep=True)

    async def seen(self, name: SavedName) -> SavedNews:
        return await self._news(name, keep=False)

    async def highlights(
        self,
        where: Where = None,
        k: Annotated[int, Query(ge=1, le=MOST_HIGHLIGHTS, description="How many clips at most.")] = 12,
    ) -> Response:

        def answer(library: Library) -> bytes:
            found, roots = library.highlights(k=k, where=where), library.roots()
            placed = ((one, folder_of(one.path, roots), still_address(one.clip_id, one.time_s)) for one in found.clips)
            clips = tuple(HighlightedClip(**vars(one), folder=folder, still=still) for one, folder, still in placed)
            return as_json(Highlights(**vars(found) | {"clips": clips}))

        return _json(await self._desk.query_once(("highlights", where, k), answer))

    async def face(self, who: Who) -> Response:
        """Send the surest face of a person, which no browser keeps: it is gone when the person is forgotten."""
        jpeg = await self._desk.look_up(lambda library: person_still(library.path, who))
        return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "no-store"})

    async def _news(self, name: str, *, keep: bool) -> SavedNews:
        self._desk.need_model()
        found = await self._desk.query(lambda library: library.personal.run_search(name, keep=keep), model=True)
        return SavedNews(name=printable(name), new=[hit.clip_id for hit in found.new])

    async def _found(
        self, wanted: Wanted, key: Hashable = None, *, model: bool = True, rerank: bool = False
    ) -> Response:
        """The answer to a search; where it has a key, one that was given before is given again."""

        def answer(library: Library) -> bytes:
            began = time.perf_counter()
            search = partial(wanted.search, library)
            result = library.folded(search, wanted.k) if wanted.fold else search(wanted.k)
            took_ms, roots = 1000 * (time.perf_counter() - began), library.roots()
            shown = [hit.clip_id for hit in result.hits] if result.answering else []  # where nothing fits, of none
            favours = library.favours(shown, wanted.where, wanted.left_out, result.query)
            hits = tuple(FoundClip.of(hit, roots) for hit in result.hits)
            return as_json(SearchAnswer(**vars(result) | {"hits": hits}, favours=favours, took_ms=took_ms))

        if key is None:
            return _json(await self._desk.query(answer, model=model, rerank=rerank))
        return _json(await self._desk.query_once(key, answer, model=model, rerank=rerank))


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")
