"""Audit of order: does a ranking see in which order things happen?

A caption of a door that opens is wrong for the same video played backwards, in which it closes. A ranking that sees
frames but not their order puts both equally high (Du et al. 2024, Reversed in Time: the tasks Origin, Hard and Binary).

A caption leads to its clip by the score of the clip less that of its twin, which has the same frames in another order.
Twins may be liked less whatever a caption says, as where a decoder sees them otherwise, so what counts is whether a
caption leads further to the clip than another caption does that says nothing of this order, or the opposite.

Other sources: Thrush et al. 2022, Winoground (text, image and group score); Hoeffding 1948 (the variance of a mean over
pairs of units); Schuirmann 1987 (two one-sided tests, by which a ranking is order-blind for sure).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import CACHED_BYTES, SCORE_BYTES, Column, Flags, Indices, slices
from evenreel.audits.edits import Version, edited_notices
from evenreel.audits.exchange import groups_won, mean_interval, share_interval, sign_test
from evenreel.audits.hubness import MOST_TAGGED, texts_of
from evenreel.audits.inputs import as_edited, as_inputs, paragraph, paragraphs
from evenreel.audits.settings import NO_EDITS, AuditSettings
from evenreel.corpus.counterparts import ORDER_OF, order_twins
from evenreel.corpus.folder import CorpusLike
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.groups import query_groups
from evenreel.evaluation.intervals import Interval, around, clusters_of, numbered, t_interval
from evenreel.evaluation.ranking import CheckedScores, Hits
from evenreel.evaluation.scores import ScoresLike
from evenreel.language import classes_of, clip_classes, load_tagger, unknown_share
from evenreel.report.figures import effect_intervals
from evenreel.report.result import ENOUGH, AuditFigure, AuditResult, AuditTable, Effect, Named, figure_words, verdict
from evenreel.report.words import percent
from evenreel.types import Corpus, ScoreBlocks, Shown

CHANCE = 50.0  # how often, in percent, a ranking that does not see order prefers the own order beyond the control
MARGIN = 10.0  # a ranking is order-blind where it is sure to be less than so many points from chance
DEPTHS = (1, 5, 10)

SAME = 1e-5
"""Scores that differ by less than this share of the spread of a caption's scores are the same but for rounding."""

FEWEST, LISTED, DRAWN = 5, 30, 15
"""Kinds of fewer pairs than this are not listed; kinds that are listed, and drawn, at most, those of the most pairs."""

MOST_UNKNOWN = 0.5  # captions with a larger share of unknown words are not English
_LEAST = 1e-6  # confidence of the interval of the two one-sided tests where each is asked for no more than even odds
TEXT_OF_CLIP = "captions of the clip choose it"
TEXT_OF_TWIN = "captions of the twin choose it"
TEXT = "text to video, both captions"
VIDEO = "video to text, clip and twin"
CAPTIONS_RIGHT = "both captions choose right"
VIDEOS_RIGHT = "clip and twin choose right"
ALL_RIGHT = "all four choose right"
LIKED = "clip above twin, any caption"

CHANCES = {
    TEXT_OF_CLIP: 50.0, TEXT_OF_TWIN: 50.0, TEXT: 50.0, VIDEO: 50.0,
    CAPTIONS_RIGHT: 25.0, VIDEOS_RIGHT: 25.0, ALL_RIGHT: 100 / 6, LIKED: 50.0,
}  # fmt: skip
"""What each share is, in percent, of scores at random: of four such scores the two right ones are the highest two in
one of six cases."""

Control = Literal["twins", "others"]  # whose captions those of a clip are held against: its twin's, or other clips'

Verdict = Literal["sees", "hardly", "blind", "turned", "open", "few", "none"]
"""Whether a ranking sees order: it does; it does, by less than the margin; it does not; it prefers the wrong order; it
cannot be told; there are too few pairs; nothing is known."""


