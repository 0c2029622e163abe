"""A matcher that tells parts, for the served library: TCD as it begins, which compares features as they are."""

from __future__ import annotations

from pathlib import Path

import torch

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, save_pretrained
from evenreel.checkpoint.architecture import build, module
from evenreel.encoders import load_encoder

WINDOWS = 4


def save_tcd(folder: Path, weights_hash: str | None = None) -> Path:
    """A checkpoint for libraries of the built-in encoder, or for those of other weights."""
    torch.manual_seed(0)
    encoder = load_encoder("builtin", device="cpu")
    note = EncoderNote(encoder.encoder_id, weights_hash or encoder.weights_hash, encoder.dimension)
    matcher = build(MatcherSpec("tcd"), encoder.dimension)
    module(matcher).eval()
    about = About(note, Inputs(frames=12, words=32, windows=WINDOWS))
    save_pretrained(folder, Pretrained(matcher, MatcherSpec("tcd"), about))
    return folder
