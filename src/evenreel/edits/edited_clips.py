"""Clips of a corpus with edited pictures or sound, written as files under the same ids for any system."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from evenreel.config import usable_cores
from evenreel.edits.corpus_writer import CLIPS, ChangedClip, CorpusWriter
from evenreel.edits.settings import ClipEditSettings
from evenreel.edits.timed_clips import TimedClip, readable_clips
from evenreel.errors import CorpusError, MediaError
from evenreel.features.facts import FACTS, FactSettings, clip_facts
from evenreel.features.folder import remove_leftovers
from evenreel.features.manifest import CorpusClip, clip_aside
from evenreel.features.pool import ClipRun, SetAside, writer_lock
from evenreel.files import file_at
from evenreel.media.encode import clip_bytes
from evenreel.media.workers import Worker, stamp
from evenreel.progress import Progress, stretch_of
from evenreel.types import Corpus, FloatArray, Pixels
from evenreel.wording import count

READER = "evenreel.media.sound:MomentReader"
PAGE = "edited.json"
MOST_READERS = 4
"""Clips at a time, each of which holds `MOST_BYTES` of pixels, and once more while it is edited."""

MOST_BYTES = 256 * 2**20
"""Pixels of one clip that are held at a time; a longer or larger one gets fewer frames a second."""

MOST_SOUND_S = 3_600.0
"""Seconds of sound of one clip that are kept, mono at 16 kHz; what is beyond is left out."""

_LOOKING = 0.05
"""Share of the work that is put down to headers."""

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
    """Report of a run that edits clips.

    Attributes:
        folder: folder of the new corpus.
        written: number of clips that were written now.
        unchanged: number of clips that were there already.
        set_aside: clips of the old corpus that are not in the new one.
        seconds: duration of the run.
        notices: sentences about the new corpus.
    """

    folder: str
    written: int = 0
    unchanged: int = 0
    set_aside: list[SetAside] = field(default_factory=list)
    seconds: float = 0.0
    notices: list[str] = field(default_factory=list)


def edit_clips(
    corpus: Corpus,
    folder: str | Path,
    edit: ClipEdit,
    settings: ClipEditSettings,
    progress: Progress = lambda share: None,
) -> ClipEditReport:
    """Edit the clips of a corpus, and write them as a new corpus; a clip whose file is there is not made again.

    Args:
        corpus: corpus of the clips; ids and captions stay.
        folder: folder of the new corpus and its clips; made where it is missing.
        edit: edit of each clip.
        settings: folder of the videos, and the rate of the new ones.
        progress: called with the share that is done.
    """
    folder, started = Path(folder), time.monotonic()
    writer = CorpusWriter(folder, PAGE, "edited clips")
    with writer_lock(folder, CorpusError, "choose another --out"):
        writer.check_owned()
        writer.claim({"version": _VERSION, "fps": settings.fps, **edit.described}, only="edited otherwise")
        remove_leftovers(folder)
        header = FactSettings(settings.videos, folder / FACTS, limits=settings.limits)
        facts = clip_facts(corpus, header, stretch_of(progress, 0.0, _LOOKING))
        report = ClipEditReport(str(folder), set_aside=[*facts.set_aside])
        jobs = readable_clips(corpus, facts.table)
        editing = _Editing(writer, edit, settings)
        report.set_aside += editing.run(jobs, stretch_of(progress, _LOOKING, 1.0))
        report.notices += editing.notices
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
        self._silenced: dict[str, str] = {}
        self._editing = threading.Lock()

    def run(self, jobs: Sequence[TimedClip], progress: Progress) -> list[SetAside]:
        """Write the clips that are not there; return those that cannot be used, in order."""
        readers = min(usable_cores(), MOST_READERS)
        ClipRun(self._new_reader, self._write, self._set_aside, readers, progress).run(jobs)
        return [self._aside[clip.clip_id] for clip, _ in jobs if clip.clip_id in self._aside]

    @property
    def notices(self) -> Iterator[str]:
        """Iterate over notices about what was written in this run, a sentence each."""
        if self._silenced:
            path, why = next(iter(self._silenced.items()))
            yield (
                f"The sound of {count(len(self._silenced), 'clip')} cannot be read and counts as silent; the first: "
                f"{path}: {why}."
            )

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
                _put(array, message["start_s"] - start_s, sound)
            elif message["kind"] == "no_sound" and message["reason"] != "no_sound":
                self._silenced[clip.path] = message["why"]
        if len(found) != len(times_s):
            raise MediaError("no_frames", f"it has {len(found)} of the {len(times_s)} frames that its header promises")
        height, width = (side // 2 * 2 for side in found[0].shape[:2])
        return np.stack([pixels[:height, :width] for pixels in found]).transpose(0, 3, 1, 2), sound

    def _key(self, clip: CorpusClip) -> str:
        """Return 32 hex digits over all that goes into a file."""
        source = asdict(stamp(str(file_at(self._settings.videos, clip.path))))
        named = [_VERSION, clip.clip_id, clip.path, asdict(clip.part), source, self._settings.fps]
        named += [dict(self._edit.described), *self._edit.described_of(clip.clip_id)]
        return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()


def _put(block: FloatArray, at_s: float, sound: FloatArray) -> None:
    """Put a block of samples at its time into the sound of a clip, as far as it lies in there."""
    first = round(at_s * _SOUND_RATE)
    inner = block[max(0, -first) : max(0, len(sound) - first)]
    sound[max(0, first) : max(0, first) + len(inner)] = inner
