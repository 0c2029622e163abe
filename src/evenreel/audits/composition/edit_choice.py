"""What own clips prefer under one edit, with intervals, and what may be concluded of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.audits.composition.choices import Choices, measured_choices
from evenreel.audits.composition.negation import NEGATED
from evenreel.audits.edits.measures import CONTROL
from evenreel.audits.edits.perturbed import Perturbed
from evenreel.audits.exchange import mean_interval, share_interval
from evenreel.audits.settings import AuditSettings
from evenreel.evaluation.intervals import Interval, wilcoxon_test
from evenreel.report.result import ENOUGH, Effect
from evenreel.types import Corpus, ScoreBlocks

CHANCE = 50.0
"""Percent of the other clips that a clip's preference exceeds where the ranking does not read what was edited."""

HARDLY = 10.0
"""Points above chance below which a whole interval says that an edit is not read: of five captions four are guesses."""

AFFIRMED = "affirmed"
"""The edit whose captions say of a thing that it is there where those of `NEGATED` deny it: false by one word."""

Verdict = Literal["too few to conclude", "no interval", "reads it", "does not read it", "cannot be told"]


@dataclass(frozen=True, eq=False)
class EditChoice:
    """What the own clips of captions prefer, the true caption or the edited one, under one edit.

    Attributes:
        edit: name of the edit.
        perturbed: scores of the true captions, and of the edited ones under the name of the edit.
        choices: choices of each caption's clip.
        chosen, beyond, margin, blurred: their means, see `Choices`.
        control: mean of `beyond` under the control, of the same captions; None without a control.
        net: how far `beyond` is above 50, or above the control where there is one, in points.
        p_value: of the signed-rank test of Wilcoxon (1945) of `net` over clips; None without captions.
    """

    edit: str
    perturbed: Perturbed
    choices: Choices
    chosen: Interval
    beyond: Interval
    margin: Interval
    blurred: Interval
    control: Interval | None
    net: Interval
    p_value: float | None

    @property
    def clips(self) -> int:
        """Number of clips, or of videos where these are drawn, whose captions are measured."""
        return len(np.unique(self.perturbed.drawn_with[~np.isnan(self.choices.beyond)]))

    @property
    def enough(self) -> bool:
        """Whether there are enough clips to conclude anything."""
        return self.clips >= ENOUGH

    @property
    def verdict(self) -> Verdict:
        """Whether what was edited is read: beyond chance, and beyond the control where there is one."""
        return verdict_of(self.net, self.beyond, CHANCE, self.clips)

    @property
    def effect(self) -> Effect:
        """The figure of the verdict: points above chance, or above the control."""
        over = "beyond the control" if self.control else "above chance"
        name = f"choices {over} ({self.edit}), points"
        p = self.p_value
        return Effect(name, self.net.value, self.net.low, self.net.high, 0.0, p, self.enough, over="captions")


def verdict_of(net: Interval, choice: Interval, chance: float, clips: int) -> Verdict:
    """Conclude from a choice whether what it goes by is read.

    Args:
        net: how far the choice is above that of other clips, or of a control, in points.
        choice: the choice in percent.
        chance: percent that it has to be above as well.
        clips: number of clips, or of videos where these are drawn.
    """
    if clips < ENOUGH:
        return "too few to conclude"
    if net.low is None or net.high is None or choice.low is None:
        return "no interval"
    if net.low > 0 and choice.low > chance:
        return "reads it"
    return "does not read it" if net.high < HARDLY else "cannot be told"


def edit_choice(
    edit: str, scores: ScoreBlocks, corpus: Corpus, edited: Mapping[str, ScoreBlocks], settings: AuditSettings
) -> EditChoice:
    """Measure what own clips prefer under one edit, on the captions that it changes.

    Args:
        edit: name of the edit.
        scores: scores of the captions as they are, with clips.
        corpus: corpus that names each caption's own clip.
        edited: scores of the edited captions by the name of the edit; the others but the control are not read, except
            that `AFFIRMED` is held against `NEGATED`, whose captions are as long, where that is there.
        settings: samples, seed, confidence, and how much is read at once.

    Raises:
        CorpusError: the scores share no caption with its clip and another.
    """
    denied = edit == AFFIRMED and NEGATED in edited
    asked = {name: edited[name] for name in (edit, CONTROL) if name in edited and not (denied and name == CONTROL)}
    perturbed = Perturbed.of(edited[NEGATED] if denied else scores, corpus, asked, settings.cluster)
    found = measured_choices(perturbed, edit, settings.band_bytes)
    groups = perturbed.drawn_with
    control, apart = None, found.beyond - CHANCE
    if CONTROL in asked and edit != CONTROL:
        still = measured_choices(perturbed, CONTROL, settings.band_bytes).beyond
        control, apart = _share(still, groups, settings), found.beyond - still
    return EditChoice(
        edit=edit,
        perturbed=perturbed,
        choices=found,
        chosen=_share(found.chosen, groups, settings),
        beyond=_share(found.beyond, groups, settings),
        margin=mean_interval(found.margin, groups, settings),
        blurred=_share(found.blurred, groups, settings),
        control=control,
        net=mean_interval(apart, groups, settings),
        p_value=None if np.isnan(apart).all() else wilcoxon_test(apart, groups),
    )


def _share(values: Column, groups: Indices, settings: AuditSettings) -> Interval:
    return Interval(float("nan")) if np.isnan(values).all() else share_interval(values, groups, settings)