def audit_order(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
    kinds: str | None = None,
) -> AuditResult:
    """Test whether captions prefer their clips to the same frames in another order, beyond a control.

    The control are the captions of the other order where there are some, as in Reversed in Time; elsewhere the captions
    of other clips. Either leaves out how much a clip or its twin is liked whatever a caption says.

    Args:
        scores: scores of captions with clips, and with their twins where these are clips of the corpus.
        corpus: corpus, whose column `order_of` says which clip is the twin of which; it may have no caption.
        settings: confidence, what is resampled together, and how much is read at once; 0 resamples for no interval.
        edited: scores of the same captions and clips with their frames in another order, by the name of that order.
        kinds: column of clips or captions that says the kind of action; None for the verbs of the captions.

    Raises:
        CorpusError: no pair of a clip and its twin can be measured, or there is no such column.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
        UsageError: there are scores of several other orders.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    after = as_edited(edited, corpus)
    measured = measure_order(scores, corpus, settings, edited=after)
    actions = _action_kinds(measured, scores, corpus, settings, kinds)
    method = paragraphs("order", "Other clips", "Interval of other clips")
    if measured.control == "twins":
        method = paragraphs("order", "Both orders", "Interval of both orders")
    method += (
        paragraph("order", "Order-blind", margin=f"{MARGIN:.0f}"),
        *paragraphs("order", "Plain shares", "Recall"),
    )
    if actions.told_by:
        method += (paragraph("order", "Kinds", told_by=actions.told_by),)
    return AuditResult(
        name="order",
        title="Does the ranking see the order of what happens?",
        sentence=_sentence(measured, settings.confidence),
        effect=measured.effect,
        tables=tuple(_tables(measured, actions)),
        figures=tuple(_figures(measured, actions)),
        notices=(*edited_notices(scores, corpus, settings, after), *_notices(measured), *actions.notices),
        method=method,
        confidence=settings.confidence,
    )


# Scores of captions with pairs of a clip and its twin.


@dataclass(frozen=True, eq=False)
class OrderPairs:
    """Scores of Q captions with n pairs of a clip and its twin of another order, and what else is in the gallery."""

    clips: Version  # scores with V clips as they were shot, of which the first n are those of the pairs
    twins: Version  # scores with T twins, of the first T of these clips; the first n are those of the pairs
    clip_ids: tuple[str, ...]  # (n,) ids of the clips of the pairs
    pair: Indices  # (Q,) index of the pair that each caption is of
    tells_clip: Flags  # (Q,) True where a caption describes the clip, False where it describes the twin
    cluster: Indices  # (n,) numbers from 0, equal for pairs that are resampled together, such as those of one video
    chosen: bool = False  # whether nobody has said which pair a caption is of, so that the scores chose it
    notices: tuple[str, ...] = ()  # sentences on what was left out

    @property
    def drawn_with(self) -> Indices:
        """Number (Q,) of the cluster that each caption is resampled with."""
        return self.cluster[self.pair]

    def bands(self, band_bytes: int) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any]]]:
        """Yield, band by band, a slice of the captions and their scores with all clips (b, V) and all twins (b, T)."""
        width = len(self.clips.scores.video_ids) + len(self.twins.scores.video_ids)
        for held in slices(len(self.pair), min(band_bytes, CACHED_BYTES) // (SCORE_BYTES * width)):
            yield held, self.clips.block(held), self.twins.block(held)


_Told = tuple[str, str, bool]
"""A caption, the clip that it or whose twin it describes, and whether it is the clip that it describes."""


def order_pairs(
    scores: ScoreBlocks, corpus: Corpus, edited: Mapping[str, ScoreBlocks], settings: AuditSettings
) -> OrderPairs:
    """Select pairs of a clip and its twin, and the captions of these, from scores.

    Captions of both orders are taken where at least half of the pairs have them, and then only these pairs. Where the
    corpus has no captions, each is of the pair that it scores highest in both orders together, which favours neither.
    """
    if len(edited) > 1:
        raise UsageError(
            f"The audit order holds scores against those of one other order, and {', '.join(edited)} are given; give "
            "one --edited NAME=FILE (AuditInputs.edited)."
        )
    clips = CheckedScores(scores)
    twins = next((CheckedScores(one) for one in edited.values()), clips)
    every = order_twins(corpus)
    known = {clip: first for clip, (first, *_) in every.items()}
    made = {twin for several in every.values() for twin in several}
    shot, there = [clip for clip in clips.video_ids if clip not in made], set(twins.video_ids)
    every_twin = {clip: clip for clip in shot} if edited else {clip: known[clip] for clip in shot if clip in known}
    twin_of = {clip: twin for clip, twin in every_twin.items() if twin in there}
    if not twin_of:
        raise CorpusError(
            f"No clip is in the scores in two orders (column {ORDER_OF!r} of the corpus), so nothing tells whether "
            "they see order; score the clips also with their frames turned round (`evenreel score --frame-order "
            "reversed`) and give --edited reversed=FILE."
        )
    chosen, both_score = not corpus.captions.height, set(clips.caption_ids).intersection(twins.caption_ids)
    if chosen:
        captions = [one for one in clips.caption_ids if one in both_score]
        told = _favoured(clips, twins, twin_of, captions, settings.band_bytes)
    else:  # captions may also describe twins that were scored under the id of their clip
        of = {clip: (clip, True) for clip in twin_of}
        of |= {known[clip]: (clip, False) for clip in twin_of if clip in known}
        rows = corpus.captions.select("caption_id", "clip_id").iter_rows()
        told = [(caption, *of[clip]) for caption, clip in rows if clip in of and caption in both_score]
    of_clip, of_twin = (Counter(clip for _, clip, tells in told if tells is side) for side in (True, False))
    measured = [clip for clip in twin_of if of_clip[clip]]
    if not measured:
        raise CorpusError(
            f"Of the {len(twin_of):,} clips that are in the scores in two orders none has a caption there; score "
            "captions of the clips, too."
        )
    both = [clip for clip in measured if of_twin[clip]]
    by_both = 2 * len(both) >= len(measured)
    number = {clip: place for place, clip in enumerate(both if by_both else measured)}
    used = [one for one in told if one[1] in number and (by_both or one[2])]
    silent = [clip for clip in twin_of if clip not in number]
    lacking = "a sentence" if chosen else "captions of both orders" if by_both else "a caption of the clip"
    left_out = {
        "Twins beside the first one of the same clip": 0 if edited else len(made) - len(known),
        "Clips without a score in the other order, which only fill the gallery": len(every_twin) - len(twin_of),
        f"Pairs without {lacking}, which only fill the gallery": len(silent),
        "Captions of twins and of such pairs": len(told) - len(used),
    }
    captions, in_pairs = [caption for caption, _, _ in used], [*number, *silent]
    return OrderPairs(
        Version.of(clips, captions, [*in_pairs, *(clip for clip in shot if clip not in twin_of)]),
        Version.of(twins, captions, [twin_of[clip] for clip in in_pairs]),
        tuple(number),
        np.array([number[clip] for _, clip, _ in used], dtype=np.int64),
        np.array([tells for _, _, tells in used]),
        numbered(clusters_of(corpus, settings.cluster).of([*number]))[0],
        chosen,
        tuple(f"{what}: {count:,}." for what, count in left_out.items() if count),
    )


def _favoured(
    clips: CheckedScores, twins: CheckedScores, twin_of: Mapping[str, str], captions: Sequence[str], band_bytes: int
) -> list[_Told]:
    """Captions with the clip that each scores highest in both orders together."""
    names, told = [*twin_of], list[_Told]()
    one, other = Version.of(clips, captions, names), Version.of(twins, captions, [*twin_of.values()])
    for held in slices(len(captions), min(band_bytes, CACHED_BYTES) // (2 * SCORE_BYTES * len(names))):
        best = (one.block(held).astype(np.float64) + other.block(held)).argmax(axis=1)
        told += [(caption, names[at], True) for caption, at in zip(captions[held], best.tolist(), strict=True)]
    return told


# Which order captions prefer: of one caption, of the two captions of a pair, and beside captions of other clips.


@dataclass(frozen=True, eq=False)
class OwnScores:
    """Scores of Q captions with the clip and the twin of their pair, and the ranks of what each describes."""

    clip: Column  # (Q,) score with the clip of the pair
    twin: Column  # (Q,) score with its twin
    alone: Hits  # ranks of clips among the V clips; of captions of clips alone
    together: Hits  # ranks of clips, or twins, among the V clips and the T twins
    same: bool  # whether no caption's scores of any clip and its twin differ, but for rounding

    @property
    def lead(self) -> Column:
        """Score (Q,) of the clip less that of its twin; 0 where neither is ever retrieved."""
        return _lead(self.clip, self.twin)


def own_scores(pairs: OrderPairs, band_bytes: int) -> OwnScores:
    """Read the scores of captions with their pairs, and rank what each describes."""
    clip, twin = np.empty(len(pairs.pair)), np.empty(len(pairs.pair))
    alone, together, furthest, spreads = [], [], 0.0, 0.0
    for held, clips, twins in pairs.bands(band_bytes):
        own, rows = pairs.pair[held], np.arange(held.stop - held.start)
        clip[held], twin[held] = clips[rows, own], twins[rows, own]
        described = np.where(pairs.tells_clip[held], clip[held], twin[held])
        above, equal = (
            [test(block, described[:, None]).sum(axis=1) for block in (clips, twins)] for test in (np.greater, np.equal)
        )
        ones, found = np.ones_like(above[0]), np.asarray(described > -np.inf)
        numbers, of_clip = np.arange(held.start, held.stop), pairs.tells_clip[held].astype(np.int64)
        alone.append(Hits(numbers, above[0], equal[0] - of_clip, ones, found))
        together.append(Hits(numbers, above[0] + above[1], equal[0] + equal[1] - 1, ones, found))
        furthest = max(furthest, float(np.abs(_lead(clips[:, : twins.shape[1]], twins)).max()))
        spreads += float(_spreads(clips).sum())
    same = furthest <= SAME * spreads / len(pairs.pair)
    return OwnScores(clip, clip.copy() if same else twin, Hits.joined(alone), Hits.joined(together), same)


def within_pairs(pairs: OrderPairs, own: OwnScores) -> tuple[Column, dict[str, Column]]:
    """Compare the captions of both orders of each pair.

    Returns:
        (n,) chance that a caption of the clip leads further to the clip than one of the twin does, ties half; and
        shares (n,) of each pair in percent, by their names in `CHANCES`.
    """
    # Every caption of a clip with every caption of its twin: indices of both, and of the pair.
    sides: list[tuple[list[int], list[int]]] = [([], []) for _ in pairs.clip_ids]
    for caption, (number, tells_clip) in enumerate(zip(pairs.pair.tolist(), pairs.tells_clip.tolist(), strict=True)):
        sides[number][0 if tells_clip else 1].append(caption)
    every = [(a, b, number) for number, (ones, others) in enumerate(sides) for a in ones for b in others]
    said, said_of_twin, pair = np.array(every, dtype=np.int64).T
    one, other = own.clip[said], own.twin[said]
    of_clip, of_twin = own.clip[said_of_twin], own.twin[said_of_twin]
    text, text_of_twin = _beats(one, other), _beats(of_twin, of_clip)
    video, video_of_twin = _beats(one, of_clip), _beats(of_twin, other)
    captions, videos = (text == 1) & (text_of_twin == 1), (video == 1) & (video_of_twin == 1)
    shares = {
        TEXT_OF_CLIP: text, TEXT_OF_TWIN: text_of_twin, TEXT: (text + text_of_twin) / 2,
        VIDEO: (video + video_of_twin) / 2, CAPTIONS_RIGHT: captions, VIDEOS_RIGHT: videos,
        ALL_RIGHT: captions & videos, LIKED: (text + 1 - text_of_twin) / 2,
    }  # fmt: skip

    def means(values: NDArray[Any]) -> Column:
        count = len(pairs.clip_ids)
        sums = np.bincount(pair, values.astype(np.float64), count)
        return np.asarray(100 * (sums / np.bincount(pair, minlength=count)))

    further = _beats(own.lead[said], own.lead[said_of_twin])
    return means(further), {name: means(values) for name, values in shares.items()}


def beside_others(pairs: OrderPairs, own: OwnScores, band_bytes: int) -> tuple[Column, Column, Column]:
    """Compare the captions of clips with those of all other pairs (of other clusters), pairs counting alike.

    Args:
        pairs: captions of clips alone.
        own: their scores.
        band_bytes: about how many bytes of scores are read at once.

    Returns:
        Three columns of the n pairs in percent, NaN for a pair without others: the chance that a caption of the pair
        leads further to its clip than a caption of another pair does; what each pair's captions add to the mean of
        that, as those that others are held against, with the same mean; and the share of the other captions that score
        the clip above its twin.
    """
    count, drawn, lead = len(pairs.clip_ids), pairs.drawn_with, own.lead
    weight = 1 / np.bincount(pairs.pair, minlength=count)[pairs.pair]
    others = count - np.bincount(pairs.cluster)[pairs.cluster].astype(np.float64)
    shares = np.divide(weight, others[pairs.pair], out=np.zeros(len(weight)), where=others[pairs.pair] > 0)
    further, lent, liked = np.zeros(len(lead)), np.zeros(len(lead)), np.zeros(count)
    for held, clips, twins in pairs.bands(band_bytes):
        leads = np.zeros((len(clips), count)) if own.same else _lead(clips[:, :count], twins[:, :count])
        apart = (drawn[held, None] != pairs.cluster).astype(np.float64)
        wins = _beats(lead, leads[:, pairs.pair]) * apart[:, pairs.pair]
        further += weight[held] @ wins
        lent[held] = wins @ shares
        liked += weight[held] @ (_beats(leads, np.zeros(1)) * apart)
    with np.errstate(invalid="ignore", divide="ignore"):  # all pairs are of one cluster
        return (
            100 * np.bincount(pairs.pair, weight * further, count) / others,
            np.asarray(100 * np.bincount(pairs.pair, weight * lent, count), np.float64),
            100 * liked / others,
        )


def _lead(clips: NDArray[Any], twins: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.subtract(clips, twins, out=np.zeros(clips.shape), where=clips != twins, dtype=np.float64))


def _beats(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    """1 where the one is greater, 1/2 where they are equal."""
    return np.asarray((one > other) + 0.5 * (one == other), dtype=np.float64)


def _spreads(block: NDArray[Any]) -> Column:
    """Standard deviation of the finite scores of each row; 0 where there is none."""
    known = np.isfinite(block)
    count = np.maximum(known.sum(axis=1), 1)
    values = np.where(known, block, 0).astype(np.float64)
    middle = values.sum(axis=1) / count
    return np.asarray(np.sqrt((known * (values - middle[:, None]) ** 2).sum(axis=1) / count))


# What is measured of them.


@dataclass(frozen=True, eq=False)
class OrderMeasures(Shown):
    """Measures of how the captions of n pairs of a clip and its twin see their order.

    Attributes:
        pairs: scores of captions with clips and twins.
        control: whose captions those of a clip are held against.
        further: (n,) chance, in percent, that a caption of the clip prefers the clip to its twin more than one of the
            control does; ties count half.
        preferred: mean of these; 50 is chance.
        bound: the same mean with the interval of the two one-sided tests against the margin.
        p_value: two-sided p value of the sign test over pairs; None where captions of other clips are the control.
        shares: further shares of pairs in percent, by their names in `CHANCES`.
        recalls: R@1, R@5 and R@10 by whose captions look for what they describe, and among which clips.
        drawn: number of independent pairs: those of one video count once.
        same: whether the scores are the same whatever the order, but for rounding.
    """

    pairs: OrderPairs
    control: Control
    further: Column
    preferred: Interval
    bound: Interval
    p_value: float | None
    shares: Mapping[str, Interval]
    recalls: Mapping[tuple[str, str], Mapping[str, Interval]]
    drawn: int
    same: bool

    @property
    def effect(self) -> Effect:
        """The share of pairs whose own order is preferred beyond the control."""
        one, enough = self.preferred, self.same or self.drawn >= ENOUGH
        over = "pairs of a clip and its twin"
        return Effect(f"{_BEYOND}, %", one.value, one.low, one.high, CHANCE, self.p_value, enough, over)

    @property
    def is_within(self) -> bool:
        """Whether the ranking is sure to be less than the margin from chance: it is order-blind, or hardly sees it.

        It is not where the scores chose the pairs: a wrong choice hides order.
        """
        low, high = self.bound.low, self.bound.high
        if self.pairs.chosen or low is None or high is None:
            return False
        return low > CHANCE - MARGIN and high < CHANCE + MARGIN

    @property
    def verdict(self) -> Verdict:
        """Whether the ranking sees order, as far as that can be told."""
        effect = self.effect
        if self.same:
            return "blind"
        if isnan(effect.value):
            return "none"
        if not effect.enough:
            return "few"
        if effect.is_significant:
            return "turned" if effect.value < CHANCE else "hardly" if self.is_within else "sees"
        return "blind" if self.is_within else "open"


def measure_order(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
) -> OrderMeasures:
    """Measure whether captions prefer their clips to the same frames in another order.

    Arguments and errors are those of `audit_order`.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    pairs = order_pairs(scores, corpus, as_edited(edited, corpus), settings)
    own, cluster = own_scores(pairs, settings.band_bytes), pairs.cluster
    sides = replace(settings, confidence=max(2 * settings.confidence - 1, _LEAST)) if settings.resamples else settings
    by_both = not pairs.tells_clip.all()
    if by_both:
        further, shares = within_pairs(pairs, own)
        preferred, bound = (share_interval(further, cluster, one) for one in (settings, sides))
        p_value = sign_test(*groups_won(further / 100, cluster))
    else:
        further, lent, liked = beside_others(pairs, own, settings.band_bytes)
        preferred, bound = (_beyond_interval(further, lent, cluster, one) for one in (settings, sides))
        p_value = None
        wins, count = 100 * ((own.lead > 0) + 0.5 * (own.lead == 0)), len(pairs.clip_ids)
        of_clips = np.bincount(pairs.pair, wins, count) / np.bincount(pairs.pair, minlength=count)
        shares = {TEXT_OF_CLIP: np.asarray(of_clips), LIKED: liked}
    known = [name for name in CHANCES if name in shares and not np.isnan(shares[name]).all()]
    return OrderMeasures(
        pairs,
        "twins" if by_both else "others",
        further,
        preferred,
        bound,
        p_value,
        {name: share_interval(shares[name], cluster, settings) for name in known},
        {} if pairs.chosen else _recalls(pairs, own, settings),
        len(np.unique(cluster)),
        own.same,
    )


