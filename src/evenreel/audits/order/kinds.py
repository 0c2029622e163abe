"""Kinds of action whose order a ranking sees: the verbs of the captions of clips, or the values of a column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from evenreel.arrays import Indices
from evenreel.audits.exchange import mean_interval, share_interval
from evenreel.audits.hubness import MOST_TAGGED, texts_of
from evenreel.audits.order.measures import OrderMeasures
from evenreel.audits.order.pairs import OrderPairs
from evenreel.audits.settings import AuditSettings
from evenreel.evaluation.groups import query_groups
from evenreel.evaluation.intervals import Interval, around
from evenreel.language import classes_of, clip_classes, load_tagger, unknown_share
from evenreel.report.result import ENOUGH
from evenreel.types import Corpus, ScoreBlocks

FEWEST = 5
"""Kinds of fewer pairs than this are not listed."""

LISTED = 30
"""Kinds that are listed at most, those of the most pairs."""

MOST_UNKNOWN = 0.5
"""Captions with a larger share of unknown words are not English."""

CLASS_COLUMNS = ("verb_classes", "noun_classes")
"""Columns of the clips that hold several numbers each."""


@dataclass(frozen=True)
class KindOrder:
    """How often the own order is preferred beyond the control in pairs of one kind of action.

    Attributes:
        name: a verb, or the value of a column.
        pairs: number of pairs of this kind.
        enough: whether there are enough of them to conclude anything.
        preferred: share in percent, with the interval of this kind alone; 50 is chance.
    """

    name: str
    pairs: int
    enough: bool
    preferred: Interval


@dataclass(frozen=True)
class ActionKinds:
    """Kinds of action of pairs, the most frequent first.

    Attributes:
        found: kinds with at least `FEWEST` pairs.
        rarer: number of kinds with fewer, or beyond the first `LISTED`.
        told_by: what says which kind a pair is of: a tagger, or a column; empty where nothing does.
        notices: sentences on pairs of which no kind is known.
    """

    found: tuple[KindOrder, ...] = ()
    rarer: int = 0
    told_by: str = ""
    notices: tuple[str, ...] = ()


def action_kinds(
    measured: OrderMeasures, scores: ScoreBlocks, corpus: Corpus, settings: AuditSettings, column: str | None = None
) -> ActionKinds:
    """Measure order by kind of action: by the verbs of the captions of clips, or by a column.

    Args:
        measured: measures of all pairs.
        scores: scores, whose notes may have texts of captions that the corpus lacks.
        corpus: corpus with the captions' words, and the column.
        settings: confidence of the intervals.
        column: column of the clips or captions; `verb_classes` and `noun_classes` are known too; None for verbs.

    Raises:
        CorpusError: there is no such column, or it names too many kinds.
    """
    if column is not None:
        return _measured(measured, _by_column(measured.pairs, corpus, column), settings, f"column {column!r}")
    texts = texts_of(scores, corpus)
    captions = [
        (measured.pairs.clip_ids[pair], text)
        for one, pair, of_clip in zip(
            measured.pairs.caption_ids, measured.pairs.pair.tolist(), measured.pairs.tells_clip.tolist(), strict=True
        )
        if of_clip and (text := texts.get(one))
    ]
    if not captions:
        return ActionKinds()
    tagger, some = load_tagger(), captions[:MOST_TAGGED]
    tagged = tagger.tag([text for _, text in some])
    if unknown_share(tagged) > MOST_UNKNOWN:
        return ActionKinds(
            notices=(f"Most words of the captions are not English by the tagger ({tagger.name}): no kinds of action.",)
        )
    named = classes_of(tagged)
    of_clips = clip_classes(named, [clip for clip, _ in some])
    verbs = {
        clip: [named.verb_names[number] for number in numbers]
        for clip, numbers in zip(of_clips.clip_ids, of_clips.verbs, strict=True)
    }
    return _measured(measured, verbs, settings, f"the verbs of captions (tagger {tagger.name})")


def _by_column(pairs: OrderPairs, corpus: Corpus, column: str) -> Mapping[str, list[str]]:
    """Kinds of each clip by a column."""
    if column in CLASS_COLUMNS:
        rows = corpus.clips.select("clip_id", column).iter_rows()
        return {clip: [f"{column.removesuffix('_classes')} {one}" for one in numbers or ()] for clip, numbers in rows}
    found = query_groups(corpus, column, pairs.clip_ids, of_captions=False)
    return {
        clip: [found.names[number]] if number >= 0 else []
        for clip, number in zip(pairs.clip_ids, found.number.tolist(), strict=True)
    }


def _measured(
    measured: OrderMeasures, kinds: Mapping[str, list[str]], settings: AuditSettings, told_by: str
) -> ActionKinds:
    members: dict[str, list[int]] = defaultdict(list)
    for pair, clip in enumerate(measured.pairs.clip_ids):
        for name in dict.fromkeys(kinds.get(clip, ())):
            members[name].append(pair)
    order = sorted(members, key=lambda name: (-len(members[name]), name))
    listed = [name for name in order if len(members[name]) >= FEWEST][:LISTED]
    found = [_kind(name, np.array(members[name], np.int64), measured, settings) for name in listed]
    return ActionKinds(tuple(found), len(order) - len(listed), told_by, tuple(_unknown(measured, members)))


def _kind(name: str, rows: Indices, measured: OrderMeasures, settings: AuditSettings) -> KindOrder:
    cluster = measured.pairs.cluster[rows]
    share = share_interval(measured.further[rows], cluster, settings)
    if measured.control == "others":  # how far a caption stands above others is a degree, no hit
        found = mean_interval(measured.further[rows], cluster, settings)
        share = around(found.value, found.low, found.high, (0.0, 100.0))
    return KindOrder(name, len(rows), len(np.unique(cluster)) >= ENOUGH, share)


def _unknown(measured: OrderMeasures, members: Mapping[str, list[int]]) -> Iterator[str]:
    known = {pair for some in members.values() for pair in some}
    if without := len(measured.pairs.clip_ids) - len(known):
        yield f"Of {without:,} of {len(measured.pairs.clip_ids):,} pairs no kind of action is known."
