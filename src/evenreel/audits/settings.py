"""Settings of an audit, and checks of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from evenreel.arguments import check_corpus, check_named, check_scores, check_settings_kind
from evenreel.evaluation.settings import RESAMPLING
from evenreel.settings_checks import check_settings

if TYPE_CHECKING:
    from evenreel.audits.length.tail import TailClasses
    from evenreel.types import Corpus, ScoreBlocks


@dataclass(frozen=True)
class AuditSettings:
    """Settings of an audit: resampling, memory, and which clips are resampled together.

    Attributes:
        resamples: number of samples, permutations or exchanges of intervals and tests; 0 for no interval.
        seed: seed of these samples, and of the random orders of frames of studies.
        confidence: confidence of the intervals, between 0 and 1.
        band_bytes: about how many bytes of scores are read at once.
        cluster: clips that are resampled together: `auto`, clips of one video where the corpus shows that they share
            it; `clip`; `video`; or a column of the corpus (`evenreel.evaluation.clusters`).
    """

    resamples: int = 1000
    seed: int = 0
    confidence: float = 0.95
    band_bytes: int = 64 * 2**20
    cluster: str = "auto"

    def __post_init__(self) -> None:
        check_settings("the audit", self, RESAMPLING)


@dataclass(frozen=True)
class AuditInputs:
    """Inputs that some audits need beside scores and their corpus; `evenreel.audits.AUDITS` names those of each.

    Attributes:
        train: corpus that the system was trained on; None where it is not known.
        tail: classes with few training clips, for the audit of lengths; None to find them by their frequency.
        edited: for the audits `visual`, `textual` and `overlay`, scores of the same captions and clips after an edit of
            the one or the other, by the name of the edit; the effect is of the first, and the edit `control` is the one
            to compare with. For the audit `order`, scores of clips with their frames in one other order.
        kinds: for the audit `order`, column of clips or captions with the kind of action; None for verbs of captions.

    Raises:
        UsageError: `train` is no `Corpus`, or `edited` no scores by the names of their edits.
    """

    train: Corpus | None = None
    tail: TailClasses | None = None
    edited: Mapping[str, ScoreBlocks] = field(default_factory=dict)
    kinds: str | None = None

    def __post_init__(self) -> None:
        if self.train is not None:
            check_corpus(self.train, "train")
        check_edited(self.edited)


NO_EDITS: Mapping[str, ScoreBlocks] = MappingProxyType({})


def check_edited(edited: object) -> None:
    """Check that scores after edits are a mapping from the names of the edits.

    Raises:
        UsageError: they are no mapping, or one of them is no `ScoreBlocks`.
    """
    check_named(edited, "edited", "scores by the names of their edits", "scores")
    for name, scores in cast("Mapping[str, object]", edited).items():
        check_scores(scores, f"edited[{name!r}]")


def checked_settings(scores: ScoreBlocks, corpus: Corpus, settings: AuditSettings | None) -> AuditSettings:
    """Check the kinds of an audit's arguments; return the default settings where none are given.

    Raises:
        UsageError: the scores are no `ScoreBlocks`, the corpus is no `Corpus`, or the settings are something else.
    """
    check_scores(scores)
    check_corpus(corpus)
    check_settings_kind(settings, AuditSettings)
    return settings or AuditSettings()
