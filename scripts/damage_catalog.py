"""Damage the catalog of a library in every way a bad disk can, and count what evenreel makes of it.

    python -m scripts.damage_catalog --bits 1000 --pages 500

A small library is made as the demo makes one: rendered videos, the built-in model, words read on screen, favourites,
notes, a saved search, and a file that is set aside. Each damage is done to a copy of it:

- one random bit of `catalog.sqlite` is flipped;
- one of its pages is zeroed, filled with noise, swapped with another one, or is as it was in an earlier state;
- the file is cut, emptied or removed, the last also with everything beside it that is no shard, no video and no copy of
  what is a person's own;
- of a library whose indexer was killed, its write-ahead log (`-wal`) or the index of that (`-shm`) is damaged, cut or
  removed.

Then a forked child searches the copy, asks for everything that `info` and the page show, verifies and repairs it, and
indexes the folder where the repair asks for that; on a second copy of the same damage it indexes the folder and makes a
favourite before. What is promised, and makes the exit status 1 where it does not hold:

- every error is a sentence;
- after the repair everything that a person made is there;
- after the index all that is derived from the shards is as in the undamaged library, and no sound shard is put aside.

What no check sees is counted beside that: values of the rows of files and of the settings that SQLite still reads, and
that are others than were written.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import evenreel.encoders
from evenreel.config import IndexSettings, MediaLimits
from evenreel.demo import DEMO_QUERIES, make_demo_videos
from evenreel.errors import EvenreelError, LibraryError
from evenreel.library import index_folders, open_library, repair, verify
from evenreel.library.index import run
from evenreel.library.index.scan import read_tables
from evenreel.library.search.result import Hit
from evenreel.library.store.catalog import BROKEN
from evenreel.library.store.vectors import null_queries
from evenreel.types import Encoder, FloatArray, Pixels, TextEmbedding
from tests.library.state import state

CATALOG, WAL, SHM = "catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"
SETTINGS = IndexSettings(model="builtin", workers=2)
FILTERED = "source = 'camera' and duration_s < 60"
TOLERANCE = 1e-3
LONGEST_S = 600.0

Damage = Callable[[Path, random.Random], str]


class KnownTexts:
    """The built-in model for captions that it has read before: a forked child computes nothing."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._known = encoder, dict[tuple[str, ...], TextEmbedding]()
        self.encoder_id, self.weights_hash = encoder.encoder_id, encoder.weights_hash
        self.dimension, self.window = encoder.dimension, encoder.window

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """As the model has it."""
        key = tuple(captions)
        if key not in self._known:
            self._known[key] = self._encoder.encode_text(captions)
        return self._known[key]

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """As the model has it."""
        return self._encoder.encode_windows(pixels)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """No query here is long."""
        return [False] * len(captions)


@dataclass(frozen=True)
class Made:
    """The undamaged library in its states, what it answers, and the model.

    Attributes:
        place: has `videos`, `library` (whole), `earlier` (its catalog before the last chapter) and `killed` (the same
            library with a write-ahead log that nobody has cleared away).
        state: of the whole library.
        answers: of the whole library.
        encoder: its model.
    """

    place: Path
    state: dict[str, Any]
    answers: dict[str, Any]
    encoder: KnownTexts


@dataclass
class Outcome:
    """What one damage led to; lists name the uses of the library, or its parts."""

    what: str
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    found: bool = False
    lost: list[str] = field(default_factory=list)
    not_rebuilt: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    indexed_after: bool = False

    @property
    def verdict(self) -> str:
        """The worst that can be said of it, in a word or two; in capitals what must not be."""
        if self.errors:
            return "TRACEBACK"
        if self.lost:
            return "SOMETHING OF A PERSON'S LOST"
        if self.not_rebuilt:
            return "NOT REBUILT"
        if self.changed:
            return "a value stays changed"
        if self.wrong:
            return "found by verify alone" if self.found else "wrong until it was repaired, not found"
        return "said when it was used" if self.said else "found by verify" if self.found else "nothing is different"


