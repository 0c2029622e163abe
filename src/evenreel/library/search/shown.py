"""What is shown of the clips of an answer: their files, the texts that matched, and the moments that answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenreel.arrays import Column, Flags
from evenreel.files import first_there
from evenreel.library.search import filters, seen
from evenreel.library.search.hits import Channel, Hit, MomentHit, TextHit
from evenreel.library.search.moments import best_moments, shown, spoken, whole
from evenreel.library.search.query import EncodedQuery, Query
from evenreel.library.search.rank import Ranked
from evenreel.library.search.seen import ClipTimes
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.search.sounds import Heard
from evenreel.library.search.words import WordMatches, read_texts
from evenreel.library.store.catalog import load_metadata, loaded_path
from evenreel.types import FloatArray, Metadata


@dataclass(frozen=True, eq=False)
class Asked:
    """What the channels say of a library's clips under one query.

    Attributes:
        encoded: the query.
        allowed: (C,) clips that may be found.
        texts: what each channel of words says.
        vector: (D,) what frames were compared with; None where they were not.
        scores: (C,) similarity of each clip's best frame, -inf of those that were left out; None likewise.
        above: (C,) share of nonsense that each clip's frames beat; None likewise, and where that was not measured.
        heard: what the model of sounds hears; None for nothing.
        ranked: all of it together.
        notices: sentences for a person.
    """

    encoded: EncodedQuery
    allowed: Flags
    texts: Mapping[Channel, WordMatches]
    vector: FloatArray | None
    scores: FloatArray | None
    above: Column | None
    heard: Heard | None
    ranked: Ranked
    notices: list[str]

    @property
    def query(self) -> Query:
        """The query."""
        return self.encoded.query

    @property
    def measured(self) -> bool:
        """Whether it is told of clips that they are weaker matches."""
        return self.scores is None or self.above is not None


Judged = tuple[float, dict[str, float]]
"""Score of a clip by a matcher, and its parts."""


@dataclass(frozen=True)
class ClipFacts:
    """What the catalog says of a clip, whatever was asked for.

    Attributes:
        clip_id: its id.
        path: the file that is shown.
        duration_s: length of the clip in seconds; None where it is not known.
        metadata: metadata of the file.
        other_paths: the clip's other files.
        times: times of its frames and shots.
        has_tracks: whether anything was read on it.
    """

    clip_id: str
    path: str
    duration_s: float | None
    metadata: Metadata
    other_paths: tuple[str, ...]
    times: ClipTimes
    has_tracks: bool


def facts_of(s: Snapshot, clip_ids: Sequence[str], where: str | None) -> list[ClipFacts]:
    """Read what is shown of clips, with the first file of each that passes a filter and is there now."""
    wanted = json.dumps(list(clip_ids))
    about = s.connection.execute(
        "SELECT clips.clip_id, duration_s, EXISTS (SELECT 1 FROM tracks WHERE tracks.clip_id = clips.clip_id)"
        " FROM json_each(?) AS wanted CROSS JOIN clips ON clips.clip_id = wanted.value",
        (wanted,),
    )
    known = {clip_id: facts for clip_id, *facts in about}
    files: dict[str, dict[str, str]] = {clip_id: {} for clip_id in clip_ids}
    for clip_id, path, metadata in s.connection.execute(
        "SELECT clip_id, files.path, metadata FROM json_each(?) AS wanted"
        " CROSS JOIN files ON files.clip_id = wanted.value"
        " WHERE state = 'indexed' ORDER BY files.path",
        (wanted,),
    ):
        files[clip_id][loaded_path(path)] = metadata
    if where is None:
        paths = {clip_id: first_there(list(its)) for clip_id, its in files.items()}
    else:
        paths = filters.first_paths(s.connection, s.read_filter(where), clip_ids, there=True)
    times = seen.times_of(s, clip_ids)
    return [
        ClipFacts(
            clip_id=clip_id,
            path=paths[clip_id],
            duration_s=known[clip_id][0],
            metadata=load_metadata(files[clip_id][paths[clip_id]]),
            other_paths=tuple(other for other in files[clip_id] if other != paths[clip_id]),
            times=times[clip_id],
            has_tracks=bool(known[clip_id][1]),
        )
        for clip_id in clip_ids
    ]


def show(
    s: Snapshot, asked: Asked, ranked: Ranked, places: Sequence[int], judged: Mapping[int, Judged]
) -> tuple[Hit, ...]:
    """Make the hits of clips, given by their places in order, with the moments that answer."""
    hits, vector, heard = [], asked.vector, asked.heard
    for place, about in zip(places, facts_of(s, s.ids(places), asked.query.where), strict=True):
        found = {channel: texts_of(s, asked.texts.get(channel), place) for channel in ("on_screen", "said")}
        moments: dict[Channel, list[MomentHit]] = {
            "seen": [] if vector is None else seen.stretches(s, vector, place, about.times),
            "on_screen": [shown(sign) for sign in found["on_screen"]],
            "said": [spoken(utterance) for utterance in found["said"]],
            "sounds": [],
        }
        by = ranked.found_by(place)
        if heard is not None and (by == "sounds" or ranked.answers_by("sounds", place)):
            moments["sounds"] = heard.stretches(about.clip_id, place, asked.notices)
        if by == "about":
            best = best_moments(whole(moments["seen"], about.duration_s, float(ranked.written[place])))
        else:
            also = [name for name in moments if name != by and ranked.answers_by(name, place)]
            best = best_moments(moments[by], [one for name in also for one in moments[name]])
        reranked, parts = judged.get(place, (None, {}))
        hits.append(
            Hit(
                clip_id=about.clip_id,
                path=about.path,
                score=float(ranked.fused[place]),
                weaker=ranked.weaker(place),
                above_nonsense=ranked.beats(place),
                written=float(ranked.written[place]),
                scores=ranked.scores(place) | ({} if reranked is None else {"reranked": reranked}),
                moments=best,
                on_screen=found["on_screen"],
                said=found["said"],
                sounds=ranked.sounds_of(place),
                duration_s=about.duration_s,
                metadata=about.metadata,
                other_paths=about.other_paths,
                parts=parts,
                none_read="on_screen" in parts and not about.has_tracks,
            )
        )
    return tuple(hits)


def texts_of(s: Snapshot, matches: WordMatches | None, place: int) -> tuple[TextHit, ...]:
    """Read the texts of a clip that matched, the best first."""
    if matches is None or not matches.coverage[place]:
        return ()
    return tuple(read_texts(s, matches, matches.best_texts(place)))
