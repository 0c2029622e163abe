"""Audit of edited captions: does a ranking read sentences, or bags of words?

Yuksekgonul et al. 2023 ('When and why vision-language models behave like bags-of-words'): rankings of images hardly
tell `the horse eats the grass` from `the grass eats the horse`. Alhamoud et al. 2025 (NegBench, arXiv 2501.09425): nor
`with no dog` from `with a dog`; captions that deny a thing are its task Retrieval-Neg, questions of four captions its
task MCQ-Neg.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from math import isnan
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from evenreel.arrays import Column, Flags, Indices
from evenreel.audits.edits import AS_IS, CAPTION_PLACINGS, CONTROL, RECALLS, Perturbed, edited_notices
from evenreel.audits.exchange import Block, hits_interval, mean_interval, share_interval
from evenreel.audits.inputs import as_edited, as_inputs, as_texts, paragraphs
from evenreel.audits.settings import NO_EDITS, AuditSettings
from evenreel.corpus.folder import CorpusLike
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.intervals import Interval, wilcoxon_test
from evenreel.evaluation.ranking import hit_columns
from evenreel.evaluation.scores import ScoresLike
from evenreel.language import Tagged, load_tagger, phrases
from evenreel.language.composition import ANSWERS, attribute_values, meant
from evenreel.language.tokens import split_words
from evenreel.language.wording import content_phrases
from evenreel.report.figures import table_bars
from evenreel.report.result import (
    ENOUGH,
    AuditFigure,
    AuditResult,
    AuditTable,
    Effect,
    Named,
    by_certainty,
    figure_words,
)
from evenreel.types import Corpus, ScoreBlocks, Shown

Rows = list[Named]

CHANCE = 50.0
"""Percent of the other clips that a clip's preference exceeds where the ranking does not read what was edited."""

HARDLY = 10.0
"""Points above chance below which a whole interval says that an edit is not read: of five captions four are guesses."""

NEGATED = "negated"  # the edit whose captions are true and deny a thing that their clip does not show

AFFIRMED = "affirmed"
"""The edit whose captions say of a thing that it is there where those of `NEGATED` deny it: false by one word."""

QUESTIONS = "multiple choice"  # what notices call the six edits of `ANSWERS` together

Verdict = Literal["too few to conclude", "no interval", "reads it", "does not read it", "cannot be told"]


def verdict_of(net: Interval, choice: Interval, chance: float, clips: int) -> Verdict:
    """Conclude what is read from a choice in percent, and from what it is beyond other clips or a control."""
    if clips < ENOUGH:
        return "too few to conclude"
    if net.low is None or net.high is None or choice.low is None:
        return "no interval"
    if net.low > 0 and choice.low > chance:
        return "reads it"
    return "does not read it" if net.high < HARDLY else "cannot be told"


# Which of two captions a clip prefers, the true one or one that says another thing, beyond what other clips prefer. An
# edited caption may be longer, odder or worded more rarely than the true one, and a ranking that is deaf to what was
# edited may still prefer the true one, for every clip. So the preference of a caption's own clip is held against that
# of every other clip for the same two captions: what all clips prefer says nothing of the clip.

_EQUAL = 1e-5
"""Preferences that differ by less, in standard deviations of scores, differ by the rounding of float32 alone."""


class Flatness(NamedTuple):
    """How much flatter the scores of edited captions are than those of true ones, 1 where they are not.

    Scores of the true captions are brought down by it before they are compared: a clip that a caption fits best would
    lose most by flatter scores, whatever they read.
    """

    spread: float = 1.0  # ratio of the standard deviations of other clips' scores, median over captions, at most 1
    slope: float = 1.0  # slope of the line through the other clips from true to edited scores, likewise


@dataclass(frozen=True, eq=False)
class Choices:
    """What own clips prefer of Q true captions and edited ones; NaN where a score is minus infinity."""

    chosen: Column  # (Q,) 100 where the clip scores the true caption higher, 50 where both alike, else 0
    # (Q,) share of the other clips that prefer the true caption less than the own clip does, ties half, in percent; 50
    # on average where the ranking does not read what was edited
    beyond: Column
    # (Q,) preference of the own clip less the mean of the other clips', in standard deviations of the scores of the
    # true caption; NaN also where these are all equal
    margin: Column
    # (Q,) as `beyond`, if the edited caption is taken to say less of everything (`Flatness.slope`); below 50 where the
    # ranking does not read what was edited and scores are noisy
    blurred: Column

    @classmethod
    def of(cls, true: Block, edited: Block, own: NDArray[np.int64], flat: Flatness) -> Choices:
        """Compute the choices of b own clips (b,) from the scores of true captions and of edited ones, (b, V) each.

        >>> found = Choices.of(np.array([[3.0, 1.0, 2.0]]), np.array([[1.0, 1.0, 1.0]]), np.array([0]), Flatness())
        >>> found.chosen.tolist(), found.beyond.tolist(), found.margin.tolist()
        ([100.0], [100.0], [3.0])
        """
        rows, others = np.arange(len(own)), _others(true, edited, own)
        spread = _spread(true, others)
        asked = np.where(np.isfinite(true[rows, own] + edited[rows, own]) & others.any(axis=1), 1.0, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):  # minus infinity less itself; no spread
            chosen = 50 * (1 + np.sign(true[rows, own] - edited[rows, own]))
            preferred = (weight * true - edited for weight in flat)
            # (b, V) preference of the own clip less that of each.
            apart, lined = (one[rows, own][:, None] - one for one in preferred)
            margin = _mean(apart, others) / np.where(spread > 0, spread, np.nan)
            equal = (_EQUAL * spread)[:, None]
            beyond, in_line = (
                100 * _mean(np.where(np.abs(one) <= equal, 0.5, one > 0), others) for one in (apart, lined)
            )
        return cls(chosen * asked, beyond * asked, margin * asked, in_line * asked)


