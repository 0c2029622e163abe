"""Check before training of which clips' video files can be read; its results are kept for a resumed run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from threading import local

from evenreel.config import MediaLimits, usable_cores
from evenreel.errors import CorpusError, MediaError
from evenreel.features.pool import SetAside
from evenreel.media.sampling import Part
from evenreel.media.workers import Worker, stamp
from evenreel.progress import Progress
from evenreel.training.data.verdicts import ClipVerdict, Verdicts, locked
from evenreel.training.loop.run_folder import writing
from evenreel.types import Corpus

READER = "evenreel.onscreen.reader:FileReader"


@dataclass(frozen=True)
class ClipVideo:
    """Video file of a clip.

    Attributes:
        clip_id: id of the clip.
        path: path of the video file.
        part: stretch of the file that is the clip.
        frames: number of frames that the sampling rule takes of it; None before it was read.
    """

    clip_id: str
    path: Path
    part: Part
    frames: int | None = None


def clip_files(corpus: Corpus, folder: Path) -> list[ClipVideo]:
    """List the video files of the clips of a corpus.

    Raises:
        CorpusError: a clip has no path.
    """
    rows = corpus.clips.select("clip_id", "path", "start_s", "end_s")
    if rows["path"].null_count():
        nameless = rows.filter(rows["path"].is_null())["clip_id"][0]
        raise CorpusError(f"The clip {nameless!r} has no path; towers in training need the videos of all clips.")
    return [ClipVideo(clip_id, folder / path, Part(start, end)) for clip_id, path, start, end in rows.iter_rows()]


def readable(
    files: Sequence[ClipVideo],
    rule: str,
    progress: Progress = lambda share: None,
    verdicts: Path | None = None,
) -> tuple[list[ClipVideo], list[SetAside]]:
    """Check which clips can be read, by reading each once in a process that may crash or hang without harm.

    Args:
        files: clips to check.
        rule: sampling rule of the frames.
        progress: called with the share that is done.
        verdicts: file that keeps the results, so that a resumed run, or the process of another device, reads only files
            that have changed; None for none. One process at a time uses it.

    Returns:
        The clips that can be read, with the number of their frames, and the others with their reasons.

    Raises:
        RunFolderError: the verdicts cannot be written.
    """
    keys = [_key(file, rule) for file in files]
    with _open_verdicts(verdicts) as memory:
        new = [place for place, key in enumerate(keys) if key not in memory.known]

        def note(done: int, verdict: ClipVerdict) -> None:
            with _writing(verdicts):
                memory.note(keys[new[done]], verdict)
            progress((done + 1) / len(new))

        _check([files[place] for place in new], rule, note)
    found = [(file, memory.known[key]) for file, key in zip(files, keys, strict=True)]
    kept = [replace(file, frames=verdict.frames) for file, verdict in found if verdict.reason is None]
    return kept, [
        SetAside(file.clip_id, str(file.path), verdict.reason, verdict.sentence)
        for file, verdict in found
        if verdict.reason is not None
    ]


@contextmanager
def _open_verdicts(path: Path | None) -> Iterator[Verdicts]:
    """The verdicts in a file, which no other process has meanwhile."""
    with ExitStack() as held:
        with _writing(path):
            held.enter_context(locked(path))
            memory = Verdicts(path)
        yield memory
        with _writing(path):
            memory.make_durable()


def _writing(path: Path | None) -> AbstractContextManager[None]:
    return nullcontext() if path is None else writing(path.parent)


def _key(clip: ClipVideo, rule: str) -> str:
    """32 hex digits over what a verdict depends on; those of a file that has changed, or is gone, are others."""
    try:
        state = astuple(stamp(str(clip.path)))
    except MediaError:
        state = None
    named = [str(clip.path), clip.part.start_s, clip.part.end_s, rule, state]
    return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()


def _check(files: Sequence[ClipVideo], rule: str, note: Callable[[int, ClipVerdict], None]) -> None:
    """Read clips, as many at a time as there are cores, and give the number of each in turn, with its verdict."""
    limits, workers = MediaLimits(), local()
    opened: list[Worker] = []

    def check(clip: ClipVideo) -> ClipVerdict:
        if not hasattr(workers, "own"):
            workers.own = Worker(READER, {"rule": rule, "limits": asdict(limits), "threads": 1, "text": False}, limits)
            opened.append(workers.own)
        return _verdict(clip, workers.own)

    pool = ThreadPoolExecutor(usable_cores())
    try:
        for number, verdict in enumerate(pool.map(check, files)):
            note(number, verdict)
    finally:
        pool.shutdown(cancel_futures=True)  # who interrupts does not wait for all that are left
        for worker in opened:
            worker.close()


def _verdict(clip: ClipVideo, worker: Worker) -> ClipVerdict:
    task = {"path": str(clip.path), "part": [clip.part.start_s, clip.part.end_s], "frames": False, "text": False}
    try:
        frames = sum(message["kind"] == "tick" for message, _ in worker.run(task))
    except MediaError as error:
        return ClipVerdict(0, error.reason, str(error))
    return ClipVerdict(frames) if frames else ClipVerdict(0, "no_frames", "no frame of it could be decoded")
