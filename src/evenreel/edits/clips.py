"""Copies of a corpus with edited clips: settings, the times of clips, reading and writing of each."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from evenreel.config import usable_cores
from evenreel.corpus import make_corpus, save_corpus
from evenreel.edits.settings import ClipEditSettings
from evenreel.errors import CorpusError, MediaError
from evenreel.features.facts import FACTS, FactSettings, clip_facts
from evenreel.features.manifest import CorpusClip, clip_aside, clips_of, remove_leftovers
from evenreel.features.pool import ClipRun, SetAside, writer_lock
from evenreel.files import file_at, write_durably
from evenreel.media.encode import clip_bytes
from evenreel.media.workers import Worker, stamp
from evenreel.progress import Progress, stretch_of
from evenreel.types import Corpus, FloatArray, Pixels
from evenreel.wording import count

# Clips of a corpus with what their headers say, and the moments at which their frames are taken.


class VideoHeader(NamedTuple):
    """Size of a picture in pixels, rate and length of a clip; None where the file does not say it."""

    width: int
    height: int
    fps: float | None
    duration_s: float | None


class TimedClip(NamedTuple):
    """A clip and what its header says."""

    clip: CorpusClip
    header: VideoHeader

    def moments(self, fps: float, most: int) -> tuple[float, list[float]]:
        """Choose the moments of a new clip's frames, in seconds of the file, in the middles of equal parts."""
        fact = self.header
        if not fact.duration_s:
            raise MediaError("no_frames", "nothing tells how long it is")
        frames = min(max(1, most), max(1, round(fact.duration_s * min(fps, fact.fps or fps))))
        rate = frames / fact.duration_s
        return rate, [(self.clip.part.start_s or 0.0) + (number + 0.5) / rate for number in range(frames)]


def readable_clips(corpus: Corpus, facts: pl.DataFrame) -> list[TimedClip]:
    """List the clips whose headers could be read, in the order of the corpus."""
    columns = ("clip_id", *VideoHeader._fields)
    known = {clip: VideoHeader(*values) for clip, *values in facts.select(columns).iter_rows()}
    return [TimedClip(clip, known[clip.clip_id]) for clip in clips_of(corpus) if clip.clip_id in known]


def digest_of(named: Sequence[Any], size: int = 16) -> str:
    """Return hex digits over all that goes into a file, for its name."""
    return hashlib.blake2b(json.dumps(named).encode(), digest_size=size).hexdigest()


# Writer of a corpus of changed clips: a JSON page that says what the folder is for, a file a clip, and tables.

CLIPS = "clips"
LOOKING = 0.05
"""Share of the work that is put down to headers."""


class ChangedClip(NamedTuple):
    """File of a changed clip: its path in the new corpus, number of frames, and frames a second."""

    path: str
    frame_count: int
    fps: float


class CorpusWriter:
    """Writer of a corpus of changed clips into a folder that the caller has locked.

    Args:
        folder: folder of the new corpus.
        page: file name of the page, a JSON file that says how the clips were made.
        holds: words for the content of a folder with such a page, for messages.

    Attributes:
        clips: clips of the new corpus, by id.
        written: number of files that were not there before.
    """

    def __init__(self, folder: Path, page: str, holds: str) -> None:
        self._folder, self._page, self._holds = folder, folder / page, holds
        self._lock = threading.Lock()
        self.clips: dict[str, ChangedClip] = {}
        self.written = 0

    def check_owned(self) -> None:
        """Check that the folder holds no corpus, or one with a page of this name: nothing else is ever replaced."""
        there = [name for name in ("clips.parquet", CLIPS) if (self._folder / name).exists()]
        if there and not self._page.is_file():
            raise CorpusError(f"{self._folder} holds {there[0]} already, of no {self._holds}; choose another --out.")

    def claim(self, content: Mapping[str, Any], *, only: str | None = None) -> None:
        """Write the page that says how the clips are made, before anything else is in the folder."""
        page = (json.dumps(content, indent=2) + "\n").encode()
        if only is not None and self._page.is_file() and self._page.read_bytes() != page:
            raise CorpusError(f"{self._folder} holds clips that were {only}; choose another --out, or delete it first.")
        self._store(self._page, page)

    def has(self, clip: ChangedClip) -> bool:
        """Return whether the file of a clip is there."""
        return (self._folder / clip.path).is_file()

    def put(self, clip_id: str, clip: ChangedClip, payload: Callable[[], bytes]) -> None:
        """Add a clip to the new corpus, and make its file unless it is there; may be called by several threads."""
        new = not self.has(clip)
        if new:
            self._store(self._folder / clip.path, payload())
        with self._lock:
            self.clips[clip_id] = clip
            self.written += new

    def save(self, corpus: Corpus, more: Mapping[str, pl.Expr] | None = None) -> None:
        """Write the tables of the new corpus: the changed clips, each a whole file, with their captions."""
        clips = corpus.clips.filter(pl.col("clip_id").is_in([*self.clips]))
        files = [self.clips[clip_id] for clip_id in clips["clip_id"]]
        none = pl.lit(None, pl.Float64)
        columns = (pl.Series(name, [getattr(file, name) for file in files]) for name in ChangedClip._fields)
        clips = clips.with_columns(*columns, start_s=none, end_s=none).with_columns(**more or {})
        captions = corpus.captions.filter(pl.col("clip_id").is_in(clips["clip_id"].implode()))
        save_corpus(make_corpus(clips, captions), self._folder)

    @staticmethod
    def _store(path: Path, payload: bytes) -> None:
        try:
            write_durably(path, payload)
        except OSError as error:
            raise CorpusError(
                f"{path} cannot be written ({(error.strerror or str(error)).lower()}). Clips that were finished are "
                "kept: make room or choose another --out, and run it again."
            ) from error