def measured_choices(perturbed: Perturbed, edit: str, band_bytes: int) -> Choices:
    """Compute the choices of all captions between what they say as they are and after an edit."""
    ratios = []
    for true, edited, own in _bands(perturbed, edit, band_bytes):
        others = _others(true, edited, own)
        spread, after = _spread(true, others), _spread(edited, others)
        centred = [np.where(others, one - _mean(one, others)[:, None], 0.0) for one in (true, edited)]
        with np.errstate(invalid="ignore", divide="ignore"):  # all other clips score the same
            ratios.append([after / spread, _mean(centred[0] * centred[1], others) / spread**2])
    known = (one[np.isfinite(one)] for one in np.concatenate(ratios, axis=1))
    flat = Flatness(*(min(1.0, float(np.median(one))) if len(one) else 1.0 for one in known))
    parts = [Choices.of(*band, flat) for band in _bands(perturbed, edit, band_bytes)]
    return Choices(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Choices)))


def _bands(perturbed: Perturbed, edit: str, band_bytes: int) -> Iterator[tuple[Block, Block, Indices]]:
    """Scores (b, V) of some captions as they are and after an edit, and their own clips (b,)."""
    for held in perturbed.bands(band_bytes):
        true, edited = (perturbed.versions[name].block(held).astype(np.float64) for name in (AS_IS, edit))
        yield true, edited, perturbed.own[held]


def _others(true: Block, edited: Block, own: NDArray[np.int64]) -> Flags:
    """(b, V) which clips are not the own one and have both scores."""
    known = np.isfinite(true) & np.isfinite(edited)
    known[np.arange(len(own)), own] = False
    return known


def _mean(values: Block, others: Flags) -> Column:
    return np.asarray(np.where(others, values, 0.0).sum(axis=1) / np.maximum(others.sum(axis=1), 1))


def _spread(scores: Block, others: Flags) -> Column:
    centred = np.where(others, scores - _mean(scores, others)[:, None], 0.0)
    return np.asarray(np.sqrt(_mean(centred**2, others)))


@dataclass(frozen=True, eq=False)
class EditChoice:
    """What the own clips of captions prefer, the true caption or the edited one, under one edit."""

    edit: str  # name of the edit
    perturbed: Perturbed  # scores of the true captions, and of the edited ones under the name of the edit
    choices: Choices  # choices of each caption's clip
    chosen: Interval  # their means, see `Choices`
    beyond: Interval
    margin: Interval
    blurred: Interval
    control: Interval | None  # mean of `beyond` under the control, of the same captions; None without a control
    net: Interval  # how far `beyond` is above 50, or above the control where there is one, in points
    p_value: float | None  # of the signed-rank test of Wilcoxon (1945) of `net` over clips; None without captions

    @property
    def clips(self) -> int:
        """Number of clips, or of videos where these are drawn, whose captions are measured."""
        return len(np.unique(self.perturbed.drawn_with[~np.isnan(self.choices.beyond)]))

    @property
    def verdict(self) -> Verdict:
        """Whether what was edited is read: beyond chance, and beyond the control where there is one."""
        return verdict_of(self.net, self.beyond, CHANCE, self.clips)

    @property
    def effect(self) -> Effect:
        """The figure of the verdict: points above chance, or above the control."""
        name = f"choices {'beyond the control' if self.control else 'above chance'} ({self.edit}), points"
        return _effect(name, self.net, self.p_value, self.clips)


def _effect(name: str, one: Interval, p: float | None, clips: int) -> Effect:
    return Effect(name, one.value, one.low, one.high, 0.0, p, clips >= ENOUGH, over="captions")


