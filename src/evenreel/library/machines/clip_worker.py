"""Worker of an index run on any machine: a path comes in, a shard and a status go out, decoded frames stay here."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from queue import SimpleQueue
from typing import Any

from evenreel.config import IndexSettings, usable_cores
from evenreel.errors import EvenreelError, LibraryError, MediaError
from evenreel.features.clip_reader import ClipReader, ClipSource, OtherWindowsError, ReaderSettings, WantedStages
from evenreel.features.hearing import Hearing, SpeechHearing
from evenreel.features.shards import Shard, shard_bytes
from evenreel.features.stills import Stills, stills_bytes
from evenreel.library.machines.arrivals import Arrivals
from evenreel.library.machines.orders import (
    FileStatus,
    FileTask,
    WorkOrder,
    node_name,
    shard_name,
    stages,
    stills_name,
)
from evenreel.library.snapshot.place import is_full, reason_of
from evenreel.media.content import stamp, watched_digest
from evenreel.types import Encoder, FloatArray, Pixels, WindowRule
from evenreel.version import __version__
from evenreel.wording import printable

_WAIT_S = 0.2
_PATIENCE_S = 120.0
"""Longest time that a worker waits for others; if the count was lost, the work goes on all the same."""


class WorkerModel:
    """A model of a worker, loaded when the first frame is there and shared by its readers.

    Args:
        load: loads the model.
    """

    def __init__(self, load: Callable[[], Encoder]) -> None:
        self._load, self._encoder = load, None
        self._loading, self._encoding = threading.Lock(), threading.Lock()

    _encoder: Encoder | None

    def encoder(self) -> Encoder:
        """Return the model, loading it where it is not loaded yet.

        Raises:
            EncoderError: it cannot be loaded.
        """
        with self._loading:
            if self._encoder is None:
                self._encoder = self._load()
            return self._encoder

    def window(self) -> WindowRule | None:
        """Return the windows that the model takes; None until it is loaded."""
        return None if self._encoder is None else self._encoder.window

    def encode(self, windows: Pixels) -> FloatArray:
        """Encode windows (N, T, 3, H, W) of uint8 RGB frames to (N, D) float32; one caller at a time."""
        encoder = self.encoder()
        with self._encoding:
            return encoder.encode_windows(windows)


class _Seat:
    """A clip reader with its process, and the frames that it has decoded of the file at hand."""

    def __init__(self, order: WorkOrder, models: list[WorkerModel | None], hearing: Hearing | None) -> None:
        self.frames = 0
        readers = max(order.readers, usable_cores())  # other workers of this machine have the other cores
        reading = ReaderSettings(order.rule, order.read_text, readers, order.limits, find_shots=True)
        self.reader = ClipReader(reading, models, self._count, order.reader, hearing)

    def _count(self, path: str, time_s: float) -> None:
        self.frames += 1


class ClipWorker:
    """Reads files one after the other, or several at a time in as many threads; nothing of a file ends it.

    Args:
        order: order of the run.
        ask: calls a method of the `evenreel.library.machines.claims.Claims` by its name and waits for the answer.
    """

    def __init__(self, order: dict[str, Any], ask: Callable[..., Any]) -> None:
        self._order, self._ask = WorkOrder.from_json(order), ask
        self._fault, hearing = fault_here(order), None
        self._seats: SimpleQueue[_Seat] = SimpleQueue()
        self._notes: defaultdict[str, list[str]] = defaultdict(list)
        try:
            hearing = self._hearing()
        except EvenreelError as error:
            self._fault = self._fault or f"The Ray worker on {node_name()} cannot hear what is said: {error}"
        if self._fault is not None:
            return
        self._arrivals = Arrivals(self._order.staging, self._order.token)
        self._models = [
            None if name is None else WorkerModel(_loader(self._order, name)) for name in self._order.models
        ]
        for _ in range(self._order.readers):
            self._seats.put(_Seat(self._order, self._models, hearing))

    def _hearing(self) -> SpeechHearing | None:
        order = self._order
        if order.speech is None:
            return None
        return SpeechHearing(
            order.speech, order.language, order.limits, lambda path, note: self._notes[path].append(note)
        )

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Read files; tasks and statuses are JSON."""
        tasks = [FileTask.from_json(json.loads(task)) for task in batch["task"]]
        return {"status": [json.dumps(self.work(task).to_json()) for task in tasks]}

    def work(self, task: FileTask) -> FileStatus:
        """Read one file, leave what was made of it and return what became of it."""
        status = FileStatus(task.number, node_name(), "fault")
        if self._fault is not None:
            return replace(status, sentence=self._fault)
        try:
            if not self._may_begin(task.number):
                return replace(status, kind="died")
            with self._seat() as seat:
                return self._read(seat, task, status)
        except EvenreelError as error:
            return replace(status, sentence=f"The Ray worker on {status.node} cannot go on: {error}")
        except Exception as error:  # a program error ends the run, and with its name
            what = f"{type(error).__name__}: {error}"
            return replace(status, sentence=f"The Ray worker on {status.node} failed at {task.path} ({what}).")

    def _may_begin(self, number: int) -> bool:
        """Whether no worker died of a task too often; waits while much is under way."""
        deadline = time.monotonic() + _PATIENCE_S
        while (answer := self._ask("enter", number)) == "wait" and time.monotonic() < deadline:
            time.sleep(_WAIT_S)
        return bool(answer != "died")

    @contextlib.contextmanager
    def _seat(self) -> Iterator[_Seat]:
        seat = self._seats.get()
        seat.frames = 0
        try:
            yield seat
        finally:
            self._seats.put(seat)

    def _read(self, seat: _Seat, task: FileTask, status: FileStatus) -> FileStatus:
        try:
            found = stamp(task.path)
            status = replace(status, clip_id=watched_digest(task.path, self._order.limits.stall_timeout_s))
            source = ClipSource(str(status.clip_id), task.path, found)
            wanted = self._wanted(task, str(status.clip_id))
            if not any(one is not None for one in wanted):
                return replace(status, kind="known")
            shards, stills = self._shards(seat, source, wanted)
            contents = [shard_bytes(one) if isinstance(one, Shard) else None for one in shards]
        except MediaError as error:
            return replace(
                status,
                kind="aside",
                frames=seat.frames,
                reason=error.reason,
                sentence=str(error),
                gone=not os.path.lexists(task.path),
            )
        made, notes = tuple(map(_outcome, shards)), tuple(self._notes.pop(printable(task.path), ()))
        status = replace(status, kind="made", frames=seat.frames, made=made, notes=notes)
        return self._leave(status, contents, stills)

    def _wanted(self, task: FileTask, clip_id: str) -> tuple[WantedStages | None, ...]:
        wanted = task.wanted or stages(self._ask("claim", clip_id, task.number) or [])
        return tuple(one if one is None or task.speech else replace(one, speech=False) for one in wanted)

    def _shards(
        self, seat: _Seat, source: ClipSource, wanted: tuple[WantedStages | None, ...]
    ) -> tuple[list[Shard | MediaError | None], Stills | None]:
        while True:
            stills = Stills() if self._order.keep_stills and wanted[0] is not None else None
            try:
                return seat.reader.read(source, wanted, stills)(), stills
            except OtherWindowsError:  # the model is loaded now
                seat.frames = 0

    def _leave(self, status: FileStatus, contents: list[bytes | None], stills: Stills | None) -> FileStatus:
        """Leave shards and stills at the place of arrivals."""
        clip_id = str(status.clip_id)
        try:
            if stills is not None:
                self._arrivals.put(stills_name(clip_id), stills_bytes(clip_id, stills))
            for model, content in enumerate(contents):
                if content is not None:
                    self._arrivals.put(shard_name(model, clip_id), content)
        except Exception as error:  # each kind of storage has errors of its own
            return replace(status, kind="disk", sentence=reason_of(error), full=is_full(error))
        return status


