"""The word indexes of a library, kept in step with its tables `tracks`, `utterances` and `files`.

Every function works inside the caller's transaction. The indexes are derived: `rebuild_full_text` makes from nothing
what the incremental calls made step by step.

Words are folded before they are stored and before they are looked up (case, width, accents), and stored joined by
spaces, so that SQLite's tokenizer sees the words this module sees. A vocabulary says which words an index has, and in
how many texts each is; words of names with digits in them, of which a camera makes a new one for each file, are left
out there. Blocks say of neighbouring texts which clip each is of, how sure its reading is, and when it is there: a
query reads those of a common word without a row for each text.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.language.folding import FOLDING, words
from evenreel.library.store.catalog import FULL_TEXT, LATER, get_meta, lay_down, set_meta, transaction
from evenreel.types import Metadata

BLOCK = 256  # texts a block: those of a rare word are read with few others

FACTS = np.dtype([("clip", "<i8"), ("confidence", "<f8"), ("start_s", "<f8"), ("end_s", "<f8")])
"""What a block has of each text: the key of its clip (0 for no text), confidence, and times in seconds."""

AT_ONCE = 10_000  # texts, or files, that are read together where all are indexed anew
MAX_COUNTED = 500_000  # most words that are counted in memory there before they are written


class TextKind(NamedTuple):
    """A kind of text: its table and integer key, SQL for a text's other readings, and the tables of its index."""

    table: str
    key: str
    readings: str
    words: str
    vocabulary: str
    blocks: str


ON_SCREEN = TextKind("tracks", "track_id", "readings", "track_words", "track_vocabulary", "track_blocks")
SAID = TextKind("utterances", "utterance_id", "'[]'", "said_words", "said_vocabulary", "said_blocks")
ABOUT = TextKind("names", "name_id", "'[]'", "about", "about_vocabulary", "about_blocks")
TIMED = (ON_SCREEN, SAID)


def phrase(text: str) -> str:
    """Quote text as one FTS5 string, in which nothing is syntax."""
    return '"' + text.replace('"', '""') + '"'


def caption_of(metadata: Metadata) -> str:
    return str(metadata.get("caption") or "")


def note_clips(connection: sqlite3.Connection, clip_ids: Iterable[str], *, gone: bool = False) -> None:
    """Note that something which searches keep of clips has changed; a clip that is new gets its number."""
    change = _next_change(connection, "clip_keys")
    connection.executemany(
        "INSERT INTO clip_keys (clip_id, gone, change) VALUES (?, ?, ?)"
        " ON CONFLICT (clip_id) DO UPDATE SET gone = excluded.gone, change = excluded.change",
        [(clip_id, gone, change) for clip_id in clip_ids],
    )


def index_clip_text(connection: sqlite3.Connection, clip_id: str) -> None:
    """Add the tracks and utterances of a clip, all of which must be new to the indexes."""
    note_clips(connection, [clip_id])
    for kind in TIMED:
        index_texts(connection, kind, clip_id)


def remove_clip_text(connection: sqlite3.Connection, clip_id: str) -> None:
    """Remove the tracks and utterances of a clip while their tables have them; what is not indexed is no error."""
    for kind in TIMED:
        remove_texts(connection, kind, clip_id)
    note_clips(connection, [clip_id], gone=True)


def index_texts(connection: sqlite3.Connection, kind: TextKind, clip_id: str) -> None:
    _outdate(connection, [clip_id])
    rows = connection.execute(f"{_texts(kind)} WHERE clip_id = ? ORDER BY {kind.key}", (clip_id,)).fetchall()
    counts: Counter[str] = Counter()
    _index_rows(connection, kind, rows, counts)
    _count_words(connection, kind, counts)


def remove_texts(connection: sqlite3.Connection, kind: TextKind, clip_id: str) -> None:
    """Remove the texts of a clip of one kind from the index while their table has them."""
    _outdate(connection, [clip_id])
    rows = connection.execute(
        f"SELECT {kind.key}, {kind.words}.text FROM {kind.table} JOIN {kind.words} ON {kind.words}.rowid = {kind.key}"
        f" WHERE clip_id = ? ORDER BY {kind.key}",
        (clip_id,),
    ).fetchall()
    connection.executemany(f"DELETE FROM {kind.words} WHERE rowid = ?", [(key,) for key, _ in rows])
    _put_facts(connection, kind, [(key, 0, 0.0, 0.0, 0.0) for key, _ in rows])
    counts = Counter(word for _, text in rows for word in set(text.split()))
    _count_words(connection, kind, Counter({"": len(rows)}) + counts, -1)


def _outdate(connection: sqlite3.Connection, clip_ids: Sequence[str]) -> None:
    """Drop what else is made of the texts of clips (`evenreel.library.store.meanings`) as these change."""
    for table in LATER:
        connection.executemany(f"DELETE FROM {table} WHERE clip_id = ?", [(clip_id,) for clip_id in clip_ids])


