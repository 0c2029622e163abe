"""Figures of an evaluation in words, the same on a page and in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evenreel.evaluation.comparison import Difference
from evenreel.evaluation.intervals import Interval
from evenreel.evaluation.measure import Evaluation, GroupGap
from evenreel.evaluation.metrics import Metric, parse_metric

PROTOCOLS = {
    "caption": "each caption is a query",
    "video-mean": "each video counts once, with the mean over its captions",
    "best-caption": "each video looks among all captions for the best-placed of its own",
    "caption-group": "each video looks among videos, each scored by the best of its captions",
    "every-caption": "each video looks for each of its own captions among those that do not answer it",
}
RELEVANCES = {
    "clip": "a caption is answered by its own clip",
    "text": "a caption is answered by every clip that has a caption of the same text",
    "classes": "degrees from verb and noun classes, verbs equal or not",
    "classes-iou": "degrees from verb and noun classes, verbs by intersection over union",
    "given": "degrees of relevance that were given",
    "diagonal": "the diagonal of the matrix, a caption a row and its clip the column",
    "qrels": "a pair that the judgements name; no other is relevant",
}
TIES = {
    "expected": "items with equal scores are in random order, and each query counts with its mean over all orders",
    "optimistic": "of items with equal scores the more relevant come first",
    "pessimistic": "of items with equal scores the more relevant come last",
}


def number(value: float, metric: Metric) -> str:
    """Format a metric's figure as tables show it: with two decimals, or one for a rank.

    >>> number(43.148, parse_metric("R@1")), number(1234.5, parse_metric("MedR")), number(-0.001, parse_metric("mAP"))
    ('43.15', '1,234.5', '0.00')
    """
    digits = 1 if metric.is_rank else 2
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def interval(figure: Interval, metric: Metric) -> str:
    """Format the ends of a metric's interval; empty where there is none.

    >>> interval(Interval(5.0, 4.25, 6.0), parse_metric("mAP")), interval(Interval(5.0), parse_metric("mAP"))
    ('4.25 to 6.00', '')
    """
    if figure.low is None or figure.high is None:
        return ""
    return f"{number(figure.low, metric)} to {number(figure.high, metric)}"


def signed(value: float, metric: Metric) -> str:
    """Format a difference in a metric, with its sign.

    >>> [signed(one, parse_metric("R@5")) for one in (1.256, -0.5, 0.001)]
    ['+1.26', '-0.50', '0.00']
    """
    words = number(value, metric)
    return f"+{words}" if float(words.replace(",", "")) > 0 else words


def p_value(p: float) -> str:
    """Format a p value: three decimals, and `<0.001` below that.

    >>> p_value(0.00099), p_value(0.0312), p_value(1.0)
    ('<0.001', '0.031', '1.000')
    """
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def percent(share: float) -> str:
    """Format a share such as a confidence, with as many digits as it was given.

    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * share:g}%"


def main_sentence(evaluation: Evaluation) -> str:
    """Return a sentence on the evaluation's first metric in its first direction, with its interval."""
    direction, result = next(iter(evaluation.directions.items()))
    metric = evaluation.metrics[0]
    figure = result.summary[str(metric)]
    value, ends = number(figure.value, metric), interval(figure, metric)
    sure = f" ({percent(evaluation.confidence)} interval {ends})" if ends else ""
    count, gallery = f"{len(result.query_ids):,}", f"{result.gallery_size:,} candidates"
    what = "captions" if result.protocol == "caption" else "clips"
    if metric.name != "R":
        return f"{metric} of {direction} is {value}{sure}, over {count} {what} and {gallery}."
    where = "first among" if metric.cutoff == 1 else f"among the first {metric.cutoff} of"
    if result.protocol == "video-mean":
        return f"On average over {count} clips, {value}% of a clip's captions find it {where} {gallery}{sure}."
    if result.protocol == "every-caption":
        others = "captions that do not answer it"
        return f"On average over {count} clips, {value}% of a clip's captions are found {where} the {others}{sure}."
    return f"{value}% of {count} {what} find their answer {where} {gallery}{sure}."


