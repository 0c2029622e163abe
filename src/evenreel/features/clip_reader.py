"""Reading of one clip into a shard, for any engine that assigns clips to readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from evenreel.config import MediaLimits, usable_cores
from evenreel.errors import EncoderError, MediaError
from evenreel.features.shards import Shard, text_track
from evenreel.features.stills import QUALITY, SIDE_PX, Stills
from evenreel.media.content import FileStamp, changed_while_reading, stamp
from evenreel.media.parts import WHOLE, Part
from evenreel.media.workers import Worker
from evenreel.types import Encoder, FloatArray, Pixels, VideoInfo

READER = "evenreel.onscreen.file_reader:FileReader"
BATCH_FRAMES = 32
BATCH_BYTES = 64 * 2**20


@dataclass(frozen=True)
class WantedStages:
    """Stages of reading a clip that are wanted."""

    vision: bool
    text: bool

    def __bool__(self) -> bool:
        return self.vision or self.text


@dataclass(frozen=True)
class ClipSource:
    """A clip to read: a file of known content, and the clip's part of it.

    Attributes:
        clip_id: name of the shard.
        path: of the file.
        before: stamp of the file when its content was looked at.
        part: the clip's stretch of the file.
    """

    clip_id: str
    path: str
    before: FileStamp
    part: Part = WHOLE


@dataclass(frozen=True)
class ReaderSettings:
    """Settings of a clip reader.

    Attributes:
        rule: how frames are sampled.
        read_text: whether on-screen text will be read.
        readers: number of readers that share the cores.
        limits: limits of one clip.
        find_shots: whether cuts are looked for in the frames that are decoded.
    """

    rule: str
    read_text: bool
    readers: int
    limits: MediaLimits
    find_shots: bool = False


class Vision(Protocol):
    """An image tower that several readers share."""

    def encoder(self) -> Encoder:
        """Return the encoder; wait for it where it is still loading."""

    def encode(self, pixels: Pixels) -> FloatArray:
        """Encode frames (N, 3, H, W) to (N, D) as `Encoder.encode_windows` does; one caller at a time."""


@dataclass
class _WorkerOutput:
    """Messages of the worker so far."""

    stills: Stills | None = None
    info: VideoInfo | None = None
    times_s: list[float] = field(default_factory=list)
    pending: list[Pixels] = field(default_factory=list)
    features: list[FloatArray] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)


class ClipReader:
    """Reads one clip at a time into a shard: decoding and text in a worker that can be killed, vision here.

    Args:
        settings: rule, limits and threads.
        model: the vision tower, shared by all readers; None for none.
        on_frame: called after every frame, for progress.
        target: dotted path of what the worker runs; tests put stubs here.
    """

    def __init__(
        self,
        settings: ReaderSettings,
        model: Vision | None,
        on_frame: Callable[[], None] = lambda: None,
        target: str = READER,
    ) -> None:
        self._settings, self._model, self._on_frame = settings, model, on_frame
        threads = max(1, usable_cores() // settings.readers)
        setup: dict[str, Any] = {"rule": settings.rule, "limits": asdict(settings.limits), "threads": threads}
        setup |= {"text": settings.read_text, "shots": settings.find_shots}
        self._worker = Worker(target, setup, settings.limits)

    def close(self) -> None:
        """End the worker; a file that is being read fails."""
        self._worker.close()

    def read(self, source: ClipSource, wanted: WantedStages, stills: Stills | None = None) -> Callable[[], Shard]:
        """Read one clip to its end; the function returned encodes its last frames and makes the shard.

        The two are apart so that the next clip is read meanwhile. At most one batch of frames waits in between.

        Args:
            source: the clip; times of frames and signs count from its start.
            wanted: stages to do; the fields of the others are None in the shard.
            stills: takes a small picture of each frame; None for no pictures.

        Raises:
            MediaError: (both) the clip is set aside with this reason; `bad_features` where the model makes no vectors
                of unit length of it.
        """
        reading, part = _WorkerOutput(stills), source.part
        task = {"path": source.path, "part": [part.start_s, part.end_s], "frames": wanted.vision, "text": wanted.text}
        if stills is not None:
            task["still"] = {"side_px": SIDE_PX, "quality": QUALITY}
        for message, pixels in self._worker.run(task):
            self._take(reading, message, pixels)
        if stamp(source.path) != source.before:
            raise changed_while_reading()
        return lambda: self._shard(reading, source, wanted)

    def _take(self, reading: _WorkerOutput, message: dict[str, Any], pixels: Pixels | None) -> None:
        kind = message["kind"]
        if kind == "info":
            fields = message["info"]
            reading.info = VideoInfo(**{**fields, "notes": tuple(fields["notes"])})
        elif kind == "end":
            reading.end = message
        elif kind == "still":
            if reading.stills is not None and pixels is not None:
                reading.stills.add(message["time_s"], pixels.tobytes())
        elif pixels is None:  # a tick: the text of a frame is read, or a frame was only counted
            if not reading.times_s or reading.times_s[-1] != message["time_s"]:
                reading.times_s.append(message["time_s"])
                self._on_frame()
        else:
            reading.times_s.append(message["time_s"])
            if reading.pending and reading.pending[-1].shape != pixels.shape:
                self._encode(reading)
            reading.pending.append(pixels)
            if len(reading.pending) * pixels.nbytes >= BATCH_BYTES or len(reading.pending) == BATCH_FRAMES:
                self._encode(reading)
            self._on_frame()

    def _encode(self, reading: _WorkerOutput) -> None:
        if not reading.pending or self._model is None:
            return
        batch = np.stack(reading.pending).transpose(0, 3, 1, 2)
        reading.pending.clear()
        self._model.encoder()  # one that cannot be had is no fault of the file
        try:
            reading.features.append(self._model.encode(batch))
        except EncoderError as error:
            raise MediaError("bad_features", str(error)) from error

    def _shard(self, reading: _WorkerOutput, source: ClipSource, wanted: WantedStages) -> Shard:
        if reading.info is None or not reading.times_s:
            raise MediaError("no_frames", "no frame of it could be decoded")
        self._encode(reading)
        encoder = self._model.encoder() if self._model and wanted.vision else None
        notes = dict.fromkeys((*reading.info.notes, *reading.end["notes"]))
        times_s, cuts_s = np.array(reading.times_s, np.float64), reading.end["cuts_s"]
        return Shard(
            clip_id=source.clip_id,
            info=replace(reading.info, notes=tuple(notes)),
            encoder_id=encoder.encoder_id if encoder else None,
            weights_hash=encoder.weights_hash if encoder else None,
            rule=self._settings.rule,
            times_s=times_s,
            spans_s=spans(times_s, source.part.length_s(reading.info.duration_s)),
            frames=np.concatenate(reading.features).astype(np.float16) if encoder else None,
            tracks=tuple(map(text_track, reading.end["tracks"])) if wanted.text else None,
            reader_id=reading.end["reader_id"] if wanted.text else None,
            cuts_s=None if cuts_s is None else np.array(cuts_s, np.float64),
        )


def spans(times_s: np.ndarray[Any, np.dtype[np.float64]], duration_s: float | None) -> np.ndarray[Any, Any]:
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


def merge(new: Shard, old: Shard) -> Shard:
    """Merge the stages of two shards of a clip: fields of the new one, and those of the old one that it lacks."""
    return replace(
        old if new.frames is None else new,
        tracks=old.tracks if new.tracks is None else new.tracks,
        reader_id=old.reader_id if new.tracks is None else new.reader_id,
        cuts_s=old.cuts_s if new.cuts_s is None else new.cuts_s,
    )
