"""On-screen words that a corpus ships, used instead of those that a text recogniser finds.

A benchmark's own words (TextVR's, M4-ViteVQA's, the true ones of a planted corpus) come as rows with frame numbers, see
`evenreel.corpus.on_screen`; here they become signs with times, as `evenreel.onscreen` makes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from evenreel.errors import MediaError
from evenreel.features.manifest import CorpusClip
from evenreel.features.shards import Shard
from evenreel.features.windows import MOMENT_S
from evenreel.types import TextTrack, VideoInfo

WHOLE_PICTURE = (0.0, 0.0, 1.0, 1.0)
_COLUMNS = ("text", "confidence", "start_frame", "end_frame", "box")


class _Row(NamedTuple):
    """A row of the table, without its clip."""

    text: str
    confidence: float | None
    start_frame: int | None
    end_frame: int | None
    box: Sequence[float] | None


class CorpusWords:
    """Words of clips from a corpus's table of on-screen texts; a clip without a row has no words."""

    def __init__(self, texts: pl.DataFrame) -> None:
        parts = texts.select("clip_id", *_COLUMNS).partition_by("clip_id", as_dict=True, include_key=False)
        self._rows = {str(clip_id): [_Row(*row) for row in part.rows()] for (clip_id,), part in parts.items()}

    def reader_id(self, clip: CorpusClip) -> str:
        """Compute the id of a clip's words, a digest over them, so that edited words have another id."""
        named: list[Any] = [clip.fps, self._rows.get(clip.clip_id, [])]
        return f"corpus@{hashlib.blake2b(json.dumps(named).encode(), digest_size=8).hexdigest()}"

    def put(self, shard: Shard, clip: CorpusClip) -> Shard:
        """Return a shard with the clip's words as its tracks, limited to the clip's part of the file.

        Raises:
            MediaError: neither the corpus nor the file says how many frames a second there are.
        """
        rows, fps = self._rows.get(clip.clip_id, []), clip.fps or shard.info.fps
        if rows and not fps:
            raise MediaError("failed", "its words have frame numbers, and nothing says how many frames a second it has")
        length_s, start_s = float(shard.spans_s[-1, 1]), clip.part.start_s or 0.0
        tracks = [_track(row, fps or 1.0, start_s, length_s, shard.info) for row in rows]
        shown = [track for track in tracks if track.end_s >= 0 and track.start_s < length_s]
        ordered = sorted(  # stable: then in the order of the table
            (replace(track, start_s=max(0.0, track.start_s)) for track in shown), key=lambda track: track.start_s
        )
        return replace(shard, tracks=tuple(ordered), reader_id=self.reader_id(clip))


def _track(row: _Row, fps: float, clip_start_s: float, length_s: float, info: VideoInfo) -> TextTrack:
    """A sign, timed from the start of the clip; its last frame is shown until the next one."""
    first = (row.start_frame or 0) / fps - clip_start_s
    end = length_s if row.end_frame is None else (row.end_frame + 1) / fps - clip_start_s - MOMENT_S
    confidence = 1.0 if row.confidence is None else row.confidence
    return TextTrack(row.text, confidence, first, max(first, end), _box(row.box, info), (row.text,))


def _box(pixels: Sequence[float] | None, info: VideoInfo) -> tuple[float, float, float, float]:
    if pixels is None:
        return WHOLE_PICTURE
    x0, y0, x1, y1 = pixels
    return x0 / info.width, y0 / info.height, x1 / info.width, y1 / info.height
