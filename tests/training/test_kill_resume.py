"""A run that is killed in the middle of an epoch, and resumed, ends equal to the byte to one that was left alone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from evenreel.training.run_folder import CHECKPOINTS, LAST, METRICS
from tests.training.train_once import run, start

PATIENCE_S = 240.0
STEPS_AN_EPOCH = 4
KILLS = (2, 7, 11)
"""Steps: before the first checkpoint, in the second epoch and in the last; each after some that no checkpoint has."""

SETTINGS: dict[str, Any] = {
    "matcher": {"name": "t_mass"},  # it draws noise and drops out
    "records": {"save_every_steps": 3, "every_steps": 1, "tensorboard": False},  # 3 divides no epoch
    "selection": {"every_steps": 5},
}


@pytest.mark.parametrize("accumulate", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_killed_and_resumed_runs_end_equal(tmp_path: Path, accumulate: int) -> None:
    settings = {**SETTINGS, "loop": {"epochs": 3 * accumulate, "accumulate": accumulate}}
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    for number, step in enumerate(KILLS):
        assert step % STEPS_AN_EPOCH, "it should be killed in the middle of an epoch"
        assert finish(broken, settings, resume=number > 0, killed_after=step) == -signal.SIGKILL
        assert f"\n{step}," in (broken / METRICS).read_text()
    assert finish(broken, settings, resume=True) == 0
    run(unbroken, settings)
    names = sorted(path.name for path in (unbroken / CHECKPOINTS).iterdir())
    assert names == sorted(path.name for path in (broken / CHECKPOINTS).iterdir())
    for file in (METRICS, CHECKPOINTS / names[0]):
        assert (broken / file).read_bytes() == (unbroken / file).read_bytes(), file
    one, other = (torch.load(folder / LAST, weights_only=True) for folder in (broken, unbroken))
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "callbacks"):
        assert plain(one[part]) == plain(other[part]), part


def finish(folder: Path, settings: dict[str, Any], *, resume: bool, killed_after: int | None = None) -> int | None:
    """How a run in a process of its own ends."""
    process = start(run, folder, settings, resume, killed_after)
    process.join(PATIENCE_S)
    return process.exitcode


def plain(value: Any) -> Any:
    """Tensors as bytes, so that `==` compares every bit."""
    if isinstance(value, torch.Tensor):
        return value.numpy().tobytes()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value
