"""What a library holds, in a form that two libraries can be compared by: order of work left out."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evenreel.errors import LibraryError
from evenreel.features.shards import parse_shard, shard_bytes
from evenreel.library.store.vectors import FRAMES, SOUNDS, Matrix

TABLES = {
    "clips": "SELECT clip_id, container, codec, width, height, duration_s, fps, has_vision, has_text, notes FROM clips"
    " ORDER BY clip_id",
    "moments": "SELECT * FROM moments ORDER BY clip_id, number",
    "tracks": "SELECT clip_id, number, text, readings, confidence, start_s, end_s, box FROM tracks ORDER BY 1, 2",
    "files": "SELECT path, name, root, size, state, clip_id, reason, sentence, metadata FROM files ORDER BY path",
    "roots": "SELECT path FROM roots ORDER BY path",
    "marks": "SELECT clip_id, time_s, favourite, note, path FROM marks ORDER BY 1, 2",
    "searches": "SELECT name, query, filter, seen FROM searches ORDER BY name",
    "vocabulary": "SELECT word, texts FROM track_vocabulary WHERE texts > 0 ORDER BY word",
    "name words": "SELECT word, texts FROM about_vocabulary WHERE texts > 0 ORDER BY word",
    "words": "SELECT clip_id, number, track_words.text FROM track_words JOIN tracks ON track_id = track_words.rowid"
    " ORDER BY clip_id, number",
    "transcripts": "SELECT clip_id, number, source, origin, language, problem FROM transcripts ORDER BY 1, 2",
    "utterances": "SELECT clip_id, number, transcript, text, start_s, end_s, words FROM utterances ORDER BY 1, 2",
    "said": "SELECT clip_id, number, said_words.text FROM said_words"
    " JOIN utterances ON utterance_id = said_words.rowid ORDER BY 1, 2",
    "about": "SELECT path, name, caption FROM about JOIN names ON name_id = about.rowid ORDER BY path",
    "null_scores": "SELECT clip_id, round(mean, 5), round(deviation, 5) FROM null_scores ORDER BY clip_id",
    "heard": "SELECT clip_id, weights_hash, problem FROM heard ORDER BY clip_id",
    "sound_moments": "SELECT * FROM sound_moments ORDER BY clip_id, number",
    "sound_null_scores": "SELECT clip_id, round(mean, 5), round(deviation, 5) FROM sound_null_scores ORDER BY clip_id",
    "unsettled": "SELECT clip_id FROM replaced ORDER BY clip_id",
    "rows": "SELECT clip_id, count FROM vector_rows ORDER BY clip_id",
}
META = (
    *("schema_version", "model", "encoder_id", "weights_hash", "dimension", "rule"),
    *("sounds_encoder_id", "sounds_weights_hash", "sounds_dimension", "sounds_null_clips"),
)


def state(library: Path) -> dict[str, Any]:
    """Every table without its accidental numbers, every shard's and every still's bytes, and the vectors by clip."""
    connection = sqlite3.connect(f"{(library / 'catalog.sqlite').absolute().as_uri()}?mode=ro", uri=True)
    try:
        found: dict[str, Any] = {name: connection.execute(query).fetchall() for name, query in TABLES.items()}
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        found["meta"] = {key: meta.get(key) for key in META}
        found["null_best"] = [round(value, 4) for value in json.loads(meta.get("null_best", "[]"))]
        found["shards"] = {path.name: _without_stamps(path) for path in library.glob("shards/*/*.safetensors")}
        found["stills"] = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in library.glob("stills/*/*.safetensors")
        }
        found["vectors"] = [_vectors(library, connection, meta, of) for of in (FRAMES, SOUNDS)]
    finally:
        connection.close()
    found["models"] = {place.name: state(place) for place in library.glob("models/*")}
    found["left over"] = [str(path) for path in library.rglob("*.tmp")]
    return found


def _without_stamps(path: Path) -> str:
    """The digest of a shard, but for the times at which subtitle files were changed, which no two runs share."""
    payload = path.read_bytes()
    with contextlib.suppress(LibraryError):
        shard = parse_shard(payload, path)
        if any(one.stamp for one in shard.transcripts or ()):
            undated = tuple(replace(one, stamp=None) for one in shard.transcripts or ())
            payload = shard_bytes(replace(shard, transcripts=undated))
    return hashlib.sha256(payload).hexdigest()


def _vectors(library: Path, connection: sqlite3.Connection, meta: dict[str, str], of: Matrix) -> dict[str, bytes]:
    rows = connection.execute(f"SELECT clip_id, first_row, count FROM {of.rows}").fetchall()
    if not rows:
        return {}
    path = library / f"{of.file}.{of.own(meta).get('vectors_generation', '0')}.f16"
    dimension = int(of.own(meta)["dimension"])
    numbers = np.fromfile(path, "<f2", offset=64)
    matrix = numbers[: len(numbers) // dimension * dimension].reshape(-1, dimension)
    return {clip_id: matrix[first : first + count].tobytes() for clip_id, first, count in rows}
