"""Changes of rankings by adaptation, measured without labels, for its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.quality import quality
from evenreel.adaptation.report import AdaptReport
from evenreel.adaptation.settings import AdaptSettings
from evenreel.adaptation.stream import QueryStream, taken
from evenreel.adaptation.titan.counterfactuals import CounterfactualSettings, over_attended
from evenreel.arrays import Indices
from evenreel.evaluation.concentration import skewness
from evenreel.language.tokens import Tagger
from evenreel.types import FloatArray

FIRST = 10
"""Places of a ranking that hubs are counted in, and at most a fifth of all: every clip is among the first V."""

LISTED = 6
"""Clips that most queries find, of each model."""

EXAMPLES = 20
"""Queries with another first clip, and over-attended words, that are listed."""

BAND = 1024
"""Queries that are ranked at a time, and most that quality is measured on."""


class QueryExample(NamedTuple):
    """A query, and the ids of its first clip before and after adaptation."""

    query: str
    before: str
    after: str


class HubChange(NamedTuple):
    """A hub clip, and the number of queries that rank it among their first clips, before and after adaptation."""

    clip: str
    before: int
    after: int


class HubWord(NamedTuple):
    """A word of a hub clip's queries: `sharing` of the `matched` queries that ranked the clip first have it."""

    clip: str
    word: str
    sharing: int
    matched: int


@dataclass(frozen=True)
class Changes:
    """Changes of rankings from the source to the final model, on all queries, those trained on included.

    Attributes:
        queries: number of queries.
        videos: number of clips.
        first_changed: share of the queries with another first clip.
        examples: some queries whose first clip changed.
        places: number of first places of a ranking in which hubs are counted.
        hubs: clips that most queries have in these places by either model.
        skewness: skewness of these counts over clips, before and after; NaN where all are equal.
        words: over-attended words of the clips that most queries ranked first before.
        measured: number of queries, the first ones, that quality was measured on.
        before: mean quality of the source by name (`evenreel.adaptation.quality`).
        after: mean quality of the final model by name.
    """

    queries: int
    videos: int
    first_changed: float
    examples: tuple[QueryExample, ...]
    places: int
    hubs: tuple[HubChange, ...]
    skewness: tuple[float, float]
    words: tuple[HubWord, ...]
    measured: int
    before: Mapping[str, float]
    after: Mapping[str, float]


def changes_of(model: TestTimeMatcher, stream: QueryStream, tagger: Tagger | None = None) -> Changes:
    """Compare the rankings of the final model with the source's.

    Args:
        model: matcher after adaptation.
        stream: stream whose queries are ranked.
        tagger: tagger of the queries, to find over-attended words; None to find none.
    """
    ids, places = stream.videos.ids, max(1, min(FIRST, len(stream.videos.ids) // 5))
    firsts: tuple[list[Indices], list[Indices]] = ([], [])
    counts = np.zeros((2, len(ids)), np.int64)
    qualities: list[Mapping[str, float]] = []
    measured = 0
    scale = float(model.source.logit_scale.detach().exp())
    for rows in stream.batches(BAND):
        texts = taken(stream.texts, rows)
        by_source = model.ranked_by_source(texts)
        given = by_source if model.served is model.source else model.ranked(texts)
        for which, scores in enumerate((by_source, given)):
            firsts[which].append(scores.argmax(axis=1))
            counts[which] += np.bincount(_first(scores, places).ravel(), minlength=len(ids))
            if len(qualities) < 2:
                qualities.append(quality(scores, scale).means)
                measured = len(rows)
    before, after = (np.concatenate(found) for found in firsts)
    other = np.flatnonzero(before != after)
    return Changes(
        queries=len(before),
        videos=len(ids),
        first_changed=float((before != after).mean()),
        examples=tuple(
            QueryExample(stream.sentences[row], ids[before[row]], ids[after[row]]) for row in _spread(other)
        ),
        places=places,
        hubs=tuple(_hubs(counts, ids)),
        skewness=(skewness(counts[0]), skewness(counts[1])),
        words=() if tagger is None else _words(stream, before, tagger, model.settings),
        measured=measured,
        before=qualities[0],
        after=qualities[1],
    )


def record(
    report: AdaptReport, changes: Changes, settings: AdaptSettings, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Convert report, changes and settings to a dictionary that JSON can hold; numbers that are not finite become null.

    Args:
        report: report of the adaptation.
        changes: changes of the rankings.
        settings: settings of the adaptation.
        names: names of clips by id; the record has those that it mentions.
    """
    told = {hub.clip for hub in changes.hubs} | {word.clip for word in changes.words}
    told |= {clip for one in changes.examples for clip in (one.before, one.after)}
    found = {
        **report.to_json(),
        "changes": asdict(changes)
        | {
            "examples": [one._asdict() for one in changes.examples],
            "hubs": [one._asdict() for one in changes.hubs],
            "words": [one._asdict() for one in changes.words],
        },
        "names": {clip: name for clip, name in sorted((names or {}).items()) if clip in told},
        "settings": asdict(settings),
    }
    plain: dict[str, Any] = _finite(found)
    return plain


def _first(scores: FloatArray, count: int) -> Indices:
    """(Q, count) columns of the best, in no order."""
    found: Indices = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    return found


def _spread(rows: Indices) -> Indices:
    """Select at most `EXAMPLES` rows, evenly from first to last."""
    if len(rows) <= EXAMPLES:
        return rows
    kept: Indices = rows[np.linspace(0, len(rows) - 1, EXAMPLES).round().astype(np.int64)]
    return kept


def _hubs(counts: Indices, ids: Sequence[str]) -> Iterator[HubChange]:
    listed = {int(place) for row in counts for place in np.argsort(-row, kind="stable")[:LISTED]}
    for place in sorted(listed, key=lambda place: (-counts[0, place], -counts[1, place], place)):
        yield HubChange(ids[place], int(counts[0, place]), int(counts[1, place]))


def _words(stream: QueryStream, firsts: Indices, tagger: Tagger, settings: AdaptSettings) -> tuple[HubWord, ...]:
    how = settings.counterfactuals or CounterfactualSettings()
    found = over_attended(tagger.tag(stream.sentences), firsts, how)
    most = sorted(found, key=lambda one: (-one.matched, one.video, -one.count, one.word))[:EXAMPLES]
    return tuple(HubWord(stream.videos.ids[one.video], one.word, one.count, one.matched) for one in most)


def _finite(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value
