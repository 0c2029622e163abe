"""Frames of clips as pictures, to show what features were made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from evenreel.config import MediaLimits
from evenreel.errors import CorpusError, MediaError
from evenreel.features.manifest import NO_PATH, clips_of
from evenreel.files import file_at
from evenreel.media.workers import Worker
from evenreel.types import Corpus, Pixels

READER = "evenreel.media.sound:MomentReader"


@dataclass(frozen=True, eq=False)
class ClipPictures:
    """Reads frames of a corpus's clips by their times; each clip in a process of its own, which can be killed.

    Attributes:
        corpus: the clips.
        videos: folder in which the paths of the clips begin.
        limits: limits of one clip.
    """

    corpus: Corpus
    videos: Path
    limits: MediaLimits

    def frames(self, clip_id: str, times_s: Sequence[float]) -> list[Pixels]:
        """Read the frames of a clip at some times, (H, W, 3) uint8 each.

        Raises:
            CorpusError: the corpus has no such clip, or no file of it.
            MediaError: the clip cannot be read, or has no frame left at one of these times; the message names it.
        """
        clip = next((one for one in clips_of(self.corpus) if one.clip_id == clip_id), None)
        if clip is None or not clip.path:
            why = "the corpus has no such clip" if clip is None else NO_PATH[1]
            raise CorpusError(f"The clip {clip_id!r} cannot be shown: {why}.")
        start_s = clip.part.start_s or 0.0
        task = {"path": str(file_at(self.videos, clip.path)), "at_s": [start_s + float(time_s) for time_s in times_s]}
        worker = Worker(READER, {"limits": asdict(self.limits)}, self.limits)
        try:
            frames = [pixels for _, pixels in worker.run(task) if pixels is not None]
        except MediaError as error:
            raise MediaError(error.reason, f"The clip {clip_id!r} ({clip.path}) cannot be shown: {error}.") from error
        finally:
            worker.close()
        if len(frames) != len(times_s):
            raise MediaError(
                "no_frames",
                f"The clip {clip_id!r} ({clip.path}) has other frames than its features are of; is it another cut? "
                "Compute its features again with `evenreel features`.",
            )
        return frames
