"""Conversion of what the library returns to the records of the API."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from evenreel.config import default_library
from evenreel.library import contents
from evenreel.library.browsing import BrowsedPage
from evenreel.library.facets import Facet
from evenreel.library.result_bias import SOURCE
from evenreel.library.search.highlights import marks
from evenreel.library.search.hits import FoldedHit, Hit, SearchResult, TextHit
from evenreel.server.media_files import media_type
from evenreel.server.pictures import PREVIEW_PART_S
from evenreel.server.records import (
    Clip,
    Files,
    FoldedClip,
    FoundClip,
    LibraryFile,
    ListedClip,
    ListedClips,
    MetadataValue,
    Moment,
    SearchAnswer,
    Sign,
    Spoken,
    SpokenWords,
    Stats,
)
from evenreel.speech import Transcript
from evenreel.types import Metadata
from evenreel.wording import is_printable, printable

if TYPE_CHECKING:
    from evenreel.library import Library

YOUR_VIDEOS = "Your videos"
"""What the library that is used unasked is called."""


@dataclass(frozen=True)
class Searched:
    """A finished search: its result, its filter, and the clip that could not be found by it (`similar`)."""

    result: SearchResult
    where: str | None
    left_out: str | None = None


def search_answer(library: Library, searched: Searched, notices: Sequence[str], took_ms: float) -> SearchAnswer:
    """Convert a search result, with the comparison of its clips with the library's."""
    result = searched.result
    favours = library.favours([hit.clip_id for hit in result.hits], searched.where, searched.left_out)
    roots = library.roots()
    return SearchAnswer(
        query=clean(result.query),
        steps=list(map(clean, result.steps)),
        matches=result.matches,
        answering=result.answering,
        notices=[*notices, *map(clean, result.notices), *_unknown(library, result)],
        hits=[_found(hit, roots) for hit in result.hits],
        favours=favours,
        took_ms=took_ms,
    )


def clip_answer(detail: contents.ClipDetail) -> Clip:
    """Convert the details of a clip."""
    return Clip(
        clip_id=detail.clip_id,
        name=detail.name,
        files=list(detail.files),
        duration_s=finite(detail.duration_s),
        container=detail.container,
        codec=detail.codec,
        width=detail.width,
        height=detail.height,
        fps=finite(detail.fps),
        moments=detail.moments,
        signs=[Sign(text=clean(sign.text), start_s=sign.start_s, end_s=sign.end_s) for sign in detail.signs],
        shots=list(detail.shots),
        notes=[clean(note) for note in detail.notes],
        metadata=clean_metadata(detail.metadata),
        media=media_address(detail.clip_id),
        media_type=media_type(detail.container, detail.codec),
        starts_s=detail.starts_s,
        preview_part_s=PREVIEW_PART_S,
    )


def spoken_answer(transcripts: Sequence[Transcript]) -> list[Spoken]:
    """Convert what is said in a clip, without sources that say nothing."""
    return [
        Spoken(
            source=one.source,
            language=one.language,
            utterances=[
                SpokenWords(
                    text=clean(said.text),
                    start_s=said.start_s,
                    end_s=said.end_s,
                    speaker=None if said.speaker is None else clean(said.speaker),
                )
                for said in one.utterances
            ],
        )
        for one in transcripts
        if one.utterances
    ]


def stats_answer(library: Library, *, vision: bool, opens_folders: bool) -> Stats:
    """Count what the library holds and list its facets."""
    stats = library.stats()
    return Stats(
        name=_library_name(stats.library),
        files=stats.files,
        clips=stats.clips,
        moments=stats.moments,
        signs=stats.tracks,
        hours=stats.hours,
        missing=stats.missing,
        set_aside=len(stats.set_aside),
        model=_model_name(stats.model) if stats.model else None,
        sampling=stats.rule,
        vision=vision,
        opens_folders=opens_folders,
        examples=library.examples(),
        facets=[_facet(facet) for facet in library.facets() if clean(facet.column) == facet.column],
    )


def files_answer(found: contents.FilePage) -> Files:
    """Convert a page of the library's files."""
    return Files(total=found.total, files=[_library_file(file) for file in found.files])


def media_address(clip_id: str) -> str:
    """Return the address of a clip's bytes."""
    return f"/api/v1/clips/{clip_id}/media"


def still_address(clip_id: str, time_s: float) -> str:
    """Return the address of the picture of a moment."""
    return f"/api/v1/clips/{clip_id}/still?t={time_s:.3f}"


def clean(text: str) -> str:
    """Clean text from files for any JSON reader: no lone surrogates, no control characters."""
    return printable(text)


def clean_metadata(metadata: Metadata) -> dict[str, MetadataValue]:
    """Replace metadata values that JSON has no form for by None, and clean the texts."""
    return {clean(key): clean(value) if isinstance(value, str) else _number(value) for key, value in metadata.items()}


