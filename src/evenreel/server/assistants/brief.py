"""Shortening of what the REST API answers to what an assistant reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evenreel.library.facets import Facet
from evenreel.server.assistants.records import (
    LONGEST_TEXT,
    BriefAnswer,
    BriefHit,
    BriefMoment,
    ClipTexts,
    FilterHint,
    LibraryFacts,
    LibraryTexts,
    OpenedMoment,
    SourceLines,
    TimedWords,
    TranscriptPart,
)
from evenreel.server.records import Clip, FoundClip, MetadataValue, SearchAnswer, Sign, Spoken, SpokenWords, Stats

MOST_TEXTS = 3
"""Moments, signs and utterances of a clip that a result shows."""
MOST_COLUMNS = 12
"""Columns of a clip's metadata that are shown, and values of a column that a filter may take."""
MOST_FILTERS = 40
MOST_NEAR = 20
"""Signs, and utterances of a source, that are shown of a moment."""
NEAR_S = 10.0
"""Seconds before and after a moment of which it is told what was said."""
MOST_LINES = 100
"""Utterances of a transcript that are given at a time, of all sources together."""


def brief_answer(found: SearchAnswer) -> BriefAnswer:
    """Shorten a result; the clips that answer apart from weaker matches."""
    hits = [_brief_hit(hit) for hit in found.hits]
    return BriefAnswer(
        query=cut(found.query),
        matches=found.matches,
        answers=hits[: found.answering],
        nearest_others=hits[found.answering :],
        notices=found.notices,
    )


def opened_moment(clip: Clip, spoken: Sequence[Spoken], time_s: float, no_picture: str | None) -> OpenedMoment:
    """Take what is known of a clip at a time: the words on screen then, and what is said some seconds around it."""
    signs = (sign for sign in clip.signs if sign.start_s <= time_s <= sign.end_s)
    said = (line for source in spoken[:1] for line in source.utterances if _is_near(line, time_s))
    return OpenedMoment(
        clip_id=clip.clip_id,
        duration_s=clip.duration_s,
        time_s=time_s,
        shot=next(((start, end) for start, end in clip.shots if start <= time_s < end), None),
        no_picture=no_picture,
        from_files=ClipTexts(
            name=clip.name,
            folder=clip.files[0].folder if clip.files else "",
            on_screen=_timed(signs, MOST_NEAR),
            said=_timed(said, MOST_NEAR),
            metadata=_brief_metadata(clip.metadata),
        ),
    )


def transcript_part(clip_id: str, spoken: Sequence[Spoken], start_s: float, end_s: float | None) -> TranscriptPart:
    """Take the utterances that begin in a stretch, about the first `MOST_LINES` of them by their times."""
    lines = sorted(
        (
            (line.start_s, place, line)
            for place, source in enumerate(spoken)
            for line in source.utterances
            if line.start_s >= start_s and (end_s is None or line.start_s < end_s)
        ),
        key=lambda one: one[:2],
    )
    ends = _end_of_page([time for time, _, _ in lines])
    sources = [
        SourceLines(
            source=source.source,
            language=source.language,
            lines=_timed((line for _, at, line in lines[:ends] if at == place), ends),
        )
        for place, source in enumerate(spoken)
    ]
    goes_on = lines[ends][0] if ends < len(lines) else None
    return TranscriptPart(clip_id=clip_id, goes_on_at_s=goes_on, from_files=[one for one in sources if one.lines])


def library_facts(stats: Stats) -> LibraryFacts:
    """Shorten the counts of a library and what it can be filtered by."""
    return LibraryFacts(
        name=stats.name,
        clips=stats.clips,
        files=stats.files,
        hours=stats.hours,
        moments=stats.moments,
        missing=stats.missing,
        set_aside=stats.set_aside,
        vision=stats.vision,
        from_files=LibraryTexts(
            examples=stats.examples, filters=[_hint(facet) for facet in stats.facets[:MOST_FILTERS]]
        ),
    )


def cut(text: str) -> str:
    """Cut a text past `LONGEST_TEXT` characters.

    >>> len(cut("ab" * 500)), cut("a sign")
    (240, 'a sign')
    """
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def _brief_hit(hit: FoundClip) -> BriefHit:
    moments = [BriefMoment(time_s=at.time_s, start_s=at.start_s, end_s=at.end_s) for at in hit.moments[:MOST_TEXTS]]
    return BriefHit(
        clip_id=hit.clip_id,
        duration_s=hit.duration_s,
        found_by=[channel for channel in hit.scores if channel != "reranked"],
        moments=moments,
        from_files=ClipTexts(
            name=hit.name,
            folder=hit.folder,
            on_screen=_timed(hit.on_screen, MOST_TEXTS),
            said=_timed(hit.said, MOST_TEXTS),
            metadata=_brief_metadata(hit.metadata),
        ),
    )


def _is_near(line: SpokenWords, time_s: float) -> bool:
    return line.end_s >= time_s - NEAR_S and line.start_s <= time_s + NEAR_S


def _timed(words: Iterable[Sign | SpokenWords], most: int) -> list[TimedWords]:
    found = [
        TimedWords(text=cut(one.text), start_s=one.start_s, end_s=one.end_s, speaker=getattr(one, "speaker", None))
        for one in words
    ]
    return found[:most]


def _end_of_page(times: Sequence[float]) -> int:
    """Where a page ends, so that the time of the first line behind it says where to go on, and none is told twice."""
    end = min(MOST_LINES, len(times))
    first = end
    while 0 < first < len(times) and times[first - 1] == times[first]:
        first -= 1
    if first:
        return first
    while end < len(times) and times[end] == times[0]:  # more than a page begin at once
        end += 1
    return end


def _brief_metadata(metadata: Mapping[str, MetadataValue]) -> dict[str, MetadataValue]:
    known = [(key, value) for key, value in metadata.items() if value is not None]
    return {cut(key): cut(value) if isinstance(value, str) else value for key, value in known[:MOST_COLUMNS]}


def _hint(facet: Facet) -> FilterHint:
    values = [one.value for one in facet.values[:MOST_COLUMNS]]
    return FilterHint(column=facet.column, values=values, low=facet.low, high=facet.high)
