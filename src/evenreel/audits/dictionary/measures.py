"""Measures of a scene dictionary: coverage, skewness, the phrases that clips get, and the gain of each phrase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from evenreel.arrays import Column, Indices
from evenreel.audits.exchange import difference_ends, share
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.relevance import RelevantPairs
from evenreel.evaluation import EvaluationSettings, evaluate
from evenreel.evaluation.intervals import Interval, percentile_ends, resampled_weights
from evenreel.evaluation.metrics import parse_metrics
from evenreel.features.scene_elements import EmbeddedDictionary, TopElements
from evenreel.language.scene_dictionary import SceneDictionary
from evenreel.language.scene_elements import Elements, plain_activity, plain_entity
from evenreel.progress import Progress
from evenreel.types import NO_NOTES, Corpus, FloatArray, ScoreNotes

Kind = Literal["entity", "activity"]


@dataclass(frozen=True, eq=False)
class NamedCaptions:
    """Entities and activities that Q captions name.

    Attributes:
        named: (Q,) entities and activities of each caption, in base forms (`read_elements`).
        clip_ids: (Q,) id of the clip of each caption.
        splits: (Q,) split of the corpus of each caption; empty where it has none.
    """

    named: Sequence[Elements]
    clip_ids: Sequence[str]
    splits: Sequence[str]


@dataclass(frozen=True, eq=False)
class ChosenElements:
    """Phrases of a dictionary that V clips got, as the most similar to their frames.

    Attributes:
        means: (V, D) mean frame of each clip.
        embedded: the dictionary with vectors of its phrases, by the clips' encoder.
        top: the nearest phrases of each clip.
    """

    means: FloatArray
    embedded: EmbeddedDictionary
    top: TopElements


@dataclass(frozen=True)
class Coverage:
    """Counts of the phrases in captions, and of those that a dictionary has.

    Attributes:
        split: split of the corpus; empty for captions of none.
        captions: number of captions.
        covered: number of captions that name a phrase of the dictionary.
        phrases: number of different phrases that the captions name.
        held: number of those phrases that the dictionary has.
        mentions: number of phrases in all captions, each once for a caption.
        held_mentions: number of mentions of phrases of the dictionary.
    """

    split: str
    captions: int
    covered: int
    phrases: int
    held: int
    mentions: int
    held_mentions: int


@dataclass(frozen=True, eq=False)
class Gains:
    """Counts of how often P phrases are given to clips whose captions name them, and to other clips with captions.

    Attributes:
        clips: number of clips that have captions.
        named: (P,) number of clips with a caption that names the phrase.
        hits: (P,) number of these clips that got the phrase.
        other_hits: (P,) number of other clips that got the phrase.
        low, high: (P,) ends of the interval of `gain`, in percentage points; NaN where the gain is NaN.
        precision: (P,) average precision of all clips ranked by the phrase, in percent; NaN where none is named.
        drawn: (2, B) for B samples of clips: sum of gains weighted by named clips, and number of these clips.
    """

    clips: int
    named: Indices
    hits: Indices
    other_hits: Indices
    low: Column
    high: Column
    precision: Column
    drawn: NDArray[np.float64]

    @property
    def gain(self) -> Column:
        """Share of the named clips that got a phrase less that of other clips (P,), in percentage points.

        It is NaN where one of the two has no clip.
        """
        return 100 * (share(self.hits, self.named) - share(self.other_hits, self.clips - self.named))

    @property
    def lift(self) -> Column:
        """Ratio of the share of the named clips that got a phrase to that of other clips (P,).

        It is NaN where no other clip got it.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = share(self.hits, self.named) / share(self.other_hits, self.clips - self.named)
        return np.where(np.isfinite(ratio), ratio, np.nan)

    @property
    def chance(self) -> Column:
        """Share of the clips that a phrase is named for (P,), in percent: about the average precision by chance."""
        return 100 * self.named / max(self.clips, 1)


@dataclass(frozen=True, eq=False)
class KindMeasures:
    """Measures of the P entities, or the P activities, of a dictionary.

    Attributes:
        kind: `entity` or `activity`.
        phrases: the P phrases.
        coverage: coverage by split, in the order of their first caption; empty without captions.
        mentions: (P,) number of captions that name each phrase; None without captions.
        clips: number V of clips that phrases were chosen for; 0 for none.
        chosen: (P,) number of clips that got each phrase; None where none were chosen.
        gains: gain of each phrase; None without captions or without clips.
    """

    kind: Kind
    phrases: tuple[str, ...]
    coverage: tuple[Coverage, ...] = ()
    mentions: Indices | None = None
    clips: int = 0
    chosen: Indices | None = None
    gains: Gains | None = None


