"""Audits of edited clips and of edited captions: what does a ranking lose when one thing in them is changed?

BiMa, section 1: retrievers look at the dominant background and miss the small thing that a caption names, and captions
carry the habits of who wrote them, which retrievers learn with the content. Here one thing in a clip is replaced or
taken out, or the style of captions is changed and their content kept (and the other way round), the scores are made
anew, and the place of each caption's own clip is looked at.

An edited clip is another clip, so it moves in any ranking. A control shows how much of that is due to what was edited:
an edit that changes as much, but not what the audit is about. Scores after an edit are read a band at a time beside
those without one, so nothing of the size Q x V is made. Source of the test: Wilcoxon 1945 (signed ranks).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import isnan

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import CACHED_BYTES, SCORE_BYTES, Column, Indices, slices
from evenreel.audits.exchange import (
    Block,
    counted,
    drawn_flips,
    hits_interval,
    inverted_interval,
    mean_interval,
    ratio_intervals,
    share_interval,
)
from evenreel.audits.inputs import as_edited, as_inputs, paragraph, paragraphs, score_notices
from evenreel.audits.settings import NO_EDITS, AuditSettings
from evenreel.corpus.folder import CorpusLike
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.intervals import AUTO, Interval, clusters_of, numbered, wilcoxon_test
from evenreel.evaluation.metrics import parse_metrics
from evenreel.evaluation.ranking import CheckedScores, Hits, hit_columns
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.figures import deltas_by_group, table_bars
from evenreel.report.result import (
    ENOUGH,
    AuditFigure,
    AuditResult,
    AuditTable,
    Effect,
    Named,
    by_certainty,
    figure_words,
    interval_words,
)
from evenreel.types import Corpus, ScoreBlocks, Shown

AS_IS = ""  # the name of the edit that changes nothing
CONTROL = "control"  # the edit that the others are held against
OF_CONTENT = "content-"  # how the names of edits begin that take the content of captions away and leave the style

CLIP_PLACINGS = {"its clip": (True, False), "the other clips": (False, True), "all clips": (True, True)}
"""Which clips are the edited ones, where clips are edited: the caption's own, the others."""

CAPTION_PLACINGS = {"the caption": (True, True)}
"""Where captions are edited, every score of a caption is one of the edited caption."""

DEPTHS = (1, 5, 10)  # of the recall that is lost
RECALLS = parse_metrics([f"R@{depth}" for depth in DEPTHS])
_RECALLS = tuple(map(str, RECALLS))
_FIRST = _RECALLS[0]

_ROUNDING = 1e-9
"""Scores that lie nearer together than this share of their distance to the own clip's are equal but for rounding."""


