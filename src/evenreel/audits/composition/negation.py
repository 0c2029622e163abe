"""What captions find that deny a thing, beside the same captions without it: NegBench's retrieval with negation.

Alhamoud et al. 2025 (arXiv 2501.09425), the task Retrieval-Neg: recall of true captions that also name what is absent,
beside that of plain ones. Where the texts are known, so is what becomes of clips that show the denied thing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import numpy as np
from scipy.stats import rankdata

from evenreel.arrays import Column, Flags
from evenreel.audits.composition.shown import clips_that_show, meant
from evenreel.audits.edits.measures import RECALLS
from evenreel.audits.edits.perturbed import AS_IS, CAPTION_PLACINGS, Perturbed
from evenreel.audits.exchange import hits_interval, mean_interval
from evenreel.audits.settings import AuditSettings
from evenreel.evaluation.intervals import Interval, wilcoxon_test
from evenreel.evaluation.ranking import hit_columns
from evenreel.language import Tagged, load_tagger, phrases
from evenreel.report.result import ENOUGH, Effect
from evenreel.types import Corpus, ScoreBlocks

NEGATED = "negated"
"""The edit whose captions are true and deny a thing that their clip does not show."""

_DENIALS = frozenset({"no", "without"})


@dataclass(frozen=True)
class RecallLost:
    """Recall of plain captions and of the same captions that deny a thing, in percent, and what is lost, in points."""

    plain: float
    negated: float
    lost: Interval


@dataclass(frozen=True)
class DeniedThings:
    """What becomes of the clips whose captions name a thing when a caption denies it.

    Attributes:
        captions, things: number of captions, and of the things that they deny.
        before, after: share of pairs of such a clip and another in which the former scores higher, ties half, in
            percent: for the plain captions, and for those that deny the thing.
        rise: after less before, in points; above 0 a denied thing is looked for.
        ahead_before, ahead_after: captions of which such a clip scores above their own, in percent.
        ahead: after less before, in points.
    """

    captions: int
    things: int
    before: float
    after: float
    rise: Interval
    ahead_before: float
    ahead_after: float
    ahead: Interval


@dataclass(frozen=True, eq=False)
class NegationMeasures:
    """Measures of captions that deny a thing.

    Attributes:
        captions, clips: number of captions, and of their clips, or videos where these are drawn.
        recalls: recall before and after by its name.
        things: what becomes of clips with the denied thing; None where that is not known.
        p_value: of the signed-rank test of R@1 that is lost, over clips.
    """

    captions: int
    clips: int
    recalls: dict[str, RecallLost]
    things: DeniedThings | None
    p_value: float | None

    @property
    def effect(self) -> Effect:
        """The recall at 1 that captions lose by denying a thing."""
        name, one = next(iter(self.recalls.items()))
        lost, enough = one.lost, self.clips >= ENOUGH
        title = f"{name} lost ({NEGATED}), points"
        return Effect(title, lost.value, lost.low, lost.high, 0.0, self.p_value, enough, over="captions")


def measure_negation(
    scores: ScoreBlocks, corpus: Corpus, negated: ScoreBlocks, settings: AuditSettings, texts: Corpus | None = None
) -> NegationMeasures:
    """Measure what captions find that deny a thing, beside the same captions without it.

    Args:
        scores: scores of the plain captions, with clips.
        corpus: corpus with the plain captions, which also say what each clip shows.
        negated: scores of the captions that deny a thing, of the same ids.
        settings: samples, seed, confidence, and how much is read at once.
        texts: corpus of the captions that deny a thing; None where their texts are not known.

    Raises:
        CorpusError: the scores share no caption with its clip and another.
    """
    perturbed = Perturbed.of(scores, corpus, {NEGATED: negated}, settings.cluster)
    standings = perturbed.standings(CAPTION_PLACINGS, settings.band_bytes)
    plain, denying = (hit_columns(one.hits, RECALLS) for one in standings.values())
    groups, recalls = perturbed.drawn_with, {}
    for name in map(str, RECALLS):
        lost = hits_interval(plain[name] - denying[name], groups, settings)
        recalls[name] = RecallLost(float(plain[name].mean()), float(denying[name].mean()), lost)
    first = str(RECALLS[0])
    p = wilcoxon_test(plain[first] - denying[first], groups)
    things = None if texts is None else _denied_things(perturbed, corpus, texts, settings)
    return NegationMeasures(len(groups), len(np.unique(groups)), recalls, things, None if isnan(p) else p)


def denied(tokens: Tagged) -> str | None:
    """Return the noun that a tagged caption denies, the head behind its last `no` or `without`; None without one.

    >>> from evenreel.language import load_tagger
    >>> denied(load_tagger("pattern").tag(["a man runs, with no big dogs in sight"])[0])
    'dog'
    """
    places = [place for place, token in enumerate(tokens) if token.text.lower() in _DENIALS]
    if not places:
        return None
    heads = [one.head for one in phrases(tokens) if one.kind == "entity" and one.start > places[-1]]
    return heads[0] if heads else None


def _denied_things(perturbed: Perturbed, corpus: Corpus, texts: Corpus, settings: AuditSettings) -> DeniedThings | None:
    """What becomes of clips with the denied thing; None where no caption denies one that another clip shows."""
    things = _things(texts)
    shown = clips_that_show(corpus, perturbed.clip_ids)
    every = [things.get(caption, "") for caption in perturbed.caption_ids]
    columns = np.full((4, len(every)), np.nan)
    for held in perturbed.bands(settings.band_bytes):
        blocks = [perturbed.versions[name].block(held) for name in (AS_IS, NEGATED)]
        for row, place in enumerate(range(held.start, held.stop)):
            holders = shown.get(every[place])
            own = int(perturbed.own[place])
            if holders is not None and not holders[own] and 0 < holders.sum() < len(holders) - 1:
                pairs = [_standing(block[row], own, holders) for block in blocks]
                columns[:, place] = [*pairs[0], *pairs[1]]
    known = ~np.isnan(columns[0])
    if not known.any():
        return None
    names, groups = np.unique([every[place] for place in np.flatnonzero(known)], return_inverse=True)
    before, ahead_before, after, ahead_after = columns[:, known]
    beside = mean_interval(ahead_after - ahead_before, groups, settings)
    return DeniedThings(
        int(known.sum()), len(names),
        float(before.mean()), float(after.mean()), mean_interval(after - before, groups, settings),
        float(ahead_before.mean()), float(ahead_after.mean()), beside,
    )  # fmt: skip


def _standing(scores: Column, own: int, holders: Flags) -> tuple[float, float]:
    """Percent of pairs of a holder and another clip in which the holder scores higher; 100 where one beats the own."""
    other = np.arange(len(scores)) != own
    ranks, held = rankdata(scores[other]), holders[other]
    number, rest = int(held.sum()), int((~held).sum())
    above = float(ranks[held].sum()) - number * (number + 1) / 2
    return 100 * above / (number * rest), 100.0 * bool((scores[other][held] > scores[own]).any())


def _things(texts: Corpus) -> dict[str, str]:
    """The name of the group of synonyms of what each caption denies, by caption."""
    tagged = load_tagger().tag(texts.captions["text"].to_list())
    found = {one: denied(tokens) for one, tokens in zip(texts.captions["caption_id"], tagged, strict=True)}
    return {caption: meant(thing) for caption, thing in found.items() if thing is not None}
