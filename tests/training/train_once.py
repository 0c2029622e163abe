"""Small training runs in processes of their own, which have their imports behind them when they start."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from multiprocessing import context, forkserver, popen_forkserver
from pathlib import Path
from typing import Any

import pytest
from lightning.fabric.utilities.rank_zero import rank_zero_only

from evenreel.cli import main
from evenreel.training.loop import RunHooks, train
from tests.forked import ForkedWorker
from tests.training.small_material import recall_at_1, small_material, small_recipe

PRELOADED = ["tests.training.train_once", "evenreel.training.material", "evenreel.evaluation", "evenreel.checkpoint"]
"""What every process would otherwise import for itself."""

SERVER = forkserver.ForkServer()
"""That of other tests has read videos and loaded no torch, and a process of Python knows but one."""
SERVER.set_forkserver_preload(PRELOADED)


class TrainingPopen(popen_forkserver.Popen):
    """A process that is forked by that server."""

    def _launch(self, process: context.ForkServerProcess) -> None:
        with ForkedWorker.lock, pytest.MonkeyPatch.context() as patch:
            patch.setattr(forkserver, "connect_to_new_process", SERVER.connect_to_new_process)
            super()._launch(process)  # type: ignore[misc]


class TrainingProcess(context.ForkServerProcess):
    @staticmethod
    def _Popen(process: context.ForkServerProcess) -> TrainingPopen:  # type: ignore[override]
        return TrainingPopen(process)


class TrainingContext(context.ForkServerContext):
    Process = TrainingProcess  # type: ignore[assignment]


CONTEXT = TrainingContext()


def start(work: Callable[..., None], *arguments: Any) -> TrainingProcess:
    """Begin some work in a fresh process, forked from one that has imported this module and done nothing else."""
    process = TrainingProcess(target=work, args=arguments)
    process.start()
    return process


def run(folder: Path, settings: Mapping[str, Any], resume: bool = False, killed_after: int | None = None) -> None:
    """Train by the small recipe with these changes; after a step the process may be killed."""

    def watch(step: int, steps: int, figures: Mapping[str, float]) -> None:
        if step == killed_after:
            os.kill(os.getpid(), signal.SIGKILL)

    train(small_recipe(**settings), small_material(), folder, RunHooks(recall_at_1, watch=watch, resume=resume))


def command(said: Path, *words: str) -> None:
    """`evenreel` with these words; what it says goes into a file."""
    with said.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = ["evenreel", *words]
    main()


def on_device(number: int, devices: int, port: int, work: Callable[..., None], *arguments: Any) -> None:
    """Do the work as one of several devices, as it is when another program has started a process for each."""
    environment = {"LOCAL_RANK": number, "NODE_RANK": 0, "WORLD_SIZE": devices, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in environment.items()}, MASTER_ADDR="127.0.0.1")
    rank_zero_only.rank = number  # Lightning looks at the environment when it is imported
    work(*arguments)
