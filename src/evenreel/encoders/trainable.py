"""Towers with gradients: the frozen encoder's model as a torch module that training changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.encoders.encoder import clean_captions
from evenreel.encoders.towers import Towers
from evenreel.errors import UsageError

_UNUSED = ("logit_scale", "logit_bias")  # no feature depends on them; the matcher has a scale of its own


class TokenIds(NamedTuple):
    """Captions as token ids (Q, W) and their mask (Q, W), True = real."""

    ids: Tensor
    mask: Tensor


class TrainableTowers(nn.Module):
    """Image and text towers in training; with `train` off, it equals the frozen encoder and learns nothing."""

    def __init__(self, towers: Towers, *, train: bool, frozen: Sequence[str] = ()) -> None:
        if not towers.family.trainable:
            raise UsageError(f"Models of the kind {towers.family.title} are not trained here, only used as they are.")
        super().__init__()
        self.model = towers.model
        self.learns = train
        self._towers = towers
        names = [name for name, _ in self.model.named_parameters()]
        for pattern in frozen:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise UsageError(
                    f"No parameter of the backbone fits {pattern!r} (backbone.frozen); its names are like {names[0]}."
                )
        for name, parameter in self.model.named_parameters():
            still = any(fnmatchcase(name, pattern) for pattern in (*_UNUSED, *frozen))
            parameter.requires_grad_(train and not still)

    @property
    def towers(self) -> Towers:
        """Return the model on its present device, with tokenizer and preprocessing."""
        return replace(self._towers, device=next(self.model.parameters()).device)

    @property
    def dimension(self) -> int:
        return self._towers.dimension

    def train(self, mode: bool = True) -> TrainableTowers:
        """Set training mode, which towers that learn nothing never enter."""
        super().train(mode and self.learns)
        return self

    def checkpoint_layers(self) -> None:
        """Recompute each layer in the backward pass, instead of keeping its activations."""
        model = self.model
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()  # the name of old

    def encode_frames(self, pixels: Tensor) -> Tensor:
        """Encode (N, 3, h, w) uint8, resized and cut for the tower, to (N, D) float32, rows of unit length."""
        with self._gradients():
            how = self._towers.preprocessing
            mean, std = (torch.tensor(values, device=pixels.device).view(3, 1, 1) for values in (how.mean, how.std))
            inputs = {"pixel_values": (pixels * how.scale - mean) / std}
            return F.normalize(self.towers.prepared_features(inputs).float(), dim=-1)

    def encode_text(self, tokens: TokenIds) -> tuple[Tensor, Tensor]:
        """Encode captions to words (Q, W, D) of any length, 0 for padding, and unit sentences (Q, D), float32."""
        with self._gradients():
            mask = tokens.mask if self._towers.masks_padding else None
            words, sentence = self.towers.text_features(tokens.ids, mask)
            return words.float().masked_fill(~tokens.mask[..., None], 0.0), F.normalize(sentence.float(), dim=-1)

    def _gradients(self) -> nullcontext[None] | torch.no_grad:
        return nullcontext() if self.learns else torch.no_grad()


def shortened(tokens: TokenIds) -> TokenIds:
    """Cut the positions that are padding in all captions."""
    longest = int(tokens.mask.sum(1).max())
    return TokenIds(tokens.ids[:, :longest], tokens.mask[:, :longest])


def tokenise(towers: Towers, captions: Sequence[str], max_words: int) -> TokenIds:
    """Tokenise captions, cut to `max_words` with the end mark kept, as the tokenizer cuts.

    SigLIP reads a sentence off its last place, so its captions have the full length whatever `max_words` is.
    """
    given = towers.tokens(clean_captions(captions))
    ids, mask = given["input_ids"], given["attention_mask"].bool()
    if towers.family.padded or ids.shape[1] <= max_words:
        return TokenIds(ids, mask)
    long = mask[:, max_words]
    ends = ids.gather(1, mask.sum(1, keepdim=True) - 1)[:, 0]
    kept = ids[:, :max_words].clone()
    kept[long, -1] = ends[long]
    return TokenIds(kept, mask[:, :max_words])


def takes_whole(towers: Towers, caption: str) -> bool:
    """Return whether the text tower takes a caption whole, with nothing cut off."""
    return towers.token_counts(clean_captions([caption]))[0] <= towers.longest_caption