def _beyond_interval(further: Column, lent: Column, cluster: Indices, settings: AuditSettings) -> Interval:
    """Mean over pairs of captions that are held against each other: what a pair adds to it, it adds in both places."""
    value = float(further.mean())
    if isnan(value) or not settings.resamples:
        return Interval(value)
    sizes = np.bincount(cluster).astype(np.float64)
    parts = np.bincount(cluster, further + lent - 2 * value) / len(further)
    found = t_interval(value, parts, sizes, settings.confidence)
    return around(value, found.low, found.high, (0.0, 100.0))


def _recalls(pairs: OrderPairs, own: OwnScores, settings: AuditSettings) -> dict[tuple[str, str], dict[str, Interval]]:
    of_clips, both = pairs.tells_clip, "clips and twins"
    asked = {
        ("captions of clips", f"{len(pairs.clips.columns):,} clips"): (own.alone, of_clips),
        ("captions of clips", both): (own.together, of_clips),
    }
    if not of_clips.all():
        asked["captions of twins", both] = own.together, ~of_clips
        asked["all captions", both] = own.together, np.ones_like(of_clips)
    return {
        key: {f"R@{k}": share_interval(100 * hits.chance(k)[who], pairs.drawn_with[who], settings) for k in DEPTHS}
        for key, (hits, who) in asked.items()
    }