# Clips of a corpus with edited pictures or sound, written as files under the same ids for any system.

READER = "evenreel.media.sound:MomentReader"
PAGE = "edited.json"
MOST_READERS = 4
"""Clips at a time, each of which holds `MOST_BYTES` of pixels, and once more while it is edited."""

MOST_BYTES = 256 * 2**20
"""Pixels of one clip that are held at a time; a longer or larger one gets fewer frames a second."""

MOST_SOUND_S = 3_600.0
"""Seconds of sound of one clip that are kept, mono at 16 kHz; what is beyond is left out."""

_SOUND_RATE = 16_000
_VERSION = 2
"""Of how clips are written; those of another one are written anew."""


class ClipEdit(Protocol):
    """An edit of the pictures or the sound of clips, such as an overlay of words."""

    @property
    def described(self) -> Mapping[str, Any]:
        """Return what identifies the edit and is the same for all clips, ready for JSON."""

    def described_of(self, clip_id: str) -> Sequence[str]:
        """Return what identifies the edit of one clip beyond `described`, such as its words."""

    def __call__(self, clip_id: str, pixels: Pixels) -> Pixels:
        """Edit the frames (T, 3, H, W) of a clip, as many after as before; a MediaError sets the clip aside."""

    def edit_sound(self, clip_id: str, sound: FloatArray) -> FloatArray:
        """Edit the sound of a clip, (N,) mono at 16 kHz and as long as the clip; zeros for one without sound."""


@dataclass
class ClipEditReport:
    """Report of a run that edits clips."""

    folder: str  # folder of the new corpus
    written: int = 0  # number of clips that were written now
    unchanged: int = 0  # number of clips that were there already
    set_aside: list[SetAside] = field(default_factory=list)  # clips of the old corpus that are not in the new one
    seconds: float = 0.0  # duration of the run
    notices: list[str] = field(default_factory=list)  # sentences about the new corpus


def edit_clips(
    corpus: Corpus,
    folder: str | Path,
    edit: ClipEdit,
    settings: ClipEditSettings,
    progress: Progress = lambda share: None,
) -> ClipEditReport:
    """Edit the clips of a corpus, and write them as a new corpus; a clip whose file is there is not made again."""
    folder, started = Path(folder), time.monotonic()
    writer = CorpusWriter(folder, PAGE, "edited clips")
    with writer_lock(folder, CorpusError, "choose another --out"):
        writer.check_owned()
        writer.claim({"version": _VERSION, "fps": settings.fps, **edit.described}, only="edited otherwise")
        remove_leftovers(folder)
        header = FactSettings(settings.videos, folder / FACTS, limits=settings.limits)
        facts = clip_facts(corpus, header, stretch_of(progress, 0.0, LOOKING))
        report = ClipEditReport(str(folder), set_aside=[*facts.set_aside])
        jobs = readable_clips(corpus, facts.table)
        editing = _Editing(writer, edit, settings)
        report.set_aside += editing.run(jobs, stretch_of(progress, LOOKING, 1.0))
        if silenced := editing.silenced:
            path, why = next(iter(silenced.items()))
            report.notices.append(
                f"The sound of {count(len(silenced), 'clip')} cannot be read and counts as silent; the first: {path}: "
                f"{why}."
            )
        report.written, report.unchanged = writer.written, len(writer.clips) - writer.written
        if not writer.clips:
            raise CorpusError(f"No clip could be edited; the first: {report.set_aside[0].sentence}.")
        writer.save(corpus)
    report.seconds = time.monotonic() - started
    return report


