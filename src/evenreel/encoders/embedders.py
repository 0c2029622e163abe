"""Embedders with instructions: one tower reads captions and sees pictures, each within words that its maker gives.

Captions are queries and pictures are documents, so the words around them differ. They are in
`evenreel.encoders.families`; where each maker publishes them, docs/encoders.md says.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from evenreel.encoders.families import Instructions
from evenreel.encoders.preprocessing import BlockPreprocessing, GemmaPreprocessing
from evenreel.encoders.towers import Towers, in_patches
from evenreel.errors import EncoderError


class Embedder(Towers):
    """A loaded embedder; vectors of captions and of pictures come out of the same tower."""

    masks_padding = True

    @property
    def instructions(self) -> Instructions:
        """Return what is read around captions and pictures."""
        found = self.family.instructions
        assert found is not None
        return found

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        text = self.model.config.text_config
        return int(getattr(text, "embedding_dim", text.hidden_size))

    def prepared_features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Encode (N, 3, h, w), as `prepare` makes them, to (N, D), of any length."""
        preprocessing = self.checkpoint.preprocessing
        assert isinstance(preprocessing, BlockPreprocessing)
        inputs = inputs.to(self.model.dtype)
        form = _gemma_patches if isinstance(preprocessing, GemmaPreprocessing) else _qwen_patches
        ids = self._picture_ids(inputs, preprocessing).to(self.device)
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **form(inputs, preprocessing)}
        if form is _qwen_patches:
            given["mm_token_type_ids"] = (ids == self.model.config.image_token_id).int()
        return self._pooled(self.model(**given).last_hidden_state, given["attention_mask"])

    def text_features(self, ids: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode token ids (N, W) to the words after the instruction (N, W - I, D), and the sentence (N, D)."""
        assert mask is not None
        mask = mask.to(self.device)
        states = self.model(input_ids=ids.to(self.device), attention_mask=mask).last_hidden_state
        return states[:, self._instruction_length :], self._pooled(states, mask)

    def tokens(self, captions: Sequence[str]) -> dict[str, torch.Tensor]:
        """Tokenise captions in their instruction: ids and mask, (Q, W), padded on the right and cut."""
        form: dict[str, Any] = {"padding": "longest", "padding_side": "right", "truncation": True}
        found = self.tokenizer(self._instructed(captions), max_length=self.longest_caption, return_tensors="pt", **form)
        return self._checked({name: found[name] for name in ("input_ids", "attention_mask")})

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        """Count the tokens of captions and of their instruction, before they are cut."""
        return super().token_counts(self._instructed(captions))

    def _instructed(self, captions: Sequence[str]) -> list[str]:
        return [self.instructions.caption.format(caption or self.instructions.empty) for caption in captions]

    @cached_property
    def _instruction_length(self) -> int:
        """I, the number of tokens before a caption: those that two captions without a common letter share."""
        first, second = self.tokenizer([self.instructions.caption.format(letter) for letter in "a0"])["input_ids"]
        pairs = enumerate(zip(first, second, strict=False))
        return next((place for place, (one, other) in pairs if one != other), 0)

    def _picture_ids(self, inputs: torch.Tensor, preprocessing: BlockPreprocessing) -> torch.Tensor:
        """(N, W) ids of the tokens of prepared pictures in their instruction."""
        blocks = inputs.shape[-2] * inputs.shape[-1] // preprocessing.block_side**2
        words = self.instructions
        ids = self.tokenizer(words.picture.format(words.begin + words.token * blocks + words.end))["input_ids"]
        if ids.count(self.model.config.image_token_id) != blocks:
            raise EncoderError(
                f"The tokenizer and the settings in {self.checkpoint.folder} do not belong together: "
                f"{words.token} is not the token of pictures there."
            )
        return torch.tensor(ids).expand(len(inputs), -1)

    def _pooled(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(N, W, D) and mask (N, W), padded on the right, -> (N, D)."""
        if self.instructions.pooling == "lasttoken":
            return states[torch.arange(len(states), device=states.device), mask.sum(1) - 1]
        weights = mask[..., None].to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)


def _gemma_patches(inputs: torch.Tensor, preprocessing: BlockPreprocessing) -> dict[str, torch.Tensor]:
    """(N, 3, h, w) -> patches (N, P, side * side * 3), and the column and row of each (N, P, 2)."""
    found = in_patches(inputs, preprocessing.patch_side)
    rows, columns = found["spatial_shapes"][0].tolist()
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).flip(1).to(inputs.device)
    return {"pixel_values": found["pixel_values"], "image_position_ids": places.expand(len(inputs), -1, -1)}


def _qwen_patches(inputs: torch.Tensor, preprocessing: BlockPreprocessing) -> dict[str, torch.Tensor]:
    """(N, 3, h, w) -> patches of all pictures (N * P, 3 * 2 * side * side), block by block, and their grids (N, 3).

    A patch holds two frames; of a picture it holds the same one twice.
    """
    side, block = preprocessing.patch_side, preprocessing.block
    rows, columns = (length // side for length in inputs.shape[-2:])
    blocks = inputs.view(len(inputs), 3, rows // block, block, side, columns // block, block, side)
    patches = blocks.permute(0, 2, 5, 3, 6, 1, 4, 7)[:, :, :, :, :, :, None].expand(*[-1] * 6, 2, -1, -1)
    grid = torch.tensor([[1, rows, columns]], device=inputs.device).expand(len(inputs), -1)
    return {"pixel_values": patches.flatten(5).flatten(0, 4), "image_grid_thw": grid}