def index_about(connection: sqlite3.Connection, path: str | bytes, caption: str) -> None:
    """Add or replace the name and the given caption of a file that has a clip; `path` as in `files.path`."""
    remove_about(connection, path)
    counts: Counter[str] = Counter()
    _note_keys(connection, _index_names(connection, [(path, caption)], counts), texts=bool(caption))
    _count_words(connection, ABOUT, counts)


def remove_about(connection: sqlite3.Connection, path: str | bytes) -> None:
    """Remove a file from the index of names and captions; one that is not there is no error."""
    row = connection.execute(
        "SELECT name_id, name, caption FROM names JOIN about ON about.rowid = name_id WHERE path = ?", (path,)
    ).fetchone()
    if row is not None:
        keys = read_facts(connection, ABOUT, np.array([row[0]]))["clip"].tolist()
        _note_keys(connection, keys, texts=bool(row[2]))
        connection.execute("DELETE FROM about WHERE rowid = ?", (row[0],))
        connection.execute("DELETE FROM names WHERE name_id = ?", (row[0],))
        _put_facts(connection, ABOUT, [(row[0], 0, 0.0, 0.0, 0.0)])
        _count_words(connection, ABOUT, _named(*row[1:]), -1)


def rebuild_full_text(connection: sqlite3.Connection) -> None:
    """Rebuild all word indexes from `tracks`, `utterances` and `files`, whatever state they are in."""
    for table in FULL_TEXT:
        try:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        except sqlite3.DatabaseError:
            # FTS5 opens a table to drop it, and may be too confused for that. Without its entry in the schema, what it
            # was made of are plain tables.
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("DELETE FROM sqlite_master WHERE name = ?", (table,))
            connection.execute("PRAGMA writable_schema = RESET")
        for shadow in ("data", "idx", "content", "docsize", "config"):
            connection.execute(f"DROP TABLE IF EXISTS {table}_{shadow}")
    lay_down(connection)
    fill_full_text(connection)


def fold_anew(connection: sqlite3.Connection) -> None:
    """Rebuild the word indexes, in a transaction of its own, where another rule has folded their words."""
    if get_meta(connection).get("folding") != FOLDING:
        with transaction(connection):
            try:
                rebuild_full_text(connection)
            except ValueError as error:
                raise sqlite3.DatabaseError("what was read is not what was written") from error
            set_meta(connection, {"folding": FOLDING})


def fill_full_text(connection: sqlite3.Connection) -> None:
    """Index all of `tracks`, `utterances` and `files` into empty word indexes; searches read all clips again."""
    change = _next_change(connection, "clip_keys")
    connection.execute("UPDATE clip_keys SET change = ?, gone = clip_id NOT IN (SELECT clip_id FROM clips)", (change,))
    connection.execute(
        "INSERT INTO clip_keys (clip_id, change) SELECT clip_id, ? FROM clips"
        " WHERE clip_id NOT IN (SELECT clip_id FROM clip_keys) ORDER BY clip_id",
        (change,),
    )
    for kind in TIMED:
        texts, counts = connection.execute(f"{_texts(kind)} ORDER BY {kind.key}"), Counter[str]()
        while some := texts.fetchmany(AT_ONCE):
            _index_rows(connection, kind, some, counts)
            if len(counts) > MAX_COUNTED:
                _count_words(connection, kind, counts)
                counts.clear()
        _count_words(connection, kind, counts)
    connection.execute("DELETE FROM names WHERE path NOT IN (SELECT path FROM files WHERE state = 'indexed')")
    files, counts = connection.execute("SELECT path, metadata FROM files WHERE state = 'indexed'"), Counter[str]()
    while named := files.fetchmany(AT_ONCE):
        rows = [(path, caption_of(json.loads(metadata))) for path, metadata in named]
        _index_names(connection, rows, counts)
    _count_words(connection, ABOUT, counts)


def _note_keys(connection: sqlite3.Connection, keys: Iterable[int], *, texts: bool) -> None:
    """Note clips, by their numbers, of which a file has come or gone, and whether a caption has with it."""
    change = _next_change(connection, "clip_keys")
    for key in keys:
        sql = "UPDATE clip_keys SET change = ? WHERE key = ? RETURNING clip_id"
        clips = connection.execute(sql, (change, key)).fetchall()
        _outdate(connection, [clip_id for (clip_id,) in clips if texts])


def _texts(kind: TextKind) -> str:
    """SQL for texts: number, text, other readings, and facts; what has no confidence is sure."""
    return (
        f"SELECT {kind.key}, text, {kind.readings}, clip_keys.key, coalesce(confidence, 1.0), start_s, end_s"
        f" FROM {kind.table} JOIN clip_keys USING (clip_id)"
    )