INTERVAL_METHOD = (
    "R@k by the score method of Wilson (1927), where several queries are drawn together the wider of it and the next; "
    "other shares and mean ranks by the transformation of Hall (1992), mean ranks with room for one more clip half as "
    "bad again as the worst."
)


def intervals_sentence(evaluation: Evaluation) -> str:
    """Return a sentence on what intervals and tests sample (clips or videos), for both directions."""
    over = dict.fromkeys(f"{one.drawn:,} {one.drawn_by}" for one in evaluation.directions.values())
    return (
        f"Intervals and tests are over {' and '.join(over)}, with all queries of each: other queries of the same kind, "
        "asked of this very gallery."
    )


def difference_sentence(row: Difference, confidence: float) -> str:
    """Return a plain sentence on the difference of a system from the baseline."""
    metric = parse_metric(row.metric)
    better = metric.higher_is_better == (row.difference.value > 0)
    verdict = "does better than the baseline" if better else "does worse than the baseline"
    if row.p_holm > 1 - confidence:
        verdict = "cannot be told from the baseline"
    ends = interval(row.difference, metric)
    return (
        f"{row.system} {verdict} in {row.metric} of {row.direction}: {signed(row.difference.value, metric)}"
        f"{f' ({ends})' if ends else ''}, p = {p_value(row.p_holm)} after Holm's correction."
    ).replace("p = <", "p < ")


def gap_sentence(gap: GroupGap, metric: Metric, column: str, confidence: float) -> str:
    """Return a plain sentence on the gap between the best and the worst group by a column."""
    apart = f"{metric} is {number(gap.gap.value, metric)} worse for {gap.worst!r} than for {gap.best!r}"
    if gap.p is None:
        return f"By {column}, {apart}; whether chance alone does that is not computed."
    ends = interval(gap.gap, metric)
    sure = f" ({percent(confidence)} interval {ends})" if ends else ""
    verdict = "which chance alone does not explain" if gap.p <= 1 - confidence else "which chance alone may do"
    by_chance = "" if gap.chance is None else f"; where no group differs it is {number(gap.chance, metric)} on average"
    corrected = f"p = {p_value(gap.p)} for all groups".replace("p = <", "p < ")
    return f"By {column}, {apart}{sure}, {verdict}: {corrected}{by_chance}."


GAP_METHOD = (
    "A gap is between the best and the worst group, whatever these are, so chance alone makes one: its interval and p "
    "are from the largest studentised difference of all pairs of groups (max-t: Westfall and Young 1993), over "
    "arrangements in which no group differs, and are corrected for the number of columns. Groups of fewer than 30 are "
    "in no gap. The interval of each group is for this group alone; every query is asked of the whole gallery."
)


def evaluation_notices(evaluation: Evaluation) -> list[str]:
    """Return the notices of an evaluation, a sentence each."""
    return [*([uses_sentence(evaluation.uses)] if evaluation.uses else []), *evaluation.notices]


def merge_sentences(by_system: Mapping[str, Iterable[str]]) -> list[str]:
    """Merge sentences about systems: each once, after the names of the systems that it holds for, in order.

    >>> merge_sentences({"a": ["Old."], "b": ["Old.", "Odd."], "c": ["Old."]})
    ['All 3 systems: Old.', 'b: Odd.']
    >>> merge_sentences({"a": ["Old."], "b": ["Odd."], "c": ["Odd."]})
    ['a: Old.', 'b and c: Odd.']
    >>> merge_sentences({"a": ["Old."]})
    ['Old.']
    """
    systems: dict[str, list[str]] = {}
    for name, sentences in by_system.items():
        for sentence in dict.fromkeys(sentences):
            systems.setdefault(sentence, []).append(name)
    if len(by_system) == 1:
        return list(systems)
    return [f"{_systems(names, len(by_system))}: {sentence}" for sentence, names in systems.items()]


def _systems(names: list[str], count: int) -> str:
    if len(names) == count:
        return "Both systems" if count == 2 else f"All {count} systems"
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def uses_sentence(uses: tuple[str, ...]) -> str:
    """Return a notice on scores that use anything beside caption and video, such as other queries."""
    return f"These scores use {' and '.join(uses)}: they are not to be compared with scores that do not."
