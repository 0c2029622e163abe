"""A loaded model: two towers and a tokenizer."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from evenreel.encoders.checkpoint import Checkpoint
from evenreel.encoders.families import FAMILIES, Family
from evenreel.encoders.preprocessing import PatchPreprocessing
from evenreel.encoders.resizing import prepare
from evenreel.errors import EncoderError
from evenreel.types import WindowRule


@dataclass(frozen=True)
class Towers:
    """A loaded model: both towers, tokenizer and preprocessing."""

    checkpoint: Checkpoint
    model: Any
    tokenizer: Any
    device: torch.device
    precision: str

    @property
    def whole(self) -> Towers:
        """Return the towers themselves, as `TextFirstTowers.whole` does."""
        return self

    @property
    def family(self) -> Family:
        """Return the kind of model that it is."""
        return FAMILIES[self.checkpoint.family]

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        head = self._word_head
        return int(getattr(head, "out_features", self.model.config.text_config.hidden_size))

    @property
    def longest_caption(self) -> int:
        """W, the most tokens that the text tower takes, its own marks included."""
        positions = int(self.model.config.text_config.max_position_embeddings) - self.family.first_position
        return min(positions, self.family.longest or positions)

    @property
    def _word_head(self) -> Any | None:
        return operator.attrgetter(self.family.word_head)(self.model) if self.family.word_head else None

    @property
    def masks_padding(self) -> bool:
        """True if the text tower gets a mask of padding; SigLIP was trained without."""
        return "attention_mask" in self.tokenizer.model_input_names

    @property
    def window(self) -> WindowRule:
        """Return the rule of windows, with the number of frames that the configuration states."""
        windows = self.family.windows
        if windows is None or not windows.frames_at:
            return WindowRule() if windows is None else windows.rule
        return replace(windows.rule, frames=operator.attrgetter(windows.frames_at)(self.model.config))

    def window_features(self, pixels: torch.Tensor) -> torch.Tensor:
        """Encode (N, T, 3, H, W) uint8 to (N, D), of any length; a single frame is taken for a still video."""
        inputs = prepare(pixels.flatten(0, 1).to(self.device), self.checkpoint.preprocessing)
        if self.family.windows is None:
            features = self.prepared_features(inputs)
        else:
            videos = inputs.view(*pixels.shape[:2], *inputs.shape[1:]).to(self.model.dtype)
            videos = videos.expand(-1, self.window.frames, -1, -1, -1)
            features = self.model.get_video_features(**{self.family.windows.pixels: videos}).pooler_output.flatten(1)
        self.check_lengths(features.shape[-1])
        return features

    def check_lengths(self, of_pictures: int) -> None:
        """Refuse a model whose vectors of pictures and of captions differ in length."""
        if of_pictures != self.dimension:
            raise EncoderError(
                f"The model in {self.checkpoint.folder} gives captions vectors of {self.dimension} numbers and "
                f"pictures vectors of {of_pictures}, so they cannot be compared; use one whose towers were trained "
                "together."
            )

    def prepared_features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Encode (N, 3, h, w), as `prepare` makes them, to (N, D), of any length."""
        given = {"pixel_values": inputs.to(self.model.dtype)}
        if isinstance(self.checkpoint.preprocessing, PatchPreprocessing):
            given = in_patches(given["pixel_values"], self.checkpoint.preprocessing.patch_side)
        features: torch.Tensor = self.model.get_image_features(**given).pooler_output
        return features

    def text_features(self, ids: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode token ids (N, W) to words (N, W, D) and sentence (N, D), of any length."""
        mask = None if mask is None else mask.to(self.device)
        output = self.model.get_text_features(input_ids=ids.to(self.device), attention_mask=mask)
        words, head = output.last_hidden_state[:, : ids.shape[1]], self._word_head  # VideoPrism's mark comes after them
        return words if head is None else head(words), output.pooler_output

    def tokens(self, captions: Sequence[str]) -> dict[str, torch.Tensor]:
        """Tokenise captions: ids and mask, (Q, W), padded and cut as this family was trained."""
        tokens = dict(
            self.tokenizer(
                list(captions),
                padding="max_length" if self.family.padded else "longest",
                truncation=True,
                max_length=self.longest_caption,
                return_attention_mask=True,
                return_tensors="pt",
            )
        )
        if self.family.averages_words:  # a caption without words is read off its first place, not divided by none
            tokens["attention_mask"][:, 0] = 1
        return self._checked(tokens)

    def _checked(self, tokens: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return known_tokens(tokens, self._vocabulary, self.checkpoint)

    @property
    def _vocabulary(self) -> int:
        return int(self.model.config.text_config.vocab_size)

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        """Count the tokens of captions before they are cut."""
        ids = self.tokenizer(list(captions), truncation=False, verbose=False)["input_ids"]
        return [len(row) for row in ids]


def in_patches(inputs: torch.Tensor, side: int) -> dict[str, torch.Tensor]:
    """Cut prepared pictures of one size, (N, 3, h, w)."""
    shape = [length // side for length in inputs.shape[-2:]]
    patches = inputs.unfold(2, side, side).unfold(3, side, side)  # (N, 3, rows, columns, side, side)
    flat = patches.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
    return {
        "pixel_values": flat,
        "spatial_shapes": torch.tensor([shape], device=flat.device).expand(len(flat), 2),
        "pixel_attention_mask": torch.ones(flat.shape[:2], dtype=torch.int32, device=flat.device),
    }


def known_tokens(tokens: dict[str, torch.Tensor], words: int, checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """Return token ids after a check that the model has them: on a GPU."""
    if tokens["input_ids"].max() >= words:
        raise EncoderError(
            f"The tokenizer and the weights in {checkpoint.folder} do not belong together: it makes tokens that the "
            "model does not have."
        )
    return tokens


def check_trunk(trunk: Any, checkpoint: Checkpoint) -> None:
    """Refuse a picture tower of timm that takes pictures of another size than the processor makes."""
    taken = getattr(getattr(trunk, "patch_embed", None), "img_size", None)
    if taken is not None and tuple(taken) != checkpoint.preprocessing.output_size:
        raise EncoderError(
            f"The processor in {checkpoint.folder} makes pictures of {checkpoint.preprocessing.output_size}, its tower "
            f"takes {taken[0]} x {taken[1]}; the files do not belong together."
        )