def main() -> int:
    """Do all damage; the exit status is 1 if any of it led to something that must not be."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--bits", type=int, default=1000)
    arguments.add_argument("--pages", type=int, default=500)
    arguments.add_argument("--files", type=int, default=100, help="how often the file, its log and its index are hit")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--clips", type=int, default=8)
    arguments.add_argument("--place", type=Path, help="keep the undamaged library here and use it again")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
        made = make(options.place or Path(scratch) / "made", options.clips)
        plans = {
            "bits": (flip_bit, options.bits),
            "pages": (hurt_page, options.pages),
            "files": (hurt_file, options.files),
        }
        bad = 0
        for name, (damage, count) in plans.items():
            outcomes = []
            for number in range(count):
                outcomes.append(one_damage(made, Path(scratch), damage, f"{options.seed} {name} {number}"))
                if number % 100 == 99:
                    bad_yet = sum(outcome.verdict.isupper() for outcome in outcomes)
                    print(f"{name}: {number + 1}, {bad_yet} bad", file=sys.stderr, flush=True)
            bad += report(name, outcomes)
    return 1 if bad else 0


def report(name: str, outcomes: Sequence[Outcome]) -> int:
    """Print counts, and what must not be in full; returns how much of that there is."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(f"{name}: {len(outcomes)}; " + "; ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()))
    by_index = sum(outcome.indexed_after for outcome in outcomes)
    print(f"   of them {by_index} needed `index` after `repair`", flush=True)
    bad = [outcome for outcome in outcomes if outcome.verdict.isupper()]
    for outcome in bad:
        print(f"   {outcome.verdict}: {json.dumps(asdict(outcome), indent=1)}", flush=True)
    return len(bad)


# The library -----------------------------------------------------------------------------------------------------


def make(place: Path, clips: int) -> Made:
    """Make the library in two chapters, or take the one that is there."""
    videos, library = place / "videos", place / "library"
    encoder = KnownTexts(evenreel.encoders.load_encoder("builtin"))
    encoder.encode_text(null_queries())  # a forked child of a process with threads must not compute
    with using(encoder):
        if not (place / "killed").exists():
            _write(place, videos, library, clips)
        index_folders([videos], library, SETTINGS)  # changes nothing, and reads the metadata for all that comes
        answers = dict(_asked(library, encoder))
    return Made(place, full_state(library), answers, encoder)


def _write(place: Path, videos: Path, library: Path, clips: int) -> None:
    shutil.rmtree(place, ignore_errors=True)
    make_demo_videos(videos, clips)
    (videos / "notes.mp4").write_text("no video at all")
    later = sorted(videos.glob("clip_*.mp4"))[-2:]
    for path in later:
        path.rename(path.with_suffix(".later"))
    index_folders([videos], library, SETTINGS)
    with open_library(library, vision=False) as opened:
        for path in sorted(videos.glob("clip_*.mp4")):
            opened.personal.mark(str(path), favourite=True, note=f"what I think of {path.name}: " + "long " * 200)
    _settle(library)
    shutil.copy(library / CATALOG, place / "earlier")
    with open_library(library) as opened:
        opened.personal.mark(str(path), 0.5, note="later than the earlier catalog")
        opened.personal.save_search("a red star", name="stars")
    for path in later:
        path.with_suffix(".later").rename(path)
    # A reader is there, so the last one to close is not the indexer, and the log stays as it does after a kill.
    with closing(sqlite3.connect(library / CATALOG)) as reader:
        reader.execute("SELECT count(*) FROM files").fetchone()
        index_folders([videos], library, SETTINGS)
        shutil.copytree(library, place / "killed")
    _settle(library)


