"""Kill the indexer at random points, go on, and compare what is left with an undisturbed run.

    python -m scripts.kill_resume --rounds 500

Each round forks a child that indexes a small folder and kills it (SIGKILL) after a random time; the next round goes on
in the same library. Whenever a round ends by itself, the library must equal, table by table and byte by byte, the one
of a run that nobody disturbed, and `verify` must find nothing; then a new library is begun.
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
from pathlib import Path

from evenreel.config import IndexSettings
from evenreel.library import index_folders, verify
from tests.library.state import state
from tests.library.videos import write_folder


def main() -> int:
    """Run the rounds; the exit status is 1 if any library was left in another state."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=500)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--clips", type=int, default=6)
    arguments.add_argument("--no-ocr", action="store_true")
    options = arguments.parse_args()
    settings = IndexSettings(model="builtin", workers=2, read_text=not options.no_ocr)
    _import_everything()
    with tempfile.TemporaryDirectory() as place:
        return _rounds(Path(place), settings, options)


def _rounds(place: Path, settings: IndexSettings, options: argparse.Namespace) -> int:
    videos, clean, library = place / "videos", place / "clean", place / "library"
    write_folder(videos, options.clips)
    started = time.monotonic()
    _wait(_child(videos, clean, settings))
    longest_s = 1.2 * (time.monotonic() - started)
    expected, rng = state(clean), random.Random(options.seed)
    killed = finished = wrong = 0
    while killed < options.rounds or library.exists():
        child = _child(videos, library, settings)
        ended = _wait(child, kill_after_s=rng.uniform(0, longest_s) if killed < options.rounds else None)
        if not ended:
            killed += 1
            continue
        finished += 1
        problems = verify(library)
        found = state(library)
        different = [name for name in expected if found[name] != expected[name]]
        if problems or different:
            wrong += 1
            print(f"library {finished}: tables that differ: {different}; problems: {problems}")
        shutil.rmtree(library)
    print(f"{killed} kills, {finished} libraries finished, {wrong} in another state than an undisturbed run")
    return 1 if wrong else 0


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
