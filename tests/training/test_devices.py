"""Several processes with a part of the batch each do what one does with the whole batch."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from torch import Tensor

from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.towers import load_towers
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.training.module import gather_batch
from evenreel.training.run_folder import CLIPS_READ, LAST
from evenreel.types import OnScreen
from tests.training.conftest import CLIPS
from tests.training.small_material import small_examples
from tests.training.small_signs import signs_of
from tests.training.train_once import command, on_device, start

PATIENCE_S = 240.0


RECIPE: dict[str, Any] = {
    "name": "small",
    "matcher": {"name": "wti"},
    "adapter": {"kind": "mlp", "windows": True},
    "debias": {"share": 0.5, "weight": 0.1},
    "optimiser": {"lr": 0.01, "backbone_lr": 0.01, "eps": 1e-3},  # a smaller eps makes much of gradients' last digits
    "loop": {"batch_size": 4, "epochs": 3, "device": "cpu"},
    "records": {"tensorboard": False},
}
"""Nothing is random beside the order, and which pairs count in `debias`."""


@pytest.mark.slow
def test_two_processes_end_with_the_weights_of_one(tmp_path: Path, corpus_folder: Path, clip_folder: Path) -> None:
    """Towers get their gradients back through the gathering, matchers have theirs on both; every clip is read once.

    Not all clips show words, so that there are parts of a batch without any.
    """
    data = {"corpus": str(with_mirrors(corpus_folder, tmp_path / "corpus")), "videos": str(corpus_folder)}
    data["on_screen"] = str(signs_of(corpus_folder, clip_folder, tmp_path / "features"))
    values = {"data": data, "backbone": {"model": str(clip_folder), "rule": "3 midpoints"}}
    recipe = tmp_path / "small.yaml"
    recipe.write_text(yaml.safe_dump(RECIPE | values))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("train", str(recipe), "--set", "loop.devices=2", "--out", str(tmp_path / "two"))
    both = [start(on_device, rank, 2, port, command, tmp_path / f"said-{rank}", *words) for rank in range(2)]
    alone = start(command, tmp_path / "said", *words[:2], "--out", str(tmp_path / "one"))
    for process in (alone, *both):
        process.join(PATIENCE_S)
    assert [process.exitcode for process in (alone, *both)] == [3, 3, 0], "a clip was set aside, which one says"
    assert (tmp_path / "said-1").read_text() == ""
    assert (tmp_path / "said-0").read_text() == (tmp_path / "said").read_text().replace("/one", "/two")
    assert len((tmp_path / "two" / CLIPS_READ).read_text().splitlines()) == CLIPS
    one, two = (torch.load(tmp_path / name / LAST, weights_only=True)["state_dict"] for name in ("one", "two"))
    before = load_towers(open_checkpoint(clip_folder), torch.device("cpu"), "float32").model.state_dict()
    for name, tensor in before.items():
        if "_projection" in name:
            assert (one[f"towers.model.{name}"] - tensor).abs().max() > 1e-3, "the towers should learn"
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-6, atol=1e-6, msg=name)


def with_mirrors(corpus_folder: Path, folder: Path) -> Path:
    """The corpus with two of the clips to learn from as mirrors of two others."""
    corpus = load_corpus(corpus_folder)
    pair_id = pl.col("clip_id").replace_strict({"v4": "v0", "v5": "v2"}, default=None, return_dtype=pl.String)
    save_corpus(make_corpus(corpus.clips.with_columns(pair_id=pair_id), corpus.captions), folder)
    return folder


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
    joint = gather_batch(texts[0], padded.ids, gather_with(second))
    assert torch.equal(joint.words, padded.words)
    assert torch.equal(joint.word_mask, padded.word_mask)
    assert torch.equal(joint.sentence, padded.sentence)
    sure = torch.rand(4, 2)
    read = replace(videos[0], on_screen=OnScreen(torch.rand(4, 2, 3), sure > 0.5, sure))
    for video in (videos[0], read):
        twice = gather_batch(video, ("all",), lambda part: torch.stack([part, part]))
        assert twice.frames.shape[0] == 8
        assert (twice.on_screen is None) == (video is videos[0])
    assert torch.equal(twice.on_screen.confidence, torch.cat([sure, sure]))
