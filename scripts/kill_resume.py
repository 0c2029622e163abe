"""Kill the indexer at random points, go on, and compare what is left with an undisturbed run.

    python -m scripts.kill_resume --rounds 500
    python -m scripts.kill_resume --steps
    python -m scripts.kill_resume --ray --rounds 60

`--rounds`: a library goes through three chapters: a folder is indexed without its text; the text is added; then one
file is edited, one deleted, one renamed, one copied and one added. Each round forks a child that indexes and kills it
(SIGKILL) after a random time; the next round goes on in the same library. Whenever a child ends by itself, the library
must equal, table by table and byte by byte, that of a run that nobody disturbed, `verify` must find nothing, and the
next chapter begins; after the last, a new library.

`--steps`: the child is killed at every step that changes what is on the disk, one after the other: before each commit,
each renaming and each removal of a file. Then the folder changes again, such that the old content returns or a new file
is gone, and the next run must end in the state of runs that nobody disturbed.

`--ray`: the chapters of `--rounds`, indexed by the workers of a Ray cluster of two, or now and then without it. After a
random time the indexer is killed, or the process that holds Ray's driver, or a worker of Ray, of which the run goes on.
The library must equal that of an undisturbed run without Ray.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenreel.config import IndexSettings, Machines
from evenreel.library import LibraryProblem, index_folders, repair, verify
from evenreel.library.store import catalog
from scripts.ray_cluster import Cluster, started
from tests.library.state import state
from tests.library.videos import write_folder, write_video

_RAY_S = 10.0
"""About how long a run with Ray takes, until one has been timed."""

_READING_S = 3.0
"""About how long the workers of a run live."""

_WITH_RAY = 0.8


@dataclass(frozen=True)
class Story:
    """A run that is killed, and what happens to the folder before the next.

    Attributes:
        change: makes the folder that the killed run finds.
        after: makes the folder that the next one finds.
        settings: of both runs.
    """

    change: Callable[[Path], object]
    after: Callable[[Path], object]
    settings: IndexSettings


@dataclass(frozen=True)
class Chapter:
    """What changes in the folder, and how it is indexed then."""

    change: Callable[[Path], object]
    settings: IndexSettings


def main() -> int:
    """Run the rounds; the exit status is 1 if any library was left in another state."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=500)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--clips", type=int, default=6)
    arguments.add_argument("--steps", action="store_true", help="kill at every step instead of after random times")
    arguments.add_argument("--ray", action="store_true", help="index with Ray, and kill its workers too")
    arguments.add_argument("--story", choices=STORIES, action="append", help="of --steps; all without")
    options = arguments.parse_args()
    chapters = [
        Chapter(lambda videos: _begin(videos, options.clips), _WITHOUT_TEXT),
        Chapter(_nothing, _WITH_TEXT),
        Chapter(_edit, _WITH_TEXT),
    ]
    _import_everything()
    with tempfile.TemporaryDirectory() as place:
        if options.ray:
            with started() as cluster:
                return _rounds(Path(place), chapters, options.rounds, random.Random(options.seed), cluster)
        if options.steps:
            return min(1, sum(_steps(Path(place), options.clips, name) for name in options.story or STORIES))
        return _rounds(Path(place), chapters, options.rounds, random.Random(options.seed))


def _begin(videos: Path, clips: int) -> None:
    shutil.rmtree(videos, ignore_errors=True)
    write_folder(videos, clips)


def _edit(videos: Path) -> None:
    write_video(videos / "clip_00.mp4", seed=1000)
    (videos / "clip_01.mp4").unlink()
    (videos / "clip_02.mp4").rename(videos / "renamed.mp4")
    shutil.copy(videos / "clip_03.mp4", videos / "copy.mp4")
    write_video(videos / "added.mp4", seed=1001)


def _nothing(videos: Path) -> None:
    """Leave the folder as it is."""


def _add(videos: Path) -> None:
    write_video(videos / "added.mp4", seed=1001)


def _back(videos: Path) -> None:
    """Give the files that `_edit` changed their old content and names, and take the new ones away."""
    for name in ("renamed.mp4", "copy.mp4", "added.mp4"):
        (videos / name).unlink()
    for number in range(3):
        write_video(videos / f"clip_{number:02}.mp4", seed=number)


