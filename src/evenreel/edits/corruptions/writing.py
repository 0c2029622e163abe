"""Corpora of corrupted clips under the same ids, a folder for each kind and strength, for any system to see."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from evenreel.config import usable_cores
from evenreel.edits.corpus_writer import CLIPS, ChangedClip, CorpusWriter
from evenreel.edits.corruptions.high import inserted
from evenreel.edits.corruptions.lenders import lenders_of
from evenreel.edits.corruptions.settings import BORROWING, Corruption, CorruptionSettings
from evenreel.edits.timed_clips import TimedClip, VideoHeader, readable_clips
from evenreel.errors import CorpusError, MediaError
from evenreel.features.facts import FACTS, FactSettings, clip_facts
from evenreel.features.folder import remove_leftovers
from evenreel.features.manifest import clip_aside
from evenreel.features.pool import ClipRun, SetAside, writer_lock
from evenreel.files import file_at
from evenreel.media.workers import Worker, stamp
from evenreel.progress import Progress, stretch_of
from evenreel.types import Corpus

WORKER = "evenreel.edits.corruptions.worker:CorruptionWorker"
PAGE = "corrupted.json"
MOST_BYTES = 128 * 2**20
"""Pixels of one clip that are held at a time; a longer one gets fewer frames a second."""

_LOOKING = 0.05
"""Share of the work that is put down to headers."""

_VERSION = 1
"""Of how clips are written; those of another one are written anew."""

_LENGTHENS = "insertion"


@dataclass(frozen=True)
class CorruptedCorpus:
    """Corpus of clips that are corrupted alike.

    Attributes:
        kind: kind of corruption.
        strength: 1 to 5; 0 for `none`.
        folder: folder of the corpus.
        clips: number of its clips.
        written: number of clips that were written now.
    """

    kind: str
    strength: int
    folder: str
    clips: int
    written: int


@dataclass
class CorruptionReport:
    """Report of a run that corrupts clips.

    Attributes:
        folder: folder in which the new corpora are.
        corpora: the new corpora.
        set_aside: clips of the old corpus that are in none of the new ones.
        seconds: duration of the run.
    """

    folder: str
    corpora: list[CorruptedCorpus] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)
    seconds: float = 0.0


def corrupt_clips(
    corpus: Corpus,
    folder: str | Path,
    settings: CorruptionSettings,
    progress: Progress = lambda share: None,
) -> CorruptionReport:
    """Corrupt the clips of a corpus in several ways, and write a corpus for each; files that are there are kept.

    A clip is decoded once for all of them, and is in all of the new corpora or in none. The clips are whole files
    without sound.

    Args:
        corpus: corpus of the clips; ids and captions stay.
        folder: folder of the new corpora, each in a folder such as `fog-3` of its own; made where it is missing.
        settings: kinds and strengths, and folder of the videos.
        progress: called with the share that is done.
    """
    folder, started = Path(folder), time.monotonic()
    with writer_lock(folder, CorpusError, "choose another --out"):
        remove_leftovers(folder)
        writers = {one: _claimed(folder, one, settings) for one in settings.corruptions}
        headers = FactSettings(settings.videos, folder / FACTS, settings.workers, settings.limits)
        facts = clip_facts(corpus, headers, stretch_of(progress, 0.0, _LOOKING))
        report = CorruptionReport(str(folder), set_aside=[*facts.set_aside])
        clips = readable_clips(corpus, facts.table)
        borrows = any(one.kind in BORROWING for one in writers)
        timed = [one for one in clips if one.header.duration_s]
        lenders = lenders_of(corpus, timed, settings.seed) if borrows and timed else {}
        run = _Corrupting(writers, lenders, settings)
        report.set_aside += run.run(clips, stretch_of(progress, _LOOKING, 1.0))
        if len(report.set_aside) == corpus.clips.height:
            first = f"; the first: {report.set_aside[0].sentence}" if report.set_aside else ": the corpus has none"
            raise CorpusError(f"No clip could be corrupted{first}.")
        for one, writer in writers.items():
            writer.save(corpus)
            place = str(folder / one.name)
            report.corpora.append(CorruptedCorpus(*one, place, len(writer.clips), writer.written))
    report.seconds = time.monotonic() - started
    return report


def _claimed(folder: Path, one: Corruption, settings: CorruptionSettings) -> CorpusWriter:
    """Return the writer of one new corpus, whose folder is found to be its own."""
    writer = CorpusWriter(folder / one.name, PAGE, "corrupted clips")
    writer.check_owned()
    made = {"fps": settings.fps, "side": settings.side, "seed": settings.seed}
    writer.claim({"version": _VERSION, **one._asdict(), **made}, only="corrupted otherwise")
    return writer


class _TakenFrames(NamedTuple):
    """Frames of a video that are read: its path in the corpus, moments in seconds, and the size they are scaled to."""

    path: str
    at_s: tuple[float, ...]
    size: tuple[int, int]

    def first(self, most: int) -> _TakenFrames:
        """Return the first of these frames alone."""
        return self._replace(at_s=self.at_s[:most])


class _Corrupting:
    """Clips through workers into the files of all corpora."""

    def __init__(
        self,
        writers: Mapping[Corruption, CorpusWriter],
        lenders: Mapping[str, Sequence[TimedClip]],
        settings: CorruptionSettings,
    ) -> None:
        self._writers, self._lenders, self._settings = writers, lenders, settings
        self._aside: dict[str, SetAside] = {}
        self._noting = threading.Lock()

    def run(self, clips: Sequence[TimedClip], progress: Progress) -> list[SetAside]:
        """Write the files that are not there; return the clips that cannot be used, in order."""
        readers = self._settings.workers or usable_cores()
        ClipRun(self._new_worker, self._write, self._set_aside, readers, progress).run(clips)
        return [self._aside[one.clip.clip_id] for one in clips if one.clip.clip_id in self._aside]

    def _new_worker(self) -> Worker:
        limits = self._settings.limits
        return Worker(WORKER, {"seed": self._settings.seed, "limits": asdict(limits)}, limits)

    def _set_aside(self, one: TimedClip, error: MediaError) -> None:
        with self._noting:
            self._aside[one.clip.clip_id] = clip_aside(one.clip, error)
        for writer in self._writers.values():
            writer.clips.pop(one.clip.clip_id, None)

    def _write(self, worker: Worker, one: TimedClip) -> None:
        """Ask for the files of a clip that are not there, and put each down as it comes."""
        size = _size(one.header, self._settings.side)
        source, rate = self._source(one, size)
        frames = len(source.at_s)
        lenders = [self._source(other, size)[0].first(frames) for other in self._lenders.get(one.clip.clip_id, ())]
        files = {kind: self._file(kind, one, (source, *lenders)) for kind in self._writers}
        wanted = [kind for kind, file in files.items() if not self._writers[kind].has(file)]
        lend = [*map(self._read, lenders)] if any(kind.kind in BORROWING for kind in wanted) else []
        ratio = Fraction(rate).limit_denominator(1000).as_integer_ratio()
        task = {"clip_id": one.clip.clip_id, **self._read(source), "size": size, "rate": ratio}
        made = _files(worker, {**task, "lenders": lend, "corruptions": wanted}) if wanted else iter(())
        for kind, file in files.items():
            self._writers[kind].put(one.clip.clip_id, file, lambda: next(made))
        deque(made, maxlen=0)  # a worker that is not heard to its end is ended

    def _source(self, one: TimedClip, size: tuple[int, int]) -> tuple[_TakenFrames, float]:
        """Return the frames of a clip that are read, and how many of them are a second."""
        rate, at_s = one.moments(self._settings.fps, MOST_BYTES // (3 * size[0] * size[1]))
        return _TakenFrames(one.clip.path, tuple(at_s), size), rate

    def _read(self, source: _TakenFrames) -> dict[str, Any]:
        return {"path": str(file_at(self._settings.videos, source.path)), "at_s": source.at_s}

    def _file(self, kind: Corruption, one: TimedClip, sources: Sequence[_TakenFrames]) -> ChangedClip:
        """Return path and frames of a new file, whose name is a digest of all that goes into it.

        Args:
            kind: kind and strength.
            one: the clip.
            sources: its frames, then those of the clips that it may borrow from.
        """
        own, rate = self._source(one, sources[0].size)
        count = len(own.at_s)
        frames = count + (inserted(count, kind.strength) if kind.kind == _LENGTHENS else 0)
        used = sources if kind.kind in BORROWING else sources[:1]
        stamps = [asdict(stamp(str(file_at(self._settings.videos, source.path)))) for source in used]
        named = [_VERSION, *kind, self._settings.seed, one.clip.clip_id, rate, used, stamps]
        key = hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()
        return ChangedClip(f"{CLIPS}/{key}.mp4", frames, rate)


def _files(worker: Worker, task: dict[str, Any]) -> Iterator[bytes]:
    """Yield the files that a worker makes, in the order of the corruptions."""
    for message, array in worker.run(task):
        if message["kind"] == "clip" and array is not None:
            yield array.tobytes()


def _size(header: VideoHeader, side: int) -> tuple[int, int]:
    """Return height and width of the new pictures: even, and the shorter at most `side`."""
    scale = min(1.0, side / min(header.height, header.width))
    return max(2, round(header.height * scale / 2) * 2), max(2, round(header.width * scale / 2) * 2)
