"""Multiple-choice questions: of four short captions, does a clip prefer the one that is true of it, beyond other clips?

Alhamoud et al. 2025 (NegBench, arXiv 2501.09425), the task MCQ-Neg. Each clip shows a thing A and not a thing N. Its
true captions affirm A, deny N, or do both; each is held against the same three false ones, and is the answer of a kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices
from evenreel.audits.composition.edit_choice import Verdict, verdict_of
from evenreel.audits.composition.shown import clips_that_show, meant
from evenreel.audits.edits.perturbed import AS_IS, Perturbed
from evenreel.audits.exchange import mean_interval, share_interval
from evenreel.audits.settings import AuditSettings
from evenreel.evaluation.intervals import Interval, wilcoxon_test
from evenreel.language import load_tagger
from evenreel.language.composition.answers import ANSWERS
from evenreel.language.wording import content_phrases
from evenreel.report.result import ENOUGH, Effect
from evenreel.types import Corpus, ScoreBlocks

Kind = Literal["affirmation", "negation", "hybrid"]

KINDS: tuple[Kind, ...] = ("affirmation", "negation", "hybrid")
"""What the true answer of a question does: affirm a thing that is shown, deny one that is absent, or both."""

FALSE = tuple(f"false-{kind}" for kind in KINDS)
"""Names of the three answers that are false, the same for each kind of question."""

ALL = "all"

NAMING = "true-hybrid"
"""The answer that names both things; its texts tell which clips show one of them."""

FOUR = 25.0
"""Percent of questions that are answered rightly by guessing."""

BAG: Mapping[Kind, float] = {"affirmation": FOUR, "negation": FOUR, "hybrid": 50.0}
"""Percent above which a kind can be read: a bag of words cannot tell the true hybrid from the false one, only guess."""


@dataclass(frozen=True, eq=False)
class AnswerShares:
    """How clips answer the questions of one kind, or of all kinds.

    Attributes:
        questions, clips: number of questions that could be asked, and of their clips, or videos where these are drawn.
        accuracy: percent of questions of which the own clip prefers the true caption; of n that it likes best alike,
            a share of 1/n is counted. 25 is chance.
        others: how often clips choose that answer that are not known to show either thing, in percent; None where
            there are no such clips.
        net: accuracy less that of these clips, question by question, in points.
        chosen: (4,) percent of questions in which the own clip chooses each answer, the true one first, then `FALSE`.
        p_value: of the signed-rank test of Wilcoxon (1945) of `net` over clips; None where it is not known.
    """

    questions: int
    clips: int
    accuracy: Interval
    others: float | None
    net: Interval
    chosen: Column
    p_value: float | None


@dataclass(frozen=True, eq=False)
class MultipleChoice:
    """Answers of multiple-choice questions.

    Attributes:
        kinds: answers by kind of question.
        all: answers of all questions.
        excluded: whether clips that show one of the two things are left out of the other clips.
        notices: sentences on what was left out.
    """

    kinds: dict[Kind, AnswerShares]
    all: AnswerShares
    excluded: bool
    notices: tuple[str, ...]

    def verdict(self, kind: Kind) -> Verdict:
        """Say whether what a kind of questions asks is read: beyond other clips, and beyond a bag of words."""
        one = self.kinds[kind]
        return verdict_of(one.net, one.accuracy, BAG[kind], one.clips)

    @property
    def effect(self) -> Effect:
        """How much oftener own clips find the true caption that denies a thing than other clips choose it."""
        one = self.kinds["negation"]
        name, enough = "right answers beyond other clips (negation), points", one.clips >= ENOUGH
        return Effect(name, one.net.value, one.net.low, one.net.high, 0.0, one.p_value, enough, over="captions")


def measure_questions(
    corpus: Corpus, edited: Mapping[str, ScoreBlocks], settings: AuditSettings, texts: Corpus | None = None
) -> MultipleChoice:
    """Measure how often clips prefer the true caption of four, by the kind of the true one.

    Args:
        corpus: corpus that names each caption's own clip; its captions also say what each clip shows.
        edited: scores of the six captions, under the ids of the captions they are made of, by the names of `ANSWERS`.
        settings: samples, seed, confidence, and how much is read at once.
        texts: corpus of the captions of `NAMING`; without it clips that show a named thing stay among the other ones.

    Raises:
        CorpusError: the scores share no caption with its clip and another.
        ScoresError: a score is NaN.
    """
    first, *rest = ANSWERS
    perturbed = Perturbed.of(edited[first], corpus, {name: edited[name] for name in rest}, settings.cluster)
    neither = _Neither.of(perturbed, corpus, texts)
    own = {kind: np.full((4, len(perturbed.own)), np.nan) for kind in KINDS}
    others = {kind: np.full(len(perturbed.own), np.nan) for kind in KINDS}
    for held in perturbed.bands(settings.band_bytes // len(ANSWERS)):
        blocks = {name: perturbed.versions[AS_IS if name == first else name].block(held) for name in ANSWERS}
        rows, columns = np.arange(held.stop - held.start), perturbed.own[held]
        among = neither.flags(held)
        for kind in KINDS:
            shares = answer_shares(np.stack([blocks[name] for name in (f"true-{kind}", *FALSE)]))
            own[kind][:, held] = shares[:, rows, columns]
            others[kind][held] = _mean_where(shares[0], among & ~np.isnan(shares[0]))
    groups, every = perturbed.drawn_with, len(KINDS)
    kinds = {kind: _shares(own[kind], others[kind], groups, settings) for kind in KINDS}
    pooled = np.concatenate([*own.values()], axis=1), np.concatenate([*others.values()])
    in_all = _shares(*pooled, np.tile(groups, every), settings)
    notices = tuple(f"Multiple choice: {notice}" for notice in (*perturbed.notices, *_unknown(kinds, len(groups))))
    return MultipleChoice(kinds, in_all, texts is not None, notices)


def _unknown(kinds: Mapping[Kind, AnswerShares], captions: int) -> Iterator[str]:
    if any(one.others is None and one.questions for one in kinds.values()):
        yield "no clip is known to show neither of a question's things, so nothing says what other clips choose."
    if lost := captions - min(one.questions for one in kinds.values()):
        yield f"{lost:,} captions whose own clip scores minus infinity take no part."


def answer_shares(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Compute which of n captions clips choose: 1 for the best one, 1/m for m that are best alike, else 0.

    Args:
        scores: (n, ...) scores of the captions.

    Returns:
        (n, ...) shares, NaN where one of the n scores is minus infinity.

    >>> answer_shares(np.array([[3.0, 1.0, -np.inf], [3.0, 2.0, 1.0]])).tolist()
    [[0.5, 0.0, nan], [0.5, 1.0, nan]]
    """
    best = scores == scores.max(axis=0)
    return np.where(np.isfinite(scores).all(axis=0), best / best.sum(axis=0), np.nan)


