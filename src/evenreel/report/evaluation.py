"""Evaluations for readers: the page of `evenreel evaluate`, tables of groups and systems, LaTeX, and the hub's files.

Tables and sentences are the same on a page and in a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evenreel.errors import UsageError
from evenreel.evaluation.comparison import Comparison, Difference, FigureColumn, SideBySide, in_order_of, side_by_side
from evenreel.evaluation.intervals import Interval
from evenreel.evaluation.measure import ColumnFigures, DirectionResult, Evaluation
from evenreel.evaluation.metrics import Direction, EvaluationSettings, Metric, parse_metric
from evenreel.report.page import Chart, Page, Part, Section, Table, Text
from evenreel.report.words import (
    GAP_METHOD,
    INTERVAL_METHOD,
    PROTOCOLS,
    RELEVANCES,
    TIES,
    difference_sentence,
    evaluation_notices,
    gap_sentence,
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
    sections = []
    # Verdicts on the first metric, then whatever has to be said of each system.
    compared = comparison.rows if comparison else ()
    verdicts = [
        Text(difference_sentence(row, first.confidence)) for row in compared if row.metric == compared[0].metric
    ]
    said = merge_sentences({name: evaluation_notices(one) for name, one in evaluations.items()})
    said += comparison.notices if comparison else ()
    if verdicts or said:
        sections.append(Section("What to know first", [*verdicts, *(Text(one, "notice") for one in said)]))
    if together:
        sections.append(Section("Side by side", [page_table(together)]))
    for direction in first.directions:
        results = {system: one.directions[direction] for system, one in evaluations.items()}
        rows = [row for row in compared if row.direction == direction]
        sections.append(Section(TITLES[direction], [*_direction(results, rows, corpus, first, settings)]))
        for system, result in results.items():
            if result.by:
                parts = [part for column in result.by for part in _groups(result, column, first)]
                sections.append(Section(f"{system}: groups, {result.direction}", [*parts, Text(GAP_METHOD, "note")]))
    sections.append(Section("How it was calculated", [*_method(first, comparison, settings)]))
    lead = main_sentence(first)
    return Page(
        f"Evaluation of {', '.join(evaluations)}", lead if len(evaluations) == 1 else f"{name}: {lead}", sections
    )


def _direction(
    results: Mapping[str, DirectionResult],
    rows: Sequence[Difference],
    corpus: Corpus,
    first: Evaluation,
    settings: EvaluationSettings,
) -> Iterator[Part]:
    from evenreel.report.figures import query_scatter, rank_histogram, recall_curve

    (baseline, result), *others = results.items()
    total = len(result.query_ids)
    yield Text(
        f"{result.protocol}: {PROTOCOLS[result.protocol]}. {total:,} queries, each among {result.gallery_size:,} "
        "candidates."
    )
    yield Chart(recall_curve(results, first.confidence))
    yield Text(
        f"R@k for every k, as in the table; the band is the {percent(first.confidence)} interval at each k, over "
        f"{result.drawn:,} {result.drawn_by}.",
        "note",
    )
    yield Chart(rank_histogram(results))
    for name, other in others:
        two = {baseline: result, name: in_order_of(result, other, name)}
        figure, drawn = query_scatter(two, query_words(result, corpus), settings.seed)
        shown = f"a sample of {drawn:,} of {total:,} queries" if drawn < total else f"all {total:,} queries"
        yield Chart(figure)
        yield Text(f"A point a query, {shown}; point at one to read it. Below the line is better.", "note")
    yield figures_table(results, first)
    if rows:
        yield Table(
            (
                "metric", "system", "difference", f"{percent(first.confidence)} interval", "p", "p (Holm)",
                "p (Wilcoxon)", "wins", "ties", "losses",
            ),
            [difference_cells(row) for row in rows],
            f"Differences from {baseline}, query by query.",
        )  # fmt: skip


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
    columns = ["metric", *(word for name in results for word in (name, f"{percent(first.confidence)} interval"))]
    rows = [
        [str(metric), *_cells(metric, *(result.summary[str(metric)] for result in results.values()))]
        for metric in first.metrics
    ]
    return Table(columns, rows, "Shares in percent; ranks begin at 1.")


def _cells(metric: Metric, *figures: Interval | None) -> list[str]:
    """Each figure and its interval, both empty where there is none."""
    pairs = ((number(one.value, metric), interval(one, metric)) if one else ("", "") for one in figures)
    return [word for pair in pairs for word in pair]


def difference_cells(row: Difference) -> list[str]:
    """Format a comparison as cells: metric, system, difference, interval, three p values, queries won, tied, lost."""
    metric = parse_metric(row.metric)
    return [
        *(row.metric, row.system, signed(row.difference.value, metric), interval(row.difference, metric)),
        *(p_value(p) for p in (row.p_randomisation, row.p_holm, row.p_wilcoxon)),
        *(f"{queries:,}" for queries in (row.wins, row.ties, row.losses)),
    ]


def _method(first: Evaluation, comparison: Comparison | None, settings: EvaluationSettings) -> Iterator[Text | Table]:
    yield Text(f"Relevance ({first.relevance}): {RELEVANCES[first.relevance]}.")
    yield Text(f"Ties ({first.ties}): {TIES[first.ties]}.")
    if settings.resamples:
        yield Text(f"{intervals_sentence(first)} {INTERVAL_METHOD}")
        if any(not metric.is_of_means for metric in first.metrics):
            yield Text(
                f"Intervals of medians: the middle {percent(first.confidence)} of {settings.resamples:,} samples "
                f"drawn with replacement (seed {settings.seed})."
            )
    if comparison:
        yield Text(
            "p: paired randomisation test, which exchanges the systems' answers to all queries that are drawn "
            "together; p (Holm) is adjusted for the number of systems in the table; p (Wilcoxon): signed ranks of "
            "the mean differences of these. Intervals of differences are Student's, those of R@k with one more of "
            "what is drawn won and one lost (Bonett and Price 2012). Wins, ties and losses are queries."
        )
    yield Table(["metric", "meaning"], [[str(one), one.explanation] for one in first.metrics])


# Groups of queries ---------------------------------------------------------------------------------------------------


def groups_table(result: DirectionResult, column: str, metrics: Sequence[Metric], confidence: float) -> Table:
    """Make the table of the groups of a column: a group a row, its figures with their intervals."""
    sure = f"{percent(confidence)} interval"
    heads = [column, "queries", result.drawn_by, *(word for metric in metrics for word in (str(metric), sure))]
    rows = [
        [group.name, f"{group.queries:,}", f"{group.drawn:,}"]
        + [word for one in metrics for word in _cells(one, group.summary.get(str(one)))]
        for group in result.by[column].groups
    ]
    return Table(heads, rows, f"{result.direction} by {column}; every query is asked of the whole gallery.")


def gaps_table(found: ColumnFigures, metrics: Sequence[Metric], confidence: float) -> Table:
    """Make the table of the gaps between the best and the worst group, by metric."""
    rows = []
    for metric in metrics:
        if (gap := found.gaps.get(str(metric))) is None:
            continue
        sure = ["" if gap.chance is None else number(gap.chance, metric), "" if gap.p is None else p_value(gap.p)]
        rows.append([str(metric), gap.worst, gap.best, *_cells(metric, gap.gap), *sure])
        for name, apart in gap.against.items():
            rows.append([str(metric), name, "", *_cells(metric, apart), "", ""])
    heads = ["metric", "worst", "best", "gap", f"{percent(confidence)} interval", "by chance", "p"]
    return Table(heads, rows, "Gap between the best and the worst group.", left=3)


def group_sentences(result: DirectionResult, column: str, metrics: Sequence[Metric], confidence: float) -> list[str]:
    """Say the gap of the first metric that has one."""
    gaps = result.by[column].gaps
    known = [metric for metric in metrics if str(metric) in gaps]
    return [gap_sentence(gaps[str(metric)], metric, column, confidence) for metric in known[:1]]


def _groups(result: DirectionResult, column: str, first: Evaluation) -> Iterator[Text | Table]:
    found, how = result.by[column], (first.metrics, first.confidence)
    yield from (Text(sentence, "notice") for sentence in found.notices)
    yield from (Text(sentence) for sentence in group_sentences(result, column, *how))
    if found.groups:
        yield groups_table(result, column, *how)
    if found.gaps:
        yield gaps_table(found, *how)


# Systems side by side ------------------------------------------------------------------------------------------------

Cell = Callable[[str, str, bool], str]
"""Writes a cell from a figure, the ends of its interval (empty for none) and whether it is the best."""

_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~])")


def cells_of(found: SideBySide, name: str, cell: Cell) -> list[str]:
    """Format the figures of one system, a cell a column, with intervals such as `[24.05, 29.53]`."""

    def written(figure: Interval, column: FigureColumn) -> str:
        ends = ""
        if figure.low is not None and figure.high is not None:
            ends = f"[{number(figure.low, column.measured)}, {number(figure.high, column.measured)}]"
        return cell(number(figure.value, column.measured), ends, found.best[column] == name)

    return [written(figure, column) for column, figure in zip(found.columns, found.figures[name], strict=True)]


def as_markdown(found: SideBySide) -> str:
    """Format systems side by side as a table of GitHub's Markdown, a system a row."""

    def plain(text: str) -> str:
        return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))

    def cell(value: str, ends: str, best: bool) -> str:
        return f"{f'**{value}**' if best else value} {ends}".rstrip()

    heads = ["system", *(plain(str(column)) for column in found.columns)]
    rows = [[plain(name), *cells_of(found, name, cell)] for name in found.figures]
    lines = [heads, ["---", *["---:"] * len(found.columns)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{note(found, 'bold')}\n"


def as_latex(found: SideBySide) -> str:
    r"""Format systems side by side as a `tabular` of LaTeX with the package booktabs, a system a row."""

    def plain(text: str) -> str:
        return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))

    def cell(value: str, ends: str, best: bool) -> str:
        shown = rf"\textbf{{{value}}}" if best else value
        return rf"{shown} {{\scriptsize {ends}}}" if ends else shown

    heads = ["system", *(plain(str(column)) for column in found.columns)]
    # A name that begins with [ would be taken for a length after the end of a row.
    rows = [["{}" + plain(name), *cells_of(found, name, cell)] for name in found.figures]
    head, *body = (" & ".join(line) + r" \\" for line in (heads, *rows))
    begin = rf"\begin{{tabular}}{{l{'r' * len(found.columns)}}}"
    said = f"% {note(found, 'bold')} Needs the package booktabs."
    return "\n".join([said, begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])


