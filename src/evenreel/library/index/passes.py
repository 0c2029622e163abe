"""The passes of an index run over its files: several readers in parallel, one durable transaction for each clip.

In one pass, pictures, words on screen and speech of a file are read together, and it is decoded once. In two, pictures
come first, so that all files can soon be searched by what is seen, and the others follow in a second reading.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from evenreel.config import IndexSettings, Machines
from evenreel.errors import MediaError, UsageError
from evenreel.features.clip_reader import (
    READER,
    ClipReader,
    ClipSource,
    OtherWindowsError,
    ReaderSettings,
    WantedStages,
)
from evenreel.features.pool import Brake, ReaderPool
from evenreel.features.progress import NoProgress, SetAside, StagedProgress
from evenreel.features.shards import Shard
from evenreel.features.stills import Stills
from evenreel.library.index.foretelling import seconds_a_second
from evenreel.library.index.hearing import SpeechStage
from evenreel.library.index.meter import VideoMeter
from evenreel.library.index.model import ModelInUse
from evenreel.library.index.plan import still_wanted
from evenreel.library.index.report import IndexReport
from evenreel.library.index.spread import Outcomes, SpreadRun
from evenreel.library.store.writer import FoundFile, Store
from evenreel.media.content import FileStamp, stamp
from evenreel.types import Encoder
from evenreel.wording import printable

PICTURES, WORDS, BOTH = "pictures", "words", "pictures and words"
"""What a pass reads."""

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class RunParts:
    """What an index run works with, besides the library and its settings.

    Attributes:
        progress: receives the progress of the run.
        machines: machines that read and encode; None for this one alone.
        brake: ends the run early.
        encoders: models that are loaded, by name; those that the run loads are added.
        reader: target of the workers; tests put stubs here.
    """

    progress: StagedProgress = field(default_factory=NoProgress)
    machines: Machines | None = None
    brake: Brake = field(default_factory=Brake)
    encoders: dict[str, Encoder] = field(default_factory=dict)
    reader: str = READER

    @property
    def cluster(self) -> Machines | None:
        """The machines, where they form a cluster."""
        return self.machines if self.machines and self.machines.ray else None


class ReadingPasses:
    """Reads the files of an index run into the library."""

    def __init__(
        self,
        store: Store,
        model: ModelInUse | None,
        settings: IndexSettings,
        parts: RunParts,
        report: IndexReport,
        speech: SpeechStage,
    ) -> None:
        self._store, self._model, self._settings, self._parts, self._report = store, model, settings, parts, report
        self._all = stages_of(settings)
        self._speech = speech
        self._report_lock, self._claims_lock = threading.Lock(), threading.Lock()
        self._claims: dict[str, list[FoundFile]] = {}
        self._digests: dict[str, tuple[FileStamp, str]] = {}
        self._counted: set[str] = set()  # clips, files and notes that the report has
        self._begin(BOTH, {})

    def _begin(self, stage: str, lengths_s: Mapping[str, float]) -> None:
        self._again = stage == WORDS and bool(self._counted)
        self._stage, self._meter = stage, VideoMeter(stage, lengths_s, self._parts.progress) if lengths_s else None
        self._unheard = self._speech.unheard() if stage == WORDS else set()
        self._pool = ReaderPool(self._new_reader, self._read_one, self._settings.worker_count, self._parts.brake)

    def read(self, stage: str, work: Sequence[FoundFile], lengths_s: Mapping[str, float]) -> None:
        """Read files in one pass."""
        work = [file for file in work if f"aside {file.path}" not in self._counted]
        if not work or self._parts.brake.eased:
            return
        self._begin(stage, {file.path: lengths_s.get(file.path, 0.0) for file in work})
        self._parts.progress.begin(len(work))
        if self._parts.cluster is None:
            self._pool.run(work)
            return
        outcomes = Outcomes(self._wanted, self._keep, self._link, self._set_aside, self._count_frame, self._speech)
        machines, library = self._parts.cluster, self._store.library
        SpreadRun(library, self._model, self._all, self._settings, machines, outcomes, self._parts.reader).run(work)

    def seconds_a_second(
        self,
        work: Sequence[FoundFile],
        lengths_s: Mapping[str, float],
        stages: Sequence[WantedStages | None],
    ) -> list[float | None]:
        """Measure how long a second of video takes, see `evenreel.library.index.foretelling`."""
        if self._model is not None:
            self._model.encoder()  # whose windows are known then, and whose loading is not measured

        def new_reader() -> ClipReader:
            return self._new_reader(lambda path, time_s: None)

        return seconds_a_second(new_reader, self._settings.worker_count, work, lengths_s, stages)

    def _new_reader(self, on_frame: Callable[[str, float], None] | None = None) -> ClipReader:
        settings = self._settings
        workers, limits = settings.worker_count, settings.limits
        reading = ReaderSettings(settings.rule, settings.read_text and self._stage != PICTURES, workers, limits, True)
        return ClipReader(reading, self._model, on_frame or self._count_frame, self._parts.reader, self._speech.reading)

    def _read_one(self, reader: ClipReader, file: FoundFile) -> None:
        clip_id, stills = None, Stills() if self._settings.keep_stills and not self._again else None
        try:
            file = replace(file, stamp=stamp(file.path))
            clip_id = self._digest(file)
            wanted = self._speech.stages_of(file, self._claim(file, clip_id))
            if wanted is None:
                return
            try:
                read = reader.read(ClipSource(clip_id, file.path, file.stamp), wanted, stills)
            except BaseException:
                self._release(clip_id)
                raise
        except OtherWindowsError as error:
            self._read_again(file, error)
            return
        except MediaError as error:
            if not self._pool.stopping:  # a worker that was ended by us is no fault of the file
                self._set_aside(file, error, clip_id)
            return
        self._pool.hand_over(partial(self._finish, file, clip_id, read, stills))

    def _digest(self, file: FoundFile) -> str:
        """The digest of a file's bytes, which are read once in a run unless the file changes."""
        known = self._digests.get(file.path)
        if known is None or known[0] != file.stamp:
            clip_id = self._pool.digest(file.path, self._settings.limits.stall_timeout_s)
            self._digests[file.path] = known = (file.stamp, clip_id)
        return known[1]

    def _finish(
        self,
        file: FoundFile,
        clip_id: str,
        read: Callable[[], Shard],
        stills: Stills | None,
    ) -> None:
        try:
            self._keep(file, clip_id, read(), stills)
        except OtherWindowsError as error:
            self._read_again(file, error)
        except MediaError as error:
            self._set_aside(file, error, clip_id)
        finally:
            self._release(clip_id)

    def _read_again(self, file: FoundFile, error: OtherWindowsError) -> None:
        with self._report_lock:
            self._report.frames -= error.frames
        self._pool.add([file])

    def _keep(self, file: FoundFile, clip_id: str, shard: Shard, stills: Stills | bytes | None) -> None:
        """Store what was made of a clip."""
        try:
            self._store.add_clip(shard, stills)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # what nobody thought of, in this file
            what = f"what was read of it cannot be stored ({type(error).__name__}: {error})"
            raise MediaError("failed", what) from error
        self._store.link(file, clip_id)
        notes = dict.fromkeys((printable(file.path), note) for note in shard.info.notes)
        with self._report_lock:
            self._report.indexed += self._is_new(clip_id)
            self._report.heard += shard.is_heard
            self._report.notes += [note for note in notes if self._is_new("\0".join(note))]
        self._count_file(file, shard.info.duration_s)

    def _claim(self, file: FoundFile, clip_id: str) -> WantedStages | None:
        """The stages this thread is to do; None where all is there, or another thread reads it just now.

        In that case the file comes back to the queue when the other thread is done with it.
        """
        with self._claims_lock:
            if clip_id in self._claims:
                self._claims[clip_id].append(file)
                return None
            wanted = self._wanted(clip_id)
            if wanted is not None:
                self._claims[clip_id] = []
                return wanted
        self._link(file, clip_id)
        return None

    def _wanted(self, clip_id: str) -> WantedStages | None:
        """The stages to do; None where the shard is there and nothing is wanted."""
        done = self._store.done_stages(clip_id)
        wanted = still_wanted(pictures_of(self._all) if self._stage == PICTURES else self._all, done)
        if done is not None and not wanted:
            return None
        if self._stage == WORDS and not wanted.vision:
            return replace(wanted, speech=clip_id in self._unheard)
        return wanted

    def _release(self, clip_id: str) -> None:
        with self._claims_lock:
            self._pool.add(self._claims.pop(clip_id))

    def _link(self, file: FoundFile, clip_id: str) -> None:
        self._store.link(file, clip_id)
        with self._report_lock:
            self._report.recognised += self._is_new(f"linked {file.path}")
        self._count_file(file)

    def _set_aside(self, file: FoundFile, error: MediaError, clip_id: str | None = None) -> None:
        self._store.set_aside(file, error, clip_id)
        self._note_aside(file, error)
        self._count_file(file)

    def refuse(self, files: Sequence[FoundFile]) -> None:
        """Set files aside that cannot be looked at."""
        for file in files:
            if file.error is not None:
                self._set_aside(file, file.error)

    def _note_aside(self, file: FoundFile, error: MediaError) -> None:
        path = printable(file.path)
        log.info("set aside %s: %s: %s", path, error.reason, error)
        with self._report_lock:
            self._is_new(f"aside {file.path}")
            self._report.newly_aside += 1
            self._report.set_aside.append(SetAside("", path, error.reason, str(error)))

    def _is_new(self, what: str) -> bool:
        """Whether the report has not counted this yet; it has from now on."""
        is_new = what not in self._counted
        self._counted.add(what)
        return is_new

    def _count_file(self, file: FoundFile, length_s: float | None = None) -> None:
        if self._meter is not None:
            self._meter.finish(file.path, length_s)
        self._parts.progress.file_done(file.path)

    def _count_frame(self, path: str, time_s: float) -> None:
        """A frame is there, so there is a video, and the model is wanted if it was not before."""
        if self._model is not None:
            self._model.start()
        with self._report_lock:
            self._report.frames += not self._again
        if self._meter is not None:
            self._meter.read(path, time_s)
        self._parts.progress.frame()


def check_passes(settings: IndexSettings, machines: Machines | None) -> None:
    """Check the number of passes of a run before anything is read."""
    if settings.passes not in (0, 1, 2):
        raise UsageError(f"--passes {settings.passes}: files are read in 1 pass or in 2; 0 chooses.")
    if settings.passes == 2 and machines is not None and machines.ray is not None:
        raise UsageError("The workers of --ray read each file in one pass; leave --passes out.")


def stages_of(settings: IndexSettings) -> WantedStages:
    """Return the stages that a run wants of each clip."""
    return WantedStages(settings.model is not None, settings.read_text, True)


def pictures_of(wanted: WantedStages) -> WantedStages:
    """Return the stages of the first of two passes."""
    return replace(wanted, text=False, speech=False)
