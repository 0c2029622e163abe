"""What is read of a file, once: the table of stages, and each of them.

`run.StageRun` takes a stage through the files of an index run: those that lack it are claimed by their content, read
in processes that can be killed, and what was read is put into the library with the file's row. A stage that is new, or
whose settings have changed, is what a file lacks; nothing else is optional.

| stage | read by | a file lacks it where |
|---|---|---|
| pictures | `ClipReader` | its clip has no vectors |
| signs | the same, in one decoding | nobody read what is written on screen |
| subtitles | `subtitle_reader` | a file beside it is new, another or gone, or its streams were not looked at |
| picture subtitles | the same | its streams of pictures were left out, as its signs were |
| speech | `SpeechHearing` | neither subtitles nor the model say anything; of a new clip it is read with the pictures |
| sounds | `sound.sound_worker` | the model of sounds has no vectors of it |
| faces | `faces.ClipFaces` | nobody looked for faces |

To register one, write a class with the methods of `Stage` and add it to `STAGES`, in the order in which they are read.
It is made with the `IndexRun`. `begin` says whether the library wants it at all; it is the place to read in one go what
`wanted` is to know of each file. `wanted` is asked for every indexed file, with `file.clip_id` known, and of those with
one content the first is read. `reader` makes what holds the process, `readers` says how many. `read` runs in a thread
of its reader; it returns what `put` takes, or a function that returns it and needs no reader, or None where nothing is
to be put. `put` runs in the one thread that writes. A run that is killed is gone on with by the next: what was put is
not wanted any more.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from evenreel.config import AUTO, IndexSettings, allowed_threads
from evenreel.errors import LibraryError, MediaError, UsageError
from evenreel.extras import installed
from evenreel.features.clip_reader import (
    ClipReader,
    ClipSource,
    ReaderSettings,
    SharedModel,
    SpeechHearing,
    WantedStages,
)
from evenreel.features.pool import TRANSIENT, Closable, SetAside, StagedProgress, VideoProgress
from evenreel.features.shards import ClipSounds, Shard, Stills
from evenreel.files import printable
from evenreel.library.index.scan import IndexRun, KnownFile, still_wanted
from evenreel.library.people import FaceStage
from evenreel.library.store import catalog
from evenreel.library.store.vectors import SOUNDS
from evenreel.library.store.writer import FoundFile, Store, put_transcripts, settle_shard
from evenreel.media.sampling import WHOLE, Part, language_tag
from evenreel.media.workers import Worker, stamp
from evenreel.onscreen.scene import SheetReader, engine_id
from evenreel.speech.recogniser import check_extra, speech_model_here
from evenreel.speech.subtitles import (
    NO_STREAM,
    UNREAD,
    UNREADABLE,
    Sidecar,
    Stamp,
    Subtitles,
    Transcript,
    read_with,
    sidecars_of,
    streams_known,
    within,
)
from evenreel.types import Encoder
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.sound import SoundEncoder
    from evenreel.speech.streams import SubtitleFiles

log = logging.getLogger("evenreel")


class Stage(Protocol):
    """What is read of a file, once; see above for when each is called."""

    title: str  # is shown as the progress of a run
    readers: int  # that read at a time

    def begin(self) -> bool:
        return True

    def wanted(self, file: FoundFile, have: KnownFile) -> bool: ...
    def reader(self) -> Closable: ...
    def read(self, reader: Any, file: FoundFile) -> Any: ...
    def put(self, store: Store, reading: Any) -> None: ...

    def set_aside(self, store: Store, file: FoundFile, error: MediaError) -> None:
        return

    def end(self) -> None:  # all files are read, or a brake has ended the reading
        return


# the reading of a file, which needs no library, so that any machine can do it -----------------------------------------


@dataclass(frozen=True)
class Orders:
    """What an index run wants of each of its files: plain data, so that it can travel."""

    wanted: WantedStages
    settings: IndexSettings  # of which `speech` is the model that hears what is said, or None
    reader: str  # target of the processes


@dataclass
class Reading:
    """What was read of a file: a shard, and stills where they are kept. Without a shard nothing was wanted of it."""

    file: FoundFile
    shard: Shard | None = None
    stills: Stills | bytes | None = None


def file_reader(
    orders: Orders,
    model: SharedModel | None,
    hearing: SpeechHearing | None = None,
    on_frame: Callable[[str, float], None] = lambda path, time_s: None,
) -> ClipReader:
    """Make what reads one file after another; readers of one process share a model and a hearing."""
    of = orders.settings
    settings = ReaderSettings(of.rule, orders.wanted.text, of.worker_count, of.limits, find_shots=True)
    return ClipReader(settings, model, on_frame, orders.reader, hearing)


def read_file(
    reader: ClipReader, orders: Orders, file: FoundFile, wanted: WantedStages, part: Part = WHOLE
) -> Callable[[], Reading]:
    """Read a file of known content to its end; the function returned encodes the last frames."""
    stills = Stills() if orders.settings.keep_stills else None
    finish = reader.read(ClipSource(file.clip_id or "", file.path, file.stamp, part), wanted, stills)
    return lambda: Reading(file, finish(), stills)


def load(name: str, settings: IndexSettings) -> Encoder:
    from evenreel.encoders import load_encoder

    return load_encoder(name, device=settings.device, precision=settings.precision)


def made_with(encoder: Encoder, asked: str) -> dict[str, str]:
    """Return the entries of `meta` that say by which model the vectors of a library are."""
    return {
        "model": encoder.encoder_id,
        "asked_model": asked,
        "encoder_id": encoder.encoder_id,
        "weights_hash": encoder.weights_hash,
        "dimension": str(encoder.dimension),
    }


# pictures, signs, and what is said in new clips -----------------------------------------------------------------------

PICTURES, WORDS, BOTH = "pictures", "words", "pictures and words"
"""What a pass reads."""


class ReadingStage(Stage):
    """What one decoding of a file gives; in one pass, or in two, of which the first leaves words out.

    `orders` say what the pass at hand wants of each file; whoever reads elsewhere is told no more than these.
    """

    def __init__(self, run: IndexRun, orders: Orders, model: SharedModel | None, speech: SpeechStage) -> None:
        self._run, self._all, self.model, self.speech = run, orders, model, speech
        self._counted: set[str] = set()  # clips, files and notes that the report has
        self._frames: dict[str, int] = {}  # by path
        self._counting = threading.Lock()
        self.readers = run.settings.worker_count
        self.begin_pass(BOTH, {})

    def begin_pass(self, title: str, lengths_s: Mapping[str, float]) -> None:
        self.title, self._again = title, title == WORDS and bool(self._counted)
        told = title if self._all.wanted.vision else WORDS
        self._meter = VideoMeter(told, lengths_s, self._run.progress) if lengths_s else None
        self._unheard = self.speech.unheard() if title == WORDS else set()
        wanted = replace(self._all.wanted, text=False, speech=False) if title == PICTURES else self._all.wanted
        kept = self._all.settings.keep_stills and not self._again
        self.orders = replace(self._all, wanted=wanted, settings=replace(self._all.settings, keep_stills=kept))

    def wanted(self, file: FoundFile, have: KnownFile) -> bool:
        return bool(still_wanted(self.orders.wanted, have.done))

    def is_aside(self, file: FoundFile) -> bool:
        return f"aside {file.path}" in self._counted

    def lacking(self, clip_id: str) -> WantedStages | None:
        """Return what is to be read of a content; None where nothing is."""
        done = self._run.store.done_stages(clip_id)
        wanted = still_wanted(self.orders.wanted, done)
        if done is not None and not wanted:
            return None
        if self.title == WORDS and not wanted.vision:
            return replace(wanted, speech=clip_id in self._unheard)
        return wanted

    def reader(self) -> ClipReader:
        return file_reader(self.orders, self.model, self.speech.hearing, self._count_frame)

    def read(self, reader: ClipReader, file: FoundFile) -> Reading | Callable[[], Reading]:
        wanted = self.lacking(str(file.clip_id))
        if wanted is None:
            return Reading(file)
        self.count_frames(file.path, 0)
        if not self.speech.hears(file):
            wanted = replace(wanted, speech=False)
        return read_file(reader, self.orders, file, wanted)

    def put(self, store: Store, reading: Reading) -> None:
        file, shard = reading.file, reading.shard
        if shard is None:
            store.link(file)
            self._run.report.recognised += self._is_new(f"linked {file.path}")
            self._count_file(file)
            return
        try:
            store.put_clip(file, shard, reading.stills)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # what nobody thought of, in this file
            what = f"what was read of it cannot be stored ({type(error).__name__}: {error})"
            raise MediaError("failed", what) from error
        report, notes = self._run.report, dict.fromkeys((printable(file.path), note) for note in shard.info.notes)
        report.indexed += self._is_new(str(file.clip_id))
        self._is_new(f"linked {file.path}")  # whichever copy of a content the second pass reads
        report.heard += shard.is_heard
        report.notes += [note for note in notes if self._is_new("\0".join(note))]
        self._count_file(file, shard.info.duration_s)

    def set_aside(self, store: Store, file: FoundFile, error: MediaError) -> None:
        store.set_aside(file, error)
        path = printable(file.path)
        log.info("set aside %s: %s: %s", path, error.reason, error)
        self._is_new(f"aside {file.path}")
        with self._counting:
            self._run.report.newly_aside += 1
            self._run.report.set_aside.append(SetAside("", path, error.reason, str(error)))
        self._count_file(file)

    def end(self) -> None:
        self._run.report.frames = sum(self._frames.values())

    def count_frames(self, path: str, frames: int) -> None:
        """Note how many frames of a file were read; one that is read a second time for its words has been counted."""
        if not self._again:
            self._frames[path] = frames

    def _is_new(self, what: str) -> bool:
        with self._counting:
            is_new = what not in self._counted
            self._counted.add(what)
            return is_new

    def _count_file(self, file: FoundFile, length_s: float | None = None) -> None:
        if self._meter is not None:
            self._meter.finish(file.path, length_s)
        self._run.progress.file_done(file.path)

    def start_model(self) -> None:
        if self.model is not None:
            self.model.start()

    def _count_frame(self, path: str, time_s: float) -> None:
        self.start_model()
        self.count_frames(path, self._frames.get(path, 0) + 1)
        if self._meter is not None:
            self._meter.read(path, time_s)
        self._run.progress.frame()


# how far a run is -----------------------------------------------------------------------------------------------------

TELL_S = 0.25  # least seconds between two events of progress; the last one of a pass is always told
SURE_S = 2.0  # of reading before a rate is told: the first frames wait for processes that start


class VideoMeter:
    """Adds up the seconds of video that a pass has read, and tells them a few times a second; for several threads."""

    def __init__(self, stage: str, lengths_s: Mapping[str, float], progress: StagedProgress) -> None:
        self._stage, self._progress = stage, progress
        self._lengths_s, self._read_s = dict(lengths_s), dict.fromkeys(lengths_s, 0.0)
        self._unknown = {path for path, length_s in lengths_s.items() if not length_s}
        self._finished, self._file = set[str](), ""
        self._begun_at: float | None = None
        self._told_at = -TELL_S
        self._lock = threading.Lock()
        self._tell()

    def read(self, path: str, time_s: float) -> None:
        """Note that a file was read up to a time; one that goes on after its expected end is longer than that."""
        with self._lock:
            self._begun_at = self._begun_at or time.monotonic()
            if path in self._read_s and path not in self._finished:
                self._file = path
                self._read_s[path] = max(self._read_s[path], time_s)
                self._lengths_s[path] = max(self._lengths_s[path], time_s)
            self._tell()

    def finish(self, path: str, length_s: float | None = None) -> None:
        """Note that a file is finished or set aside; `length_s` is its length where that is known by now."""
        with self._lock:
            if path in self._read_s and path not in self._finished:
                self._finished.add(path)
                self._unknown.discard(path)
                if length_s is not None:
                    self._lengths_s[path] = length_s
                self._read_s[path] = self._lengths_s[path]
            self._tell()

    def _tell(self) -> None:
        now, finished = time.monotonic(), len(self._finished)
        if now - self._told_at < TELL_S and finished < len(self._read_s):
            return
        self._told_at = now
        done_s, total_s = sum(self._read_s.values()), sum(self._lengths_s.values())
        if finished:  # a file of unknown length is taken to be as long as finished ones are
            mean_s = sum(self._lengths_s[path] for path in self._finished) / finished
            total_s += sum(max(0.0, mean_s - self._lengths_s[path]) for path in self._unknown)
        seconds = now - (self._begun_at or now)
        rate = done_s / seconds if seconds >= SURE_S and done_s > 0 else None
        is_told = bool(finished) or not self._unknown
        self._progress.video(
            VideoProgress(
                self._stage,
                done_s=done_s,
                total_s=total_s if is_told else 0.0,
                files_done=finished,
                files=len(self._read_s),
                rate=rate,
                remaining_s=max(0.0, total_s - done_s) / rate if rate is not None and is_told else None,
                file=printable(self._file),
            )
        )


# subtitles ------------------------------------------------------------------------------------------------------------

SUBTITLE_READER = "evenreel.library.index.stages:subtitle_reader"
_ORDER = {"sidecar": 0, "stream": 1, "recognised": 2}


def subtitle_reader(threads: int) -> SubtitleFiles:
    from evenreel.speech.streams import SubtitleFiles  # FFmpeg is loaded where subtitles are read

    return SubtitleFiles(SheetReader(threads))


@dataclass
class _Clip:
    """A clip that has a file in the folders of a run, with the subtitles that it has and is to have."""

    clip_id: str
    path: str
    duration_s: float | None
    sidecars: dict[str, Sidecar]
    known: dict[str, tuple[Stamp, str | None]]
    streams: list[tuple[str, str | None]]


class SubtitleStage(Stage):
    """Files of subtitles beside the videos, and streams inside them, of text and of pictures.

    A subtitle file is no part of its video's content, so a clip's transcripts say which file each is of, and its stamp.
    A run compares these with the files that are there: only what is new or has changed is read, and what is gone is
    dropped. A clip with several files has the subtitles of all of them. Streams are content, and are read once.
    """

    title, readers = "reading subtitles", 1

    def __init__(self, run: IndexRun) -> None:
        self._run = run
        self._stamps = {file.path: file for file in run.found.subtitles if file.error is None}
        self._clips: dict[str, _Clip] = {}

    def begin(self) -> bool:
        connection = self._run.store.connection
        settle_shard(self._run.store.library, connection)
        there = {file.path for file in self._run.found.files}
        beside = sidecars_of(there, self._stamps)
        for stored, clip_id, duration_s in connection.execute(
            "SELECT path, clip_id, duration_s FROM files JOIN clips USING (clip_id) WHERE state = 'indexed'"
            " ORDER BY path"
        ):
            if (path := catalog.loaded_path(stored)) in there:
                clip = self._clips.setdefault(clip_id, _Clip(clip_id, path, duration_s, {}, {}, []))
                clip.sidecars.update({sidecar.path: sidecar for sidecar in beside.get(path, ())})
        problems = dict[str, str]()
        for clip_id, source, origin, problem, language, *times in connection.execute(
            "SELECT clip_id, source, origin, problem, language, size, mtime_ns, ctime_ns FROM transcripts"
        ):
            if source == "sidecar" and problem is not None:
                problems[catalog.loaded_path(origin)] = problem
            if clip_id in self._clips and source == "stream":
                self._clips[clip_id].streams.append((origin, problem))
            elif clip_id in self._clips and source == "sidecar":
                self._clips[clip_id].known[catalog.loaded_path(origin)] = (times[0], times[1], times[2]), language
        known = {path: times for clip in self._clips.values() for path, (times, _) in clip.known.items()}
        for path, problem in sorted(problems.items()):  # an earlier run set them aside, and they are still as they were
            if path in self._stamps and known.get(path) == self._stamp(path):
                self._run.report.set_aside.append(SetAside("", printable(path), "not_media", problem))
        return True

    def wanted(self, file: FoundFile, have: KnownFile) -> bool:
        clip = self._clips[str(file.clip_id)]
        wanted = {path: (self._stamp(path), sidecar.language) for path, sidecar in clip.sidecars.items()}
        kept = {path: known for path, known in clip.known.items() if path in wanted or not self._is_gone(path)}
        return not self._streams_known(clip.streams) or kept != {**kept, **wanted} or kept != clip.known

    def reader(self) -> Worker:
        return Worker(SUBTITLE_READER, {"threads": allowed_threads()}, self._run.settings.limits)

    def read(self, reader: Worker, file: FoundFile) -> tuple[Shard, list[Transcript]] | None:
        """Read what is new or has changed of a clip; return its shard, and all transcripts that it is to have."""
        clip = self._clips[str(file.clip_id)]
        if (shard := self._run.store.stored_shard(clip.clip_id)) is None:
            return None
        kept = [one for one in shard.transcripts or () if one.source != "sidecar" or self._holds(one, clip)]
        there = {one.origin for one in kept if one.source == "sidecar"}
        new = [self._sidecar(reader, clip, one) for path, one in clip.sidecars.items() if path not in there]
        streams = [one for one in kept if one.source == "stream"]
        if not self._streams_known([(one.origin, one.problem) for one in streams]):
            kept = [one for one in kept if one.source != "stream"]
            new += self._streams(reader, clip, streams)
        whole = [*kept, *filter(None, new)]
        return shard, sorted(whole, key=lambda one: (_ORDER[one.source], os.fsencode(one.origin)))

    def put(self, store: Store, reading: tuple[Shard, list[Transcript]]) -> None:
        shard, whole = reading
        old = shard.transcripts or ()
        put_transcripts(store.library, store.connection, shard, whole)
        gone = {one.origin for one in old if one.source == "sidecar"} - {one.origin for one in whole}
        self._run.report.subtitles_gone += len(gone)
        self._run.report.subtitles += sum(bool(one.utterances) for one in whole if one not in old)

    def _stamp(self, path: str) -> Stamp:
        found = self._stamps[path].stamp
        return found.size, found.mtime_ns, found.ctime_ns

    def _is_gone(self, path: str) -> bool:
        """Whether a subtitle file that is of no video of the run is gone, or another's now; it may lie elsewhere."""
        return path in self._stamps or not os.path.lexists(path)

    def _holds(self, known: Transcript, clip: _Clip) -> bool:
        sidecar = clip.sidecars.get(known.origin)
        if sidecar is None:
            return not self._is_gone(known.origin)
        return (known.stamp, known.language) == (self._stamp(known.origin), sidecar.language)

    def _streams_known(self, rows: Sequence[tuple[str, str | None]]) -> bool:
        return streams_known(rows, pictures=self._run.settings.read_text, retry=self._run.settings.retry)

    def _sidecar(self, reader: Worker, clip: _Clip, sidecar: Sidecar) -> Transcript | None:
        """What a subtitle file says, or why it cannot be read; None where it is to be tried again next time."""
        known = Transcript("sidecar", sidecar.path, language=sidecar.language, stamp=self._stamp(sidecar.path))
        try:
            (found,) = read_with(reader, sidecar.path, {"language": sidecar.language})
            return replace(known, utterances=self._within(clip, sidecar.path, found).utterances)
        except MediaError as error:
            self._run.report.newly_aside += 1
            self._run.report.set_aside.append(SetAside("", printable(sidecar.path), error.reason, str(error)))
            return None if error.reason in TRANSIENT else replace(known, problem=printable(str(error)))

    def _streams(self, reader: Worker, clip: _Clip, known: list[Transcript]) -> list[Transcript]:
        """What the streams of a clip say; those of text are not read again for those of pictures."""
        said = [one for one in known if one.utterances]
        pictured = any(one.origin in (UNREAD.origin, UNREADABLE.origin) for one in known)
        if not pictured:
            try:
                found = [self._within(clip, clip.path, one) for one in read_with(reader, clip.path)]
            except MediaError as error:  # its pictures were read
                log.info("no subtitles of %s: %s", printable(clip.path), error)
                return [replace(NO_STREAM, problem=printable(str(error)))]
            said, pictured = _transcripts(found), any(one.pictures for one in found)
        read = self._pictures(reader, clip) if pictured else []
        said += [one for one in read if one.utterances]
        numbered = [replace(one, origin=str(number)) for number, one in enumerate(said)]
        return [*numbered, *(one for one in read if not one.utterances)] or [NO_STREAM]

    def _pictures(self, reader: Worker, clip: _Clip) -> list[Transcript]:
        if not self._run.settings.read_text:
            self._run.note(clip.path, f"{UNREAD.problem}; a run without --no-ocr reads them")
            return [UNREAD]
        engine_id()  # raises where there are no models, for which no file is to blame
        try:
            found = read_with(reader, clip.path, {"pictures": True})
            return _transcripts([self._within(clip, clip.path, one) for one in found])
        except MediaError as error:
            self._run.note(clip.path, f"its subtitles in pictures cannot be read: {error}")
            return [UNREAD if error.reason in TRANSIENT else replace(UNREADABLE, problem=printable(str(error)))]

    def _within(self, clip: _Clip, path: str, found: Subtitles) -> Subtitles:
        """Subtitles that end with the clip; notes on those after its end and on others go to the report."""
        kept = within(found.utterances, clip.duration_s)
        notes = list(found.notes)
        if lost := len(found.utterances) - len(kept):
            of = count(len(found.utterances), "cue")
            notes.append(
                f"{lost:,} of {of} come after the end of the video and were left out; are they of another cut?"
            )
        self._run.report.notes += [(printable(path), note) for note in notes]
        if found.utterances and not kept:
            raise MediaError("not_media", "all of its cues come after the end of the video; are they of another cut?")
        return replace(found, utterances=kept)