# Kinds of action whose order a ranking sees: the verbs of the captions of clips, or the values of a column.


class _ActionKinds(NamedTuple):
    # effects by name with the number of pairs, the most frequent first; the interval of an effect is of its kind alone
    found: Mapping[str, tuple[int, Effect]] = {}
    rarer: int = 0  # number of kinds that are not listed
    told_by: str = ""  # what says which kind a pair is of: a tagger, or a column; empty where nothing does
    notices: tuple[str, ...] = ()


def _action_kinds(
    measured: OrderMeasures, scores: ScoreBlocks, corpus: Corpus, settings: AuditSettings, column: str | None
) -> _ActionKinds:
    """Measure order by the verbs of the captions of clips, or by a column, also one that holds several numbers each."""
    pairs, kinds = measured.pairs, dict[str, list[str]]()
    if column in ("verb_classes", "noun_classes"):
        word = column.removesuffix("_classes")
        for clip, numbers in corpus.clips.select("clip_id", column).iter_rows():
            kinds[clip] = [f"{word} {one}" for one in numbers or ()]
    elif column is not None:
        groups = query_groups(corpus, column, pairs.clip_ids, of_captions=False)
        for clip, number in zip(pairs.clip_ids, groups.number.tolist(), strict=True):
            kinds[clip] = [groups.names[number]] if number >= 0 else []
    if column is not None:
        return _of_kinds(measured, kinds, settings, f"column {column!r}")
    texts, some = texts_of(scores, corpus), list[tuple[str, str]]()
    for row, pair, of_clip in zip(pairs.clips.rows.tolist(), pairs.pair.tolist(), pairs.tells_clip, strict=True):
        if of_clip and (text := texts.get(pairs.clips.scores.caption_ids[row])):
            some.append((pairs.clip_ids[pair], text))
    if not some:
        return _ActionKinds()
    some, tagger = some[:MOST_TAGGED], load_tagger()
    tagged = tagger.tag([text for _, text in some])
    if unknown_share(tagged) > MOST_UNKNOWN:
        notice = f"Most words of the captions are not English by the tagger ({tagger.name}): no kinds of action."
        return _ActionKinds(notices=(notice,))
    named = classes_of(tagged)
    of_clips = clip_classes(named, [clip for clip, _ in some])
    for clip, numbers in zip(of_clips.clip_ids, of_clips.verbs, strict=True):
        kinds[clip] = [named.verb_names[number] for number in numbers]
    return _of_kinds(measured, kinds, settings, f"the verbs of captions (tagger {tagger.name})")