def _settle(library: Path) -> None:
    """Have the catalog's file hold what its log has."""
    with closing(sqlite3.connect(library / CATALOG)) as last:
        last.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def using(encoder: KnownTexts) -> Iterator[None]:
    """Every use of evenreel inside takes this model for the built-in one, and reads a metadata table once."""
    changed = (evenreel.encoders, "load_encoder", lambda *_, **__: encoder), (run, "read_tables", _read_once)
    before = [getattr(module, name) for module, name, _ in changed]
    for module, name, value in changed:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(changed, before, strict=True):
            setattr(module, name, value)


@cache
def _tables(*request: Any) -> Any:
    return read_tables(list(request[0]), list(request[1]), request[2])


def _read_once(beside: Sequence[Path], named: Sequence[Path], limits: MediaLimits) -> Any:
    return _tables(tuple(beside), tuple(named), limits)


PERSONS = ("marks", "searches", "roots")
"""Parts of the state that a person made."""
UNCHECKED = ("files", "stamps", "about", "name words", "meta", "null_scores", "null_best", "files and settings")
"""Parts in which a value may be another one without anybody noticing, and what follows from them."""


def full_state(library: Path) -> dict[str, Any]:
    """What a library holds, with what only this very library has: the stamps of its files."""
    found = state(library)
    with closing(sqlite3.connect(f"{(library / CATALOG).absolute().as_uri()}?mode=ro", uri=True)) as connection:
        found["stamps"] = connection.execute("SELECT path, mtime_ns, ctime_ns FROM files ORDER BY path").fetchall()
    return found


# What is asked of it ---------------------------------------------------------------------------------------------


def _asked(library: Path, encoder: KnownTexts) -> Iterator[tuple[str, Any]]:
    """Name and answer of each use that only reads; an answer is the exception where there was one."""
    try:
        opened = open_library(library, encoder=encoder)
    except Exception as error:
        yield "open", error
        return
    with opened:
        uses: dict[str, Callable[[], Any]] = {
            query.text: partial(opened.search, query.text, k=4) for query in DEMO_QUERIES
        }
        uses["filtered"] = lambda: opened.search("a red star on a beach", k=3, where=FILTERED)
        uses["info"] = lambda: replace(opened.stats(), library="")
        uses["files"] = lambda: opened.files(limit=100)
        uses["facets"] = opened.facets
        uses["roots"] = opened.roots
        uses["marks"] = opened.personal.marks
        uses["favourites"] = lambda: opened.browse("favourite and note like '%think%'")
        uses["searches"] = opened.personal.searches
        hits: list[Hit] = []
        for name, use in uses.items():
            yield name, (answer := _answer(use))
            hits += getattr(answer, "hits", ())
        for clip_id in sorted({hit.clip_id for hit in hits}):
            yield f"clip {clip_id[:6]}", _answer(lambda: (opened.clip(clip_id), opened.locate(clip_id)))  # noqa: B023 -- called here
        if hits:
            yield "similar", _answer(lambda: opened.similar(hits[0].clip_id, k=3))


def _answer(use: Callable[[], Any]) -> Any:
    try:
        return use()
    except Exception as error:
        return error