def finite(number: float | None) -> float | None:
    """Return a number, None where it is not finite."""
    return number if number is not None and math.isfinite(number) else None


def _unknown(library: Library, result: SearchResult) -> list[str]:
    """The sentence on clips that the model cannot know, where pictures were searched."""
    seen = any("seen" in hit.scores for hit in result.hits)
    sentence = library.unknown_to_model() if seen else None
    return [] if sentence is None else [sentence]


def _library_name(folder: str | Path) -> str:
    """Name of a library on the page: that of its folder, which of the one that is used unasked tells nothing."""
    name = PurePath(folder).name
    unasked = os.path.abspath(folder) == os.path.abspath(default_library()) and name == "library"
    return YOUR_VIDEOS if unasked else clean(name)


def _model_name(model: str) -> str:
    """A hub id; of a folder, the last part of its path alone."""
    return clean(PurePath(model).name if PurePath(model).is_absolute() else model)


def _number(value: int | float | bool | None) -> MetadataValue:
    return finite(value) if isinstance(value, float) else value


def browse_answer(found: BrowsedPage, roots: Sequence[str]) -> ListedClips:
    """Convert a page of clips without a query; pictures are of the middle of each."""
    return ListedClips(
        total=found.total,
        clips=[
            ListedClip(
                clip_id=clip.clip_id,
                name=clean(PurePath(clip.path).name),
                folder=contents.folder_of(clip.path, roots),
                day=clip.day,
                duration_s=finite(clip.duration_s),
                metadata=clean_metadata(clip.metadata),
                still=still_address(clip.clip_id, (clip.duration_s or 0.0) / 2),
            )
            for clip in found.clips
        ],
    )


def _found(hit: Hit, roots: Sequence[str]) -> FoundClip:
    source = hit.metadata.get(SOURCE)
    middle_s = (hit.duration_s or 0.0) / 2
    return FoundClip(
        clip_id=hit.clip_id,
        name=clean(PurePath(hit.path).name),
        folder=contents.folder_of(hit.path, roots),
        duration_s=finite(hit.duration_s),
        source=clean(str(source)) if source is not None else None,
        score=hit.score,
        weaker=hit.weaker,
        above_nonsense=hit.above_nonsense,
        written=min(1.0, hit.written),
        scores=_finite_scores(hit.scores),
        moments=[Moment(**vars(at), still=still_address(hit.clip_id, at.time_s)) for at in hit.moments],
        steps=[Moment(**vars(at), still=still_address(hit.clip_id, at.time_s)) for at in hit.steps],
        on_screen=[_sign(sign) for sign in hit.on_screen],
        said=[_sign(said) for said in hit.said],
        sounds=hit.sounds,
        parts=_finite_scores(hit.parts),
        none_read=hit.none_read,
        metadata=clean_metadata(hit.metadata),
        other_files=[clean(PurePath(other).name) for other in hit.other_paths],
        folded=[_folded(one, roots) for one in hit.folded],
        still=still_address(hit.clip_id, hit.moments[0].time_s if hit.moments else middle_s),
    )


def _folded(hit: FoldedHit, roots: Sequence[str]) -> FoldedClip:
    time_s = (hit.duration_s or 0.0) / 2 if hit.time_s is None else hit.time_s
    return FoldedClip(
        clip_id=hit.clip_id,
        name=clean(PurePath(hit.path).name),
        folder=contents.folder_of(hit.path, roots),
        duration_s=finite(hit.duration_s),
        time_s=time_s,
        distance=hit.distance,
        still=still_address(hit.clip_id, time_s),
    )


def _facet(facet: Facet) -> Facet:
    """Without values that would have to be changed to be shown: a filter could not find them."""
    values = [found for found in facet.values if not isinstance(found.value, str) or clean(found.value) == found.value]
    return replace(facet, values=tuple(values))


def _finite_scores(scores: Mapping[str, float]) -> dict[str, float]:
    return {channel: score for channel, score in scores.items() if math.isfinite(score)}


def _sign(hit: TextHit) -> Sign:
    text = "".join(letter if is_printable(letter) else " " for letter in hit.text)
    return Sign(text=text, start_s=hit.start_s, end_s=hit.end_s, marks=list(marks(text, hit.matched, hit.found)))


def _library_file(file: contents.ListedFile) -> LibraryFile:
    shown = file.state == "indexed" and file.clip_id is not None
    cleaned = replace(
        file, sentence=clean(file.sentence) if file.sentence else None, duration_s=finite(file.duration_s)
    )
    still = still_address(file.clip_id or "", (file.duration_s or 0.0) / 2) if shown else None
    return LibraryFile(**asdict(cleaned), still=still)
