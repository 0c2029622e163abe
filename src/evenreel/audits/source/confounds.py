"""Audit of confounds: does a ranking follow the source, or codec, frame rate, picture size or duration?

The paper on source bias leaves these differences in its benchmark (Generative Ghost, Table 1): every generator has a
rate, size and length of its own. Where pairs are alike in a property, the property cannot explain a preference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from evenreel.audits.inputs import as_inputs, paired_groups, paragraph, score_notices
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source.alike_pairs import AlikePairs, ConfoundMeasures, measure_confounds
from evenreel.audits.source.outward import PROPERTIES
from evenreel.corpus.accepted import CorpusLike
from evenreel.errors import CorpusError
from evenreel.evaluation.accepted import ScoresLike
from evenreel.evaluation.results import Interval
from evenreel.evaluation.stats import holm
from evenreel.report.figures import effect_intervals
from evenreel.report.result import (
    DASH,
    ENOUGH,
    AuditFigure,
    AuditResult,
    AuditTable,
    Cell,
    Effect,
    figure_words,
    interval_cells,
    interval_columns,
)

NEUTRAL = 50.0
EVERY_PAIR, ALL_OF_THEM = "all pairs", "all of these"


def audit_confounds(scores: ScoresLike, corpus: CorpusLike, settings: AuditSettings | None = None) -> AuditResult:
    """Test whether a preference for a source remains among pairs alike in codec, frame rate, size and duration.

    The effect is the win rate of real clips over their mirrors among pairs of the largest group that are alike in all
    properties that are known.

    Args:
        scores: scores of captions and clips.
        corpus: corpus of the pairs, with the columns `codec, fps, width, height, duration_s` of clips.
        settings: samples, seed, confidence, and how much is read at once.

    Raises:
        CorpusError: there are no pairs, or no property is known.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    groups = paired_groups(scores, corpus)
    if not groups:
        raise CorpusError(
            "No clip with a caption has a generated counterpart in the scores, so no pair can be compared; add "
            "counterparts to a corpus with `evenreel corpus pair`. The clips of a library have no captions."
        )
    measured = _with_holm([measure_confounds(scores, corpus, group, settings) for group in groups])
    told = [one for one in measured if one.together is not None]
    if not told:
        raise CorpusError(
            "The corpus says nothing of its clips' codec, frame rate, picture size or duration; write what their "
            "videos say into it with `evenreel corpus overview CORPUS --keep-facts`."
        )
    main = max(told, key=lambda one: one.pairs)
    return AuditResult(
        name="confounds",
        title="Do outward differences explain a preference?",
        sentence=confounds_sentence(main, settings.confidence),
        effect=_effect(main),
        tables=(_alike_table(measured), _association_table(measured)),
        figures=tuple(_figure(one) for one in told),
        notices=(
            *score_notices(scores, corpus, settings.cluster),
            *dict.fromkeys(notice for one in measured for notice in one.notices),
        ),
        method=(
            paragraph("confounds", "Pairs that are alike"),
            paragraph("confounds", "Properties", properties=", ".join(f"{one.name} {one.alike}" for one in PROPERTIES)),
            paragraph("confounds", "Associations"),
        ),
        confidence=settings.confidence,
    )


def _with_holm(measured: Sequence[ConfoundMeasures]) -> list[ConfoundMeasures]:
    """The measures with p-values of all associations adjusted together."""
    tests = [
        (place, name, one.association)
        for place, measures in enumerate(measured)
        for name, one in measures.properties.items()
        if one.association and one.association.p_value is not None
    ]
    adjusted = holm([one.p_value or 0.0 for _, _, one in tests])
    done = list(measured)
    for (place, name, one), p_holm in zip(tests, adjusted, strict=True):
        alike = replace(done[place].properties[name], association=replace(one, p_holm=p_holm))
        done[place] = replace(done[place], properties=done[place].properties | {name: alike})
    return done


def _effect(main: ConfoundMeasures) -> Effect:
    name = f"win rate of real clips among alike pairs ({main.group}), %"
    together = main.together
    if together is None or together.win_rate is None:
        return Effect(name, math.nan, neutral=NEUTRAL)
    rate = together.win_rate
    enough = together.drawn >= ENOUGH
    return Effect(name, rate.value, rate.low, rate.high, NEUTRAL, together.p_value, enough, "captions")


