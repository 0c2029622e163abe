"""Reading of one clip into a shard, for any engine that assigns clips to readers.

Decoding and the words on screen are read in a process that can be killed, what is said in another, and the model that
all readers share makes vectors of the frames meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.config import MediaLimits, usable_cores
from evenreel.errors import EncoderError, EvenreelError, MediaError
from evenreel.features.pool import TRANSIENT
from evenreel.features.shards import QUALITY, SIDE_PX, Shard, Stills, text_track
from evenreel.files import printable
from evenreel.media.sampling import WHOLE, Part
from evenreel.media.workers import FileStamp, Worker, changed_while_reading, stamp
from evenreel.speech.recogniser import locate_speech_model
from evenreel.speech.subtitles import NO_STREAM, Transcript, within
from evenreel.types import Encoder, FloatArray, Pixels, VideoInfo, WindowRule
from evenreel.wording import count

READER = "evenreel.onscreen.reader:FileReader"
BATCH_FRAMES = 32
BATCH_BYTES = 64 * 2**20

Times = NDArray[np.float64]


@dataclass(frozen=True)
class WantedStages:
    """What is wanted of a clip in one decoding: vectors of its frames (`vision`), the `text` on screen.

    Its `speech` is recognised beside these where no subtitles say it, of a clip that is new.
    """

    vision: bool
    text: bool
    speech: bool = False

    def __bool__(self) -> bool:
        return self.vision or self.text


@dataclass(frozen=True)
class ClipSource:
    """A clip to read: part of a file whose content was looked at when it had the stamp `before`."""

    clip_id: str
    path: str
    before: FileStamp
    part: Part = WHOLE


@dataclass(frozen=True)
class ReaderSettings:
    rule: str
    read_text: bool  # whether it will be asked for the words on screen
    readers: int  # that share the cores
    limits: MediaLimits
    find_shots: bool = False  # whether cuts are looked for in the frames that are decoded


class SharedModel:
    """A model that several readers share: loaded once, in the background, and encoding for one of them at a time."""

    def __init__(self, load: Callable[[], Encoder]) -> None:
        self._load = load
        self._loaded: Future[Encoder] | None = None
        self._starting, self.in_use = threading.Lock(), threading.Lock()
        self.pictures, self.seconds = 0, 0.0  # that were encoded, and how long that took

    def start(self) -> Future[Encoder]:
        """Begin to load the model in the background; a further call raises if loading has failed."""
        with self._starting:
            if self._loaded is None:
                loader = ThreadPoolExecutor(1, thread_name_prefix="model")
                self._loaded = loader.submit(self._load)
                loader.shutdown(wait=False)
        if self._loaded.done():
            self._loaded.result()
        return self._loaded

    def encoder(self) -> Encoder:
        """Return the model, waiting until it is loaded."""
        return self.start().result()

    def window(self) -> WindowRule | None:
        """Return the windows that the model takes; None until it is loaded."""
        loaded = self._loaded
        return loaded.result().window if loaded and loaded.done() else None

    def encode(self, windows: Pixels) -> FloatArray:
        """Encode windows (N, T, 3, H, W) of uint8 RGB frames to (N, D) float32, waiting until the model is loaded."""
        encoder = self.encoder()
        with self.in_use:
            started = time.perf_counter()
            made = encoder.encode_windows(windows)
            self.seconds += time.perf_counter() - started
            self.pictures += windows.shape[0] * windows.shape[1]
        return made


class OtherWindowsError(Exception):
    """Raised where a clip was read for pictures and the model, loaded meanwhile, takes windows: read it once more."""


@dataclass
class _WorkerOutput:
    """Messages of the worker so far."""

    path: str
    view: ClipVectors | None  # what the model makes of the frames, where it is wanted
    stills: Stills | None = None
    hears: bool = False  # whether a model is to hear it
    heard: Future[Transcript | None] | None = None
    info: VideoInfo | None = None
    times_s: list[float] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)


class ClipVectors:
    """Vectors of one clip by one model, made in batches while the frames come."""

    def __init__(self, model: SharedModel) -> None:
        self._model, self._rule = model, model.window() or WindowRule()
        self._maker = WindowMaker(self._rule)
        self._places: list[tuple[int, int, int]] = []
        self._pending: list[Pixels] = []
        self._vectors: list[FloatArray] = []
        self.times_s: list[float] = []
        self.period_s = period_s(self._rule)

    def add(self, time_s: float, shot: int, pixels: Pixels) -> None:
        self.times_s.append(time_s)
        for window in self._maker.add(shot, pixels):
            self._put(window)

    def finish(self) -> FloatArray:
        """Encode what is left; return the vectors (N, D)."""
        for window in self._maker.end():
            self._put(window)
        self._encode()
        return np.concatenate(self._vectors)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what a person should know of the windows of this clip; none where they are as usual."""
        frames, needed = len(self.times_s), self._rule.frames
        if frames >= needed:
            return ()
        return (f"shorter than a window of the model: of {needed} frames {needed - frames} are others once more",)

    def encoder(self) -> Encoder:
        return self._model.encoder()

    def fits(self) -> bool:
        """Return whether the model takes the windows that are made for it; where that is not known yet, it may."""
        return self._model.window() in {None, self._rule}

    def moments(self, duration_s: float | None, cuts_s: Sequence[float]) -> tuple[Times, Times]:
        """Return when the N vectors are of, in seconds: middles (N,), and stretches (N, 2) from start to end.

        Stretches of single pictures meet; those of windows of several frames overlap.
        """
        times_s = np.array(self.times_s, np.float64)
        spans_s = spans(times_s, duration_s)
        if self._rule.frames > 1:
            spans_s, _ = within_shots(times_s, spans_s, cuts_s)
        first, middle, last = np.array(self._places, np.int64).reshape(-1, 3).T
        return times_s[middle], np.stack([spans_s[first, 0], spans_s[last, 1]], axis=1)

    def _put(self, window: FrameWindow) -> None:
        self._places.append(window[:3])
        pixels = window.pixels
        if self._pending and self._pending[-1].shape != pixels.shape:
            self._encode()
        self._pending.append(pixels)
        count = len(self._pending)
        if count * pixels.nbytes >= BATCH_BYTES or count * len(pixels) >= BATCH_FRAMES:
            self._encode()

    def _encode(self) -> None:
        if not self._pending:
            return
        batch = np.stack(self._pending).transpose(0, 1, 4, 2, 3)
        self._pending.clear()
        self._model.encoder()  # one that cannot be had is no fault of the file
        if not self.fits():
            return
        try:
            self._vectors.append(self._model.encode(batch))
        except EncoderError as error:
            raise MediaError("bad_features", str(error)) from error