def _of_kinds(
    measured: OrderMeasures, kinds: Mapping[str, list[str]], settings: AuditSettings, told_by: str
) -> _ActionKinds:
    members: dict[str, list[int]] = defaultdict(list)
    for pair, clip in enumerate(measured.pairs.clip_ids):
        for name in dict.fromkeys(kinds.get(clip, ())):
            members[name].append(pair)
    order = sorted(members, key=lambda name: (-len(members[name]), name))
    found = {}
    for name in [name for name in order if len(members[name]) >= FEWEST][:LISTED]:
        rows = np.array(members[name], np.int64)
        cluster = measured.pairs.cluster[rows]
        share = share_interval(measured.further[rows], cluster, settings)
        if measured.control == "others":  # how far a caption stands above others is a degree, no hit
            mean = mean_interval(measured.further[rows], cluster, settings)
            share = around(mean.value, mean.low, mean.high, (0.0, 100.0))
        enough = len(np.unique(cluster)) >= ENOUGH
        found[name] = len(rows), Effect(f"{_BEYOND}, %", share.value, share.low, share.high, CHANCE, enough=enough)
    every = len(measured.pairs.clip_ids)
    without = every - len({pair for some in members.values() for pair in some})
    notices = (f"Of {without:,} of {every:,} pairs no kind of action is known.",) if without else ()
    return _ActionKinds(found, len(order) - len(found), told_by, notices)


