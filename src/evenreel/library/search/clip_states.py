"""Clips of a library as a matcher encodes them: when they are first needed, kept in bounded memory.

Encoding is most of the cost of re-ranking (`benchmarks/rerank.py`), and searches of one library find similar clips.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from evenreel.features.windows import EMPTY, Sampled, read_windows
from evenreel.library.store.vectors import HalfArray
from evenreel.matchers.scoring import State, encode_videos
from evenreel.similarity.states import mapped, take_rows, tensors_of
from evenreel.types import Encoder, OnScreen, TextTrack, VideoFeatures

if TYPE_CHECKING:
    from evenreel.checkpoint import Inputs, Pretrained

AT_ONCE = 8
"""Clips that are encoded together: always so many, all of one size, some of them twice where there are fewer. The last
bits of a product can depend on its shape, and those of a clip must not depend on the clips beside it."""


class StoredClip(NamedTuple):
    """Stored features of one clip, without any of its files.

    `frames` (T, D) float16, their `times_s` (T,) and `spans_s` (T, 2), and its on-screen text.
    """

    clip_id: str
    frames: HalfArray
    times_s: NDArray[np.float64]
    spans_s: NDArray[np.float64]
    tracks: tuple[TextTrack, ...] = ()


class StateCache:
    """Cache of encoded clips by clip id; the least recently used one makes room."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._states: OrderedDict[str, State] = OrderedDict()

    def get(self, clip_id: str) -> State | None:
        """Return the state of a clip; None where it is not kept."""
        if clip_id in self._states:
            self._states.move_to_end(clip_id)
        return self._states.get(clip_id)

    def put(self, clip_id: str, state: State) -> None:
        """Keep the state of a clip; it must own its memory, since that behind a view would not be counted."""
        self._states[clip_id] = state
        self._bytes += _bytes(state)
        while self._bytes > self._most_bytes:
            _, oldest = self._states.popitem(last=False)
            self._bytes -= _bytes(oldest)

    def clear(self) -> None:
        """Forget all states."""
        self._states.clear()
        self._bytes = 0


class ClipStates:
    """Encoded clips of one matcher, read from the library when they are first needed."""

    def __init__(self, pretrained: Pretrained, encoder: Encoder, cache: StateCache) -> None:
        self._matcher, self._inputs = pretrained.matcher, pretrained.about.inputs
        self._encoder, self._cache = encoder, cache

    def of(self, clip_ids: Sequence[str], read: Callable[[str], StoredClip]) -> list[State]:
        """Return the state of each clip, one row each; equal to the bit in whatever batch it is encoded."""
        found = {clip_id: state for clip_id in clip_ids if (state := self._cache.get(clip_id)) is not None}
        missing = (as_given(read(clip_id), self._inputs, self._encoder) for clip_id in clip_ids if clip_id not in found)
        for clip_id, state in self._encoded(missing):
            found[clip_id] = state
            self._cache.put(clip_id, state)
        return [found[clip_id] for clip_id in clip_ids]

    def _encoded(self, videos: Iterable[VideoFeatures]) -> Iterator[tuple[str, State]]:
        for _, alike in groupby(sorted(videos, key=_size), _size):
            group = list(alike)
            for start in range(0, len(group), AT_ONCE):
                some = group[start : start + AT_ONCE]
                state = encode_videos(self._matcher, _joined(some + some[-1:] * (AT_ONCE - len(some)))).state
                for row, video in enumerate(some):
                    one = take_rows(state, slice(row, row + 1))
                    yield video.ids[0], mapped(one, Tensor.clone)


def as_given(clip: StoredClip, inputs: Inputs, encoder: Encoder) -> VideoFeatures:
    """Convert a stored clip to one row of the features that the matcher was trained on."""
    kept = middles(len(clip.times_s), inputs.frames)
    frames, times_s = clip.frames[kept][None], clip.times_s[kept][None]
    video = VideoFeatures((clip.clip_id,), frames, np.ones(times_s.shape, np.bool_), times_s)
    if inputs.windows is None:
        return video
    sampled = Sampled(clip.times_s, clip.spans_s)
    changes = inputs.word_changes
    empty = EMPTY if changes is not None and changes.empty == "caption" else ""
    made = read_windows(clip.tracks, sampled, inputs.windows, encoder, empty=empty)
    written = np.array([[bool(text) for text in made.texts]])
    return replace(video, on_screen=OnScreen(made.vectors[None], written, made.confidence[None]))


def middles(count: int, most: int | None) -> NDArray[np.int64]:
    """Choose at most `most` of `count` frames: all, or the middle ones of equal stretches.

    >>> middles(10, 3).tolist(), middles(2, 3).tolist()
    ([1, 5, 8], [0, 1])
    """
    if most is None or count <= most:
        return np.arange(count)
    return (2 * np.arange(most) + 1) * count // (2 * most)


def _size(video: VideoFeatures) -> tuple[int, int]:
    """Frames, and windows with text, of a video that is one row: all that the shapes inside a matcher depend on."""
    return video.frame_mask.shape[1], 0 if video.on_screen is None else int(video.on_screen.mask.sum())


def _joined(videos: Sequence[VideoFeatures]) -> VideoFeatures:
    """Videos of one size side by side."""
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(video, name) for video in videos])
        for name, array in vars(videos[0]).items()
        if isinstance(array, np.ndarray)
    }
    on_screen = joined_text([video.on_screen for video in videos if video.on_screen is not None])
    return replace(
        videos[0], ids=tuple(clip_id for video in videos for clip_id in video.ids), **arrays, on_screen=on_screen
    )


def joined_text(parts: Sequence[OnScreen[NDArray[Any]]]) -> OnScreen[NDArray[Any]] | None:
    """Put the on-screen text of clips one below the other, as `as_given` reads it; None where there is none."""
    if not parts:
        return None
    return OnScreen(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])})


def _bytes(state: State) -> int:
    return sum(tensor.nbytes for tensor in tensors_of(state))
