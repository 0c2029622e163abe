"""Audit of a scene dictionary: which of its phrases captions name, and which phrases clips get.

BiMa's authors name the bias of their own dictionary as its limit, and publish nothing about it. This audit asks four
things of any dictionary: whether captions name what it has, how unequally, whether some phrases are given to clips
whatever these show, and whether clips get a phrase more often when people say that they show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from evenreel.audits.dictionary.figures import count_curves, named_and_got, precision_and_chance
from evenreel.audits.dictionary.measures import ChosenElements, KindMeasures, NamedCaptions, gain_of_named, measure
from evenreel.audits.dictionary.tables import NAMES, coverage_of, dictionary_tables, hubs_of, named_share
from evenreel.audits.inputs import paragraphs
from evenreel.audits.settings import AuditSettings
from evenreel.errors import UsageError
from evenreel.evaluation.intervals import Interval
from evenreel.language.scene_dictionary import SceneDictionary
from evenreel.progress import Progress
from evenreel.report.result import ENOUGH, AuditFigure, AuditResult, Effect, figure_words

EFFECT = "gain of the phrases that captions name, points"


def audit_dictionary(
    dictionary: SceneDictionary,
    captions: NamedCaptions | None = None,
    chosen: ChosenElements | None = None,
    settings: AuditSettings | None = None,
    *,
    progress: Progress = lambda share: None,
) -> AuditResult:
    """Audit a scene dictionary; the effect is the mean gain of phrases that captions name, in percentage points.

    Args:
        dictionary: a mined, given or packaged dictionary.
        captions: entities and activities that captions name; None leaves coverage, frequencies and gains out.
        chosen: phrases of the dictionary that clips got; None leaves hubs and gains out.
        settings: number of samples, their seed, and the confidence of the intervals.
        progress: called with the share that is done.

    Raises:
        UsageError: there are neither captions nor clips.
    """
    if captions is None and chosen is None:
        raise UsageError("A scene dictionary is audited by captions, by clips or by both; give some of them.")
    settings = settings or AuditSettings()
    found = measure(dictionary, captions, chosen, settings, progress)
    gain = gain_of_named([one.gains for one in found if one.gains], settings.confidence)
    return AuditResult(
        name="scene_dictionary",
        title="Can the scene dictionary be relied on?",
        sentence=" ".join(_sentences(found, gain, settings)),
        effect=Effect(EFFECT, gain.value, gain.low, gain.high, enough=_described(found) >= ENOUGH),
        tables=tuple(dictionary_tables(found, settings)),
        figures=tuple(_figures(found)),
        notices=tuple(_notices(dictionary, found)),
        method=paragraphs("dictionary", "Phrases of captions and clips", "Gain", "Average precision", "Hubs"),
        confidence=settings.confidence,
    )


def _described(found: Sequence[KindMeasures]) -> int:
    return max((one.gains.clips for one in found if one.gains), default=0)


def _sentences(found: Sequence[KindMeasures], gain: Interval, settings: AuditSettings) -> Iterator[str]:
    if 0 < _described(found) < ENOUGH:
        yield f"Too few clips have captions ({_described(found)}) to conclude anything from gains."
    measured = [one.gains for one in found if one.gains]
    if measured and gain.value == gain.value:  # not NaN
        with_it, without = (named_share(measured, named=named) for named in (True, False))
        yield (
            f"Clips get {with_it:.1f}% of the phrases that their captions name, and other clips {without:.1f}% of the "
            f"same: a gain of {figure_words(gain, settings.confidence, ' points')}."
        )
    covered = [
        f"{coverage_of(one):.1f}% of captions name one of its {NAMES[one.kind]}" for one in found if one.coverage
    ]
    if covered:
        yield f"{' and '.join(covered)}."
    for one in found:
        if (hub := next(hubs_of(one), None)) is not None:
            yield f"The commonest {one.kind} of clips is {one.phrases[hub.place]!r}: {hub.got:.1f}% of them get it."


def _notices(dictionary: SceneDictionary, found: Sequence[KindMeasures]) -> Iterator[str]:
    yield from dictionary.notices
    for one in found:
        yield from _crowded(one)
    for one in found:
        if one.gains and (silent := one.clips - one.gains.clips):
            yield f"{silent:,} of {one.clips:,} clips have no caption and are in no gain."
            return


def _crowded(one: KindMeasures) -> Iterator[str]:
    """Yield a notice where clips get most of a small dictionary, and so each other's phrases."""
    each = int(one.chosen.sum()) // one.clips if one.chosen is not None and one.clips else 0
    if 2 * each > len(one.phrases):
        yield (
            f"Every clip gets {each:,} of the {len(one.phrases):,} {NAMES[one.kind]}, so gains are small whatever the "
            "encoder knows; look at average precision, or give clips fewer."
        )


def _figures(found: Sequence[KindMeasures]) -> Iterator[AuditFigure]:
    yield AuditFigure(
        "How unequally phrases count",
        partial(count_curves, found),
        "The share of all mentions, and of all phrases that clips got, that the most frequent phrases hold. The "
        "straight line is that of phrases which all count alike.",
    )
    gains = [one for one in found if one.gains]
    if gains:
        yield AuditFigure(
            "What captions name and what clips get",
            partial(named_and_got, gains),
            "A point a phrase, named by a clip or more. High up on the left are hubs: clips get them whatever their "
            "captions say. Low on the right are phrases that people see and the encoder does not.",
        )
        yield AuditFigure(
            "How well a phrase finds the clips that it names",
            partial(precision_and_chance, gains),
            "A point a phrase. On the line it finds them no better than a random order.",
        )
