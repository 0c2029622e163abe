"""A loaded model: two towers, their tokenizer, and how its pictures are prepared."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from evenreel.encoders.checkpoint import Checkpoint
from evenreel.encoders.families import Family
from evenreel.encoders.preprocessing import Preprocessing
from evenreel.errors import EncoderError
from evenreel.types import Pixels, WindowRule

@dataclass(frozen=True)
class Towers:
    """A loaded model: both towers, tokenizer, and the maker's processor of pictures where it prepares them."""

    checkpoint: Checkpoint
    model: Any
    tokenizer: Any
    processor: Any
    device: torch.device
    precision: str

    @property
    def family(self) -> Family:
        """Return the kind of model that it is."""
        return self.checkpoint.family

    @property
    def preprocessing(self) -> Preprocessing:
        """Return the preparation of pictures of one size, which patches and training need."""
        if self.checkpoint.preprocessing is None:
            raise EncoderError(f"{self.family.title} takes pictures of any size; name a model of fixed resolution.")
        return self.checkpoint.preprocessing

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
        if self.family.windows is None:
            return WindowRule()
        return replace(self.family.windows.rule, frames=self.model.config.vision_config.num_frames)

    def window_features(self, pixels: Pixels) -> torch.Tensor:
        """Encode (N, T, 3, H, W) uint8 to (N, D), of any length; a single frame is taken for a still video."""
        if self.family.windows is None:
            features = self.prepared_features(self.prepared(pixels[:, 0]))
        else:
            inputs = torch.from_numpy(self.preprocessing.prepare(pixels.reshape(-1, *pixels.shape[2:])))
            videos = inputs.view(*pixels.shape[:2], *inputs.shape[1:]).expand(-1, self.window.frames, -1, -1, -1)
            given = {self.family.windows.pixels: videos.to(self.device, self.model.dtype)}
            features = self.model.get_video_features(**given).pooler_output.flatten(1)
        self.check_lengths(features.shape[-1])
        return features

    def prepared(self, pixels: Pixels) -> Mapping[str, torch.Tensor]:
        """Prepare pictures (N, 3, H, W) uint8 as the processor of the model does it, by the names of its inputs."""
        if self.processor is None:
            return {"pixel_values": torch.from_numpy(self.preprocessing.prepare(pixels))}
        pictures = list(pixels.transpose(0, 2, 3, 1))
        found = self.processor(images=pictures, return_tensors="pt", input_data_format="channels_last")
        return dict(found)

    def prepared_features(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Encode prepared pictures to (N, D), of any length."""
        features: torch.Tensor = self.model.get_image_features(**self.placed(inputs)).pooler_output
        return features

    def placed(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Put inputs on the device, and numbers into the precision of the model."""
        return {
            name: one.to(self.device, self.model.dtype if one.is_floating_point() else one.dtype)
            for name, one in inputs.items()
        }

    def check_lengths(self, of_pictures: int) -> None:
        """Refuse a model whose vectors of pictures and of captions differ in length."""
        if of_pictures != self.dimension:
            raise EncoderError(
                f"The model in {self.checkpoint.folder} gives captions vectors of {self.dimension} numbers and "
                f"pictures vectors of {of_pictures}, so they cannot be compared; use one whose towers were trained "
                "together."
            )

    def text_features(self, ids: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode token ids (N, W) to words (N, W, D) and sentence (N, D), of any length."""
        mask = None if mask is None else mask.to(self.device)
        output = self.model.get_text_features(input_ids=ids.to(self.device), attention_mask=mask)
        words, head = output.last_hidden_state[:, : ids.shape[1]], self._word_head  # VideoPrism's mark comes after them
        return words if head is None else head(words), output.pooler_output

    def tokens(self, captions: Sequence[str]) -> dict[str, torch.Tensor]:
        """Tokenise captions: ids and mask, (Q, W), padded and cut as this family was trained."""
        found = self.tokenizer(
            list(captions),
            padding="max_length" if self.family.padded else "longest",
            padding_side="right",
            truncation=True,
            max_length=self.longest_caption,
            return_attention_mask=True,
            return_tensors="pt",
        )
        tokens = {name: found[name] for name in ("input_ids", "attention_mask")}
        if self.family.averages_words:  # a caption without words is read off its first place, not divided by none
            tokens["attention_mask"][:, 0] = 1
        return self._known(tokens)

    def _known(self, tokens: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Refuse tokens that the model does not have, over which a GPU would be lost."""
        if tokens["input_ids"].max() >= self._vocabulary:
            raise EncoderError(
                f"The tokenizer and the weights in {self.checkpoint.folder} do not belong together: it makes tokens "
                "that the model does not have."
            )
        return tokens

    @property
    def _vocabulary(self) -> int:
        return int(self.model.config.text_config.vocab_size)

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        """Count the tokens of captions before they are cut."""
        ids = self.tokenizer(list(captions), truncation=False, verbose=False)["input_ids"]
        return [len(row) for row in ids]