def measure(
    dictionary: SceneDictionary,
    captions: NamedCaptions | None,
    chosen: ChosenElements | None,
    settings: AuditSettings,
    progress: Progress = lambda share: None,
) -> tuple[KindMeasures, ...]:
    """Measure each kind of phrase that a dictionary has, entities first: coverage, counts and gains."""
    found: list[KindMeasures] = []
    for kind in (kinds := _kinds(dictionary)):
        found.append(_measure_kind(kind, dictionary, captions, chosen, settings))
        progress(len(found) / len(kinds))
    return tuple(found)


def _kinds(dictionary: SceneDictionary) -> list[Kind]:
    of_kind: dict[Kind, tuple[str, ...]] = {"entity": dictionary.entities, "activity": dictionary.activities}
    return [kind for kind, phrases in of_kind.items() if phrases]


def _measure_kind(
    kind: Kind,
    dictionary: SceneDictionary,
    captions: NamedCaptions | None,
    chosen: ChosenElements | None,
    settings: AuditSettings,
) -> KindMeasures:
    phrases = dictionary.entities if kind == "entity" else dictionary.activities
    named = None
    if captions is not None:
        named = [one.entities if kind == "entity" else one.activities for one in captions.named]
    place = _spellings(kind, phrases)
    pairs = None if named is None else _pairs(named, place, len(phrases))
    coverage = () if captions is None or named is None else tuple(_coverages(captions.splits, named, place.keys()))
    mentions = None if pairs is None else _sums(pairs)
    if chosen is None:
        return KindMeasures(kind, phrases, coverage, mentions)
    got = _chosen_pairs(chosen.top, kind, len(phrases))
    gains = None
    if captions is not None and pairs is not None:
        gains = _gains(_said_of_clips(pairs, captions.clip_ids, chosen.top.clip_ids), got, chosen, kind, settings)
    return KindMeasures(kind, phrases, coverage, mentions, got.shape[0], _sums(got), gains)


def _spellings(kind: Kind, phrases: Sequence[str]) -> dict[str, int]:
    """Places in the dictionary by what captions may call its phrases: `Red Balls` of a list is their `red ball`.

    A phrase that is there in these very letters comes before one in other letters, else the first one counts.
    """
    plain = plain_entity if kind == "entity" else plain_activity
    places = {phrase: place for place, phrase in enumerate(phrases)}
    return {plain(phrase): place for phrase, place in reversed(places.items())} | places


def _coverages(splits: Sequence[str], named: Sequence[Sequence[str]], held: Set[str]) -> Iterator[Coverage]:
    for split in dict.fromkeys(splits):
        own = [phrases for phrases, of in zip(named, splits, strict=True) if of == split]
        counts = Counter(phrase for phrases in own for phrase in phrases)
        there = {phrase: count for phrase, count in counts.items() if phrase in held}
        covered = sum(not held.isdisjoint(phrases) for phrases in own)
        yield Coverage(
            split, len(own), covered, len(counts), len(there), sum(counts.values()), sum(there.values())
        )  # fmt: skip


def _pairs(named: Sequence[Sequence[str]], place: Mapping[str, int], phrases: int) -> sparse.csr_array:
    """(Q, P), 1 where a caption names a phrase of the dictionary."""
    found = {(row, place[phrase]) for row, some in enumerate(named) for phrase in some if phrase in place}
    rows, columns = np.array(sorted(found), np.int64).reshape(-1, 2).T
    return _ones(rows, columns, (len(named), phrases))


def _said_of_clips(pairs: sparse.csr_array, of: Sequence[str], clip_ids: Sequence[str]) -> sparse.csr_array:
    """(V, P + 1), 1 where some caption of a clip names a phrase; in the last column where it has any caption."""
    row_of = {clip_id: row for row, clip_id in enumerate(clip_ids)}
    known = [(row_of[clip_id], caption) for caption, clip_id in enumerate(of) if clip_id in row_of]
    rows, captions = np.array(known, np.int64).reshape(-1, 2).T
    belongs = _ones(rows, captions, (len(clip_ids), len(of)))
    any_caption = sparse.csr_array(np.ones((len(of), 1)))
    said = belongs @ sparse.hstack([pairs, any_caption], format="csr")
    said.data[:] = 1.0
    return said


