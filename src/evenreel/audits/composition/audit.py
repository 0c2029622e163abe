"""Audit of captions with a role, an attribute or a relation exchanged: are they read as sentences, or bags of words?

Yuksekgonul et al. 2023 ('When and why vision-language models behave like bags-of-words'): rankings of images hardly
tell `the horse eats the grass` from `the grass eats the horse`. Alhamoud et al. 2025 (NegBench, arXiv 2501.09425): nor
`with no dog` from `with a dog`.
"""

from __future__ import annotations

from collections.abc import Mapping

from evenreel.audits.composition.measures import NO_TEXTS, CompositionMeasures, measure_composition
from evenreel.audits.composition.tables import choice_figures, choice_tables
from evenreel.audits.composition.words import composition_notices, composition_sentence
from evenreel.audits.edits.words import edited_notices
from evenreel.audits.inputs import as_edited, as_inputs, paragraphs
from evenreel.audits.settings import NO_EDITS, AuditSettings
from evenreel.corpus.accepted import CorpusLike
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import AuditResult

TITLE = "Are captions read as sentences, or as bags of words?"


def audit_composition(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
    edited_texts: Mapping[str, CorpusLike] = NO_TEXTS,
) -> AuditResult:
    """Test whether clips prefer their captions to ones with a role, attribute or relation exchanged, beyond a control.

    Args:
        scores: scores of captions as they are, with clips.
        corpus: corpus that names each caption's own clip.
        settings: samples, seed, confidence, and how much is read at once.
        edited: scores of the edited captions, of the same ids, with the same clips, by the name of the edit: such as
            `role-swapped`, `negated` and `affirmed`; `control` is the one to compare with. The six of
            `evenreel.language.composition.answers` are the answers of multiple-choice questions.
        edited_texts: corpora of the edited captions by the name of the edit, for tables by what was exchanged.

    Raises:
        CorpusError: no edit shares a caption and its clip with the scores.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores, or only those of a control, or the texts are of an edit without scores.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    edited = as_edited(edited, corpus)
    measured = measure_composition(scores, corpus, edited, settings, edited_texts)
    return AuditResult(
        name="composition",
        title=TITLE,
        sentence=composition_sentence(measured, settings.confidence),
        effect=measured.effect,
        tables=tuple(choice_tables(measured)),
        figures=choice_figures(measured),
        notices=(*edited_notices(scores, corpus, settings, edited), *composition_notices(measured)),
        method=_method(measured),
        confidence=settings.confidence,
    )


def _method(measured: CompositionMeasures) -> tuple[str, ...]:
    said: tuple[str, ...] = ()
    if measured.choices:
        said += paragraphs("composition", "Choice", "Margin", "Control", "Blurred captions")
    if measured.negation:
        said += paragraphs("composition", "Negated captions")
    if measured.negation and measured.negation.things:
        said += paragraphs("composition", "Denied things")
    if measured.questions:
        said += paragraphs("composition", "Multiple choice")
    return said
