"""Worker of an index run on any machine: a path comes in, a shard and a status go out, decoded frames stay here."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from queue import SimpleQueue
from typing import Any

from evenreel.config import IndexSettings, usable_cores
from evenreel.errors import EvenreelError, LibraryError, MediaError
from evenreel.features.clip_reader import (
    ClipReader,
    ClipSource,
    OtherWindowsError,
    ReaderSettings,
    SharedModel,
    SpeechHearing,
    WantedStages,
)
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
from evenreel.library.places import is_full, reason_of
from evenreel.media.content import stamp, watched_digest
from evenreel.types import Encoder
from evenreel.version import __version__
from evenreel.wording import printable

_WAIT_S = 0.2
_PATIENCE_S = 120.0
"""Longest time that a worker waits for others; if the count was lost, the work goes on all the same."""


class _Seat:
    """A clip reader with its process, and the frames that it has decoded of the file at hand."""

    def __init__(self, order: WorkOrder, model: SharedModel | None, hearing: SpeechHearing | None) -> None:
        self.frames = 0
        readers = max(order.readers, usable_cores())  # other workers of this machine have the other cores
        reading = ReaderSettings(order.rule, order.read_text, readers, order.limits, find_shots=True)
        self.reader = ClipReader(reading, model, self._count, order.reader, hearing)

    def _count(self, path: str, time_s: float) -> None:
        self.frames += 1


class ClipWorker:
    """Reads files one after the other, or several at a time in as many threads; nothing of a file ends it."""

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
        name = self._order.model
        model = None if name is None else SharedModel(_loader(self._order, name))
        for _ in range(self._order.readers):
            self._seats.put(_Seat(self._order, model, hearing))

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
            if wanted is None:
                return replace(status, kind="known")
            shard, stills = self._shard(seat, source, wanted)
            content = shard_bytes(shard)
        except MediaError as error:
            return replace(
                status,
                kind="aside",
                frames=seat.frames,
                reason=error.reason,
                sentence=str(error),
                gone=not os.path.lexists(task.path),
            )
        notes = tuple(self._notes.pop(printable(task.path), ()))
        status = replace(status, kind="made", frames=seat.frames, notes=notes)
        return self._leave(status, content, stills)

    def _wanted(self, task: FileTask, clip_id: str) -> WantedStages | None:
        wanted = stages(self._ask("claim", clip_id, task.number)) if task.wanted is None else task.wanted
        return wanted if wanted is None or task.speech else replace(wanted, speech=False)

    def _shard(self, seat: _Seat, source: ClipSource, wanted: WantedStages) -> tuple[Shard, Stills | None]:
        while True:
            stills = Stills() if self._order.keep_stills else None
            try:
                return seat.reader.read(source, wanted, stills)(), stills
            except OtherWindowsError:  # the model is loaded now
                seat.frames = 0

    def _leave(self, status: FileStatus, content: bytes, stills: Stills | None) -> FileStatus:
        """Leave the shard and the stills at the place of arrivals."""
        clip_id = str(status.clip_id)
        try:
            if stills is not None:
                self._arrivals.put(stills_name(clip_id), stills_bytes(clip_id, stills))
            self._arrivals.put(shard_name(clip_id), content)
        except Exception as error:  # each kind of storage has errors of its own
            return replace(status, kind="disk", sentence=reason_of(error), full=is_full(error))
        return status


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