def edit_choice(
    edit: str, scores: ScoreBlocks, corpus: Corpus, edited: Mapping[str, ScoreBlocks], settings: AuditSettings
) -> EditChoice:
    """Measure what own clips prefer under one edit, on the captions that it changes."""
    denied = edit == AFFIRMED and NEGATED in edited
    asked = {name: edited[name] for name in (edit, CONTROL) if name in edited and not (denied and name == CONTROL)}
    perturbed = Perturbed.of(edited[NEGATED] if denied else scores, corpus, asked, settings.cluster)
    found, groups = measured_choices(perturbed, edit, settings.band_bytes), perturbed.drawn_with
    control, apart = None, found.beyond - CHANCE
    if CONTROL in asked and edit != CONTROL:
        still = measured_choices(perturbed, CONTROL, settings.band_bytes).beyond
        control, apart = share_interval(still, groups, settings), found.beyond - still
    return EditChoice(
        edit=edit,
        perturbed=perturbed,
        choices=found,
        chosen=share_interval(found.chosen, groups, settings),
        beyond=share_interval(found.beyond, groups, settings),
        margin=mean_interval(found.margin, groups, settings),
        blurred=share_interval(found.blurred, groups, settings),
        control=control,
        net=mean_interval(apart, groups, settings),
        p_value=None if np.isnan(apart).all() else wilcoxon_test(apart, groups),
    )


# Choices by what was exchanged for what: which relation, which kind of attribute, or the same words elsewhere.

SAME_WORDS = "same words, other places"
OTHER = "other"

LEAST = 5
"""Captions of a kind that has a row of its own."""

_MOST_WORDS = 4
_ARTICLES = frozenset({"a", "an", "the"})


def kind_of(before: str, after: str) -> str:
    """Name what an edit exchanged in a caption: a kind of attribute, words for words, or `SAME_WORDS`.

    >>> kind_of("a red ball", "an orange ball"), kind_of("he goes up", "he goes down")
    ('colour', 'up → down')
    >>> kind_of("a dog sees a cat", "a cat sees a dog")
    'same words, other places'
    """
    first, second = (Counter(word.lower() for word in split_words(text)) for text in (before, after))
    changed = (first - second, second - first)
    lost, gained = ([word for word in one.elements() if word not in _ARTICLES] for one in changed)
    if not lost and not gained:
        return SAME_WORDS
    if len(lost) == len(gained) == 1:
        kinds = [{kind for kind, _ in attribute_values().get(word, ())} for word in (*lost, *gained)]
        if shared := set.intersection(*kinds):
            return min(shared)
    return f"{' '.join(lost)} → {' '.join(gained)}" if max(len(lost), len(gained)) <= _MOST_WORDS else OTHER


def _kind_rows(one: EditChoice, corpus: Corpus, texts: Corpus, settings: AuditSettings) -> Iterator[dict[str, Any]]:
    """What own clips prefer by kind, the kinds of most captions first; rare kinds are `OTHER`."""
    before, after = (dict(some.captions.select("caption_id", "text").rows()) for some in (corpus, texts))
    kinds = [kind_of(before[name], after[name]) if name in after else OTHER for name in one.perturbed.caption_ids]
    counts, beyond = Counter(kinds), one.choices.beyond
    named = np.array([kind if counts[kind] >= LEAST else OTHER for kind in kinds])
    for kind, _ in Counter(named.tolist()).most_common():
        held = (named == kind) & ~np.isnan(beyond)
        if held.any():
            groups = one.perturbed.drawn_with[held]
            row = {"edit": one.edit, "exchanged": kind, "captions": int(held.sum()), "clips": len(np.unique(groups))}
            yield row | {"beyond other clips, %": share_interval(beyond[held], groups, settings)}


# What captions find that deny a thing, beside the same captions without it: recall of true captions that also name what
# is absent, and, where the texts are known, what becomes of clips that show the denied thing.

_DENIALS = frozenset({"no", "without"})


@dataclass(frozen=True, eq=False)
class NegationMeasures:
    """Measures of captions that deny a thing."""

    clips: int  # number of clips, or of videos where these are drawn
    effect: Effect  # the recall at 1 that captions lose by denying a thing
    recalls: AuditTable  # recall of the plain captions and of those that deny a thing, and what is lost
    # what becomes of the clips whose captions name a thing when a caption denies it: the share of pairs of such a clip
    # and another in which the former scores higher, ties half, and captions of which such a clip scores above their
    # own; None where that is not known
    things: AuditTable | None
    rise: Effect | None  # change of the former share; above 0 a denied thing is looked for


