"""What the texts of a library mean: windows of what is said, written on screen and captioned, and their vectors.

A window is neighbouring lines of one source, some 17 words in all: half a sentence of a subtitle says little, and a
long stretch is about too much. The length was chosen on lines made of captions (`benchmarks/meaning.py`), which find
their clip less often the longer windows are; one of a single line would cost twice as much. None goes over a pause,
nor from one transcript to the next. Windows are not stored: they follow from the texts. The rows of a clip are dropped
with the first of its texts that changes, in one transaction, and the end of an index run encodes what has none.
"""

from __future__ import annotations

import logging
import sqlite3
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from evenreel.config import AUTO
from evenreel.errors import EncoderError
from evenreel.extras import to_install
from evenreel.library.store.catalog import get_meta, set_meta
from evenreel.library.store.fulltext import note_clips
from evenreel.library.store.vectors import MEANINGS
from evenreel.library.store.writer import Store, drop_rows, open_vectors, vectors_path
from evenreel.meaning import WORDLLAMA, TextModel, load_text_model, locate_text_model

TextSource = Literal["said", "on_screen", "about"]

MOST_LETTERS = 100  # of a window: 17 words of English, two sentences of Chinese
PAUSE_S = 10.0
CLIPS_AT_ONCE = 256
_CAPTION = "CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.caption') END"
_LINES: dict[TextSource, str] = {
    "said": "SELECT text, start_s, end_s, transcript FROM utterances WHERE clip_id = ? ORDER BY transcript, number",
    "on_screen": "SELECT text, start_s, end_s, 0 FROM tracks WHERE clip_id = ? ORDER BY start_s, number",
    "about": f"SELECT {_CAPTION} AS caption, 0.0, 0.0, min(path) FROM files"
    " WHERE clip_id = ? AND state = 'indexed' AND caption <> '' GROUP BY 1 ORDER BY min(path)",
}
_WITH_TEXTS = (
    "SELECT clip_id FROM clips WHERE (EXISTS (SELECT 1 FROM utterances AS said WHERE said.clip_id = clips.clip_id)"
    " OR EXISTS (SELECT 1 FROM tracks WHERE tracks.clip_id = clips.clip_id) OR EXISTS (SELECT 1 FROM files"
    f" WHERE files.clip_id = clips.clip_id AND state = 'indexed' AND {_CAPTION} <> ''))"
)

log = logging.getLogger("evenreel")


class Line(NamedTuple):
    text: str
    start_s: float
    end_s: float


class Window(NamedTuple):
    source: TextSource
    lines: list[Line]

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines)


def windows_of(connection: sqlite3.Connection, clip_id: str) -> list[Window]:
    """Return the windows of a clip's texts: of what is said, then of what is on screen, then of captions."""
    found: list[Window] = []
    for source, sql in _LINES.items():
        before, letters = None, 0
        for text, start_s, end_s, part in connection.execute(sql, (clip_id,)):
            line = " ".join(str(text).split())
            for piece in [line] if len(line) <= MOST_LETTERS else textwrap.wrap(line, MOST_LETTERS):
                if not any(map(str.isalpha, piece)):
                    continue
                goes_on = before is not None and before[1] == part and start_s - before[0] <= PAUSE_S
                if not goes_on or letters + len(piece) > MOST_LETTERS:
                    found.append(Window(source, []))
                    letters = 0
                found[-1].lines.append(Line(piece, start_s, end_s))
                before, letters = (end_s, part), letters + 1 + len(piece)
    return found


def counts_of(windows: Sequence[Window]) -> tuple[int, int, int]:
    """Return how many windows there are, how many of what is said, and how many of what is on screen."""
    sources = [one.source for one in windows]
    return len(windows), sources.count("said"), sources.count("on_screen")


