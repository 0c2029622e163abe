"""Shot boundaries, found in the frames that are decoded anyway.

The detector is PySceneDetect's adaptive one: a frame begins a shot where it differs from the frame before by at least
15 (mean absolute difference of hue, saturation and value) and by at least three times as much as the frames around it
differ from theirs, so that a moving camera is no cut. Where frames are skipped on the way to the next one that is
sampled, those on both sides of the gap differ more: there they have to differ by 27, its threshold for any two frames,
and by twice as much as frames as far apart before the gap; the cut is the first frame behind it, and across more
than two seconds nothing is said.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenreel.media.opening import FFMPEG_ERRORS

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

SHORTEST_S = 0.6
"""Seconds below which nothing is a shot of its own: flashes, fast cuts."""
LONGEST_GAP_S = 2.0
"""Skipped seconds across which frames are still compared."""
SMALL_PX = (64, 36)
"""Width and height of the small pictures that are compared; the size of frames may change on the way."""

ANY_TWO, RATIO = 27.0, 2.0
"""By how much two frames of different shots differ, wherever they are, and in times of what frames of one shot do."""

Small = NDArray[np.uint8]
_RATE = 25.0
"""Any: PySceneDetect asks for a rate, and times are given in seconds."""


class ShotFinder:
    """Detector of the cuts between shots of one video, which is given its frames in order."""

    def __init__(self) -> None:
        from av.video.reformatter import VideoReformatter

        # times in seconds, rising, at which a shot begins, without that of the first shot; the last two frames of a
        # video can begin none
        self.cuts_s: list[float] = []
        self._reformatter = VideoReformatter()
        self._detector: Any = None
        self._seen: deque[tuple[float, Small]] = deque()
        self._unlikely: set[float] = set()

    def add(self, time_s: float, frame: VideoFrame, *, skipped: bool = False) -> None:
        """Look for a cut at a frame; a frame not later than the last one is ignored, as when a file is read anew."""
        from scenedetect.common import FrameTimecode

        last_s = self._seen[-1][0] if self._seen else -math.inf
        if time_s <= last_s:
            return
        try:
            small = self._small(frame)
        except FFMPEG_ERRORS:  # where it is wanted as a picture this is an error of the video
            return
        if self._detector is None or (skipped and time_s - last_s > LONGEST_GAP_S):
            self._detector = _adaptive()
        elif skipped and not self._stands_out(time_s, small):
            self._unlikely.add(time_s)
        self._seen.append((time_s, small))
        while self._seen[0][0] < time_s - 2 * LONGEST_GAP_S:
            self._seen.popleft()
        found = self._detector.process_frame(FrameTimecode(max(0.0, time_s), _RATE), small)
        self.cuts_s += [cut.seconds for cut in found if cut.seconds not in self._unlikely]

    def _stands_out(self, time_s: float, small: Small) -> bool:
        """Whether a frame behind a gap differs enough from the one before it."""
        last_s, last = self._seen[-1]
        gap_s = time_s - last_s
        _, before = min(self._seen, key=lambda seen: abs(last_s - gap_s - seen[0]))
        return _difference(last, small) >= max(ANY_TWO, RATIO * _difference(before, last))

    def _small(self, frame: VideoFrame) -> Small:
        made = self._reformatter.reformat(frame, *SMALL_PX, "bgr24", interpolation="AREA")
        return made.to_ndarray()  # type: ignore[return-value]


def _adaptive() -> Any:
    from scenedetect.detectors.adaptive_detector import AdaptiveDetector

    return AdaptiveDetector(min_scene_len=SHORTEST_S)


def _difference(one: Small, other: Small) -> float:
    """How far two pictures are apart, as the detector measures it: the mean of hue, saturation and value, 0 to 255."""
    import cv2

    hsv = [cv2.cvtColor(small, cv2.COLOR_BGR2HSV).astype(np.int16) for small in (one, other)]
    return float(np.abs(hsv[1] - hsv[0]).mean())
