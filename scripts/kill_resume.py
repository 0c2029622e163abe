"""Kill the indexer at random points, go on, and compare what is left with an undisturbed run.

    python -m scripts.kill_resume --rounds 500

A library goes through three chapters: a folder is indexed without its text; the text is added; then one file is
edited, one deleted, one renamed, one copied and one added. Each round forks a child that indexes and kills it (SIGKILL)
after a random time; the next round goes on in the same library. Whenever a child ends by itself, the library must
equal, table by table and byte by byte, that of a run that nobody disturbed, `verify` must find nothing, and the next
chapter begins; after the last, a new library.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenreel.config import IndexSettings
from evenreel.library import index_folders, verify
from tests.library.state import state
from tests.library.videos import write_folder, write_video


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
    options = arguments.parse_args()
    no_text = IndexSettings(model="builtin", workers=2, read_text=False)
    chapters = [
        Chapter(lambda videos: _begin(videos, options.clips), no_text),
        Chapter(lambda videos: None, replace(no_text, read_text=True)),
        Chapter(_edit, replace(no_text, read_text=True)),
    ]
    _import_everything()
    with tempfile.TemporaryDirectory() as place:
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


def _rounds(place: Path, chapters: list[Chapter], rounds: int, rng: random.Random) -> int:
    videos, library = place / "videos", place / "library"
    expected = [_undisturbed(videos, place / "clean", chapter) for chapter in chapters]
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
            wrong += _is_wrong(library, state_then, finished)
        print(f"{killed} of {rounds} kills, {finished} runs finished, {wrong} wrong", file=sys.stderr, flush=True)
    print(f"{killed} kills, {finished} runs finished, {wrong} in another state than an undisturbed run")
    return 1 if wrong else 0


def _undisturbed(videos: Path, library: Path, chapter: Chapter) -> tuple[dict[str, Any], float]:
    """The state that a chapter ends in, and the seconds it takes."""
    chapter.change(videos)
    started = time.monotonic()
    _wait(_child(videos, library, chapter.settings))
    return state(library), time.monotonic() - started


def _is_wrong(library: Path, expected: dict[str, Any], number: int) -> bool:
    problems, found = verify(library), state(library)
    different = [name for name in expected if found[name] != expected[name]]
    if problems or different:
        print(f"run {number}: tables that differ: {different}; problems: {problems}")
    return bool(problems or different)


def _child(videos: Path, library: Path, settings: IndexSettings) -> int:
    child = os.fork()
    if child:
        return child
    try:
        index_folders([videos], library, settings)
        os._exit(0)
    except BaseException as error:
        sys.stderr.write(f"indexing failed: {error!r}\n")
        os._exit(1)


def _wait(child: int, kill_after_s: float | None = None) -> bool:
    """Whether the child ended by itself; it is killed when its time is up."""
    deadline = None if kill_after_s is None else time.monotonic() + kill_after_s
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if os.WIFSIGNALED(status):
                return False
            if os.waitstatus_to_exitcode(status):
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
