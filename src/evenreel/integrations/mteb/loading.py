"""Loading of a model of MTEB by name: a trained matcher, or an encoder."""

from __future__ import annotations

import json
from pathlib import Path

from evenreel.checkpoint.records import CONFIG
from evenreel.encoders import load_encoder
from evenreel.extras import named_folder
from evenreel.integrations.mteb.matcher import MtebMatcher
from evenreel.integrations.mteb.model import MtebModel


def load_model(
    name: str | Path, *, device: str = "auto", frames: int = 12, folder: str | Path | None = None
) -> MtebModel | MtebMatcher:
    """Load a model of MTEB by what a name stands for: a matcher's checkpoint, or an encoder.

    Args:
        name: folder of a matcher's checkpoint, or what `evenreel.encoders.load_encoder` takes. A matcher on the hub is
            loaded by `MtebMatcher.from_checkpoint`.
        device: device of the model: `cpu`, `cuda`, `auto`, ...
        frames: number of frames of a video for an encoder; a matcher has its own.
        folder: folder in which a matcher keeps features; None for a temporary one.

    Raises:
        CheckpointError: the checkpoint is damaged.
        EncoderError: the encoder cannot be had.
        UsageError: the device cannot be used, or the matcher takes what no encoder makes of a video.
    """
    if _is_matcher(str(name)):
        return MtebMatcher.from_checkpoint(name, device=device, folder=folder)
    return MtebModel(load_encoder(str(name), device=device), frames)


def _is_matcher(name: str) -> bool:
    place = named_folder(name)
    if place is None or not (place / CONFIG).is_file():
        return False
    try:
        config = json.loads((place / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "matcher" in config
