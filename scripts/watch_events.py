"""Change a watched folder in every way at random, kill the watcher now and then, and compare with a clean index.

    python -m scripts.watch_events --events 1000

Videos and subtitles are created, grow, are moved, renamed with their folder, replaced, touched, copied and deleted
while `evenreel index --watch` runs in a process of its own, which is killed (SIGKILL) and started again. When it has
caught up with the last event, its library must equal, table by table and byte by byte, that of a clean index of the
same folder, but for files that it remembers as missing, and `verify` must find nothing. Two figures are printed
besides: how long a new file takes to be found after its last byte, in quiet, and how long the watcher takes to catch
up at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from evenreel.config import IndexSettings
from evenreel.library import index_folders, repair, verify
from evenreel.library.store import catalog
from tests.library.state import state
from tests.library.videos import write_video

PATIENCE_S = 60.0
"""How long the watcher may take to catch up with the last event."""

CONTENTS = 24
FOLDERS = ("", "trams", "trams/old", "boats", "boats [2]")


@dataclass
class Stage:
    """A folder that is changed, with the videos that are put into it.

    Attributes:
        videos: the watched folder.
        contents: what files may hold.
        rng: what happens next.
        growing: files that have come in part -> what is still to come.
        done: how often each event has happened.
    """

    videos: Path
    contents: list[bytes]
    rng: random.Random
    growing: dict[Path, bytes] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def files(self) -> list[Path]:
        """The whole videos that are there."""
        return sorted(path for path in self.videos.rglob("*.mp4") if path not in self.growing)

    def new_name(self) -> Path:
        """A name that is not taken yet."""
        self.number += 1
        folder = self.videos / self.rng.choice(FOLDERS)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"clip_{self.number:04}.mp4"

    def create(self) -> None:
        """Put a whole file there."""
        self.new_name().write_bytes(self.rng.choice(self.contents))

    def begin(self) -> None:
        """Put the beginning of a file there, as copying does."""
        path, content = self.new_name(), self.rng.choice(self.contents)
        half = self.rng.randrange(1, len(content))
        path.write_bytes(content[:half])
        self.growing[path] = content[half:]

    def grow(self) -> None:
        """Go on with a file that has come in part, and mostly finish it."""
        path = self.rng.choice(sorted(self.growing))
        rest = self.growing.pop(path)
        cut = len(rest) if self.rng.random() < 0.7 else self.rng.randrange(len(rest))
        with path.open("ab") as file:
            file.write(rest[:cut])
        if cut < len(rest):
            self.growing[path] = rest[cut:]

    def move(self) -> None:
        """Move a file, with its subtitles or without."""
        path, to = self.rng.choice(self.files()), self.new_name()
        path.rename(to)
        beside = path.with_suffix(".srt")
        if beside.exists() and self.rng.random() < 0.7:
            beside.rename(to.with_suffix(".srt"))

    def rename_folder(self) -> None:
        """Rename a folder with all that is in it."""
        folders = sorted(path for path in self.videos.iterdir() if path.is_dir())
        if folders:
            folder = self.rng.choice(folders)
            self.number += 1
            to = self.videos / f"folder_{self.number:04}"
            folder.rename(to)
            for path in [one for one in self.growing if folder in one.parents]:
                self.growing[to / path.relative_to(folder)] = self.growing.pop(path)

    def replace(self) -> None:
        """Give a file another content, at once or in place."""
        path, content = self.rng.choice(self.files()), self.rng.choice(self.contents)
        if self.rng.random() < 0.5:
            path.write_bytes(content)
        else:
            beside = path.with_suffix(".part")
            beside.write_bytes(content)
            beside.replace(path)

    def touch(self) -> None:
        """Give a file another time."""
        self.rng.choice(self.files()).touch()

    def copy(self) -> None:
        """Copy a file, with its times or without."""
        copy = shutil.copy2 if self.rng.random() < 0.5 else shutil.copyfile
        copy(self.rng.choice(self.files()), self.new_name())

    def delete(self) -> None:
        """Delete a file."""
        self.rng.choice(self.files()).unlink()

    def subtitle(self) -> None:
        """Write or rewrite the subtitles of a file."""
        path = self.rng.choice(self.files()).with_suffix(".srt")
        path.write_text(f"1\n00:00:00,100 --> 00:00:00,900\nwords {self.rng.randrange(1000)}\n")

    def mute(self) -> None:
        """Delete subtitles."""
        if found := sorted(self.videos.rglob("*.srt")):
            self.rng.choice(found).unlink()

    def junk(self) -> None:
        """Put a file there that is no video but is called one."""
        self.new_name().write_bytes(self.rng.randbytes(500))

    def happen(self) -> None:
        """Have something happen that can happen now."""
        events: dict[Callable[[], None], float] = {self.create: 4, self.begin: 2, self.junk: 0.5}
        if self.growing:
            events[self.grow] = 4
        if len(self.files()) > 3:
            events |= {self.move: 3, self.replace: 2, self.touch: 1, self.copy: 1, self.delete: 5, self.subtitle: 1.5}
            events |= {self.mute: 0.5, self.rename_folder: 0.5}
        (event,) = self.rng.choices(list(events), list(events.values()))
        event()
        self.done[event.__name__] += 1

    def finish(self) -> None:
        """Let files that have come in part come whole."""
        while self.growing:
            path, rest = self.growing.popitem()
            with path.open("ab") as file:
                file.write(rest)


def main() -> int:
    """Run the events; the exit status is 1 if the library was left in another state."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--events", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--kills", type=int, default=20, help="how often the watcher is killed")
    arguments.add_argument("--pause", type=float, default=0.4, help="most seconds between two events")
    arguments.add_argument("--words", action="store_true", help="without a model, which saves its loading")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        return 1 if _run(Path(place).resolve(), options) else 0