class SpeechHearing:
    """Hears one clip after another in a worker that can be killed, whoever asks; its model is loaded for the first.

    `speech_id` is the name that the model can be loaded by again.
    """

    def __init__(self, model: str, language: str | None, limits: MediaLimits, tell: Callable[[str, str], None]) -> None:
        from evenreel.speech.recogniser import speech_worker  # which imports the models

        self.speech_id, _ = locate_speech_model(model)
        self._worker = speech_worker(model, language=language, limits=limits)
        self._line = ThreadPoolExecutor(1, thread_name_prefix="hearing")
        self._tell = tell
        self._fault: EvenreelError | None = None

    def begin(self, path: str) -> Future[Transcript | None]:
        """Have a video file heard after those that wait; None where that is to be tried again another time."""
        return self._line.submit(self._hear, path)

    def hear(self, path: str) -> Transcript | None:
        """Hear a video file now; see `begin`."""
        found = self.begin(path).result()
        if self._fault is not None:
            raise self._fault
        return found

    def within(self, path: str, heard: Transcript, end_s: float | None) -> Transcript:
        """Leave out what is heard after the last picture, with a note."""
        kept = within(heard.utterances, end_s)
        if lost := len(heard.utterances) - len(kept):
            of = count(len(heard.utterances), "utterance")
            self._tell(printable(path), f"{lost:,} of {of} come after its last picture and were left out")
        return replace(heard, utterances=kept)

    def close(self) -> None:
        """End the worker; what waits to be heard is cancelled, and what is being heard fails."""
        self._line.shutdown(wait=False, cancel_futures=True)
        self._worker.close()

    def _hear(self, path: str) -> Transcript | None:
        from evenreel.speech.recogniser import recognise_with

        if self._fault is not None:  # the next one would not start either
            return None
        try:
            found = recognise_with(self._worker, path)
        except MediaError as error:
            if error.reason != "no_sound":  # the pictures of which were read, and most films without sound are meant so
                self._tell(printable(path), printable(f"what is said cannot be heard: {error}"))
            known = Transcript("recognised", self.speech_id, problem=printable(str(error)))
            return None if error.reason in TRANSIENT else known
        except EvenreelError as error:
            self._fault = error
            return None
        for note in found.notes:
            self._tell(printable(path), printable(note))
        languages = Counter(one.language for one in found.utterances)
        language = languages.most_common(1)[0][0] if languages else None
        return Transcript("recognised", self.speech_id, found.utterances, language)


