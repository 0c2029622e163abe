"""On-screen text of the clips of a corpus, sign by sign, for search by words rather than features."""

from __future__ import annotations

from evenreel.errors import FeaturesError
from evenreel.features.load import FoundClips
from evenreel.features.progress import SetAside
from evenreel.features.stored.clips import StoredClips
from evenreel.features.word_changes import WordChanges, changed_signs

Signs = dict[str, tuple[str, ...]]
"""The text of each sign of each clip, by the clip's id."""


def sign_texts(
    clips: FoundClips | StoredClips, changes: WordChanges | None = None
) -> tuple[Signs, tuple[SetAside, ...]]:
    """Return the best reading of every sign of each clip, and the clips that were set aside.

    Other readings of a sign are left out: most are the same words with a letter wrong. Of words misread on purpose the
    best reading is the misread one, window by window: see `evenreel.features.word_changes.changed_signs`.
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
        tracks = shard.tracks if changes is None else changed_signs(shard, clip_id, changes, clips.made)
        found[clip_id] = tuple(track.text for track in tracks)
    return found, aside
