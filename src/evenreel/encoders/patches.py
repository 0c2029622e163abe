"""What each patch of a frame shows, in the space of captions.

The last tokens of CLIP's patches lie elsewhere: only the class token was ever trained to meet captions. MaskCLIP (Zhou
et al., ECCV 2022, arXiv 2112.01071, section 3.3) takes what the last attention reads of each patch instead, its value.
Here the rest of the way is gone too: a patch's feature is what the frame's would be if the last attention of the tower
looked at this patch alone. For CLIP that is the last layer, for SigLIP the head that pools. Features of patches and of
frames then have one scale, and a patch without content does not become as long as any other. On rendered scenes the
built-in tower finds the named thing so more often than by the value alone, with MaskCLIP's own residual or without
(docs/bima.md).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evenreel.encoders.towers import Towers


def patch_features(towers: Towers, inputs: Tensor) -> Tensor:
    """Features of all patches of prepared frames, of any length.

    Args:
        towers: the model.
        inputs: (N, 3, h, w), as `evenreel.encoders.preprocessing.prepare` makes them.

    Returns:
        (N, rows, columns, D), rows from the top, columns from the left.
    """
    rows, columns = patch_grid(towers)
    pixels = inputs.to(towers.model.dtype)
    family = {"clip": _clip_patches, "siglip": _siglip_patches}[towers.checkpoint.family]
    return family(towers.model, pixels).unflatten(1, (rows, columns))


def patch_grid(towers: Towers) -> tuple[int, int]:
    """Rows and columns of patches that a frame is cut into."""
    vision = towers.model.config.vision_config
    side = vision.image_size // vision.patch_size
    return side, side


def _clip_patches(model: Any, pixels: Tensor) -> Tensor:
    """(N, P, D): the class token attends to one patch and to nothing else, itself included."""
    vision = model.vision_model
    layer = vision.encoder.layers[-1]
    tokens = _input_of(layer.layer_norm1, vision, pixels)
    value = layer.self_attn.v_proj(layer.layer_norm1(tokens[:, 1:]))
    attended = tokens[:, :1] + layer.self_attn.out_proj(value)
    pooled = attended + layer.mlp(layer.layer_norm2(attended))
    features: Tensor = model.visual_projection(vision.post_layernorm(pooled))
    return features


def _siglip_patches(model: Any, pixels: Tensor) -> Tensor:
    """(N, P, D): the head is given one patch at a time, so that its attention has nothing else to look at."""
    tokens = model.vision_model(pixel_values=pixels).last_hidden_state
    alone = tokens.flatten(0, 1)[:, None]
    features: Tensor = model.vision_model.head(alone).unflatten(0, tokens.shape[:2])
    return features


def _input_of(part: torch.nn.Module, tower: torch.nn.Module, pixels: Tensor) -> Tensor:
    """What a part of a tower is given when the tower sees some frames."""
    given: list[Tensor] = []
    handle = part.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    try:
        tower(pixel_values=pixels)
    finally:
        handle.remove()
    return given[0]
