"""The part of corrupting a clip that runs in a killable worker: decode, corrupt, encode."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from evenreel.edits.corruptions.kinds import CORRUPTIONS
from evenreel.edits.corruptions.original import Original
from evenreel.edits.corruptions.settings import NONE
from evenreel.edits.corruptions.subject import subject_of
from evenreel.errors import MediaError
from evenreel.media.encode import clip_bytes
from evenreel.media.sound import MomentReader
from evenreel.media.workers import Message
from evenreel.types import Pixels

Size = tuple[int, int]


class CorruptionWorker:
    """Worker that answers a task with a clip in several corruptions, each an mp4 file without sound.

    A task has `clip_id`, `path`, `at_s` (moments of the frames), `size` (height and width of the new pictures), `rate`
    (two numbers), `lenders` (`path` and `at_s` each) and `corruptions` (kind and strength each). It sends a `tick` for
    each frame that is read, then `clip` with the bytes of a file, in the order of the corruptions.

    Args:
        seed: seed of what is drawn.
        limits: fields of `MediaLimits`.
    """

    def __init__(self, seed: int, limits: dict[str, Any]) -> None:
        self._seed, self._reader = seed, MomentReader(limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Corrupt one clip."""
        frames = yield from self._frames(task, task["size"])
        lent = frames[:1]
        if task["lenders"]:
            lent = yield from self._lent(task["lenders"], len(frames), task["size"])
        subject = subject_of(frames) if any(kind == "occlusion" for kind, _ in task["corruptions"]) else np.empty(0)
        original = Original(frames, subject, lent, lent, Fraction(*task["rate"]))
        for kind, strength in task["corruptions"]:
            yield {"kind": "tick"}, None
            changed = self._corrupted(original, kind, strength, task["clip_id"])
            yield {"kind": "clip"}, np.frombuffer(clip_bytes(changed, original.fps), np.uint8)

    def _corrupted(self, original: Original, kind: str, strength: int, clip_id: str) -> Pixels:
        if kind == NONE:
            return original.frames
        drawn = hashlib.sha256(f"{kind} {clip_id}".encode("utf-8", "surrogatepass")).digest()
        rng = np.random.default_rng([self._seed, int.from_bytes(drawn, "big")])
        return np.ascontiguousarray(CORRUPTIONS[kind](original, strength, rng))

    def _frames(self, source: dict[str, Any], size: Size) -> Generator[Message, None, Pixels]:
        """Read the frames of a clip, (T, H, W, 3) of a size (H, W)."""
        wanted, found = {"path": source["path"], "at_s": source["at_s"]}, []
        for message, array in self._reader(wanted):
            if message["kind"] == "frame" and array is not None:
                found.append(covering(array, size))
                yield {"kind": "tick"}, None
        if len(found) != len(source["at_s"]):
            promised = len(source["at_s"])
            raise MediaError("no_frames", f"it has {len(found)} of the {promised} frames that its header promises")
        return np.stack(found)

    def _lent(self, lenders: Sequence[dict[str, Any]], frames: int, size: Size) -> Generator[Message, None, Pixels]:
        """Read as many frames of the first lender that can be read; a shorter one begins anew."""
        for lender in lenders:
            try:
                lent = yield from self._frames(lender, size)
            except MediaError:
                continue
            return np.asarray(lent[np.arange(frames) % len(lent)])
        named = ", ".join(lender["path"] for lender in lenders)
        raise MediaError("failed", f"none of the clips that it could borrow from can be read: {named}")


def covering(pixels: Pixels, size: Size) -> Pixels:
    """Scale a picture (H, W, 3) until it covers a size (height, width), and cut what is beyond, at both sides alike.

    >>> covering(np.zeros((90, 160, 3), np.uint8), (30, 40)).shape
    (30, 40, 3)
    """
    import cv2

    scale = max(wanted / side for wanted, side in zip(size, pixels.shape[:2], strict=True))
    height, width = (max(wanted, round(side * scale)) for wanted, side in zip(size, pixels.shape[:2], strict=True))
    if (height, width) != pixels.shape[:2]:
        interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
        pixels = np.asarray(cv2.resize(pixels, (width, height), interpolation=interpolation), np.uint8)
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    return np.ascontiguousarray(pixels[top : top + size[0], left : left + size[1]])
