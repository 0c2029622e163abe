"""Figures as words, the same on a page and in a terminal."""

from __future__ import annotations

from evenreel.evaluation.comparison import Difference
from evenreel.evaluation.metrics import parse_metric
from evenreel.evaluation.results import Evaluation, Interval

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
}
TIES = {
    "expected": "items with equal scores are in random order, and figures are the mean over all orders",
    "optimistic": "of items with equal scores the more relevant come first",
    "pessimistic": "of items with equal scores the more relevant come last",
}


def number(value: float) -> str:
    """A figure as tables show it.

    >>> number(43.14), number(1234.5), number(-0.01)
    ('43.1', '1,234.5', '0.0')
    """
    return f"{round(value, 1) + 0.0:,.1f}"


def interval(figure: Interval) -> str:
    """The ends of an interval; empty where there is none.

    >>> interval(Interval(5.0, 4.25, 6.0)), interval(Interval(5.0))
    ('4.2 to 6.0', '')
    """
    return "" if figure.low is None or figure.high is None else f"{number(figure.low)} to {number(figure.high)}"


def signed(value: float) -> str:
    """A difference with its sign.

    >>> signed(1.26), signed(-0.5), signed(0.0)
    ('+1.3', '-0.5', '0.0')
    """
    words = number(value)
    return f"+{words}" if value > 0 and words != "0.0" else words


def p_value(p: float) -> str:
    """A p-value with as many digits as it deserves.

    >>> p_value(0.00099), p_value(0.0312), p_value(1.0)
    ('<0.001', '0.031', '1.000')
    """
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def main_sentence(evaluation: Evaluation) -> str:
    """The first metric of the first direction, with its interval, as a plain sentence."""
    direction, result = next(iter(evaluation.directions.items()))
    metric = evaluation.metrics[0]
    figure = result.summary[str(metric)]
    ends = interval(figure)
    sure = f" ({evaluation.confidence:.0%} interval {ends})" if ends else ""
    queries = f"{len(result.query_ids):,} {'captions' if result.protocol == 'caption' else 'clips'}"
    gallery = f"{result.gallery_size:,} candidates"
    if metric.name == "R":
        where = "first among" if metric.cutoff == 1 else f"among the first {metric.cutoff} of"
        return f"{number(figure.value)}% of {queries} find their answer {where} {gallery}{sure}."
    return f"{metric} of {direction} is {number(figure.value)}{sure}, over {queries} and {gallery}."


def difference_sentence(row: Difference, confidence: float) -> str:
    """One comparison as a plain sentence."""
    better = parse_metric(row.metric).higher_is_better == (row.difference.value > 0)
    verdict = "does better than the baseline" if better else "does worse than the baseline"
    if row.p_holm > 1 - confidence:
        verdict = "cannot be told from the baseline"
    return (
        f"{row.system} {verdict} in {row.metric} of {row.direction}: {signed(row.difference.value)} "
        f"({interval(row.difference)}), p = {p_value(row.p_holm)} after Holm's correction."
    ).replace("p = <", "p < ")


def uses_sentence(uses: tuple[str, ...]) -> str:
    """What a reader must know of scores that use more than caption and video."""
    return (
        f"These scores use {' and '.join(uses)}: they are not to be compared with scores of systems that see each "
        "query alone."
    )
