"""What is written in the clips of a corpus, sign by sign, for channels that read words rather than features."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenreel.errors import FeaturesError
from evenreel.features.load import FoundClips
from evenreel.features.settings import ClipAside
from evenreel.features.stored_clips import StoredClips
from evenreel.types import TextTrack

Signs = dict[str, tuple[str, ...]]
"""The text of each sign of each clip, by the clip's id."""

Change = Callable[[Sequence[TextTrack], str], Sequence[TextTrack]]
"""What is done to the tracks of a clip, which is named by its id."""


def sign_texts(clips: FoundClips | StoredClips, change: Change | None = None) -> tuple[Signs, tuple[ClipAside, ...]]:
    """The best reading of every sign, and the clips that were set aside.

    Other readings of a sign are left out: most are the same words with a letter wrong, and a change of the words is one
    of the best reading.

    Args:
        clips: see `evenreel.features.find_clips`.
        change: of the tracks, such as words that are left out to find out what they are worth; None for none.

    Raises:
        FeaturesError: nobody read what is written in them; a clip has no features; a file is damaged.
    """
    if isinstance(clips, StoredClips):
        raise FeaturesError(
            f"The features in {clips.folder} were computed elsewhere and come without words on screen; name a folder "
            "that `evenreel features --model` made."
        )
    shards, aside = clips.shards(without=("frames", "windows"))
    found: Signs = {}
    for clip_id, shard in shards.items():
        if shard.tracks is None:
            raise FeaturesError(
                f"Nobody read what is written in clip {clip_id!r} for the features in {clips.folder}; run `evenreel "
                "features` without --no-ocr."
            )
        tracks = shard.tracks if change is None else change(shard.tracks, clip_id)
        found[clip_id] = tuple(track.text for track in tracks)
    return found, aside
