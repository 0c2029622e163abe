"""Settings of computing the features of a corpus."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evenreel.config import MediaLimits, usable_cores

if TYPE_CHECKING:
    from evenreel.types import Encoder

Words = Literal["ocr", "corpus"]
"""Source of on-screen words: the text recogniser, or those who made the corpus."""

DEFAULT_FRAMES = 12
DEFAULT_WINDOWS = 12
FLOAT32 = "float32"

STORED = "stored:"
"""Beginning of the name of features that others computed, which stands where that of an encoder would."""

_STORED_RULE = re.compile(r"(all|\d+) stored")


def stored_rule(frames: int | None) -> str:
    """Return the sampling rule of stored features: `20 stored` for at most so many frames, or `all stored`."""
    return f"{'all' if frames is None else frames} stored"


def rule_text(rule: str) -> str:
    """Return a rule as it is spelt in a manifest.

    >>> rule_text("every 0.50 s"), rule_text("20 stored")
    ('every 0.5 s', '20 stored')
    """
    from evenreel.media.sampling import parse_rule

    return rule if _STORED_RULE.fullmatch(rule) else str(parse_rule(rule))


@dataclass(frozen=True)
class FeatureSettings:
    """Settings of computing the features of clips.

    Attributes:
        rule: how frames are sampled, in the words of `evenreel.media.parse_rule`; of a clip that is a part of a file,
            that part alone.
        read_text: whether on-screen text is read.
        windows: equal parts of each clip, O, whose on-screen text becomes one feature.
        videos: folder in which the paths of the clips begin.
        workers: reader processes; 0 means one for each core.
        limits: limits of one clip.
        retry: try clips again that were set aside before.
    """

    rule: str = f"{DEFAULT_FRAMES} midpoints"
    read_text: bool = True
    windows: int = DEFAULT_WINDOWS
    videos: Path = Path()
    workers: int = 0
    limits: MediaLimits = field(default_factory=MediaLimits)
    retry: bool = False

    @property
    def worker_count(self) -> int:
        """Number of reader processes to start."""
        return self.workers or usable_cores()


def precision_of(encoder: Encoder) -> str:
    """Return the number format an encoder calculates with; float32 where it does not say."""
    return str(getattr(encoder, "precision", FLOAT32))
