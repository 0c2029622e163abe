"""Towers of open_clip (extra `open-clip`): the models that timm and open_clip have and transformers has not."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from evenreel.encoders.checkpoint import Checkpoint
from evenreel.encoders.families import OPEN_CLIP, Family
from evenreel.encoders.towers import Towers, check_trunk
from evenreel.errors import EncoderError

_PACKAGES = ("open_clip", "timm", "torchvision")


class OpenClipTowers(Towers):
    """A loaded model of open_clip; captions are cleaned and cut, pictures prepared as open_clip does it."""

    masks_padding = False

    @property
    def family(self) -> Family:
        """Return the kind of model that it is."""
        return OPEN_CLIP

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        return int(self.checkpoint.config["model_cfg"]["embed_dim"])

    @property
    def longest_caption(self) -> int:
        """W, the most tokens that the text tower takes, its own marks included."""
        return int(self.checkpoint.config["model_cfg"]["text_cfg"].get("context_length", 77))

    def prepared_features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Encode (N, 3, h, w), as `prepare` makes them, to (N, D), of any length."""
        features: torch.Tensor = self.model.encode_image(inputs.to(next(self.model.parameters()).dtype))
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
        inner = getattr(self.tokenizer, "tokenizer", None)
        if inner is None:
            ids = self.tokenizer(list(captions), context_length=self.longest_caption)
            ends = (ids == self.tokenizer.eot_token_id).int().argmax(1, keepdim=True)
            mask = (torch.arange(ids.shape[1]) <= ends).long()  # padding is 0, which is a word's id too
            return self._checked({"input_ids": ids, "attention_mask": mask})
        cleaned = [self.tokenizer.clean_fn(caption) for caption in captions]
        form: dict[str, Any] = {"padding": "max_length", "truncation": True, "return_tensors": "pt"}
        found = inner(cleaned, max_length=self.longest_caption, return_attention_mask=True, **form)
        return self._checked({name: found[name] for name in ("input_ids", "attention_mask")})

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


def load_open_clip(checkpoint: Checkpoint, precision: str) -> tuple[Any, Any]:
    """Build a model and its tokenizer from the files of its folder alone."""
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise EncoderError(
                f"The model in {checkpoint.folder} is one of open_clip, and {package} is not installed; see "
                "docs/encoders.md."
            )
    from safetensors.torch import load_file

    with _root_logger_left():
        import open_clip

        alone: dict[str, Any] = {"load_weights": False, "pretrained_image": False, "pretrained_text": False}
        model = open_clip.create_model(f"local-dir:{checkpoint.folder}", **alone)
    check_trunk(getattr(model.visual, "trunk", None), checkpoint)
    weights = {name: tensor for path in checkpoint.weights for name, tensor in load_file(path).items()}
    if missing := sorted(model.load_state_dict(weights, strict=False).missing_keys):
        raise EncoderError(
            f"The weights in {checkpoint.folder} lack {len(missing)} tensors of the model, {missing[0]} among them."
        )
    return model.to(getattr(torch, precision)), _tokenizer(checkpoint)


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


def _tokenizer(checkpoint: Checkpoint) -> Any:
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

    text = checkpoint.config["model_cfg"]["text_cfg"]
    length, clean = text.get("context_length", 77), (text.get("tokenizer_kwargs") or {}).get("clean")
    options = {"context_length": length, **({} if clean is None else {"clean": clean})}
    if not text.get("hf_tokenizer_name"):
        return SimpleTokenizer(**options)
    return HFTokenizer(str(checkpoint.folder), local_files_only=True, trust_remote_code=False, **options)
