"""Words on screen at 2,000,000 tracks: a query, building, appending and size, against three alternatives in one run.

    python -m benchmarks.words_scale [--clips 666000] [--signs 3] [--queries 9] [--catalog FILE] [--threads 16]
    python -m benchmarks.words_scale --share [--clips 2000]

Signs have five words of a vocabulary of 60,000 by Zipf's law, the most common one on a third of all tracks. A tenth of
the words is misread (letters swapped, lost or confused), which makes the vocabulary several times as large.
FILE keeps the catalog for another run. For each kind of query: median and p95 of

- ours: `words.score`, with the spellings that are looked for, and the first ten clips' signs;
- FTS5: its own bm25, the first ten tracks with the word as it is typed, which is the floor of what SQLite can do;
- tantivy (where it is installed): its bm25, the first ten, within one error for misread words.

Then whole searches by words alone (`Searcher.search`: names, ranks, states, what is shown), by one thread and by as
many threads as are named, each with a connection of its own, none of them pausing. The second form says which share of
whole queries with frames the words take, on the made-up library of `benchmarks/served_library.py`.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.made_up_library import made_up_words as served_words
from benchmarks.serve import different
from benchmarks.served_library import make_up_library, planted
from evenreel.encoders import load_encoder
from evenreel.library import open_library
from evenreel.library.search import searcher
from evenreel.library.search import words as module
from evenreel.library.search.query import Query, UnfinishedText
from evenreel.library.search.searcher import Searcher
from evenreel.library.search.snapshot import SnapshotReader
from evenreel.library.store.catalog import create_schema, transaction
from evenreel.library.store.fulltext import fill_full_text, index_clip_text, phrase

VOCABULARY, WORDS, MISREAD, AT_ONCE = 60_000, 5, 0.1, 20_000
CONFUSED = {"o": "0", "l": "1", "s": "5", "b": "8", "g": "9", "e": "c", "u": "v", "m": "rn", "d": "cl", "w": "vv"}
BOX = "[0, 0, 1, 1]"
TRACK = (
    "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
    f" VALUES (?, ?, ?, ?, ?, ?, ?, '{BOX}')"
)


def made_up_words(generator: np.random.Generator) -> list[str]:
    first = "b c d f g h j k l m n p r s t v w z st tr ch sh th br gr pl".split()  # noqa: SIM905
    middle, last = [*"aeiou", "ea", "ou", "ai", "ie"], ["", *"nrstld", "ng", "rd", "st", "er"]
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        syllables = (generator.choice(first) + generator.choice(middle) for _ in range(generator.integers(1, 5)))
        word = "".join(syllables) + str(generator.choice(last))
        if 3 <= len(word) <= 14:
            found[word] = None
    return list(found)


def misread(word: str, generator: np.random.Generator) -> str:
    """Two letters swapped, one lost, or one taken for another."""
    kind, at = generator.integers(3), int(generator.integers(len(word)))
    if kind == 0:
        return word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
    if kind == 1:
        return word[:at] + word[at + 1 :]
    return word[:at] + CONFUSED.get(word[at], "x") + word[at + 1 :]


def fill(connection: sqlite3.Connection, words: Sequence[str], clips: int, signs: int) -> None:
    """Rows of clips, files named after three words, and signs; no index."""
    generator = np.random.default_rng(0)
    shares = np.cumsum(1 / np.arange(1, len(words) + 1))
    for first in range(0, clips, AT_ONCE):
        some = range(first, min(first + AT_ONCE, clips))
        drawn = np.searchsorted(shares / shares[-1], generator.random((len(some), signs, WORDS)))
        named = np.searchsorted(shares / shares[-1], generator.random((len(some), 3)))
        wrong = generator.random(drawn.shape) < MISREAD
        confidence, start = generator.uniform(0.5, 1, drawn.shape[:2]), generator.uniform(0, 120, drawn.shape[:2])
        for row, number in enumerate(some):
            clip_id, name = f"{number:032x}", "_".join(words[word] for word in named[row])
            connection.execute("INSERT INTO clips VALUES (?, 'mp4', 'h', 1, 1, 12, 25, 0, 1, '[]', '')", (clip_id,))
            connection.execute(
                "INSERT INTO files VALUES (?, ?, '/', 1, 1, 1, 'indexed', ?, NULL, NULL, '{}')",
                (f"/videos/{name}_{number}.mp4", f"{name}_{number}.mp4", clip_id),
            )
            for sign in range(signs):
                text = [words[word] for word in drawn[row, sign]]
                for place in np.flatnonzero(wrong[row, sign]):
                    text[place] = misread(text[place], generator)
                written = " ".join(text).upper()
                at = float(start[row, sign])
                values = clip_id, sign, written, json.dumps([written]), float(confidence[row, sign]), at, at + 2
                connection.execute(TRACK, values)


def fts5(connection: sqlite3.Connection, query: str, *, typing: bool = False, table: str = "track_words") -> object:
    """The first ten texts with any of the words by FTS5's own bm25."""
    typed = " OR ".join(map(phrase, query.split())) + ("*" if typing else "")
    return connection.execute(
        f"SELECT rowid, rank FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT 10", (typed,)
    ).fetchall()


