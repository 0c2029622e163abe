"""Audit of source bias (Generative Ghost): does a ranking favour real or generated clips?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from evenreel.audits.exchange import MIX_R
from evenreel.audits.inputs import as_inputs, paired_groups, score_notices
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source.figures import exposure_bars, rank_gaps
from evenreel.audits.source.gallery import EVERY_GROUP
from evenreel.audits.source.paired import LocationMode, SourceMeasures, measure_source
from evenreel.audits.source.tables import exposure_table, paired_tables, preference_table
from evenreel.audits.source.unpaired import Unpaired, measure_unpaired
from evenreel.audits.source.words import (
    paired_effect,
    paired_sentence,
    source_method,
    unpaired_effect,
    unpaired_sentence,
)
from evenreel.corpus.accepted import CorpusLike
from evenreel.corpus.counterparts import counterparts
from evenreel.evaluation.accepted import ScoresLike
from evenreel.evaluation.results import Interval
from evenreel.report.figures import deltas_by_group, effect_intervals
from evenreel.report.result import AuditFigure, AuditResult
from evenreel.types import Corpus

__all__ = ["LocationMode", "SourceMeasures", "audit_source", "measure_source"]

_BARS = ("R@1", "MedR", "MeanR", MIX_R)


def audit_source(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    location: LocationMode = "expected",
) -> AuditResult:
    """Test whether scores favour real or generated clips of the same meaning.

    Where generated clips mirror real ones that have captions, the effect is the Normalized delta MixR of the group with
    the most pairs. Elsewhere it is how often a real clip is ranked above a generated one where neither answers the
    query, which needs only a clip of each kind and any queries.

    Args:
        scores: scores of captions and clips.
        corpus: corpus with the columns `source` and `pair_id` of clips.
        settings: samples, seed, confidence, and how much is read at once.
        location: order of a clip and its mirror in Location deltas: `expected`, the mean of both orders, or `random`.

    Raises:
        CorpusError: the scores hold no real or no generated clip.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
        UsageError: the location is not known.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    unpaired = measure_unpaired(scores, corpus, settings)
    groups = paired_groups(scores, corpus)
    measured = [measure_source(scores, corpus, group, settings, location=location) for group in groups]
    whole = unpaired.preferences[EVERY_GROUP]
    main = max(measured, key=lambda one: one.pairs) if measured else None
    return AuditResult(
        name="source",
        title="Are real or generated clips favoured?",
        sentence=paired_sentence(main, settings.confidence)
        if main
        else unpaired_sentence(whole, unpaired.exposure, settings.confidence),
        effect=paired_effect(main) if main else unpaired_effect(whole),
        tables=(*paired_tables(measured), preference_table(unpaired.preferences), exposure_table(unpaired.exposure)),
        figures=(*_paired_figures(measured), *_unpaired_figures(unpaired)),
        notices=(
            *score_notices(scores, corpus, settings.cluster),
            *unpaired.notices,
            *_without_scores(corpus, groups),
            *(notice for one in measured for notice in one.notices),
        ),
        method=(*source_method(paired=bool(measured)), *_location_words(main)),
        confidence=settings.confidence,
    )


def _without_scores(corpus: Corpus, measured: Sequence[str]) -> Iterator[str]:
    """Groups whose pairs are in the corpus but not in the scores."""
    for group in counterparts(corpus)["group"].unique(maintain_order=True):
        if group not in measured:
            if corpus.captions.height:
                yield f"Of no pair of {group} are a caption, the real clip and its mirror all in the scores: left out."
            else:
                yield f"Nobody has said which clip answers which query, so pairs of {group} count as any other clips."


def _location_words(main: SourceMeasures | None) -> Iterator[str]:
    if main and main.location == "random":
        yield "The order of a clip and its mirror in the Location deltas was drawn at random for each caption."


def _paired_figures(measured: Sequence[SourceMeasures]) -> Iterator[AuditFigure]:
    unit = "Δ (above 0: real clips favoured)"
    if len(measured) > 1:
        yield AuditFigure("Normalized Δ by group", partial(deltas_by_group, _by_group(measured), f"Normalized {unit}"))
    for one in measured:
        yield AuditFigure(
            f"Deltas of {one.group}",
            partial(deltas_by_group, {kind.capitalize(): one.deltas[kind] for kind in one.deltas}, unit),
        )
        yield AuditFigure(
            f"Which clip of a pair comes first: {one.group}",
            partial(rank_gaps, one.rank_gaps),
            "Ranks in the mixed gallery; each caption once.",
        )


def _by_group(measured: Sequence[SourceMeasures]) -> dict[str, dict[str, Interval]]:
    return {word: {one.group: one.deltas["normalized"][word] for one in measured} for word in _BARS}


def _unpaired_figures(unpaired: Unpaired) -> Iterator[AuditFigure]:
    if len(unpaired.preferences) > 1:
        yield AuditFigure(
            "Real above generated clips, neither known to answer, by group",
            partial(effect_intervals, {group: unpaired_effect(one) for group, one in unpaired.preferences.items()}),
            "50 % is no preference.",
        )
    yield AuditFigure("Generated clips among the first", partial(exposure_bars, unpaired.exposure))
