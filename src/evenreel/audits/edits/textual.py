"""Audit of edited captions: does a ranking depend on how captions are worded?

BiMa, section 1: captions carry the habits of who wrote them, and retrievers learn these with the content. Here the
style of captions is changed and their content kept, and the other way round, and the captions are scored anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.audits.edits.measures import CONTROL, PerturbedMeasures, measure_perturbed
from evenreel.audits.edits.perturbed import AS_IS, CAPTION_PLACINGS, Standings
from evenreel.audits.edits.result import EditAudit, movement_result
from evenreel.audits.edits.words import edited_notices
from evenreel.audits.exchange import ratio_intervals, share_interval
from evenreel.audits.inputs import as_edited, as_inputs, paragraph, paragraphs
from evenreel.audits.settings import NO_EDITS, AuditSettings
from evenreel.corpus.accepted import CorpusLike
from evenreel.errors import UsageError
from evenreel.evaluation.intervals import Interval
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import AuditResult, AuditTable, figure_words, interval_cells, interval_columns
from evenreel.types import ScoreBlocks

OF_CONTENT = "content-"
"""How the names of edits begin that take the content away and leave the style."""

CHANCE = 50.0

TEXTUAL = EditAudit(
    "textual",
    "Does the ranking hang on how captions are worded?",
    "when the caption is edited",
    "Score the captions also with an edit that changes neither style nor content, such as `evenreel perturb --edit "
    "control` makes, and name it control.",
)


@dataclass(frozen=True)
class CaptionSpread:
    """Spread of a clip's distance over its own captions, before and after an edit.

    Attributes:
        taken: share of the mean square that the edit removes, in percent; NaN where no clip has two captions.
        before, after: root of the mean square, in standard deviations.
    """

    taken: Interval
    before: float
    after: float


def audit_textual(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
) -> AuditResult:
    """Test whether clips move in rankings when captions are restyled, beyond a control, and what style alone retrieves.

    Args:
        scores: scores of captions as they are, with clips.
        corpus: corpus that names each caption's own clip.
        settings: samples, seed, confidence, and how much is read at once.
        edited: scores of the edited captions, of the same ids, with the same clips, by the name of the
            edit; names that begin with `OF_CONTENT` are of edits that leave the style alone.

    Raises:
        CorpusError: the scores share no caption with its clip and another.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores, or none of an edit of style.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    edited = as_edited(edited, corpus)
    measured = measure_perturbed(scores, corpus, edited, settings, CAPTION_PLACINGS, _main(edited))
    alone, spreads = style_alone(measured, settings), caption_spreads(measured, settings)
    method = (
        *paragraphs("edits", "Distance", "Effect"),
        paragraph("edits", "Style alone", of_content=OF_CONTENT),
        *paragraphs("edits", "Spread", "Percentile and recall"),
    )
    notices = edited_notices(scores, corpus, settings, edited)
    moved = movement_result(TEXTUAL, measured, notices, method, settings.confidence)
    more = (*_alone_table(alone, len(measured.perturbed.clip_ids)), *_spread_table(spreads))
    sentence = f"{moved.sentence}{_alone_words(alone, settings.confidence)}"
    return replace(moved, sentence=sentence, tables=(*moved.tables, *more))


def style_alone(measured: PerturbedMeasures, settings: AuditSettings) -> dict[str, tuple[Interval, Interval]]:
    """Compute percentile and R@1 of captions' own clips under each edit that leaves only the style, by its name."""
    names = [edit for edit in measured.perturbed.edits if edit.startswith(OF_CONTENT)]
    if not names:
        return {}
    standings = [_standings(measured, edit) for edit in names]
    columns = [*(one.percentile for one in standings), *(100 * one.hits.chance(1) for one in standings)]
    found = [share_interval(column, measured.perturbed.drawn_with, settings) for column in columns]
    return dict(zip(names, zip(found, found[len(names) :], strict=False), strict=True))


def caption_spreads(measured: PerturbedMeasures, settings: AuditSettings) -> dict[str, CaptionSpread]:
    """Compute how much of the spread over a clip's captions each edit of style removes, by its name."""
    own, before = measured.perturbed.own, _standings(measured, AS_IS).distance
    names = [edit for edit in measured.perturbed.edits if not edit.startswith(OF_CONTENT)]
    if np.bincount(own).max() < 2:
        return {}
    both = [_squares(before, _standings(measured, edit).distance, own) for edit in names]
    first, second, counted = np.array(both).transpose(1, 0, 2)
    found = ratio_intervals(second, first, measured.perturbed.drawn_with, settings)
    with np.errstate(invalid="ignore"):  # of no clip are two captions known
        roots = np.sqrt([first.sum(axis=1), second.sum(axis=1)] / counted.sum(axis=1)).T.tolist()
    return {
        edit: CaptionSpread(_percent_taken(one), *root) for edit, one, root in zip(names, found, roots, strict=True)
    }


def _main(edited: Mapping[str, ScoreBlocks]) -> str | None:
    """The first edit of style."""
    names = [name for name in edited if name != CONTROL and not name.startswith(OF_CONTENT)]
    if edited and not names:
        raise UsageError(
            f"The edited scores ({', '.join(edited)}) are of no edit that changes the style of captions and keeps "
            "their content; give those of one, such as style-removed."
        )
    return names[0] if names else None


def _standings(measured: PerturbedMeasures, edit: str) -> Standings:
    return measured.standings[edit, AS_IS if edit == AS_IS else measured.main[1]]


def _squares(before: Column, after: Column, groups: Indices) -> Column:
    """(3, Q) squared differences from the mean of their group before and after, and what is counted; 0 where not."""
    known = ~np.isnan(before + after)
    sizes = np.bincount(groups, known)
    counted = known & (sizes[groups] > 1)
    rows = []
    for values in (before, after):
        filled = np.where(known, values, 0.0)
        middle = np.bincount(groups, filled)[groups] / np.maximum(sizes, 1)[groups]
        rows.append(np.where(counted, (filled - middle) ** 2, 0.0))
    return np.array([*rows, counted])


def _percent_taken(ratio: Interval) -> Interval:
    low, high = (None if end is None else 100 * (1 - end) for end in (ratio.high, ratio.low))
    return Interval(100 * (1 - ratio.value), low, high)


def _alone_words(alone: Mapping[str, tuple[Interval, Interval]], confidence: float) -> str:
    for edit, (percentile, _) in alone.items():
        found = figure_words(percentile, confidence, "%")
        return f" Style alone ({edit!r}) puts the clip above {found} of the others, where 50 is chance."
    return ""


def _alone_table(alone: Mapping[str, tuple[Interval, Interval]], clips: int) -> Iterator[AuditTable]:
    if alone:
        yield AuditTable(
            "What style alone finds",
            ("edit", *interval_columns("percentile", "R@1")),
            tuple((edit, *interval_cells(percentile, recall)) for edit, (percentile, recall) in alone.items()),
            f"By chance the percentile is {CHANCE:.0f} and R@1 {100 / clips:.2f}.",
        )


def _spread_table(spreads: Mapping[str, CaptionSpread]) -> Iterator[AuditTable]:
    if spreads:
        yield AuditTable(
            "How far the captions of a clip differ",
            ("edit", "before, SD", "after, SD", *interval_columns("taken away, %")),
            tuple((edit, one.before, one.after, *interval_cells(one.taken)) for edit, one in spreads.items()),
            "Of the distance of their clip. What an edit of style takes away is what style adds to the spread.",
        )
