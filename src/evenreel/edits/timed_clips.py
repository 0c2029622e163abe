"""Clips of a corpus with what their headers say, and the moments at which their frames are taken."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from evenreel.errors import MediaError
from evenreel.features.manifest import CorpusClip, clips_of
from evenreel.types import Corpus


class VideoHeader(NamedTuple):
    """Size of a picture in pixels, rate and length of a clip; None where the file does not say it."""

    width: int
    height: int
    fps: float | None
    duration_s: float | None


class TimedClip(NamedTuple):
    """A clip and what its header says."""

    clip: CorpusClip
    header: VideoHeader

    def moments(self, fps: float, most: int) -> tuple[float, list[float]]:
        """Choose the moments of a new clip's frames, in seconds of the file, in the middles of equal parts.

        Args:
            fps: most frames a second; the new clip has no more than the video.
            most: most frames; a longer clip gets fewer a second.

        Returns:
            Frames a second of the new clip, and the moments.
        """
        fact = self.header
        if not fact.duration_s:
            raise MediaError("no_frames", "nothing tells how long it is")
        frames = min(max(1, most), max(1, round(fact.duration_s * min(fps, fact.fps or fps))))
        rate = frames / fact.duration_s
        return rate, [(self.clip.part.start_s or 0.0) + (number + 0.5) / rate for number in range(frames)]


def readable_clips(corpus: Corpus, facts: pl.DataFrame) -> list[TimedClip]:
    """List the clips whose headers could be read, in the order of the corpus.

    Args:
        corpus: clips.
        facts: table of their headers, as `evenreel.features.facts.clip_facts` returns it.
    """
    columns = ("clip_id", *VideoHeader._fields)
    known = {clip: VideoHeader(*values) for clip, *values in facts.select(columns).iter_rows()}
    return [TimedClip(clip, known[clip.clip_id]) for clip in clips_of(corpus) if clip.clip_id in known]