def audit_visual(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
) -> AuditResult:
    """Test whether clips move in their captions' rankings when something in the picture is edited, beyond a control.

    Args:
        scores: scores of captions and clips as they are.
        corpus: corpus that names each caption's own clip.
        settings: samples, seed, confidence, and how much is read at once.
        edited: scores of the same captions with edited clips of the same ids, by the name of the edit.

    Raises:
        CorpusError: the scores share no caption with its clip and another.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    after, when = as_edited(edited, corpus), "when it alone is edited"
    measured = measure_perturbed(scores, corpus, after, settings)
    no_control = (
        "Score the clips also with an edit that leaves alone what is asked about, another take of the same scene or as "
        "many patches painted over elsewhere (`evenreel corpus edit --control`), and name it control."
    )
    return AuditResult(
        name="visual",
        title="What in the picture does the ranking hang on?",
        sentence=_sentence(measured, settings.confidence, when),
        effect=measured.effect,
        tables=(_movement_table(measured, when), standing_table(measured)),
        figures=tuple(_figures(measured, when)),
        notices=(*edited_notices(scores, corpus, settings, after), *perturbed_notices(measured, no_control)),
        method=paragraphs("edits", "Distance", "Effect", "What is edited", "Percentile and recall"),
        confidence=settings.confidence,
    )


def audit_textual(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
) -> AuditResult:
    """Test whether clips move in rankings when captions are restyled, beyond a control, and what style alone retrieves.

    Args:
        scores: scores of captions as they are, with clips.
        corpus: corpus that names each caption's own clip.
        settings: samples, seed, confidence, and how much is read at once.
        edited: scores of the edited captions, of the same ids, with the same clips, by the name of the
            edit; names that begin with `OF_CONTENT` are of edits that leave the style alone.

    Raises:
        CorpusError: the scores share no caption with its clip and another.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores, or none of an edit of style.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    after, when = as_edited(edited, corpus), "when the caption is edited"
    of_style = [name for name in after if name != CONTROL and not name.startswith(OF_CONTENT)]
    if after and not of_style:
        raise UsageError(
            f"The edited scores ({', '.join(after)}) are of no edit that changes the style of captions and keeps "
            "their content; give those of one, such as style-removed."
        )
    measured = measure_perturbed(scores, corpus, after, settings, CAPTION_PLACINGS, of_style[0] if of_style else None)
    no_control = (
        "Score the captions also with an edit that changes neither style nor content, such as `evenreel perturb --edit "
        "control` makes, and name it control."
    )
    alone, spread = _alone_table(measured, settings), _spread_table(measured, settings)
    sentence = _sentence(measured, settings.confidence, when)
    if alone.rows:
        found = figure_words(alone.intervals("percentile")[0], settings.confidence, "%")
        edit = alone.rows[0][0]
        sentence += f" Style alone ({edit!r}) puts the clip above {found} of the others, where 50 is chance."
    more = (table for table in (alone, spread) if table.rows)
    return AuditResult(
        name="textual",
        title="Does the ranking hang on how captions are worded?",
        sentence=sentence,
        effect=measured.effect,
        tables=(_movement_table(measured, when), standing_table(measured), *more),
        figures=tuple(_figures(measured, when)),
        notices=(*edited_notices(scores, corpus, settings, after), *perturbed_notices(measured, no_control)),
        method=(
            *paragraphs("edits", "Distance", "Effect"),
            paragraph("edits", "Style alone", of_content=OF_CONTENT),
            *paragraphs("edits", "Spread", "Percentile and recall"),
        ),
        confidence=settings.confidence,
    )


# Where captions' own clips stand, without and with an edit of clips or captions.


@dataclass(frozen=True, eq=False)
class Standings:
    """Ranks and score distances of the own clips of Q captions among the V - 1 other clips."""

    hits: Hits  # ranks of the own clips; equal scores are in random order
    # (Q,) score of the own clip less the mean of the others' finite scores, in their standard deviations. NaN where not
    # known: the own score is minus infinity, or the others are all equal and it is not
    distance: Column
    others: int  # number V - 1 of other clips

    @property
    def percentile(self) -> Column:
        """Share (Q,) of the other clips that each own clip scores above, ties half, in percent."""
        below = self.others - self.hits.above - self.hits.others / 2
        return np.asarray(100 * below / self.others)

    @classmethod
    def of(cls, own: Block, others: Block) -> Standings:
        """Compute ranks and distances of b own clips from their scores (b,) and those of the other clips (b, V - 1).

        >>> found = Standings.of(np.array([3.0]), np.array([[1.0, 3.0, 5.0, -np.inf]]))
        >>> found.distance.tolist(), found.percentile.tolist()
        ([0.0], [62.5])
        """
        column = own[:, None]
        above, equal = (np.count_nonzero(test(others, column), axis=1) for test in (np.greater, np.equal))
        hits = Hits(np.arange(len(own)), above, equal, np.ones_like(above), np.asarray(own > -np.inf))
        known = np.isfinite(others) & np.isfinite(own)[:, None]
        gaps = np.subtract(column, others, out=np.zeros(others.shape), where=known, dtype=np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):  # nothing is known, or all others are equal
            mean = gaps.sum(axis=1) / known.sum(axis=1)
            variance = (known * (gaps - mean[:, None]) ** 2).sum(axis=1) / known.sum(axis=1)
            distance = mean / np.sqrt(variance)
        spread = variance > (_ROUNDING * mean) ** 2
        return cls(hits, np.where(spread, distance, np.where(mean == 0, 0.0, np.nan)), others.shape[1])

    @classmethod
    def joined(cls, parts: Sequence[Standings]) -> Standings:
        """Concatenate standings of several bands of captions."""
        distance = np.concatenate([part.distance for part in parts])
        every, starts = np.arange(len(distance)), np.cumsum([0, *(len(part.distance) for part in parts)])
        hits = [part.hits.renumbered(every[start:]) for part, start in zip(parts, starts, strict=False)]
        return cls(Hits.joined(hits), distance, parts[0].others)


