"""Features of each patch of a frame, in the space of captions.

The last tokens of CLIP's patches lie elsewhere: only the class token was ever trained to meet captions. MaskCLIP (Zhou
et al., ECCV 2022, arXiv 2112.01071, section 3.3) takes what the last attention of a tower would read of each patch, its
value, instead. Here this is what the attention gives if it looks at that patch alone, and what follows it in the tower
is kept. The head of SigLIP is just that, so there a patch's feature is what the frame's would be. In CLIP's last layer
the token that attends is added; it is left out here, for it says what the whole frame shows, and every patch would
show that. docs/bima.md has what each of these choices finds in rendered scenes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from evenreel.errors import UsageError


def patch_features(kind: str, model: Any, inputs: Tensor) -> Tensor:
    """Compute the features (N, rows, columns, D) of all patches of prepared frames (N, 3, h, w), of any length."""
    rows, columns = patch_grid(kind, model)
    patches = _PATCHES[kind](model, inputs)
    return patches.reshape(len(patches), rows, columns, -1)


def patch_grid(kind: str, model: Any) -> tuple[int, int]:
    """Return the rows and columns of patches that a frame is cut into."""
    if kind not in _PATCHES:
        raise UsageError(f"Patches are encoded by {' or '.join(_PATCHES)}, not by {kind}.")
    side = model.config.vision_config.image_size // model.config.vision_config.patch_size
    return side, side


def _clip_patches(model: Any, pixels: Tensor) -> Tensor:
    """(N, P, D): the value of each patch through the rest of the last layer."""
    vision = model.vision_model
    layer = vision.encoder.layers[-1]
    tokens = _input_of(layer.layer_norm1, vision, pixels)[:, 1:]
    attended = layer.self_attn.out_proj(layer.self_attn.v_proj(layer.layer_norm1(tokens)))
    pooled = attended + layer.mlp(layer.layer_norm2(attended))
    features: Tensor = model.visual_projection(vision.post_layernorm(pooled))
    return features


def _siglip_patches(model: Any, pixels: Tensor) -> Tensor:
    """(N, P, D): the head is given one patch at a time, so that its attention has nothing else to look at."""
    tokens = model.vision_model(pixel_values=pixels).last_hidden_state
    alone = tokens.flatten(0, 1)[:, None]
    features: Tensor = model.vision_model.head(alone).unflatten(0, tokens.shape[:2])
    return features


_PATCHES: dict[str, Callable[[Any, Tensor], Tensor]] = {"clip": _clip_patches, "siglip": _siglip_patches}


def _input_of(part: torch.nn.Module, tower: torch.nn.Module, pixels: Tensor) -> Tensor:
    """What a part of a tower is given when the tower sees some frames."""
    given: list[Tensor] = []
    handle = part.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    try:
        tower(pixel_values=pixels)
    finally:
        handle.remove()
    return given[0]
