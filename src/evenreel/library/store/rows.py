"""Rows of the catalog that follow from a shard: written from it, and compared with it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import astuple
from itertools import pairwise
from typing import Any

from evenreel.features.shards import ClipSounds, Shard
from evenreel.library.store.catalog import stored_path
from evenreel.speech.subtitles import Transcript
from evenreel.types import TextTrack

COLUMNS = {
    "clips": ("clip_id", "container", "codec", "width", "height", "duration_s", "fps")
    + ("has_vision", "has_text", "notes", "shard_hash"),
    "moments": ("clip_id", "number", "time_s", "start_s", "end_s"),
    "shots": ("clip_id", "number", "start_s", "end_s"),
    "tracks": ("clip_id", "number", "text", "readings", "confidence", "start_s", "end_s", "box"),
    "transcripts": ("clip_id", "number", "source", "origin", "language", "size", "mtime_ns", "ctime_ns", "problem"),
    "utterances": ("clip_id", "number", "transcript", "text", "start_s", "end_s")
    + ("language", "confidence", "speaker", "words"),
    "recorded": ("clip_id", "created"),
    "heard": ("clip_id", "weights_hash", "problem"),
    "sound_moments": ("clip_id", "number", "time_s", "start_s", "end_s"),
}
"""Table -> its columns, in the order of the rows below; every table begins with its key."""

Rows = dict[str, list[tuple[Any, ...]]]


def rows_of(shard: Shard, digest: str) -> Rows:
    """Return the catalog's rows for a shard with this digest, by table, in order."""
    info = shard.info
    seen, read = shard.frames is not None, shard.tracks is not None
    clip = (shard.clip_id, info.container, info.codec, info.width, info.height, _length(shard), info.fps)
    return {
        "clips": [(*clip, seen, read, json.dumps(info.notes), digest)],
        "moments": [
            (shard.clip_id, number, float(time_s), float(start_s), float(end_s))
            for number, (time_s, (start_s, end_s)) in enumerate(zip(shard.times_s, shard.spans_s, strict=True))
        ],
        "shots": [(shard.clip_id, number, *shot) for number, shot in enumerate(_shots(shard))],
        "tracks": [
            (shard.clip_id, number, track.text, _readings(track))
            + (track.confidence, track.start_s, track.end_s, json.dumps(track.box))
            for number, track in enumerate(shard.tracks or ())
        ],
        **speech_rows(shard.clip_id, shard.transcripts or ()),
        "recorded": [(shard.clip_id, info.created)] if info.created else [],
        **sound_rows(shard.clip_id, shard.sounds),
    }


def sound_rows(clip_id: str, sounds: ClipSounds | None) -> Rows:
    """Return the catalog's rows for what a clip sounds like, by table, in order."""
    spans = [] if sounds is None else sounds.spans_s.tolist()
    return {
        "heard": [] if sounds is None else [(clip_id, sounds.weights_hash, sounds.problem)],
        "sound_moments": [(clip_id, number, start_s, start_s, end_s) for number, (start_s, end_s) in enumerate(spans)],
    }


def speech_rows(clip_id: str, transcripts: Sequence[Transcript]) -> Rows:
    """Return the catalog's rows for the transcripts of a clip, by table, in order."""
    said = [(number, one) for number, transcript in enumerate(transcripts) for one in transcript.utterances]
    return {
        "transcripts": [
            (clip_id, number, one.source, stored_path(one.origin), one.language)
            + (*(one.stamp or (None, None, None)), one.problem)
            for number, one in enumerate(transcripts)
        ],
        "utterances": [
            (clip_id, number, transcript, one.text, one.start_s, one.end_s)
            + (one.language, one.confidence, one.speaker, json.dumps([astuple(word) for word in one.words]))
            for number, (transcript, one) in enumerate(said)
        ],
    }


def stored_rows(connection: sqlite3.Connection, clip_id: str) -> Rows:
    """Read the catalog's rows of a clip, by table, in the form of `rows_of`."""
    return {
        table: connection.execute(
            f"SELECT {', '.join(columns)} FROM {table} WHERE clip_id = ? ORDER BY {', '.join(columns[:2])}", (clip_id,)
        ).fetchall()
        for table, columns in COLUMNS.items()
    }


def replace_rows(connection: sqlite3.Connection, shard: Shard, digest: str) -> None:
    """Replace a clip's rows in the catalog by those of a shard; the caller updates the full text."""
    rows = rows_of(shard, digest)
    connection.execute(_update_clip(), rows.pop("clips")[0])
    put_rows(connection, shard.clip_id, rows)


def put_rows(connection: sqlite3.Connection, clip_id: str, rows: Rows) -> None:
    """Replace a clip's rows in some tables; the caller updates the full text."""
    for table, of_clip in rows.items():
        connection.execute(f"DELETE FROM {table} WHERE clip_id = ?", (clip_id,))
        connection.executemany(_insert(table), of_clip)


def _insert(table: str) -> str:
    columns = COLUMNS[table]
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _update_clip() -> str:
    """Not `OR REPLACE`: files point to the row, which must not go away in between."""
    changes = ", ".join(f"{column} = excluded.{column}" for column in COLUMNS["clips"][1:])
    return f"{_insert('clips')} ON CONFLICT (clip_id) DO UPDATE SET {changes}"


def _readings(track: TextTrack) -> str:
    return json.dumps([track.text, *(reading for reading in track.readings if reading != track.text)])


def _shots(shard: Shard) -> list[tuple[float, float]]:
    """Start and end of each shot, from the clip's start to its end; none where they were not looked for."""
    if shard.cuts_s is None:
        return []
    end_s = float(shard.spans_s[-1, 1])
    edges = [0.0, *(cut_s for cut_s in shard.cuts_s.tolist() if cut_s < end_s), end_s]
    return list(pairwise(edges))


def _length(shard: Shard) -> float | None:
    """What the container claims, else where the last frame's stretch ends."""
    if shard.info.duration_s is not None:
        return float(shard.info.duration_s)
    return float(shard.spans_s[-1, 1]) if len(shard.spans_s) else None