class _Editing:
    """Clips through readers and an edit into files."""

    def __init__(self, writer: CorpusWriter, edit: ClipEdit, settings: ClipEditSettings) -> None:
        self._writer, self._edit, self._settings = writer, edit, settings
        self._aside: dict[str, SetAside] = {}
        self.silenced: dict[str, str] = {}
        self._editing = threading.Lock()

    def run(self, jobs: Sequence[TimedClip], progress: Progress) -> list[SetAside]:
        """Write the clips that are not there; return those that cannot be used, in order."""
        readers = min(usable_cores(), MOST_READERS)
        ClipRun(self._new_reader, self._write, self._set_aside, readers, progress).run(jobs)
        return [self._aside[clip.clip_id] for clip, _ in jobs if clip.clip_id in self._aside]

    def _new_reader(self) -> Worker:
        return Worker(READER, {"limits": asdict(self._settings.limits)}, self._settings.limits)

    def _write(self, worker: Worker, job: TimedClip) -> None:
        clip = job.clip
        most = MOST_BYTES // (3 * job.header.width * job.header.height)
        rate, times_s = job.moments(self._settings.fps, most)
        file = ChangedClip(f"{CLIPS}/{self._key(clip)}.mp4", len(times_s), rate)
        self._writer.put(clip.clip_id, file, lambda: self._edited(worker, clip, times_s, rate))

    def _set_aside(self, job: TimedClip, error: MediaError) -> None:
        self._aside[job.clip.clip_id] = clip_aside(job.clip, error)

    def _edited(self, worker: Worker, clip: CorpusClip, times_s: Sequence[float], rate: float) -> bytes:
        pixels, sound = self._read(worker, clip, times_s, len(times_s) / rate)
        with self._editing:  # an edit need not bear several threads
            pixels, sound = self._edit(clip.clip_id, pixels), self._edit.edit_sound(clip.clip_id, sound)
        pictures = map(np.ascontiguousarray, pixels.transpose(0, 2, 3, 1))
        heard = sound if sound.any() else None
        return clip_bytes(pictures, Fraction(rate).limit_denominator(1000), sound=heard)

    def _read(
        self, worker: Worker, clip: CorpusClip, times_s: Sequence[float], length_s: float
    ) -> tuple[Pixels, FloatArray]:
        """Read frames (T, 3, H, W) at some moments, H and W even, and the sound (N,) of the clip."""
        start_s = clip.part.start_s or 0.0
        sound_s = [start_s, start_s + min(length_s, MOST_SOUND_S)]
        task = {"path": str(file_at(self._settings.videos, clip.path)), "at_s": [*times_s], "sound_s": sound_s}
        found: list[Pixels] = []
        sound = np.zeros(round((sound_s[1] - start_s) * _SOUND_RATE), np.float32)
        for message, array in worker.run(task):
            if message["kind"] == "frame" and array is not None:
                found.append(array)
            elif message["kind"] == "sound" and array is not None:
                first = round((message["start_s"] - start_s) * _SOUND_RATE)
                inner = array[max(0, -first) : max(0, len(sound) - first)]
                sound[max(0, first) : max(0, first) + len(inner)] = inner
            elif message["kind"] == "no_sound" and message["reason"] != "no_sound":
                self.silenced[clip.path] = message["why"]
        if len(found) != len(times_s):
            raise MediaError("no_frames", f"it has {len(found)} of the {len(times_s)} frames that its header promises")
        height, width = (side // 2 * 2 for side in found[0].shape[:2])
        return np.stack([pixels[:height, :width] for pixels in found]).transpose(0, 3, 1, 2), sound

    def _key(self, clip: CorpusClip) -> str:
        """Return 32 hex digits over all that goes into a file."""
        source = asdict(stamp(str(file_at(self._settings.videos, clip.path))))
        named = [_VERSION, clip.clip_id, clip.path, asdict(clip.part), source, self._settings.fps]
        return digest_of([*named, dict(self._edit.described), *self._edit.described_of(clip.clip_id)])
