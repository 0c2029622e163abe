"""Settings of the studies of frame-length bias that have options of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from evenreel.config import OptionForm
from evenreel.papers.engine.settings import StudySettings, TrainingSettings


@dataclass(frozen=True, kw_only=True)
class ClassSettings(StudySettings):
    """Settings of a study of one class of verb and noun.

    Attributes:
        action: the class, VERB,NOUN or what captions call it; None for the one most longer in test, or of whose
            captions the first system may miss the most for its length.
    """

    action: Annotated[str | None, OptionForm("--class")] = None


@dataclass(frozen=True, kw_only=True)
class ClassTrainingSettings(ClassSettings, TrainingSettings):
    """Settings of a study that trains without some clips of one class of verb and noun."""


@dataclass(frozen=True, kw_only=True)
class SampleSettings(TrainingSettings):
    """Settings of the study of captions missed for their length, which leaves captions of rare classes out.

    Attributes:
        tail_classes: a csv of verbs or nouns with few training clips; again for both kinds; empty for those that are
            rare in training.
    """

    tail_classes: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BaseSettings(TrainingSettings):
    """Settings of a study that trains several base models.

    Attributes:
        bases: a matcher that is trained; again for more.
    """

    bases: Annotated[tuple[str, ...], OptionForm("--base")] = ("temporal", "wti", "x_clip")