class ClipReader:
    """Reads one clip at a time into shards: decoding and text in a worker that can be killed, vision here."""

    def __init__(
        self,
        settings: ReaderSettings,
        model: SharedModel | None,
        on_frame: Callable[[str, float], None] = lambda path, time_s: None,
        target: str = READER,
        hearing: SpeechHearing | None = None,
    ) -> None:
        self._settings, self._model, self._on_frame, self._hearing = settings, model, on_frame, hearing
        threads = max(1, usable_cores() // settings.readers)
        setup = {"rule": settings.rule, "limits": asdict(settings.limits), "threads": threads}
        self._worker = Worker(
            target, setup | {"text": settings.read_text, "shots": settings.find_shots}, settings.limits
        )

    def close(self) -> None:
        """End the worker; a file that is being read fails."""
        self._worker.close()

    def read(self, source: ClipSource, wanted: WantedStages, stills: Stills | None = None) -> Callable[[], Shard]:
        """Read one clip to its end; the function returned encodes its last frames and makes the shard.

        The two are apart so that the next clip is read while this one is heard to its end. At most one batch of frames
        waits in between.
        """
        view = ClipVectors(self._model) if self._model is not None and wanted.vision else None
        reading = _WorkerOutput(source.path, view, stills, hears=wanted.speech)
        part = [source.part.start_s, source.part.end_s]
        task = {"path": source.path, "part": part, "frames": bool(view and not view.period_s), "text": wanted.text}
        if view is not None and view.period_s:
            task["periods"] = [view.period_s]
        if stills is not None:
            task["still"] = {"side_px": SIDE_PX, "quality": QUALITY}
        try:
            for message, pixels in self._worker.run(task):
                self._take(reading, message, pixels)
                if view is not None and not view.fits():
                    raise OtherWindowsError
            if stamp(source.path) != source.before:
                raise changed_while_reading()
        except BaseException:
            if reading.heard is not None:
                reading.heard.cancel()
            raise
        return lambda: self._shard(reading, source, wanted)

    def _take(self, reading: _WorkerOutput, message: dict[str, Any], pixels: Pixels | None) -> None:
        kind = message["kind"]
        if kind == "info":
            fields = message["info"]
            reading.info = VideoInfo(**{**fields, "notes": tuple(fields["notes"])})
            if self._hearing is not None and reading.hears and not reading.info.subtitle_streams:  # which may say it
                reading.heard = self._hearing.begin(reading.path)
        elif kind == "end":
            reading.end = message
        elif kind == "still":
            if reading.stills is not None and pixels is not None:
                reading.stills.add(message["time_s"], pixels.tobytes())
        elif pixels is None:  # a tick: the text of a frame is read, or a frame was only counted
            self._count(reading, message["time_s"])
        else:
            if 0 in message["for"]:
                self._count(reading, message["time_s"])
            view = reading.view
            if view is not None and (1 if view.period_s else 0) in message["for"]:
                view.add(message["time_s"], message["shot"], pixels)

    def _count(self, reading: _WorkerOutput, time_s: float) -> None:
        if not reading.times_s or reading.times_s[-1] != time_s:
            reading.times_s.append(time_s)
            self._on_frame(reading.path, time_s)

    def _shard(self, reading: _WorkerOutput, source: ClipSource, wanted: WantedStages) -> Shard:
        if reading.info is None or not reading.times_s:
            raise MediaError("no_frames", "no frame of it could be decoded")
        view, encoder, heard = reading.view, None, None
        if view is not None:
            encoder = view.encoder()
            if not view.fits():
                raise OtherWindowsError
        if reading.heard is not None:
            heard = reading.heard.result()
        duration_s, cuts_s = reading.info.duration_s, reading.end["cuts_s"]
        if heard is not None and self._hearing is not None:
            heard = self._hearing.within(source.path, heard, duration_s)
        if source.part != WHOLE:
            duration_s = source.part.length_s(duration_s)
        times_s = sampled_s = np.array(reading.times_s, np.float64)
        spans_s, frames = spans(times_s, duration_s), None
        if view is not None:
            frames = view.finish().astype(np.float16)
            times_s, spans_s = view.moments(duration_s, cuts_s or ())
        notes = dict.fromkeys((*reading.info.notes, *reading.end["notes"], *(view.notes if view else ())))
        return Shard(
            clip_id=source.clip_id,
            info=replace(reading.info, notes=tuple(notes)),
            encoder_id=encoder.encoder_id if encoder else None,
            weights_hash=encoder.weights_hash if encoder else None,
            rule=self._settings.rule,
            times_s=times_s,
            spans_s=spans_s,
            frames=frames,
            tracks=tuple(map(text_track, reading.end["tracks"])) if wanted.text else None,
            reader_id=reading.end["reader_id"] if wanted.text else None,
            cuts_s=None if cuts_s is None else np.array(cuts_s, np.float64),
            text_times_s=None if not wanted.text or np.array_equal(sampled_s, times_s) else sampled_s,
            transcripts=None if reading.info.subtitle_streams else (NO_STREAM, *filter(None, [heard])),
        )


def merge(new: Shard, old: Shard) -> Shard:
    """Merge the stages of two shards of a clip: fields of the new one, and those of the old one that it lacks.

    What a model heard for the new one is kept, unless one has heard the clip before.
    """
    seen, read = old if new.frames is None else new, old if new.tracks is None else new
    read_s = read.times_s if read.text_times_s is None else read.text_times_s
    transcripts = new.transcripts if old.transcripts is None else old.transcripts
    if old.transcripts is not None and not old.is_heard:
        transcripts = (*old.transcripts, *(one for one in new.transcripts or () if one.source == "recognised"))
    return replace(
        seen,
        tracks=read.tracks,
        reader_id=read.reader_id,
        cuts_s=old.cuts_s if new.cuts_s is None else new.cuts_s,
        text_times_s=None if read.tracks is None or np.array_equal(read_s, seen.times_s) else read_s,
        transcripts=transcripts,
        sounds=new.sounds or old.sounds,
    )


# windows of frames, as models of moving pictures take them ------------------------------------------------------------
#
# A window has as many frames as the model's rule says (`evenreel.types.WindowRule`), and the next one begins a stride
# later. A window never goes on over a cut: each shot is windowed by itself, and its last window ends where the shot
# ends. Of a shot with fewer frames than a window some are sampled again. A picture is a window of one frame.


class FrameWindow(NamedTuple):
    """A window of a clip: places of its first, middle and last frame among the clip's, and its pixels (T, H, W, 3)."""

    first: int
    middle: int
    last: int
    pixels: Pixels


class WindowMaker:
    """Makes windows of the frames of one clip as they come; holds the frames of one window at most."""

    def __init__(self, rule: WindowRule) -> None:
        self._frames = rule.frames
        self._stride = stride_frames(rule)
        self._held: deque[Pixels] = deque(maxlen=rule.frames)
        self._shot: tuple[int, tuple[int, ...]] | None = None
        self._first = 0  # place of the first frame of the shot
        self._count = self._covered = 0  # number of the frames of the shot, and up to which windows have them

    def add(self, shot: int, pixels: Pixels) -> Iterator[FrameWindow]:
        """Take the next frame of a shot, (H, W, 3), and yield the windows that end before it or with it.

        Where pictures change their size, another shot begins.
        """
        if self._shot != (shot, pixels.shape):
            yield from self.end()
            self._shot = shot, pixels.shape
        self._held.append(pixels)
        self._count += 1
        if self._count == (self._covered + self._stride if self._covered else self._frames):
            yield self._window()

    def end(self) -> Iterator[FrameWindow]:
        """Yield the last window of the shot, if its last frames are in none."""
        if self._count > self._covered:
            yield self._window()
        self._first += self._count
        self._count = self._covered = 0
        self._held.clear()

    def _window(self) -> FrameWindow:
        """The window that ends with the last frame."""
        self._covered = self._count
        frames, stop = len(self._held), self._first + self._count
        chosen = np.arange(self._frames) * frames // self._frames
        pixels = np.stack([self._held[place] for place in chosen.tolist()])
        return FrameWindow(stop - frames, stop - frames + frames // 2, stop - 1, pixels)


def period_s(rule: WindowRule) -> float:
    """Return the seconds between the frames of a window; 0 for a picture."""
    return rule.span_s / rule.frames if rule.frames > 1 else 0.0


def stride_frames(rule: WindowRule) -> int:
    """Return how many frames after a window the next one begins; at most as many as a window has.

    >>> stride_frames(WindowRule(16, 8.0, 4.0)), stride_frames(WindowRule())
    (8, 1)
    """
    if rule.frames == 1:
        return 1
    return min(rule.frames, max(1, round(rule.stride_s / period_s(rule))))


def within_shots(
    times_s: NDArray[np.float64], spans_s: NDArray[np.float64], cuts_s: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Cut stretches (T, 2) at the cut where the next one is of another shot; return them and their shots (T,).

    Args:
        times_s: (T,) a time in each stretch, rising.
        spans_s: (T, 2) start and end of each.
        cuts_s: times at which shots begin, but for the first, rising.

    Example:
        >>> spans, shots = within_shots(np.array([0.0, 1.0]), np.array([[0, 0.5], [0.5, 1.5]]), [0.9])
        >>> spans.tolist(), shots.tolist()
        ([[0.0, 0.9], [0.9, 1.5]], [0, 1])
    """
    cuts = np.array(cuts_s, np.float64)
    shot_of = np.searchsorted(cuts, times_s, side="right")
    begins, ends = np.append(-np.inf, cuts)[shot_of], np.append(cuts, np.inf)[shot_of]
    changes = np.diff(shot_of) > 0
    start_s = np.where(np.append(False, changes), begins, np.maximum(begins, spans_s[:, 0]))
    end_s = np.where(np.append(changes, False), ends, np.minimum(ends, spans_s[:, 1]))
    return np.stack([start_s, end_s], axis=1), shot_of


def spans(times_s: NDArray[np.float64], duration_s: float | None) -> NDArray[np.float64]:
    """Compute the stretch that each sampled frame stands for: up to half-way to its neighbours.

    Args:
        times_s: (T,) times of the frames, rising.
        duration_s: length of the clip; without it the last stretch is as long as the one before.

    Returns:
        (T, 2) start and end in seconds.

    >>> spans(np.array([0.5, 1.5, 3.5]), 4.0).tolist()
    [[0.0, 1.0], [1.0, 2.5], [2.5, 4.0]]
    """
    middles = (times_s[:-1] + times_s[1:]) / 2
    last_step = times_s[-1] - middles[-1] if len(middles) else 0.0
    end = max(times_s[-1] + last_step if duration_s is None else duration_s, times_s[-1])
    edges = np.concatenate([[min(0.0, times_s[0])], middles, [end]])
    return np.stack([edges[:-1], edges[1:]], axis=1)