def _subtitle(videos: Path) -> None:
    """Say something in two of the clips."""
    for name in ("clip_00.srt", "clip_01.en.srt"):
        (videos / name).write_text(f"1\n00:00:00,100 --> 00:00:00,900\nheard in {name}\n")


def _subtitle_otherwise(videos: Path) -> None:
    """Change what is said in one clip, and say nothing any more in another."""
    (videos / "clip_00.srt").write_text("1\n00:00:00,100 --> 00:00:00,900\nsomething else\n")
    (videos / "clip_01.en.srt").unlink()


_WITHOUT_TEXT = IndexSettings(model="builtin", workers=2, read_text=False)
_WITH_TEXT = replace(_WITHOUT_TEXT, read_text=True)

STORIES = {
    "edited": Story(_edit, _nothing, _WITHOUT_TEXT),
    "edited and back": Story(_edit, _back, _WITHOUT_TEXT),
    "added and gone": Story(_add, lambda videos: (videos / "added.mp4").unlink(), _WITHOUT_TEXT),
    "text added": Story(_nothing, _nothing, _WITH_TEXT),
    "subtitles": Story(_subtitle, _subtitle_otherwise, _WITHOUT_TEXT),
}


def _steps(place: Path, clips: int, name: str) -> int:
    """Kill a story's run at each of its steps; returns how many libraries were left in another state."""
    story, place = STORIES[name], place / name
    videos, begun, library = (place / what for what in ("videos", "begun", "library"))

    def begin() -> None:
        """Have folder and library as they are before the run that is killed."""
        shutil.rmtree(library, ignore_errors=True)
        shutil.copytree(begun, library)
        _begin(videos, clips)

    _begin(videos, clips)
    _wait(_child(videos, begun, _WITHOUT_TEXT))
    expected, wrong = dict[str, Any](), 0
    for killed in itertools.count(-1):  # the first is not killed: it gives what is expected of all others
        begin()
        story.change(videos)
        ended = _wait(_child(videos, library, story.settings, killed_at=killed if killed >= 0 else None))
        if ended and expected:
            break
        story.after(videos)
        _wait(_child(videos, library, story.settings))
        problems = verify(library)
        repair(library, drop_missing=True)  # files that are gone are known or not, as the kill came after or before
        _wait(_child(videos, library, story.settings))
        expected = expected or state(library)
        wrong += _differs(library, expected, problems, killed)
    print(f"{name}: {killed} kills, {killed} runs finished, {wrong} in another state than an undisturbed run")
    return wrong


def _rounds(
    place: Path, chapters: list[Chapter], rounds: int, rng: random.Random, cluster: Cluster | None = None
) -> int:
    videos, library = place / "videos", place / "library"
    expected = [_undisturbed(videos, place / "clean", chapter) for chapter in chapters]
    if cluster is not None:
        return _ray_rounds((videos, library), list(zip(chapters, expected, strict=True)), rounds, (rng, cluster))
    killed = finished = wrong = 0
    while killed < rounds:
        shutil.rmtree(library, ignore_errors=True)
        for chapter, (state_then, seconds) in zip(chapters, expected, strict=True):
            chapter.change(videos)
            while not _wait(
                _child(videos, library, chapter.settings),
                kill_after_s=rng.uniform(0, 1.2 * seconds) if killed < rounds else None,
            ):
                killed += 1
            finished += 1
            wrong += _differs(library, state_then, verify(library), finished)
        print(f"{killed} of {rounds} kills, {finished} runs finished, {wrong} wrong", file=sys.stderr, flush=True)
    print(f"{killed} kills, {finished} runs finished, {wrong} in another state than an undisturbed run")
    return 1 if wrong else 0


def _ray_rounds(
    places: tuple[Path, Path],
    chapters: list[tuple[Chapter, tuple[dict[str, Any], float]]],
    rounds: int,
    chance: tuple[random.Random, Cluster],
) -> int:
    (videos, library), (rng, cluster) = places, chance
    killed, finished, wrong, seconds = Counter[str](), 0, 0, _RAY_S
    while killed.total() < rounds:
        shutil.rmtree(library, ignore_errors=True)
        for chapter, (state_then, _) in chapters:
            chapter.change(videos)
            ended = False
            while not ended:
                machines = Machines(ray=cluster.address) if rng.random() < _WITH_RAY else None
                child, started_at = _child(videos, library, chapter.settings, machines=machines), time.monotonic()
                whom = None
                if machines and killed.total() < rounds:
                    whom = _kill_one(child, cluster, (rng, seconds))
                    killed.update([whom] if whom else [])
                ended = _wait(child, may_fail=whom == "driver")
                if whom is None and machines:
                    seconds = time.monotonic() - started_at
            finished += 1
            wrong += _differs(library, state_then, verify(library), finished)
        print(f"{dict(killed)} of {rounds} kills, {finished} runs finished, {wrong} wrong", file=sys.stderr, flush=True)
    print(f"{killed.total()} kills, {finished} runs finished, {wrong} in another state than an undisturbed run")
    print(", ".join(f"{count} of the {whom}" for whom, count in sorted(killed.items()) if count))
    return 1 if wrong else 0