@dataclass(frozen=True, eq=False)
class _Neither:
    """Which clips are not the own clip of a caption, and are not known to show what its answers name."""

    own: Indices
    things: list[list[str]]
    shown: Mapping[str, Flags]
    clips: int

    @classmethod
    def of(cls, perturbed: Perturbed, corpus: Corpus, texts: Corpus | None) -> _Neither:
        named: dict[str, list[str]] = {}
        if texts is not None:
            tagged = load_tagger().tag(texts.captions["text"].to_list())
            for caption, tokens in zip(texts.captions["caption_id"], tagged, strict=True):
                named[caption] = [meant(one.head) for one in content_phrases(tokens) if one.kind == "entity"]
        things = [named.get(caption, []) for caption in perturbed.caption_ids]
        shown = clips_that_show(corpus, perturbed.clip_ids) if named else {}
        return cls(perturbed.own, things, shown, len(perturbed.clip_ids))

    def flags(self, held: slice) -> Flags:
        """(b, V) for some of the captions."""
        own = self.own[held]
        found = np.ones((len(own), self.clips), np.bool_)
        found[np.arange(len(own)), own] = False
        for row, things in enumerate(self.things[held]):
            for thing in self.shown.keys() & things:
                found[row] &= ~self.shown[thing]
        return found


def _shares(own: NDArray[np.float64], others: Column, groups: Indices, settings: AuditSettings) -> AnswerShares:
    """Sum up Q answers of own clips (4, Q) and the shares (Q,) of other clips that choose the true caption."""
    right, known = 100 * own[0], ~np.isnan(own[0])
    if not known.any():
        nothing = Interval(float("nan"))
        return AnswerShares(0, 0, nothing, None, nothing, np.full(4, np.nan), None)
    apart = right - 100 * others
    beside = ~np.isnan(apart)
    return AnswerShares(
        questions=int(known.sum()),
        clips=len(np.unique(groups[known])),
        accuracy=share_interval(right, groups, settings),
        others=100 * float(others[beside].mean()) if beside.any() else None,
        net=mean_interval(apart, groups, settings),
        chosen=100 * own[:, known].mean(axis=1),
        p_value=wilcoxon_test(apart, groups) if beside.any() else None,
    )


def _mean_where(values: NDArray[np.float64], counted: Flags) -> Column:
    """(b,) mean of what is counted in each row, NaN where nothing is."""
    sums, numbers = np.where(counted, values, 0.0).sum(axis=1), counted.sum(axis=1)
    return np.where(numbers > 0, sums / np.maximum(numbers, 1), np.nan)
