"""Embedders with instructions: one tower reads captions and sees pictures, each within words that its maker gives.

Captions are queries and pictures are documents, so the words around them differ. They are in
`evenreel.encoders.families`; where each maker publishes them, docs/encoders.md says. sentence-transformers reads such
models too, but its processors import torchvision, which the ones of transformers do without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import torch

from evenreel.encoders.families import Instructions
from evenreel.encoders.towers import Towers
from evenreel.errors import EncoderError
from evenreel.types import Pixels


class Embedder(Towers):
    """A loaded embedder; vectors of captions and of pictures come out of the same tower."""

    masks_padding = True

    @property
    def instructions(self) -> Instructions:
        """Return what is read around captions and pictures."""
        assert self.family.instructions is not None
        return self.family.instructions

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        text = self.model.config.text_config
        return int(getattr(text, "embedding_dim", text.hidden_size))

    def prepared(self, pixels: Pixels) -> Mapping[str, torch.Tensor]:
        """Prepare pictures of one size, and the tokens of their instruction with one for each part of a picture."""
        pictures = list(pixels.transpose(0, 2, 3, 1))
        found = dict(self.processor(images=pictures, return_tensors="pt", **self.instructions.options))
        if "image_grid_thw" in found:
            parts = int(found["image_grid_thw"][0].prod()) // self.processor.merge_size**2
        else:
            parts = int(found.pop("num_soft_tokens_per_image")[0])
        words = self.instructions
        ids = self.tokenizer(words.picture.format(words.begin + words.token * parts + words.end))["input_ids"]
        if ids.count(self.model.config.image_token_id) != parts:
            raise EncoderError(
                f"The tokenizer and the settings in {self.checkpoint.folder} do not belong together: "
                f"{words.token} is not the token of pictures there."
            )
        tokens = torch.tensor(ids).expand(len(pixels), -1)
        if "image_grid_thw" in found:
            found["mm_token_type_ids"] = (tokens == self.model.config.image_token_id).int()
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **found}

    def prepared_features(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Encode prepared pictures to (N, D), of any length."""
        given = self.placed(inputs)
        return self._pooled(self.model(**given).last_hidden_state, given["attention_mask"])

    def text_features(self, ids: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode token ids (N, W) to the words after the instruction (N, W - I, D), and the sentence (N, D)."""
        assert mask is not None
        mask = mask.to(self.device)
        states = self.model(input_ids=ids.to(self.device), attention_mask=mask).last_hidden_state
        return states[:, self._instruction_length :], self._pooled(states, mask)

    def tokens(self, captions: Sequence[str]) -> dict[str, torch.Tensor]:
        """Tokenise captions in their instruction: ids and mask, (Q, W), padded on the right and cut."""
        return super().tokens(self._instructed(captions))

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

    def _pooled(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(N, W, D) and mask (N, W), padded on the right, -> (N, D)."""
        if self.instructions.pooling == "lasttoken":
            return states[torch.arange(len(states), device=states.device), mask.sum(1) - 1]
        weights = mask[..., None].to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)