def page_table(found: SideBySide) -> Table:
    """Make the table of a page: a metric and direction a row, a system a column, the best with a star."""

    def cell(value: str, ends: str, best: bool) -> str:
        return f"{value}{'*' if best else ''} {ends}".rstrip()

    columns = [cells_of(found, name, cell) for name in found.figures]
    rows = [[str(column), *cells] for column, *cells in zip(found.columns, *columns, strict=True)]
    return Table(["metric", *found.figures], rows, note(found, "a star"))


def note(found: SideBySide, mark: str) -> str:
    """Return what a reader of the table has to know, as one sentence or two."""
    if not any(figure.low is not None for row in found.figures.values() for figure in row):
        return "Nothing was tested."
    tested = (
        f" {mark[0].upper()}{mark[1:]} is significantly better than every other system (paired randomisation, Holm)."
    )
    return f"In brackets: {percent(found.confidence)} intervals.{tested if len(found.figures) > 1 else ''}"


# The Hugging Face hub ------------------------------------------------------------------------------------------------
#
# Files of `.eval_results/`, and the results of a model card, in the formats of huggingface_hub, which writes them:
# https://huggingface.co/docs/hub/eval-results.

_ID = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_TASK = {"t2v": "text-to-video retrieval", "v2t": "video-to-text retrieval"}


