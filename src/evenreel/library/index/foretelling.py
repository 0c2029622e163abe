"""How long an index run may take, measured on this machine: short stretches of some files are read as the run reads.

As many readers as the run has read a stretch of a file each, at the same time, once for pictures and once for words.
Nothing of it is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace

from evenreel.errors import MediaError
from evenreel.features.clip_reader import WantedStages
from evenreel.library.index.worker import FileWorker
from evenreel.library.store.writer import FoundFile
from evenreel.media.content import stamp
from evenreel.media.sampling import Part

STRETCH_S = 6.0
"""Seconds of each file that are read: the text of some signs is read, and it takes seconds, not minutes."""

WARM_UP_S = 1.0
"""Seconds that are read before, so that the start of processes and the loading of models are not measured."""

PICTURES_ALONE = WantedStages(vision=True, text=False)
WORDS_ALONE = WantedStages(vision=False, text=True)


def seconds_a_second(
    new_reader: Callable[[], FileWorker],
    readers: int,
    files: Sequence[FoundFile],
    lengths_s: Mapping[str, float],
    stages: Sequence[WantedStages | None],
) -> list[float | None]:
    """Measure how long a second of video takes to read."""
    chosen = _chosen([file for file in files if lengths_s.get(file.path, 0.0) > 2 * STRETCH_S], readers)
    if not chosen:
        return [None for _ in stages]
    open_readers = [new_reader() for _ in chosen]
    try:
        with ThreadPoolExecutor(len(chosen), thread_name_prefix="foretelling") as threads:

            def read_all(wanted: WantedStages, length_s: float) -> float:
                """Read a stretch of each file; the seconds of video that were read."""

                def read(reader: FileWorker, file: FoundFile) -> float:
                    return _read(reader, file, wanted, _middle(lengths_s[file.path], length_s))

                return sum(threads.map(read, open_readers, chosen))

            return [None if wanted is None else _measured(read_all, wanted) for wanted in stages]
    finally:
        for reader in open_readers:
            with closing(reader):
                pass


def _measured(read_all: Callable[[WantedStages, float], float], wanted: WantedStages) -> float | None:
    read_all(wanted, WARM_UP_S)
    begun_at = time.monotonic()
    read_s = read_all(wanted, STRETCH_S)
    return (time.monotonic() - begun_at) / read_s if read_s else None


def _chosen(files: Sequence[FoundFile], number: int) -> list[FoundFile]:
    """Files of all sizes: evenly spread over the files by size."""
    ordered = sorted(files, key=lambda file: file.stamp.size)
    number = min(number, len(ordered))
    return [ordered[(2 * place + 1) * len(ordered) // (2 * number)] for place in range(number)]


def _middle(file_s: float, length_s: float) -> Part:
    start_s = (file_s - length_s) / 2
    return Part(start_s, start_s + length_s)


def _read(reader: FileWorker, file: FoundFile, wanted: WantedStages, part: Part) -> float:
    """Read a part of a file; return its length in seconds, 0 where it cannot be read."""
    with suppress(MediaError):
        reader.read(replace(file, clip_id="foretold", stamp=stamp(file.path)), wanted, part)()
        return (part.end_s or 0.0) - (part.start_s or 0.0)
    return 0.0
