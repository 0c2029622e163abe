"""What meaning adds to words: captions of MSVD, lines of subtitles made of them, exact words, a lecture; its cost.

    python -m benchmarks.meaning [--data ../shared/data] [--draws 3] [--choose] [--cost] [--words 2000000]

Texts are written straight into a catalog, and the library's own search is asked: by its words alone, by what the texts
mean alone, and as it answers, by both. A query is a caption of a clip, and the library has another one of the same
clip: as its caption, or as one of twenty lines that follow each other in its subtitles, each of another clip of MSVD.
`exact` are two neighbouring words of the caption itself. `no word` are the queries of which no word is written there.
R@1 and R@10 in percent, with the gain of both over words and its interval of 95 % over the clips of MSVD.

--choose tries lengths of a window, the share of nonsense and the weight, on the training split; all else is of the test
split. The lecture has ten questions with the second of their answer: how far the first answer is from it. --cost asks a
library with so many words for the time of its parts, and indexes real clips with as many words a minute as people say.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from evenreel import index_folders, open_library
from evenreel.arrays import Column
from evenreel.config import IndexSettings
from evenreel.evaluation.intervals import GroupedMean, hits_interval
from evenreel.library.index import run
from evenreel.library.search import meaning, words
from evenreel.library.search.query import Query
from evenreel.library.search.result import Channel
from evenreel.library.search.searcher import Asked, ChannelColumns, ranks_of
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.store import catalog, meanings
from evenreel.library.store.fulltext import fill_full_text
from evenreel.library.store.writer import Store, put_rows, speech_rows
from evenreel.meaning import WORDLLAMA
from evenreel.speech import Transcript, Utterance

LINES, LINE_S = 20, 4.0
WAYS = ("words", "meaning", "both")


class Case(NamedTuple):
    query: str
    clip: int  # the clip that answers it
    at_s: float  # and when
    group: int  # the clip of MSVD that both texts are of


class Clip(NamedTuple):
    caption: str
    lines: Sequence[str] = ()
    starts_s: Sequence[float] | None = None  # of the lines; None where they follow each other


def captions(data: Path, split: str, seed: int) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    found = json.loads((data / "msvd" / "captions_msvd.json").read_text())
    names = (data / "msvd" / f"{split}_list.txt").read_text().split()
    kept = [sorted(set(found[name])) for name in names if len(set(found.get(name, ()))) > 1][:670]
    pairs = [chance.sample(several, 2) for several in kept]
    return [(one, other) for one, other in pairs]


def as_captions(pairs: Sequence[tuple[str, str]]) -> tuple[list[Clip], list[Case]]:
    return [Clip(one) for one, _ in pairs], [Case(other, n, 0.0, n) for n, (_, other) in enumerate(pairs)]


def as_exact(pairs: Sequence[tuple[str, str]]) -> tuple[list[Clip], list[Case]]:
    """Two neighbouring words of the caption: its last two."""
    cases = [Case(" ".join(one.split()[-2:]), n, 0.0, n) for n, (one, _) in enumerate(pairs)]
    return [Clip(one) for one, _ in pairs], cases


def as_subtitles(pairs: Sequence[tuple[str, str]]) -> tuple[list[Clip], list[Case]]:
    clips = [Clip("", [one for one, _ in pairs[at : at + LINES]]) for at in range(0, len(pairs), LINES)]
    return clips, [Case(other, n // LINES, n % LINES * LINE_S, n) for n, (_, other) in enumerate(pairs)]


def build(folder: Path, clips: Sequence[Clip], name: str | None = WORDLLAMA) -> None:
    with closing(catalog.open_for_writing(folder)) as connection:
        with catalog.transaction(connection):
            for number, clip in enumerate(clips):
                clip_id, path = f"{number:032x}", f"/{number}.mp4"
                values = clip_id, len(clip.lines) * LINE_S or 10.0
                connection.execute("INSERT INTO clips VALUES (?, 'mp4', 'h', 1, 1, ?, 25, 0, 1, '[]', '')", values)
                about = json.dumps({"caption": clip.caption} if clip.caption else {})
                connection.execute(
                    "INSERT INTO files VALUES (?, ?, '/', 1, 1, 1, 'indexed', ?, NULL, NULL, ?)",
                    (path, path[1:], clip_id, about),
                )
                starts = clip.starts_s or [at * LINE_S for at in range(len(clip.lines))]
                said = [
                    Utterance(line, at, at + LINE_S, "sidecar") for line, at in zip(clip.lines, starts, strict=True)
                ]
                if said:
                    put_rows(connection, clip_id, speech_rows(clip_id, [Transcript("sidecar", "", tuple(said))]))
            fill_full_text(connection)
        if name is not None:
            meanings.update_meanings(Store(folder, connection, {}), name)


def places(asked: Asked, s: Snapshot, clip: int) -> Iterator[float]:
    """The rank of a clip by words, by meaning, and by both; infinite beyond the first ten."""
    (place,) = s.places([f"{clip:032x}"])
    words_alone: dict[Channel, ChannelColumns] = {
        name: one for name, one in asked.channels.items() if name != "meaning"
    }
    without = Asked(asked.encoded, asked.allowed, asked.texts, None, None, None, None, None, asked.notices, words_alone)
    assert asked.meant is not None
    by_meaning = ranks_of(asked.meant.scores, np.isfinite(asked.meant.scores))
    for order in (without.best(s, 10), None, asked.best(s, 10)):
        if order is None:
            yield float(by_meaning[place]) if 0 < by_meaning[place] <= 10 else np.inf
        else:
            yield float(order.index(place) + 1) if place in order else np.inf


class Answers(NamedTuple):
    ranks: Column  # (cases, ways)
    written: Column  # (cases,) share of the query's words that is written on the right clip
    lands: Column  # (cases,) whether the line that is shown of the right clip is the right one; NaN where none is


def ask(folder: Path, cases: Sequence[Case]) -> Answers:
    ranks, written, lands = [], [], []
    with open_library(folder) as opened:
        searcher = opened._searcher
        searcher.is_empty()
        for case in cases:
            encoded = searcher.encode(Query(case.query))
            with searcher.snapshot() as s:
                asked = searcher.ask(s, encoded)
                (place,) = s.places([f"{case.clip:032x}"])
                ranks.append(list(places(asked, s, case.clip)))
                written.append(float(asked.written[place]))
                line = asked.meant.line(f"{case.clip:032x}", place) if asked.meant else None
                lands.append(np.nan if line is None else float(line.start_s == case.at_s))
    return Answers(np.array(ranks), np.array(written), np.array(lands))


def told(name: str, cases: Sequence[Case], found: Answers, chosen: Column | None = None) -> None:
    kept = np.ones(len(cases), bool) if chosen is None else chosen.astype(bool)
    groups = np.array([case.group for case in cases])[kept]
    ranks = found.ranks[kept]
    for k in (1, 10):
        hits = 100.0 * (ranks <= k)
        gain = hits_interval(GroupedMean.of(hits[:, 2] - hits[:, 0], groups), 0.95)
        shown = "  ".join(f"{way} {value:5.1f}" for way, value in zip(WAYS, hits.mean(0), strict=True))
        print(f"  {name:<22} R@{k:<3} {shown}   both - words {gain.value:+5.1f} [{gain.low:+.1f}, {gain.high:+.1f}]")


def measure(data: Path, split: str, draws: int, only: Sequence[str] = ("captions", "exact", "subtitles")) -> None:
    for name, make in (("captions", as_captions), ("exact", as_exact), ("subtitles", as_subtitles)):
        if name not in only:
            continue
        cases, found = list[Case](), list[Answers]()
        for seed in range(draws):
            with tempfile.TemporaryDirectory() as folder:
                clips, some = make(captions(data, split, seed))
                build(Path(folder), clips)
                found.append(ask(Path(folder), some))
                cases += some
        together = Answers(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
        told(f"{name}, {len(cases):,}", cases, together)
        nothing = together.written == 0
        if name != "exact":
            told(f"  no word, {int(nothing.sum()):,}", cases, together, nothing)
        if name == "subtitles":
            shown = 100 * np.nanmean(together.lands)
            print(f"  the line that is shown of the right clip is the right one: {shown:.1f} %")


def choose(data: Path, draws: int) -> None:
    """What each constant was chosen among, on the training split."""
    for what, module, name, values, only in (
        ("letters of a window", meanings, "MOST_LETTERS", (40, 75, 100, 150, 225, 300), ["subtitles"]),
        ("share of nonsense to beat", meaning, "ENOUGH", (0.9, 0.95, 0.975, 0.99), ["captions", "exact"]),
        ("weight of the rank", meaning, "WEIGHT", (0.05, 0.25, 0.5, 1.0), ["captions", "exact"]),
    ):
        print(f"training split: {what}")
        usual = getattr(module, name)
        for value in values:
            setattr(module, name, value)
            print(f" {value}")
            measure(data, "train", draws, only)
        setattr(module, name, usual)


def lecture(data: Path) -> None:
    """Where the first answer to each of ten questions is, by words and by meaning."""
    place = data / "real_vectors" / "lecture_frames"
    lines = json.loads((place / "transcript.json").read_text())
    questions = [one for one in json.loads((place / "test_set.json").read_text()) if one["answerable"]]
    clip = Clip("", [line["text"] for line in lines], [float(line["start_time"]) for line in lines])
    off: dict[str, list[float]] = {"words": [], "meaning": []}
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), [clip])
        with open_library(folder) as opened:
            clip_id, searcher = f"{0:032x}", opened._searcher
            searcher.is_empty()
            for one in questions:
                encoded = searcher.encode(Query(one["question"]))
                with searcher.snapshot() as s:
                    asked = searcher.ask(s, encoded)
                    (at,) = s.places([clip_id])
                    matches = asked.texts["said"]
                    found = [hit.start_s for hit in words.read_texts(s, matches, matches.best_texts(at))]
                    line = asked.meant.line(clip_id, at) if asked.meant else None
                    off["words"].append(abs(found[0] - one["timestamp"]) if found else np.inf)
                    off["meaning"].append(np.inf if line is None else abs(line.start_s - one["timestamp"]))
    for way, seconds in off.items():
        near = ", ".join(f"{sum(one <= most for one in seconds)} within {most} s" for most in (30, 60, 120))
        print(f"  lecture, {len(seconds)} questions, by {way:<8} median {median(seconds):6.0f} s off; {near}")


def spent() -> float:
    """Processor time of this process and of those that it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def timed(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return 1e3 * (time.process_time() - start)


def cost(data: Path, most: int) -> None:
    lines = [caption for pair in captions(data, "train", 0) for caption in pair]
    count, clips = 0, list[Clip]()
    chance = random.Random(0)
    while count < most:
        clips.append(Clip("", [chance.choice(lines) for _ in range(150)]))
        count += sum(len(line.split()) for line in clips[-1].lines)
    queries = [other for _, other in captions(data, "test", 0)[:50]]
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), clips, None)
        with closing(catalog.open_for_writing(Path(folder))) as connection:
            took = timed(lambda: meanings.update_meanings(Store(Path(folder), connection, {}), WORDLLAMA))
        size = sum(path.stat().st_size for path in Path(folder).glob("meanings.*"))
        print(f"  {count:,} words in {len(clips):,} clips: encoded in {took / 1e3:.1f} s, {size / 1e6:.0f} MB")
        with open_library(folder) as opened:
            opened.search(queries[0])
            searcher, parts = opened._searcher, dict[str, list[float]]()
            for query in queries:
                asked = Query(query)
                encoded = searcher.encode(asked)
                with searcher.snapshot() as s:
                    calls: dict[str, Callable[[], object]] = {
                        "encoding the query": partial(searcher.encode, asked),
                        "comparing by meaning": partial(meaning.compare, s, asked, encoded.to_mean, s.there, []),
                        "comparing by words": partial(words.score, s, "said", asked, s.there),
                    }
                    for part, call in calls.items():
                        parts.setdefault(part, []).append(timed(call))
                parts.setdefault("the whole search", []).append(timed(partial(opened.search, query)))
        for part, times in parts.items():
            print(f"  {part:<22} median {median(times):6.1f} ms, p95 {np.quantile(times, 0.95):6.1f} ms")