@dataclass(frozen=True)
class HubDataset:
    """Dataset on the hub that figures are of."""

    id: str  # `owner/name`
    split: str = ""  # that was measured; empty for the whole of it

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise UsageError(f"{self.id!r} is no id of a dataset on the hub; give owner/name, as its address has it.")


def eval_results(evaluation: Evaluation, dataset: HubDataset) -> str:
    """Write a file of `.eval_results/`: YAML with an entry for each direction and metric, such as the task `t2v-R@1`.

    What a figure depends on (interval, protocol, size, ties, what the scores use) is in its notes.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    entries = [
        EvalResultEntry(dataset.id, f"{result.direction}-{metric}", value, notes=notes)
        for result, metric, value, notes in _figures(evaluation)
    ]
    text: str = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
    return text


def model_card(name: str, evaluation: Evaluation, dataset: HubDataset) -> str:
    """Write a model card's results: its `model-index` in YAML, and the same figures as a table of Markdown."""
    import yaml
    from huggingface_hub import EvalResult
    from huggingface_hub.repocard_data import eval_results_to_model_index

    results = [
        EvalResult(
            task_type=_TASK[result.direction].replace(" ", "-"),
            task_name=_TASK[result.direction],
            dataset_type=dataset.id,
            dataset_name=dataset.id.split("/")[1],
            dataset_split=dataset.split or None,
            metric_type=str(metric),
            metric_name=f"{metric} ({notes})",
            metric_value=value,
        )
        for result, metric, value, notes in _figures(evaluation)
    ]
    index: Any = {"model-index": _known(eval_results_to_model_index(name, results))}
    head = yaml.safe_dump(index, sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n\n## Evaluation\n\n{as_markdown(side_by_side({name: evaluation}))}"


def _figures(evaluation: Evaluation) -> Iterator[tuple[DirectionResult, Metric, float, str]]:
    for result in evaluation.directions.values():
        for metric in evaluation.metrics:
            figure = result.summary[str(metric)]
            ends = interval(figure, metric)
            notes = [
                *([f"{percent(evaluation.confidence)} interval {ends}"] if ends else []),
                f"{len(result.query_ids):,} queries among {result.gallery_size:,}",
                f"protocol {result.protocol}",
                f"relevance {evaluation.relevance}",
                f"ties {evaluation.ties}",
                *([f"uses {' and '.join(evaluation.uses)}"] if evaluation.uses else []),
            ]
            yield result, metric, figure.value, "; ".join(notes)


def _known(value: Any) -> Any:
    """Without what is empty, as model cards leave it out."""
    if isinstance(value, dict):
        return {name: _known(one) for name, one in value.items() if one is not None}
    return [_known(one) for one in value] if isinstance(value, list) else value
