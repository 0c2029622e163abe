"""Of a tokenizer of hundreds of thousands of pieces, one of those that a few captions can hold: it opens at once.

Byte pairs are merged where they meet, so only pieces that a caption contains and merges of these can have a part in it.
A file in the cache folder has them all with their numbers; the whole tokenizer is opened where captions are many.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evenreel.errors import EncoderError
from evenreel.files import replacing

LEAST_PIECES = 100_000  # of a tokenizer that takes long to open
MOST_LETTERS = 400  # of captions that are few
_MARK = re.compile(r"<.+>|\[.+\]")  # such as that of padding, or of a byte


def pieces_file(tokenizer: Path) -> Path:
    """Where the pieces of a tokenizer are kept, as its file is now."""
    from platformdirs import user_cache_path

    one = os.stat(tokenizer)
    state = str(tokenizer.resolve()), one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns
    digest = hashlib.sha256(repr(state).encode("utf-8", "surrogateescape")).hexdigest()
    return user_cache_path("evenreel") / "models" / f"{digest}.pieces"


def write_pieces(tokenizer: Path, out: Path) -> bool:
    """Write the file of a tokenizer of byte pairs that is large; return whether it is one."""
    rules = json.loads(tokenizer.read_text(encoding="utf-8"))
    model = rules["model"]
    vocabulary, merges = model.get("vocab", {}), model.get("merges", ())
    marks = (model.get(name) for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"))
    if len(vocabulary) < LEAST_PIECES or not merges or any(marks):
        return False
    in_pairs = (one.split(" ", 1) if isinstance(one, str) else one for one in merges)
    ranks = ((_pair(vocabulary[left], vocabulary[right]), rank) for rank, (left, right) in enumerate(in_pairs))
    added = {one["content"]: one["id"] for one in rules.get("added_tokens", ())}
    always = {piece: number for piece, number in vocabulary.items() if _MARK.fullmatch(piece)} | added
    if (unknown := model.get("unk_token")) is not None:
        always[unknown] = vocabulary[unknown]
    rules["model"] = {**model, "vocab": always, "merges": []}
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as part, contextlib.closing(sqlite3.connect(part)) as store, store:
        store.execute("CREATE TABLE rules(content TEXT, longest INTEGER)")
        store.execute("CREATE TABLE pieces(piece TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID")
        store.execute("CREATE TABLE merges(pair INTEGER PRIMARY KEY, rank INTEGER)")
        store.execute("INSERT INTO rules VALUES (?, ?)", (json.dumps(rules), max(map(len, vocabulary))))
        store.executemany("INSERT INTO pieces VALUES (?, ?)", vocabulary.items())
        store.executemany("INSERT OR IGNORE INTO merges VALUES (?, ?)", ranks)
    return True


def small_tokenizer(path: Path, captions: Sequence[str], set_up: Callable[[Any], Any]) -> Any | None:
    """Open a tokenizer that cuts these captions as the whole one does; None where that takes the whole one.

    Args:
        path: the file of pieces.
        captions: sentences, few of them.
        set_up: makes a tokenizer normalise, cut and fill up captions as its model was trained, and returns it.
    """
    from tokenizers import Tokenizer

    if sum(map(len, captions)) > MOST_LETTERS or not path.is_file():
        return None
    with (
        contextlib.suppress(sqlite3.Error, EncoderError),  # of a damaged file, and of padding by a piece without a mark
        contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as store,
    ):
        content, longest = store.execute("SELECT content, longest FROM rules").fetchone()
        rules = json.loads(content)
        empty, vocabulary = set_up(Tokenizer.from_str(content)), rules["model"]["vocab"]
        texts = [empty.normalizer.normalize_str(one) if empty.normalizer else one for one in captions]
        if any(one["content"] in text for one in rules["added_tokens"] for text in (*captions, *texts)):
            return None  # around which a caption is cut before it is normalised
        cutter = empty.pre_tokenizer
        parts = [part for text in texts for part, _ in (cutter.pre_tokenize_str(text) if cutter else [(text, ())])]
        inside = {
            part[start:stop]
            for part in parts
            for start in range(len(part))
            for stop in range(start + 1, min(start + longest, len(part)) + 1)
        }
        asked = "SELECT {0}.* FROM json_each(?) JOIN {0} ON {1} = value"
        found = dict(store.execute(asked.format("pieces", "piece"), [json.dumps(sorted(inside))]))
        pairs = {
            _pair(found[left], found[right]): [left, right]
            for piece in found
            for left, right in ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
            if left in found and right in found
        }
        ranks = dict(store.execute(asked.format("merges", "pair"), [json.dumps(list(pairs))]))
        merges = [pairs[pair] for pair in sorted(ranks, key=ranks.__getitem__)]
        rules["model"] |= {"vocab": vocabulary | found, "merges": merges}
        return set_up(Tokenizer.from_str(json.dumps(rules)))
    return None


def _pair(left: int, right: int) -> int:
    return left << 31 | right
