"""What an audit was given, as the records that it works on."""

from __future__ import annotations

from collections.abc import Mapping

from evenreel.audits.settings import EDITED, TEXTS, AuditSettings
from evenreel.config import check_named, check_settings_kind
from evenreel.corpus.folder import CorpusLike, as_corpus
from evenreel.evaluation.scores import ScoresLike, as_scores
from evenreel.types import Corpus, ScoreBlocks


def as_edited(edited: Mapping[str, ScoresLike], corpus: Corpus) -> dict[str, ScoreBlocks]:
    """Convert what stands for scores after edits, by the names of the edits, to scores of a corpus.

    Raises:
        UsageError: they are no mapping, or one of them is nothing of `ScoresLike`.
        ScoresError: one of them does not fit the corpus.
    """
    check_named(edited, "edited", *EDITED)
    return {name: as_scores(scores, corpus, f"edited[{name!r}]") for name, scores in edited.items()}


def as_texts(texts: Mapping[str, CorpusLike]) -> dict[str, Corpus]:
    """Convert what stands for corpora of edited captions, by the names of the edits, to corpora.

    Raises:
        UsageError: they are no mapping, or one of them is nothing of `CorpusLike`.
        CorpusError: one of them breaks its rules, or cannot be read.
    """
    check_named(texts, *TEXTS)
    return {name: as_corpus(given, f"{TEXTS[0]}[{name!r}]") for name, given in texts.items()}


def as_inputs(
    scores: ScoresLike, corpus: CorpusLike, settings: AuditSettings | None
) -> tuple[ScoreBlocks, Corpus, AuditSettings]:
    """Convert what an audit was given to scores, their corpus and settings, the default ones where none are given.

    Raises:
        UsageError: the scores are nothing of `ScoresLike`, the corpus nothing of `CorpusLike`, or the settings are of
            another kind.
        CorpusError: the corpus breaks its rules, or cannot be read.
        ScoresError: the scores do not fit the corpus, or cannot be read.
    """
    check_settings_kind(settings, AuditSettings)
    corpus = as_corpus(corpus)
    return as_scores(scores, corpus), corpus, settings or AuditSettings()
