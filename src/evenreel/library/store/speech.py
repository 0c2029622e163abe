"""What is said in the clips of a library: written to shard and catalog, and read."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenreel.features.shards import DamagedShardError, Shard, read_shard, shard_path, write_shard
from evenreel.library.store.catalog import SHARDS, get_meta, loaded_path, set_meta, transaction
from evenreel.library.store.fulltext import SAID, index_texts, remove_texts
from evenreel.library.store.rows import put_rows, speech_rows
from evenreel.speech.subtitles import SpeechSource, SpokenWord, Transcript, Utterance

UNSETTLED = "transcripts_unsettled"
"""Entry of `meta` with the clip whose shard is just getting other transcripts or sounds, which the catalog may not have
yet."""


def put_transcripts(
    library: Path, connection: sqlite3.Connection, shard: Shard, transcripts: Sequence[Transcript]
) -> None:
    """Replace what is said in a clip, in its shard and then in the catalog.

    The clip is noted first, so that the next run enters what the shard of a killed run says (`settle_shard`).
    """
    with transaction(connection):
        set_meta(connection, {UNSETTLED: shard.clip_id})
    digest = write_shard(library / SHARDS, replace(shard, transcripts=tuple(transcripts)))
    with transaction(connection):
        _enter(connection, shard.clip_id, transcripts, digest)


def settle_shard(library: Path, connection: sqlite3.Connection) -> None:
    """Enter what a killed run may have written to a shard alone; nothing where it has not.

    Sounds that the catalog knows nothing of leave the shard: their rows of the matrix are not there.
    """
    clip_id = get_meta(connection).get(UNSETTLED)
    if clip_id is None:
        return
    path = shard_path(library / SHARDS, clip_id)
    try:
        shard = read_shard(path)
    except DamagedShardError:  # the clip is gone, or will be read anew
        shard = None
    with transaction(connection):
        known = connection.execute("SELECT 1 FROM clips WHERE clip_id = ?", (clip_id,)).fetchone()
        if shard is not None and known:
            heard = connection.execute("SELECT 1 FROM heard WHERE clip_id = ?", (clip_id,)).fetchone()
            if shard.sounds is not None and not heard:
                write_shard(library / SHARDS, replace(shard, sounds=None))
            _enter(connection, clip_id, shard.transcripts or (), hashlib.sha256(path.read_bytes()).hexdigest())
        connection.execute("DELETE FROM meta WHERE key = ?", (UNSETTLED,))


def _enter(connection: sqlite3.Connection, clip_id: str, transcripts: Sequence[Transcript], digest: str) -> None:
    """Put transcripts of a shard with this digest into the catalog, inside the caller's transaction."""
    remove_texts(connection, SAID, clip_id)
    put_rows(connection, clip_id, speech_rows(clip_id, transcripts))
    connection.execute("UPDATE clips SET shard_hash = ? WHERE clip_id = ?", (digest, clip_id))
    index_texts(connection, SAID, clip_id)
    connection.execute("DELETE FROM meta WHERE key = ?", (UNSETTLED,))


def clip_transcripts(connection: sqlite3.Connection, clip_id: str) -> list[Transcript]:
    """Read the transcripts of a clip; none of one in which nothing was looked for."""
    sources = connection.execute(
        "SELECT number, source, origin, language, size, mtime_ns, ctime_ns, problem FROM transcripts"
        " WHERE clip_id = ? ORDER BY number",
        (clip_id,),
    ).fetchall()
    said = connection.execute(
        "SELECT transcript, text, start_s, end_s, language, confidence, speaker, words FROM utterances"
        " WHERE clip_id = ? ORDER BY number",
        (clip_id,),
    ).fetchall()
    return [
        Transcript(
            source,
            loaded_path(origin),
            tuple(_utterance(source, row) for of, *row in said if of == number),
            language,
            None if stamp[0] is None else (stamp[0], stamp[1], stamp[2]),
            problem,
        )
        for number, source, origin, language, *stamp, problem in sources
    ]


def _utterance(source: SpeechSource, row: Sequence[Any]) -> Utterance:
    text, start_s, end_s, language, confidence, speaker, words = row
    spoken = tuple(SpokenWord(*word) for word in json.loads(words))
    return Utterance(text, start_s, end_s, source, language, confidence, speaker, spoken)
