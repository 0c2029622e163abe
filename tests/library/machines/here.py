"""Machines that are this process: what Ray would do, without Ray, and models that workers load by name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from evenreel.config import IndexSettings
from evenreel.library.index.spread import RayWorker, Status
from evenreel.types import FloatArray, Pixels
from tests.features.pixel_encoder import PixelEncoder

READER = "tests.library.stub_reader:QuickReader"
LOADER = "tests.library.machines.here:load"
SETTINGS = IndexSettings(model="pixels", read_text=False, workers=1)

rounds: list[int] = []
"""Files of each time that workers were asked."""
lost: set[str] = set()
"""Ends of the paths whose workers die."""
told: dict[str, Any] = {}
"""What workers are told in another way than the run has it."""


def load(name: str, *_: object, **__: object) -> PixelEncoder:
    if name != "second":
        return PixelEncoder()
    second = PixelEncoder("b" * 64)
    second.encoder_id = "second"
    return second


def load_another(name: str, *_: object) -> PixelEncoder:
    return PixelEncoder("c" * 64)


class DeadlyEncoder(PixelEncoder):
    """Takes its process with it where a frame has the background of the video of seed 2."""

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        background = np.random.default_rng(2).integers(0, 255, 3)
        if (np.abs(pixels[:, 0, :, 0, 0].astype(int) - background) < 8).all():
            os._exit(1)
        return super().encode_windows(pixels)


def load_deadly(name: str, *_: object) -> PixelEncoder:
    return DeadlyEncoder()


@contextmanager
def driven(address: str, setup: dict[str, Any]) -> Iterator[Iterator[Status]]:
    """Do what `spread.driven` does with one worker in this process."""
    order = json.loads(json.dumps(setup["order"]))
    changes = dict(told)
    order["orders"]["settings"] |= changes.pop("settings", {})
    worker = RayWorker(order | changes, 1)
    rounds.append(len(setup["tasks"]))

    def found() -> Iterator[Status]:
        for task in setup["tasks"]:
            path, _ = json.loads(task)
            if path.endswith(tuple(lost)):
                yield Status(path, kind="killed", reason="killed", sentence="it died")
                continue
            for status in worker({"task": [task]})["status"]:
                yield Status(*json.loads(status))

    try:
        yield found()
    finally:
        while not worker._free.empty():
            worker._free.get().close()