def _transcripts(found: list[Subtitles]) -> list[Transcript]:
    return [Transcript("stream", "", one.utterances, one.utterances[0].language) for one in found if one.utterances]


# speech ---------------------------------------------------------------------------------------------------------------


def check_speech(settings: IndexSettings) -> None:
    """Check the language of a run, and that models of speech can be used, before anything is read."""
    if settings.language is not None and language_tag(settings.language) is None:
        raise UsageError(f"{settings.language!r} is no language; name it by its tag, such as en, de or pt-BR.")
    if settings.speech not in (None, AUTO):
        check_extra()


class SpeechStage(Stage):
    """Recognition of speech in clips in which no subtitles say what is said.

    A new clip is heard while its pictures are read, by the same `hearing`; one whose subtitles turn out to say nothing,
    or that was there before, is heard after that. What a model heard is kept with the clip, also that it heard nothing.
    """

    title, readers = "hearing what is said", 1

    def __init__(self, run: IndexRun) -> None:
        self._run = run
        self.model = self._chosen()
        self.hearing: SpeechHearing | None = None
        if self.model is not None:
            settings = run.settings
            self.hearing = SpeechHearing(self.model, settings.language, settings.limits, run.note)
            run.opened.callback(self.hearing.close)
        files, subtitles = run.found.files, run.found.subtitles
        beside = sidecars_of({file.path for file in files}, {file.path: file for file in subtitles})
        # Copies of a video are of one size, and the subtitles of any of them say what is said in all.
        self._with_sidecars = {file.stamp.size for file in files if file.path in beside}

    def hears(self, file: FoundFile) -> bool:
        """Return whether a file is heard while it is read; one with subtitles beside it waits until these are read."""
        return self.hearing is not None and file.stamp.size not in self._with_sidecars

    def unheard(self) -> set[str]:
        """Return the clips of the run that no subtitles and no model say anything of yet; none where nothing is heard.

        Clips that another model has heard are left out: they are heard after all others.
        """
        if self.hearing is None:
            return set()
        clips = self._run.store.connection.execute("SELECT clip_id FROM clips")
        return {clip_id for (clip_id,) in clips} - self._heard(by=None) - self._subtitled()

    def begin(self) -> bool:
        if self.hearing is None:
            return False
        self._done = self._heard(by=self.hearing.speech_id) | self._subtitled()
        return True

    def wanted(self, file: FoundFile, have: KnownFile) -> bool:
        return file.clip_id not in self._done

    def reader(self) -> SpeechHearing:
        assert self.hearing is not None  # as `begin` said
        return self.hearing

    def read(self, reader: SpeechHearing, file: FoundFile) -> tuple[FoundFile, Transcript] | None:
        heard = reader.hear(file.path)
        return None if heard is None else (file, heard)

    def put(self, store: Store, reading: tuple[FoundFile, Transcript]) -> None:
        """Keep what was heard beside what subtitles say, in the place of what another model heard."""
        file, heard = reading
        self._run.report.heard += 1
        if (shard := store.stored_shard(str(file.clip_id))) is None:
            return
        others = [one for one in shard.transcripts or () if one.source != "recognised"]
        heard = self.reader().within(file.path, heard, shard.info.duration_s)
        put_transcripts(store.library, store.connection, shard, [*others, heard])

    def _heard(self, by: str | None) -> set[str]:
        """The clips that a model, or any model, has heard; not those that it failed at where these are tried again."""
        retry = self._run.settings.retry and by is not None
        rows = self._run.store.connection.execute(
            "SELECT clip_id, origin, problem FROM transcripts WHERE source = 'recognised'"
        )
        return {
            clip_id
            for clip_id, origin, problem in rows
            if by in (None, catalog.loaded_path(origin)) and not (retry and problem)
        }

    def _subtitled(self) -> set[str]:
        rows = self._run.store.connection.execute(
            "SELECT DISTINCT clip_id FROM transcripts AS t WHERE source <> 'recognised' AND EXISTS"
            " (SELECT 1 FROM utterances AS u WHERE u.clip_id = t.clip_id AND u.transcript = t.number)"
        )
        return {clip_id for (clip_id,) in rows}

    def _chosen(self) -> str | None:
        """The model that is named, or the one that heard most of the library's clips and is still here."""
        if self._run.settings.speech != AUTO:
            return self._run.settings.speech
        row = self._run.store.connection.execute(
            "SELECT origin FROM transcripts WHERE source = 'recognised' GROUP BY origin ORDER BY COUNT(*) DESC, origin"
        ).fetchone()
        own = None if row is None else catalog.loaded_path(row[0])
        if own is not None and not speech_model_here(own):
            log.warning("The speech model %s is not on this machine, so new clips are not heard; name one.", own)
            return None
        return own


