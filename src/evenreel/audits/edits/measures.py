"""Measures of edits of clips or captions: how far captions' own clips move and fall, and how much recall is lost.

An edited clip is another clip, so it moves in any ranking. A control shows how much of that is due to what was edited:
an edit that changes as much, but not what the audit is about. Source of the test: Wilcoxon 1945 (signed ranks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isnan

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.audits.edits.exchanged import DEPTHS, lost_recall
from evenreel.audits.edits.perturbed import AS_IS, CLIP_PLACINGS, Perturbed, Standings
from evenreel.audits.exchange import hits_interval, inverted_interval, mean_interval
from evenreel.audits.inputs import as_edited, as_inputs
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.accepted import CorpusLike
from evenreel.errors import UsageError
from evenreel.evaluation.intervals import Interval, wilcoxon_test
from evenreel.evaluation.metrics import parse_metrics
from evenreel.evaluation.ranking import hit_columns
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import ENOUGH, Effect
from evenreel.types import Shown

CONTROL = "control"
"""The edit that the others are held against."""

RECALLS = parse_metrics([f"R@{depth}" for depth in DEPTHS])

MOVED, BEYOND, FELL, LOST = "moved", "beyond", "fell", "lost"
"""Kinds of change: see `EditChange`."""

Key = tuple[str, str, str]
"""Edit, placing and kind of change."""

_RECALLS = tuple(map(str, RECALLS))
_KINDS = (MOVED, BEYOND, FELL, LOST, *_RECALLS)


@dataclass(frozen=True)
class EditChange:
    """Mean change, over captions, of the distance and rank of their own clips under one edit.

    Distances are of a clip's score from the mean of the other clips', in their standard deviations. Above 0, the clip
    stands lower than without the edit.

    Attributes:
        edit, placing: name of the edit, and name of the choice of clips that are edited.
        moved: absolute change of the distance.
        beyond: absolute change beyond that under the control; NaN without one.
        fell: decrease of the distance.
        lost: decrease of the percentile, of 100.
        recalls: decrease of R@1, R@5 and R@10, in percentage points.
    """

    edit: str
    placing: str
    moved: Interval
    beyond: Interval
    fell: Interval
    lost: Interval
    recalls: dict[str, Interval]


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

    def still(self, edit: str) -> int:
        """Count the captions whose own clip has exactly the same distance with an edit as without."""
        before, after = self.standings[AS_IS, AS_IS], self.standings[edit, self.main[1]]
        return int(np.count_nonzero(before.distance == after.distance))


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
    well (`evenreel.audits.edits.exchanged`), and the other changes have none.

    Args:
        scores: scores of the unedited captions and clips.
        corpus: corpus that names each caption's own clip.
        edited: scores after each edit, by its name.
        settings: samples, seed, confidence, and how much is read at once.
        placings: pairs by name: whether the own clip's score is the edited one, and whether the others' are; the effect
            is of the first.
        main: edit that the effect is of; None for the first that is no control.

    Raises:
        CorpusError: the scores share no caption with its clip and another.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores, or only those of a control.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    perturbed = Perturbed.of(scores, corpus, as_edited(edited, corpus), settings.cluster)
    key = main or first_edit(perturbed), next(iter(placings))
    standings = perturbed.standings(placings, settings.band_bytes)
    columns = _columns(standings)
    found = {
        key: (hits_interval if key[2] in _RECALLS else mean_interval)(values, perturbed.drawn_with, settings)
        for key, values in columns.items()
    }
    if placings is CLIP_PLACINGS:
        found |= _of_others(perturbed, found, settings)
    changes = {
        one: _change(*one, {kind: found[(*one, kind)] for kind in _KINDS}) for one in standings if one[0] != AS_IS
    }
    kind = BEYOND if CONTROL in perturbed.edits else FELL
    effect = _effect(changes[key], kind, columns[(*key, kind)], perturbed.drawn_with)
    return PerturbedMeasures(perturbed, standings, changes, effect, key)


def _of_others(perturbed: Perturbed, found: Mapping[Key, Interval], settings: AuditSettings) -> dict[Key, Interval]:
    """Changes under edits of other clips: recalls with intervals over clips, the others without any."""
    shared = {name: edited for name, edited in CLIP_PLACINGS.items() if edited[1]}
    changed: dict[Key, Interval] = {
        key: Interval(one.value) for key, one in found.items() if key[1] in shared and key[2] not in _RECALLS
    }
    if not settings.resamples:
        return changed
    for edit in perturbed.edits:
        for placing, drawn in lost_recall(perturbed, edit, shared, settings).items():
            for name, samples in zip(_RECALLS, drawn, strict=True):
                changed[edit, placing, name] = inverted_interval(samples, settings, ends=(-100.0, 100.0))
    return changed


def first_edit(perturbed: Perturbed) -> str:
    """Return the name of the first edit that is no control.

    Raises:
        UsageError: there are only scores of a control.
    """
    for edit in perturbed.edits:
        if edit != CONTROL:
            return edit
    raise UsageError(f"The only scores after an edit are of the {CONTROL}; give those of an edit beside it.")


def _columns(standings: Mapping[tuple[str, str], Standings]) -> dict[Key, Column]:
    """(Q,) values by edit, placing and kind of change."""
    as_is = standings[AS_IS, AS_IS]
    before = hit_columns(as_is.hits, RECALLS)
    columns: dict[Key, Column] = {}
    for (edit, placing), after in standings.items():
        if edit == AS_IS:
            continue
        control = standings.get((CONTROL, placing)) if edit != CONTROL else None
        recalls = hit_columns(after.hits, RECALLS)
        fell = as_is.distance - after.distance
        still = np.full(len(fell), np.nan) if control is None else np.abs(as_is.distance - control.distance)
        values = [np.abs(fell), np.abs(fell) - still, fell, as_is.percentile - after.percentile]
        values += [before[name] - recalls[name] for name in _RECALLS]
        columns |= {(edit, placing, kind): column for kind, column in zip(_KINDS, values, strict=True)}
    return columns


def _change(edit: str, placing: str, found: Mapping[str, Interval]) -> EditChange:
    return EditChange(
        edit, placing, found[MOVED], found[BEYOND], found[FELL], found[LOST], {name: found[name] for name in _RECALLS}
    )


def _effect(change: EditChange, kind: str, values: Column, groups: Indices) -> Effect:
    name, figure = ("movement beyond the control", change.beyond) if kind == BEYOND else ("fall", change.fell)
    p = None if isnan(figure.value) else wilcoxon_test(values, groups)
    enough = len(np.unique(groups[~np.isnan(values)])) >= ENOUGH
    title = f"{name} ({change.edit}), SD"
    return Effect(title, figure.value, figure.low, figure.high, p_value=p, enough=enough, over="captions")


def means(standings: Standings) -> Iterator[float]:
    """Yield the mean percentile of own clips, then the mean of each recall of `RECALLS`, in percent."""
    yield float(standings.percentile.mean())
    columns = hit_columns(standings.hits, RECALLS)
    yield from (float(columns[name].mean()) for name in _RECALLS)