def of_tantivy(connection: sqlite3.Connection, folder: Path) -> Any:
    """An index of all signs; None where tantivy is not installed."""
    try:
        import tantivy
    except ImportError:
        return None
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("track", stored=True, fast=True)
    builder.add_text_field("text", stored=False)
    index = tantivy.Index(builder.build(), path=str(folder))
    start = time.perf_counter()
    writer = index.writer(200_000_000, 1)
    for track_id, text in connection.execute("SELECT track_id, text FROM tracks"):
        writer.add_document(tantivy.Document(track=track_id, text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"tantivy: built in {time.perf_counter() - start:.0f} s, {size / 1e6:.0f} MB", flush=True)
    return index


def search_tantivy(index: Any, kind: str, query: str) -> object:
    import tantivy

    words = query.split()
    if kind == "misread":
        parsed = tantivy.Query.fuzzy_term_query(index.schema, "text", words[0], distance=1)
    elif kind == "begun":
        parsed = tantivy.Query.regex_query(index.schema, "text", f"{words[0]}.*")
    else:
        parsed = index.parse_query(" ".join(words), ["text"])
    return index.searcher().search(parsed, 10).hits


def kinds(words: Sequence[str], queries: int) -> Iterator[tuple[str, list[str]]]:
    """Queries of each kind; the words fall in frequency."""
    generator = np.random.default_rng(1)

    def some(low: int, high: int, least: int = 3) -> list[str]:
        fitting = [word for word in words[low:high] if len(word) >= least]
        return [str(word) for word in generator.choice(fitting, queries)]

    yield "most common", [words[number % 3] for number in range(queries)]
    yield "frequent", some(20, 200)
    yield "rare", some(5_000, VOCABULARY)
    yield "two common", [f"{words[number % 4]} {words[4 + number % 4]}" for number in range(queries)]
    yield (
        "three words",
        [" ".join(three) for three in zip(some(20, 500), some(500, 5_000), some(5_000, VOCABULARY), strict=True)],
    )
    yield "misread", [misread(word, generator) for word in some(200, VOCABULARY, 6)]
    yield "begun", [word[:4] for word in some(20, VOCABULARY, 6)]
    yield "name", some(200, VOCABULARY)
    yield "common name", [words[number % 3] for number in range(queries)]


def timed(call: Callable[[str], object], query: str) -> float:
    start = time.perf_counter()
    call(query)
    return 1e3 * (time.perf_counter() - start)


def told(times: Sequence[float]) -> str:
    return f"{np.median(times):10.1f} {np.quantile(times, 0.95):9.1f}" if times else f"{'-':>10} {'-':>9}"


def report(connection: sqlite3.Connection, words: Sequence[str], options: argparse.Namespace, index: Any) -> None:
    """Time each kind of query in each way, one after another for every query."""
    reader = SnapshotReader(connection, lambda _: None)

    def ours(query: str, typing: bool = False, named: bool = False) -> object:
        asked = Query(UnfinishedText(query) if typing else query)
        with reader.snapshot() as s:
            found = module.score(s, "about" if named else "on_screen", asked, s.there)
            best = np.argsort(-found.scores)[:10].tolist()
            return [] if named else [module.read_texts(s, found, found.best_texts(place)) for place in best]

    start = time.perf_counter()
    ours(words[0])
    print(f"first query for a common word: {time.perf_counter() - start:.2f} s")
    ways = ("ours", "FTS5", "tantivy")
    print(f"{'ms':<14}" + "".join(f"{way + ' median':>15} {'p95':>4}" for way in ways))
    for kind, queries in kinds(words, options.queries):
        typing, named = kind == "begun", "name" in kind

        def own(query: str, typing: bool = typing, named: bool = named) -> object:
            return ours(query, typing, named)

        def floor(query: str, typing: bool = typing, named: bool = named) -> object:
            return fts5(connection, query, typing=typing, table="about" if named else "track_words")

        def theirs(query: str, kind: str = kind) -> object:
            return search_tantivy(index, kind, query)

        times: dict[str, list[float]] = {way: [] for way in ways}
        for query in queries:
            times["ours"].append(timed(own, query))
            times["FTS5"].append(timed(floor, query))
            if index is not None and not named:
                times["tantivy"].append(timed(theirs, query))
        print(f"{kind:<14}" + "".join(told(times[way]) for way in ways), flush=True)


def append(connection: sqlite3.Connection, words: Sequence[str], signs: int, index: Any) -> None:
    """Time adding one clip's signs, on disk when it has ended."""
    ours, theirs = [], []
    for number in range(9):
        clip_id = f"new {time.time_ns()}"
        text = " ".join(words[number * 100 : number * 100 + WORDS])
        start = time.perf_counter()
        with transaction(connection):
            connection.execute("INSERT INTO clips VALUES (?, 'mp4', 'h', 1, 1, 12, 25, 0, 1, '[]', '')", (clip_id,))
            for sign in range(signs):
                connection.execute(TRACK, (clip_id, sign, text, json.dumps([text]), 0.9, 1.0, 2.0))
            index_clip_text(connection, clip_id)
        ours.append(1e3 * (time.perf_counter() - start))
        if index is not None:
            import tantivy

            start = time.perf_counter()
            writer = index.writer(20_000_000, 1)
            for _ in range(signs):
                writer.add_document(tantivy.Document(track=number, text=text))
            writer.commit()
            theirs.append(1e3 * (time.perf_counter() - start))
            writer.wait_merging_threads()
    print(f"a clip's signs added, ms: ours {told(ours)}, tantivy {told(theirs)}")


def at_once(path: Path, words: Sequence[str], threads: int, queries: int) -> None:
    """Time whole searches by words alone, of all kinds in turn, by one thread and by several at once."""
    mixed = [query for several in zip(*(own for _, own in kinds(words, queries)), strict=True) for query in several]
    own = threading.local()

    def search(query: str) -> object:
        if not hasattr(own, "searcher"):
            own.searcher = Searcher(sqlite3.connect(path, isolation_level=None), lambda meta: None, None)
        return own.searcher.search(Query(query))

    for number in (1, threads):
        with ThreadPoolExecutor(number) as pool:
            together = threading.Barrier(number)

            def warm(_: int, together: threading.Barrier = together) -> None:
                together.wait()
                search(words[0])

            list(pool.map(warm, range(number)))
            start = time.perf_counter()
            times = list(pool.map(lambda query: timed(search, query), mixed * (1 if number == 1 else 4)))
            rate = len(times) / (time.perf_counter() - start)
        print(f"searches by words, {number} threads: ms {told(times)}, {rate:.1f} answers a second", flush=True)


def share_of_words(clips: int, queries: int = 300) -> None:
    """Print which share of whole queries with frames the words take, on one thread, the text tower included."""
    spent = dict.fromkeys(("score", "read_texts"), 0.0)

    def watched(place: object, name: str) -> None:
        call = getattr(place, name)

        def timed_call(*given: object, **named: object) -> object:
            start = time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                spent[name] += time.perf_counter() - start

        setattr(place, name, timed_call)

    watched(module, "score")
    watched(searcher, "read_texts")
    captions = different(planted(clips), queries)
    drawn = np.random.default_rng(5).choice(served_words(), len(captions))
    asked = [f"{caption} {word}" for caption, word in zip(captions, drawn, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        library = open_library(make_up_library(clips, Path(folder)), encoder=load_encoder("builtin"))
        library.search(asked[0])
        spent.update(dict.fromkeys(spent, 0.0))
        times = [timed(library.search, query) for query in asked[1:]]
    words = 1e3 * sum(spent.values()) / len(times)
    print(
        f"whole queries of {clips:,} clips, ms: {told(times)}; the words' share {words / np.mean(times):.0%}, of which"
    )
    print(", ".join(f"{name} {1e3 * seconds / len(times):.2f} ms" for name, seconds in spent.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int)
    parser.add_argument("--signs", type=int, default=3)
    parser.add_argument("--queries", type=int, default=9)
    parser.add_argument("--catalog", type=Path)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--share", action="store_true", help="of words in whole queries with frames, nothing else")
    options = parser.parse_args()
    if options.share:
        share_of_words(options.clips or 2_000)
        return
    words = made_up_words(np.random.default_rng(0))
    with tempfile.TemporaryDirectory() as folder:
        path = options.catalog or Path(folder) / "catalog.sqlite"
        is_new = not path.exists()
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        if is_new:
            create_schema(connection)
            with transaction(connection):
                fill(connection, words, options.clips or 666_000, options.signs)
            rows = path.stat().st_size
            start = time.perf_counter()
            with transaction(connection):
                fill_full_text(connection)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            took, size = time.perf_counter() - start, path.stat().st_size - rows
            print(f"word indexes: built in {took:.0f} s, {size / 1e6:.0f} MB beside rows of {rows / 1e6:.0f} MB")
        counts = [
            connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("tracks", "track_vocabulary")
        ]
        print(f"{counts[0]:,} tracks, {counts[1]:,} different words", flush=True)
        (Path(folder) / "tantivy").mkdir()
        index = of_tantivy(connection, Path(folder) / "tantivy")
        report(connection, words, options, index)
        at_once(path, words, options.threads, options.queries)
        append(connection, words, options.signs, index)
        connection.close()


if __name__ == "__main__":
    main()
