"""Which channel to trust: the order of search on a library whose truth is known, and orders by evidence beside it.

    python -m benchmarks.channels [--cases 100] [--libraries 4] [--noise 1.5] [--words 400] [--seed 0]

Rendering, speaking and decoding would take hours and is not what is asked here, so vectors, signs and utterances are
written straight into a catalog; the search is the product's own. Every clip shows a thing of three made-up words, and
has a sign and a sentence of other words. A query of three words is answered by one clip

- `seen`, `on_screen`, `said`: by that channel alone;
- `two`: by its frames, and by what is said or on screen;
- `misled`: by one channel, while two of the three words stand in another channel of another clip.

Words of a query stand by chance on other clips too, the more so the smaller the vocabulary is.

Beside the order of today, weighted reciprocal ranks, stand sums of evidence among clips of one state. Of a channel of
words that is the weight which its rank has today, in `read` times how surely and closely the words stand there. Of
frames it is the share of nonsense that they beat, from half on (`nonsense`), how far from the median of the clips found
to the best they are (`spread`, `read`), the square of that (`squared`), or the product of the two (`both`). Libraries
of even number are to choose on, those of odd number to report: the share of queries whose clip is first, and the gain
on today's with its interval of 95 % over the cases.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from evenreel.arrays import Column
from evenreel.evaluation.intervals import GroupedMean, hits_interval
from evenreel.library.search.query import Query
from evenreel.library.search.searcher import RANK_CONSTANT, Asked, Searcher
from evenreel.library.store.catalog import create_schema
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import ExactVectors, update_null_scores
from evenreel.library.store.writer import put_rows, speech_rows
from evenreel.speech import Transcript, Utterance
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule

SETS = ("seen", "on_screen", "said", "two", "misled")
CHANNELS = ("seen", "on_screen", "said")
DIMENSION, FRAMES = 128, 3
CONFIDENCE = (0.6, 1.0)
SOUNDS = ("bdfgklmnprstvz", "aeiou")

Clip = dict[str, list[str]]


class WordsEncoder:
    """Encodes a caption as the sum of its words' directions, which are random."""

    encoder_id, weights_hash, dimension, window = "planted", "planted", DIMENSION, WindowRule()

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        sums = np.stack([np.sum([self._direction(word) for word in one.lower().split()], axis=0) for one in captions])
        sentence = (sums / np.linalg.norm(sums, axis=1, keepdims=True)).astype(np.float32)
        return TextEmbedding(sentence[:, None], np.ones((len(captions), 1), np.bool_), sentence)

    @staticmethod
    def _direction(word: str) -> Column:
        values: Column = np.random.default_rng(list(word.encode())).standard_normal(DIMENSION)
        return values

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Say of each caption that it is not too long."""
        return [False] * len(captions)

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Refuse: there are no pixels."""
        raise NotImplementedError


def planted(cases: int, vocabulary: int, chance: random.Random) -> tuple[list[Clip], list[tuple[str, int, str]]]:
    """Draw clips, and cases of each set: the query, the number of the clip that answers, the set."""
    every = sorted({"".join(map(chance.choice, SOUNDS * 3)) for _ in range(vocabulary)})
    clips: list[Clip] = []
    found = []
    for kind in SETS * cases:
        query = chance.sample(every, 3)
        right, wrong = ({channel: chance.sample(every, 3) for channel in CHANNELS} for _ in range(2))
        by = kind if kind in CHANNELS else "seen" if kind == "two" else chance.choice(CHANNELS)
        right[by] = query
        if kind == "two":
            right[chance.choice(CHANNELS[1:])] = query
        if kind == "misled":
            wrong[chance.choice([one for one in CHANNELS if one != by])][:2] = chance.sample(query, 2)
        found.append((" ".join(query), len(clips), kind))
        clips += [right, wrong]
    return clips, found


def library_of(clips: Sequence[Clip], folder: Path, noise: float, chance: random.Random) -> Searcher:
    """Write clips into a catalog in memory: three frames, a sign and an utterance each."""
    encoder, vectors = WordsEncoder(), ExactVectors(folder / "vectors.0.f16", DIMENSION)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_schema(connection)
    blurred = np.random.default_rng(chance.getrandbits(32))
    connection.execute("BEGIN")
    for number, clip in enumerate(clips):
        clip_id, path = f"{number:032x}", f"/v/{number}.mp4"
        connection.execute("INSERT INTO clips VALUES (?, 'mp4', 'h264', 64, 36, 9.0, 25.0, 1, 1, '[]', '')", (clip_id,))
        frames = encoder.encode_text([" ".join(clip["seen"])]).sentence
        frames = frames + noise / np.sqrt(DIMENSION) * blurred.standard_normal((FRAMES, DIMENSION))
        frames = (frames / np.linalg.norm(frames, axis=1, keepdims=True)).astype(np.float32)
        connection.execute("INSERT INTO vector_rows VALUES (?, ?, ?)", (clip_id, vectors.append(frames), FRAMES))
        connection.executemany(
            "INSERT INTO moments VALUES (?, ?, ?, ?, ?)", [(clip_id, n, n + 0.5, n, n + 1.0) for n in range(FRAMES)]
        )
        connection.execute(
            "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
            " VALUES (?, 0, ?, '[]', ?, 0, 1, '[0, 0, 1, 1]')",
            (clip_id, " ".join(clip["on_screen"]).upper(), chance.uniform(*CONFIDENCE)),
        )
        said = Utterance(" ".join(clip["said"]), 0.0, 2.0, "sidecar")
        put_rows(connection, clip_id, speech_rows(clip_id, [Transcript("sidecar", "a.srt", (said,))]))
        connection.execute(
            "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id, metadata)"
            " VALUES (?, '', '/', 1, 1, 1, 'indexed', ?, '{}')",
            (path, clip_id),
        )
    rebuild_full_text(connection)
    update_null_scores(connection, vectors, encoder)
    connection.execute("COMMIT")
    return Searcher(connection, lambda _: vectors, lambda: encoder)


