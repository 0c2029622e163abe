"""Readings of signs with errors: what a simulated reader reads in each stretch of a clip."""

from __future__ import annotations

from evenreel.features.word_changes import WordChanges, changed_track
from evenreel.planted.plan import PlantedClip
from evenreel.planted.scenes import Scene, SignBoard
from evenreel.types import TextTrack

STRETCHES = 12
"""Equal parts of a clip's time in which a sign is read anew: the windows of the paper of TCD."""


def stretch_of(scene: Scene, time_s: float) -> int:
    """Return which stretch of a clip (one of `STRETCHES` equal parts, from 0) a time in seconds is in."""
    return min(int(STRETCHES * time_s / scene.duration_s), STRETCHES - 1)


def reading(clip: PlantedClip, sign: SignBoard, stretch: int) -> str:
    """Return the text that is read on a sign in one stretch of a clip, with errors; it may be empty.

    A share `SignBoard.misread` of the characters is read as another one, as none or as two, independently for each
    stretch, sign and clip.
    """
    if not sign.misread:
        return sign.text
    whole = TextTrack(sign.text, 1.0, 0.0, clip.scene.duration_s, (0.0, 0.0, 0.0, 0.0))
    changes = WordChanges(char_errors=sign.misread, seed=clip.scene.seed)
    read = changed_track(whole, clip.clip_id, stretch, changes)
    return read.text if read else ""


def words_read(clip: PlantedClip, time_s: float) -> tuple[str, ...]:
    """Return the texts that are read, with errors, on the signs that are shown at a time in seconds."""
    stretch = stretch_of(clip.scene, time_s)
    return tuple(text for sign in clip.scene.signs if sign.is_up(time_s) if (text := reading(clip, sign, stretch)))
