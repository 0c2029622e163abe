"""Video files as frames: safe to open, exact in time, upright, and fast where few frames are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenreel.media.sampling import SamplingRule, parse_rule

if TYPE_CHECKING:
    from evenreel.media.video import Video, open_video, probe

__all__ = ["SamplingRule", "Video", "open_video", "parse_rule", "probe"]


def __getattr__(name: str) -> Any:
    """Import what needs FFmpeg only when it is asked for: a command line that prints its help does not."""
    if name in __all__:
        from evenreel.media import video

        return getattr(video, name)
    raise AttributeError(f"module 'evenreel.media' has no attribute {name!r}")
