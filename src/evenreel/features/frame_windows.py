"""Windows of frames, as models of moving pictures take them, made while a clip is decoded.

A window has as many frames as the model's rule says (`evenreel.types.WindowRule`), and the next one begins a stride
later. A window never goes on over a cut: each shot is windowed by itself, and its last window ends where the shot ends.
Of a shot with fewer frames than a window some are sampled again. A picture is a window of one frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.types import Pixels, WindowRule


class FrameWindow(NamedTuple):
    """A window of a clip: places of its first, middle and last frame among the clip's, and its pixels (T, H, W, 3)."""

    first: int
    middle: int
    last: int
    pixels: Pixels


class WindowMaker:
    """Makes windows of the frames of one clip as they come; holds the frames of one window at most.

    Args:
        rule: frames, span and stride of the windows.
    """

    def __init__(self, rule: WindowRule) -> None:
        self._frames = rule.frames
        self._stride = stride_frames(rule)
        self._held: deque[Pixels] = deque(maxlen=rule.frames)
        self._shot: tuple[int, tuple[int, ...]] | None = None
        self._first = 0  # place of the first frame of the shot
        self._count = self._covered = 0  # number of the frames of the shot, and up to which windows have them

    def add(self, shot: int, pixels: Pixels) -> Iterator[FrameWindow]:
        """Take the next frame, (H, W, 3), and yield the windows that end before it or with it.

        Args:
            shot: number of the shot that it belongs to; where pictures change their size, another begins.
            pixels: the frame.
        """
        if self._shot != (shot, pixels.shape):
            yield from self.end()
            self._shot = shot, pixels.shape
        self._held.append(pixels)
        self._count += 1
        if self._count == (self._covered + self._stride if self._covered else self._frames):
            yield self._window()

    def end(self) -> Iterator[FrameWindow]:
        """Yield the last window of the shot, if its last frames are in none."""
        if self._count > self._covered:
            yield self._window()
        self._first += self._count
        self._count = self._covered = 0
        self._held.clear()

    def _window(self) -> FrameWindow:
        """The window that ends with the last frame."""
        self._covered = self._count
        frames, stop = len(self._held), self._first + self._count
        chosen = np.arange(self._frames) * frames // self._frames
        pixels = np.stack([self._held[place] for place in chosen.tolist()])
        return FrameWindow(stop - frames, stop - frames + frames // 2, stop - 1, pixels)


def period_s(rule: WindowRule) -> float:
    """Return the seconds between the frames of a window; 0 for a picture."""
    return rule.span_s / rule.frames if rule.frames > 1 else 0.0


def stride_frames(rule: WindowRule) -> int:
    """Return how many frames after a window the next one begins; at most as many as a window has.

    >>> stride_frames(WindowRule(16, 8.0, 4.0)), stride_frames(WindowRule())
    (8, 1)
    """
    if rule.frames == 1:
        return 1
    return min(rule.frames, max(1, round(rule.stride_s / period_s(rule))))


def within_shots(
    times_s: NDArray[np.float64], spans_s: NDArray[np.float64], cuts_s: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Cut stretches (T, 2) at the cut where the next one is of another shot; return them and their shots (T,).

    Args:
        times_s: (T,) a time in each stretch, rising.
        spans_s: (T, 2) start and end of each.
        cuts_s: times at which shots begin, but for the first, rising.

    Example:
        >>> spans, shots = within_shots(np.array([0.0, 1.0]), np.array([[0, 0.5], [0.5, 1.5]]), [0.9])
        >>> spans.tolist(), shots.tolist()
        ([[0.0, 0.9], [0.9, 1.5]], [0, 1])
    """
    cuts = np.array(cuts_s, np.float64)
    shot_of = np.searchsorted(cuts, times_s, side="right")
    begins, ends = np.append(-np.inf, cuts)[shot_of], np.append(cuts, np.inf)[shot_of]
    changes = np.diff(shot_of) > 0
    start_s = np.where(np.append(False, changes), begins, np.maximum(begins, spans_s[:, 0]))
    end_s = np.where(np.append(changes, False), ends, np.minimum(ends, spans_s[:, 1]))
    return np.stack([start_s, end_s], axis=1), shot_of


def spans(times_s: NDArray[np.float64], duration_s: float | None) -> NDArray[np.float64]:
    """Compute the stretch that each sampled frame stands for: up to half-way to its neighbours.

    Args:
        times_s: (T,) times of the frames, rising.
        duration_s: length of the clip; without it the last stretch is as long as the one before.

    Returns:
        (T, 2) start and end in seconds.

    >>> spans(np.array([0.5, 1.5, 3.5]), 4.0).tolist()
    [[0.0, 1.0], [1.0, 2.5], [2.5, 4.0]]
    """
    middles = (times_s[:-1] + times_s[1:]) / 2
    last_step = times_s[-1] - middles[-1] if len(middles) else 0.0
    end = max(times_s[-1] + last_step if duration_s is None else duration_s, times_s[-1])
    edges = np.concatenate([[min(0.0, times_s[0])], middles, [end]])
    return np.stack([edges[:-1], edges[1:]], axis=1)
