"""Which other clips a clip borrows frames from: drawn by the seed, of the same split, and of another file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import islice

from evenreel.edits.timed_clips import TimedClip
from evenreel.errors import CorpusError
from evenreel.types import Corpus

TRIES = 3
"""Lenders that are tried, one after the other, until one can be read."""


def lenders_of(corpus: Corpus, clips: Sequence[TimedClip], seed: int) -> Mapping[str, list[TimedClip]]:
    """Choose the clips that each clip may borrow from, by clip id; the first that can be read lends.

    The clips of a split stand in a circle whose order is drawn from the seed, and each borrows from those behind it, so
    that a clip more or less changes what few others borrow.
    """
    split_of = dict(corpus.clips.select("clip_id", "split").iter_rows())
    circles: dict[str | None, list[TimedClip]] = {}
    for one in sorted(clips, key=lambda one: _place(seed, one.clip.clip_id)):
        circles.setdefault(split_of[one.clip.clip_id], []).append(one)
    found = {}
    for split, circle in circles.items():
        if len({one.clip.path for one in circle}) < 2:
            of = "The corpus" if split is None else f"The split {split!r}"
            raise CorpusError(
                f"{of} has one video alone that can be read, and style and insertion take from another; leave these "
                "kinds out (--kind)."
            )
        for place, one in enumerate(circle):
            behind = (circle[(place + step) % len(circle)] for step in range(1, len(circle)))
            found[one.clip.clip_id] = [*islice((other for other in behind if other.clip.path != one.clip.path), TRIES)]
    return found


def _place(seed: int, clip_id: str) -> bytes:
    return hashlib.blake2b(f"{seed} {clip_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