def _put_meanings(library: Path, connection: sqlite3.Connection, name: str, clip_ids: Sequence[str]) -> int:
    """Encode the texts of clips without rows, in the caller's transaction; return how many have any."""
    windows = {clip_id: found for clip_id in clip_ids if (found := windows_of(connection, clip_id))}
    meta = get_meta(connection)
    vectors = open_vectors(library, meta, MEANINGS)
    if not windows or vectors is None:
        return 0
    encoded = load_text_model(name).encode([one.text for found in windows.values() for one in found])
    row = vectors.append(encoded, at_row=int(MEANINGS.own(meta)["vectors_end"]))
    for clip_id, found in windows.items():
        values = clip_id, row, *counts_of(found)
        connection.execute("INSERT INTO meaning_rows VALUES (?, ?, ?, ?, ?)", values)
        row += len(found)
    set_meta(connection, MEANINGS.named({"vectors_end": str(row)}))
    note_clips(connection, list(windows))
    return len(windows)


def model_of(own: Mapping[str, str]) -> TextModel | None:
    """Load the model of a library's texts; None where it is not on this machine, or has other weights."""
    with suppress(EncoderError):
        if not own.get("weights_hash") or not locate_text_model(own["encoder_id"], here=True):
            return None
        model = load_text_model(own["encoder_id"])
        return model if model.weights_hash == own["weights_hash"] else None
    return None


def _lacking(connection: sqlite3.Connection) -> list[str]:
    """Return the clips with texts that have no rows."""
    found = connection.execute(f"{_WITH_TEXTS} AND clip_id NOT IN (SELECT clip_id FROM meaning_rows) ORDER BY clip_id")
    return [clip_id for (clip_id,) in found]


def without_meaning(connection: sqlite3.Connection, meta: Mapping[str, str]) -> str | None:
    """Return a sentence where texts are searched by their words alone, and not because a person wants it so."""
    name = (own := MEANINGS.own(meta)).get("encoder_id", WORDLLAMA)
    if not name or not (own or connection.execute(f"{_WITH_TEXTS} LIMIT 1").fetchone()):
        return None
    remedy = "run evenreel index once more"
    try:
        if locate_text_model(name, here=True).digest() == own.get("weights_hash"):
            return None
    except EncoderError:
        remedy = f"{to_install('meaning')}, then {remedy}" if name == WORDLLAMA else f"{name} is not on this machine"
    return f"What is said and written is searched by its words, not by its meaning: {remedy}."


def update_meanings(
    store: Store,
    name: str | None = AUTO,
    told: Callable[[int], None] = lambda clips: None,
    halted: Callable[[], bool] = lambda: False,
) -> int:
    """Encode what has no rows, by the model that is named, the library's own or the default; return how many clips.

    A model of another digest than the rows' encodes all anew. None drops them, and is kept as a model without a name.
    """
    own = MEANINGS.own(store.meta())
    if name is None:
        with store.changing() as connection:
            drop_rows(connection, MEANINGS)
            connection.execute("DELETE FROM meta WHERE key GLOB ?", (f"{MEANINGS.prefix}*",))
            set_meta(connection, MEANINGS.named({"encoder_id": ""}))
        vectors_path(store.library, MEANINGS.named(own), MEANINGS).unlink(missing_ok=True)
        return 0
    if name == AUTO:
        if not (name := own.get("encoder_id", WORDLLAMA)):
            return 0
        try:
            locate_text_model(name, here=True)
        except EncoderError:
            if own:
                log.warning("The model of texts %s is not here, so new texts are found by their words alone.", name)
            return 0
    if not own and not _lacking(store.connection):
        return 0
    if own.get("weights_hash") != locate_text_model(name).digest():
        load_text_model.cache_clear()  # its files may have changed since this process read them
        store.begin_matrix(MEANINGS, load_text_model(name))
    clip_ids, encoded = _lacking(store.connection), 0
    if clip_ids:
        told(len(clip_ids))
    for start in range(0, len(clip_ids), CLIPS_AT_ONCE):
        if halted():
            return encoded
        with store.changing() as connection:
            encoded += _put_meanings(store.library, connection, name, clip_ids[start : start + CLIPS_AT_ONCE])
    if not store.null_scores_hold(MEANINGS):
        store.update_null_scores(load_text_model(name), MEANINGS)
    return encoded