def measure_negation(
    scores: ScoreBlocks, corpus: Corpus, negated: ScoreBlocks, settings: AuditSettings, texts: Corpus | None = None
) -> NegationMeasures:
    """Measure what captions find that deny a thing, beside the same captions without it."""
    perturbed = Perturbed.of(scores, corpus, {NEGATED: negated}, settings.cluster)
    standings = perturbed.standings(CAPTION_PLACINGS, settings.band_bytes)
    plain, denying = (hit_columns(one.hits, RECALLS) for one in standings.values())
    groups, name = perturbed.drawn_with, str(RECALLS[0])
    clips = len(np.unique(groups))
    lost = {one: hits_interval(plain[one] - denying[one], groups, settings) for one in map(str, RECALLS)}
    rows: Rows = [
        {"": one, "plain, %": float(plain[one].mean()), "negated, %": float(denying[one].mean()), "lost, points": less}
        for one, less in lost.items()
    ]
    note = f"{len(groups):,} captions of {clips:,} clips, as they are and with an absent thing denied."
    p = wilcoxon_test(plain[name] - denying[name], groups)
    things, rise = (None, None) if texts is None else _denied_things(perturbed, corpus, texts, settings)
    return NegationMeasures(
        clips,
        _effect(f"{name} lost ({NEGATED}), points", lost[name], None if isnan(p) else p, clips),
        AuditTable.of("What captions find that deny a thing", rows, note),
        things,
        rise,
    )


def denied(tokens: Tagged) -> str | None:
    """Return the noun that a tagged caption denies, the head behind its last `no` or `without`; None without one.

    >>> from evenreel.language import load_tagger
    >>> denied(load_tagger("pattern").tag(["a man runs, with no big dogs in sight"])[0])
    'dog'
    """
    places = [place for place, token in enumerate(tokens) if token.text.lower() in _DENIALS]
    heads = (one.head for one in phrases(tokens) if places and one.kind == "entity" and one.start > places[-1])
    return next(heads, None)


def clips_that_show(corpus: Corpus, clip_ids: Sequence[str]) -> Mapping[str, Flags]:
    """Return by the name of a group of nouns (`meant`), which clips (V,) have a caption that names one of them."""
    place = {clip: number for number, clip in enumerate(clip_ids)}
    shown: dict[str, Flags] = defaultdict(lambda: np.zeros(len(place), np.bool_))
    tagged = load_tagger().tag(corpus.captions["text"].to_list())
    for clip, tokens in zip(corpus.captions["clip_id"], tagged, strict=True):
        for token in tokens:
            if token.part == "noun" and clip in place:
                shown[meant(token.lemma)][place[clip]] = True
    return dict(shown)


def _denied_things(
    perturbed: Perturbed, corpus: Corpus, texts: Corpus, settings: AuditSettings
) -> tuple[AuditTable | None, Effect | None]:
    """What becomes of clips with the denied thing; None where no caption denies one that another clip shows."""
    tagged = load_tagger().tag(texts.captions["text"].to_list())
    found = {one: denied(tokens) for one, tokens in zip(texts.captions["caption_id"], tagged, strict=True)}
    things = {caption: meant(thing) for caption, thing in found.items() if thing is not None}
    shown = clips_that_show(corpus, perturbed.clip_ids)
    every = [things.get(caption, "") for caption in perturbed.caption_ids]
    columns = np.full((4, len(every)), np.nan)
    for held in perturbed.bands(settings.band_bytes):
        blocks = [perturbed.versions[name].block(held) for name in (AS_IS, NEGATED)]
        for row, place in enumerate(range(held.start, held.stop)):
            holders, own = shown.get(every[place]), int(perturbed.own[place])
            if holders is not None and not holders[own] and 0 < holders.sum() < len(holders) - 1:
                columns[:, place] = [one for block in blocks for one in _standing(block[row], own, holders)]
    known = ~np.isnan(columns[0])
    if not known.any():
        return None, None
    names, groups = np.unique([every[place] for place in np.flatnonzero(known)], return_inverse=True)
    rows: Rows = []
    for name, start in (("above other clips", 0), ("one ahead of the own", 1)):
        before, after = columns[start::2, known]
        change = mean_interval(after - before, groups, settings)
        means = {"plain, %": float(before.mean()), "negated, %": float(after.mean())}
        rows.append({"": name, **means, "change, points": change})
    note = f"{int(known.sum()):,} captions, {len(names):,} denied things. Above 0, what is denied is looked for."
    table = AuditTable.of("Clips that show the denied thing", rows, note)
    rise = table.intervals("change, points")[0]
    return table, Effect("rise", rise.value, rise.low, rise.high, enough=len(names) >= ENOUGH)


def _standing(scores: Column, own: int, holders: Flags) -> tuple[float, float]:
    """Percent of pairs of a holder and another clip in which the holder scores higher; 100 where one beats the own."""
    other = np.arange(len(scores)) != own
    ranks, held = rankdata(scores[other]), holders[other]
    number, rest = int(held.sum()), int((~held).sum())
    above = float(ranks[held].sum()) - number * (number + 1) / 2
    return 100 * above / (number * rest), 100.0 * bool((scores[other][held] > scores[own]).any())


# Multiple-choice questions: of four short captions, does a clip prefer the one that is true of it, beyond other clips?
# Each clip shows a thing A and not a thing N. Its true captions affirm A, deny N, or do both; each is held against the
# same three false ones, and is the answer of a kind.

Kind = Literal["affirmation", "negation", "hybrid"]

