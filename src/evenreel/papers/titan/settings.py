"""Settings of the studies of TITAN."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenreel.papers.engine.settings import QuerySettings, SeededSettings, StudySettings

if TYPE_CHECKING:
    from evenreel.adaptation.titan import AdaptSettings


def _usual() -> AdaptSettings:
    from evenreel.adaptation.titan import AdaptSettings

    return AdaptSettings()


@dataclass(frozen=True, kw_only=True)
class AdaptationSettings(StudySettings):
    """Settings of a study whose models learn from a stream.

    Attributes:
        adapt: settings of test-time training.
    """

    adapt: AdaptSettings = field(default_factory=_usual)


@dataclass(frozen=True, kw_only=True)
class StreamSettings(AdaptationSettings, SeededSettings):
    """Settings of a table of models that learn from a stream; the seeds go out from that of `adapt`."""


@dataclass(frozen=True, kw_only=True)
class PhraseSettings(QuerySettings, AdaptationSettings):
    """Settings of a study that shows phrases of captions by models that learn from a stream."""
