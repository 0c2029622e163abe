"""Settings of the studies of BiMa that have options of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from evenreel.config import OptionForm
from evenreel.papers.engine.settings import QuerySettings


@dataclass(frozen=True, kw_only=True)
class MapSettings(QuerySettings):
    """Settings of the study of heat maps on frames: which captions and clips it shows.

    Attributes:
        clips: a clip that is shown instead of what is found first, by its id; again for more.
    """

    clips: Annotated[tuple[str, ...], OptionForm("--clip")] = ()