def same(one: Any, other: Any) -> bool:
    """Whether two answers or states are equal, numbers up to what the order of a sum leaves open."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= TOLERANCE
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and type(one) is type(other):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__") and type(one) is type(other):
        return same(vars(one), vars(other))
    return bool(one == other)


# Damage ----------------------------------------------------------------------------------------------------------


def flip_bit(library: Path, rng: random.Random) -> str:
    """One bit of the catalog."""
    return _flip(library / CATALOG, rng)


def _flip(path: Path, rng: random.Random) -> str:
    content = bytearray(path.read_bytes())
    place, bit = rng.randrange(len(content)), rng.randrange(8)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"{path.name}: bit {bit} of byte {place} (page {place // 4096 + 1})"


def hurt_page(library: Path, rng: random.Random) -> str:
    """One page of the catalog."""
    path = library / CATALOG
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    page, other = (rng.randrange(len(content) // size) for _ in range(2))
    here, there = slice(page * size, (page + 1) * size), slice(other * size, (other + 1) * size)
    how = rng.choice(("zeroed", "noise", "swapped", "earlier"))
    if how == "zeroed":
        content[here] = bytes(size)
    elif how == "noise":
        content[here] = rng.randbytes(size)
    elif how == "swapped":
        content[here], content[there] = content[there], content[here]
    else:
        before = (library.parent / "earlier").read_bytes()
        content[here] = before[here] if len(before) >= (page + 1) * size else bytes(size)
    path.write_bytes(content)
    return f"page {page + 1} {how}" + (f" with {other + 1}" if how == "swapped" else "")


def hurt_file(library: Path, rng: random.Random) -> str:
    """The catalog as a file, or the log beside it."""
    how = rng.choice(("cut", "cut", "emptied", "removed", "removed with all", "log", "log", "log", "log index"))
    path = library / CATALOG
    if how == "cut":
        kept = rng.randrange(path.stat().st_size)
        os.truncate(path, kept)
        return f"cut to {kept} bytes"
    if how == "emptied":
        path.write_bytes(b"")
    elif how.startswith("removed"):
        path.unlink()
        if how.endswith("all"):
            for beside in [file for kind in ("*.f16", "*.i8") for file in library.glob(kind)]:
                beside.unlink()
    else:
        return _hurt_log(library, WAL if how == "log" else SHM, rng)
    return how


def _hurt_log(library: Path, name: str, rng: random.Random) -> str:
    """The log, or its index, of a library whose indexer was killed."""
    for file in (CATALOG, WAL, SHM):
        shutil.copy(library.parent / "killed" / file, library / file)
    path, how = library / name, rng.choice(("flipped", "cut", "noise", "removed"))
    if how == "flipped":
        return _flip(path, rng)
    if how == "cut":
        os.truncate(path, rng.randrange(path.stat().st_size))
    elif how == "noise":
        content = bytearray(path.read_bytes())
        start = rng.randrange(len(content))
        content[start : start + 4096] = rng.randbytes(len(content[start : start + 4096]))
        path.write_bytes(content)
    else:
        path.unlink()
    return f"{name} {how}"


# One damage ------------------------------------------------------------------------------------------------------


def one_damage(made: Made, scratch: Path, damage: Damage, seed: str) -> Outcome:
    """Do one damage in a child, which can crash or hang without ending the count."""
    answer = scratch / "outcome.json"
    answer.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(LONGEST_S, exit=True)
        try:
            answer.write_text(json.dumps(asdict(try_both(made, scratch / "damaged", damage, seed))))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    if not answer.exists():
        return Outcome(seed, errors=[f"the process ended with status {status}"])
    return Outcome(**json.loads(answer.read_text()))


def try_both(made: Made, scratch: Path, damage: Damage, seed: str) -> Outcome:
    """Do one damage twice, to a library that is read and to one that is changed, and mend both."""
    shutil.rmtree(scratch, ignore_errors=True)
    outcome = Outcome("")
    with using(made.encoder):
        for changed in (False, True):
            library = _copy(made.place, scratch / ("changed" if changed else "read"))
            outcome.what = f"{damage(library, random.Random(seed))} [{seed}]"
            own = Counter(row for name in PERSONS for row in made.state[name])
            if changed:
                _use(outcome, "index", partial(index_folders, [made.place / "videos"], library, SETTINGS))
                if mark := _use(outcome, "mark", partial(_mark, library, made.place / "videos")):
                    own[mark] += 1
            else:
                _read(outcome, library, made)
            _mend(outcome, library, made, own, "after index" if changed else "")
    return outcome


def _mark(library: Path, videos: Path) -> tuple[Any, ...]:
    """Make a favourite; returns its row as the state has it."""
    with open_library(library, vision=False) as opened:
        mark = opened.personal.mark(str(sorted(videos.glob("clip_*.mp4"))[0]), 0.25, favourite=True)
    return mark.clip_id, mark.time_s, 1, "", mark.path


def _copy(place: Path, scratch: Path) -> Path:
    """A library of its own; shards are never changed, so they are links."""
    library = scratch / "library"
    shutil.copytree(place / "library", library, ignore=shutil.ignore_patterns("shards"))
    shutil.copytree(place / "library" / "shards", library / "shards", copy_function=_link)
    for name in ("earlier", "killed"):
        (scratch / name).symlink_to(place / name)
    return library


def _link(path: str, target: str) -> None:
    try:
        os.link(path, target)
    except OSError:  # on another disk
        shutil.copy2(path, target)


def _read(outcome: Outcome, library: Path, made: Made) -> None:
    for name, answer in _asked(library, made.encoder):
        if isinstance(answer, LibraryError):
            outcome.said.append(name)
        elif isinstance(answer, EvenreelError):
            outcome.wrong.append(name)
        elif isinstance(answer, Exception):
            outcome.errors.append(f"{name}: {_told(answer)}")
        elif not same(answer, made.answers.get(name)):
            told = any("`evenreel" in notice for notice in getattr(answer, "notices", ()))
            (outcome.said if told else outcome.wrong).append(name)


def _mend(outcome: Outcome, library: Path, made: Made, own: Counter[Any], when: str) -> None:
    problems = _use(outcome, f"verify {when}", lambda: verify(library))
    if not when:
        outcome.found = bool(problems) or problems is None
    _use(outcome, f"repair {when}", lambda: repair(library))
    if thrown_away := [path.name for path in (library / "shards").rglob(f"*{BROKEN}")]:
        outcome.not_rebuilt.append(f"{when}: sound shards were put aside: {thrown_away}")
    for again in (False, True):
        different = _different(library, made, own)
        if not (again or different):
            return
        if not again:
            outcome.lost += [f"{when}: {name}" for name in different if name in PERSONS]
            outcome.indexed_after = True
            _use(outcome, f"index {when}", lambda: index_folders([made.place / "videos"], library, SETTINGS))
            continue
        outcome.lost += [f"{when}, indexed: {name}" for name in different if name in PERSONS]
        values = [name for name in different if name in UNCHECKED]
        outcome.changed += [f"{when}: {name}" for name in values]
        others = set(different) - set(values) - set(PERSONS)
        if others and not (values and all(name.startswith("answer") for name in others)):
            outcome.not_rebuilt.append(f"{when}: {sorted(others)}")


def _different(library: Path, made: Made, own: Counter[Any]) -> list[str]:
    """The parts of the state and the answers that are not those of the undamaged library, and what verify finds."""
    try:
        found, problems = full_state(library), verify(library)
    except (sqlite3.Error, LibraryError, OSError, ValueError) as error:
        return [_told(error)]
    answers = dict(_asked(library, made.encoder))
    there = {name: found[name] for name in PERSONS}
    lost = [name for name in PERSONS if own - Counter(row for rows in there.values() for row in rows)]
    marked = ("marks", "favourites")  # there may be one more
    return [
        *lost[:1],
        *(name for name in made.state if name not in PERSONS and not same(found[name], made.state[name])),
        *(
            f"answer {name}"
            for name in made.answers
            if name not in marked and not same(answers.get(name), made.answers[name])
        ),
        *map(str, problems),
    ]


def _use(outcome: Outcome, name: str, use: Callable[[], Any]) -> Any:
    """What a use gives; None where it ends in a sentence, or in an error, which is noted."""
    try:
        return use()
    except LibraryError:
        return None
    except Exception as error:
        outcome.errors.append(f"{name}: {_told(error)}")
        return None


def _told(error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error} at " + " < ".join(f"{one.name}:{one.lineno}" for one in where[::-1][:4])


if __name__ == "__main__":
    started = time.monotonic()
    status = main()
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    sys.exit(status)