@dataclass(frozen=True, eq=False)
class Version:
    """Scores after one edit, with the captions and clips that all versions have, in the same order."""

    scores: CheckedScores
    rows: Indices
    columns: Indices

    @classmethod
    def of(cls, scores: CheckedScores, captions: Sequence[str], clips: Sequence[str]) -> Version:
        """Select some captions and clips of scores, in an order."""
        rows, columns = (
            {one: place for place, one in enumerate(ids)} for ids in (scores.caption_ids, scores.video_ids)
        )
        found = ([place[one] for one in ids] for place, ids in ((rows, captions), (columns, clips)))
        return cls(scores, *(np.array(places, dtype=np.int64) for places in found))

    def block(self, held: slice) -> Block:
        """Read the scores (b, V) of some of the Q captions."""
        rows, every = self.rows[held], slice(0, len(self.scores.video_ids))
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        parts = [self.scores.block(slice(int(run[0]), int(run[-1]) + 1), every) for run in runs]
        return np.concatenate(parts).take(self.columns, axis=1)


@dataclass(frozen=True, eq=False)
class Perturbed:
    """Scores as they are and after edits, of the Q captions and V clips that all of them have."""

    versions: dict[str, Version]  # scores by the name of the edit, `AS_IS` (no edit) first
    clip_ids: tuple[str, ...]  # (V,) ids of the clips
    own: Indices  # (Q,) index of the clip that each caption describes, or looks for
    cluster: Indices  # (V,) numbers from 0, equal for clips that are resampled together, such as those of one video
    caption_ids: tuple[str, ...]  # (Q,) ids of the captions
    notices: tuple[str, ...]  # sentences on what was left out

    @property
    def drawn_with(self) -> Indices:
        """Number (Q,) of the cluster that each caption is resampled with: its clip, or its clip's video."""
        return self.cluster[self.own]

    @cached_property
    def edits(self) -> tuple[str, ...]:
        """Names of the edits, in the order they were given."""
        return tuple(name for name in self.versions if name != AS_IS)

    @classmethod
    def of(
        cls, scores: ScoreBlocks, corpus: Corpus, edited: Mapping[str, ScoreBlocks], cluster: str = AUTO
    ) -> Perturbed:
        """Collect the scores of the captions and clips that all versions have, unedited and by the name of the edit."""
        if not edited:
            raise UsageError(
                "There are no scores after an edit to hold these against; give them with --edited NAME=FILE "
                "(AuditInputs.edited)."
            )
        checked = {name: CheckedScores(one) for name, one in {AS_IS: scores, **edited}.items()}
        every_clip = [set(one.video_ids) for one in checked.values()]
        every_caption = [set(one.caption_ids) for one in checked.values()]
        shared, said = set.intersection(*every_clip), set.intersection(*every_caption)
        clips = tuple(one for one in checked[AS_IS].video_ids if one in shared)
        clip_of = dict(corpus.captions.select("caption_id", "clip_id").rows())
        asked = tuple(one for one in checked[AS_IS].caption_ids if one in said and clip_of.get(one) in shared)
        if not asked or len(clips) < 2:
            raise CorpusError(
                f"The scores and the edited ones share {len(clips):,} clips, and {len(asked):,} captions whose clip is "
                "among them; score the same captions and clips before and after the edit, at least two clips."
            )
        strangers = len(set.union(*every_caption)) - len(asked)
        left_out = {
            "Clips that are not in all of the scores": len(set.union(*every_clip)) - len(clips),
            "Captions that are not in all of the scores, or whose clip is not": strangers,
        }
        place = {clip: number for number, clip in enumerate(clips)}
        return cls(
            {name: Version.of(one, asked, clips) for name, one in checked.items()},
            clips,
            np.array([place[clip_of[one]] for one in asked], dtype=np.int64),
            numbered(clusters_of(corpus, cluster).of(clips))[0],
            asked,
            tuple(f"{what}: {count:,} left out." for what, count in left_out.items() if count),
        )

    def aimed(self, captions: Indices, clips: Indices) -> Perturbed:
        """Return the same scores for P captions (P,), which may recur, each with another clip (P,) as its own."""
        versions = {name: replace(one, rows=one.rows[captions]) for name, one in self.versions.items()}
        return replace(self, versions=versions, own=clips, caption_ids=tuple(self.caption_ids[one] for one in captions))

    def standings(self, placings: Mapping[str, tuple[bool, bool]], band_bytes: int) -> dict[tuple[str, str], Standings]:
        """Compute ranks and distances of own clips, by the names of edit and placing, (`AS_IS`, `AS_IS`) first."""
        parts: dict[tuple[str, str], list[Standings]] = defaultdict(list)
        for held in self.bands(band_bytes):
            own, others = self._own_and_others(AS_IS, held)
            parts[AS_IS, AS_IS].append(Standings.of(own, others))
            for edit in self.edits:
                own_after, others_after = self._own_and_others(edit, held)
                for placing, (of_own, of_others) in placings.items():
                    found = Standings.of(own_after if of_own else own, others_after if of_others else others)
                    parts[edit, placing].append(found)
        return {key: Standings.joined(some) for key, some in parts.items()}

    def bands(self, band_bytes: int, width: int = 1) -> Iterator[slice]:
        """Iterate over slices of the Q captions whose scores, or `width` times as many, fit in `band_bytes`."""
        widest = max(width, *(len(one.scores.video_ids) for one in self.versions.values()))
        return slices(len(self.own), min(band_bytes, CACHED_BYTES) // (SCORE_BYTES * widest))

    def _own_and_others(self, edit: str, held: slice) -> tuple[Block, Block]:
        """(b,) scores of the own clips and (b, V - 1) of the others."""
        block, own = self.versions[edit].block(held), self.own[held]
        other = np.arange(block.shape[1]) != own[:, None]
        return block[np.arange(len(own)), own], block[other].reshape(len(own), -1)


# What edits change.


@dataclass(frozen=True)
class EditChange:
    """Mean change, over captions, of the distance and rank of their own clips under one edit.

    Distances are of a clip's score from the mean of the other clips', in their standard deviations. Above 0, the clip
    stands lower than without the edit.
    """

    moved: Interval  # absolute change of the distance
    beyond: Interval  # absolute change beyond that under the control; NaN without one
    fell: Interval  # decrease of the distance
    lost: Interval  # decrease of the percentile, of 100
    recalls: dict[str, Interval]  # decrease of R@1, R@5 and R@10, in percentage points


@dataclass(frozen=True, eq=False)
class PerturbedMeasures(Shown):
    """Measures of what edits do to a ranking.

    Attributes:
        perturbed: scores of captions and clips, as they are and after edits.
        standings: places of captions' own clips by the edit and its placing; unedited under (`AS_IS`, `AS_IS`).
        changes: changes by the edit and its placing, without (`AS_IS`, `AS_IS`).
        effect: movement of own clips under the first edit beyond the control, or without a control their fall; in the
            first placing.
        main: edit and placing of the effect, a key of `changes`.
    """

    perturbed: Perturbed
    standings: dict[tuple[str, str], Standings]
    changes: dict[tuple[str, str], EditChange]
    effect: Effect
    main: tuple[str, str]

    @property
    def controlled(self) -> bool:
        """Whether there is a control to compare the edits with."""
        return CONTROL in self.perturbed.edits

    @property
    def clips(self) -> int:
        """Number of clips that have captions."""
        return len(np.unique(self.perturbed.own))

    @property
    def unknown(self) -> int:
        """Number of captions whose own clip's distance is not known in some version of the scores."""
        return int(np.isnan([one.distance for one in self.standings.values()]).any(axis=0).sum())


def measure_perturbed(
    scores: ScoresLike,
    corpus: CorpusLike,
    edited: Mapping[str, ScoresLike],
    settings: AuditSettings,
    placings: Mapping[str, tuple[bool, bool]] = CLIP_PLACINGS,
    main: str | None = None,
) -> PerturbedMeasures:
    """Measure what edits change in a ranking; intervals are over clips, with all their captions.

    Where other clips are edited too, they are the same for every caption, so lost recall has an interval over these as
    well (`lost_recall`), and the other changes have none. `placings` say by name whether the own clip's score is the
    edited one, and whether the others' are; the effect is of the first, and of the edit `main`, or the first that is no
    control. Other arguments and errors are those of `audit_visual`.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    perturbed = Perturbed.of(scores, corpus, as_edited(edited, corpus), settings.cluster)
    main = main or next((edit for edit in perturbed.edits if edit != CONTROL), None)
    if main is None:
        raise UsageError(f"The only scores after an edit are of the {CONTROL}; give those of an edit beside it.")
    key, groups = (main, next(iter(placings))), perturbed.drawn_with
    standings = perturbed.standings(placings, settings.band_bytes)
    as_is = standings[AS_IS, AS_IS]
    before = hit_columns(as_is.hits, RECALLS)
    shared = {name: edited for name, edited in CLIP_PLACINGS.items() if edited[1]} if placings is CLIP_PLACINGS else {}
    edits = perturbed.edits if shared and settings.resamples else ()
    exchanged = {edit: lost_recall(perturbed, edit, shared, settings) for edit in edits}

    def mean(values: Column, placing: str) -> Interval:
        found = mean_interval(values, groups, settings)
        return Interval(found.value) if placing in shared else found

    changes: dict[tuple[str, str], EditChange] = {}
    unknown, tested = np.full(len(groups), np.nan), np.empty(0)
    for edit, placing in standings:
        if edit == AS_IS:
            continue
        after = standings[edit, placing]
        fell, recalls = as_is.distance - after.distance, hit_columns(after.hits, RECALLS)
        control = standings.get((CONTROL, placing)) if edit != CONTROL else None
        beyond = unknown if control is None else np.abs(fell) - np.abs(as_is.distance - control.distance)
        lost = {name: hits_interval(before[name] - recalls[name], groups, settings) for name in _RECALLS}
        if edit in exchanged and placing in shared:
            drawn = zip(_RECALLS, exchanged[edit][placing], strict=True)
            lost = {name: inverted_interval(samples, settings, ends=(-100.0, 100.0)) for name, samples in drawn}
        changes[edit, placing] = EditChange(
            mean(np.abs(fell), placing), mean(beyond, placing), mean(fell, placing),
            mean(as_is.percentile - after.percentile, placing), lost,
        )  # fmt: skip
        if (edit, placing) == key:
            tested = beyond if CONTROL in perturbed.edits else fell
    name, figure = "fall", changes[key].fell
    if CONTROL in perturbed.edits:
        name, figure = "movement beyond the control", changes[key].beyond
    effect = clip_effect(f"{name} ({main}), SD", figure, tested, groups)
    return PerturbedMeasures(perturbed, standings, changes, effect, key)


def clip_effect(name: str, figure: Interval, values: Column, groups: Indices) -> Effect:
    """Make an effect of a mean over captions (Q,), with the signed-rank test over their groups (Q,)."""
    p = None if np.isnan(values).all() else wilcoxon_test(values, groups)
    enough = len(np.unique(groups[~np.isnan(values)])) >= ENOUGH
    return Effect(name, figure.value, figure.low, figure.high, p_value=p, enough=enough, over="captions")


def lost_recall(
    perturbed: Perturbed, edit: str, placings: Mapping[str, tuple[bool, bool]], settings: AuditSettings
) -> dict[str, Column]:
    """Compute the recall lost by an edit, (K, 1 + B) by placing: as measured, and with versions exchanged B times.

    Recall is at the K depths of `DEPTHS`, in percentage points. An edit that makes a clip a hub takes the first place
    from many captions at once, so samples of captions, among the same edited clips, report a loss where an edit does
    nothing on average. Without an effect it does not matter which of a clip's two versions is called the edited one:
    exchanging them for some clips, for all captions at once, makes another sample of the same kind (Fisher 1935), from
    which intervals are inverted (`evenreel.audits.exchange`).

    Args:
        perturbed: scores of captions and clips, as they are and after edits.
        edit: name of the edit.
        placings: pairs by name: whether the own clip's score is the edited one, and whether the others' are.
        settings: `resamples`, `seed`, and how much is read at once.

    Raises:
        ScoresError: a score is NaN.
    """
    flips = drawn_flips(int(perturbed.cluster.max()) + 1, settings)[:, perturbed.cluster]  # (1 + B, V)
    swapped = np.ascontiguousarray(flips.T, dtype=np.float32)
    lost = {placing: np.zeros((len(DEPTHS), len(flips))) for placing in placings}
    for held in perturbed.bands(settings.band_bytes, len(flips)):
        recalls = _exchanged_recalls(perturbed, edit, held, swapped)
        before = recalls(False, False)
        for placing, placed in placings.items():
            lost[placing] += (before - recalls(*placed)).sum(axis=1)
    return {placing: sums / len(perturbed.own) for placing, sums in lost.items()}


def _exchanged_recalls(
    perturbed: Perturbed, edit: str, held: slice, swapped: NDArray[np.float32]
) -> Callable[[bool, bool], NDArray[np.float64]]:
    """Chance in percent (K, b, 1 + B) to be among the first, where own clips, and the others, are those called edited.

    `swapped` (V, 1 + B) says which clips' versions are exchanged.
    """
    rows, own = np.arange(held.stop - held.start), perturbed.own[held]
    as_is, edited = (perturbed.versions[name].block(held).astype(np.float64) for name in (AS_IS, edit))
    scores = [block[rows, own] for block in (as_is, edited)]
    for block in (as_is, edited):
        block[rows, own] = -np.inf  # the own clip is none of the others
    # By whose score it is, as it is and after the edit, then by the others, those called as they are and those called
    # edited, then above and equal: (b, 1 + B).
    counts = [counted(as_is, edited, score, swapped) for score in scores]
    retrieved, exchanged = np.array(scores)[:, :, None] > -np.inf, swapped[own] > 0

    def recalls(of_own: bool, of_others: bool) -> NDArray[np.float64]:
        is_edited = exchanged != of_own
        above, equal = (
            np.where(is_edited, *(counts[one][of_others][kind] for one in (1, 0))).astype(np.float64) for kind in (0, 1)
        )
        found = np.where(is_edited, retrieved[1], retrieved[0])
        return np.stack([100 * found * np.clip((depth - above) / (equal + 1.0), 0, 1) for depth in DEPTHS])

    return recalls


# Tables and figures.


def _movement_table(measured: PerturbedMeasures, when: str) -> AuditTable:
    rows: list[Named] = []
    for edit in measured.perturbed.edits:
        change = measured.changes[edit, measured.main[1]]
        beyond = {"beyond the control": change.beyond} if measured.controlled else {}
        rows.append({"edit": edit, "moves by, SD": change.moved, **beyond, "falls by, SD": change.fell})
    note = (
        f"SD: standard deviations of the scores of the other clips. {len(measured.perturbed.own):,} captions of "
        f"{measured.clips:,} clips, in a gallery of {len(measured.perturbed.clip_ids):,}."
    )
    return AuditTable.of(f"How far the clip of a caption moves {when}", rows, note)


def standing_table(measured: PerturbedMeasures) -> AuditTable:
    """Tabulate the percentile and recall of captions' own clips, without an edit and under each edit."""
    rows: list[Named] = []
    for key, standings in measured.standings.items():
        edit, edited = ("none", "nothing") if key == (AS_IS, AS_IS) else key
        lost = None if key == (AS_IS, AS_IS) else measured.changes[key].recalls[_FIRST]
        columns = hit_columns(standings.hits, RECALLS)
        recalls = {name: float(columns[name].mean()) for name in _RECALLS}
        percentile = float(standings.percentile.mean())
        rows.append({"edit": edit, "edited": edited, "percentile": percentile, **recalls, f"{_FIRST} lost": lost})
    note = (
        "The percentile is the share of the other clips that it stands above. R@k in percent, what is lost in points."
    )
    return AuditTable.of("Where the clip of a caption stands", rows, note)


def _figures(measured: PerturbedMeasures, when: str) -> Iterator[AuditFigure]:
    losses: dict[str, dict[str, Interval]] = {}
    for (edit, edited), change in measured.changes.items():
        losses.setdefault(f"edited: {edited}", {})[edit] = change.recalls[_FIRST]
    unit = "standard deviations of the other clips' scores"
    yield AuditFigure(
        "How far the clip of a caption moves",
        partial(table_bars, _movement_table(measured, when), "edit", ["moves by, SD"], unit),
        f"Edited: {measured.main[1]}. What an edit does beyond the control is due to what it edits.",
    )
    yield AuditFigure(f"What that costs in {_FIRST}", partial(deltas_by_group, losses, f"{_FIRST} lost, points"))


def _alone_table(measured: PerturbedMeasures, settings: AuditSettings) -> AuditTable:
    rows: list[Named] = []
    groups = measured.perturbed.drawn_with
    for edit in measured.perturbed.edits:
        if edit.startswith(OF_CONTENT):
            one = measured.standings[edit, measured.main[1]]
            percentile, first = (
                share_interval(values, groups, settings) for values in (one.percentile, 100 * one.hits.chance(1))
            )
            rows.append({"edit": edit, "percentile": percentile, "R@1": first})
    note = f"By chance the percentile is 50 and R@1 {100 / len(measured.perturbed.clip_ids):.2f}."
    return AuditTable.of("What style alone finds", rows, note)


def _spread_table(measured: PerturbedMeasures, settings: AuditSettings) -> AuditTable:
    """Roots of the mean square over a clip's captions before and after each edit of style, and the share it removes.

    The share is in percent; NaN where of no clip two captions are known. Where no clip has two there is no row.
    """
    rows: list[Named] = []
    own, before = measured.perturbed.own, measured.standings[AS_IS, AS_IS].distance
    for edit in measured.perturbed.edits if np.bincount(own).max() > 1 else ():
        if edit.startswith(OF_CONTENT):
            continue
        first, second, known = _squares(before, measured.standings[edit, measured.main[1]].distance, own)
        (left,) = ratio_intervals(second[None], first[None], measured.perturbed.drawn_with, settings)
        low, high = (None if end is None else 100 * (1 - end) for end in (left.high, left.low))
        with np.errstate(invalid="ignore"):  # of no clip are two captions known
            roots = np.sqrt([first.sum() / known.sum(), second.sum() / known.sum()]).tolist()
        taken = Interval(100 * (1 - left.value), low, high)
        rows.append({"edit": edit, "before, SD": roots[0], "after, SD": roots[1], "taken away, %": taken})
    note = "Of the distance of their clip. What an edit of style takes away is what style adds to the spread."
    return AuditTable.of("How far the captions of a clip differ", rows, note)


def _squares(before: Column, after: Column, groups: Indices) -> Column:
    """(3, Q) squared differences from the mean of their group before and after, and what is counted; 0 where not."""
    known = ~np.isnan(before + after)
    sizes = np.bincount(groups, known)
    among = known & (sizes[groups] > 1)
    rows = []
    for values in (before, after):
        filled = np.where(known, values, 0.0)
        middle = np.bincount(groups, filled)[groups] / np.maximum(sizes, 1)[groups]
        rows.append(np.where(among, (filled - middle) ** 2, 0.0))
    return np.array([*rows, among])


# Words.

_MOST_BESIDE = 3
"""Other edits that a sentence names."""


def perturbed_notices(
    measured: PerturbedMeasures,
    no_control: str,
    unmoved: str = "Leave those in which nothing was changed out of its scores: they count as not moved.",
) -> Iterator[str]:
    """Yield notices on the data of an audit of edits."""
    yield from measured.perturbed.notices
    if not measured.controlled:
        yield f"There are no scores of a control, so nothing says how far clips move in any edit. {no_control}"
    if measured.unknown:
        yield (
            f"Captions whose own clip scores minus infinity, or whose other clips all score the same, before or after "
            f"an edit: {measured.unknown:,} take no part in the distances."
        )
    before = measured.standings[AS_IS, AS_IS].distance
    for edit in measured.perturbed.edits:
        still = int(np.count_nonzero(before == measured.standings[edit, measured.main[1]].distance))
        if edit != CONTROL and still:
            yield (
                f"With {edit!r}, {still:,} of {len(before):,} captions find their clip exactly where it was. {unmoved}"
            )


def edited_notices(
    scores: ScoreBlocks, corpus: Corpus, settings: AuditSettings, edited: Mapping[str, ScoreBlocks]
) -> Iterator[str]:
    """Yield notices on the scores, and on what the scores after each edit use beside captions and clips."""
    yield from score_notices(scores, corpus, settings.cluster)
    for edit, one in edited.items():
        if one.about.uses:
            yield f"The scores of {edit!r} use {' and '.join(one.about.uses)}."


def edit_lead(effect: Effect, edit: str, chance: str, found: str) -> str:
    """Begin the sentence on the effect of an edit, with `chance` or `found` where an interval says which."""
    few, unsure = f"What was seen of {edit!r}", f"Without an interval nothing can be told of {edit!r}"
    return by_certainty(effect, few, unsure, chance, found)


def _sentence(measured: PerturbedMeasures, confidence: float, when: str) -> str:
    effect, change, (edit, placing) = measured.effect, measured.changes[measured.main], measured.main
    if isnan(effect.value):
        return "The own clip of no caption has a score among others that differ, so nothing can be measured."
    said = "" if effect.enough else f"Too few clips to conclude: {measured.clips:,}. "
    unit = "standard deviations of the other clips' scores"
    if measured.controlled:
        hangs = f"The ranking hangs on what {edit!r} changes"
        less = f"The ranking hangs less on what {edit!r} changes than on what the control does"
        chance = f"That the ranking hangs on what {edit!r} changes cannot be told"
        said += (
            f"{edit_lead(effect, edit, chance, less if effect.value < 0 else hangs)}: with it the clip of a caption "
            f"moves by {change.moved.value:.2f} {unit} {when}, which is {effect.value:.2f} beyond the control"
            f"{interval_words(effect, confidence)}."
        )
        others = [name for name in measured.perturbed.edits if name not in (edit, CONTROL)][:_MOST_BESIDE]
        if others:
            moves = (f"{measured.changes[name, placing].moved.value:.2f} with {name!r}" for name in others)
            said += f" Beside it: {', '.join(moves)}."
    else:
        does, fall = "falls", effect
        if effect.value < 0:
            low, high = (None if end is None else -end for end in (effect.high, effect.low))
            does, fall = "rises", replace(effect, value=-effect.value, low=low, high=high)
        lead = "What was seen: the" if not effect.enough else "The"
        if effect.enough and not effect.is_significant:
            lead = f"That {edit!r} makes clips fall or rise cannot be told: the"
        said += (
            f"{lead} clip of a caption {does} by {fall.value:.2f} {unit} with {edit!r} {when}"
            f"{interval_words(fall, confidence)}."
        )
    first, after = (
        100 * float(measured.standings[key].hits.chance(1).mean()) for key in ((AS_IS, AS_IS), measured.main)
    )
    return f"{said} R@1 goes from {first:.1f} to {after:.1f}% {when}."
