"""Which clips can be read: found out once, before training starts, and remembered in the folder of the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, astuple
from pathlib import Path
from threading import local

from filelock import FileLock

from evenreel.config import MediaLimits, usable_cores
from evenreel.errors import MediaError
from evenreel.features import ClipAside
from evenreel.files import make_folder, sync_file, write_durably
from evenreel.media.content import stamp
from evenreel.media.workers import Worker
from evenreel.training.pixels import ClipFile
from evenreel.training.run_folder import writing

READER = "evenreel.onscreen.file_reader:FileReader"

Trouble = tuple[str, str] | None
"""Why a clip cannot be read: a code of `evenreel.errors.Reason`, and a sentence; None where it can."""


def readable(
    files: Sequence[ClipFile],
    rule: str,
    progress: Callable[[float], None] = lambda share: None,
    verdicts: Path | None = None,
) -> tuple[list[ClipFile], list[ClipAside]]:
    """Read every clip once as training will, in processes that may crash or hang without harm to this one.

    Args:
        files: the clips.
        rule: which frames of a clip are looked at.
        progress: called with the share that is done.
        verdicts: a file that remembers what was found, so that a resumed run, or the process of another device, reads
            only files that have changed since; None for none. Of several processes one reads, and the others wait.

    Returns:
        The clips that can be read, and the others with their reasons.

    Raises:
        RunFolderError: the verdicts cannot be written.
    """
    keys = [_key(file, rule) for file in files]
    with _memory(verdicts) as memory:
        new = [place for place, key in enumerate(keys) if key not in memory.known]

        def note(done: int, trouble: Trouble) -> None:
            memory.note(keys[new[done]], trouble)
            progress((done + 1) / len(new))

        _check([files[place] for place in new], rule, note)
    found = [(file, memory.known[key]) for file, key in zip(files, keys, strict=True)]
    kept = [file for file, trouble in found if trouble is None]
    return kept, [ClipAside(file.clip_id, str(file.path), *trouble) for file, trouble in found if trouble is not None]


class _Memory:
    """Verdicts by key, each written down as it comes.

    Args:
        path: the file, a line of JSON for each verdict; None for none.
    """

    def __init__(self, path: Path | None) -> None:
        self.known: dict[str, Trouble] = {}
        self._path = path
        if path is None or not path.exists():
            return
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # a crash cut the last line short
            write_durably(path, whole.encode())
        for line in whole.splitlines():
            key, trouble = json.loads(line)
            self.known[key] = trouble and (trouble[0], trouble[1])

    def note(self, key: str, trouble: Trouble) -> None:
        """Add a verdict."""
        self.known[key] = trouble
        if self._path is not None:
            with writing(self._path.parent), self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, trouble]) + "\n")

    def make_durable(self) -> None:
        """See that what was noted survives a power cut."""
        if self._path is not None and self._path.exists():
            with writing(self._path.parent):
                sync_file(self._path)


@contextmanager
def _memory(path: Path | None) -> Iterator[_Memory]:
    """The memory in a file, which no other process has meanwhile."""
    if path is None:
        yield _Memory(None)
        return
    with writing(path.parent):
        make_folder(path.parent)
        lock = FileLock(path.with_suffix(".lock"))
        lock.acquire()
    try:
        with writing(path.parent):
            memory = _Memory(path)
        yield memory
        memory.make_durable()
    finally:
        lock.release()


def _key(clip: ClipFile, rule: str) -> str:
    """32 hex digits over what a verdict depends on; those of a file that has changed, or is gone, are others."""
    try:
        state = astuple(stamp(str(clip.path)))
    except MediaError:
        state = None
    named = [str(clip.path), clip.part.start_s, clip.part.end_s, rule, state]
    return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()


def _check(files: Sequence[ClipFile], rule: str, note: Callable[[int, Trouble], None]) -> None:
    """Read clips, as many at a time as there are cores, and give the number of each in turn, with its verdict."""
    limits, workers = MediaLimits(), local()
    opened: list[Worker] = []

    def check(clip: ClipFile) -> Trouble:
        if not hasattr(workers, "own"):
            workers.own = Worker(READER, {"rule": rule, "limits": asdict(limits), "threads": 1, "text": False}, limits)
            opened.append(workers.own)
        return _trouble(clip, workers.own)

    pool = ThreadPoolExecutor(usable_cores())
    try:
        for number, trouble in enumerate(pool.map(check, files)):
            note(number, trouble)
    finally:
        pool.shutdown(cancel_futures=True)  # who interrupts does not wait for all that are left
        for worker in opened:
            worker.close()


def _trouble(clip: ClipFile, worker: Worker) -> Trouble:
    task = {"path": str(clip.path), "part": [clip.part.start_s, clip.part.end_s], "frames": False, "text": False}
    try:
        frames = sum(message["kind"] == "tick" for message, _ in worker.run(task))
        if frames == 0:
            raise MediaError("no_frames", "no frame of it could be decoded")
    except MediaError as error:
        return error.reason, str(error)
    return None