def by_words(found: Asked, *, read: bool = False) -> Column:
    """Sum what the channels of words say of clips, (N,); with `read`, times how surely and closely words stand."""
    total = np.zeros(len(found.sounds))
    for name, columns in found.channels.items():
        if name != "seen":
            total += columns.weights * (columns.scores if read else 1.0)
    return total


def beaten(found: Asked) -> Column:
    """Compute the evidence of frames by nonsense: 0 where half of it is beaten or less, 1 where all is, (N,)."""
    above = np.zeros(len(found.sounds)) if found.above is None else np.nan_to_num(found.above)
    return np.maximum(0.0, 2 * above - 1)


def spread(found: Asked) -> Column:
    """Compute the evidence of frames by where they stand from the median of the clips found to the best, (N,)."""
    seen = found.channels["seen"]
    there = seen.ranks > 0
    middle, best = np.median(seen.scores[there]), seen.scores[there].max()
    far: Column = np.where(there, np.clip((seen.scores - middle) / max(best - middle, 1e-6), 0, 1), 0)
    return far


def ranks(found: Asked) -> Column:
    """Sum the weighted reciprocal ranks as search does, (N,)."""
    total = np.zeros(len(found.sounds))
    for columns in found.channels.values():
        there = columns.ranks > 0
        total[there] += (columns.weights / (RANK_CONSTANT + columns.ranks))[there]
    return total


ORDERS: dict[str, Callable[[Asked], Column]] = {
    "today": ranks,
    "read": lambda found: by_words(found, read=True) + spread(found),
    "nonsense": lambda found: by_words(found) + beaten(found),
    "spread": lambda found: by_words(found) + spread(found),
    "squared": lambda found: by_words(found) + spread(found) ** 2,
    "both": lambda found: by_words(found) + spread(found) * beaten(found),
}


def firsts(searcher: Searcher, cases: Sequence[tuple[str, int, str]], order: Callable[[Asked], Column]) -> Column:
    """Search for all cases in one order, (Q,): 100 where the clip that answers is first, else 0."""
    usual = Asked.fused
    try:
        Asked.fused = property(order)  # type: ignore[assignment, method-assign]
        first = [searcher.search(Query(query, k=1)).hits[0].clip_id for query, _, _ in cases]
    finally:
        Asked.fused = usual  # type: ignore[method-assign]
    return np.array([100.0 * (int(clip_id, 16) == clip) for clip_id, (_, clip, _) in zip(first, cases, strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100, help="cases of each set in a library")
    parser.add_argument("--libraries", type=int, default=4)
    parser.add_argument("--noise", type=float, default=1.5, help="length of a frame's noise beside what it shows")
    parser.add_argument("--words", type=int, default=400, help="words that all is drawn from")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    rows: dict[str, list[Column]] = {name: [] for name in ORDERS}
    kinds: list[str] = []
    odd: list[bool] = []
    for number in range(chosen.libraries):
        chance = random.Random(f"{chosen.seed} {number}")
        clips, cases = planted(chosen.cases, chosen.words, chance)
        with tempfile.TemporaryDirectory() as folder:
            searcher = library_of(clips, Path(folder), chosen.noise, chance)
            for name, order in ORDERS.items():
                rows[name].append(firsts(searcher, cases, order))
        kinds += [kind for _, _, kind in cases]
        odd += [number % 2 == 1] * len(cases)
    of = np.array(kinds)
    for half, among in (("to choose on", ~np.array(odd)), ("reported", np.array(odd))):
        print(f"{half}: first clip right in %, gain on today's in points [95 %]")
        for kind in ("all", *SETS):
            which = among & ((of == kind) | (kind == "all"))
            if not which.any():
                continue
            today = np.concatenate(rows["today"])[which]
            line = f"{kind:10} n={which.sum():4} today {today.mean():5.1f}"
            for name in list(ORDERS)[1:]:
                gain = np.concatenate(rows[name])[which] - today
                interval = hits_interval(GroupedMean.of(gain, np.arange(len(gain))), 0.95)
                line += f" | {name} {gain.mean():+.1f} [{interval.low:+.1f}, {interval.high:+.1f}]"
            print(line, flush=True)


if __name__ == "__main__":
    main()