def _index_rows(
    connection: sqlite3.Connection, kind: TextKind, texts: Sequence[tuple[Any, ...]], counts: Counter[str]
) -> None:
    """Add texts to the word index of their kind, and count the words of each; of a sign each word is there once."""
    rows = []
    for key, text, readings, *_ in texts:
        found = words(" ".join([text, *json.loads(readings)]))
        once = dict.fromkeys(found)
        counts.update(once.keys())
        rows.append((key, " ".join(once if kind is ON_SCREEN else found)))
    counts[""] += len(rows)
    connection.executemany(f"INSERT INTO {kind.words} (rowid, text) VALUES (?, ?)", rows)
    _put_facts(connection, kind, [(key, *facts) for key, _, _, *facts in texts])


def _index_names(
    connection: sqlite3.Connection, files: Sequence[tuple[str | bytes, str]], counts: Counter[str]
) -> list[int]:
    """Add files, given by path and caption, which are new to the index, and count the words of each; their clips."""
    connection.executemany("INSERT OR IGNORE INTO names (path) VALUES (?)", [(path,) for path, _ in files])
    facts = []
    for path, caption in files:
        name_id, clip = connection.execute(
            "SELECT name_id, key FROM names JOIN files USING (path) JOIN clip_keys USING (clip_id) WHERE path = ?",
            (path,),
        ).fetchone()
        name = os.path.basename(path if isinstance(path, str) else path.decode(errors="ignore"))
        texts = " ".join(words(name)), " ".join(words(caption))
        connection.execute("INSERT INTO about (rowid, name, caption) VALUES (?, ?, ?)", (name_id, *texts))
        counts.update(_named(*texts))
        facts.append((name_id, clip, 1.0, 0.0, 0.0))
    _put_facts(connection, ABOUT, sorted(facts))
    return [clip for _, clip, *_ in facts]


def _named(name: str, caption: str) -> Counter[str]:
    """The words of a name and a caption that the vocabulary counts, each once, and '' for the file."""
    found = {word for word in f"{name} {caption}".split() if not any(letter.isdigit() for letter in word)}
    return Counter({"", *found})


def _put_facts(connection: sqlite3.Connection, kind: TextKind, facts: Sequence[Sequence[float]]) -> None:
    """Write number, clip, confidence, start and end of texts, in rising order, into their blocks."""
    for block, found in groupby(facts, lambda row: row[0] // BLOCK):
        rows = list(found)
        stored = connection.execute(f"SELECT facts FROM {kind.blocks} WHERE block = ?", (block,)).fetchone()
        values = np.zeros(BLOCK, FACTS) if stored is None else np.frombuffer(stored[0], FACTS).copy()
        values[[int(row[0]) % BLOCK for row in rows]] = [tuple(row[1:]) for row in rows]
        if values["clip"].any():
            connection.execute(f"INSERT OR REPLACE INTO {kind.blocks} VALUES (?, ?)", (block, values.tobytes()))
        else:
            connection.execute(f"DELETE FROM {kind.blocks} WHERE block = ?", (block,))


def read_facts(connection: sqlite3.Connection, kind: TextKind, rows: Indices) -> NDArray[np.void]:
    """Read the facts (`FACTS`) of N texts by their numbers, rising: (N,)."""
    first = np.flatnonzero(np.diff(rows // BLOCK, prepend=-1))
    blocks = (rows[first] // BLOCK).tolist()
    stored = connection.execute(
        f"SELECT block, facts FROM {kind.blocks} WHERE block IN (SELECT value FROM json_each(?))", (json.dumps(blocks),)
    )
    there, empty = dict(stored.fetchall()), bytes(FACTS.itemsize * BLOCK)
    values = np.frombuffer(b"".join(there.get(block, empty) for block in blocks), FACTS)
    place = np.repeat(np.arange(len(first)), np.diff(first, append=len(rows)))
    found: NDArray[np.void] = values[place * BLOCK + rows % BLOCK]
    return found


def _count_words(connection: sqlite3.Connection, kind: TextKind, counts: Counter[str], sign: int = 1) -> None:
    if not counts:
        return
    change = _next_change(connection, kind.vocabulary)
    connection.executemany(
        f"INSERT INTO {kind.vocabulary} VALUES (?, ?, ?)"
        " ON CONFLICT (word) DO UPDATE SET texts = max(0, texts + excluded.texts), change = excluded.change",
        [(word, sign * texts, change) for word, texts in counts.items()],
    )


def _next_change(connection: sqlite3.Connection, table: str) -> int:
    """A number above all that a reader can have seen of a table, also of one that has been made anew since."""
    (last,) = connection.execute(f"SELECT coalesce(max(change), 0) FROM {table}").fetchone()
    return max(int(last) + 1, time.time_ns())
