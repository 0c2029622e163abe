"""The page of `evenreel evaluate`: the main figure in a sentence, charts, tables, and how it was computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from evenreel.evaluation.comparison import Comparison, Difference, SideBySide, in_order_of
from evenreel.evaluation.measure import DirectionResult, Evaluation
from evenreel.evaluation.metrics import Direction, EvaluationSettings, parse_metric
from evenreel.report.groups import group_section
from evenreel.report.page import Chart, Page, Section, Table, Text
from evenreel.report.side_by_side import page_table
from evenreel.report.words import (
    INTERVAL_METHOD,
    PROTOCOLS,
    RELEVANCES,
    TIES,
    difference_sentence,
    evaluation_notices,
    interval,
    intervals_sentence,
    main_sentence,
    merge_sentences,
    number,
    p_value,
    percent,
    signed,
)
from evenreel.types import Corpus

TITLES: dict[Direction, str] = {"t2v": "Captions look for videos (t2v)", "v2t": "Videos look for captions (v2t)"}


def evaluation_page(
    evaluations: Mapping[str, Evaluation],
    corpus: Corpus,
    comparison: Comparison | None = None,
    settings: EvaluationSettings | None = None,
    together: SideBySide | None = None,
) -> Page:
    """Make the page of an evaluation of one system, or of several, the first of which is the baseline.

    Args:
        evaluations: evaluations by the name of the system, all on the same queries.
        corpus: corpus of the captions that are shown when the pointer is on a query.
        comparison: comparison of the other systems with the first.
        settings: settings of the evaluations.
        together: all systems side by side, for a table of their own; None for none.
    """
    settings = settings or EvaluationSettings()
    name, first = next(iter(evaluations.items()))
    sections = [Section("What to know first", notices)] if (notices := _notices(evaluations, comparison)) else []
    if together:
        sections.append(Section("Side by side", [page_table(together)]))
    for direction in first.directions:
        results = {system: one.directions[direction] for system, one in evaluations.items()}
        rows = [row for row in comparison.rows if row.direction == direction] if comparison else []
        sections.append(_direction(direction, results, rows, corpus, first, settings))
        by_group = (group_section(system, one, first.metrics, first.confidence) for system, one in results.items())
        sections += [section for section in by_group if section]
    sections.append(Section("How it was calculated", _method(evaluations, comparison, settings)))
    lead = main_sentence(first)
    return Page(
        f"Evaluation of {', '.join(evaluations)}", lead if len(evaluations) == 1 else f"{name}: {lead}", sections
    )


def _notices(evaluations: Mapping[str, Evaluation], comparison: Comparison | None) -> list[Text]:
    """Verdicts on the first metric, then whatever has to be said of each system."""
    verdicts = []
    if comparison:
        metric = comparison.rows[0].metric
        verdicts = [
            Text(difference_sentence(row, comparison.confidence)) for row in comparison.rows if row.metric == metric
        ]
    said = merge_sentences({name: evaluation_notices(one) for name, one in evaluations.items()})
    said += comparison.notices if comparison else ()
    return verdicts + [Text(sentence, "notice") for sentence in said]


def _direction(
    direction: Direction,
    results: Mapping[str, DirectionResult],
    rows: Sequence[Difference],
    corpus: Corpus,
    first: Evaluation,
    settings: EvaluationSettings,
) -> Section:
    from evenreel.report.figures import query_scatter, rank_histogram, recall_curve

    result = next(iter(results.values()))
    parts: list[Text | Table | Chart] = [
        Text(
            f"{result.protocol}: {PROTOCOLS[result.protocol]}. {len(result.query_ids):,} queries, each among "
            f"{result.gallery_size:,} candidates."
        ),
        Chart(recall_curve(results, first.confidence)),
        Text(
            f"R@k for every k, as in the table; the band is the {percent(first.confidence)} interval at each k, over "
            f"{result.drawn:,} {result.drawn_by}.",
            "note",
        ),
        Chart(rank_histogram(results)),
    ]
    baseline, *others = results
    for name in others:
        two = {baseline: result, name: in_order_of(result, results[name], name)}
        figure, drawn = query_scatter(two, query_words(result, corpus), settings.seed)
        total = len(result.query_ids)
        shown = f"a sample of {drawn:,} of {total:,} queries" if drawn < total else f"all {total:,} queries"
        parts.append(Chart(figure))
        parts.append(Text(f"A point a query, {shown}; point at one to read it. Below the line is better.", "note"))
    parts.append(figures_table(results, first))
    if rows:
        parts.append(_differences_table(rows, baseline, first.confidence))
    return Section(TITLES[direction], parts)


def query_words(result: DirectionResult, corpus: Corpus) -> list[str]:
    """Return words that describe each query: a caption's text, or a clip's name and its first caption."""
    texts = corpus.captions.select("caption_id", "clip_id", "text")
    if result.protocol == "caption":
        said = dict(texts.select("caption_id", "text").iter_rows())
        return [said[one] for one in result.query_ids]
    first = dict(texts.group_by("clip_id", maintain_order=True).agg(pl.col("text").first()).iter_rows())
    return [f"{one}: {first.get(one, '')}" for one in result.query_ids]


def figures_table(
    results: Mapping[str, DirectionResult] | Mapping[Direction, DirectionResult], first: Evaluation
) -> Table:
    """Make the table of figures with their intervals: a metric a row, two columns for each result."""
    sure = f"{percent(first.confidence)} interval"
    columns = ["metric", *(word for name in results for word in (name, sure))]
    rows = []
    for metric in first.metrics:
        figures = [result.summary[str(metric)] for result in results.values()]
        words = ((number(one.value, metric), interval(one, metric)) for one in figures)
        rows.append([str(metric), *(word for pair in words for word in pair)])
    return Table(columns, rows, "Shares in percent; ranks begin at 1.")


def _differences_table(rows: Sequence[Difference], baseline: str, confidence: float) -> Table:
    columns = [
        "metric", "system", "difference", f"{percent(confidence)} interval", "p", "p (Holm)", "p (Wilcoxon)",
        "wins", "ties", "losses",
    ]  # fmt: skip
    return Table(columns, [difference_cells(row) for row in rows], f"Differences from {baseline}, query by query.")


def difference_cells(row: Difference) -> list[str]:
    """Format a comparison as ten cells of a table.

    Returns:
        Metric, system, difference, its interval, p by randomisation, by Holm and by Wilcoxon, and the numbers of
        queries won, tied and lost.
    """
    metric = parse_metric(row.metric)
    return [
        *(row.metric, row.system, signed(row.difference.value, metric), interval(row.difference, metric)),
        *(p_value(p) for p in (row.p_randomisation, row.p_holm, row.p_wilcoxon)),
        *(f"{queries:,}" for queries in (row.wins, row.ties, row.losses)),
    ]


def _method(
    evaluations: Mapping[str, Evaluation], comparison: Comparison | None, settings: EvaluationSettings
) -> list[Text | Table]:
    first = next(iter(evaluations.values()))
    said: list[Text | Table] = [
        Text(f"Relevance ({first.relevance}): {RELEVANCES[first.relevance]}."),
        Text(f"Ties ({first.ties}): {TIES[first.ties]}."),
    ]
    if settings.resamples:
        said.append(Text(f"{intervals_sentence(first)} {INTERVAL_METHOD}"))
        if any(not metric.is_of_means for metric in first.metrics):
            said.append(
                Text(
                    f"Intervals of medians: the middle {percent(first.confidence)} of {settings.resamples:,} samples "
                    f"drawn with replacement (seed {settings.seed})."
                )
            )
    if comparison:
        said.append(
            Text(
                "p: paired randomisation test, which exchanges the systems' answers to all queries that are drawn "
                "together; p (Holm) is adjusted for the number of systems in the table; p (Wilcoxon): signed ranks of "
                "the mean differences of these. Intervals of differences are Student's, those of R@k with one more of "
                "what is drawn won and one lost (Bonett and Price 2012). Wins, ties and losses are queries."
            )
        )
    said.append(Table(["metric", "meaning"], [[str(one), one.explanation] for one in first.metrics]))
    return said
