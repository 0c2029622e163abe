"""How well words are found that are typed in another way than they are written, and what a keystroke costs.

    python benchmarks/words.py [FOLDER] [--queries 300] [--seed 0]

FOLDER has TextVR_test.json (2,727 videos with a caption each). Annotators of TextVR wrote in capitals what they read on
the screen: these words are the signs of a video here, its caption is the caption of its file. A tenth of the signs with
two words is written without the space, as recognisers do. No frames are searched.

A query is one or two words of a sign or a caption, typed as they are or in another way; a clip is right if the words
are written there as they were meant. For each way: the share of queries whose first clip is right, the share that has a
right clip among the first ten that answer, and the share of right ones among these.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from evenreel.language.folding import stop_words, words
from evenreel.library.search.query import Query, UnfinishedText
from evenreel.library.search.searcher import Searcher
from evenreel.library.store.catalog import create_schema
from evenreel.library.store.fulltext import clear_full_text, rebuild_full_text

FIRST = 10
LEAST = 5
"""Letters of a word that is typed in another way."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
JOINED = 0.1

Change = Callable[[str, random.Random], str]


@dataclass(frozen=True)
class Video:
    """What is written on a clip, as it was meant: runs of words; and whether signs lost their spaces."""

    caption: str
    signs: tuple[str, ...]
    joined: bool


def swapped(word: str, chance: random.Random) -> str:
    """Two neighbours change places, neither of them the first."""
    places = [place for place in range(1, len(word) - 1) if word[place] != word[place + 1]]
    if not places:
        return word
    place = chance.choice(places)
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def wrong(word: str, chance: random.Random) -> str:
    """Another letter, not the first."""
    place = chance.randrange(1, len(word))
    return word[:place] + chance.choice(LETTERS.replace(word[place], "")) + word[place + 1 :]


def lacking(word: str, chance: random.Random) -> str:
    """A letter less, not the first."""
    place = chance.randrange(1, len(word))
    return word[:place] + word[place + 1 :]


def other_number(word: str, _: random.Random) -> str:
    """The plural of a singular and the other way round, by rule."""
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else f"{word}s"


ONE: Mapping[str, Change] = {
    "as it is": lambda word, _: word,
    "two letters swapped": swapped,
    "a letter wrong": wrong,
    "a letter less": lacking,
    "plural for singular": other_number,
    "3 letters so far": lambda word, _: word[:3],
    "all but 2 letters": lambda word, _: word[:-2],
}
TYPED = ("3 letters so far", "all but 2 letters")
TWO: Mapping[str, Change] = {
    "two words": lambda pair, _: pair,
    "two words without space": lambda pair, _: pair.replace(" ", ""),
}


def read_videos(path: Path, seed: int) -> list[Video]:
    """The videos of TextVR."""
    chance = random.Random(seed)
    videos = []
    for row in json.loads(path.read_text(encoding="utf-8")):
        caption = row["captions_info"][0]["caption"].strip()
        signs = tuple(found.strip() for found in re.findall(r"(?:\b[A-Z][A-Z]+\b[ ]?)+", caption))
        videos.append(Video(caption, signs, chance.random() < JOINED))
    return videos


def fill(connection: sqlite3.Connection, videos: Sequence[Video], source: str) -> None:
    """A catalog of the videos, with what is written in one source only."""
    create_schema(connection)
    for number, video in enumerate(videos):
        clip_id = f"{number:08d}"
        connection.execute("INSERT INTO clips VALUES (?, 'mp4', 'h264', 640, 360, 12, 25, 0, 1, '[]', '')", (clip_id,))
        caption = json.dumps({"caption": video.caption} if source == "captions" else {})
        connection.execute(
            "INSERT INTO files VALUES (?, ?, '/', 1, 1, 1, 'indexed', ?, NULL, NULL, ?)",
            (f"/{number}.mp4", f"{number}.mp4", clip_id, caption),
        )
        for place, sign in enumerate(video.signs if source == "signs" else ()):
            text = sign.replace(" ", "") if video.joined else sign
            connection.execute(
                "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
                " VALUES (?, ?, ?, ?, 0.9, ?, ?, '[0, 0, 1, 1]')",
                (clip_id, place, text, json.dumps([text]), place, place + 1),
            )
    rebuild_full_text(connection)


def texts_of(video: Video, source: str) -> list[list[str]]:
    """The words of each text of a video, folded."""
    return [words(text) for text in (video.signs if source == "signs" else (video.caption,))]