KINDS: tuple[Kind, ...] = ("affirmation", "negation", "hybrid")
"""What the true answer of a question does: affirm a thing that is shown, deny one that is absent, or both."""

FALSE = tuple(f"false-{kind}" for kind in KINDS)
"""Names of the three answers that are false, the same for each kind of question."""

NAMING = "true-hybrid"  # the answer that names both things; its texts tell which clips show one of them
FOUR = 25.0  # percent of questions that are answered rightly by guessing

BAG: Mapping[Kind, float] = {"affirmation": FOUR, "negation": FOUR, "hybrid": 50.0}
"""Percent above which a kind can be read: a bag of words cannot tell the true hybrid from the false one, only guess."""


@dataclass(frozen=True, eq=False)
class AnswerShares:
    """How clips answer the questions of one kind, or of all kinds."""

    questions: int  # number of questions that could be asked, and of their clips, or videos where these are drawn
    clips: int
    # percent of questions of which the own clip prefers the true caption; of n that it likes best alike, a share of 1/n
    # is counted. 25 is chance
    accuracy: Interval
    # how often clips choose that answer that are not known to show either thing, in percent; None where there are no
    # such clips
    others: float | None
    net: Interval  # accuracy less that of these clips, question by question, in points
    # (4,) percent of questions in which the own clip chooses each answer, the true one first, then `FALSE`
    chosen: Column
    p_value: float | None  # of the signed-rank test of Wilcoxon (1945) of `net` over clips; None where it is not known

    @classmethod
    def of(cls, own: NDArray[np.float64], others: Column, groups: Indices, settings: AuditSettings) -> AnswerShares:
        """Sum up Q answers of own clips (4, Q) and the shares (Q,) of other clips that choose the true caption."""
        right, known = 100 * own[0], ~np.isnan(own[0])
        if not known.any():
            nothing = Interval(float("nan"))
            return cls(0, 0, nothing, None, nothing, np.full(4, np.nan), None)
        apart = right - 100 * others
        beside = ~np.isnan(apart)
        return cls(
            questions=int(known.sum()),
            clips=len(np.unique(groups[known])),
            accuracy=share_interval(right, groups, settings),
            others=100 * float(others[beside].mean()) if beside.any() else None,
            net=mean_interval(apart, groups, settings),
            chosen=100 * own[:, known].mean(axis=1),
            p_value=wilcoxon_test(apart, groups) if beside.any() else None,
        )


@dataclass(frozen=True, eq=False)
class MultipleChoice:
    """Answers of multiple-choice questions."""

    kinds: dict[Kind, AnswerShares]  # answers by kind of question
    all: AnswerShares  # answers of all questions
    excluded: bool  # whether clips that show one of the two things are left out of the other clips
    notices: tuple[str, ...]  # sentences on what was left out

    def verdict(self, kind: Kind) -> Verdict:
        """Whether what a kind of questions asks is read: beyond other clips, and beyond a bag of words."""
        one = self.kinds[kind]
        return verdict_of(one.net, one.accuracy, BAG[kind], one.clips)

    @property
    def effect(self) -> Effect:
        """How much oftener own clips find the true caption that denies a thing than other clips choose it."""
        one = self.kinds["negation"]
        return _effect("right answers beyond other clips (negation), points", one.net, one.p_value, one.clips)


