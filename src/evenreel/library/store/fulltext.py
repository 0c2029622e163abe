"""The word indexes of a library, kept in step with its tables `tracks`, `utterances` and `files`.

Every function works inside the caller's transaction. The indexes are derived: `rebuild_full_text` makes from
nothing what the incremental calls made step by step.

Words are folded before they are stored and before they are looked up (case, width, accents), and stored
joined by spaces, so that SQLite's tokenizer sees the words this module sees. Three vocabularies say which words there
are: `SIGNS` counts on how many tracks each is, that of `SAID` in how many utterances, `NAMES` in how many names with
their captions; words of names and captions with digits in them, of which a camera makes a new one for each file, are
left out. Words stand in the trigrams of a vocabulary between two spaces: then a word of n letters with k errors still
shares one of its n trigrams with the right spelling whenever n > 4k, as one error destroys three trigrams at most, and
two letters that have changed places four.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable

from evenreel.language import folding
from evenreel.language.folding import words
from evenreel.library.store.schema import FULL_TEXT, lay_down
from evenreel.library.store.timed_texts import ON_SCREEN, SAID, TimedTexts, Vocabulary
from evenreel.library.store.track_blocks import facts_of, fill_blocks, put_tracks, take_tracks
from evenreel.types import Metadata

MAX_CONTENT_WORDS = 50
TEXT_OF = {ON_SCREEN: "text, readings", SAID: "text, '[]'"}
"""Kinds of text with times, each with SQL for a text and the list of its other readings, in JSON."""

AT_ONCE = 10_000
"""Texts, or files, that are read together where all are indexed anew."""

MAX_COUNTED = 500_000
"""Most words that are counted in memory there before they are written."""

SHADOWS = ("data", "idx", "content", "docsize", "config")
"""Endings of the tables in which FTS5 keeps a table of its own."""


SIGNS = ON_SCREEN.vocabulary
NAMES = Vocabulary("name_words", "files", "name_trigrams")


def content_words(text: str) -> list[str]:
    """Return the distinct words of a query that carry meaning, at most 50; all its words where none does."""
    return folding.content_words(text)[:MAX_CONTENT_WORDS]


def phrase(text: str) -> str:
    """Quote text as one FTS5 string, in which nothing is syntax.

    Example:
        >>> print(phrase('say "NEAR"*'))
        "say ""NEAR""*"
    """
    return '"' + text.replace('"', '""') + '"'


def padded(word: str) -> str:
    """Put a space on either side of a word, as the index of trigrams has it."""
    return f" {word} "


def index_clip_text(connection: sqlite3.Connection, clip_id: str) -> None:
    """Add the tracks and utterances of a clip, all of which must be new to the indexes."""
    for kind in TEXT_OF:
        index_texts(connection, kind, clip_id)


def index_texts(connection: sqlite3.Connection, kind: TimedTexts, clip_id: str) -> None:
    """Add the texts of a clip of one kind, all of which must be new to the indexes."""
    counts: Counter[str] = Counter()
    rows = connection.execute(f"{_texts_of(kind)} WHERE clip_id = ?", (clip_id,)).fetchall()
    _index_rows(connection, kind, rows, counts)
    _add_words(connection, kind.vocabulary, counts)
    facts = f"SELECT {facts_of(kind)} FROM {kind.table} WHERE clip_id = ? ORDER BY {kind.key}"
    put_tracks(connection, kind, connection.execute(facts, (clip_id,)).fetchall())


def _texts_of(kind: TimedTexts) -> str:
    return f"SELECT {kind.key}, {TEXT_OF[kind]} FROM {kind.table}"


def _index_rows(
    connection: sqlite3.Connection, kind: TimedTexts, texts: Iterable[tuple[int, str, str]], counts: Counter[str]
) -> None:
    """Add texts, given by id, text and readings, to the word index of their kind, and count the words of each."""
    rows = []
    for key, text, readings in texts:
        found = words(" ".join([text, *json.loads(readings)]))
        once = dict.fromkeys(found)
        counts.update(once.keys())
        rows.append((key, " ".join(once if kind is ON_SCREEN else found)))
    connection.executemany(f"INSERT INTO {kind.words} (rowid, text) VALUES (?, ?)", rows)


def remove_clip_text(connection: sqlite3.Connection, clip_id: str) -> None:
    """Remove the tracks and utterances of a clip while their tables have them; what is not indexed is no error."""
    for kind in TEXT_OF:
        remove_texts(connection, kind, clip_id)


def remove_texts(connection: sqlite3.Connection, kind: TimedTexts, clip_id: str) -> None:
    """Remove the texts of a clip of one kind from the indexes while their table has them."""
    rows = connection.execute(
        f"SELECT {kind.key}, {kind.words}.text FROM {kind.table} JOIN {kind.words} ON {kind.words}.rowid = {kind.key}"
        " WHERE clip_id = ?",
        (clip_id,),
    ).fetchall()
    connection.executemany(f"DELETE FROM {kind.words} WHERE rowid = ?", [(key,) for key, _ in rows])
    take_tracks(connection, kind, [key for key, _ in rows])
    _take_words(connection, kind.vocabulary, Counter(word for _, text in rows for word in set(text.split())))


def index_about(connection: sqlite3.Connection, path: str | bytes, caption: str) -> None:
    """Add or replace the name and the given caption of a file; `path` as in `files.path`."""
    remove_about(connection, path)
    name = os.path.basename(path if isinstance(path, str) else path.decode(errors="ignore"))
    name, caption = " ".join(words(name)), " ".join(words(caption))
    connection.execute(
        "INSERT INTO about (rowid, path, name, caption) VALUES (?, ?, ?, ?)", (about_row(path), path, name, caption)
    )
    _add_words(connection, NAMES, _named(name, caption))


def remove_about(connection: sqlite3.Connection, path: str | bytes) -> None:
    """Remove a file from the index of names and captions; one that is not there is no error."""
    row = connection.execute("SELECT name, caption FROM about WHERE rowid = ?", (about_row(path),)).fetchone()
    if row is not None:
        connection.execute("DELETE FROM about WHERE rowid = ?", (about_row(path),))
        _take_words(connection, NAMES, _named(*row))


def count_names(connection: sqlite3.Connection) -> None:
    """Count the words of all indexed names and captions, none of which was counted before."""
    counts: Counter[str] = Counter()
    for name, caption in connection.execute("SELECT name, caption FROM about"):
        counts.update(_named(name, caption))
    _add_words(connection, NAMES, counts)


def _named(name: str, caption: str) -> Counter[str]:
    """The words of a name and a caption that the vocabulary counts, each once."""
    found = {word for word in f"{name} {caption}".split() if not any(letter.isdigit() for letter in word)}
    return Counter(found)


def caption_of(metadata: Metadata) -> str:
    """Return the caption in the metadata of a file, '' where there is none."""
    return str(metadata.get("caption") or "")


def rebuild_full_text(connection: sqlite3.Connection) -> None:
    """Rebuild all word indexes from `tracks`, `utterances` and `files`, whatever state they are in."""
    clear_full_text(connection)
    fill_full_text(connection)


def clear_full_text(connection: sqlite3.Connection) -> None:
    """Replace the word indexes by empty ones, whatever state they are in."""
    for table in FULL_TEXT:
        _drop(connection, table)
    lay_down(connection)


def fill_full_text(connection: sqlite3.Connection) -> None:
    """Index all of `tracks`, `utterances` and `files` into empty word indexes."""
    for kind in TEXT_OF:
        _fill_texts(connection, kind)
    files = connection.execute("SELECT path, metadata FROM files WHERE state = 'indexed'")
    while named := files.fetchmany(AT_ONCE):
        for path, metadata in named:
            index_about(connection, path, caption_of(json.loads(metadata)))


def _fill_texts(connection: sqlite3.Connection, kind: TimedTexts) -> None:
    """Index all texts of a kind into an empty word index."""
    texts = connection.execute(f"{_texts_of(kind)} ORDER BY {kind.key}")
    counts: Counter[str] = Counter()
    while some := texts.fetchmany(AT_ONCE):
        _index_rows(connection, kind, some, counts)
        if len(counts) > MAX_COUNTED:
            _add_words(connection, kind.vocabulary, counts)
            counts.clear()
    _add_words(connection, kind.vocabulary, counts)
    fill_blocks(connection, kind)


def _drop(connection: sqlite3.Connection, table: str) -> None:
    """Drop a table, also one that FTS5 is too confused about to drop it."""
    try:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    except sqlite3.DatabaseError:
        # FTS5 opens a table to drop it. Without its entry in the schema, what it was made of are plain tables.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", (table,))
        connection.execute("PRAGMA writable_schema = RESET")
    for shadow in SHADOWS:
        connection.execute(f"DROP TABLE IF EXISTS {table}_{shadow}")


def about_row(path: str | bytes) -> int:
    """Return the row number in `about` that only this path has: FTS5 cannot look a path up, but a row number."""
    # UTF-8 whatever the locale: the number is kept in the catalog, and another day's locale has to find it.
    name = path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 1


def _add_words(connection: sqlite3.Connection, vocabulary: Vocabulary, counts: Counter[str]) -> None:
    """Count words in; a word that is new gets its trigrams."""
    words, column, trigrams = vocabulary
    for word, texts in counts.items():
        known = connection.execute(f"UPDATE {words} SET {column} = {column} + ? WHERE word = ?", (texts, word)).rowcount
        if not known:
            connection.execute(f"INSERT INTO {words} VALUES (?, ?)", (word, texts))
            connection.execute(f"INSERT INTO {trigrams} (word) VALUES (?)", (padded(word),))


def _take_words(connection: sqlite3.Connection, vocabulary: Vocabulary, counts: Counter[str]) -> None:
    """Count words out; a word that nothing has any more leaves the vocabulary."""
    words, column, trigrams = vocabulary
    connection.executemany(
        f"UPDATE {words} SET {column} = {column} - ? WHERE word = ?", [(texts, word) for word, texts in counts.items()]
    )
    for word in counts:
        gone = connection.execute(f"DELETE FROM {words} WHERE word = ? AND {column} <= 0", (word,)).rowcount
        if gone:
            connection.execute(
                f"DELETE FROM {trigrams} WHERE rowid IN"
                f" (SELECT rowid FROM {trigrams} WHERE {trigrams} MATCH ? AND word = ?)",
                (phrase(padded(word)), padded(word)),
            )