def share_of_index(data: Path) -> None:
    """Real clips with 150 words of subtitles a minute: what of the processor time of an index run meaning takes."""
    taken, usual = [0.0], meanings.update_meanings

    def watched(*given: Any) -> int:
        start = time.process_time()
        try:
            return usual(*given)
        finally:
            taken[0] += time.process_time() - start

    lines = [caption for pair in captions(data, "train", 0) for caption in pair]
    names = [path for path in sorted((data / "videos").glob("*.mp4")) if path.stem != "corrupted"][:6]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "videos")
        place.mkdir()
        for path in names:
            shutil.copy(path, place)
            cues = [f"{n + 1}\n00:00:{2 * n:02d},000 --> 00:00:{2 * n + 2:02d},000\n{lines[n]}\n" for n in range(29)]
            (place / path.name).with_suffix(".srt").write_text("\n".join(cues))
        vars(run)["update_meanings"] = watched
        start = spent()
        report = index_folders([place], Path(folder, "library"), IndexSettings(model="builtin", workers=1))
        whole = spent() - start
        vars(run)["update_meanings"] = usual
    share = 100 * taken[0] / whole
    what = f"index run of {report.indexed} real clips with the built-in encoder"
    print(f"  {what}: {whole:.1f} s, of which meaning {taken[0]:.2f} s ({share:.1f} %)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--words", type=int, default=2_000_000)
    options = parser.parse_args()
    if options.choose:
        choose(options.data, options.draws)
        return
    if options.cost:
        cost(options.data, options.words)
        share_of_index(options.data)
        return
    print("MSVD, test split")
    measure(options.data, "test", options.draws)
    lecture(options.data)


if __name__ == "__main__":
    main()
