"""Several processes with a part of the batch each do what one does with the whole batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evenreel.matchers.batches import text_batch, video_batch
from evenreel.training.gather import gather_texts, gather_videos
from evenreel.training.run_folder import LAST
from tests.conftest import REPOSITORY
from tests.training.small_material import small_examples, tower_material
from tests.training.train_once import run_with_towers

PATIENCE_S = 120.0


def settings_for(devices: int) -> dict[str, Any]:
    """Nothing is random beside the order."""
    return {
        "matcher": {"name": "wti"},
        "adapter": {"kind": "mlp", "dropout": 0.0},
        "loop": {"devices": devices, "epochs": 3},
        "optimiser": {"backbone_lr": 0.01, "eps": 1e-3},  # a smaller one makes much of the last digits of gradients
    }


def test_two_processes_end_with_the_weights_of_one(tmp_path: Path, clip_folder: Path) -> None:
    """Towers get their gradients back through the gathering, matchers have theirs on both."""
    settings = json.dumps(settings_for(2))
    command = [sys.executable, "-m", "tests.training.train_once", str(tmp_path / "two"), settings, str(clip_folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, timeout=PATIENCE_S, check=True, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("", "")
    run_with_towers(tmp_path / "one", settings_for(1), clip_folder)
    one, two = (torch.load(tmp_path / name / LAST, weights_only=True)["state_dict"] for name in ("one", "two"))
    before = tower_material(clip_folder).towers
    assert before is not None
    for name, tensor in before.state_dict().items():
        if "_projection" in name:
            assert (one[f"towers.{name}"] - tensor).abs().max() > 1e-3, "the towers should learn"
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-6, atol=1e-6, msg=name)


def test_parts_of_different_lengths_are_padded() -> None:
    """Gathering two parts gives what batching all rows at once gives."""
    examples = small_examples(8)
    whole, halves = np.arange(8), (np.arange(4), np.arange(4, 8))
    texts = [text_batch(examples.text_features, rows) for rows in halves]
    videos = [video_batch(examples.video_features, rows) for rows in halves]
    assert len({text.words.shape[1] for text in texts} | {video.frames.shape[1] for video in videos}) > 1

    def gather_with(others: list[Tensor]) -> Any:
        """What all devices hold, for the fields in the order that they are gathered in."""
        left = iter(others)

        def gather(part: Tensor) -> Tensor:
            other = next(left)
            return torch.stack([part, other])

        return gather

    longest = max(text.words.shape[1] for text in texts)
    padded = text_batch(examples.text_features, whole)
    second = [
        torch.tensor([longest]),
        padded.words[4:, :longest],
        torch.tensor([longest]),
        padded.word_mask[4:, :longest].to(torch.uint8),
        torch.tensor([padded.sentence.shape[1]]),
        padded.sentence[4:],
    ]
    joint = gather_texts(texts[0], padded.ids, gather_with(second))
    assert torch.equal(joint.words, padded.words)
    assert torch.equal(joint.word_mask, padded.word_mask)
    assert torch.equal(joint.sentence, padded.sentence)
    assert gather_videos(videos[0], ("all",), lambda part: torch.stack([part, part])).frames.shape[0] == 8
