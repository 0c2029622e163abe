"""Towers of open_clip (extra `open-clip`): its own models, transforms and tokenizers, out of a checked folder."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from PIL import Image
from torch import nn

from evenreel.encoders.checkpoint import Checkpoint
from evenreel.encoders.towers import Towers
from evenreel.errors import EncoderError
from evenreel.types import Pixels


class OpenClipTowers(Towers):
    """A loaded model of open_clip; captions are cleaned and cut, pictures prepared as open_clip does it."""

    masks_padding = False

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        return int(self.checkpoint.config["model_cfg"]["embed_dim"])

    @property
    def longest_caption(self) -> int:
        """W, the most tokens that the text tower takes, its own marks included."""
        return int(self.checkpoint.config["model_cfg"]["text_cfg"].get("context_length", 77))

    def prepared(self, pixels: Pixels) -> Mapping[str, torch.Tensor]:
        """Prepare pictures (N, 3, H, W) uint8 by open_clip's own transform."""
        pictures = [Image.fromarray(picture) for picture in pixels.transpose(0, 2, 3, 1).copy()]
        return {"pixel_values": torch.stack([self.processor(picture) for picture in pictures])}

    def prepared_features(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Encode prepared pictures to (N, D), of any length."""
        pictures = inputs["pixel_values"].to(self.device, next(self.model.parameters()).dtype)
        features: torch.Tensor = self.model.encode_image(pictures)
        return features

    def text_features(self, ids: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode token ids (N, W) to words (N, W, D) and sentence (N, D), of any length."""
        tower = getattr(self.model, "text", self.model)
        states: list[torch.Tensor] = []
        handle = tower.ln_final.register_forward_hook(lambda module, inputs, output: states.append(output))
        try:
            sentence = self.model.encode_text(ids.to(self.device))
        finally:
            handle.remove()
        head = tower.text_projection
        words = states[0] if head is None else head(states[0]) if isinstance(head, nn.Linear) else states[0] @ head
        return words, sentence

    def tokens(self, captions: Sequence[str]) -> dict[str, torch.Tensor]:
        """Tokenise captions: ids and mask, (Q, W), padded and cut as open_clip does it."""
        ids = self.tokenizer(list(captions), context_length=self.longest_caption)
        lengths = torch.tensor(self.token_counts(captions)).clamp(max=ids.shape[1])
        mask = torch.arange(ids.shape[1]) < lengths[:, None]  # padding is 0, which is a word's id too
        return self._known({"input_ids": ids, "attention_mask": mask.long()})

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        """Count the tokens of captions before they are cut."""
        inner = getattr(self.tokenizer, "tokenizer", None)
        if inner is None:
            return [len(self.tokenizer.encode(caption)) + 2 for caption in captions]
        cleaned = [self.tokenizer.clean_fn(caption) for caption in captions]
        return [len(row) for row in inner(cleaned, truncation=False, verbose=False)["input_ids"]]

    @property
    def _vocabulary(self) -> int:
        return int(self.checkpoint.config["model_cfg"]["text_cfg"].get("vocab_size", 49_408))


def load_open_clip(checkpoint: Checkpoint, precision: str) -> tuple[Any, Any, Any]:
    """Build a model, its tokenizer and its transform from the files of its folder alone."""
    for package in ("open_clip", "timm", "torchvision"):
        if find_spec(package) is None:
            raise EncoderError(
                f"The model in {checkpoint.folder} is one of open_clip, and {package} is not installed; see "
                "docs/encoders.md."
            )
    from safetensors.torch import load_file

    with _root_logger_left():
        import open_clip
        from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

        alone: dict[str, Any] = {"load_weights": False, "pretrained_image": False, "pretrained_text": False}
        model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{checkpoint.folder}", **alone)
    weights = {name: tensor for path in checkpoint.weights for name, tensor in load_file(path).items()}
    if missing := sorted(model.load_state_dict(weights, strict=False).missing_keys):
        raise EncoderError(
            f"The weights in {checkpoint.folder} lack {len(missing)} tensors of the model, {missing[0]} among them."
        )
    text = checkpoint.config["model_cfg"]["text_cfg"]
    options = {"context_length": text.get("context_length", 77)}
    if (clean := (text.get("tokenizer_kwargs") or {}).get("clean")) is not None:
        options["clean"] = clean
    if text.get("hf_tokenizer_name"):
        alone = {"local_files_only": True, "trust_remote_code": False}
        tokenizer = HFTokenizer(str(checkpoint.folder), **alone, **options)
    else:
        tokenizer = SimpleTokenizer(**options)
    return model.to(getattr(torch, precision)), tokenizer, transform


@contextlib.contextmanager
def _root_logger_left() -> Iterator[None]:
    """Keep open_clip's words from the terminal; it speaks to the root logger, which would get a handler by that."""
    root, handler, before = logging.getLogger(), logging.NullHandler(), logging.root.manager.disable
    root.addHandler(handler)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
        root.removeHandler(handler)
