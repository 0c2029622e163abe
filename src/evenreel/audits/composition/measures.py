"""Measures of whether a ranking reads captions as sentences: what own clips prefer, edit by edit, beyond a control."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from evenreel.audits.composition.edit_choice import AFFIRMED, EditChoice, edit_choice
from evenreel.audits.composition.kinds import KindShare, kind_shares
from evenreel.audits.composition.negation import NEGATED, NegationMeasures, measure_negation
from evenreel.audits.composition.questions import NAMING, MultipleChoice, measure_questions
from evenreel.audits.edits.measures import CONTROL
from evenreel.audits.inputs import as_edited, as_inputs, as_texts
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.accepted import CorpusLike
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.scores import ScoresLike
from evenreel.language.composition.answers import ANSWERS
from evenreel.report.result import Effect
from evenreel.types import Corpus, ScoreBlocks, Shown

QUESTIONS = "multiple choice"
"""What notices call the six edits of `ANSWERS` together."""

NO_TEXTS: Mapping[str, Corpus] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class CompositionMeasures(Shown):
    """Measures of what a ranking reads of captions.

    Attributes:
        choices: what own clips prefer, by the edit.
        control: what own clips prefer under the control alone; None without one.
        kinds: the same by what was exchanged for what, where the texts of edited captions are known.
        negation: what captions find that deny a thing; None without such captions.
        questions: answers of multiple-choice questions; None without the six captions of `ANSWERS`.
        notices: sentences on what was left out.
    """

    choices: dict[str, EditChoice]
    control: EditChoice | None
    kinds: tuple[KindShare, ...]
    negation: NegationMeasures | None
    questions: MultipleChoice | None
    notices: tuple[str, ...]

    @property
    def effect(self) -> Effect:
        """That of the first edit, else the recall that captions lose by denying a thing, else that of questions."""
        one = next(iter(self.choices.values()), None) or self.negation or self.questions
        assert one is not None  # else there would be nothing measured
        return one.effect


def measure_composition(
    scores: ScoresLike,
    corpus: CorpusLike,
    edited: Mapping[str, ScoresLike],
    settings: AuditSettings,
    texts: Mapping[str, CorpusLike] = NO_TEXTS,
) -> CompositionMeasures:
    """Measure, edit by edit, whether captions' own clips prefer the true caption to the edited one.

    Each edit is measured on the captions that it changes: those that its scores have.

    Args:
        scores: scores of the captions as they are, with clips.
        corpus: corpus that names each caption's own clip.
        edited: scores of the edited captions, of the same ids, by the name of the edit; `control` is held against the
            others, the captions of `negated` are true and those of `affirmed` are held against them, and those of
            `ANSWERS` are the answers of multiple-choice questions, which need all six.
        settings: samples, seed, confidence, and how much is read at once.
        texts: corpora of the edited captions by the name of the edit, for tables by kind and of denied things.

    Raises:
        CorpusError: no edit shares a caption and its clip with the scores.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores, or only those of a control, or the texts are of an edit without scores.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    after, texts = as_edited(edited, corpus), as_texts(texts)
    asked = [name for name in after if name != CONTROL]
    if not asked:
        raise UsageError(
            "There are no scores after an edit but those of a control, or none; give those of one beside it."
        )
    if unknown := [name for name in texts if name not in after]:
        raise UsageError(
            f"There are captions of the edit {unknown[0]!r} and no scores of it; its name is to be one of those of the "
            f"edited scores: {', '.join(after)}."
        )
    lacking: dict[str, str] = {}
    control = None
    if CONTROL in after and set(asked) - {AFFIRMED, NEGATED, *ANSWERS}:
        try:
            control = edit_choice(CONTROL, scores, corpus, {CONTROL: after[CONTROL]}, settings)
        except CorpusError as error:
            lacking[CONTROL] = f"{CONTROL!r} was not measured. {error}"
            del after[CONTROL]
    choices: dict[str, EditChoice] = {}
    negation = questions = None
    for name in dict.fromkeys(QUESTIONS if name in ANSWERS else name for name in asked):
        try:
            if name == QUESTIONS:
                questions = _questions(corpus, after, settings, texts)
            elif name == NEGATED:
                negation = measure_negation(scores, corpus, after[NEGATED], settings, texts.get(NEGATED))
            else:
                choices[name] = edit_choice(name, scores, corpus, after, settings)
        except CorpusError as error:
            lacking[name] = f"{name!r} was not measured. {error}"
    if not choices and negation is None and questions is None:
        raise CorpusError(" ".join(lacking.values()))
    control = control if choices.keys() - {AFFIRMED} else None
    kinds = kind_shares({name: one for name, one in choices.items() if name in texts}, corpus, texts, settings)
    notices = *lacking.values(), *_left_out(choices), *(questions.notices if questions else ())
    return CompositionMeasures(choices, control, kinds, negation, questions, notices)


def _questions(
    corpus: Corpus, edited: Mapping[str, ScoreBlocks], settings: AuditSettings, texts: Mapping[str, Corpus]
) -> MultipleChoice:
    if missing := [name for name in ANSWERS if name not in edited]:
        raise CorpusError(f"It needs scores of six captions a clip; add those of {', '.join(missing)}.")
    return measure_questions(corpus, edited, settings, texts.get(NAMING))


def _left_out(choices: Mapping[str, EditChoice]) -> Iterator[str]:
    for name, one in choices.items():
        unknown = int(np.isnan(one.choices.beyond).sum())
        if unknown:
            yield f"{name}: {unknown:,} captions whose own clip scores minus infinity take no part."
