"""Audit of hubs: do a few clips dominate the rankings of a system or library?

In a space of many dimensions some points are near to very many others (Radovanović et al. 2010). A clip that is such a
hub is shown for queries that it does not answer, and other clips never are. As in TITAN, the words that bring hubs are
reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from evenreel.audits.given import as_inputs
from evenreel.audits.hubness.captions import query_words, texts_of
from evenreel.audits.hubness.figures import occurrence_bars, place_curves
from evenreel.audits.hubness.measures import HubnessMeasures, measure_hubness
from evenreel.audits.hubness.tables import hubness_tables
from evenreel.audits.hubness.words import hubness_method, hubness_notices, hubness_sentence
from evenreel.audits.pairs import score_notices
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.folder import CorpusLike
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import AuditFigure, AuditResult


def audit_hubness(scores: ScoresLike, corpus: CorpusLike, settings: AuditSettings | None = None) -> AuditResult:
    """Test whether a few clips are among the first for many queries, more than in random rankings.

    The effect is the skewness of how often each clip is among the first 10 (of fewer in a small gallery).

    Args:
        scores: scores of captions and clips; their notes may have `texts` of queries that the corpus lacks, by caption
            id, and `names` of clips, by clip id.
        corpus: corpus with the captions' words and own clips; it may have no caption.
        settings: confidence, how much is read at once, and the seed of the sample of queries whose words are examined.

    Raises:
        CorpusError: there is one clip only.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    measured = measure_hubness(scores, corpus, settings)
    texts = texts_of(scores, corpus)
    asked = [texts.get(caption) for caption in scores.caption_ids]
    words = query_words(asked, measured.hub_places, measured.clusters, settings.seed)
    return AuditResult(
        name="hubness",
        title="Do a few clips crowd the rankings?",
        sentence=hubness_sentence(measured, words, settings.confidence),
        effect=measured.effect,
        tables=tuple(hubness_tables(measured, words)),
        figures=tuple(_figures(measured)),
        notices=(*score_notices(scores, corpus, settings.cluster), *hubness_notices(measured, words)),
        method=tuple(hubness_method(words)),
        confidence=settings.confidence,
    )


def _figures(measured: HubnessMeasures) -> Iterator[AuditFigure]:
    main = measured.main
    yield AuditFigure(
        "How often clips are shown",
        partial(occurrence_bars, main.counts, main.queries, main.depth),
        "Logarithmic upwards: each line is ten times as many clips. Bars far to the right of the dotted line are hubs.",
    )
    counts = {one.depth: one.counts for one in measured.occurrences}
    yield AuditFigure(
        "Who holds the places",
        partial(place_curves, counts, main.queries),
        "The nearer a line is to the upper left corner, the fewer clips are shown.",
    )