def _chosen_pairs(top: TopElements, kind: Kind, phrases: int) -> sparse.csr_array:
    """(V, P), 1 where a clip got a phrase."""
    places = top.entities if kind == "entity" else top.activities
    return _ones(np.repeat(np.arange(len(places)), places.shape[1]), places.ravel(), (len(places), phrases))


def _ones(rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int]) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def _gains(
    said: sparse.csr_array, got: sparse.csr_array, chosen: ChosenElements, kind: Kind, settings: AuditSettings
) -> Gains | None:
    """Compute gains over the clips that have captions, which alone say what they show; None where no clip has one."""
    described = np.flatnonzero(said[:, [-1]].toarray()[:, 0])
    if not len(described):
        return None
    named, got = said[described][:, :-1].tocsr(), got[described]
    both = named.multiply(got).tocsr()
    counts, hits, chosen_counts = _sums(named), _sums(both), _sums(got)
    others = len(described) - counts
    low, high = difference_ends(hits, counts, chosen_counts - hits, others, settings.confidence)
    vectors = chosen.embedded.entities if kind == "entity" else chosen.embedded.activities
    precision = _average_precision(named, chosen.means[described], vectors)
    drawn = _sampled_sums(named, both, got, settings)
    return Gains(
        len(described), counts, hits, chosen_counts - hits, 100 * low, 100 * high, precision, drawn
    )  # fmt: skip


def _sampled_sums(
    named: sparse.csr_array, both: sparse.csr_array, got: sparse.csr_array, settings: AuditSettings
) -> NDArray[np.float64]:
    """(2, B) of the phrases that both groups of a sample have clips for; see `Gains.drawn`."""
    parts = [np.empty((2, 0))]
    for times in resampled_weights(np.arange(named.shape[0]), settings.resamples, settings.seed):
        counts, hits, chosen = times @ named, times @ both, times @ got
        others = times.sum(axis=1, keepdims=True) - counts
        gain = 100 * (share(hits, counts) - share(chosen - hits, others))
        parts.append(np.stack([np.nansum(gain * counts, axis=1), (counts * ~np.isnan(gain)).sum(axis=1)]))
    return np.concatenate(parts, axis=1)


def gain_of_named(some: Sequence[Gains], confidence: float) -> Interval:
    """Compute the mean gain, in percentage points, over all pairs of a clip and a phrase that its captions name.

    A phrase is weighted by the number of clips that it is named for. The interval is of percentiles over samples of
    clips.
    """
    known = [~np.isnan(one.gain) for one in some]
    total = sum(float((one.gain * one.named)[there].sum()) for one, there in zip(some, known, strict=True))
    pairs = sum(int(one.named[there].sum()) for one, there in zip(some, known, strict=True))
    value = total / pairs if pairs else float("nan")
    if not pairs or not some[0].drawn.shape[1]:
        return Interval(value)
    sums, numbers = np.sum([one.drawn for one in some], axis=0)
    return Interval(value, *percentile_ends(share(sums, numbers), confidence))


@dataclass(frozen=True, eq=False)
class _Cosines:
    """Cosines of P phrases and V clips in blocks; it is a `ScoreBlocks`."""

    caption_ids: Sequence[str]
    video_ids: Sequence[str]
    phrases: FloatArray
    clips: FloatArray
    about: ScoreNotes = NO_NOTES

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Compute the cosines of some phrases and clips."""
        return np.asarray(self.phrases[captions] @ self.clips[videos].T)


def _average_precision(named: sparse.csr_array, means: FloatArray, vectors: FloatArray) -> Column:
    """(P,) of all clips ranked by each phrase, percent, equal scores in expectation; NaN where no clip is named."""
    found = np.full(len(vectors), np.nan)
    if not named.nnz:
        return found
    phrases, clips = [str(place) for place in range(len(vectors))], [str(row) for row in range(len(means))]
    asked = pl.DataFrame({"caption_id": phrases, "clip_id": [clips[0]] * len(phrases), "text": phrases})
    corpus = Corpus(pl.DataFrame({"clip_id": clips}), asked)
    scores = _Cosines(phrases, clips, vectors, means / np.linalg.norm(means, axis=1, keepdims=True))
    settings = EvaluationSettings(metrics=parse_metrics(("mAP",)), directions=("t2v",), resamples=0)
    ranked = evaluate(scores, corpus, settings, relevance=RelevantPairs(named.T.tocsr().astype(np.bool_)))
    result = ranked.directions["t2v"]
    found[[int(place) for place in result.query_ids]] = result.per_query["mAP"]
    return found


def _sums(matrix: sparse.csr_array) -> Indices:
    return np.asarray(matrix.sum(axis=0)).ravel().astype(np.int64)
