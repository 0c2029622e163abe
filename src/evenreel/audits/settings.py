"""Settings of an audit, and checks of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from evenreel.config import check_named, check_settings
from evenreel.evaluation.metrics import RESAMPLING

if TYPE_CHECKING:
    from evenreel.audits.class_lengths import TailClasses
    from evenreel.corpus.folder import CorpusLike
    from evenreel.evaluation.scores import ScoresLike


@dataclass(frozen=True)
class AuditSettings:
    """Settings of an audit: resampling, memory, and which clips are resampled together.

    Attributes:
        resamples: number of samples, permutations or exchanges of intervals and tests; 0 for no interval.
        seed: seed of these samples, and of the random orders of frames of studies.
        confidence: confidence of the intervals, between 0 and 1.
        band_bytes: about how many bytes of scores are read at once.
        cluster: clips that are resampled together: `auto`, clips of one video where the corpus shows that they share
            it; `clip`; `video`; or a column of the corpus (`evenreel.evaluation.intervals`).
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
        train: corpus that the system was trained on, see `CorpusLike`; None where it is not known.
        tail: classes with few training clips, for the audit of lengths; None to find them by their frequency.
        edited: for the audits `visual`, `textual`, `overlay` and `composition`, scores (`ScoresLike`) of the same
            captions and clips after an edit of the one or the other, by the name of the edit; the effect is of the
            first, and the edit `control` is the one to compare with. For the audit `order`, scores of clips with their
            frames in one other order.
        edited_texts: for the audit `composition`, corpora (`CorpusLike`) of the edited captions by the name of the
            edit; without them there are no tables by what was exchanged.
        kinds: for the audit `order`, column of clips or captions with the kind of action; None for verbs of captions.

    Raises:
        UsageError: `train` is nothing that a corpus is made of, `edited` no scores by the names of their edits, or
            `edited_texts` no corpora by these.
    """

    train: CorpusLike | None = None
    tail: TailClasses | None = None
    edited: Mapping[str, ScoresLike] = field(default_factory=dict)
    edited_texts: Mapping[str, CorpusLike] = field(default_factory=dict)
    kinds: str | None = None

    def __post_init__(self) -> None:
        check_named(self.edited, "edited", *EDITED)
        check_named(self.edited_texts, *TEXTS)
        if self.train is not None:
            from evenreel.corpus.folder import as_corpus

            object.__setattr__(self, "train", as_corpus(self.train, "train"))


NO_EDITS: Mapping[str, Any] = MappingProxyType({})  # no scores, or no texts, of edits
EDITED = ("scores by the names of their edits", "scores")  # what `edited` is, and one of them, for messages
TEXTS = ("edited_texts", "corpora of the edited captions by the names of their edits", "corpus")
"""The name of that argument, what it is, and one of them, for messages."""