def confounds_sentence(main: ConfoundMeasures, confidence: float) -> str:
    """Return a sentence on the result of the audit of confounds."""
    names = _listed(list(main.properties))
    rate = figure_words(main.win_rate, confidence, "%")
    raw = f"Over all pairs the real clip stands above its mirror for {rate} of the captions"
    together = main.together
    if together is None or together.win_rate is None:
        different = [name for name, one in main.properties.items() if not one.alike] or list(main.properties)
        return (
            f"The comparison cannot tell the source from {_listed(different)}: none of {main.pairs:,} pairs "
            f"({main.group}) is alike in {'it' if len(different) == 1 else 'them'}. {raw}; 50% is no preference."
        )
    effect = _effect(main)
    apart = "" if together.drawn == together.alike else f", of which {together.drawn:,} are drawn apart"
    few = "" if effect.enough else f"Too few pairs to conclude: {together.alike:,} alike{apart}. "
    which = f"all {main.pairs:,}" if together.alike == main.pairs else f"the {together.alike:,} of {main.pairs:,}"
    alike = figure_words(together.win_rate, confidence, "%")
    return (
        f"{few}Among {which} pairs ({main.group}) that are alike in {names}, the real clip stands above its mirror for "
        f"{alike} of the captions{_verdict(effect)}. {raw}; 50% is no preference."
    )


def _verdict(effect: Effect) -> str:
    if not effect.enough or effect.low is None:
        return ""
    if not effect.is_significant:
        return ", which cannot be told from no preference"
    preferred = "real" if effect.value > NEUTRAL else "generated"
    return f": these properties do not explain the preference for {preferred} clips"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _alike_table(measured: Sequence[ConfoundMeasures]) -> AuditTable:
    rows: list[tuple[Cell, ...]] = []
    for one in measured:
        rows.append((one.group, EVERY_PAIR, DASH, DASH, one.pairs, None, None, *interval_cells(one.win_rate)))
        rows += [_alike_row(one.group, name, alike) for name, alike in one.properties.items()]
        if one.together is not None and len(one.properties) > 1:
            rows.append(_alike_row(one.group, ALL_OF_THEM, one.together))
    alike = "; ".join(f"{one.name}: {one.alike}" for one in PROPERTIES)
    return AuditTable(
        "Win rate of real clips among pairs that are alike",
        ("group", "property", "real", "generated", "pairs", "alike", "alike, %", *interval_columns("win rate, %")),
        tuple(rows),
        f"Medians, or the most frequent name. Alike is {alike}. A win rate of 50 is no preference.",
        digits=1,
    )


def _alike_row(group: str, name: str, one: AlikePairs) -> tuple[Cell, ...]:
    rate = one.win_rate or Interval(math.nan)
    share = 100 * one.alike / one.known if one.known else None
    pairs = (one.real or DASH, one.generated or DASH, one.known, one.alike, share)
    return (group, name, *pairs, *interval_cells(rate))


def _association_table(measured: Sequence[ConfoundMeasures]) -> AuditTable:
    rows = tuple(
        (one.group, name, of.pairs, of.rho, of.p_value, of.p_holm)
        for one in measured
        for name, alike in one.properties.items()
        if (of := alike.association) is not None
    )
    return AuditTable(
        "Score gap against difference, over pairs",
        ("group", "property", "pairs", "rank correlation", "p", "p (Holm)"),
        rows,
        "Above 0: the more the mirror exceeds the real clip in the property, the more the real clip's score exceeds "
        "its mirror's. A dash stands where the property, or the gap, is the same in every pair.",
        digits=3,
    )


def _figure(one: ConfoundMeasures) -> AuditFigure:
    rates = {EVERY_PAIR: one.win_rate}
    rates |= {f"alike in {name}": alike.win_rate for name, alike in one.properties.items() if alike.win_rate}
    if one.together is not None and one.together.win_rate and len(one.properties) > 1:
        rates["alike in all"] = one.together.win_rate
    unit = "win rate of real clips, %"
    effects = {name: Effect(unit, rate.value, rate.low, rate.high, NEUTRAL) for name, rate in rates.items()}
    return AuditFigure(f"All pairs and alike ones: {one.group}", partial(effect_intervals, effects))
