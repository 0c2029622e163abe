"""A run that is killed in the middle of an epoch, and resumed, ends equal to the byte to one that was left alone."""

from __future__ import annotations

import multiprocessing
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from evenreel.training.run_folder import CHECKPOINTS, LAST, METRICS
from tests.training.train_once import run

PATIENCE_S = 120.0
PAUSE_S = 0.1
STEPS_AN_EPOCH = 4

SETTINGS: dict[str, Any] = {
    "matcher": {"name": "t_mass"},  # it draws noise and drops out
    "records": {"save_every_steps": 3, "every_steps": 1, "tensorboard": False},  # 3 divides neither epoch nor run
    "selection": {"every_steps": 5},
}


def start(folder: Path, settings: dict[str, Any], **how: Any) -> BaseProcess:
    """Begin a run in a fresh process that has the imports behind it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.training.train_once"])
    process = context.Process(target=run, args=(folder, settings), kwargs=how)
    process.start()
    return process


def last_step(folder: Path) -> int:
    """Of the last whole line of the metrics; 0 where there is none."""
    path = folder / METRICS
    lines = path.read_text().splitlines(keepends=True)[1:] if path.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    return int(whole[-1].split(",")[0]) if whole else 0


def kill_after(process: BaseProcess, folder: Path, step: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while last_step(folder) < step:
        assert process.is_alive(), "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.join(PATIENCE_S)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("accumulate", [1, 2])
def test_killed_and_resumed_runs_end_equal(tmp_path: Path, accumulate: int) -> None:
    settings = {**SETTINGS, "loop": {"epochs": 4 * accumulate, "accumulate": accumulate}}
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    for number, step in enumerate((2, 7, 14)):  # before the first checkpoint, in the second epoch and in the last
        kill_after(start(broken, settings, pause_s=PAUSE_S, resume=number > 0), broken, step)
        assert last_step(broken) % STEPS_AN_EPOCH, "it should be killed in the middle of an epoch"
    last = start(broken, settings, resume=True)
    run(unbroken, settings)
    last.join(PATIENCE_S)
    assert last.exitcode == 0
    assert [path.name for path in (broken / CHECKPOINTS).iterdir()] == [
        path.name for path in (unbroken / CHECKPOINTS).iterdir()
    ]
    (best,) = (path.relative_to(unbroken) for path in (unbroken / CHECKPOINTS).glob("best-*.safetensors"))
    for file in (METRICS, best):
        assert (broken / file).read_bytes() == (unbroken / file).read_bytes(), file
    one, other = (torch.load(folder / LAST, weights_only=True) for folder in (broken, unbroken))
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "callbacks"):
        assert plain(one[part]) == plain(other[part]), part


def plain(value: Any) -> Any:
    """Tensors as bytes, so that `==` compares every bit."""
    if isinstance(value, torch.Tensor):
        return value.numpy().tobytes()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value