# Tables, figures and words.

_BEYOND = "own order preferred beyond the control"

_OF_CLIPS = 3
"""Rows where captions of clips alone are there."""

_LEADS = {
    "sees": "The ranking sees order",
    "hardly": "The ranking sees order, but hardly",
    "blind": "The ranking is order-blind",
    "turned": "The ranking prefers the wrong order",
    "open": "Whether the ranking sees order cannot be told",
    "few": "What was seen",
}


def _tables(measured: OrderMeasures, kinds: _ActionKinds) -> Iterator[AuditTable]:
    shares = {_BEYOND: (measured.preferred, CHANCE)}
    shares |= {name: (share, CHANCES[name]) for name, share in measured.shares.items()}
    names = (
        " Text to video and video to text are RTime-Binary; the three rows below are Winoground's image, text and "
        "group score, in which a tie is wrong."
    )
    rows: list[Named] = [
        {"share": name, "pairs": len(measured.further), "of pairs, %": share, "at random, %": chance}
        for name, (share, chance) in shares.items()
    ]
    note = (
        "What captions of the clip alone, or of the twin alone, choose has in it how much twins are liked by any "
        f"caption ({LIKED}); the first row has not.{names if len(rows) > _OF_CLIPS else ''}"
    )
    yield AuditTable.of("The own order against the other", rows, note)
    if kinds.found:
        rarer = f" {kinds.rarer:,} rarer kinds are not listed." if kinds.rarer else ""
        rows = [
            {
                "kind": name, "pairs": pairs, "own order preferred, %": Interval(one.value, one.low, one.high),
                "verdict": verdict(one),
            }
            for name, (pairs, one) in kinds.found.items()
        ]  # fmt: skip
        note = (
            f"By {kinds.told_by}; a pair of several kinds counts in each. Every interval is of its kind alone, so of "
            f"twenty kinds one is told by chance.{rarer}"
        )
        yield AuditTable.of("By kind of action", rows, note)
    if measured.recalls:
        rows = [
            {"who looks": who, "among": among, **{f"{name}, %": one for name, one in recalls.items()}}
            for (who, among), recalls in measured.recalls.items()
        ]
        note = (
            "The first row is RTime-Origin and the last RTime-Hard where both orders have captions. A ranking that "
            "does not see order loses half of R@1 to twins."
        )
        yield AuditTable.of("Recall with twins in the gallery", rows, note)