def _outcome(made: Shard | MediaError | None) -> bool | tuple[str, str] | None:
    """What a status says of a shard."""
    return (made.reason, str(made)) if isinstance(made, MediaError) else (None if made is None else True)


def _loader(order: WorkOrder, name: str) -> Callable[[], Encoder]:
    module, _, function = order.loader.partition(":")
    settings = IndexSettings(device=order.device, precision=order.precision)
    return lambda: getattr(import_module(module), function)(name, settings)


def fault_here(order: dict[str, Any]) -> str | None:
    """Return why this machine cannot take part in a run, as a sentence; None where it can."""
    node = node_name()
    if order["version"] != __version__:
        return (
            f"The Ray worker on {node} has evenreel {__version__}, and this is {order['version']}; install the same "
            "version on every machine."
        )
    for root in order["roots"]:
        if not os.path.isdir(root):
            return f"The Ray worker on {node} does not see {root}; have it under the same path on every machine."
    try:
        is_open = Arrivals(order["staging"], order["token"]).is_open()
    except LibraryError as error:
        return f"The Ray worker on {node} cannot go on: {error}"
    if not is_open:
        return (
            f"The Ray worker on {node} does not see {order['staging']}, where it is to leave what it makes; name a "
            "place that every machine reaches with --staging."
        )
    return None