def _kill_one(child: int, cluster: Cluster, chance: tuple[random.Random, float]) -> str | None:
    """Kill the indexer, the driver of Ray that it started, or a worker of Ray, after a random time.

    Returns:
        What was killed; None where the run had ended by then.
    """
    import psutil

    rng, seconds = chance
    whom = rng.choice(("indexer", "driver", "worker", "worker"))
    indexer = psutil.Process(child)
    if whom == "worker":
        while not cluster.workers() and indexer.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.02)
        seconds = _READING_S
    time.sleep(rng.uniform(0, seconds))
    try:
        if indexer.status() == psutil.STATUS_ZOMBIE:
            return None
        drivers = [one for one in indexer.children() if "evenreel.library.index.spread" in one.cmdline()]
        found = {"indexer": [indexer], "driver": drivers, "worker": cluster.workers()}[whom]
        if not found:
            return None
        rng.choice(found).kill()
    except psutil.Error:
        return None
    return whom


def _undisturbed(videos: Path, library: Path, chapter: Chapter) -> tuple[dict[str, Any], float]:
    """The state that a chapter ends in, and the seconds it takes."""
    chapter.change(videos)
    started = time.monotonic()
    _wait(_child(videos, library, chapter.settings))
    return state(library), time.monotonic() - started


def _differs(library: Path, expected: dict[str, Any], problems: list[LibraryProblem], number: int) -> bool:
    found = state(library)
    different = [name for name in expected if found[name] != expected[name]]
    if problems or different:
        print(f"run {number}: tables that differ: {different}; problems: {problems}")
    return bool(problems or different)


def _child(
    videos: Path,
    library: Path,
    settings: IndexSettings,
    killed_at: int | None = None,
    machines: Machines | None = None,
) -> int:
    child = os.fork()
    if child:
        return child
    try:
        if killed_at is not None:
            _kill_at(killed_at)
        if machines is None:
            index_folders([videos], library, settings)
        else:
            index_folders([videos], library, settings, machines=machines)
        os._exit(0)
    except BaseException as error:
        sys.stderr.write(f"indexing failed: {error!r}\n")
        os._exit(1)


def _kill_at(step: int) -> None:
    """Have this process kill itself before the step of that number, counted from 0."""
    steps = itertools.count()

    def take(*_: object) -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def before_event(event: str, _: tuple[Any, ...]) -> None:
        if event in {"os.rename", "os.remove"}:
            take()

    def before_statement(statement: str) -> None:
        if statement == "COMMIT":
            take()

    def opened(library: Path) -> sqlite3.Connection:
        connection = open_for_writing(library)
        connection.set_trace_callback(before_statement)
        return connection

    open_for_writing, catalog.open_for_writing = catalog.open_for_writing, opened
    sys.addaudithook(before_event)


def _wait(child: int, kill_after_s: float | None = None, *, may_fail: bool = False) -> bool:
    """Whether the child ended by itself, and well; it is killed when its time is up."""
    deadline = None if kill_after_s is None else time.monotonic() + kill_after_s
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if os.WIFSIGNALED(status):
                return False
            if os.waitstatus_to_exitcode(status):
                if may_fail:
                    return False
                raise SystemExit("an indexer failed by itself")
            return True
        if deadline is not None and time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            deadline = None
        time.sleep(0.002)


def _import_everything() -> None:
    """What a child would import, so that the random time is spent on indexing; no thread is started by it."""
    import torch
    import transformers

    import evenreel.encoders
    import evenreel.media.video

    del torch, transformers, evenreel.encoders, evenreel.media.video


if __name__ == "__main__":
    sys.exit(main())
