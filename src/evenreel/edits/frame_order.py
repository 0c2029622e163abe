"""Edits that probe the cause of a source bias: frames in another order, or a single frame (Generative Ghost, 4).

A matcher that ranks generated clips higher as long as their frames are in order has learned something from how they
move; one that does so with a single frame has learned it from how they look. A matcher that never sees the order of
frames, such as a mean over them, gives the same scores whatever the order, which then proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.edits.settings import FrameOrder, OneFrame, OrderStage
from evenreel.errors import UsageError
from evenreel.types import VideoFeatures

SAME = 1e-5
"""Cosines that differ by less are the same, but for rounding."""


def reordered(
    videos: VideoFeatures,
    order: FrameOrder,
    *,
    stage: OrderStage = "sampled",
    take: int | None = None,
    seed: int = 0,
    only: Collection[str] | None = None,
) -> VideoFeatures:
    """Put the real frames of videos in another order; a matcher gets the times of the original one.

    A clip's order is drawn from the seed and the id of the clip, so it does not depend on which others are there.
    """
    _check_word("order", order, get_args(FrameOrder))
    _check_word("stage", stage, get_args(OrderStage))
    if stage == "video" and take is None:
        raise UsageError(
            "Moving the frames of the whole video makes a difference only where some of them are taken afterwards; say "
            "how many (take), or move the frames that there are (stage 'sampled')."
        )
    rows = _rows_of(videos, only)
    if stage == "video":
        return _taken(_moved(videos, order, seed, rows), take)
    return _moved(_taken(videos, take), order, seed, rows)


def single_frame(videos: VideoFeatures, which: OneFrame = "middle", *, seed: int = 0) -> VideoFeatures:
    """Reduce videos to one frame each (Generative Ghost, Table 5); a preference that stays is due to how clips look.

    Returns:
        Features with frames (V, 1, D) and their times; on-screen windows stay as they are.
    """
    _check_word("choice", which, get_args(OneFrame))
    places = []
    for name, real in _real_places(videos):
        numbers = {"first": 0, "middle": len(real) // 2}
        number = numbers[which] if which in numbers else int(_random_of(name, seed).integers(len(real)))
        places.append(real[number : number + 1])
    return _at(videos, places)


def sees_order(score: Callable[[VideoFeatures], NDArray[Any]], videos: VideoFeatures) -> bool:
    """Return whether any score changes when frames are reversed; if none does, reordering frames proves nothing."""
    return not np.allclose(score(videos), score(reordered(videos, "reversed")), rtol=0, atol=SAME)


def _moved(videos: VideoFeatures, order: FrameOrder, seed: int, rows: Collection[int]) -> VideoFeatures:
    """Put the real frames of some rows in another order."""
    if order == "original":
        return videos
    frames = videos.frames.copy()
    for row, (clip_id, real) in enumerate(_real_places(videos)):
        if row in rows:
            source = real[::-1] if order == "reversed" else _random_of(clip_id, seed).permutation(real)
            frames[row, real] = videos.frames[row, source]
    return replace(videos, frames=frames)


def _taken(videos: VideoFeatures, take: int | None) -> VideoFeatures:
    """Take the frames in the middle of `take` equal parts of each clip; all of a clip that has no more."""
    if take is None:
        return videos
    if take < 1:
        raise UsageError(f"{take} frames are to be taken of each clip; take at least 1.")
    return _at(
        videos, [real if len(real) <= take else real[_middles(len(real), take)] for _, real in _real_places(videos)]
    )


def _middles(count: int, parts: int) -> Indices:
    """Return the numbers of items in the middle of equal parts, as `evenreel.media.sampling.Midpoints` does by time.

    >>> _middles(8, 4).tolist(), _middles(5, 2).tolist()
    ([1, 3, 5, 7], [1, 3])
    """
    return (2 * np.arange(parts) + 1) * count // (2 * parts)


def _at(videos: VideoFeatures, places: Sequence[Indices]) -> VideoFeatures:
    """Select the frames at these places, one row of them a clip, with their times; padding is zero."""
    lengths = np.array([len(row) for row in places], np.int64)
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    rows, columns = np.repeat(np.arange(len(places)), lengths), np.concatenate([*places, np.zeros(0, np.int64)])
    frames = np.zeros((*mask.shape, videos.frames.shape[2]), videos.frames.dtype)
    times_s = np.zeros(mask.shape, videos.times_s.dtype)
    frames[mask], times_s[mask] = videos.frames[rows, columns], videos.times_s[rows, columns]
    return replace(videos, frames=frames, frame_mask=mask, times_s=times_s)


def _real_places(videos: VideoFeatures) -> Iterator[tuple[str, Indices]]:
    """Iterate over the id of each clip and the places of its real frames."""
    return zip(videos.ids, map(np.flatnonzero, videos.frame_mask), strict=True)


def _rows_of(videos: VideoFeatures, only: Collection[str] | None) -> Collection[int]:
    if only is None:
        return range(len(videos.ids))
    chosen = set(only)
    rows = {row for row, clip_id in enumerate(videos.ids) if clip_id in chosen}
    if not rows:
        raise UsageError(
            f"None of the {len(chosen):,} clips whose frames are to be moved is among the {len(videos.ids):,} videos; "
            "check their ids and the split."
        )
    return rows


def _random_of(clip_id: str, seed: int) -> np.random.Generator:
    """Return the generator of one clip, the same whichever others there are."""
    if seed < 0:
        raise UsageError(f"The seed of random frames is {seed}; it must not be negative.")
    digest = sha256(clip_id.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "big")])


def _check_word(what: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise UsageError(f"The {what} of frames is {word!r}; it must be one of {', '.join(known)}.")
