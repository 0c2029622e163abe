"""Readings of signs by a reader that misreads: each stretch of a clip is read for itself."""

from __future__ import annotations

from evenreel.features.word_changes import WordChanges, changed_track
from evenreel.planted.plan import PlantedClip
from evenreel.planted.scenes import Scene, SignBoard
from evenreel.types import TextTrack

STRETCHES = 12
"""Equal parts of a clip's time in which a sign is read anew: the windows of the paper of TCD."""


def stretch_of(scene: Scene, time_s: float) -> int:
    """Return the number of the stretch that a moment is in, 0 to `STRETCHES` - 1."""
    return min(int(STRETCHES * time_s / scene.duration_s), STRETCHES - 1)


def reading(clip: PlantedClip, sign: SignBoard, stretch: int) -> str:
    """Return what is read on a sign in a stretch; empty where nothing is left of it.

    A share `SignBoard.misread` of the characters is read as another one, as none or as two, each stretch, sign and clip
    for itself.
    """
    if not sign.misread:
        return sign.text
    whole = TextTrack(sign.text, 1.0, 0.0, clip.scene.duration_s, (0.0, 0.0, 0.0, 0.0))
    changes = WordChanges(char_errors=sign.misread, seed=clip.scene.seed)
    read = changed_track(whole, clip.clip_id, stretch, changes)
    return read.text if read else ""


def words_read(clip: PlantedClip, time_s: float) -> tuple[str, ...]:
    """Return what is read on the signs that are up at a moment."""
    stretch = stretch_of(clip.scene, time_s)
    return tuple(text for sign in clip.scene.signs if sign.is_up(time_s) if (text := reading(clip, sign, stretch)))
