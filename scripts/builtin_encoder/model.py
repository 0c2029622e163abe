"""The model that is trained, how it starts, and the helpers that are thrown away afterwards."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

from scripts.builtin_encoder.frames import NAMED, SIDE, VISIBLE

PATCH = 8
MEAN, DEVIATION = 0.5, 0.25
"""Of each channel, as `preprocessor_config.json` says."""


def build_model(tokenizer: CLIPTokenizer) -> CLIPModel:
    """CLIP with two small transformers; the patch positions start as waves, which they learn slowly."""
    config = CLIPConfig(
        projection_dim=128,
        vision_config={
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "image_size": SIDE,
            "patch_size": PATCH,
        },
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
    )
    model = CLIPModel(config)
    with torch.no_grad():
        model.vision_model.embeddings.position_embedding.weight[1:] = _waves(SIDE // PATCH, 128)
    return model


def whiten_patches(model: CLIPModel, pixels: NDArray[np.uint8], side: int) -> None:
    """Start the patch embedding as the whitened principal components of real patches.

    All directions in which patches vary, faint edges as well as broad colour, then reach the first layer
    equally loud, and the tower need not spend its first thousand steps on that.
    """
    frames = normalise(at_side(torch.from_numpy(pixels).float(), side))
    patches = F.unfold(frames, PATCH, stride=PATCH).transpose(1, 2).flatten(0, 1)
    variances, directions = torch.linalg.eigh((patches - patches.mean(0)).T.cov())
    weight = model.vision_model.embeddings.patch_embedding.weight
    loudest = (directions / (variances + 0.01).sqrt()).flip(1)[:, : len(weight)]
    with torch.no_grad():
        weight.copy_(0.3 * loudest.T.reshape(weight.shape))


def _waves(side: int, width: int) -> Tensor:
    """(side * side, width) sine and cosine of row and column at several wavelengths."""
    rates = torch.pi / side * 2.0 ** torch.linspace(-1, 2.5, width // 4)
    angles = torch.arange(side)[:, None] * rates
    line = torch.cat([angles.sin(), angles.cos()], dim=1)
    rows, columns = line[:, None].expand(-1, side, -1), line[None].expand(side, -1, -1)
    return 0.3 * torch.cat([rows, columns], dim=2).reshape(side * side, width)


class Helpers(nn.Module):
    """Linear heads that name what a frame, and a patch that the subject covers, shows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = [len(NAMED[name]) for name in VISIBLE]
        self.sizes = sizes
        self.frame = nn.Linear(width, sum(sizes))
        self.patch = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1 + sum(sizes)))

    def forward(self, pooled: Tensor, patches: Tensor, labels: Tensor, covered: Tensor) -> Tensor:
        """Sum of cross entropies.

        Args:
            pooled: (B, D) the frames' states.
            patches: (B, P, D) the patches' states.
            labels: (B, 4) true values of `VISIBLE`.
            covered: (B, P) True where the subject lies over a patch.
        """
        found = self.patch(patches)
        loss = F.binary_cross_entropy_with_logits(found[..., 0], covered.float())
        loss = loss + self._name(self.frame(pooled), labels)
        rows = labels[:, None].expand(-1, covered.shape[1], -1)[covered]
        return loss + self._name(found[covered][:, 1:], rows)

    def _name(self, logits: Tensor, labels: Tensor) -> Tensor:
        parts = logits.split(self.sizes, dim=1)
        return torch.stack([F.cross_entropy(part, labels[:, n]) for n, part in enumerate(parts)]).sum()


def covered_patches(discs: Tensor, side: int) -> Tensor:
    """(B, P) which patches of frames shrunk to `side` have their middle inside the subject's disc."""
    middles = (torch.arange(side // PATCH) + 0.5) * PATCH * SIDE / side
    dy, dx = middles[:, None] - discs[:, 1, None, None], middles[None] - discs[:, 0, None, None]
    return (dx**2 + dy**2 < discs[:, 2, None, None] ** 2).flatten(1)


def normalise(pixels: Tensor) -> Tensor:
    """uint8 pixels to what the vision tower takes."""
    return (pixels.float() / 255 - MEAN) / DEVIATION


def at_side(pixels: Tensor, side: int) -> Tensor:
    """Frames shrunk to `side`; (B, 3, side, side)."""
    if side == pixels.shape[-1]:
        return pixels
    return F.interpolate(pixels, size=(side, side), mode="bilinear", antialias=True)