def measure_questions(
    corpus: Corpus, edited: Mapping[str, ScoreBlocks], settings: AuditSettings, texts: Corpus | None = None
) -> MultipleChoice:
    """Measure how often clips prefer the true caption of four, by the kind of the true one.

    The captions of the corpus also say what each clip shows. Scores of the six captions are under the ids of those that
    they are made of. `texts` is the corpus of the captions of `NAMING`; without it clips that show a named thing stay
    among the other ones.
    """
    if missing := [name for name in ANSWERS if name not in edited]:
        raise CorpusError(f"It needs scores of six captions a clip; add those of {', '.join(missing)}.")
    first, *rest = ANSWERS
    perturbed = Perturbed.of(edited[first], corpus, {name: edited[name] for name in rest}, settings.cluster)
    neither, captions = _neither(perturbed, corpus, texts), len(perturbed.own)
    own = {kind: np.full((4, captions), np.nan) for kind in KINDS}
    others = {kind: np.full(captions, np.nan) for kind in KINDS}
    for held in perturbed.bands(settings.band_bytes // len(ANSWERS)):
        blocks = {name: perturbed.versions[AS_IS if name == first else name].block(held) for name in ANSWERS}
        rows, columns, among = np.arange(held.stop - held.start), perturbed.own[held], neither(held)
        for kind in KINDS:
            shares = answer_shares(np.stack([blocks[name] for name in (f"true-{kind}", *FALSE)]))
            own[kind][:, held] = shares[:, rows, columns]
            counted = among & ~np.isnan(shares[0])
            others[kind][held] = np.where(counted.any(axis=1), _mean(shares[0], counted), np.nan)
    groups = perturbed.drawn_with
    kinds = {kind: AnswerShares.of(own[kind], others[kind], groups, settings) for kind in KINDS}
    pooled = np.concatenate([*own.values()], axis=1), np.concatenate([*others.values()])
    notices = [*perturbed.notices]
    if any(one.others is None and one.questions for one in kinds.values()):
        notices.append(
            "no clip is known to show neither of a question's things, so nothing says what other clips choose."
        )
    if lost := captions - min(one.questions for one in kinds.values()):
        notices.append(f"{lost:,} captions whose own clip scores minus infinity take no part.")
    return MultipleChoice(
        kinds,
        AnswerShares.of(*pooled, np.tile(groups, len(KINDS)), settings),
        texts is not None,
        tuple(f"Multiple choice: {notice}" for notice in notices),
    )


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


def _neither(perturbed: Perturbed, corpus: Corpus, texts: Corpus | None) -> Callable[[slice], Flags]:
    """Tell which clips (b, V) are not the own clip of a caption, and are not known to show what its answers name."""
    named: dict[str, list[str]] = {}
    if texts is not None:
        tagged = load_tagger().tag(texts.captions["text"].to_list())
        for caption, tokens in zip(texts.captions["caption_id"], tagged, strict=True):
            named[caption] = [meant(one.head) for one in content_phrases(tokens) if one.kind == "entity"]
    shown = clips_that_show(corpus, perturbed.clip_ids) if named else {}

    def flags(held: slice) -> Flags:
        own = perturbed.own[held]
        found = np.ones((len(own), len(perturbed.clip_ids)), np.bool_)
        found[np.arange(len(own)), own] = False
        for row, caption in enumerate(perturbed.caption_ids[held]):
            for thing in shown.keys() & named.get(caption, ()):
                found[row] &= ~shown[thing]
        return found

    return flags


# All together.


@dataclass(frozen=True, eq=False)
class CompositionMeasures(Shown):
    """Measures of what a ranking reads of captions.

    Attributes:
        choices: what own clips prefer, by the edit.
        control: what own clips prefer under the control alone; None without one.
        kinds: the same by what was exchanged for what, a row each, where the texts of edited captions are known.
        negation: what captions find that deny a thing; None without such captions.
        questions: answers of multiple-choice questions; None without the six captions of `ANSWERS`.
        notices: sentences on what was left out.
    """

    choices: dict[str, EditChoice]
    control: EditChoice | None
    kinds: tuple[dict[str, Any], ...]
    negation: NegationMeasures | None
    questions: MultipleChoice | None
    notices: tuple[str, ...]

    @property
    def effect(self) -> Effect:
        """That of the first edit, else the recall that captions lose by denying a thing, else that of questions."""
        one = next(iter(self.choices.values()), None) or self.negation or self.questions
        assert one is not None  # else there would be nothing measured
        return one.effect


def measure_composition(
    scores: ScoresLike,
    corpus: CorpusLike,
    edited: Mapping[str, ScoresLike],
    settings: AuditSettings,
    texts: Mapping[str, CorpusLike] = NO_EDITS,
) -> CompositionMeasures:
    """Measure, edit by edit, whether captions' own clips prefer the true caption to the edited one.

    Each edit is measured on the captions that it changes: those that its scores have. Arguments (`texts` are
    `edited_texts` there) and errors are those of `audit_composition`.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    after, said = as_edited(edited, corpus), as_texts(texts)
    asked = [name for name in after if name != CONTROL]
    if not asked:
        raise UsageError(
            "There are no scores after an edit but those of a control, or none; give those of one beside it."
        )
    if unknown := [name for name in said if name not in after]:
        raise UsageError(
            f"There are captions of the edit {unknown[0]!r} and no scores of it; its name is to be one of those of the "
            f"edited scores: {', '.join(after)}."
        )
    lacking: dict[str, str] = {}
    choices: dict[str, EditChoice] = {}
    negation = questions = None
    controlled = CONTROL in after and bool(set(asked) - {AFFIRMED, NEGATED, *ANSWERS})
    names = dict.fromkeys(QUESTIONS if name in ANSWERS else name for name in asked)
    for name in (*([CONTROL] if controlled else []), *names):
        try:
            if name == QUESTIONS:
                questions = measure_questions(corpus, after, settings, said.get(NAMING))
            elif name == NEGATED:
                negation = measure_negation(scores, corpus, after[NEGATED], settings, said.get(NEGATED))
            else:
                alone = {CONTROL: after[CONTROL]} if name == CONTROL else after
                choices[name] = edit_choice(name, scores, corpus, alone, settings)
        except CorpusError as error:
            lacking[name] = f"{name!r} was not measured. {error}"
            if name == CONTROL:
                del after[CONTROL]
    control = choices.pop(CONTROL, None)
    if not choices and negation is None and questions is None:
        raise CorpusError(" ".join(lacking.values()))
    control = control if choices.keys() - {AFFIRMED} else None
    rows = (_kind_rows(one, corpus, said[name], settings) for name, one in choices.items() if name in said)
    kinds = tuple(row for some in rows for row in some)
    lost = {name: int(np.isnan(one.choices.beyond).sum()) for name, one in choices.items()}
    silent = "captions whose own clip scores minus infinity take no part."
    notices = [*lacking.values(), *(f"{name}: {count:,} {silent}" for name, count in lost.items() if count)]
    notices += questions.notices if questions else ()
    return CompositionMeasures(choices, control, kinds, negation, questions, tuple(notices))


def audit_composition(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
    edited_texts: Mapping[str, CorpusLike] = NO_EDITS,
) -> AuditResult:
    """Test whether clips prefer their captions to ones with a role, attribute or relation exchanged, beyond a control.

    Args:
        scores: scores of captions as they are, with clips.
        corpus: corpus that names each caption's own clip.
        settings: samples, seed, confidence, and how much is read at once.
        edited: scores of the edited captions, of the same ids, with the same clips, by the name of the edit: such as
            `role-swapped`; `control` is held against the others, the captions of `negated` are true and those of
            `affirmed` are held against them, and those of `evenreel.language.composition.ANSWERS` are the answers of
            multiple-choice questions, which need all six.
        edited_texts: corpora of the edited captions by the name of the edit, for tables by what was exchanged and of
            denied things.

    Raises:
        CorpusError: no edit shares a caption and its clip with the scores.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores, or only those of a control, or the texts are of an edit without scores.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    after = as_edited(edited, corpus)
    measured = measure_composition(scores, corpus, after, settings, edited_texts)
    negation, questions, table = measured.negation, measured.questions, _choice_table(measured)
    said = [_choice_words(one, settings.confidence) for one in measured.choices.values()]
    method = paragraphs("composition", "Choice", "Margin", "Control", "Blurred captions") if measured.choices else ()
    if negation:
        said.append(_negation_words(negation, settings.confidence))
        method += paragraphs("composition", "Negated captions")
        method += paragraphs("composition", "Denied things") if negation.things else ()
    if questions:
        said.append(_question_words(questions, settings.confidence))
        method += paragraphs("composition", "Multiple choice")
    draw = partial(table_bars, table, "edit", [BEYOND], "share of other clips that prefer the true caption less, %")
    title = "What own clips prefer beyond other clips"
    return AuditResult(
        name="composition",
        title="Are captions read as sentences, or as bags of words?",
        sentence=" ".join(said),
        effect=measured.effect,
        tables=tuple(one for one in _tables(measured) if one.rows),
        figures=(AuditFigure(title, draw, "50 is chance."),) if table.rows else (),
        notices=(*edited_notices(scores, corpus, settings, after), *_notices(measured)),
        method=method,
        confidence=settings.confidence,
    )


BEYOND = "beyond other clips, %"


def _choice_table(measured: CompositionMeasures) -> AuditTable:
    rows: Rows = [
        {
            "edit": one.edit, "verdict": one.verdict, "captions": len(one.perturbed.own), "clips": one.clips,
            "true one, %": one.chosen.value, BEYOND: one.beyond,
            "above control": one.net.value if one.control else None, "margin, SD": one.margin.value,
            "if blurred, %": one.blurred.value,
        }
        for one in (*measured.choices.values(), *([measured.control] if measured.control else []))
    ]  # fmt: skip
    note = "Beyond other clips: the share of the other clips that prefer the true caption less; 50 is chance."
    return AuditTable.of("Which caption its clip prefers, the true one or the edited one", rows, note)


def _tables(measured: CompositionMeasures) -> Iterator[AuditTable]:
    yield _choice_table(measured)
    note = f"Fewer than {ENOUGH} clips say little. The intervals are not corrected for how many kinds are looked at."
    yield AuditTable.of("By what was exchanged", measured.kinds, note)
    if measured.negation:
        yield from filter(None, (measured.negation.recalls, measured.negation.things))
    if (asked := measured.questions) is None:
        return
    left = "that show neither thing, as far as captions say" if asked.excluded else "whatever they show"
    answers = [*((kind, asked.verdict(kind), one) for kind, one in asked.kinds.items()), ("all", None, asked.all)]
    rows: Rows = [
        {
            "the true one is": kind, "verdict": verdict, "questions": one.questions, "clips": one.clips,
            "accuracy, %": one.accuracy, "other clips choose it, %": one.others, "beyond other clips, points": one.net,
        }
        for kind, verdict, one in answers
    ]  # fmt: skip
    note = f"{FOUR:g} is chance. Other clips: those {left}. Of the hybrid one a bag of words gets half at most."
    yield AuditTable.of("Which of four captions a clip chooses", rows, note)
    yield AuditTable(
        "What is chosen instead",
        ("the true one is", "the true one, %", *(f"{name}, %" for name in FALSE)),
        tuple((kind, *one.chosen.tolist()) for kind, _, one in answers),
        "By the own clip; of captions that it likes best alike, each gets its share.",
    )


# Words.

_WHAT = {
    "role-swapped": "who does what to whom",
    "attribute-swapped": "which thing has which attribute",
    "relation-swapped": "where and when",
    AFFIRMED: "whether a thing is there or denied",
}
"""By the name of an edit, what a ranking reads that tells its captions from the true ones."""

_ASKED = {
    "affirmation": "that a thing is there",
    "negation": "that a thing is absent",
    "hybrid": "which of two things is there and which is absent",
}
"""By the kind of a question, what is read by a ranking that answers it."""


def _notices(measured: CompositionMeasures) -> Iterator[str]:
    yield from measured.notices
    if measured.questions and not measured.questions.excluded:
        yield (
            "Other clips may show the things that the questions name, for their captions are not given; name the "
            f"folder with --edited-corpus {NAMING}=DIR (AuditInputs.edited_texts) to leave such clips out."
        )
    plain = [one for one in measured.choices.values() if one.edit != AFFIRMED]
    if plain and not measured.control:
        yield (
            "There are no scores of a control, so nothing says what a change does that leaves the sense. Score the "
            "captions also with such a one, of `evenreel perturb --edit control` or paraphrases, and name it control."
        )
    for one in plain:
        if one.verdict == "reads it" and (one.blurred.low is None or one.blurred.low <= CHANCE):
            yield (
                f"{one.edit}: its captions may also say less of everything to this system, which would favour the true "
                f"ones too ('if blurred'); a {CONTROL} that changes as much rules that out, paraphrases for example."
            )


def _choice_words(one: EditChoice, confidence: float) -> str:
    if isnan(one.beyond.value):
        return f"Of {one.edit!r} nothing can be measured: the own clip of no caption has a score."
    what = _WHAT.get(one.edit, f"what {one.edit!r} changes")
    lead = {
        "too few to conclude": f"Too few clips to conclude: {one.clips:,}. What was seen of {one.edit!r}",
        "no interval": f"Without an interval nothing can be told of {one.edit!r}",
        "reads it": f"The ranking reads {what}",
        "does not read it": f"The ranking does not read {what}, or hardly ever",
        "cannot be told": f"Whether the ranking reads {what} cannot be told",
    }[one.verdict]
    over = f", {one.net.value:.1f} points above the control" if one.control else ""
    return (
        f"{lead}: clips prefer the true caption to the edited one in {one.chosen.value:.1f}% of cases, and more than "
        f"{figure_words(one.beyond, confidence, '%')} of the other clips do, where 50 is chance{over}."
    )


def _negation_words(negation: NegationMeasures, confidence: float) -> str:
    name, before, after, *_ = negation.recalls.rows[0]
    lead = by_certainty(
        negation.effect,
        f"Too few clips to conclude: {negation.clips:,}. What was seen of {NEGATED!r}",
        f"Without an interval nothing can be told of {NEGATED!r}",
        "That captions find less, or more, when they deny a thing cannot be told",
        f"Captions find {'less' if negation.effect.value > 0 else 'more'} when they deny a thing that is absent",
    )
    said = f"{lead}: {name} goes from {before:.1f} to {after:.1f}%."
    if (rise := negation.rise) is None:
        return said
    lead = by_certainty(
        rise,
        "What was seen of clips that show it",
        "Of clips that show it nothing can be told",
        "Whether clips that show it rise or fall by that cannot be told",
        "What is denied is looked for: clips that show it rise"
        if rise.value > 0
        else "Clips that show it fall by that",
    )
    moved = figure_words(rise, confidence, " points")
    return f"{said} {lead}: the share of other clips that they stand above changes by {moved}."


def _question_words(asked: MultipleChoice, confidence: float) -> str:
    if isnan(asked.all.accuracy.value):
        return "Of multiple-choice questions nothing can be measured: the own clip of no caption has a score."
    said = (
        f"Of four captions clips choose the true one in {figure_words(asked.all.accuracy, confidence, '%')} of "
        f"{asked.all.questions:,} questions, where {FOUR:g} is chance."
    )
    for kind, one in asked.kinds.items():
        lead = {
            "too few to conclude": f"Too few clips to conclude whether it reads {_ASKED[kind]}",
            "no interval": f"Without an interval nothing can be told of {kind}",
            "reads it": f"The ranking reads {_ASKED[kind]}",
            "does not read it": f"It does not read {_ASKED[kind]}, or hardly ever",
            "cannot be told": f"Whether it reads {_ASKED[kind]} cannot be told",
        }[asked.verdict(kind)]
        beside = "" if one.others is None else f", and other clips choose it in {one.others:.1f}%"
        said += f" {lead}: {one.accuracy.value:.1f}% are right{beside}."
    return said
