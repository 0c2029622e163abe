"""Settings of the studies of Generative Ghost that have options of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from evenreel.config import OptionForm
from evenreel.edits.settings import OrderStage
from evenreel.errors import UsageError
from evenreel.papers.engine.settings import GroupSettings, StudySettings


@dataclass(frozen=True, kw_only=True)
class ShareSettings(GroupSettings):
    """Settings of a study that trains with growing shares of generated clips, each in the place of its real one.

    Attributes:
        shares: share of generated clips in training; give two or more, from the least to the most.
    """

    shares: Annotated[tuple[float, ...], OptionForm("--share", 0, 1)] = (0.0, 0.2, 0.4, 0.6, 0.8)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shares) < 2 or list(self.shares) != sorted(set(self.shares)):
            raise UsageError(f"The shares are {self.shares}; give two or more, the smaller one first.")


@dataclass(frozen=True, kw_only=True)
class FrameSettings(StudySettings):
    """Settings of a study that shows matchers the frames of clips in another order.

    Attributes:
        stage: move the frames that were taken (sampled), or those of the whole clip before --frames are taken (video).
        frames: frames taken of each clip where order counts; None for all.
    """

    stage: OrderStage = "sampled"
    frames: Annotated[int | None, OptionForm(least=1, most=1_000_000)] = None


@dataclass(frozen=True, kw_only=True)
class VectorSettings(GroupSettings, FrameSettings):
    """Settings of a study that compares vectors of trained models, and the order in which these see frames."""