def _run(place: Path, options: argparse.Namespace) -> list[str]:
    """Have everything happen; what is wrong at the end."""
    rng = random.Random(options.seed)
    contents = [write_video(place / "made" / f"{seed}.mp4", seed, 1.0).read_bytes() for seed in range(CONTENTS)]
    stage, library = Stage(place / "videos", contents, rng), place / "library"
    stage.videos.mkdir()
    settings = IndexSettings(model=None if options.words else "builtin", read_text=False, workers=1)
    killed_at = set(rng.sample(range(1, options.events), options.kills))
    watcher = Watched(stage.videos, library, options.words)
    with closing(watcher):
        for number in range(options.events):
            if number in killed_at:
                watcher.kill_and_restart()
            stage.happen()
            time.sleep(rng.uniform(0, options.pause))
        stage.finish()
        caught_up_s = _caught_up(stage.videos, library)
        found_s = _found_after(stage, library)
        time.sleep(5)  # for subtitles, which follow
        status = watcher.stop()
    wrong = _differences(place, stage.videos, library, settings)
    if status:
        wrong.append(f"the watcher ended with exit status {status}")
    events = ", ".join(f"{count} {name}" for name, count in sorted(stage.done.items()))
    print(f"{stage.done.total()} events ({events}), {len(killed_at)} kills; {len(stage.files())} files at the end")
    print(
        f"caught up {caught_up_s:.1f} s after the last event; a new file was found {found_s:.1f} s after its last byte"
    )
    print(f"{len(wrong)} in another state than a clean index: {', '.join(wrong) or 'none'}")
    return wrong


class Watched:
    """`evenreel index --watch` in a process of its own."""

    def __init__(self, videos: Path, library: Path, words: bool) -> None:
        model = ["--no-vision"] if words else ["--model", "builtin"]
        self._command = [
            sys.executable,
            "-m",
            "evenreel",
            "index",
            "--watch",
            str(videos),
            "--library",
            str(library),
            *model,
        ]
        self._command += ["--no-ocr", "--set", "workers=1", "--set", "accept_missing=yes"]
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=subprocess.DEVNULL)

    def kill_and_restart(self) -> None:
        """Kill the process and start another."""
        self.close()
        self._process = self._started()

    def stop(self) -> int:
        """End the process as a person does; its exit status."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(60)

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()


def _caught_up(videos: Path, library: Path) -> float:
    """Wait until the library knows every file of the folder as it is; the seconds that it took."""
    begun_at = time.monotonic()
    while time.monotonic() - begun_at < PATIENCE_S:
        if _known(library) == _there(videos):
            return time.monotonic() - begun_at
        time.sleep(0.1)
    return PATIENCE_S


def _found_after(stage: Stage, library: Path) -> float:
    """Put one more file there and wait until it is known; the seconds that it took."""
    stage.create()
    return _caught_up(stage.videos, library)


def _there(videos: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in videos.rglob("*.mp4")}


def _known(library: Path) -> dict[str, int]:
    if not (library / catalog.CATALOG).exists():
        return {}
    with suppress(sqlite3.Error), closing(sqlite3.connect(library / catalog.CATALOG)) as connection:
        return dict(connection.execute("SELECT path, mtime_ns FROM files WHERE state != 'missing'").fetchall())
    return {}  # it is being made


def _differences(place: Path, videos: Path, library: Path, settings: IndexSettings) -> list[str]:
    """Parts of the library that are other than in a clean one."""
    wrong = [str(problem) for problem in verify(library)]
    repair(library, drop_missing=True)
    index_folders(videos, place / "clean", settings)
    repair(place / "clean")  # as the other one was: row numbers and the like
    own, clean = state(library), state(place / "clean")
    return wrong + [part for part in clean if own[part] != clean[part]]


if __name__ == "__main__":
    os.environ.setdefault("EVENREEL_OFFLINE", "1")
    sys.exit(main())
