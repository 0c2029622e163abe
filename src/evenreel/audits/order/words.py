"""Sentences of an audit of order, and on how everything in it is computed."""

from __future__ import annotations

from collections.abc import Iterator

from evenreel.audits.inputs import paragraph, paragraphs
from evenreel.audits.order.kinds import ActionKinds
from evenreel.audits.order.measures import CHANCE, MARGIN, OrderMeasures
from evenreel.audits.order.preference import LIKED
from evenreel.report.result import figure_words
from evenreel.report.words import percent

_LEADS = {
    "sees": "The ranking sees order",
    "hardly": "The ranking sees order, but hardly",
    "blind": "The ranking is order-blind",
    "turned": "The ranking prefers the wrong order",
    "open": "Whether the ranking sees order cannot be told",
    "few": "What was seen",
}
_CONTROLS = {"twins": "a caption of the twin does", "others": "captions of other clips do"}


def order_sentence(measured: OrderMeasures, confidence: float) -> str:
    """Return the verdict in a sentence, which begins with a warning where there are too few pairs.

    Args:
        measured: measures of one system.
        confidence: confidence of its intervals.
    """
    verdict = measured.verdict
    if verdict == "none":
        return "No caption can be held against one of another pair, so nothing can be measured."
    if measured.same:
        return (
            f"The ranking is order-blind: its scores are the same whatever the order of frames, for all "
            f"{len(measured.pairs.twins.columns):,} pairs of a clip and its twin.{_recall_words(measured)}"
        )
    lead = (
        _LEADS[verdict]
        if measured.preferred.low is not None or verdict == "few"
        else "Without an interval nothing can be told"
    )
    few = f"Too few pairs to conclude: {measured.drawn:,}. " if verdict == "few" else ""
    return (
        f"{few}{lead}: in {figure_words(measured.preferred, confidence, '%')} of cases a caption prefers its clip to "
        f"the twin of another order more than {_CONTROLS[measured.control]}, where {CHANCE:.0f}% is chance"
        f"{_sure_words(measured, confidence)} ({len(measured.further):,} pairs).{_recall_words(measured)}"
    )


def order_notices(measured: OrderMeasures, kinds: ActionKinds) -> Iterator[str]:
    """Yield notices on the pairs: what was left out, what stands for captions of twins, and what twins are liked."""
    yield from measured.pairs.notices
    yield from _control_notices(measured)
    liked = measured.shares.get(LIKED)
    if liked is not None and liked.low is not None and liked.high is not None and not liked.low <= CHANCE <= liked.high:
        side = "less" if liked.value > CHANCE else "more"
        yield (
            f"Twins are liked {side} than clips whatever a caption says: {liked.value:.1f}% of the time the clip "
            "stands above its twin. The plain shares of captions of clips have that in them, the effect has not."
        )
    yield from kinds.notices


def order_method(measured: OrderMeasures, kinds: ActionKinds) -> Iterator[str]:
    """Yield paragraphs on how it was computed, with the sources."""
    if measured.control == "twins":
        yield from paragraphs("order", "Both orders", "Interval of both orders")
    else:
        yield from paragraphs("order", "Other clips", "Interval of other clips")
    yield paragraph("order", "Order-blind", margin=f"{MARGIN:.0f}")
    yield from paragraphs("order", "Plain shares", "Recall")
    if kinds.told_by:
        yield paragraph("order", "Kinds", told_by=kinds.told_by)


def _control_notices(measured: OrderMeasures) -> Iterator[str]:
    """What stands for captions of twins, where there are none and it matters."""
    if measured.same or measured.control == "twins":
        return
    if measured.pairs.chosen:
        yield (
            "Nobody has said which clip a sentence is of: each is held to be of the clip that it scores highest in "
            "both orders together. Where that is a wrong one, less order is seen than there is, so only equal scores "
            "are called order-blind."
        )
    else:
        yield (
            "No captions describe the twins, so captions of other clips are the control: they leave out how much a "
            "twin is liked at all, but not that its own caption finds less of itself in a twin which was encoded "
            "worse. Make clips and twins in the same way."
        )


def _sure_words(measured: OrderMeasures, confidence: float) -> str:
    """How far from chance it is at most, where that is sure to be little."""
    if measured.verdict not in ("blind", "hardly"):
        return ""
    return f" (less than {MARGIN:.0f} points from chance with {percent(confidence)} confidence)"


def _recall_words(measured: OrderMeasures) -> str:
    if not measured.recalls:
        return ""
    alone, together = [one["R@1"].value for one in measured.recalls.values()][:2]
    return f" R@1 of captions of clips goes from {alone:.1f} to {together:.1f}% with the twins in the gallery."
