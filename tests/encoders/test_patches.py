"""Features of patches: what the last attention of the tower gives if it may look at one of them only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from evenreel.edits.masking import PatchMask
from evenreel.encoders import load_encoder
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import UsageError
from evenreel.types import Pixels
from tests.tiny_checkpoints import SIDE

GRID = SIDE // 8


def frames(count: int, height: int, width: int) -> Pixels:
    return np.random.default_rng(3).integers(0, 256, (count, 3, height, width), dtype=np.uint8)


def one_patch_left(model: Any, inputs: torch.Tensor, patch: int) -> torch.Tensor:
    """By the tower's own attention, from which all other tokens are hidden."""
    if hasattr(model, "visual_projection"):
        vision, layer = model.vision_model, model.vision_model.encoder.layers[-1]
        tokens = vision(pixel_values=inputs, output_hidden_states=True).hidden_states[-2]
        hidden = torch.full((1, 1, *[tokens.shape[1]] * 2), -torch.inf)
        hidden[..., patch + 1] = 0.0
        attended = layer.self_attn(layer.layer_norm1(tokens), hidden)[0][:, 0]
        return model.visual_projection(  # type: ignore[no-any-return]
            vision.post_layernorm(attended + layer.mlp(layer.layer_norm2(attended)))
        )
    tokens, head = model.vision_model(pixel_values=inputs).last_hidden_state, model.vision_model.head
    hidden = torch.arange(tokens.shape[1])[None].expand(len(tokens), -1) != patch
    attended = head.attention(head.probe.expand(len(tokens), -1, -1), tokens, tokens, key_padding_mask=hidden)[0]
    return (attended + head.mlp(head.layernorm(attended)))[:, 0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("whole", [False, True])
def test_a_patch_is_what_attention_gives_that_sees_nothing_else(encoder: TowerEncoder, whole: bool) -> None:
    pixels = frames(3, 40, 56)
    towers = encoder._towers
    preprocessing = towers.preprocessing
    squeezed = replace(preprocessing, shortest_edge=None, resized=(SIDE, SIDE), crop=None)
    inputs = torch.from_numpy((squeezed if whole else preprocessing).prepare(pixels))
    with torch.inference_mode():
        slow = [F.normalize(one_patch_left(towers.model, inputs, patch), dim=-1) for patch in range(GRID * GRID)]
    found = encoder.encode_patches(pixels, whole=whole)
    assert found.shape == (3, GRID, GRID, encoder.dimension) and found.dtype == np.float32
    np.testing.assert_allclose(found.reshape(3, GRID * GRID, -1), torch.stack(slow, 1).numpy(), atol=2e-5)


def test_patches_do_not_depend_on_the_batch(encoder: TowerEncoder) -> None:
    pixels = frames(3, 40, 56)
    alone = np.concatenate([encoder.encode_patches(pixels[row : row + 1]) for row in range(3)])
    np.testing.assert_allclose(encoder.encode_patches(pixels), alone, atol=1e-5)
    assert encoder.encode_patches(pixels[:0]).shape == (0, GRID, GRID, encoder.dimension)
    with pytest.raises(UsageError, match="Frames are"):
        encoder.encode_patches(pixels[0])


def test_the_part_that_the_tower_sees(checkpoints: dict[str, Path]) -> None:
    """CLIP cuts the middle square out; outside of it nothing can be changed that the tower would see."""
    clip, siglip = (load_encoder(str(checkpoints[family]), device="cpu") for family in ("clip", "siglip"))
    assert clip.seen_box(64, 128) == (32.0, 0.0, 96.0, 64.0)
    assert clip.seen_box(96, 64) == (0.0, 16.0, 64.0, 80.0)
    assert siglip.seen_box(64, 128) == (0.0, 0.0, 128.0, 64.0)
    pixels = frames(2, 64, 128)
    outside = pixels.copy()
    outside[..., :28], outside[..., 100:] = 0, 255  # a filter of the resizing reaches a little further
    np.testing.assert_array_equal(clip.encode_patches(outside), clip.encode_patches(pixels))


def test_the_named_thing_is_found_where_it_is(builtin: TowerEncoder, circles: tuple[Pixels, PatchMask]) -> None:
    """The patch that fits `a red circle` best lies on it in most scenes; one of nine patches does."""
    pictures, on_it = circles
    fit = builtin.encode_patches(pictures) @ builtin.encode_text(["a red circle"]).sentence[0]
    best = fit.reshape(len(pictures), -1).argmax(axis=1)
    hits = on_it.reshape(len(pictures), -1)[np.arange(len(pictures)), best]
    assert hits.mean() > 4 * on_it.mean()
