"""The part of reading a video's header that runs in a killable worker, since files are not trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from evenreel.config import MediaLimits
from evenreel.media import open_video
from evenreel.media.workers import Message


class HeaderReader:
    """Worker that answers a task `{"path"}` with one message, the fields of `VideoInfo`.

    Args:
        limits: fields of `MediaLimits`.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Look at one file."""
        with open_video(task["path"], self._limits) as video:
            yield asdict(video.info), None
