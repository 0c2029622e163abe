"""Machines that are this process: what Ray would do, without Ray, and models that workers load by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from evenreel.config import IndexSettings
from evenreel.library.machines.claims import Claims
from evenreel.library.machines.clip_worker import ClipWorker
from evenreel.library.machines.orders import FileStatus, FileTask, WorkOrder
from tests.features.pixel_encoder import PixelEncoder

READER = "tests.library.stub_reader:QuickReader"
LOADER = "tests.library.machines.here:load"
SETTINGS = IndexSettings(model="pixels", read_text=False, workers=1)


def load(name: str, *_: object, **__: object) -> PixelEncoder:
    if name != "second":
        return PixelEncoder()
    second = PixelEncoder("b" * 64)
    second.encoder_id = "second"
    return second


def load_another(name: str, *_: object) -> PixelEncoder:
    return PixelEncoder("c" * 64)


class HereSession:
    """Does what `RaySession` does with one worker in this process."""

    rounds: ClassVar[list[tuple[int, bool]]] = []
    lost: ClassVar[set[str]] = set()
    """Ends of the paths whose workers die."""

    told: ClassVar[dict[str, object]] = {}
    """What the worker is told in another way than the run has it."""

    def __init__(self, address: str, order: WorkOrder, workers: int, cores: int) -> None:
        self.order = json.loads(json.dumps(order.to_json())) | self.told
        self.settled: list[int] = []

    def __enter__(self) -> HereSession:
        self.claims = Claims(self.order)
        self.worker = ClipWorker(self.order, lambda method, *values: getattr(self.claims, method)(*values))
        return self

    def __exit__(self, *_: object) -> None:
        while not self.worker._seats.empty():
            self.worker._seats.get().reader.close()

    def run(self, tasks: Sequence[FileTask], *, alone: bool) -> Iterator[FileStatus]:
        self.rounds.append((len(tasks), alone))
        self.claims.begin()
        for task in tasks:
            if not task.path.endswith(tuple(self.lost)):
                batch: dict[str, Any] = {"task": [json.dumps(task.to_json())]}
                for status in self.worker(batch)["status"]:
                    yield FileStatus.from_json(json.loads(status))

    def settle(self, number: int) -> None:
        self.claims.settle(number)