def is_plain(word: str) -> bool:
    """Whether a word is one that can be typed in another way."""
    return len(word) >= LEAST and word.isascii() and word.isalpha() and word not in stop_words()


def asked_words(videos: Sequence[Video], source: str) -> tuple[list[str], list[str]]:
    """All words, and all pairs of neighbours, that a query may be of."""
    texts = [text for video in videos for text in texts_of(video, source)]
    one = {word for text in texts for word in text if is_plain(word)}
    two = {f"{a} {b}" for text in texts for a, b in pairwise(text) if is_plain(a) and is_plain(b)}
    return sorted(one), sorted(two)


def right_clips(videos: Sequence[Video], source: str) -> Callable[[str], set[str]]:
    """Which clips have a word, or two side by side."""
    written = [[f" {' '.join(text)} " for text in texts_of(video, source)] for video in videos]

    def right(meant: str) -> set[str]:
        return {f"{n:08d}" for n, texts in enumerate(written) if any(f" {meant} " in text for text in texts)}

    return right


def keystrokes(query: str) -> Iterator[str]:
    """What is in the field after each letter, from the second on."""
    return (query[:end] for end in range(2, len(query) + 1))


def report(connection: sqlite3.Connection, videos: Sequence[Video], source: str, options: argparse.Namespace) -> None:
    """Quality for each way of typing, then the cost of a keystroke and the size of the index."""
    searcher = Searcher(connection, lambda _: None, lambda: None)
    one, two = asked_words(videos, source)
    right = right_clips(videos, source)
    print(f"\n{source}: {len(one)} words, {len(two)} pairs")
    print(f"{'typed':<26}{'first is right':>16}{'right is found':>16}{'of found, right':>17}")
    for ways, meanings in ((ONE, one), (TWO, two)):
        for name, change in ways.items():
            chance = random.Random(options.seed)
            chosen = chance.sample(meanings, min(options.queries, len(meanings)))
            first, found, precise, shown = 0, 0, 0, 0
            for meant in chosen:
                typed = change(meant, chance)
                query = Query(UnfinishedText(typed) if name in TYPED else typed, k=FIRST)
                hits = [hit.clip_id for hit in searcher.search(query).hits if hit.weaker is False]
                good = right(meant)
                first += hits[:1] != [] and hits[0] in good
                found += bool(good & set(hits))
                precise, shown = precise + len(good & set(hits)), shown + len(hits)
            share = f"{precise / shown:>17.1%}" if shown else f"{'-':>17}"
            print(f"{name:<26}{first / len(chosen):>16.1%}{found / len(chosen):>16.1%}{share}")
    cost(searcher, random.Random(options.seed).sample(two, min(60, len(two))))


def cost(searcher: Searcher, queries: Sequence[str]) -> None:
    """Processor time of the searches that typing two words asks for."""
    times_ms = []
    for query in queries:
        for typed in keystrokes(query):
            start = time.process_time()
            searcher.search(Query(UnfinishedText(typed), k=24))
            times_ms.append(1e3 * (time.process_time() - start))
    ordered = sorted(times_ms)
    print(f"a keystroke: median {median(ordered):.2f} ms, 95 of 100 within {ordered[int(0.95 * len(ordered))]:.2f} ms")


def size_of(path: Path) -> int:
    """Bytes of a catalog, all of it used."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("VACUUM")
    return path.stat().st_size


def main() -> int:
    """Both sources."""
    options = _options()
    path = options.folder / "TextVR_test.json"
    if not path.is_file():
        print(
            f"No {path.name} in {options.folder}: name the folder of TextVR, or set EVENREEL_DATA to the data folder."
        )
        return 0
    videos = read_videos(path, options.seed)
    for source in ("signs", "captions"):
        with tempfile.TemporaryDirectory() as folder:
            catalog = Path(folder) / "catalog.sqlite"
            with closing(sqlite3.connect(catalog, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = OFF")
                start = time.process_time()
                fill(connection, videos, source)
                filled_s = time.process_time() - start
                report(connection, videos, source, options)
            whole = size_of(catalog)
            with closing(sqlite3.connect(catalog, isolation_level=None)) as connection:
                clear_full_text(connection)
            print(
                f"catalog made in {filled_s:.1f} s; its indexes of words: {(whole - size_of(catalog)) / 2**10:.0f} KiB"
            )
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    data = Path(os.environ.get("EVENREEL_DATA", beside))
    parser.add_argument("folder", type=Path, nargs="?", default=data / "textvr")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