# sounds ---------------------------------------------------------------------------------------------------------------


def check_sound(settings: IndexSettings) -> None:
    if settings.sound not in (None, AUTO):
        from evenreel.sound import check_torch, locate_sound_model

        check_torch()
        locate_sound_model(str(settings.sound))


class SoundStage(Stage):
    """What clips sound like, as vectors of a model of sounds.

    Pictures are not decoded for them, so that a later run adds them to a library that has none. Of a clip without sound
    it is kept that it has none. Another model takes the place of the library's own at once: what the old one heard is
    searched no longer.
    """

    title, readers = "listening to sounds", 1

    def __init__(self, run: IndexRun) -> None:
        self._run, self._has_read = run, False
        self._encoder: SoundEncoder | None = None

    def begin(self) -> bool:
        run, meta = self._run, SOUNDS.own(self._run.store.meta())
        self._name = self._chosen(meta.get("encoder_id"))
        if self._name is None:
            return False
        from evenreel.sound import locate_sound_model, sound_digest

        model_id, folder = locate_sound_model(self._name)
        weights = sound_digest(folder)
        if meta.get("weights_hash", weights) != weights and run.settings.sound == AUTO:
            raise LibraryError(catalog.other_sounds(run.store.library, meta["encoder_id"], model_id))
        if meta.get("weights_hash") != weights:
            run.store.begin_matrix(SOUNDS, self._model())
        heard = run.store.connection.execute(
            "SELECT clip_id FROM heard LEFT JOIN sound_rows USING (clip_id)"
            " WHERE weights_hash = ? AND (first_row IS NOT NULL OR (problem IS NOT NULL AND NOT ?))",
            (weights, run.settings.retry),
        )
        self._done = {clip_id for (clip_id,) in heard}
        return True

    def wanted(self, file: FoundFile, have: KnownFile) -> bool:
        return file.clip_id not in self._done

    def reader(self) -> Worker:
        from evenreel.sound import sound_worker

        self._has_read = True
        return sound_worker(self._model().windows, self._run.settings.limits)

    def read(self, reader: Worker, file: FoundFile) -> tuple[FoundFile, ClipSounds]:
        from evenreel.sound import read_sounds

        heard = read_sounds(reader, file.path, self._model())
        if stamp(file.path) != file.stamp:
            raise MediaError("changed_while_reading", "the file has changed while its sound was read")
        return file, heard

    def put(self, store: Store, reading: tuple[FoundFile, ClipSounds]) -> None:
        file, sounds = reading
        store.put_sounds(str(file.clip_id), sounds)
        self._run.report.sounds += 1
        for note in sounds.notes:
            self._run.note(file.path, note)

    def set_aside(self, store: Store, file: FoundFile, error: MediaError) -> None:
        """Keep that a clip has no sound that can be read; most films without sound are meant so."""
        if error.reason != "no_sound":
            self._run.note(file.path, f"its sounds cannot be read: {error}")
        if error.reason not in TRANSIENT:
            model = self._model()
            empty = np.empty((0, 2)), np.empty((0, model.dimension), np.float16)
            what = ClipSounds(model.encoder_id, model.weights_hash, *empty, problem=printable(str(error)))
            store.put_sounds(str(file.clip_id), what)

    def end(self) -> None:
        store = self._run.store
        if self._has_read and not self._run.brake.eased and not store.null_scores_hold(SOUNDS):
            self._run.progress.stage("measuring how nonsense sounds")
            store.update_null_scores(self._model(), SOUNDS)

    def _model(self) -> SoundEncoder:
        if self._encoder is None:
            from evenreel.sound import load_sound_encoder

            settings = self._run.settings
            self._encoder = load_sound_encoder(str(self._name), device=settings.device, precision=settings.precision)
        return self._encoder

    def _chosen(self, known: str | None) -> str | None:
        """The model that is named, or the library's own where it can be loaded here."""
        if self._run.settings.sound != AUTO:
            return self._run.settings.sound
        if known is not None:
            from evenreel.sound import sound_model_here

            if not (installed("torch") and sound_model_here(known)):
                log.warning(
                    "The model of sounds %s cannot be used on this machine, so new clips have no sounds.", known
                )
                return None
        return known


STAGES: tuple[Callable[[IndexRun], Stage], ...] = (SubtitleStage, SpeechStage, SoundStage, FaceStage)
"""The stages after the reading of pictures and words, in this order."""
