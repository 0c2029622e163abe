"""The unit of an index run: a file comes in, a `Reading` goes out. It needs no library, so any machine can do it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

from evenreel.config import IndexSettings, MediaLimits
from evenreel.errors import MediaError
from evenreel.features.clip_reader import (
    READER,
    ClipReader,
    ClipSource,
    OtherWindowsError,
    ReaderSettings,
    SharedModel,
    SpeechHearing,
    WantedStages,
)
from evenreel.features.pool import Closable
from evenreel.features.shards import Shard
from evenreel.features.stills import Stills
from evenreel.library.store.writer import FoundFile
from evenreel.media.content import FileStamp, stamp, watched_digest
from evenreel.media.sampling import WHOLE, Part
from evenreel.types import Encoder


@dataclass(frozen=True)
class Orders:
    """What an index run wants of each of its files: plain data, so that it can travel."""

    wanted: WantedStages
    rule: str
    limits: MediaLimits
    model: str | None = None
    device: str = "auto"
    precision: str = "float32"
    keep_stills: bool = True
    speech: str | None = None  # the model that hears what is said
    language: str | None = None
    readers: int = 1  # that share the cores of the machine
    reader: str = READER  # target of the processes

    def load(self) -> Encoder:
        """Load the model of the run."""
        return load(self.model or "", IndexSettings(device=self.device, precision=self.precision))


@dataclass
class Reading:
    """What was read of a file: a shard, and stills where they are kept. Without a shard nothing was wanted of it.

    `error` says why a file is set aside, `notes` what is unusual in its sound, and `frames` how many were decoded.
    """

    file: FoundFile
    shard: Shard | None = None
    stills: Stills | bytes | None = None
    error: MediaError | None = None
    frames: int = 0
    notes: tuple[str, ...] = ()


class FileWorker:
    """Reads one file after another in processes that can be killed; `frames` counts those of the file at hand.

    Workers of one process share a model and a hearing; one that is given neither has its own (see `alone`).
    """

    def __init__(
        self,
        orders: Orders,
        model: SharedModel | None,
        hearing: SpeechHearing | None = None,
        on_frame: Callable[[str, float], None] = lambda path, time_s: None,
    ) -> None:
        self._orders, self._on_frame = orders, on_frame
        self.frames, self.notes = 0, list[str]()
        settings = ReaderSettings(orders.rule, orders.wanted.text, orders.readers, orders.limits, find_shots=True)
        self._reader = ClipReader(settings, model, self._count, orders.reader, hearing)
        self._held: list[Closable] = [self._reader]

    @classmethod
    def alone(cls, orders: Orders) -> FileWorker:
        """Make a worker with a model and a hearing of its own, each loaded when it is first needed."""
        hearing = None
        if orders.speech is not None:
            hearing = SpeechHearing(orders.speech, orders.language, orders.limits, lambda _, note: notes.append(note))
        made = cls(orders, SharedModel(orders.load) if orders.model else None, hearing)
        made._held += [hearing] if hearing else []
        notes = made.notes
        return made

    def read(self, file: FoundFile, wanted: WantedStages, part: Part = WHOLE) -> Callable[[], Reading]:
        """Read a file of known content to its end; the function returned encodes the last frames."""
        self.frames = 0
        self.notes.clear()
        stills = Stills() if self._orders.keep_stills else None
        finish = self._reader.read(ClipSource(file.clip_id or "", file.path, file.stamp, part), wanted, stills)
        return lambda: Reading(file, finish(), stills)

    def close(self) -> None:
        """End the processes; a file that is being read fails."""
        for one in self._held:
            one.close()

    def _count(self, path: str, time_s: float) -> None:
        self.frames += 1
        self._on_frame(path, time_s)


def read_file(
    path: str,
    orders: Orders,
    worker: FileWorker | None = None,
    claim: Callable[[str], WantedStages | None] | None = None,
) -> Reading:
    """Read one file, from the digest of its content to its shard or to the reason why it is set aside.

    Args:
        path: the file.
        orders: what is wanted of it.
        worker: reads it; None for one that is started for this file.
        claim: returns what is wanted of a content; None where that is nothing, or somebody else reads it.
    """
    if worker is None:
        with closing(FileWorker.alone(orders)) as own:
            return read_file(path, orders, own, claim)
    file = FoundFile(path, "", FileStamp(0, 0, 0))
    try:
        file = replace(file, stamp=stamp(path))
        file = replace(file, clip_id=watched_digest(path, orders.limits.stall_timeout_s))
        wanted = orders.wanted if claim is None else claim(str(file.clip_id))
        if wanted is None:
            return Reading(file)
        while True:
            try:
                return replace(worker.read(file, wanted)(), frames=worker.frames, notes=tuple(worker.notes))
            except OtherWindowsError:  # the model is loaded now
                continue
    except MediaError as error:
        return Reading(file, error=error, frames=worker.frames)


def load(name: str, settings: IndexSettings) -> Encoder:
    """Load a model on the device and in the precision of a run."""
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