def _figures(measured: OrderMeasures, kinds: _ActionKinds) -> Iterator[AuditFigure]:
    unit = "share of pairs, %"
    effects = {"beyond the control": replace(measured.effect, name=unit)} | {
        name: Effect(unit, one.value, one.low, one.high, CHANCE)
        for name, one in measured.shares.items()
        if CHANCES[name] == CHANCE
    }
    yield AuditFigure(
        "The own order against the other",
        partial(effect_intervals, effects),
        "The dotted line is chance. The first share is the effect; how much any caption likes twins is not in it.",
    )
    if kinds.found:
        drawn = {f"{name} ({pairs:,})": one for name, (pairs, one) in [*kinds.found.items()][:DRAWN]}
        yield AuditFigure(
            "By kind of action",
            partial(effect_intervals, drawn),
            "Behind each kind the number of its pairs; fewer than 30 are too few to conclude anything.",
        )


def _notices(measured: OrderMeasures) -> Iterator[str]:
    yield from measured.pairs.notices
    if not measured.same and measured.pairs.chosen:
        yield (
            "Nobody has said which clip a sentence is of: each is held to be of the clip that it scores highest in "
            "both orders together. Where that is a wrong one, less order is seen than there is, so only equal scores "
            "are called order-blind."
        )
    elif not measured.same and measured.control == "others":
        yield (
            "No captions describe the twins, so captions of other clips are the control: they leave out how much a "
            "twin is liked at all, but not that its own caption finds less of itself in a twin which was encoded "
            "worse. Make clips and twins in the same way."
        )
    liked = measured.shares.get(LIKED)
    if liked is not None and liked.low is not None and liked.high is not None and not liked.low <= CHANCE <= liked.high:
        side = "less" if liked.value > CHANCE else "more"
        yield (
            f"Twins are liked {side} than clips whatever a caption says: {liked.value:.1f}% of the time the clip "
            "stands above its twin. The plain shares of captions of clips have that in them, the effect has not."
        )


