"""What is said in the clips of a library: written to shard and catalog, and read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenreel.features.shards import Shard, write_shard
from evenreel.library.store import seals
from evenreel.library.store.catalog import SHARDS, loaded_path, transaction
from evenreel.library.store.fulltext import index_texts, remove_texts
from evenreel.library.store.rows import put_rows, speech_rows
from evenreel.library.store.timed_texts import SAID
from evenreel.speech.transcripts import Transcript
from evenreel.speech.utterances import SpeechSource, SpokenWord, Utterance


def put_transcripts(
    library: Path, connection: sqlite3.Connection, shard: Shard, transcripts: Sequence[Transcript]
) -> None:
    """Replace what is said in a clip, in its shard and then in the catalog, which is one transaction.

    A run that is killed in between leaves a newer shard, whose transcripts the next run compares with the files.

    Args:
        library: folder of the library, which the caller holds.
        connection: its catalog.
        shard: shard of the clip as it is stored.
        transcripts: all transcripts of the clip from now on.

    Raises:
        LibraryError: the disk is full or cannot be written.
    """
    clip_id = shard.clip_id
    digest = write_shard(library / SHARDS, replace(shard, transcripts=tuple(transcripts)))
    with transaction(connection):
        remove_texts(connection, SAID, clip_id)
        put_rows(connection, clip_id, speech_rows(clip_id, transcripts))
        connection.execute("UPDATE clips SET shard_hash = ? WHERE clip_id = ?", (digest, clip_id))
        index_texts(connection, SAID, clip_id)


def clip_transcripts(connection: sqlite3.Connection, clip_id: str) -> list[Transcript]:
    """Read the transcripts of a clip; none of one in which nothing was looked for."""
    if not seals.has_table(connection, "transcripts"):
        return []
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
