"""Merging of two shards of a clip, each with some of the stages that were done on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evenreel.features.shards import Shard
from evenreel.speech.transcripts import Transcript

Times = NDArray[np.float64]


def merge(new: Shard, old: Shard) -> Shard:
    """Merge the stages of two shards of a clip: fields of the new one, and those of the old one that it lacks."""
    seen, read = old if new.frames is None else new, old if new.tracks is None else new
    return replace(
        seen,
        tracks=read.tracks,
        reader_id=read.reader_id,
        cuts_s=old.cuts_s if new.cuts_s is None else new.cuts_s,
        text_times_s=_text_times(read, seen.times_s),
        transcripts=_with_what_was_heard(old, new),
    )


def _with_what_was_heard(old: Shard, new: Shard) -> tuple[Transcript, ...] | None:
    """The transcripts of a clip, and what a model heard for a new shard of it, unless one has heard it before."""
    if old.transcripts is None:
        return new.transcripts
    if old.is_heard:
        return old.transcripts
    return (*old.transcripts, *(one for one in new.transcripts or () if one.source == "recognised"))


def _text_times(read: Shard, times_s: Times) -> Times | None:
    """The times at which text was read, for a shard with frames of these times; None where they are the same."""
    own = read.times_s if read.text_times_s is None else read.text_times_s
    return None if read.tracks is None or np.array_equal(own, times_s) else own
