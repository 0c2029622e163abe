"""Shot boundaries, found in the frames that are decoded anyway.

The rule is that of PySceneDetect's adaptive detector: a frame begins a shot where it differs from the frame before by
at least 15 (mean absolute difference of hue, saturation and value) and by at least three times as much as the two
frames before and behind it differ from theirs, so that a moving camera is no cut. Where frames are skipped on the way
to the next one that is sampled, those on both sides of the gap differ more: there they have to differ by 27, its
threshold for any two frames, and by twice as much as frames as far apart before the gap; the cut is the first frame
behind it, and across more than two seconds nothing is said.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from evenreel.media.opening import FFMPEG_ERRORS

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

SHORTEST_S = 0.6  # below which nothing is a shot of its own: flashes, fast cuts
LONGEST_GAP_S = 2.0  # skipped, across which frames are still compared
SMALL_PX = (64, 36)  # of the small pictures that are compared; the size of frames may change on the way
LEAST, TIMES, AROUND = 15.0, 3.0, 2  # by which two shots differ, and in times of as many frames on either side
ANY_TWO, RATIO = 27.0, 2.0  # the same of two frames across a gap, and in times of what frames of one shot do
_SAME_TIME_S = 1e-6
Small = NDArray[np.uint8]  # hue, saturation, value


class ShotFinder:
    """Detector of the cuts between shots of one video, which is given its frames in order."""

    def __init__(self) -> None:
        from av.video.reformatter import VideoReformatter

        # Times, rising, at which a shot begins, without that of the first; the last two frames can begin none.
        self.cuts_s: list[float] = []
        self._reformatter = VideoReformatter()
        self._seen: deque[tuple[float, Small]] = deque()
        self._changes: deque[tuple[float, float, bool]] = deque(maxlen=2 * AROUND + 1)  # may be a cut, but for a gap
        self._began_s = 0.0  # of the shot

    def add(self, time_s: float, frame: VideoFrame, *, skipped: bool = False) -> None:
        """Look for a cut at a frame; a frame not later than the last one is ignored, as when a file is read anew."""
        last_s = self._seen[-1][0] if self._seen else -math.inf
        if time_s <= last_s:
            return
        try:
            made = self._reformatter.reformat(frame, *SMALL_PX, "bgr24", interpolation="AREA")
        except FFMPEG_ERRORS:  # where it is wanted as a picture this is an error of the video
            return
        small = np.asarray(cv2.cvtColor(np.asarray(made.to_ndarray(), np.uint8), cv2.COLOR_BGR2HSV), np.uint8)
        if not self._seen or (skipped and time_s - last_s > LONGEST_GAP_S):
            self._changes.clear()
            self._changes.append((time_s, 0.0, False))
            self._began_s = time_s
        else:
            change = _difference(self._seen[-1][1], small)
            self._changes.append((time_s, change, not skipped or self._stands_out(time_s, change)))
        self._seen.append((time_s, small))
        while self._seen[0][0] < time_s - 2 * LONGEST_GAP_S:
            self._seen.popleft()
        if len(self._changes) == 2 * AROUND + 1:
            self._judge()

    def _judge(self) -> None:
        """Say whether the frame in the middle of the last ones begins a shot."""
        at_s, change, may_be = self._changes[AROUND]
        around = (sum(one for _, one, _ in self._changes) - change) / (2 * AROUND)
        if change < LEAST or change < TIMES * around or at_s - self._began_s < SHORTEST_S - _SAME_TIME_S:
            return
        self._began_s = at_s
        if may_be:
            self.cuts_s.append(max(0.0, at_s))

    def _stands_out(self, time_s: float, change: float) -> bool:
        last_s, last = self._seen[-1]
        gap_s = time_s - last_s
        _, before = min(self._seen, key=lambda seen: abs(last_s - gap_s - seen[0]))
        return change >= max(ANY_TWO, RATIO * _difference(before, last))


def _difference(one: Small, other: Small) -> float:
    """How far two pictures are apart, as the detector measures it: the mean of hue, saturation and value, 0 to 255."""
    return float(np.abs(other.astype(np.int16) - one).mean())