def _sentence(measured: OrderMeasures, confidence: float) -> str:
    found, recalls = measured.verdict, ""
    if measured.recalls:
        alone, together = [one["R@1"].value for one in measured.recalls.values()][:2]
        recalls = f" R@1 of captions of clips goes from {alone:.1f} to {together:.1f}% with the twins in the gallery."
    if found == "none":
        return "No caption can be held against one of another pair, so nothing can be measured."
    if measured.same:
        return (
            f"The ranking is order-blind: its scores are the same whatever the order of frames, for all "
            f"{len(measured.pairs.twins.columns):,} pairs of a clip and its twin.{recalls}"
        )
    lead = f"Too few pairs to conclude: {measured.drawn:,}. {_LEADS[found]}" if found == "few" else _LEADS[found]
    if measured.preferred.low is None and found != "few":
        lead = "Without an interval nothing can be told"
    than = "a caption of the twin does" if measured.control == "twins" else "captions of other clips do"
    sure = f" (less than {MARGIN:.0f} points from chance with {percent(confidence)} confidence)"
    return (
        f"{lead}: in {figure_words(measured.preferred, confidence, '%')} of cases a caption prefers its clip to the "
        f"twin of another order more than {than}, where {CHANCE:.0f}% is chance"
        f"{sure if found in ('blind', 'hardly') else ''} ({len(measured.further):,} pairs).{recalls}"
    )
